# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.heuristic import solve
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.moves import Outcome
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan.problems import Pods, problem


def moves(found: Outcome) -> set[tuple[int, int]]:
    return {(move.source, move.target) for move in found.moves}


def test_the_tightest_node_takes_a_pod() -> None:
    found = solve(problem([8, 8, 8], [(2, 0), (4, 1), (6, 2)], count=1))
    assert (moves(found), found.gained) == ({(0, 2)}, 1)


@pytest.mark.parametrize(("costs", "source"), [([1, 1, 5, 9], 0), ([3, 3, 5, 9], 1)])
def test_the_cheapest_node_gains_first(costs: list[float], source: int) -> None:
    found = solve(problem([8, 8, 8], [(1, 0), (1, 0), (2, 1), (5, 2)], costs=costs, count=1))
    assert moves(found) == {(source, 2)}


def test_a_choice_that_cannot_be_placed_gives_way_to_the_next() -> None:
    found = solve(problem([8, 8, 8], [(2, 0), (1, 1), (1, 1), (1, 1), (6, 2)], places=[{0}, {2}, {2}, {2}, {2}], count=1))
    assert (found.moves, found.gained) == ([], 0)
    found = solve(problem([8, 8, 8], [(2, 0), (1, 1), (1, 1), (6, 2)], places=[{0}, {2}, {2}, {2}], count=1))
    assert (moves(found), len(found.moves)) == ({(1, 2)}, 2)


def test_a_pod_that_was_placed_is_pushed_on_so_that_another_fits_even_by_the_first_node() -> None:
    # The 2 goes to node 0, the tightest; the 1s go nowhere else, so that it has to go on to node 1.
    places = [{0}, {1}, {0, 1}, {0}, {0}]
    found = solve(problem([8, 8, 8], [(6, 0), (5, 1), (2, 2), (1, 2), (1, 2)], places=places, count=1))
    assert (sorted((m.source, m.target) for m in found.moves), found.gained) == ([(2, 0), (2, 0), (2, 1)], 1)


def test_a_pod_that_stood_there_makes_way_at_the_price_of_one_more() -> None:
    places = [{1}, {1}, {1, 2}, {2}]
    found = solve(problem([8, 8, 8], [(2, 0), (6, 1), (1, 1), (7, 2)], places=places, count=1))
    assert (moves(found), found.cost) == ({(0, 1), (1, 2)}, 2.0)


@pytest.mark.parametrize(("count", "gained", "evictions"), [(1, 1, 2), (2, 2, 4), (3, 3, 6), (4, 3, 6), (None, 3, 6)], ids=str)
def test_as_much_as_is_wished_or_else_the_most_there_is(count: int | None, gained: int, evictions: int) -> None:
    light = [(1, at) for at in range(4) for _pod in range(2)]
    found = solve(problem([8] * 4, light, size=None, count=count))
    assert (found.gained, len(found.moves)) == (gained, evictions)


@pytest.mark.parametrize(
    ("nodes", "pods", "size", "expected"),
    [
        # Beyond a whole slot of 3 a pod of 4 takes one GPU, and that is to spare on node 1.
        ([8, 8], [(4, 0), (2, 0), (4, 1)], 3, {(0, 1)}),
        # Node 0 has three to spare once the 4 has left it: two of them for the 2 of node 2.
        ([8, 8, 8], [(4, 0), (4, 1), (2, 2), (2, 2)], 5, {(0, 1), (2, 0)}),
        # The 1 makes way for the 4, and goes to where the 4 was.
        ([8, 4], [(4, 0), (1, 1)], 5, {(0, 1), (1, 0)}),
        # The 4 may only go where the 1s leave no room: so two 2s leave node 0.
        ([8, 8, 8], [(4, 0), (2, 0), (2, 0), (6, 1), (6, 2)], 3, {(0, 1), (0, 2)}),
    ],
    ids=["beyond whole slots", "a source takes what it has to spare", "a swap", "smaller pods"],
)
def test_slots_of_odd_sizes(nodes: list[int], pods: Pods, size: int, expected: set[tuple[int, int]]) -> None:
    found = solve(problem(nodes, pods, size=size))
    assert moves(found) == expected
    assert len(found.moves) == len(expected)


def test_of_the_cheapest_pods_those_leave_that_find_a_place() -> None:
    found = solve(problem([8, 8], [(2, 0), (2, 0), (6, 1)], size=3, costs=[1, 2, 1], places=[{0}, {1}, {1}]))
    assert (moves(found), found.cost) == ({(0, 1)}, 2.0)


def test_nothing_moves_where_as_much_is_lost_as_is_gained() -> None:
    # The 2 finds room only where the 4 of node 1 makes way, which costs node 2 a slot; what node 1 has does not count.
    places = [{1}, {1, 2}, {1}, {2}]
    found = problem([3, 8, 8], [(2, 0), (4, 1), (3, 1), (4, 2)], size=3, places=places)
    assert moves(solve(found)) == {(0, 1), (1, 2)}
    assert solve(replace(found, gainers=frozenset({0, 2}))).moves == []
