# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.doc_fragments import prometheus, rate, selection
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import Ended, State
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import Prometheus
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import prometheus_of
from ansible_collections.gpuops.defrag.plugins.module_utils._rate_arguments import RATE_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.modules import gpu_eviction_rate
from ansible_collections.gpuops.defrag.tests.unit.builders import Object
from ansible_collections.gpuops.defrag.tests.unit.make_believe import START, MakeBelieve
from ansible_collections.gpuops.defrag.tests.unit.prometheus_server import PrometheusServer, Says, vector
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

MAP = "/api/v1/namespaces/kube-system/configmaps"
NOBODY: dict[str, Any] = {"host": "https://127.0.0.1:1", "api_key": "a-token"}


@dataclass
class FakeLive:
    """A connection to the cluster in memory, with the ConfigMap.

    Attributes:
        refused: Requests, by method and path, that the server refuses with 403.
        written: What was written, in order.
    """

    cluster: MakeBelieve
    config_map: Object | None = None
    refused: set[tuple[str, str]] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    name = "https://fake"
    identity = {"server": "https://fake", "uid": "u"}  # noqa: RUF012 - as it is of the class
    notes: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.cluster.time

    def read(self, kinds: Any, build: Callable[[Iterator[Any]], Any]) -> Any:
        return build(iter(self.cluster.objects()))

    def send(self, method: str, path: str, body: Any = None, **_more: Any) -> Object:
        if (method, path) in self.refused:
            raise RefusedError(403, f"{method.upper()} {path} answers 403: forbidden")
        if path.endswith("/namespaces/kube-system"):
            return {"metadata": {"annotations": self.cluster.asked}}
        if method == "post":
            self.config_map = copy.deepcopy(body)
        elif self.config_map is None:
            raise RefusedError(404, "not found")
        elif method == "patch":
            self.config_map["data"] |= body["data"]
        if method != "get":
            self.written += list(body["data"])
        assert self.config_map is not None
        return copy.deepcopy(self.config_map)

    def holds(self, **data: str) -> None:
        self.config_map = {"metadata": {}, "data": data}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> FakeLive:
    """Forty GPU pods, four to a workload, on ten nodes of eight GPUs; the budget of one lets none go."""
    cluster = MakeBelieve(cold_start=180)
    for number in range(10):
        cluster.add(f"n{number}")
    for number in range(10):
        cluster.serve(f"app{number}", 1 + number % 2, *(f"n{(number + step) % 10}" for step in range(4)))
    cluster.needed = {"app0": 4}
    found = FakeLive(cluster)
    monkeypatch.setattr(gpu_eviction_rate, "connect", lambda _params: found)
    return found


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(**given: Any) -> dict[str, Any]:
        return run_module(gpu_eviction_rate, capsys, **NOBODY, **given)

    return run


def state(live: FakeLive) -> dict[str, Any]:
    assert live.config_map is not None
    found: dict[str, Any] = json.loads(live.config_map["data"]["rate.json"])
    return found


def test_what_the_cluster_tells_is_what_it_goes_by(live: FakeLive, run: Run) -> None:
    live.cluster.running[4]["status"]["conditions"][0]["status"] = "False"
    found = run(profile="aggressive")
    told = found["inputs"]
    assert (told["gpu_pods"], told["gpu_pods_not_ready"], told["budget_headroom"]) == (40, 1, 36)
    assert told["services"]["Deployment default/app1"] == {"pods": 4, "not_ready": 1, "in_flight": 0}
    assert (told["evictions"], told["strays"], told["unready"], told["blocked_gpus"]) == (0, 0, 0, 0)
    # Pods of make-believe tell no times.
    assert [each["detail"] for each in found["reasons"] if each["reason"] == "Unknown"] == ["cold_start is not known"]
    assert found["limits"]["interval_seconds"] == 600


def test_the_first_decision_is_remembered_beside_what_gpu_defrag_remembers(live: FakeLive, run: Run) -> None:
    live.holds(**{"state.json": State().to_json(START)})
    before = copy.deepcopy(live.config_map)
    foreseen = run(check=True, diff=True)
    assert foreseen["changed"]
    assert live.config_map == before
    done = run(diff=True)
    assert done["changed"]
    assert done["diff"] == foreseen["diff"]
    assert json.loads(done["diff"]["after"]) == done["state"] == state(live)
    assert done["diff"]["before"] == ""
    assert live.written == ["rate.json"]
    assert live.config_map is not None
    assert live.config_map["data"]["state.json"] == before["data"]["state.json"]  # type: ignore[index]


def test_a_second_run_in_a_row_changes_nothing(live: FakeLive, run: Run) -> None:
    assert run()["changed"]
    live.cluster.time += 5
    again = run(diff=True)
    assert not again["changed"]
    assert again["diff"]["before"] == again["diff"]["after"]
    assert live.written == ["rate.json"]
    assert live.config_map is not None
    assert live.config_map["metadata"]["name"] == "gpuops-defrag"


def answers(pods: int = 40, starts: tuple[int, ...] = (170, 180), evicted: str | None = None) -> list[Any]:
    """What Prometheus says of the three default queries."""
    series = [
        {"metric": {"namespace": "default", "pod": f"p{n}", "workload": "Deployment/app1"}, "value": [START, str(each)]}
        for n, each in enumerate(starts)
    ]
    begun = {"status": "success", "data": {"resultType": "vector", "result": series}}
    return [vector(str(pods), at=START), begun, vector(*([evicted] if evicted else []), at=START)]


def test_prometheus_tells_how_long_pods_take_and_what_the_descheduler_did(live: FakeLive, run: Run) -> None:
    with PrometheusServer(*answers(evicted="3.2")) as server:
        found = run(prometheus_url=server.url, profile="balanced")
    told = found["inputs"]
    assert (told["gpu_pods"], told["gpu_pods_not_ready"], told["evictions"]) == (40, 0, 4)
    assert told["cold_start"]["workloads"] == {"Deployment default/app1": {"p50": 175.0, "p90": 179.0}}
    assert told["unknown"] == {}
    assert found["limits"]["interval_seconds"] == 179
    assert len(server.asked) == 3


SILENT: dict[str, tuple[list[Any], str]] = {
    "gone": ([Says(0)], "cannot be reached"),
    "no Prometheus": (["hello"], "answers as no Prometheus does"),
    "it says that it is not sure": ([vector("40", at=START, warnings=["a store is away"])], "a store is away"),
    "of another cluster": (answers(pods=400), "is it another cluster's?"),
    "NaN": ([vector("NaN", at=START)], "nan cannot be"),
    "nothing": ([vector(at=START)], "gives nothing"),
    "old": ([vector("40", at=START - 1000)], "1000 s old"),
    "twice": ([vector("40", "40", at=START)], "2 series"),
}


@pytest.mark.parametrize("name", SILENT)
def test_while_prometheus_does_not_tell_the_rate_falls_and_comes_back(
    name: str, live: FakeLive, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(params: Any) -> Prometheus | None:
        found = prometheus_of(params)
        if found:
            found.patience = 0
        return found

    monkeypatch.setattr(gpu_eviction_rate, "prometheus_of", impatient)
    live.holds(**{"rate.json": json.dumps({"version": 1, "level": 4})})
    live.cluster.serve("big", 6, "", replicas=1)
    bounds = {"cold_share": 0.1}
    said, words = SILENT[name]
    with PrometheusServer(*said) as server:
        bad = run(prometheus_url=server.url, prometheus_timeout=1, bounds=bounds)
    assert bad["action"] == "back_off"
    # Without Prometheus nobody tells how long the pods of make-believe take.
    assert bad["limits"]["total"] == (2 if bad["inputs"]["cold_start"] else 1)
    assert any(words in each["detail"] for each in bad["reasons"])
    assert state(live)["level"] == 2
    for _minute in range(4):
        live.cluster.time += 200
        good = [says | {"data": says["data"]} for says in answers()]
        for says in good:
            for sample in says["data"]["result"]:
                sample["value"][0] = live.cluster.time
        with PrometheusServer(*good) as server:
            found = run(prometheus_url=server.url, bounds=bounds)
    assert (found["limits"]["total"], found["action"]) == (4, "raise")


def test_guards_are_asked_and_told(live: FakeLive, run: Run) -> None:
    live.holds(**{"rate.json": json.dumps({"version": 1, "level": 4})})
    guards = [{"query": "errors", "above": 0.1, "for": "5m"}, {"query": "min(replicas)", "below": 2}]
    said = [*answers(), vector("0.5", at=START), vector("3", at=START)]
    with PrometheusServer(*said) as server:
        found = run(prometheus_url=server.url, guards=guards, bounds={"cold_share": 0.1})
    assert [(each["query"], each["value"], each["fires"]) for each in found["inputs"]["guards"]] == [
        ("min_over_time((errors)[300s:]) and (errors)", 0.5, True),
        ("min(replicas)", 3, False),
    ]
    assert (found["action"], found["limits"]["total"]) == ("back_off", 2)
    assert found["reasons"][0]["reason"] == "GuardFires"


def test_a_prometheus_that_takes_its_time_has_no_other_clock(live: FakeLive, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = live.read

    def later(kinds: Any, build: Callable[[Iterator[Any]], Any]) -> Any:
        live.cluster.time += 90
        return read(kinds, build)

    monkeypatch.setattr(live, "read", later)
    with PrometheusServer(*answers(), vector("3", at=START + 89)) as server:
        found = run(prometheus_url=server.url, guards=[{"query": "min(replicas)", "below": 2}])
    assert found["inputs"]["guards"][0]["fires"] is False


def test_queries_of_the_user_are_asked_in_the_place_of_the_default_ones(live: FakeLive, run: Run) -> None:
    own = {"gpu_pods": "sum(my_pods)", "stranded_share": "avg(my_share)"}
    said = [vector("400", at=START), *answers()[1:], vector("0.2", at=START)]
    with PrometheusServer(*said) as server:
        found = run(prometheus_url=server.url, queries=own, matchers='cluster="a"')
    assert {each.parameters["lookback_delta"] for each in server.asked} == {"300"}
    asked = [each.parameters["query"] for each in server.asked]
    assert asked[0] == "sum(my_pods)"
    assert 'cluster="a"' in asked[1]
    assert (found["inputs"]["gpu_pods"], found["inputs"]["stranded_share"]) == (400, 0.2)


def test_strays_are_told_once(live: FakeLive, run: Run) -> None:
    moves = State(ended=[Ended(START - 10, 3, 1, 0)])
    live.holds(**{"state.json": moves.to_json(START), "rate.json": json.dumps({"version": 1, "level": 4})})
    bounds = {"cold_share": 0.1}
    first = run(bounds=bounds)
    assert (first["inputs"]["strays"], first["inputs"]["evictions"], first["state"]["level"]) == (1, 3, 2)
    second = run(bounds=bounds)
    assert (second["inputs"]["strays"], second["inputs"]["evictions"]) == (0, 3)
    assert "Strays" not in {each["reason"] for each in second["reasons"]}


def test_strays_are_told_though_a_clock_was_ahead_when_it_was_last_decided(live: FakeLive, run: Run) -> None:
    moves = State(ended=[Ended(START - 10, 3, 1, 0)])
    ahead = {"version": 1, "level": 4, "judged": START + 86_400}
    live.holds(**{"state.json": moves.to_json(START), "rate.json": json.dumps(ahead)})
    found = run(bounds={"cold_share": 0.1})
    assert (found["inputs"]["strays"], found["state"]["level"], found["state"]["judged"]) == (1, 2, START - 10)
    assert run(bounds={"cold_share": 0.1})["inputs"]["strays"] == 0


def test_a_user_who_asks_for_a_pause_gets_it(live: FakeLive, run: Run) -> None:
    live.cluster.asked = {"gpuops.io/pause": "launch"}
    found = run()
    assert (found["action"], found["limits"]["total"]) == ("pause", 0)
    assert 'gpuops.io/pause: "launch"' in found["reasons"][0]["detail"]


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9}', '{"version": 1, "level": 1%s}' % ("0" * 400), "[" * 100_000])
def test_a_state_that_cannot_be_read_begins_anew_with_one_and_is_noted(text: str, live: FakeLive, run: Run) -> None:
    live.holds(**{"rate.json": text})
    found = run()
    assert found["state"]["level"] == 1
    assert "rate.json cannot be read" in found["notes"][0]


def test_moves_that_cannot_be_read_are_unknown(live: FakeLive, run: Run) -> None:
    live.holds(**{"state.json": "{", "rate.json": json.dumps({"version": 1, "level": 4})})
    found = run(bounds={"cold_share": 0.1})
    assert found["inputs"]["evictions"] is None
    assert "state.json" in found["inputs"]["unknown"]["strays"]
    assert (found["action"], found["limits"]["total"]) == ("back_off", 1)


def test_a_right_that_is_missing_is_named(live: FakeLive, run: Run) -> None:
    live.refused = {("post", MAP)}
    assert "policies/rbac/operator.yaml" in run(code=1)["msg"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"guards": [{"query": "q", "above": 1}]}, "guards: needs prometheus_url"),
        ({"queries": {"gpu_pods": "q"}}, "queries: needs prometheus_url"),
        ({"guards": [{"query": "q"}], "prometheus_url": "http://p"}, "guards[0]: has one bound"),
        ({"guards": [{"query": "q", "above": 1, "below": 0}], "prometheus_url": "http://p"}, "guards[0]: has one bound"),
        ({"guards": [{"query": "q", "above": 1, "for": "soon"}], "prometheus_url": "http://p"}, "guards[0].for: 'soon'"),
        ({"prometheus_url": "prometheus"}, "prometheus_url: is no address"),
        ({"queries": {"pods": "q"}}, "pods"),
        ({"slot_size": 0}, "slot_size: is 0"),
        ({"bounds": {"service_share": 0}}, "bounds.service_share: is 0"),
        ({"profile": "bold"}, "profile"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_named_before_any_server_is_asked(
    given: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in run_module(gpu_eviction_rate, capsys, code=1, **NOBODY, **given)["msg"]


def test_all_that_is_returned_is_documented_and_plain(live: FakeLive, run: Run) -> None:
    found = run()
    told = yaml.safe_load(gpu_eviction_rate.RETURN)
    assert {*found} - {"changed", "invocation"} == {*told}
    for key in ("limits", "inputs", "state"):
        assert {*found[key]} == {*told[key]["sample"]}


def test_every_option_is_documented() -> None:
    told = set(yaml.safe_load(gpu_eviction_rate.DOCUMENTATION)["options"])
    for fragment in (rate, prometheus, selection):
        told |= set(yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)["options"])
    assert told == set(RATE_ARGUMENTS)
