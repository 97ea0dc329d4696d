# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Reason
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.unplaced import Lack
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_words import (
    STAYS,
    UNPLACED,
    bound,
    cold_starts,
    goal,
    headline,
    limits,
    sentence,
    signed,
    why_stay,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.plans import LIMITS


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (sentence("it stays"), "it stays."),
        (sentence("It stays."), "It stays."),
        (signed(1200), "+1,200"),
        (signed(-1), "-1"),
        (signed(0), ""),
        (why_stay("Budget"), "of a disruption budget that allows no eviction now"),
        (why_stay("SomethingNew"), "something new"),
        (cold_starts({"cost_seconds": 0}), ""),
        (cold_starts({"cost_seconds": 90.0}), "90 s"),
        (cold_starts({"cost_seconds": 1800.0}), "30 min"),
        (cold_starts({"cost_seconds": 9000.0}), "2.5 h"),
        (bound({"optimal": True, "lower_bound": 10}), "proved the fewest"),
        (bound({"optimal": False, "lower_bound": 9}), "at least 9 are needed"),
        (bound({"optimal": False, "lower_bound": 1}), "at least 1 is needed"),
    ],
)
def test_words(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (("slots", 8, "max"), "as many slots of 8 GPUs as can be had"),
        (("slots", 8, 3), "3 more slots of 8 GPUs"),
        (("slots", 1, 1), "1 more slot of 1 GPU"),
        (("free_nodes", 8, "max"), "as many empty nodes as can be had"),
        (("free_nodes", None, 1), "1 more empty node"),
        (("blocked_pods", 8, "max"), "places for as many blocked pods as can be had"),
        (("blocked_pods", None, 2), "places for 2 blocked pods"),
    ],
)
def test_the_goal_is_told_in_words(objective: tuple[str, int | None, int | str], words: str) -> None:
    assert goal(dict(zip(("kind", "slot_size", "count"), objective, strict=True))) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no limit in a wave; 300 s from one to the next"),
        ({"interval_seconds": None}, "no limit in a wave"),
        ({"total": 10, "per_node": 2}, "at most 10 in all, 2 from one node in a wave; 300 s from one to the next"),
        (
            {"per_namespace": 3, "per_workload": 1, "interval_seconds": 60},
            "at most 3 of one namespace, 1 of one workload in a wave; 60 s from one to the next",
        ),
    ],
)
def test_limits_are_told_in_words(given: dict[str, Any], words: str) -> None:
    assert limits({"limits": LIMITS | given}) == words


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("Recommended", "Worth carrying out: two moves."),
        ("NoFragmentation", "Nothing to do: two moves."),
        ("BelowGoal", "Not worth it: two moves."),
        ("Blocked", "Blocked: two moves."),
        ("NotApplicable", "Not advised: two moves."),
        ("SomethingNew", "Something new: two moves."),
    ],
)
def test_the_verdict_comes_with_its_sentence(verdict: str, words: str) -> None:
    assert headline({"verdict": verdict, "message": "two moves"}) == words


def test_every_reason_to_stay_has_words() -> None:
    assert set(STAYS) == set(Reason)
    assert set(UNPLACED) == set(Lack)
