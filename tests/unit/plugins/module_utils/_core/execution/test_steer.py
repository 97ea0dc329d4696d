# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move, Order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import (
    Stakes,
    compared,
    lead,
    steps,
    tainted,
    unsteerable,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Cluster, Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, node, serving

SOFT = {"key": "gpuops.io/defrag", "effect": "PreferNoSchedule"}


def world(*objects: Object) -> Cluster:
    return decode(objects, live=True)


def moves(cluster: Cluster, **targets: str) -> dict[Move, Pod]:
    """A move of each pod by name."""
    there = {pod.name: pod for pods in cluster.bound.values() for pod in pods}
    return {
        Move("default", name, name, "", there[name].requests.get(GPU, 0), there[name].node, target): there[name]
        for name, target in targets.items()
    }


def led(cluster: Cluster, pods: dict[Move, Pod], **more: Any) -> list[list[str]]:
    found = steps(cluster, pods, list(pods), GPU, **({"gangs": {}} | more))
    return [sorted(move.pod for move in step) for step in found]


NODES = [node(f"n{number}") for number in range(1, 5)]


def test_the_largest_go_first_and_pods_alike_go_together_where_they_fill_the_nodes() -> None:
    cluster = world(
        *NODES, serving("a", "n1", 1), serving("b", "n1", 1), serving("c", "n1", 4), serving("x", "n2", 7), serving("y", "n3", 7)
    )
    assert led(cluster, moves(cluster, a="n2", b="n3", c="n4")) == [["c"], ["a", "b"]]


def test_to_a_node_that_could_take_more_pods_are_led_alone() -> None:
    cluster = world(*NODES, serving("a", "n1", 1), serving("b", "n1", 1), serving("c", "n1", 1), serving("x", "n2", 6))
    assert led(cluster, moves(cluster, a="n2", b="n2", c="n3")) == [["a", "b"], ["c"]]


def test_pods_that_differ_are_led_apart() -> None:
    cluster = world(
        *NODES, serving("a", "n1", 1), serving("b", "n1", 1, nodeSelector={"kubernetes.io/hostname": "n3"}), serving("x", "n2", 7)
    )
    assert len(led(cluster, moves(cluster, a="n2", b="n3"))) == 2


def test_a_gang_goes_at_once_whatever_the_sizes_of_its_members() -> None:
    cluster = world(*NODES, serving("lead", "n1", 1), serving("work", "n1", 4), serving("z", "n1", 2))
    pods = moves(cluster, lead="n2", work="n3", z="n4")
    gangs = {id(pod): "gang" for pod in pods.values() if pod.name != "z"}
    assert led(cluster, pods, gangs=gangs) == [["lead", "work"], ["z"]]


def test_what_is_to_go_alone_does() -> None:
    cluster = world(*NODES, serving("a", "n1", 1), serving("b", "n1", 1), serving("x", "n2", 7), serving("y", "n3", 7))
    pods = moves(cluster, a="n2", b="n3")
    assert led(cluster, pods, alone=set(pods)) == [["a"], ["b"]]


def test_only_nodes_that_could_attract_a_pod_and_are_no_destination_repel() -> None:
    cluster = world(
        *NODES,
        node("full"),
        node("closed", unschedulable=True),
        node("cpu", None),
        serving("a", "n1", 2),
        serving("x", "n1", 6),
        serving("f", "full", 7),
    )
    pods = moves(cluster, a="n2")
    # n1 has room once the pod has left it.
    led = lead(cluster, pods, list(pods), GPU, Stakes(frozenset(), None))
    assert led.repel == {"n1", "n3", "n4"}
    assert not led.loose


@pytest.mark.parametrize(("nodes", "most"), [(1, 1), (100, 100), (101, 100), (250, 120), (1213, 497), (5000, 500), (15000, 750)])
def test_of_so_many_nodes_the_scheduler_compares(nodes: int, most: int) -> None:
    assert compared(nodes) == most


def crowd(number: int) -> Cluster:
    """So many nodes with three free GPUs, one that is empty, one with a slot of 2 to lose, and a pod on a node to be emptied."""
    many = [each for i in range(number) for each in (node(f"c{i:03}"), serving(f"c{i:03}", f"c{i:03}", 5))]
    return world(*many, *NODES, serving("a", "n1", 1), serving("b", "n3", 6), serving("x", "n2", 5), serving("y", "n4", 4))


@pytest.mark.parametrize(("slot", "repel"), [(None, {"n1"}), (8, {"n1"}), (2, {"n1", "n3", "n4"}), (4, {"n1", "n4"})])
def test_where_more_nodes_could_take_a_pod_than_are_compared_those_at_stake_repel(slot: int | None, repel: set[str]) -> None:
    cluster = crowd(120)
    pods = moves(cluster, a="n2")
    led = lead(cluster, pods, list(pods), GPU, Stakes(frozenset({"n1", "n2"}), slot))
    assert led.loose == set(pods)
    assert led.repel == repel


def test_an_empty_node_is_at_stake_where_whole_nodes_are_to_be_had() -> None:
    cluster = decode([*(node(f"e{i:03}") for i in range(110)), serving("a", "e000", 1), serving("b", "e001", 1)], live=True)
    pods = moves(cluster, a="e001")
    led = lead(cluster, pods, list(pods), GPU, Stakes(frozenset(), None))
    assert led.repel == {f"e{i:03}" for i in range(110)} - {"e001"}


def test_at_stake_are_the_nodes_of_the_waves_that_are_left() -> None:
    first, second = Move("d", "a", "a", "", 1, "n1", "n2"), Move("d", "b", "b", "", 1, "n3", "n4")
    order = Order("p", "Recommended", GPU, ((first,), (second,)), None, Rules(), 1, (), {}, 8)
    assert Stakes.of(order, 0) == Stakes(frozenset({"n1", "n2", "n3", "n4"}), 8)
    assert Stakes.of(order, 1) == Stakes(frozenset({"n3", "n4"}), 8)


def test_taints_of_ours_are_found_and_others_are_not() -> None:
    others = [{"key": "gpuops.io/defrag", "effect": "NoSchedule"}, {"key": "x", "effect": "PreferNoSchedule"}]
    assert tainted(world(node("n1", taints=[SOFT]), node("n2", taints=others))) == {"n1"}


@pytest.mark.parametrize(
    ("tolerations", "told"),
    [([], False), ([{"operator": "Exists"}], True), ([{"key": "nvidia.com/gpu", "operator": "Exists"}], False)],
)
def test_a_pod_that_tolerates_everything_cannot_be_led(tolerations: list[Object], told: bool) -> None:
    cluster = world(*NODES, serving("a", "n1", 1, tolerations=tolerations))
    assert unsteerable(cluster.bound["n1"][0]) is told
