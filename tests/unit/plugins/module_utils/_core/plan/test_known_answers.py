# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small inputs whose right plan is certain; most come from reports against tools of this kind."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.tests.unit.builders import PRODUCT, Object, budget, node, pod, serving, workload

pytestmark = pytest.mark.parametrize("solver", ["heuristic", "exact"])


def filled(*rows: str) -> list[Object]:
    """Nodes n1, n2, … of 8 GPUs and their pods, written as ``"4+2+1"``, each the one replica of its own workload."""
    objects = [node(f"n{row}") for row in range(1, len(rows) + 1)]
    for row, text in enumerate(rows, start=1):
        sizes = [int(size) for size in text.split("+")] if text else []
        objects += [serving(f"p{row}-{i}", f"n{row}", n, owner=f"ReplicaSet/rs-{row}-{i}") for i, n in enumerate(sizes, start=1)]
    return objects


def planned(objects: list[Object], solver: str, **wish: Any) -> dict[str, Any]:
    return plan(objects, PlanOptions(**{"rules": Rules(movable_singletons=True), "solver": solver, **wish}))


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(move["pod"], move["from"], move["to"]) for wave in found["waves"] for move in wave]


def test_no_node_of_three_can_be_freed_when_twenty_of_24_gpus_are_used(solver: str) -> None:
    found = planned(filled("4+2+1", "4+2", "4+2+1"), solver, kind="free_nodes")
    assert (found["verdict"], found["waves"], found["evictions"], found["freed_nodes"]) == ("Blocked", [], 0, [])


def test_one_move_of_a_one_gpu_pod_undoes_their_fragmentation(solver: str) -> None:
    found = planned(filled("4+2+1", "4+2", "4+2+1"), solver, kind="slots", slot_size=2, count=1)
    ((name, source, target),) = moves(found)
    assert (name, {source, target}) in [("p1-3", {"n1", "n3"}), ("p3-3", {"n1", "n3"})]
    assert (found["before"]["fragmentation_rate"], found["after"]["fragmentation_rate"]) == (2 / 3, 0)


def test_ten_pods_and_one_free_gpu_elsewhere_is_blocked_and_moves_none(solver: str) -> None:
    objects = [node("source", 16), *(serving(f"s{i}", "source", owner=f"ReplicaSet/s{i}") for i in range(10))]
    objects += [node("elsewhere"), pod("full", 7, "elsewhere")]
    found = planned(objects, solver, kind="free_nodes")
    assert (found["verdict"], found["waves"], found["evictions"]) == ("Blocked", [], 0)


def test_four_light_nodes_become_one_with_six_moves(solver: str) -> None:
    found = planned(filled("1+1", "1+1", "1+1", "1+1"), solver, kind="free_nodes")
    assert (found["evictions"], len(found["freed_nodes"])) == (6, 3)
    assert (found["lower_bound"], found["optimal"]) == (6, True)
    assert len({target for _pod, _source, target in moves(found)}) == 1


def test_a_node_that_receives_is_no_source_though_it_is_light(solver: str) -> None:
    objects = [node("a", labels={"only": "a"}), node("c", labels={"only": "c"}), node("x", labels={"is": "x"})]
    objects += [node("y", 2, labels={"is": "y"})]
    for name, home, place in (("A", "a", "x"), ("B", "a", "x"), ("C", "c", "y")):
        objects.append(serving(name, home, 1, owner=f"ReplicaSet/{name.lower()}", nodeSelector={"is": place}))
    # Light as it is, y could be freed too, by way of the room on x; but then c could not.
    objects += [serving("light", "y", 1, owner="ReplicaSet/light", nodeSelector={"is": "x"}), pod("base", 6, "x")]
    found = planned(objects, solver, kind="free_nodes")
    assert sorted(moves(found)) == [("A", "a", "x"), ("B", "a", "x"), ("C", "c", "y")]
    assert found["freed_nodes"] == ["a", "c"]


SELECTED = {"app": "guarded"}


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(
            [
                serving("held", labels=SELECTED),
                serving("other", "n2", labels=SELECTED),
                budget("one", SELECTED, allowed=1),
                budget("two", SELECTED, allowed=1),
            ],
            id="two budgets that each allow one",
        ),
        pytest.param(
            [
                serving("held", labels=SELECTED),
                serving("other", "n2", labels=SELECTED),
                workload("ReplicaSet", "llm", 2),
                budget("all", SELECTED, minAvailable=2),
            ],
            id="two replicas, two needed",
        ),
        pytest.param([serving("held"), workload("ReplicaSet", "llm", 1)], id="one replica"),
        pytest.param([pod("held", 1, "n1")], id="a bare pod"),
        pytest.param([serving("held", owner="DaemonSet/ds")], id="a DaemonSet pod"),
        pytest.param(
            [serving("held", owner="Node/n1", annotations={"descheduler.alpha.kubernetes.io/evict": "true"})],
            id="a static pod that asks to be evicted",
        ),
    ],
)
def test_a_pod_that_must_stay_stays_and_the_reason_is_told(around: list[Object], solver: str) -> None:
    objects = [node("n1"), node("n2"), pod("mate", 4, "n2"), *around]
    found = planned(objects, solver, rules=Rules())
    assert (found["evictions"], found["waves"]) == (0, [])
    assert "held" in [skipped["pod"] for skipped in found["skipped"]]
    assert [kept["node"] for kept in found["nodes_kept"]][:1] == ["n1"]


@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
def test_a_pod_that_wants_an_a100_is_never_planned_onto_a_t4(kind: str, solver: str) -> None:
    objects = [node("a100", product="A100"), node("t4", product="T4"), serving("base", "t4", 4)]
    objects.append(serving("p", "a100", 4, owner="ReplicaSet/p", nodeSelector={PRODUCT: "A100"}))
    for more in ([], [serving("q", "a100", 1, owner="ReplicaSet/q")]):
        found = planned([*objects, *more], solver, kind=kind, across_products=True)
        assert ("p", "a100", "t4") not in moves(found)
