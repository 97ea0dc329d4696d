# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recording rules and alerts, tried out by promtool on what kube-state-metrics tells of known clusters."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import UNNAMED
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.expressions import figures
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.rules import alerts, rule_groups
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.queries import default_queries
from ansible_collections.gpuops.defrag.tests.cluster.programs import PROMETHEUS, programs
from ansible_collections.gpuops.defrag.tests.cluster.state_metrics import Sample
from ansible_collections.gpuops.defrag.tests.integration.promtool import Expect, Series, check, firing, samples, selector, series
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, container, laid_out, measured, node, packed, pod, workload

Object = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SETTINGS = MonitoringSettings()
FIGURES = figures(SETTINGS)
RULES = rule_groups(SETTINGS)


def init(name: str, gpus: int, **more: Any) -> Object:
    return container(name, requests={GPU: str(gpus)}, **more)


def example(name: str) -> list[Object]:
    items: list[Object] = json.loads(gzip.decompress((EXAMPLES / f"{name}.json.gz").read_bytes()))["items"]
    return items


def product(name: str) -> Object:
    """A node selector."""
    return {"nvidia.com/gpu.product": name}


SIDECAR = {"restartPolicy": "Always"}
CLUSTERS: dict[str, list[Object]] = {
    "known answer 1": packed("8: 4+2+1", "8: 4+2", "8: 4+2+1"),
    "empty nodes, and nodes without GPUs": [*packed("8: 4", "8:", "8: 8"), node("cpu", None), node("none", 0)],
    "pods that ended, or wait": [
        *packed("8: 1"),
        pod("done", 4, "n1", phase="Succeeded"),
        pod("failed", 4, "n1", phase="Failed"),
        pod("waits", 2),
    ],
    "an init container larger than the rest": [node("n1"), pod("p", 1, "n1", initContainers=[init("i", 4), init("j", 2)])],
    "a sidecar beside it": [node("n1"), pod("p", 1, "n1", initContainers=[init("s", 1, **SIDECAR)])],
    "a sidecar, then an init container": [node("n1"), pod("p", 1, "n1", initContainers=[init("s", 1, **SIDECAR), init("i", 4)])],
    "devices that failed": [
        node("dead", 0, capacity=8),
        *(pod(f"d{i}", 1, "dead") for i in range(2)),
        node("ill", 2, capacity=3),
        pod("i", 3, "ill"),
        node("well"),
    ],
    "two products and one unnamed": [
        node("a", product="A100"),
        node("b", product="A100"),
        node("c", product="T4", gpus=4),
        node("d"),
        pod("p", 7, "a"),
        pod("q", 3, "c"),
    ],
    "GPUs that are shared": [
        node("n1"),
        node("shared", 32, labels={"nvidia.com/gpu.product": "T4-SHARED", "nvidia.com/gpu.replicas": "4"}),
        node("sliced", 32, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}),
        node("whole", 8, labels={"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}),
        *(pod(f"p{i}", 1, on) for i, on in enumerate(("n1", "shared", "sliced", "whole"))),
    ],
    "nodes that hold nothing of their own": [
        *(node(f"n{i}") for i in range(4)),
        pod("ds", None, "n0", owner="DaemonSet/exporter"),
        pod("static", None, "n1", owner="Node/n1"),
        pod("done", 8, "n2", owner="Job/j", phase="Succeeded"),
        pod("web", None, "n3", owner="ReplicaSet/web"),
    ],
    "a pod that is blocked": [
        *packed("8: 6", "8: 4+2", "8: 6", "8: 2+2+2"),
        pod("large", 8),
        pod("three", 3),
        pod("fits", 2),
        pod("gated", 8, schedulingGates=[{"name": "x"}]),
        pod("huge", 9),
    ],
    "pods that wait for a pool of their own": [
        *(node(f"a{i}", 4, product="A100") for i in range(2)),
        *(pod(f"a{i}", 4, f"a{i}") for i in range(2)),
        *(node(f"t{i}", 4, product="T4") for i in range(3)),
        *(pod(f"t{i}", 3, f"t{i}") for i in range(3)),
        *(node(f"l{i}", 4, product="L4") for i in range(4)),
        *(pod(f"l{i}", 3, f"l{i}") for i in range(4)),
        # Their pool is full, has room in holes alone, or has too little even so; any pool will do.
        *(pod(f"a100-{i}", 2, nodeSelector=product("A100")) for i in range(3)),
        *(pod(f"t4-{i}", 2, nodeSelector=product("T4")) for i in range(2)),
        pod("l4", 2, nodeSelector=product("L4")),
        pod("four", 4, nodeSelector=product("T4")),
        pod("any", 2),
        pod("large", 4),
    ],
    "an example of 200 GPUs": example("gpu200-1"),
    "an example of mixed nodes": example("mixed60-1"),
}


def expected(objects: Iterable[Object], cluster: str) -> list[Expect]:
    """That the rules record of a cluster what an audit measures of the same objects."""
    found = measured(objects)
    at = {"cluster": cluster}

    def query(name: str, *labels: str) -> str:
        return f'sum by (cluster{"".join(f", {label}" for label in labels)}) ({FIGURES.series(name)[:-1]}, cluster="{cluster}"}})'

    told = [Expect(query("node_free", "node"), [(at | {"node": name}, free) for name, free in found["node_free"].items()])]
    pools: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for pool in found["pools"]:
        where = at | {"pool": pool["name"]}
        for name, value in {
            "pool_nodes": pool["nodes"],
            "pool_gpus": pool["gpus_total"],
            "pool_allocated": pool["gpus_allocated"],
            "pool_free": pool["gpus_free"],
            "pool_largest": pool["largest_slot"],
            "pool_stranded_now": pool["stranded_gpus"],
            "pool_utilization": pool["utilization"],
            "pool_schedulable": pool["schedulable_utilization"],
            "pool_fragmentation": pool["fragmentation_rate"],
            "pool_reclaimable": len(pool["reclaimable_nodes"]),
            **{f"pool_slots[{size}]": slots for size, slots in pool["slots"].items()},
            **{f"pool_stranded[{size}]": gpus for size, gpus in pool["stranded"].items()},
        }.items():
            pools.setdefault(name, []).append((where, value))
    told += [Expect(query(name, "pool"), values) for name, values in pools.items()]
    blocked = Expect(query("pod_blocked", "pod"), [(at | {"pod": pod["pod"]}, pod["gpus"]) for pod in found["blocked_pods"]])
    told.append(blocked)
    told.append(Expect(query("slot_size"), [(at, found["slot_size"])]))
    told.append(Expect(query("blocked_pods"), [(at, len(found["blocked_pods"]))]))
    told.append(Expect(query("blocked_gpus"), [(at, sum(pod["gpus"] for pod in found["blocked_pods"]))]))
    return told


@pytest.mark.parametrize("objects", CLUSTERS.values(), ids=CLUSTERS)
def test_the_same_is_recorded_as_an_audit_measures(objects: list[Object], tmp_path: Path) -> None:
    other = packed("8: 8", "8: 3")
    # Two exporters tell of one cluster, one of another; the same names are there in both.
    given = [*series(samples(objects), cluster="a", instance="1"), *series(samples(objects), cluster="a", instance="2", job="x")]
    given += series(samples(other), cluster="b")
    check(RULES, given, [*expected(objects, "a"), *expected(other, "b")], tmp_path)


ELSEWHERE = packed("4: 1")
RENAMED = ("namespace", "pod", "container", "node")
SMALL = CLUSTERS["a sidecar, then an init container"] + [pod("large", 4), pod("q", 1, "n1")]


def scheduled(objects: Iterable[Object]) -> Iterable[Sample]:
    """What kube-scheduler tells of pods: what they request at their largest moment, if they have not ended."""
    layout = laid_out(objects)
    for each in (*(each for pods in layout.pods.values() for each in pods), *layout.cluster.pending):
        labels = {"namespace": each.namespace, "pod": each.name, "node": each.node or "", "resource": GPU, "unit": ""}
        yield "kube_pod_resource_request", labels, each.requests.get(GPU, 0)


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        (MonitoringSettings(exported_labels=RENAMED), series(samples(SMALL), renamed=True)),
        (
            MonitoringSettings(matchers='job="ksm"'),
            [*series(samples(SMALL), job="ksm"), *series(samples(ELSEWHERE), job="x")],
        ),
        (MonitoringSettings(requests_from="kube_scheduler"), [*series(samples(SMALL)), *series(scheduled(SMALL))]),
    ],
    ids=["labels that the scrape renames", "other exporters beside it", "the scheduler's requests"],
)
def test_the_same_is_recorded_however_it_is_told(settings: MonitoringSettings, given: list[Series], tmp_path: Path) -> None:
    found = figures(settings)
    free, blocked = found.series("node_free"), found.series("pool_blocked[4]")
    wanted = [
        Expect(f"sum by (node) ({free})", [({"node": "n1"}, 2)]),
        Expect(f"sum by (pool) ({blocked})", [({"pool": UNNAMED}, 0)]),
    ]
    waits = Expect(f"max by (pod) ({found.series('pod_unschedulable')})", [({"pod": "large"}, 4)])
    check(rule_groups(settings), given, [*wanted, waits], tmp_path)


BOUND = CLUSTERS["pods that wait for a pool of their own"]


@pytest.mark.parametrize(
    ("missing", "of_two", "of_four", "pods"),
    [
        # The one that may go anywhere counts in either pool, and once.
        ((), {"A100": 0, "T4": 3, "L4": 2}, {"A100": 0, "T4": 0, "L4": 1}, 5),
        (("kube_pod_nodeselectors",), {"A100": 0, "T4": 7, "L4": 7}, {"A100": 0, "T4": 0, "L4": 2}, 9),
    ],
    ids=["node selectors are told", "they are not"],
)
def test_pods_are_blocked_in_the_pools_that_they_may_use(
    missing: tuple[str, ...], of_two: dict[str, int], of_four: dict[str, int], pods: int, tmp_path: Path
) -> None:
    told = [sample for sample in samples(BOUND) if sample[0] not in missing]
    expected = [
        Expect(f"sum by (pool) ({FIGURES.series(f'pool_blocked[{size}]')})", [({"pool": pool}, n) for pool, n in counts.items()])
        for size, counts in ((2, of_two), (4, of_four))
    ]
    check(RULES, series(told), [*expected, Expect(f"sum by (x) ({FIGURES.series('blocked_pods')})", [({}, pods)])], tmp_path)


DCGM = figures(MonitoringSettings(dcgm=True))


def busy(metric: str, value: float, **labels: str) -> Series:
    """A series of DCGM's exporter, with labels of a scrape that has a pod of its own."""
    own = {"UUID": "GPU-1", "gpu": "0", "modelName": "A100", "namespace": "gpu-operator", "pod": "dcgm-exporter-1"}
    return Series(selector(f"DCGM_FI_{metric}", {**own, **labels}), f"{value:g}x600")


def test_what_gpus_do_is_told_once_for_node_pool_and_pod_however_they_are_named(tmp_path: Path) -> None:
    objects = [*(node(f"n{i}", 2, product="A100") for i in range(4)), pod("p", 2, "n1"), pod("q", 1, "n2")]
    of_p = {"exported_namespace": "default", "exported_pod": "p"}
    given = [
        *series(samples(objects)),
        # Two exporters of one GPU; newer and older spelling; no scrape's label in the way; a GPU without a pod.
        busy("DEV_GPU_UTIL", 80, hostname="n1", **of_p),
        busy("DEV_GPU_UTIL", 80, hostname="n1", instance="2", **of_p),
        busy("DEV_GPU_UTIL", 40, hostname="n1", UUID="GPU-2", **of_p),
        busy("DEV_GPU_UTIL", 10, Hostname="n2", UUID="GPU-3", namespace="default", pod="q"),
        busy("DEV_GPU_UTIL", 0, Hostname="n2", UUID="GPU-4"),
        # The parts of one that is cut, which have no such figure but another one.
        busy("PROF_GR_ENGINE_ACTIVE", 0.5, hostname="n3", UUID="GPU-5", GPU_I_ID="7"),
        busy("PROF_GR_ENGINE_ACTIVE", 0.1, hostname="n3", UUID="GPU-5", GPU_I_ID="8"),
        # Both are told: the first one counts. Nonsense, and a node that has no such GPUs.
        busy("PROF_GR_ENGINE_ACTIVE", 0.99, hostname="n1", **of_p),
        busy("DEV_GPU_UTIL", 2147483632, hostname="n0", UUID="GPU-6"),
        busy("DEV_GPU_UTIL", 100, hostname="elsewhere", UUID="GPU-7"),
    ]
    expected = [
        Expect(
            f"max by (node) ({DCGM.series('node_busy')})", [({"node": n}, v) for n, v in (("n1", 0.6), ("n2", 0.05), ("n3", 0.3))]
        ),
        Expect(f"max by (pool) ({DCGM.series('pool_busy')})", [({"pool": "A100"}, 1.9 / 6)]),
        Expect(f"max by (pod) ({DCGM.series('pod_busy')})", [({"pod": "p"}, 0.6), ({"pod": "q"}, 0.1)]),
    ]
    check(rule_groups(MonitoringSettings(dcgm=True)), given, expected, tmp_path)


def test_what_gpus_do_is_unknown_where_dcgm_does_not_tell_and_that_is_told(tmp_path: Path) -> None:
    objects = packed("8: 8")
    silent = {"cluster": "a", "problem": "what GPUs do is not told by DCGM"}
    given = [*of(objects, "a"), *of(objects, "b"), busy("DEV_GPU_UTIL", 0, hostname="n1", cluster="b")]
    expected = [
        Expect(f"count by (cluster) ({DCGM.series('pool_busy')})", [({"cluster": "b"}, 1)]),
        firing("GPUMonitoringBlind", at="14m"),
        firing("GPUMonitoringBlind", silent, at="16m"),
    ]
    check(rule_groups(MonitoringSettings(dcgm=True)), given, expected, tmp_path)


@pytest.mark.parametrize(
    ("counters", "evictions"),
    [
        # From 0.34 under the first name, before under the second; in an upgrade both. What is no success does not count.
        ({'descheduler_pods_evicted_total{result="success"}': 3, 'descheduler_pods_evicted_total{result="no"}': 5}, 60),
        (
            {'descheduler_pods_evicted{result="success",node="a"}': 1, 'descheduler_pods_evicted{result="success",node="b"}': 1},
            40,
        ),
        ({'descheduler_pods_evicted_total{result="success"}': 1, 'descheduler_pods_evicted{result="success"}': 1}, 20),
        ({}, None),
    ],
    ids=["its name", "its name before", "both", "none"],
)
def test_the_deschedulers_evictions_are_told_by_one_name_of_two(
    counters: dict[str, int], evictions: int | None, tmp_path: Path
) -> None:
    # By so many more in each of the first twenty minutes, and none thereafter.
    given = [Series(name, f"0+{more}x20 {20 * more}x200") for name, more in counters.items()]
    query = f"round(sum by (x) ({FIGURES.series('descheduler_evictions')}))"
    check(RULES, given, [Expect(query, [] if evictions is None else [({}, evictions)], at="59m")], tmp_path)


@pytest.mark.parametrize("matchers", ['cluster="a"', 'job="a"'])
def test_evictions_of_other_clusters_are_not_asked_for(matchers: str, tmp_path: Path) -> None:
    given = [each for name in "ab" for each in series(samples(packed("8: 1")), cluster=name, job=name)]
    given += [Series(f'descheduler_pods_evicted_total{{result="success",cluster="{name}"}}', "0+1x20 20x200") for name in "ab"]
    query = default_queries(GPU, matchers)["evictions"]
    check(RULES, given, [Expect(f"round({query})", [(A, 20)], at="59m")], tmp_path)


@pytest.mark.parametrize("name", ["pool_stranded_now", "pool_utilization", "pods", "pods_not_ready", "cold_start[0.9]"])
def test_a_figure_asked_for_at_once_is_the_one_that_is_recorded(name: str, tmp_path: Path) -> None:
    objects = [*packed("8: 1", "8: 3", "8:"), pod("new", 2, "n3", status={"conditions": [ready(90)]})]
    given = series(samples(objects))
    recorded = FIGURES.series(name)
    query = f"sort(({FIGURES.inline(name)}) - ignoring (resource, quantile) {recorded})"
    (labels,) = [{"pool": UNNAMED}] if name.startswith("pool") else [{}]
    check(RULES, given, [Expect(query, [(labels, 0)])], tmp_path)


def ready(after: int, status: str = "True") -> Object:
    """The Ready condition of a pod, so many seconds after the beginning."""
    return {"type": "Ready", "status": status, "lastTransitionTime": f"1970-01-01T00:{after // 60:02}:{after % 60:02}Z"}


def test_what_pods_request_is_unknown_where_pods_are_not_told(tmp_path: Path) -> None:
    objects = packed("8: 1", "8:")
    told = [sample for sample in samples(objects) if sample[0] != "kube_pod_container_resource_requests"]
    known = [*series(told, cluster="a"), *series(samples(objects), cluster="b")]
    free = [Expect(f"count by (cluster) ({FIGURES.series('node_free')})", [({"cluster": "b"}, 2)])]
    no_figure = [
        Expect(f'{FIGURES.series(name)[:-1]}, cluster="a"}}', []) for name in ("pool_free", "pool_utilization", "pool_slots[8]")
    ]
    check(RULES, known, [*free, *no_figure], tmp_path)


def test_a_start_counts_until_the_pod_was_ready_first(tmp_path: Path) -> None:
    flapping = [
        Series('kube_pod_status_ready_time{namespace="default",pod="p",uid="uid-p"}', "_x4 180x10 _x5 1800x100"),
        # An exporter that came later has not seen the first time.
        Series('kube_pod_status_ready_time{namespace="default",pod="p",uid="uid-p",instance="2"}', "_x30 1800x80"),
        Series('kube_pod_status_ready_time{namespace="default",pod="q",uid="uid-q"}', "_x2 60x100"),
    ]
    objects = [node("n1"), *(pod(name, 1, "n1", owner="ReplicaSet/llm-7d9c") for name in ("p", "q")), pod("r", 1, "n1")]
    objects.append(workload("ReplicaSet", "llm-7d9c", owner="Deployment/llm"))
    given = [*series(samples(objects)), *flapping]
    # Pods are scheduled at 0. The one that never was Ready has no start to tell of.
    starts = Expect(f"max by (pod) ({FIGURES.series('pod_cold_start')})", [({"pod": "p"}, 180), ({"pod": "q"}, 60)], at="90m")
    half = Expect(
        f"max by (workload) ({FIGURES.series('workload_cold_start[0.5]')})", [({"workload": "Deployment/llm"}, 120)], at="90m"
    )
    check(RULES, given, [starts, half], tmp_path)


def test_blocked_pods_wait_since_the_scheduler_gave_up(tmp_path: Path) -> None:
    objects = [*packed("8: 6", "8: 6"), pod("large", 4)]
    found = [Expect(f"sum by (cluster) ({FIGURES.series('blocked_seconds')})", [({}, 600)], at="10m")]
    check(RULES, series(samples(objects)), found, tmp_path)


@pytest.mark.parametrize("settings", [SETTINGS, MonitoringSettings(dcgm=True, exported_labels=RENAMED, slot_size=8)])
def test_promtool_finds_nothing_wrong(settings: MonitoringSettings, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(json.dumps(rule_groups(settings)))
    command = [str(programs(PROMETHEUS) / "promtool"), "check", "rules", "--lint=all", "--lint-fatal", "rules.yml"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def evicted(namespace: str, count: int, gpus: int | None, at: int, *, cluster: str, instance: str = "") -> list[Series]:
    """Pods that are there for a minute, on their way out by the Eviction API."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    pods = [
        pod("same", gpus, "n1", namespace=namespace, status={"conditions": [target]}, metadata={"uid": f"{namespace}-{i}-{at}"})
        for i in range(count)
    ]
    return series(samples(pods), f"_x{at} {{value}}x1 _x600", cluster=cluster, instance=instance)


def cron_job(name: str, *, succeeded: str | None = None) -> Object:
    status = {} if succeeded is None else {"lastSuccessfulTime": succeeded}
    return {"kind": "CronJob", "metadata": {"namespace": "kube-system", "name": name}, "spec": {}, "status": status}


def deployment(name: str, replicas: int, available: int) -> Object:
    meta = {"namespace": "kube-system", "name": name}
    return {"kind": "Deployment", "metadata": meta, "spec": {"replicas": replicas}, "status": {"availableReplicas": available}}


def pdb(namespace: str, status: Object) -> Object:
    return {"kind": "PodDisruptionBudget", "metadata": {"namespace": namespace, "name": "b"}, "status": status}


def of(objects: Iterable[Object], cluster: str, values: str = "{value}x600") -> list[Series]:
    return series(samples(objects), values, cluster=cluster)


def problem(cluster: str, text: str) -> dict[str, str]:
    return {"cluster": cluster, "problem": text}


GPUS = packed("8: 8")
A, B = {"cluster": "a"}, {"cluster": "b"}
TIGHT = {"disruptionsAllowed": 0, "expectedPods": 2}
UNTOLD = [sample for sample in samples(GPUS) if sample[0] != "kube_pod_status_phase"]
# What is told, and what fires when: each alert before and after its time, of one cluster and not of the other.
FIRES: dict[str, tuple[list[Series], list[Expect]]] = {
    "GPUFragmentationHigh": (
        [
            *of(packed("8: 7", "8: 7", "8: 8", "8: 8"), "a"),
            *of(packed("8: 7", "8: 8", "8: 8", "8: 6"), "b"),
            # No node has two.
            *of(packed("1:", "1:", "1: 1"), "c"),
        ],
        [
            firing("GPUFragmentationHigh", at="29m"),
            firing("GPUFragmentationHigh", {"pool": UNNAMED, "size": "2", "severity": "warning", "resource": GPU} | A, at="31m"),
        ],
    ),
    "GPUPodsBlocked": (
        [*of([*packed("8: 6", "8: 6"), pod("p", 4)], "a"), *of([*packed("8: 4", "8: 6"), pod("p", 4)], "b")],
        [
            firing("GPUPodsBlocked", at="14m"),
            firing("GPUPodsBlocked", {"pool": UNNAMED, "size": "4", "severity": "warning"} | A, at="16m"),
        ],
    ),
    "GPUEvictionStorm": (
        [
            *evicted("x", 6, 1, 20, cluster="a"),
            *evicted("y", 5, 1, 20, cluster="a"),
            *evicted("x", 9, None, 20, cluster="b"),
            # Seen by two exporters they are as many as before.
            *evicted("z", 4, 1, 20, cluster="b", instance="1"),
            *evicted("z", 4, 1, 20, cluster="b", instance="2"),
        ],
        [
            firing("GPUEvictionStorm", at="19m"),
            firing("GPUEvictionStorm", {"namespace": "x", "severity": "critical"} | A, at="22m"),
            firing("GPUEvictionStorm", at="35m"),
        ],
    ),
    "GPUEvictionPingPong": (
        [
            *of([*packed("8: 1"), pod("p", 8)], "a"),
            *of([*packed("8: 1"), pod("p", 8)], "b", "{value}x100 _x500"),
            *of([*packed("8: 8"), pod("p", 8)], "b", "_x101 {value}x500"),
            *(each for at in (200, 230, 260, 290) for cluster in "ab" for each in evicted("x", 6, 1, at, cluster=cluster)),
        ],
        [
            firing("GPUEvictionPingPong", at="380m"),
            firing("GPUEvictionPingPong", {"severity": "warning"} | A, at="400m"),
        ],
    ),
    "GPUDeschedulerNotRunning": (
        [
            *of(GPUS, "a"),
            *of([*GPUS, cron_job("descheduler", succeeded="1970-01-01T00:10:00Z")], "b"),
            *of([*GPUS, cron_job("descheduler")], "c"),
            *of([*GPUS, deployment("descheduler", 1, 1)], "d"),
            *of([*GPUS, deployment("descheduler", 1, 0), cron_job("other", succeeded="1970-01-01T00:00:00Z")], "e"),
            *of([node("cpu", None)], "f"),
        ],
        [
            firing("GPUDeschedulerNotRunning", at="14m"),
            firing("GPUDeschedulerNotRunning", problem("a", "is not there"), problem("e", "has no pod that runs"), at="16m"),
            firing(
                "GPUDeschedulerNotRunning",
                problem("a", "is not there"),
                problem("b", "has not succeeded for too long"),
                problem("c", "has not succeeded for too long"),
                problem("e", "has no pod that runs"),
                at="90m",
            ),
        ],
    ),
    "GPUTuningPaused": (
        [
            Series('gpuops_run_info{cluster="a",verdict="PausedByMetrics"}', "1x600"),
            Series('gpuops_run_info{cluster="b",verdict="Recommended"}', "1x600"),
            Series('gpuops_tune_info{cluster="c",action="pause"}', "1x600"),
            Series('gpuops_tune_info{cluster="d",action="hold"}', "1x600"),
        ],
        [
            firing("GPUTuningPaused", at="29m"),
            firing("GPUTuningPaused", A, {"cluster": "c"}, at="31m"),
        ],
    ),
    "GPUBudgetAllowsNothing": (
        [
            *of([*GPUS, pdb("default", TIGHT)], "a"),
            # Without GPU pods, without pods, and one that allows.
            *of([*GPUS, pdb("web", TIGHT)], "b"),
            *of([*GPUS, pdb("default", {})], "c"),
        ],
        [
            firing("GPUBudgetAllowsNothing", at="59m"),
            firing("GPUBudgetAllowsNothing", {"namespace": "default", "poddisruptionbudget": "b"} | A, at="61m"),
        ],
    ),
    "GPUMonitoringBlind": (
        [
            *of(GPUS, "a", "{value}x30 _x500"),
            *series(UNTOLD, "{value}x600", cluster="b"),
            *of(GPUS, "c"),
            *series(samples(GPUS), "{value}x600", renamed=True, cluster="d"),
        ],
        [
            firing("GPUMonitoringBlind", at="14m"),
            firing(
                "GPUMonitoringBlind",
                problem("b", "what pods request is not told"),
                problem("d", "the labels of nodes are not those that the rules were made for"),
                at="16m",
            ),
            firing(
                "GPUMonitoringBlind",
                problem("a", "nodes with GPUs are told of no more"),
                problem("b", "what pods request is not told"),
                problem("d", "the labels of nodes are not those that the rules were made for"),
                at="55m",
            ),
        ],
    ),
    "GPUMonitoringBlind of all": (
        [],
        [
            firing("GPUMonitoringBlind", at="14m"),
            firing("GPUMonitoringBlind", {"problem": "no node with GPUs is told of"}, at="16m"),
        ],
    ),
}


@pytest.mark.parametrize(("given", "expected"), FIRES.values(), ids=FIRES)
def test_an_alert_fires_in_its_time_and_for_its_cluster(given: list[Series], expected: list[Expect], tmp_path: Path) -> None:
    check(RULES, given, expected, tmp_path)


def test_every_alert_is_tried_out_and_has_a_runbook() -> None:
    names = {alert.name for alert in alerts(SETTINGS)}
    assert {name.split()[0] for name in FIRES} == names


def test_nothing_fires_of_what_is_not_known(tmp_path: Path) -> None:
    """Where nothing is told, only that is told."""
    names = [alert.name for alert in alerts(SETTINGS) if alert.name != "GPUMonitoringBlind"]
    check(RULES, [], [firing(name, at="110m") for name in names], tmp_path)
