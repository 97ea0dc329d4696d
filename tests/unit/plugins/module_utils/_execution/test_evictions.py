# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions that a budget does not allow."""

from __future__ import annotations

from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    fleet,
    order,
)


def test_an_eviction_that_stays_forbidden_is_given_up_and_the_others_are_seen_through() -> None:
    cluster = fleet()
    made = order(cluster)
    hands = Hands(cluster)
    moves = made.waves[0]
    blocked = moves[0].pod.split("-")[0]
    known = hands.read()
    cluster.needed[blocked] = cluster.replicas[blocked]
    hands.read = lambda: known  # type: ignore[method-assign]
    outcome = carry_out(hands, made, BRISK)
    assert outcome.verdict == "BudgetExhausted"
    assert cluster.time >= known.now + BRISK.evict_timeout  # type: ignore[operator]
    cluster.needed[blocked] -= 1
    check_whole(cluster)
