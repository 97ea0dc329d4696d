# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves as they should go, one after the other, and what ends one."""

from __future__ import annotations

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import read_state
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    empty,
    finish,
    fleet,
    order,
    step,
)


def test_waves_follow_each_other_until_as_many_nodes_are_empty_as_the_plan_says() -> None:
    cluster = fleet()
    whole = order(cluster)
    found = finish(cluster)
    assert empty(cluster) == len(whole.freed_nodes) == 3
    assert sum(len(outcome.evicted) for outcome in found) == cluster.evictions == sum(map(len, whole.waves))
    assert not [stray for outcome in found for stray in outcome.strays]
    assert found[-1].verdict == "Blocked"  # There is nothing more to gain.
    assert found[-1].done
    check_whole(cluster)


def test_moves_and_what_came_of_them_are_remembered_for_an_hour() -> None:
    cluster = fleet()
    found = finish(cluster)
    ended = read_state(cluster.text).ended
    assert [each.evicted for each in ended] == [len(outcome.evicted) for outcome in found if outcome.evicted]
    assert not any(each.strays or each.unready for each in ended)
    astray = fleet(heeds_taints=False)
    strays = step(astray).strays
    assert [each.strays for each in read_state(astray.text).ended] == [len(strays)] != [0]


def test_one_plan_is_carried_out_wave_after_wave_and_then_done() -> None:
    cluster = fleet()
    whole = order(cluster)
    assert len(whole.waves) > 1
    for number in range(len(whole.waves)):
        cluster.time += 2
        outcome = carry_out(Hands(cluster), whole, BRISK)
        assert (outcome.verdict, outcome.wave, outcome.done) == ("Recommended", number + 1, number + 1 == len(whole.waves))
        assert [move["pod"] for move in outcome.evicted] == [landed["pod"] for landed in outcome.landed]
    assert set(outcome.realized["freed_nodes"]) == set(whole.freed_nodes)
    cluster.time += 5
    again = carry_out(Hands(cluster), whole, BRISK)
    assert (again.changed, again.done, again.verdict) == (False, True, "Recommended")


def test_a_scheduler_that_ignores_soft_taints_is_noticed_at_once() -> None:
    cluster = fleet(heeds_taints=False)
    outcome = step(cluster)
    assert outcome.verdict == "Strays"
    assert outcome.strays
    # Only the first step of the wave was taken.
    assert len(outcome.evicted) < len(order(fleet()).waves[0]) or len(outcome.steering) == 1
    check_whole(cluster)
