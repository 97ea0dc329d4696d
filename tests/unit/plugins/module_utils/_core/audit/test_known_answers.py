# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small inputs whose right answer is certain; most come from reports against tools of this kind."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    PRODUCT,
    Object,
    container,
    laid_out,
    measured,
    node,
    packed,
    pod,
)


def asking(amount: str) -> Object:
    return pod("asking", on="n1", requests={GPU: amount})


def test_three_nodes_with_one_two_and_one_free() -> None:
    found = measured(packed("8: 4+2+1", "8: 4+2", "8: 4+2+1"))
    assert found["node_free"] == {"n1": 1, "n2": 2, "n3": 1}
    assert found["largest_slot"] == 2
    assert (found["gpus_allocated"], found["gpus_total"]) == (20, 24)
    assert found["frag_rate"] == {"value": 0.0, "exact": True, "occupied": 3, "fewest": 3}
    assert found["fragmentation_rate"] == 2 / 3


def test_one_move_takes_their_fragmentation_rate_to_nothing() -> None:
    assert measured(packed("8: 4+2+1+1", "8: 4+2", "8: 4+2"))["fragmentation_rate"] == 0


def test_four_light_nodes_hold_what_one_could() -> None:
    found = measured(packed("8: 1+1", "8: 1+1", "8: 1+1", "8: 1+1"))
    assert found["frag_rate"] == {"value": 0.75, "exact": True, "occupied": 4, "fewest": 1}


def test_eight_free_gpus_on_four_nodes_block_an_eight_gpu_pod() -> None:
    found = measured([*packed("8: 6", "8: 6", "8: 6", "8: 6"), pod("large", 8)])
    (blocked,) = found["blocked_pods"]
    assert (blocked["pool_free"], blocked["largest_slot"], blocked["cause"]) == (8, 2, ["InsufficientGPU"])
    assert blocked["refusals"] == {"InsufficientGPU": 4}
    assert found["largest_slot"] == 2


def test_cpu_nodes_are_in_no_measure() -> None:
    gpu_nodes = packed("8: 4", "8: 2")
    with_cpu_nodes = [*gpu_nodes, node("cpu-1", None), node("cpu-2", None), pod("web", on="cpu-1", requests={"cpu": "4"})]
    assert measured(with_cpu_nodes, details=True) == measured(gpu_nodes, details=True)


@pytest.mark.parametrize(
    ("effects", "tolerations"),
    [(["NoSchedule", "NoSchedule"], [{"operator": "Exists"}]), (["PreferNoSchedule"], [])],
    ids=["two taints, one toleration of all", "a soft taint, no toleration"],
)
def test_tolerated_and_soft_taints_do_not_keep_a_pod_away(effects: list[str], tolerations: list[Object]) -> None:
    taints = [{"key": f"key-{i}", "value": "v", "effect": effect} for i, effect in enumerate(effects)]
    found = measured([node("n1", taints=taints), pod("waiting", 2, tolerations=tolerations)])
    assert [(p["state"], p["node"]) for p in found["pending_pods"]] == [("Fits", "n1")]


def test_shares_are_not_truncated() -> None:
    found = measured([node(f"n{i}", 61 if i == 0 else 139) for i in range(2)] + [pod("p", 61, "n0")])
    assert found["utilization"] == 61 / 200 > 0.30


@pytest.mark.parametrize(
    ("init", "gpus"),
    [
        ([container("init", requests={GPU: "4"})], 4),
        ([container("sidecar", requests={GPU: "1"}, restartPolicy="Always")], 2),
        ([container("sidecar", requests={GPU: "1"}, restartPolicy="Always"), container("init", requests={GPU: "4"})], 5),
    ],
    ids=["init container of 4", "sidecar of 1", "sidecar of 1, then init container of 4"],
)
def test_init_containers_and_sidecars_beside_an_app_of_one(init: list[Object], gpus: int) -> None:
    assert measured([node("n1"), pod("p", 1, "n1", initContainers=init)])["gpus_allocated"] == gpus


@pytest.mark.parametrize(
    ("offered", "capacity", "held"), [(0, 8, [4]), (2, 3, [1, 2])], ids=["no device works", "one of three failed"]
)
def test_a_node_with_failed_devices_is_neither_fragmented_nor_reclaimable(offered: int, capacity: int, held: list[int]) -> None:
    pods = [pod(f"p{i}", gpus, "sick") for i, gpus in enumerate(held)]
    for objects in ([node("sick", offered, capacity=capacity), *pods], [node("sick", 0, capacity=8)]):
        found = measured(objects)
        assert found["node_free"] == {"sick": 0}
        assert (found["gpus_free"], found["fragmentation_rate"], found["reclaimable_nodes"]) == (0, 0, [])
        assert [n["node"] for n in found["unhealthy_nodes"]] == ["sick"]


def test_a_pod_of_no_gpus_is_a_cpu_pod() -> None:
    assert measured([node("n1"), asking("0")])["gpu_pods"] == 0


def test_a_suffix_counts() -> None:
    assert measured([node("n1", 2000), asking("1k")])["gpus_allocated"] == 1000


@pytest.mark.parametrize(
    ("amount", "words"), [("0.5", "not a whole number"), ("-1", "negative"), ("two", "not a quantity")], ids=str
)
def test_an_impossible_number_of_gpus_is_refused_by_pod_and_field(amount: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        measured([node("n1"), asking(amount)])
    assert refused.value.object == "Pod default/asking"
    assert refused.value.field == f"spec.containers[0].resources.requests[{GPU}]"


def test_a_pod_that_wants_an_a100_is_never_told_to_fit_on_a_t4() -> None:
    nodes = [node("a100", product="A100"), node("t4", product="T4"), pod("a", 6, "a100"), pod("b", 4, "t4")]
    (waiting,) = measured([*nodes, pod("p", 4, nodeSelector={PRODUCT: "A100"})])["pending_pods"]
    assert (waiting["state"], waiting["node"]) == ("Short", None)


EIGHT = ["8: 7"] * 6 + ["8: 6", "8: 8"]


def test_a_node_with_two_free_takes_a_two_gpu_pod_and_is_named() -> None:
    found = measured([*packed(*EIGHT), pod("pair", 2)])
    assert found["blocked_pods"] == []
    assert [(p["state"], p["node"]) for p in found["pending_pods"]] == [("Fits", "n7")]


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, "Taint"),
        ({"allocatable": {"cpu": "1"}}, "InsufficientCPU"),
        ({"allocatable": {"memory": "1Gi"}}, "InsufficientMemory"),
        ({"unschedulable": True}, "Cordoned"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_if_that_node_refuses_it_is_said_what_stops_it(spoilt: Object, reason: str) -> None:
    objects = [*packed(*EIGHT), pod("pair", 2, requests={"cpu": "4", "memory": "8Gi"})]
    objects = [node("n7", 8, **spoilt) if o["metadata"]["name"] == "n7" else o for o in objects]
    (blocked,) = measured(objects)["blocked_pods"]
    assert blocked["cause"] == [reason]
    assert blocked["nodes"] == [{"node": "n7", "reasons": [reason]}]
    assert sum(blocked["refusals"].values()) == 8


def test_pods_that_finished_hold_nothing_and_terminating_ones_all() -> None:
    leaving = {"deletionTimestamp": "2026-11-30T12:00:00Z"}
    layout = laid_out([node("n1"), pod("done", 4, "n1", phase="Succeeded"), pod("leaving", 2, "n1", metadata=leaving)])
    assert layout.used["n1"][GPU] == 2
