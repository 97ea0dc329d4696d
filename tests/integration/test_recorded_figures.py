# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus loads the rules, scrapes a real cluster, and says of it what gpu_fragmentation_info says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.dashboard import dashboard, queries
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.expressions import figures
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.results import run_metrics
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.rules import rule_groups
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings
from ansible_collections.gpuops.defrag.plugins.modules import gpu_fragmentation_info, gpu_monitoring_info
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.monitoring import Monitoring
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.state_metrics import exposition
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

SETTINGS = MonitoringSettings(gpu_hour_price=3, dcgm=True)
FIGURES = figures(SETTINGS)
RULES = rule_groups(SETTINGS)
RUN = {
    "verdict": "Recommended",
    "evicted": [{}, {}],
    "landed": [{}],
    "strays": [{}],
    "unready": [],
    "planned": {"freed_nodes": ["a", "b"], "slots_gained": {"8": 2}},
    "realized": {"freed_nodes": ["a"], "slots_gained": {"8": 1}},
}

TICK = {"action": "hold", "limits": {"total": 3}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    found = ControlPlane(tmp_path_factory.mktemp("planes") / "one").start()
    try:
        fleet.populate(
            found.api, fleet.Shape(nodes=6, products=("A100", "H100"), cold_start=1, keep=0.6, sizes={1: 3, 2: 1, 4: 1})
        )
        waiting = fleet.deployment("large", "team-a", 1, 8)
        found.api.create("/apis/apps/v1/namespaces/team-a/deployments", waiting)
        fleet.wait_settled(found.api)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def monitoring(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    folder = tmp_path_factory.mktemp("planes")
    rules = folder / "rules.yml"
    rules.write_text(json.dumps(RULES))
    found = Monitoring(folder / "monitoring", plane, rules=[rules], exporters=2, labels={"cluster": "one"}).start()
    yield found
    found.stop()


def recorded(monitoring: Monitoring, name: str, *labels: str) -> dict[Any, float]:
    """Values of a figure by labels; by the label alone where it is one."""
    found = monitoring.query(FIGURES.series(name))
    keys = [tuple(each[label] for label in labels) for each, _value in found]
    return {key[0] if len(key) == 1 else key: value for key, (_each, value) in zip(keys, found, strict=True)}


def test_prometheus_says_what_the_module_says(
    plane: ControlPlane, monitoring: Monitoring, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run_module(gpu_fragmentation_info, capsys, kubeconfig=str(plane.kubeconfig))["fragmentation"]
    assert told["gpus_free"] > 0
    assert recorded(monitoring, "node_free", "node") == told["node_free"]
    assert recorded(monitoring, "slot_size") == {(): told["slot_size"]}
    assert recorded(monitoring, "blocked_pods") == {(): len(told["blocked_pods"])}
    assert recorded(monitoring, "pods") == {(): told["gpu_pods"] - len(told["pending_pods"])}
    figure_of = {
        "pool_nodes": "nodes",
        "pool_gpus": "gpus_total",
        "pool_allocated": "gpus_allocated",
        "pool_free": "gpus_free",
        "pool_largest": "largest_slot",
        "pool_stranded_now": "stranded_gpus",
        "pool_utilization": "utilization",
        "pool_schedulable": "schedulable_utilization",
        "pool_fragmentation": "fragmentation_rate",
    }
    for name, key in figure_of.items():
        assert recorded(monitoring, name, "pool") == pytest.approx({pool["name"]: pool[key] for pool in told["pools"]}), name
    for pool in told["pools"]:
        for size in map(str, SETTINGS.sizes):
            assert recorded(monitoring, f"pool_slots[{size}]", "pool")[pool["name"]] == pool["slots"][size]
            assert recorded(monitoring, f"pool_stranded[{size}]", "pool")[pool["name"]] == pool["stranded"][size]
        assert recorded(monitoring, "pool_reclaimable", "pool")[pool["name"]] == len(pool["reclaimable_nodes"])
    starts = recorded(monitoring, "workload_cold_start[0.9]", "namespace", "workload")
    # All but those that wait; times have whole seconds.
    deployments = plane.api.items("/apis/apps/v1/deployments")
    alive = {
        (each["metadata"]["namespace"], f"Deployment/{each['metadata']['name']}")
        for each in deployments
        if each["spec"]["replicas"]
    }
    assert set(starts) == alive - {("team-a", "Deployment/large")}
    assert all(1 <= seconds < 30 for seconds in starts.values())


def test_rules_are_known_to_be_loaded_or_what_is_wrong(monitoring: Monitoring, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {"prometheus_url": monitoring.url}
    assert run_module(gpu_monitoring_info, capsys, rules=RULES, **asked)["findings"] == []
    other = rule_groups(MonitoringSettings(resource_name="amd.com/gpu"))
    found = run_module(gpu_monitoring_info, capsys, rules=other, **asked)
    assert (found["ok"], len(found["findings"])) == (False, 2)
    more = rule_groups(MonitoringSettings(sizes=(1, 2, 4, 8, 16)))
    assert "lacks pool:gpuops_blocked_pods:count 8 times" in str(run_module(gpu_monitoring_info, capsys, rules=more, **asked))


def test_every_query_of_the_dashboard_returns_data(plane: ControlPlane, monitoring: Monitoring) -> None:
    (monitoring.textfiles / "run.prom").write_text(run_metrics(RUN, now=1))
    (monitoring.textfiles / "tune.prom").write_text(run_metrics(TICK, now=1))
    (monitoring.textfiles / "descheduler.prom").write_text('descheduler_pods_evicted_total{result="success"} 7\n')
    found = next(each for each in fleet.pods(plane.api) if fleet.is_ready(each))
    pod = found["metadata"]
    gpu = {"hostname": found["spec"]["nodeName"], "UUID": "GPU-1", "namespace": pod["namespace"], "pod": pod["name"]}
    (monitoring.textfiles / "dcgm.prom").write_text(exposition([("DCGM_FI_DEV_GPU_UTIL", gpu, 35)]))
    path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}"
    # It is seen on its way out for as long as it takes.
    plane.api.patch(path, {"metadata": {"finalizers": ["test.gpuops.io/stay"]}})
    plane.api.create(f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["name"]}})

    def chosen(query: str) -> str:
        return query.replace("$cluster", "one").replace("$pool", ".*")

    asked = list(map(chosen, queries(dashboard(SETTINGS))))
    assert asked
    missing = asked

    def told() -> bool:
        nonlocal missing
        missing = [query for query in missing if not monitoring.query(query)]
        return not missing

    try:
        wait_until(told, "every query answered", seconds=30)
    finally:
        plane.api.patch(path, {"metadata": {"finalizers": None}})
        assert missing == []


def test_a_finished_or_waiting_pod_fires_what_it_should(monitoring: Monitoring) -> None:
    """The pod of 8 GPUs waits for tidier ones, and nothing is blind."""
    pending = monitoring.query('ALERTS{alertstate="pending"}')
    assert {labels["alertname"] for labels, _value in pending} >= {"GPUPodsBlocked"}
    assert "GPUMonitoringBlind" not in {labels["alertname"] for labels, _value in monitoring.query("ALERTS")}
