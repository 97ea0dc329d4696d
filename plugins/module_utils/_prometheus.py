# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus, or what speaks like one (Thanos, Mimir, VictoriaMetrics), asked over its HTTP API."""

from __future__ import annotations

import base64
import http.client
import json
import math
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from ansible.module_utils.urls import make_context

from ._core.errors import InputError

FIRST_WAIT = 0.5
"""Seconds until it is asked again, doubled each time, or as long as the server says."""
LONGEST_WAIT = 8.0
"""Seconds between two attempts, unless the server asks for more."""
LONGEST_URL = 4000
"""Longer ones are refused by some proxies: the query goes into the body then, which others do not let through."""
LONGEST_TOLD = 300
"""Characters of a server's answer that are told."""

_BUSY = (429, 500, 502, 503, 504)
# Nothing but a selector: an expression's samples bear the time of its evaluation, those of a selector have one of their own.
_MATCHERS = r"""\{([^{}"']|"([^"\\]|\\.)*"|'([^'\\]|\\.)*')*\}"""
_SELECTOR = re.compile(rf"[a-zA-Z_:][\w:]*\s*({_MATCHERS})?|{_MATCHERS}")


class UnansweredError(RuntimeError):
    """A query that has no answer, told in words that hold no secret: what it asks for is unknown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series.

    Attributes:
        labels: Those of the series, ``__name__`` among them where it has one.
        value: May be NaN or infinite.
        time: Seconds since 1970 at which it was measured: of a plain selector the sample's own time, of any other
            expression the time of its evaluation, see :meth:`Prometheus.instant`.
    """

    labels: Mapping[str, str]
    value: float
    time: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query came to. Nothing at all, a NaN and a warning each mean that something is not known.

    Attributes:
        samples: As they came; of a range the points of each series after one another.
        warnings: What the server says is missing from it.
    """

    samples: Sequence[Sample]
    warnings: Sequence[str] = ()


class Prometheus:
    """Whom to ask.

    Args:
        url: Its address, up to but without ``/api/v1``. User and password in it are taken as such.
        headers: Sent along, such as a tenant.
        token: A bearer token.
        username: For basic authentication, with ``password``.
        password: See ``username``.
        ca_cert: File of the authorities that its certificate is checked by, instead of the system's.
        client_cert: File of a certificate to show, which may hold its key.
        client_key: File of its key.
        validate_certs: Whether its certificate is checked.
        proxy: The proxy to go through, instead of that of the environment.
        timeout: Seconds that one attempt may take.
        patience: Seconds for which what may pass is tried again: no connection, too many requests, errors of the server.

    Raises:
        InputError: A setting makes no sense; it names the option.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        ca_cert: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        validate_certs: bool = True,
        proxy: str | None = None,
        timeout: float = 30,
        patience: float = 30,
    ) -> None:
        self.url, user, secret = _address(url)
        if username is None:
            username, password = user, secret if password is None else password
        self.timeout, self.patience = timeout, patience
        # A file that a token is read from ends in a line break as a rule.
        token = token and token.strip()
        self._headers = _headers(headers or {}, token, username, password)
        self._secrets = sorted(
            {text for text in (*self._headers.values(), token, password, proxy) if text}, key=len, reverse=True
        )
        self._opener = _opener(self.url, ca_cert, client_cert, client_key, validate_certs, proxy)

    def instant(self, query: str, *, max_age: float | None = None) -> Answer:
        """What a query comes to now.

        Args:
            query: PromQL.
            max_age: Samples that are older, in seconds, are not looked at. Without it the server's own setting counts, five
                minutes as a rule. Servers that do not know the parameter ``lookback_delta`` keep to their own setting.

        Raises:
            UnansweredError: There is no answer.
        """
        looking_back = {} if max_age is None else {"lookback_delta": f"{max_age:g}"}
        found = self._ask("query", query, **looking_back)
        answer = _instant(found, query)
        if not answer.samples or not _SELECTOR.fullmatch(query.strip()):
            return answer
        # How old each sample is only timestamp() tells. It drops the name.
        at = answer.samples[0].time
        asked = self._ask("query", f"timestamp({query})", time=f"{at:.3f}", **looking_back)
        times = {_unnamed(sample.labels): sample.value for sample in _instant(asked, query).samples}
        dated = [Sample(each.labels, each.value, times.get(_unnamed(each.labels), each.time)) for each in answer.samples]
        return Answer(dated, answer.warnings)

    def range(self, query: str, start: float, end: float, step: float) -> Answer:
        """What a query came to at every ``step`` seconds from ``start`` to ``end``, which are seconds since 1970.

        Raises:
            UnansweredError: There is no answer.
        """
        found = self._ask("query_range", query, start=f"{start:.3f}", end=f"{end:.3f}", step=f"{step:g}")
        with _understood(query):
            return Answer(
                [_sample(series, point) for series in found["data"]["result"] for point in series["values"]], _warnings(found)
            )

    def rules(self) -> Mapping[str, Any]:
        """The groups of rules that it has loaded, as ``/api/v1/rules`` tells them.

        Raises:
            UnansweredError: There is no answer.
        """
        found = self._ask("rules")
        with _understood("/api/v1/rules"):
            return dict(found["data"])

    def fires(self, queries: Sequence[str]) -> str | None:
        """The first query that fires, or that nothing is known of, in a sentence; None if none does.

        A query fires as an alert does: if anything comes back.
        """
        for query in queries:
            try:
                answer = _instant(self._ask("query", query), query)
            except UnansweredError as error:
                return f"{query}: nothing is known: {error}"
            if answer.warnings:
                return f"{query}: nothing is known for sure: {'; '.join(answer.warnings)}"
            numbers = [sample.value for sample in answer.samples]
            if any(map(math.isnan, numbers)):
                return f"{query}: nothing is known, as a value is NaN"
            if numbers:
                return f"{query} fires: {numbers[0]:g}" + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")
        return None

    def _ask(self, path: str, query: str | None = None, **more: str) -> dict[str, Any]:
        """The answer, parsed, of an endpoint that takes a query or of another."""
        # Thanos would otherwise pass over stores that do not answer, and not say so.
        given = {} if query is None else {"query": query, **more, "partial_response": "false"}
        url, body = f"{self.url}/api/v1/{path}", None
        parameters = urlencode(given)
        if len(parameters) > LONGEST_URL:
            body = parameters.encode()
        elif parameters:
            url = f"{url}?{parameters}"
        deadline, wait = time.monotonic() + self.patience, FIRST_WAIT
        while True:
            pause = wait
            try:
                with self._opener.open(Request(url, data=body, headers=self._headers), timeout=self.timeout) as answer:
                    return self._parsed(answer.read())
            except HTTPError as error:
                with error:
                    told = self._refused(error)
                    pause = max(wait, _retry_after(error))
                if error.code not in _BUSY or "timed out" in told:
                    raise UnansweredError(told) from None
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                reason = error.reason if isinstance(error, URLError) else error
                told = self._scrubbed(f"{self.url} cannot be reached: {reason}")
                if isinstance(reason, ssl.SSLError):
                    advice = "give prometheus_ca_cert, prometheus_client_cert, or check the address"
                    raise UnansweredError(f"{told}; {advice}") from None
            if time.monotonic() + pause > deadline:
                raise UnansweredError(told)
            time.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("status") != "success":
            raise UnansweredError(f"{self.url} answers as no Prometheus does; give its address up to but without /api/v1")
        return found

    def _refused(self, error: HTTPError) -> str:
        """What an error of the server means."""
        try:
            body = error.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            body = ""
        try:
            said = json.loads(body)
            text, kind = str(said["error"]), said.get("errorType")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text, kind = body, None
        text = self._scrubbed(" ".join(text.split()))[:LONGEST_TOLD]
        who = f"{self.url} answers {error.code}"
        if "no org id" in text:
            return f"{who}: it wants a tenant; give it in prometheus_headers, as X-Scope-OrgID"
        if 300 <= error.code < 400:
            found = re.match(r"\w+://([^/?#@]+)", error.headers.get("Location", ""))
            where = f", to {found[1]}" if found else ""
            return f"{who}: it leads elsewhere{where}; give the address and the credentials of Prometheus itself"
        meaning = {
            400: f"it cannot read the query: {text}",
            401: "it wants other credentials; give prometheus_token, or prometheus_username and prometheus_password",
            403: f"these credentials may not ask it: {text}",
            404: "there is no such address; give it up to but without /api/v1",
            422: f"it cannot evaluate the query: {text}",
            429: f"it is asked too often: {text}",
        }
        if error.code == 503 and kind in ("timeout", "canceled"):
            return f"{who}: the query timed out: {text}"
        return f"{who}: {meaning.get(error.code, text or error.reason)}"

    def _scrubbed(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


@contextmanager
def _understood(query: str) -> Iterator[None]:
    """An answer that lacks what it should have is none."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise UnansweredError(f"the answer to {query} has another shape than that of Prometheus") from None


def _instant(found: Mapping[str, Any], query: str) -> Answer:
    with _understood(query):
        kind, result = found["data"]["resultType"], found["data"]["result"]
        if kind not in ("vector", "scalar"):
            raise UnansweredError(f"{query} comes to a {kind}, not to one number a series; does it end in a range such as [5m]?")
        series = [{"metric": {}, "value": result}] if kind == "scalar" else result
        return Answer([_sample(each, each["value"]) for each in series], _warnings(found))


def _sample(series: Mapping[str, Any], point: Sequence[Any]) -> Sample:
    # A value is text, as JSON has no NaN. A native histogram has none.
    return Sample({str(name): str(value) for name, value in series["metric"].items()}, float(point[1]), float(point[0]))


def _warnings(found: Mapping[str, Any]) -> list[str]:
    return [str(warning) for warning in found.get("warnings") or ()]


def _unnamed(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name != "__name__")


def _retry_after(error: HTTPError) -> float:
    """Seconds that the server asks to wait; it may also give a date, which is not worth reading."""
    told = error.headers.get("Retry-After", "")
    return float(told) if told.isdecimal() else 0.0


def _address(url: str) -> tuple[str, str | None, str | None]:
    """The address without what is secret in it, the user and the password."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        # Neither could be asked for: a label that no name has, a letter that no path has.
        (host or "").encode("idna"), parts.path.encode("ascii")
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        # Not told: it may hold a password.
        raise InputError("is no address such as https://prometheus.example.com/prometheus", field="prometheus_url")
    at = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    user, secret = (None if text is None else unquote(text) for text in (parts.username, parts.password))
    return f"{parts.scheme}://{at}{parts.path.rstrip('/')}", user, secret


def _headers(given: Mapping[str, Any], token: str | None, username: str | None, password: str | None) -> dict[str, str]:
    """The headers to send.

    Raises:
        InputError: They contradict each other, or are none. It tells no value.
    """
    headers = {str(name): str(value) for name, value in given.items()}
    authorized = [name for name in headers if name.lower() == "authorization"]
    ways = {"prometheus_token": token, "prometheus_username": username, "prometheus_headers": authorized}
    used = [option for option, value in ways.items() if value]
    if len(used) > 1:
        raise InputError(f"is given and {used[1]} too, which both say who asks: give one of them", field=used[0])
    if password and not username:
        raise InputError("needs prometheus_username too", field="prometheus_password")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif username:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{username}:{password or ''}".encode()).decode()
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^`|~\w-]+", name, re.ASCII) or not re.fullmatch(r"[\t\x20-\x7e]*", value):
            field = "prometheus_token" if token and name == "Authorization" else f"prometheus_headers[{name}]"
            raise InputError("holds what no header may, such as a line break or a letter that is not ASCII", field=field)
    return headers


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: it leads to a login page as a rule, and would be given the credentials."""

    def redirect_request(self, *_given: Any, **_more: Any) -> None:
        return None


def _opener(
    url: str, ca_cert: str | None, client_cert: str | None, client_key: str | None, validate_certs: bool, proxy: str | None
) -> OpenerDirector:
    if client_key and not client_cert:
        raise InputError("needs prometheus_client_cert too", field="prometheus_client_key")
    if client_cert and not url.startswith("https:"):
        raise InputError("needs an address with https", field="prometheus_client_cert")
    handlers: list[Any] = [_Stay(), *([ProxyHandler({"http": proxy, "https": proxy})] if proxy else [])]
    if url.startswith("https:"):
        with _readable("prometheus_ca_cert", ca_cert):
            context = make_context(cafile=ca_cert, validate_certs=validate_certs)
        if client_cert:
            with _readable("prometheus_client_cert", client_cert):
                # Without a password a key that has one would be asked about on the terminal.
                context.load_cert_chain(client_cert, client_key, password="")
        handlers.append(HTTPSHandler(context=context))
    return build_opener(*handlers)


@contextmanager
def _readable(option: str, path: str | None) -> Iterator[None]:
    """A file that the option names, and its key, are read."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or 'it holds no certificate, or another key'}", field=option
        ) from None
