# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import random

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.moves import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.placing import Placing
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan.problems import problem


def test_a_pod_that_is_moved_twice_costs_one_eviction_and_one_that_comes_back_none() -> None:
    placing = Placing(problem([8, 8, 8], [(2, 0), (6, 1), (6, 2)], size=8))
    placing.shift(0, 0, -1)
    placing.shift(0, 1, +1)
    placing.shift(0, 1, -1)
    placing.shift(0, 2, +1)
    assert (placing.cost, placing.gained, placing.moves()) == (1.0, 1, [Move(0, 0, 2)])
    placing.shift(0, 2, -1)
    placing.shift(0, 0, +1)
    assert (placing.cost, placing.gained, placing.moves()) == (0.0, 0, [])


def test_a_node_gets_back_what_left_it_if_there_is_room() -> None:
    placing = Placing(problem([8, 8, 8], [(2, 0), (6, 1), (6, 2)], size=4))
    placing.shift(0, 0, -1)
    placing.shift(0, 1, +1)
    assert placing.left() == [0]
    assert placing.restore(0)
    assert (placing.left(), placing.cost) == ([], 0.0)
    placing.shift(0, 0, -1)
    placing.shift(0, 1, +1)
    placing.shift(1, 2, -1)
    placing.shift(1, 0, +1)
    placing.shift(1, 1, -1)
    placing.shift(1, 0, +1)
    assert not placing.restore(0)


def test_everything_is_undone() -> None:
    for size in (1, 3, 8, None):
        chance = random.Random(size)
        placing = Placing(
            problem([8] * 4, [(chance.choice((1, 2, 3)), at) for at in (0, 0, 1, 2) for _pod in range(2)], size=size)
        )

        def told(placing: Placing = placing) -> object:
            shelves = {room: list(shelf) for room, shelf in placing.shelves.items() if shelf}
            return list(placing.free), [dict(held) for held in placing.held], placing.gained, placing.cost, shelves

        before, mark = told(), placing.mark()
        for _move in range(20):
            source = chance.choice([node for node, held in enumerate(placing.held) if held])
            kind = chance.choice(sorted(placing.held[source]))
            placing.shift(kind, source, -1)
            if not placing.place(kind):
                placing.shift(kind, source, +1)
        placing.undo(mark)
        assert told() == before
