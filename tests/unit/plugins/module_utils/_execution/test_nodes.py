# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of ours is on nodes: taints where something is at stake, cordons, and the marks of nodes that could be given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.reclaim import LABEL
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import CORDONED
from ansible_collections.gpuops.defrag.tests.unit.make_believe import MakeBelieve
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    empty,
    finish,
    fleet,
    step,
)


def test_where_the_scheduler_compares_only_some_nodes_a_pod_is_kept_from_those_at_stake() -> None:
    elsewhere = 0
    for begins in range(0, 130, 26):
        cluster = MakeBelieve(begins=begins)
        for number in range(130):
            cluster.add(f"n{number:03}")
        cluster.serve("crowd", 5, *(f"n{number:03}" for number in range(120)))
        cluster.serve("low", 1, "n120", "n121")
        free = empty(cluster)
        found = finish(cluster)
        assert not any(outcome.strays for outcome in found)
        assert empty(cluster) == free + 2
        landed = [each for outcome in found for each in outcome.landed]
        assert len(landed) == 2
        elsewhere += sum(each["node"] != each["to"] for each in landed)
        # Empty nodes, sources and goals at most: not the hundred others.
        assert len({name for outcome in found for name in outcome.written}) <= 12
    assert elsewhere, "every pod was led to the very node that was meant"


def test_the_scheduler_is_given_time_to_hear_of_taints_before_a_pod_leaves() -> None:
    cluster = fleet()
    waits: list[tuple[bool, int]] = []

    def note() -> None:
        waits.append((any(node["spec"].get("taints") for node in cluster.nodes.values()), cluster.evictions))

    cluster.on_wait = note
    step(cluster)
    assert waits[0] == (True, 0)
    assert cluster.evictions


def test_emptied_nodes_are_marked_and_no_longer_once_they_are_taken() -> None:
    cluster = fleet()
    finish(cluster)
    marked = {name for name, node in cluster.nodes.items() if LABEL in node["metadata"]["labels"]}
    assert marked == {name for name, apps in cluster.where().items() if name and not apps}
    cluster.serve("new", 8, min(marked))
    outcome = step(cluster)
    assert outcome.reclaimable.remove == (min(marked),)
    assert LABEL not in cluster.nodes[min(marked)]["metadata"]["labels"]


def test_nodes_that_are_given_back_can_be_closed_and_are_opened_again() -> None:
    cluster = fleet()
    manner = replace(BRISK, cordon=True)
    finish(cluster, manner)
    closed = {name for name, node in cluster.nodes.items() if node["spec"].get("unschedulable")}
    assert closed == {name for name, apps in cluster.where().items() if name and not apps}
    cluster.serve("new", 8, min(closed))
    step(cluster, manner)
    assert not cluster.nodes[min(closed)]["spec"]["unschedulable"]
    assert CORDONED not in cluster.nodes[min(closed)]["metadata"]["labels"]


@pytest.mark.parametrize("steering", ["cordon", "none"])
def test_other_ways_to_steer_leave_nothing_behind(steering: str) -> None:
    cluster = fleet()
    finish(cluster, replace(BRISK, steering=steering, cool_down=0))
    check_whole(cluster)


@pytest.mark.parametrize("label", [True, False])
def test_marks_go_where_they_are_no_longer_wanted(label: bool) -> None:
    cluster = fleet()
    finish(cluster)
    outcome = step(cluster, replace(BRISK, label=label))
    assert len(outcome.reclaimable.remove) == (0 if label else 3)
    assert sum(LABEL in node["metadata"]["labels"] for node in cluster.nodes.values()) == (3 if label else 0)
