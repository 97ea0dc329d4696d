# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.packing import Amounts, Fewest, fewest_nodes

NODE = st.tuples(st.sampled_from([2, 4, 8]), st.sampled_from([8, 16, 32]), st.just(3))
POD = st.tuples(st.sampled_from([1, 1, 2, 3, 4, 5, 8]), st.integers(0, 10), st.just(1))


def fits(pods: list[Amounts], rooms: list[Amounts]) -> bool:
    """Whether some way to put the pods into the rooms exists; tries all."""
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    for i, room in enumerate(rooms):
        left = tuple(r - p for r, p in zip(room, first, strict=True))
        if room not in rooms[:i] and min(left) >= 0 and fits(rest, [*rooms[:i], left, *rooms[i + 1 :]]):
            return True
    return False


def fewest_by_trying(pods: list[Amounts], nodes: list[Amounts]) -> int | None:
    ordered = sorted(pods, reverse=True)
    for number in range(len(nodes) + 1):
        if any(fits(ordered, list(chosen)) for chosen in combinations(nodes, number)):
            return number
    return None


@pytest.mark.parametrize(
    ("pods", "nodes", "occupied", "fewest"),
    [
        ([], [(8,)], 0, Fewest(0, True)),
        ([(1,)] * 8, [(8,)] * 4, 4, Fewest(1, True)),
        ([(5,)] * 3, [(8,)] * 4, 4, Fewest(3, True)),
        ([(4,), (4,), (8,)], [(4,), (4,), (8,), (8,)], 3, Fewest(2, True)),
        ([(1, 60)] * 4, [(8, 100)] * 4, 4, Fewest(4, True)),
        ([(6,), (6,), (3,), (3,)], [(8,)] * 4, 4, Fewest(3, True)),
        ([(6,), (3,), (3,), (3,)], [(8,)] * 4, 4, Fewest(3, True)),
        ([(5,), (4,), (4,)], [(8,)] * 3, 3, Fewest(2, True)),
        ([(1, 0)], [(8, 0), (8, 0)], 1, Fewest(1, True)),
    ],
    ids=[
        "no pods",
        "eight ones",
        "none shares",
        "largest nodes first",
        "CPU decides",
        "small ones do not fit beside large ones",
        "three small ones need two more",
        "two small ones just fill one more",
        "nobody has or wants any CPU",
    ],
)
def test_the_fewest_nodes_are_found_and_proved(pods: list[Amounts], nodes: list[Amounts], occupied: int, fewest: Fewest) -> None:
    assert fewest_nodes(pods, nodes, occupied) == fewest


def test_what_is_so_now_is_never_made_worse() -> None:
    # Filling nodes largest pod first needs a third node; as they lie, two do.
    pods = [(4, 1), (4, 1), (3, 5), (3, 5), (1, 4), (1, 4)]
    assert fewest_nodes(pods, [(8, 10)] * 3, 2) == Fewest(2, True)


@given(st.lists(POD, max_size=7), st.lists(NODE, min_size=1, max_size=5))
def test_it_agrees_with_trying_all_ways(pods: list[Amounts], nodes: list[Amounts]) -> None:
    truth = fewest_by_trying(pods, nodes)
    if truth is None:
        return
    found = fewest_nodes(pods, nodes, len(nodes))
    assert found.nodes >= truth
    assert found.nodes == truth or not found.exact
