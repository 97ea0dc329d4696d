# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.release import Releases, lower_bound, options
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan.problems import Pods, problem


@pytest.mark.parametrize(
    ("pods", "size", "leaving"),
    [
        ([1, 2], 8, [[1, 2]]),
        ([1, 2, 3], 4, [[2], [1, 2, 3]]),
        ([4, 2, 1], 3, [[2]]),
        ([3, 3, 2], 3, []),
        ([1] * 8, 3, [[1, 1, 1], [1] * 6]),
        ([2, 2, 2, 2], 3, [[2, 2], [2, 2, 2]]),
    ],
    ids=str,
)
def test_the_fewest_pods_leave_whose_gpus_beyond_whole_slots_make_up_a_slot(
    pods: list[int], size: int, leaving: list[list[int]]
) -> None:
    found = problem([8], [(gpus, 0) for gpus in pods], size=size)
    told = sorted(options(found), key=lambda option: option.level)
    assert [[found.kinds[k].demand[0] for k, n in option.kinds for _pod in range(n)] for option in told] == leaving


def test_what_came_to_a_node_leaves_it_for_nothing_and_a_kind_may_be_left_out() -> None:
    found = problem([8, 8], [(1, 0), (2, 1), (5, 1)], size=4)
    releases, now = Releases(found), {0: 1, 1: 1}
    (option,) = releases.of(0, now, (5, 98))[:1]
    assert (option.level, option.kinds, option.cost) == (1, ((0, 1), (1, 1)), 1.0)
    assert releases.of(0, now, (5, 98), frozenset({0})) == []


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
