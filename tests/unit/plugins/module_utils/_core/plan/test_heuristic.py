# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.heuristic import solve
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.moves import Outcome
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Amounts, Goal, Kind, Problem
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.release import lower_bound, options
from ansible_collections.gpuops.defrag.tests.unit.builders import laid_out, node, pod

Pods = Sequence[tuple[int, int]]
(LIKE_ANY,) = laid_out([node("n1"), pod("p", 1, "n1")]).pods["n1"]


def problem(
    nodes: Sequence[int],
    pods: Pods,
    *,
    size: int | None = 8,
    count: int | None = None,
    costs: Sequence[float] = (),
    places: Sequence[set[int]] = (),
    needs: Amounts | None = None,
) -> Problem:
    """Nodes with so many GPUs, each pod (GPUs, node) a kind of its own unless alike; needs are (GPUs, pods)."""
    free = list(nodes)
    kinds: dict[object, Kind] = {}
    held: list[dict[int, int]] = [{} for _node in nodes]
    for index, (gpus, at) in enumerate(pods):
        cost = costs[index] if costs else 1.0
        where = frozenset(places[index] if places else range(len(nodes)))
        kind = kinds.setdefault((gpus, cost, where), Kind((gpus, 1), cost, where))
        kind.at.setdefault(at, []).append(LIKE_ANY)
        number = list(kinds.values()).index(kind)
        held[at][number] = held[at].get(number, 0) + 1
        free[at] -= gpus
    return Problem(
        goal=Goal(size, count),
        resources=("gpu", "pods"),
        names=[f"n{number}" for number in range(len(nodes))],
        free=[(gpus, 100) for gpus in free],
        kinds=list(kinds.values()),
        held=held,
        bare=frozenset(number for number, found in enumerate(held) if not found),
        stuck=frozenset(),
        gainers=frozenset(range(len(nodes))) if needs else None,
        needs=needs,
    )


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
    ("nodes", "pods", "size", "gained", "fewest"),
    [
        ([8, 8], [(1, 0), (3, 1), (3, 1)], 8, 1, 1),
        ([8, 8], [(1, 0), (3, 1), (3, 1)], 8, 2, 3),
        ([8, 8], [(1, 0), (1, 0), (1, 0), (1, 1)], 4, 1, 1),
        ([8], [(8, 0)], 4, 1, 0),
        ([8, 8], [(1, 0), (2, 0), (5, 1)], None, 1, 1),
        ([8, 8], [(1, 0), (2, 0), (5, 1)], None, 2, 3),
        ([8, 8], [(1, 0), (5, 1)], 8, 0, 0),
    ],
)
def test_the_lower_bound_is_what_must_leave_wherever_it_goes(
    nodes: list[int], pods: Pods, size: int | None, gained: int, fewest: int
) -> None:
    found = problem(nodes, pods, size=size)
    assert lower_bound(found, options(found), gained) == fewest


def test_for_one_pod_a_level_is_the_cheapest_set_that_makes_room_in_every_resource() -> None:
    found = problem([8, 8], [(1, 0), (4, 0), (3, 0), (8, 1)], costs=[1, 9, 1, 1], needs=(4, 1))
    (option, *_more) = options(found)
    kinds = [found.kinds[kind].demand[0] for kind, _number in option.kinds]
    assert (option.node, option.cost, sorted(kinds)) == (1, 1.0, [8])
    found = problem([8], [(1, 0), (4, 0), (3, 0)], costs=[1, 9, 1], needs=(4, 1))
    (option,) = options(found)
    assert (option.cost, sorted(found.kinds[kind].demand[0] for kind, _number in option.kinds)) == (2.0, [1, 3])
    assert lower_bound(found, options(found), 1) == 1


def test_a_node_with_very_many_pods_is_still_looked_at_quickly() -> None:
    many = [(1, 0)] * 200
    found = problem([200, 200], many, costs=[1 + index / 1000 for index in range(200)], needs=(60, 1))
    (option,) = (option for option in options(found) if option.node == 0)
    assert sum(number for _kind, number in option.kinds) == 60
