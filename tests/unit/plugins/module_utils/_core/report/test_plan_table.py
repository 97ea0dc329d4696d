# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_table import plan_table
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import HOSTILE
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.plans import (
    LIMITS,
    PLANS,
    hostile,
    planned,
    simple,
)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_line_fits_and_is_plain(plan: dict[str, Any]) -> None:
    table = plan_table(plan)
    assert table.endswith("\n")
    for line in table.splitlines():
        assert len(line) <= 92
        assert line == line.rstrip()
        assert line.isprintable()
        assert line.isascii()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_same_plan_gives_the_same_text(plan: dict[str, Any]) -> None:
    assert plan_table(plan) == plan_table(plan)


def section(plan: dict[str, Any], heading: str) -> list[str]:
    """The lines under the heading that starts so; none if there is no such section."""
    sections = [part.splitlines() for part in plan_table(plan).split("\n\n")]
    return next((lines[1:] for lines in sections if lines[0].startswith(heading)), [])


def headings(plan: dict[str, Any]) -> list[str]:
    """The words in capitals that each section but the first begins with."""
    firsts = [part.splitlines()[0] for part in plan_table(plan).split("\n\n")[1:]]
    return [first.partition("   ")[0].partition(" (")[0].strip() for first in firsts]


def test_the_verdict_comes_first() -> None:
    assert plan_table(simple()).splitlines()[0] == "Worth carrying out: 2 evictions in 2 waves gain 1 slot of 8 GPUs."


def test_totals_are_told_before_and_after() -> None:
    assert section(simple(), "BEFORE AND AFTER   nvidia.com/gpu, asked for as many slots of 8 GPUs") == [
        "                              before       after",
        "  GPUs allocated                  23          23",
        "  GPUs free                        9           9",
        "  GPUs stranded                    9           1",
        "  largest slot                     4           8",
        "  blocked pods                     0           0",
        "  reclaimable nodes                0           1",
        "  fragmentation rate           0.0 %      25.0 %",
        "  FragRate                    25.0 %       0.0 %",
    ]


def test_slots_are_told_by_size_with_what_is_gained() -> None:
    assert section(simple(), "SLOTS PER SIZE")[1:] == [
        f"  1            9       9            [{'#' * 50}]",
        f"  2            4       4            [{'#' * 44}{'.' * 6}]",
        f"  4            1       2        +1  [{'#' * 22}{'+' * 22}{'.' * 6}]",
        f"  8            0       1        +1  [{'+' * 44}{'.' * 6}]",
    ]


def test_slots_that_placed_pods_take_are_told_as_lost() -> None:
    row = section(PLANS["places without moves"], "SLOTS PER SIZE")[4]
    assert row == f"  8            1       0        -1  [{'-' * 33}{'.' * 17}]"


def test_moves_come_wave_by_wave_in_order() -> None:
    plan = planned(["8: 4+1", "8: 4", "8: 4+2"], [("gpu-0-0", "gpu-1"), ("gpu-0-1", "gpu-2")], [("gpu-2-1", "gpu-0")])
    assert section(plan, "MOVES   3 evictions in 2 waves, proved the fewest, 9 min of cold starts")[1:] == [
        "  wave 1: 2 pods, 5 GPUs",
        "    team/gpu-0-0                          4 GPUs  gpu-0               -> gpu-1",
        "    team/gpu-0-1                           1 GPU  gpu-0               -> gpu-2",
        "  wave 2: 1 pod, 2 GPUs",
        "    team/gpu-2-1                          2 GPUs  gpu-2               -> gpu-0",
    ]


def test_evictions_stand_beside_how_few_would_do() -> None:
    plan = simple(optimal=False, lower_bound=1, cost_seconds=0)
    assert "MOVES   2 evictions in 2 waves, at least 1 is needed\n" in plan_table(plan)


def test_limits_are_told_with_the_moves() -> None:
    limits = section(simple(limits=LIMITS | {"total": 5}), "MOVES")[0]
    assert limits == "  limits: at most 5 in all in a wave; 300 s from one to the next"


def test_of_many_moves_the_first_are_listed_and_the_rest_counted() -> None:
    lines = section(PLANS["1,213 nodes"], "MOVES")
    assert len([line for line in lines if "->" in line]) == 60
    assert lines[-1] == "  ... and 666 more"


def test_freed_nodes_are_named() -> None:
    assert section(simple(), "FREED NODES (1)") == ["  gpu-0"]
    assert section(PLANS["1,213 nodes"], "FREED NODES (242)")[-1].endswith("gpu-4-00009 and 232 more")


def test_pods_that_get_a_place_are_told_with_it() -> None:
    (row,) = section(PLANS["places a pod"], "PLACED PODS (1)")
    assert row.split() == ["team/big", "8", "GPUs", "->", "gpu-0"]


def test_what_stays_is_told_by_reason_the_commonest_first() -> None:
    stays = [(f"gpu-{i}-0", "Budget", f"PodDisruptionBudget team/{i} allows 0") for i in range(5)]
    plan = planned(["8: 4"] * 5 + ["8: 2"], stays=[("gpu-5-0", "NotReady", "it is not ready"), *stays])
    assert section(plan, "WHAT STAYS AND WHY   6 GPU pods") == [
        "  of a disruption budget that allows no eviction now: 5 pods, 20 GPUs",
        "    - team/gpu-0-0 on gpu-0: PodDisruptionBudget team/0 allows 0",
        "    - team/gpu-1-0 on gpu-1: PodDisruptionBudget team/1 allows 0",
        "    - team/gpu-2-0 on gpu-2: PodDisruptionBudget team/2 allows 0",
        "    ... and 2 more",
        "  not ready: 1 pod, 2 GPUs",
        "    - team/gpu-5-0 on gpu-5: it is not ready",
    ]


def test_pods_that_no_node_takes_are_told_with_what_nodes_have_against_them() -> None:
    assert section(PLANS["blocked for all reasons"], "WHAT STAYS AND WHY   3 pods")[:3] == [
        "  free to go, but no other node takes them: 2 pods, 6 GPUs",
        "    - team/gpu-0-0 on gpu-0: no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint",
        "    - team/gpu-0-1 on gpu-0: no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint",
    ]


def test_blocked_pods_that_get_no_place_are_told_with_why() -> None:
    assert section(PLANS["blocked pods get no place"], "BLOCKED PODS THAT GET NO PLACE (2)") == [
        "  for which no moves make room: 1 pod",
        "    - team/large: needs 8 GPUs; pool A100 has 2 free, at most 2 on one node; no moves make",
        "      room for it: 2 Taint",
        "  in need of devices by a resource claim, which no plan looks at: 1 pod",
        "    - team/small: it asks for devices by resource claim nic; where there are such is not",
        "      looked at",
    ]


def test_of_the_pods_that_stay_the_largest_are_named() -> None:
    names = ["gpu-0-0", "gpu-0-1", "gpu-0-2", "gpu-0-3"]
    plan = planned(["8: 1+1+4+2"], stays=[(name, "NotReady", "it is not ready") for name in names])
    assert [line.split()[1] for line in section(plan, "WHAT STAYS")[1:4]] == ["team/gpu-0-2", "team/gpu-0-3", "team/gpu-0-0"]


def test_nodes_that_are_not_emptied_are_told_by_why() -> None:
    kept = [("a", "team/x stays: it is not ready"), ("b", "it gains no slot"), ("c", "it gains no slot")]
    plan = simple(nodes_kept=[{"node": node, "reason": reason} for node, reason in kept])
    assert section(plan, "NODES THAT ARE NOT EMPTIED (3)") == [
        "  - b, c: it gains no slot.",
        "  - a: team/x stays: it is not ready.",
    ]


def test_notes_come_last() -> None:
    assert plan_table(simple(notes=["no budgets were read"])).endswith("\n\nNOTES\n  - no budgets were read\n")


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [
        ("nothing fragmented", "Nothing to do: 2 GPUs lie outside slots", ["AS IT IS", "SLOTS PER SIZE"]),
        ("below the goal", "Not worth it: the plan frees 1 node", ["AS IT IS", "SLOTS PER SIZE"]),
        ("blocked", "Blocked: nothing can be gained", ["AS IT IS", "SLOTS PER SIZE", "WHAT STAYS AND WHY"]),
        ("all full", "Nothing to do: every node is full or empty.", ["AS IT IS"]),
        ("not applicable", "Not advised: the input holds no node", []),
    ],
)
def test_a_plan_without_moves_says_why_and_has_no_empty_sections(name: str, first: str, expected: list[str]) -> None:
    assert plan_table(PLANS[name]).startswith(first)
    assert headings(PLANS[name]) == expected


def test_without_moves_there_is_no_after() -> None:
    assert section(PLANS["blocked"], "AS IT IS")[:2] == [
        "                                 now",
        "  GPUs allocated                  14",
    ]
    assert section(PLANS["blocked"], "SLOTS PER SIZE")[1] == f"  1            2  [{'#' * 50}]"


def test_details_make_no_difference() -> None:
    assert plan_table(simple(details=False)) == plan_table(simple())


def test_a_name_cannot_write_to_the_terminal() -> None:
    table = plan_table(hostile())
    assert "alert" in table
    assert not set("\x1b\u202e\ud800") & set(table)
    assert set("\x1b\u202e\ud800") < set(HOSTILE)
