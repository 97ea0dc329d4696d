# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import EVERYTHING
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.exact import Proof, available, solve
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.heuristic import solve as quick
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.moves import Outcome
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Goal, Problem, formulate
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, laid_out, node, packed, pod, serving


def problem(objects: list[Object], size: int | None = 8) -> Problem:
    layout = laid_out(objects)
    nodes = survey(layout, GPU, EVERYTHING).nodes
    stays = {id(pod) for pods in layout.pods.values() for pod in pods if pod.name.startswith("stay")}
    return formulate(layout, nodes, GPU, Goal(size, None), stays=stays, across_products=True, costs={})


def solved(objects: list[Object], count: int = 1, size: int | None = 8, **more: Any) -> Proof:
    return solve(problem(objects, size), count, None, **{"seconds": 10.0, "seed": 0, **more})


def moves(proof: Proof) -> list[tuple[int, int]]:
    assert proof.outcome is not None
    return sorted((move.source, move.target) for move in proof.outcome.moves)


def test_it_is_available_where_it_is_installed() -> None:
    assert available()


def test_the_fewest_evictions_are_proved() -> None:
    proof = solved(packed("8: 1+1", "8: 1+1", "8: 1+1", "8: 1+1"), 3, None)
    assert (len(moves(proof)), proof.optimal, proof.impossible, proof.bound) == (6, True, False, 6.0)


def test_what_cannot_be_had_is_proved_impossible() -> None:
    proof = solved(packed("8: 4+2+1", "8: 4+2", "8: 4+2+1"), 1, None)
    assert (proof.outcome, proof.optimal, proof.impossible) == (None, False, True)


def test_without_time_nothing_is_claimed() -> None:
    proof = solved(packed("8: 1+1", "8: 1+1", "8: 1+1"), 2, None, seconds=0.0)
    assert (proof.outcome, proof.optimal, proof.impossible) == (None, False, False)


def test_the_same_seed_gives_the_same_moves_and_a_hint_no_worse_ones() -> None:
    objects = packed("8: 1+1+2", "8: 1+2", "8: 4+1", "8: 2+2", "8: 1+3", "4: 1")
    first, second = (solved(objects, 2) for _run in range(2))
    assert moves(first) == moves(second)
    given = problem(objects)
    hint = quick(given)
    assert isinstance(hint, Outcome)
    hinted = solve(given, 2, hint, seconds=10.0, seed=0)
    assert len(moves(hinted)) == len(moves(first))


def test_a_node_that_is_free_may_take_pods_only_at_its_price() -> None:
    objects = [node("n1"), node("n2"), node("free"), serving("a", "n1", 5), serving("b", "n2", 4)]
    assert solved(objects, 1, None).impossible
    assert solved([*objects, node("n4", 5), pod("stay", 1, "n4")], 1, None).outcome is not None


@pytest.mark.parametrize("size", [8, None], ids=["slots", "whole nodes"])
def test_a_node_on_which_more_is_taken_than_there_is_receives_nothing_that_it_lacks(size: int | None) -> None:
    over = node("n2", 16, allocatable={"cpu": "2"})
    held = [pod("stay-1", 1, "n2", requests={"cpu": "4"}), serving("b", "n2", 8, nodeSelector={"no": "where"})]
    asking: dict[str, Any] = {"requests": {"cpu": "1"}}
    assert solved([node("n1"), over, *held, serving("a", "n1", 1, **asking)], 1, size).impossible
    assert moves(solved([node("n1"), over, *held, serving("a", "n1", 1)], 1, size)) == [(0, 1)]


def test_a_chain_is_told_as_two_moves() -> None:
    objects = [node("n1"), node("n2", labels={"is": "x"}), node("n3"), serving("a", "n1", 2, nodeSelector={"is": "x"})]
    objects += [pod("stay-2", 6, "n2"), serving("way", "n2", 1), pod("stay-3", 7, "n3")]
    assert moves(solved(objects)) == [(0, 1), (1, 2)]
