# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.pending import Outlook, outlooks
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import parse_selector
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, PRODUCT, REQUIRED, Object, laid_out, node, packed, pod

TAINT = {"key": "gpu", "effect": "NoSchedule"}
A100 = {PRODUCT: "A100"}


def looks(objects: Iterable[Object], selector: str = "") -> list[Outlook]:
    layout = laid_out(objects)
    return outlooks(layout, survey(layout, GPU, parse_selector(selector)))


def look(*objects: Object, selector: str = "") -> Outlook:
    (found,) = looks(objects, selector)
    return found


def waiting(gpus: int = 4, name: str = "waiting", **more: Any) -> Object:
    return pod(name, gpus, **more)


@pytest.mark.parametrize(
    ("objects", "state", "takes", "message"),
    [
        (
            [*packed("8: 4"), waiting()],
            "Fits",
            "n1",
            "needs 4 GPUs; node n1 takes it, the scheduler has yet to place it",
        ),
        (
            [*packed("8: 6", "8: 6"), waiting()],
            "Blocked",
            None,
            "needs 4 GPUs; pool (no product label) has 4 free, at most 2 on one node",
        ),
        (
            [*packed("8:", taints=[TAINT]), waiting()],
            "Blocked",
            None,
            "needs 4 GPUs; pool (no product label) has 8 free, node n1 has enough of them but refuses it: Taint",
        ),
        (
            [*packed("8: 6"), waiting()],
            "Short",
            None,
            "needs 4 GPUs; pool (no product label) has 2 free in all: more GPUs are needed, not tidier ones",
        ),
        (
            [*packed("2:", "2:"), waiting()],
            "TooLarge",
            None,
            "needs 4 GPUs; no node that it may use has so many",
        ),
        (
            [*packed("8:"), waiting(1, nodeSelector=A100)],
            "NoPool",
            None,
            "needs 1 GPU; its node selector or affinity admits no GPU node",
        ),
        (
            [node("cpu", None), waiting()],
            "NoPool",
            None,
            "needs 4 GPUs; there is no GPU node",
        ),
        (
            [*packed("8:"), waiting(schedulingGates=[{"name": "quota"}])],
            "Gated",
            None,
            "needs 4 GPUs; its scheduling gates keep it back",
        ),
        (
            [*packed("8:"), waiting(status={"nominatedNodeName": "n1"})],
            "Nominated",
            "n1",
            "needs 4 GPUs; a preemption keeps room on node n1 for it",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_pending_pod_is_told_what_to_hope_for(objects: list[Object], state: str, takes: str | None, message: str) -> None:
    found = look(*objects)
    assert (found.state, found.node, found.message) == (state, takes, message)


def test_the_node_it_leaves_with_the_fewest_gpus_free_is_named() -> None:
    assert look(*packed("8:", "8: 3", "8: 4", "8: 4", "8: 6"), waiting()).node == "n3"


@pytest.mark.parametrize(
    ("raw", "state", "takes"),
    [
        (pod("waiting", metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"}), None, None),
        (pod("waiting", requests={"cpu": "1"}), None, None),
        (pod("waiting", 0), None, None),
        (pod("waiting", 1, phase="Failed"), None, None),
        (pod("waiting", 1), "Fits", "n1"),
    ],
)
def test_only_pods_that_wait_for_gpus_are_looked_at(raw: Object, state: str | None, takes: str | None) -> None:
    assert [(o.state, o.node) for o in looks([*packed("8:"), raw])] == ([(state, takes)] if state else [])


def test_the_pools_are_those_it_may_use_that_have_its_gpus_in_all() -> None:
    nodes = [
        node(f"{product}-{i}", 3, product=product) for product, count in (("A", 2), ("B", 3), ("C", 1)) for i in range(count)
    ]
    big = [node(f"{product}-big", 4, product=product) for product in "ABC"]
    held = [pod(f"held-{product}", 4, f"{product}-big") for product in "ABC"]
    found = look(*nodes, *big, *held, waiting(4))
    assert (found.state, found.pools, found.pool_free, found.largest) == ("Blocked", ["A", "B"], 9, 3)
    assert found.message == "needs 4 GPUs; the best stocked pool of A, B has 9 free, at most 3 on one node"


def test_where_no_pool_has_its_gpus_all_that_it_may_use_are_told() -> None:
    objects = [*packed("8: 7", product="A"), node("b", 8, product="B"), pod("q", 6, "b"), node("t", 8, product="T")]
    either = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": ["A", "B"]}]}]}
        }
    }
    found = look(*objects, waiting(4, affinity=either))
    assert (found.state, found.pools, found.pool_free) == ("Short", ["A", "B"], 2)


def test_refusals_count_every_gpu_node_by_its_first_reason() -> None:
    objects = [
        *packed("8: 6", "8: 8"),
        node("cordoned", unschedulable=True),
        node("tainted", 2, taints=[TAINT]),
        node("t4", product="T4", labels={"use": "other"}),
        node("busy", allocatable={"cpu": "1"}),
        node("cpu", None),
    ]
    found = look(*objects, waiting(requests={"cpu": "2"}, nodeSelector={"kubernetes.io/os": "linux"}))
    assert found.refusals == {"Cordoned": 1, "NodeSelector": 5}
    found = look(*objects, waiting(requests={"cpu": "2"}), pod("user", 8, "t4"))
    assert found.refusals == {"Cordoned": 1, "Taint": 1, "InsufficientGPU": 3, "InsufficientCPU": 1}
    assert list(found.refusals) == ["Cordoned", "Taint", "InsufficientGPU", "InsufficientCPU"]


def test_nodes_with_gpus_enough_that_refuse_are_named_with_all_reasons_fewest_first() -> None:
    objects = [
        *packed("8: 6"),
        node("a-two", allocatable={"cpu": "1"}, taints=[TAINT]),
        node("b-one", taints=[TAINT]),
        node("c-not-its-kind", labels={"use": "other"}),
    ]
    for raw in objects:
        if raw["kind"] == "Node" and raw["metadata"]["name"] != "c-not-its-kind":
            raw["metadata"]["labels"]["use"] = "llm"
    found = look(*objects, waiting(requests={"cpu": "2"}, nodeSelector={"use": "llm"}))
    assert [(name, [reason.value for reason in reasons]) for name, reasons in found.near] == [
        ("b-one", ["Taint"]),
        ("a-two", ["Taint", "InsufficientCPU"]),
    ]
    assert found.cause == ["InsufficientCPU", "Taint"]


def test_at_most_five_of_them_are_named() -> None:
    found = look(*packed(*["8:"] * 7, taints=[TAINT]), waiting())
    assert [name for name, _reasons in found.near] == ["n1", "n2", "n3", "n4", "n5"]
    assert found.refusals == {"Taint": 7}


def test_lack_of_gpus_on_every_node_is_fragmentation_alone() -> None:
    assert look(*packed("8: 6", "8: 6"), waiting()).cause == ["InsufficientGPU"]


@pytest.mark.parametrize(
    ("elsewhere", "selector"),
    [
        ([node("other", labels={"use": "n"})], "use=y"),
        ([node("other", labels={"use": "y", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "8"})], "use=y"),
    ],
    ids=["not selected", "shared"],
)
def test_a_node_that_is_in_no_figure_takes_a_pod_all_the_same(elsewhere: list[Object], selector: str) -> None:
    measured = packed("8: 6", "8: 6", labels={"use": "y"})
    found = look(*measured, *elsewhere, waiting(), selector=selector)
    assert (found.state, found.node) == ("Fits", "other")
    fitting = look(*measured, *elsewhere, waiting(2), selector=selector)
    assert (fitting.state, fitting.node) == ("Fits", "n1")
    refusing = [*measured, *elsewhere, pod("user", 6, "other"), waiting()]
    assert look(*refusing, selector=selector).state == "Blocked"


def test_of_several_such_nodes_the_tightest_takes_it() -> None:
    shared = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "8"}
    elsewhere = [node(name, gpus, labels=shared) for name, gpus in (("a", 8), ("c", 4), ("b", 4))]
    assert look(*packed("8: 6"), *elsewhere, waiting()).node == "b"


def test_nodes_that_refuse_alike_are_named_in_order_whatever_their_pool() -> None:
    found = look(node("b", product="A", taints=[TAINT]), node("a", product="B", taints=[TAINT]), waiting())
    assert [name for name, _reasons in found.near] == ["a", "b"]


def test_one_pool_that_is_open_and_has_the_gpus_is_enough_for_tidying_to_help() -> None:
    tainted = [raw for i in range(3) for raw in (node(f"a{i}", product="A", taints=[TAINT]), pod(f"pa{i}", 5, f"a{i}"))]
    opened = [raw for i in range(2) for raw in (node(f"b{i}", product="B"), pod(f"pb{i}", 6, f"b{i}"))]
    helped = look(*tainted, *opened, waiting(4))
    assert (helped.pools, helped.pool_free, helped.open_free, helped.cause) == (["A", "B"], 9, 4, ["InsufficientGPU"])
    lost = look(*tainted, *opened, waiting(5))
    assert (lost.pools, lost.open_free, lost.cause) == (["A"], 0, ["InsufficientGPU", "Taint"])
    assert lost.message.endswith("only 0 of them on nodes open to it (others: Taint): tidying up does not help")


def test_pods_are_told_of_by_namespace_and_name() -> None:
    pods = [waiting(name=name, namespace=space) for space, name in (("b", "a"), ("a", "b"), ("a", "a"))]
    assert [str(o.pod) for o in looks([*packed("8:"), *pods])] == ["a/a", "a/b", "b/a"]


APART = {
    "podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}]}
}


@pytest.mark.parametrize(
    ("bound", "one", "other"),
    [
        ([], {}, {"gpus": 8}),
        ([], {}, {"nodeSelector": {"kubernetes.io/hostname": "n2"}}),
        ([pod("p", on="n1", labels={"app": "x"})], {}, {"affinity": APART}),
        ([pod("p", on="n1", affinity=APART)], {"labels": {"app": "y"}}, {"labels": {"app": "x"}}),
        (
            [pod("p", on="n1", affinity=APART, namespace="a")],
            {"labels": {"app": "x"}},
            {"labels": {"app": "x"}, "namespace": "a"},
        ),
        ([pod("p", 6, priority=5, status={"nominatedNodeName": "n1"})], {"priority": 6}, {"priority": 4}),
    ],
    ids=["size", "selector", "its own affinity", "labels, if some pod repels", "namespace, if some pod repels", "priority"],
)
def test_pods_that_the_scheduler_tells_apart_are_looked_at_apart(bound: list[Object], one: Object, other: Object) -> None:
    objects = [*packed("8: 4", "8:"), *bound]
    both = {
        o.pod.name: (o.state, o.node)
        for o in looks([*objects, waiting(name="a", **one), waiting(name="b", **other)])
        if o.pod.name in "ab"
    }
    alone = {
        name: (o.state, o.node)
        for name, more in (("a", one), ("b", other))
        for o in looks([*objects, waiting(name=name, **more)])
        if o.pod.name == name
    }
    assert both == alone
    assert both["a"] != both["b"]


@pytest.mark.parametrize(
    ("objects", "cause", "words"),
    [
        (
            [*packed("8: 6"), node("n2", taints=[TAINT]), pod("p", 2, "n2")],
            ["InsufficientGPU", "Taint"],
            "others: Taint",
        ),
        (packed("8: 4", "8: 4", unschedulable=True), ["Cordoned", "InsufficientGPU"], "only 0 of them on nodes open to it"),
        (packed("8: 4", "8: 4", ready="False"), ["InsufficientGPU", "NotReady"], "tidying up does not help"),
        (packed("8: 4", "8: 4"), ["InsufficientGPU"], "pool (no product label) has 8 free, at most 4 on one node"),
    ],
    ids=["behind a taint", "cordoned", "not ready", "open"],
)
def test_gpus_that_a_pod_cannot_come_to_are_no_matter_of_tidying(objects: list[Object], cause: list[str], words: str) -> None:
    found = look(*objects, waiting(8))
    assert (found.state, found.cause) == ("Blocked", cause)
    assert words in found.message
