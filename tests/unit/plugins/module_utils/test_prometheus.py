# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus is asked, by whoever may, and what it cannot or does not answer is told in words that hold no secret."""

from __future__ import annotations

import base64
import math
import ssl
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _prometheus
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import Prometheus, Sample, UnansweredError
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import PROMETHEUS_ARGUMENTS, prometheus_of
from ansible_collections.gpuops.defrag.tests.cluster.certificates import Authority
from ansible_collections.gpuops.defrag.tests.unit.prometheus_server import PrometheusServer, Says, refusal, vector

SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prometheus, "FIRST_WAIT", 0.001)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


FIRING: dict[str, tuple[Any, str | None]] = {
    "nothing comes back": (vector(), None),
    "one sample": (vector("3"), "q() fires: 3"),
    "a sample of 0 is one too": (vector("0"), "q() fires: 0"),
    "several": (vector("3", "4"), "q() fires: 3 and 1 more"),
    "a scalar": ({"status": "success", "data": {"resultType": "scalar", "result": [1.0, "2"]}}, "q() fires: 2"),
    "NaN": (vector("NaN"), "q(): nothing is known, as a value is NaN"),
    "warnings": (vector(warnings=["partial"]), "q(): nothing is known for sure: partial"),
    "an error": ({"status": "error", "error": "x"}, "q(): nothing is known: "),
    "another shape": ({"status": "success"}, "q(): nothing is known: the answer to q() has another shape"),
    "no JSON": ("<html>", "q(): nothing is known: "),
    "refused": (Says(403, refusal("forbidden", "no")), "q(): nothing is known: "),
}


@pytest.mark.parametrize(("answer", "told"), FIRING.values(), ids=FIRING)
def test_a_query_fires_upon(answer: Any, told: str | None) -> None:
    with PrometheusServer(answer) as server:
        found = Prometheus(f"{server.url}/prefix/").fires(["q()"])
    assert [(asked.path, asked.parameters) for asked in server.asked] == [
        ("/prefix/api/v1/query", {"query": "q()", "partial_response": "false"})
    ]
    assert (found is None) == (told is None)
    assert told is None or (found is not None and found.startswith(told))


def test_the_samples_of_an_expression_are_as_old_as_its_evaluation() -> None:
    with PrometheusServer(vector("3", "NaN", "+Inf", at=700)) as server:
        answer = Prometheus(server.url).instant("sum(m)", max_age=60)
    assert [(sample.labels["n"], sample.time) for sample in answer.samples] == [("0", 700), ("1", 700), ("2", 700)]
    values = [sample.value for sample in answer.samples]
    assert values[0] == 3
    assert math.isnan(values[1])
    assert values[2] == math.inf
    # The server is to look no further back.
    assert [asked.parameters["lookback_delta"] for asked in server.asked] == ["60"]


@pytest.mark.parametrize("query", ["m", "m{a=\"}\",b=~'x'}", '{__name__="m"}'])
def test_the_samples_of_a_selector_are_as_old_as_they_are(query: str) -> None:
    with PrometheusServer(vector("3", "4", at=700), vector("640.5", "610", at=700)) as server:
        answer = Prometheus(server.url).instant(query)
    assert [(sample.value, sample.time) for sample in answer.samples] == [(3, 640.5), (4, 610)]
    assert server.asked[1].parameters == {"query": f"timestamp({query})", "time": "700.000", "partial_response": "false"}


def test_a_range_comes_point_by_point() -> None:
    series = [{"metric": {"a": "x"}, "values": [[10, "1"], [20, "2"]]}, {"metric": {"a": "y"}, "values": [[20, "3"]]}]
    with PrometheusServer({"status": "success", "data": {"resultType": "matrix", "result": series}}) as server:
        answer = Prometheus(server.url).range("q", 10, 20, 10)
    assert answer.samples == [Sample({"a": "x"}, 1, 10), Sample({"a": "x"}, 2, 20), Sample({"a": "y"}, 3, 20)]
    assert server.asked[0].parameters == {
        "query": "q",
        "start": "10.000",
        "end": "20.000",
        "step": "10",
        "partial_response": "false",
    }


MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": []}}
HISTOGRAM = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {}]}]}}
LARGE = {"resultType": "vector", "result": [{"metric": {}, "value": [1, 10**400]}]}
UNANSWERED: dict[str, tuple[Any, str]] = {
    "a range": (MATRIX, "comes to a matrix"),
    "a native histogram": (HISTOGRAM, "another shape"),
    "a value larger than any number": (vector("1") | {"data": LARGE}, "another shape"),
    "a value within values without end": ("[" * 100_000, "as no Prometheus does"),
    "a login page": ("<html>", "as no Prometheus does"),
    "400": (Says(400, refusal("bad_data", "1:3: parse error")), "cannot read the query: 1:3: parse error"),
    "401": (Says(401, "Unauthorized"), "wants other credentials; give prometheus_token"),
    "401 of Mimir": (Says(401, "no org id\n"), "wants a tenant; give it in prometheus_headers"),
    "403": (Says(403, "no right"), "may not ask it: no right"),
    "404": (Says(404, "404 page not found"), "up to but without /api/v1"),
    "422": (Says(422, refusal("execution", "many-to-many")), "cannot evaluate the query: many-to-many"),
    "a redirect": (Says(302, headers={"Location": "https://user:pass@login.example.com/x"}), "leads elsewhere"),
    "503 of a slow query": (Says(503, refusal("timeout", "query timed out")), "the query timed out"),
}


@pytest.mark.parametrize(("answer", "told"), UNANSWERED.values(), ids=UNANSWERED)
def test_what_does_not_pass_is_asked_once_and_told_in_words(answer: Any, told: str) -> None:
    with PrometheusServer(answer) as server, pytest.raises(UnansweredError, match=told):
        Prometheus(server.url).instant("sum(m)")
    assert len(server.asked) == 1


PASSING = {
    "a lost connection": Says(0),
    "429": Says(429, refusal("too_many", "slow down")),
    "500": Says(500, "oops"),
    "503 of what is in front": Says(503, "no backend"),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_asked_again(fault: Says) -> None:
    with PrometheusServer(fault, fault, vector("3")) as server:
        assert [sample.value for sample in Prometheus(server.url).instant("sum(m)").samples] == [3]
    assert len(server.asked) == 3


def test_what_does_not_pass_in_time_is_unknown() -> None:
    with PrometheusServer(Says(503, "no backend", {"Retry-After": "60"})) as server, pytest.raises(UnansweredError, match="503"):
        Prometheus(server.url).instant("m")
    assert len(server.asked) == 1
    with pytest.raises(UnansweredError, match="cannot be reached"):
        Prometheus(server.url, patience=0.1).instant("m")
    with pytest.raises(UnansweredError, match="cannot be reached"):
        Prometheus(server.url, proxy="http://a..b:3128", patience=0).instant("m")


def test_a_long_query_goes_into_the_body() -> None:
    query = f"sum(m{{a=~{'x' * _prometheus.LONGEST_URL!r}}})"
    with PrometheusServer(vector()) as server:
        Prometheus(server.url).instant(query)
    assert [(asked.method, asked.path, asked.parameters["query"]) for asked in server.asked] == [("POST", "/api/v1/query", query)]


BASIC = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
WHO: dict[str, tuple[str, dict[str, Any], str]] = {
    "a token": ("", {"token": f"{SECRET}\n"}, f"Bearer {SECRET}"),
    "user and password": ("", {"username": "me", "password": SECRET}, BASIC),
    "user and password in the address": (f"me:{SECRET}@", {}, BASIC),
    "a header": ("", {"headers": {"authorization": SECRET}}, SECRET),
}


@pytest.mark.parametrize(("user", "given", "sent"), WHO.values(), ids=WHO)
def test_who_asks_is_sent_and_not_told(user: str, given: dict[str, Any], sent: str) -> None:
    with PrometheusServer(Says(403, f"I was sent {sent} by {SECRET}")) as server:
        with pytest.raises(UnansweredError) as told:
            Prometheus(server.url.replace("://", f"://{user}"), **given).instant("m")
        assert {name.lower(): value for name, value in server.asked[0].headers.items()}["authorization"] == sent
    assert "I was sent ***" in str(told.value)
    assert SECRET not in str(told.value)
    assert BASIC not in str(told.value)


def test_a_proxy_is_asked_instead() -> None:
    with PrometheusServer(vector()) as proxy:
        Prometheus("http://prometheus.invalid", proxy=proxy.url).instant("m")
    assert [asked.path for asked in proxy.asked] == ["/api/v1/query"]
    assert proxy.asked[0].headers["Host"] == "prometheus.invalid"


def test_certificates_are_checked_and_shown(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    serving, client = authority.issue("serving", user="prometheus"), authority.issue("client", user="me")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(serving.certificate, serving.key)
    context.verify_mode = ssl.CERT_REQUIRED
    shown: dict[str, Any] = {"client_cert": str(client.certificate), "client_key": str(client.key)}
    with PrometheusServer(vector("3"), context=context) as server:
        trusting: list[dict[str, Any]] = [{"ca_cert": str(authority.certificate)}, {"validate_certs": False}]
        distrusting: list[dict[str, Any]] = [{}, {"ca_cert": str(other.certificate)}]
        for trust in trusting:
            assert len(Prometheus(server.url, **shown, **trust).instant("sum(m)").samples) == 1
        for distrust in distrusting:
            with pytest.raises(UnansweredError, match="give prometheus_ca_cert"):
                Prometheus(server.url, **shown, **distrust).instant("m")
        with pytest.raises(UnansweredError, match="cannot be reached"):
            Prometheus(server.url, ca_cert=str(authority.certificate), patience=0).instant("m")


NONSENSE: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({"url": "prometheus:9090"}, "prometheus_url"),
    "a name with an empty part": ({"url": "http://a..b:9090"}, "prometheus_url"),
    "a path that is not ASCII": ({"url": "http://a/ü"}, "prometheus_url"),
    "a query": ({"url": f"http://p/?token={SECRET}"}, "prometheus_url"),
    "two ways to say who": ({"token": SECRET, "username": "me"}, "prometheus_token"),
    "a header beside a token": ({"token": SECRET, "headers": {"Authorization": SECRET}}, "prometheus_token"),
    "a password of nobody": ({"password": SECRET}, "prometheus_password"),
    "a line break": ({"token": f"{SECRET}\nX: y"}, "prometheus_token"),
    "a header that is none": ({"headers": {"X-Scope-OrgID": f"{SECRET}\r\n"}}, "prometheus_headers"),
    "a key without a certificate": ({"url": "https://p", "client_key": "/k"}, "prometheus_client_key"),
    "a certificate without TLS": ({"client_cert": "/c"}, "prometheus_client_cert"),
    "authorities that are not there": ({"url": "https://p", "ca_cert": "/not/there"}, "prometheus_ca_cert: /not/there"),
    "a certificate that is not there": ({"url": "https://p", "client_cert": "/not/there"}, "prometheus_client_cert: /not/there"),
}


@pytest.mark.parametrize(("given", "told"), NONSENSE.values(), ids=NONSENSE)
def test_settings_that_make_no_sense_are_named_without_what_is_secret(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        Prometheus(**{"url": "http://p"} | given)
    assert str(error.value).startswith(told)
    assert SECRET not in str(error.value)


def test_the_options_lead_to_it() -> None:
    params = {name: argument.get("default") for name, argument in PROMETHEUS_ARGUMENTS.items()}
    assert prometheus_of(params) is None
    with PrometheusServer(vector()) as server:
        found = prometheus_of(params | {"prometheus_url": server.url, "prometheus_headers": {"X-Scope-OrgID": 7}})
        assert found is not None
        found.instant("m")
    assert {name.lower(): value for name, value in server.asked[0].headers.items()}["x-scope-orgid"] == "7"
