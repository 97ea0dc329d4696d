# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import EVERYTHING
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Except, Goal, Problem, formulate
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    REQUIRED,
    Object,
    claim,
    expression,
    laid_out,
    node,
    pod,
    pod_of,
    serving,
    uses,
    volume,
)

SLOTS = Goal(8, None)
NODES = Goal(None, None)


def problem(*objects: Object, goal: Goal = SLOTS, stays: tuple[str, ...] = (), guest: str | None = None, **more: Any) -> Problem:
    layout = laid_out(objects)
    costs = {id(pod_of(layout, name)): cost for name, cost in more.pop("costs", {}).items()}
    return formulate(
        layout,
        survey(layout, GPU, EVERYTHING).nodes,
        GPU,
        goal,
        stays={id(pod_of(layout, name)) for name in stays},
        costs=costs,
        guest=pod_of(layout, guest) if guest else None,
        **{"across_products": False, **more},
    )


def kinds(found: Problem) -> list[list[str]]:
    """The pods of each kind."""
    return [sorted(pod.name for pods in kind.at.values() for pod in pods) for kind in found.kinds]


TWO = [node("n1"), node("n2"), serving("a"), serving("b", "n2")]


def test_pods_that_are_alike_are_one_kind_whatever_their_workloads_and_nodes() -> None:
    found = problem(*TWO, serving("c", owner="ReplicaSet/other"))
    assert kinds(found) == [["a", "b", "c"]]
    assert found.held == [{0: 2}, {0: 1}]
    assert found.kinds[0].nodes == {0, 1}


@pytest.mark.parametrize(
    ("objects", "more"),
    [
        ([node("n1"), node("n2"), serving("a"), serving("b", "n2", 2)], {}),
        ([node("n1"), node("n2"), serving("a"), serving("b", "n2", requests={"cpu": "1"})], {}),
        ([node("n1"), node("n2"), serving("a"), serving("b", "n2", nodeSelector={NODE_NAME: "n1"})], {}),
        ([node("n1", product="x"), node("n2", product="y"), serving("a"), serving("b", "n2")], {}),
        (TWO, {"costs": {"b": 2.0}}),
    ],
    ids=["GPUs", "cores", "node selector", "product", "cost"],
)
def test_pods_that_differ_in_what_matters_are_of_different_kinds(objects: list[Object], more: dict[str, Any]) -> None:
    assert kinds(problem(*objects, **more)) == [["a"], ["b"]]


def test_the_order_of_the_input_does_not_matter() -> None:
    objects = [*TWO, serving("c", gpus=2), serving("d", "n2", 4)]
    assert kinds(problem(*objects)) == kinds(problem(*reversed(objects)))


def test_only_what_may_move_and_helps_is_movable() -> None:
    objects = [*TWO, serving("web", gpus=None)]
    assert kinds(problem(*objects, stays=("a",))) == [["web"], ["b"]]
    assert kinds(problem(*objects, goal=NODES)) == [["a", "b"], ["web"]]
    assert kinds(problem(*objects, pod("g", 8), guest="g")) == [["a", "b"], ["web"]]


def test_amounts_are_in_one_order_and_may_be_overdrawn() -> None:
    objects = [node("n1", 2, allocatable={"cpu": "1", "pods": "3"}), serving("a", gpus=3, requests={"cpu": "2", "x.io/y": "1"})]
    found = problem(*objects)
    assert found.resources == (GPU, "cpu", "x.io/y", "pods")
    assert found.free == [(-1, -1000, -1, 2)]
    assert found.kinds[0].demand == (3, 2000, 1, 1)


def test_a_node_is_bare_without_pods_that_would_have_to_leave_and_stuck_with_one_that_stays() -> None:
    objects = [*(node(f"n{i}") for i in range(1, 5)), serving("a"), serving("dcgm", "n2", None, owner="DaemonSet/dcgm")]
    found = problem(*objects, pod("bare", None, "n3"), goal=NODES, stays=("dcgm", "bare"))
    assert (found.bare, found.stuck) == (frozenset((1, 3)), frozenset((2,)))


def test_room_spoils_neither_a_slot_nor_a_free_node_but_one_that_is_of_no_use() -> None:
    objects = [node("n1", 12), node("n2", 12), serving("a", "n2")]
    assert [problem(*objects).room(0, (free, 0)) for free in (-1, 0, 7, 8, 12)] == [0, 0, 7, 0, 4]
    whole = problem(*objects, goal=NODES)
    assert (whole.room(0, (12, 0)), whole.room(1, (11, 0))) == (-1, 11)
    assert problem(*objects, pod("g", 8), guest="g").room(0, (12, 0)) == 12


def test_slots_are_gained_on_open_nodes_room_for_a_pod_where_it_may_go_and_any_node_may_be_freed() -> None:
    objects = [node("n1", unschedulable=True), node("n2"), node("n3"), serving("a")]
    assert problem(*objects).gainers == frozenset((1, 2))
    assert problem(*objects, goal=NODES).gainers is None
    wanting = pod("g", 8, requests={"cpu": "2"}, nodeSelector={NODE_NAME: "n3"})
    found = problem(*objects, wanting, guest="g")
    assert (found.gainers, found.needs) == (frozenset((2,)), (8, 2000, 1))


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": NODE_NAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"labels": {"app": app}, "affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def test_where_places_hang_on_other_pods_that_is_said() -> None:
    plain = [*TWO, node("n3")]
    assert problem(*plain).certain
    replicas = [serving("r1", "n1", **apart("r")), serving("r2", "n2", **apart("r"))]
    found = problem(*plain, *replicas)
    assert not found.certain
    assert [kind.nodes for kind in found.kinds if any(pod.name == "r1" for pods in kind.at.values() for pod in pods)] == [{0, 2}]


def test_anti_affinity_that_is_about_others_makes_no_pod_special() -> None:
    found = problem(*TWO, node("cpu", None), serving("dns", "cpu", None, **apart("dns")))
    assert found.certain
    assert kinds(found) == [["a", "b"]]


def test_a_pod_goes_no_further_than_its_volume_and_nowhere_with_a_claim_that_another_has() -> None:
    near = {"matchExpressions": [expression(NODE_NAME, "In", "n1", "n2")]}
    volumes = [claim("far"), claim("near", "v"), volume("v", terms=[near]), claim("alone", modes=["ReadWriteOncePod"])]
    users = [serving(name, owner=f"ReplicaSet/{name}", volumes=uses(name)) for name in ("far", "near", "alone")]
    found = problem(*TWO[:2], node("n3"), *volumes, *users, serving("other", "n2", volumes=uses("alone")))
    assert {next(iter(kind.at.values()))[0].name: kind.nodes for kind in found.kinds} == {
        "far": {0, 1, 2},
        "near": {0, 1},
        "alone": set(),
        "other": set(),
    }


def test_a_set_but_for_some_is_a_set() -> None:
    found = Except(frozenset(range(5)), {1, 7})
    assert sorted(found) == [0, 2, 3, 4]
    assert len(found) == 4
    assert 2 in found
    assert 1 not in found
    assert found - {2} == frozenset((0, 3, 4))
