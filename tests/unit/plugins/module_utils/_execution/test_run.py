# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run on a cluster in memory: what stops it, and what is left when it dies at any of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.breaker import PAUSE, Bounds
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import TAINT
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.manner import Manner
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import StoppedError
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands, KilledError, MakeBelieve, Mortal
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    empty,
    finish,
    fleet,
    order,
    step,
)


def test_check_mode_tells_the_same_and_touches_nothing() -> None:
    cluster = fleet()
    before = cluster.objects()
    told = carry_out(Hands(cluster), order(cluster), BRISK, check=True)
    assert cluster.objects() == before
    assert (cluster.text, cluster.lease, cluster.evictions) == (None, None, 0)
    done = carry_out(Hands(cluster), order(cluster), BRISK)
    assert (told.changed, told.wave, told.steering) == (True, 1, done.steering)
    assert told.evicted == [{key: value for key, value in move.items() if key != "by"} for move in done.evicted]


# What ends a run before its time, one after the other: the verdict, and words of its reason.

STOPS: dict[str, tuple[str, str, Callable[[MakeBelieve], Any]]] = {
    "a user's pause": ("Paused", PAUSE, lambda c: c.asked.update({PAUSE: "until Monday"})),
    "metrics": ("PausedByMetrics", "ttft fires", lambda c: setattr(c, "metrics", "ttft fires: 3")),
    "another run": ("Locked", "other is at work", lambda c: setattr(c, "lease", ("other", c.time))),
    "a state that cannot be read": ("StateUnknown", "cannot be read", lambda c: setattr(c, "text", "{")),
    "a state of a later version": ("StateUnknown", "version 9", lambda c: setattr(c, "text", '{"version": 9}')),
    "a plan from an hour ago": ("StalePlan", "s old", lambda c: setattr(c, "time", c.time + 3600)),
    "a pod that is gone": ("StalePlan", "not there", lambda c: c.running.clear()),
    "all destinations cordoned": (
        "StalePlan",
        "refuses it: Cordoned",
        lambda c: [n["spec"].update(unschedulable=True) for n in c.nodes.values()],
    ),
    "destinations filled": ("StalePlan", "InsufficientGPU", lambda c: c.serve("full", 4, *c.nodes)),
    "budgets that turned to 0": ("StalePlan", "allows 0 disruptions", lambda c: c.needed.update(big=2, mid=3, low=3)),
}


@pytest.mark.parametrize(("verdict", "words", "happen"), STOPS.values(), ids=STOPS)
def test_nothing_is_evicted_upon(verdict: str, words: str, happen: Callable[[MakeBelieve], Any]) -> None:
    cluster = fleet()
    made = order(cluster)
    happen(cluster)
    outcome = carry_out(Hands(cluster), made, BRISK)
    assert outcome.verdict == verdict
    assert words in str([outcome.message, outcome.reasons])
    assert cluster.evictions == 0
    assert not outcome.done
    assert [name for name in cluster.traces() if name not in ("other", *cluster.nodes)] == []


def test_a_destination_that_is_gone_makes_the_plan_stale() -> None:
    cluster = fleet()
    made = order(cluster)
    for move in made.waves[0]:
        if not cluster.where()[move.target]:
            del cluster.nodes[move.target]
    gone = made.waves[0][0].target
    cluster.running = [each for each in cluster.running if each["spec"].get("nodeName") != gone]
    cluster.nodes.pop(gone, None)
    outcome = carry_out(Hands(cluster), made, BRISK)
    assert outcome.verdict == "StalePlan"
    assert "DestinationGone" in {reason["reason"] for reason in outcome.reasons}


def test_the_next_wave_waits_for_its_time() -> None:
    cluster = fleet()
    wish: dict[str, Any] = {"limits": Limits(1, 5, 1, interval_seconds=300)}
    assert step(cluster, **wish).verdict == "Recommended"
    outcome = step(cluster, **wish)
    assert outcome.verdict == "TooSoon"
    assert outcome.retry_after is not None
    assert 200 < outcome.retry_after < 300
    cluster.time += outcome.retry_after
    assert step(cluster, **wish).verdict == "Recommended"


def test_another_run_that_takes_over_is_left_to_clean_up() -> None:
    cluster = fleet()
    made = order(cluster)

    def take_over() -> None:
        cluster.lease = ("two", cluster.time)

    cluster.on_wait = take_over
    outcome = carry_out(Hands(cluster), made, BRISK)
    assert (outcome.verdict, outcome.retry_after) == ("Locked", 30)
    cluster.on_wait = lambda: None
    assert cluster.lease == ("two", cluster.time)
    finish_as(cluster, "two")
    check_whole(cluster)


def finish_as(cluster: MakeBelieve, holder: str) -> None:
    """Another run, once the Lease of a dead one has run out, and then steps until all is done."""
    cluster.time += 31
    carry_out(Hands(cluster, holder), order(cluster), BRISK)
    finish(cluster)


# Killed at any call, before or after it has had its effect.

SURGE = {"rules": Rules(surging=frozenset({"default/*"}))}
WAYS: dict[str, tuple[Manner, dict[str, Any]]] = {
    "eviction": (BRISK, {}),
    # A cordon keeps pods from their old nodes alone.
    "cordon": (replace(BRISK, steering="cordon", cool_down=0, bounds=Bounds(strays=1)), {}),
    "descheduler": (replace(BRISK, actuator="descheduler"), {}),
    "make before break": (BRISK, SURGE),
}


def calls(way: str) -> int:
    cluster = fleet(descheduler=way == "descheduler")
    manner, wish = WAYS[way]
    mortal = Mortal(Hands(cluster), at=-1)
    carry_out(mortal, order(cluster, **wish), manner)
    return mortal.calls


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_killed_at_any_call_the_next_run_finishes_or_undoes(way: str, done: bool) -> None:
    manner, wish = WAYS[way]
    number = calls(way)
    assert number > 20
    for at in range(1, number + 1):
        cluster = fleet(descheduler=way == "descheduler")
        with pytest.raises(KilledError):
            carry_out(Mortal(Hands(cluster), at, done=done), order(cluster, **wish), manner)
        assert carry_out(Hands(cluster, "two"), order(cluster, **wish), manner).verdict in ("Locked", *FINE)
        cluster.time += 31
        cluster.tick()
        assert carry_out(Hands(cluster, "two"), order(cluster, **wish), manner).verdict in FINE, at
        if way != "cordon":
            finish(cluster, manner, **wish)
            assert empty(cluster) == 3, at
        check_whole(cluster)


FINE = ("Recommended", "NoFragmentation", "Blocked", "StalePlan", "TooSoon")


@pytest.mark.parametrize("way", WAYS)
def test_an_error_at_any_call_is_told_and_leaves_nothing_on_nodes_and_pods(way: str) -> None:
    manner, wish = WAYS[way]
    for at in range(1, calls(way) + 1):
        cluster = fleet(descheduler=way == "descheduler")
        with pytest.raises(InputError, match="the server is away"):
            carry_out(Mortal(Hands(cluster), at, error=True), order(cluster, **wish), manner)
        # But for what the failing call itself was to take away, which the next run finds.
        more = [app for app, number in cluster.replicas.items() if number != fleet().replicas[app]]
        assert len([*cluster.traces(), *more]) <= 1, at
        cluster.time += 31
        assert carry_out(Hands(cluster, "two"), order(cluster, **wish), manner).verdict in FINE, at
        check_whole(cluster)


# What is left when things go wrong at once.


def test_a_node_that_may_not_be_written_does_not_keep_the_others_from_being_cleaned() -> None:
    cluster = fleet()
    hands = Hands(cluster)
    taint = hands.taint

    def refuse(node: str, on: bool) -> bool:
        if not on and node == min(steered):
            raise RefusedError(403, "a webhook denies it")
        return taint(node, on)

    made = order(cluster)
    steered = carry_out(Hands(cluster), made, BRISK, check=True).steering[-1]
    assert len(steered) > 1
    hands.taint = refuse  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="a webhook denies it"):
        carry_out(hands, made, BRISK)
    assert cluster.traces() == [min(steered)]


def test_a_server_that_stays_away_is_not_asked_for_each_node() -> None:
    cluster = fleet()
    hands = Hands(cluster)
    asked: list[str] = []

    def away(node: str, on: bool) -> bool:
        asked.append(node)
        raise InputError("the server is away")

    cluster.nodes["n0"]["spec"]["taints"] = cluster.nodes["n1"]["spec"]["taints"] = [{"key": TAINT.key, "effect": TAINT.effect}]
    cluster.nodes["n2"]["spec"]["taints"] = cluster.nodes["n0"]["spec"]["taints"]
    hands.taint = away  # type: ignore[method-assign]
    with pytest.raises(StoppedError):
        carry_out(hands, replace(order(cluster), waves=()), BRISK)
    assert len(asked) == 2 * 2  # Once in its course, and once more when it is given up.


def test_what_was_done_is_told_though_the_run_ends_by_an_error_and_another_has_taken_over() -> None:
    cluster = fleet()
    hands = Hands(cluster)

    def lose(namespaces: Any) -> Any:
        cluster.lease = ("two", cluster.time)
        raise InputError("the server is away")

    hands.pods = lose  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="the server is away") as stopped:
        carry_out(hands, order(cluster), BRISK)
    assert stopped.value.outcome.evicted
    assert cluster.lease == ("two", cluster.time)


def test_what_was_done_is_told_though_the_lease_cannot_be_given_back() -> None:
    cluster = fleet()
    hands = Hands(cluster)

    def fail() -> None:
        raise InputError("the server is away")

    hands.release = fail  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="the server is away") as stopped:
        carry_out(hands, order(cluster), BRISK)
    assert stopped.value.outcome.landed


def test_what_a_dead_run_left_that_does_not_get_ready_ends_the_next_one_too() -> None:
    cluster = fleet(never_ready={"big", "mid", "low"})
    mortal = Mortal(Hands(cluster), at=-1)
    cluster.on_wait = lambda: setattr(mortal, "dead", cluster.evictions > 0)
    with pytest.raises(KilledError):
        carry_out(mortal, order(cluster), BRISK)
    cluster.on_wait = lambda: None
    evicted = cluster.evictions
    assert evicted
    cluster.time += 31
    outcome = carry_out(Hands(cluster, "two"), order(cluster), BRISK)
    assert (outcome.verdict, cluster.evictions) == ("NotReady", evicted)


def test_check_mode_tells_of_another_run_and_of_what_a_dead_one_left() -> None:
    cluster = fleet()
    made = order(cluster)
    with pytest.raises(KilledError):
        carry_out(Mortal(Hands(cluster), at=calls("eviction") // 2), made, BRISK)
    left = cluster.traces()
    assert carry_out(Hands(cluster, "two"), made, BRISK, check=True).verdict == "Locked"
    cluster.time += 31
    none = replace(made, waves=())
    told = carry_out(Hands(cluster, "two"), none, BRISK, check=True)
    assert cluster.traces() == left
    done = carry_out(Hands(cluster, "two"), none, BRISK)
    assert (told.changed, told.recovered) == (done.changed, done.recovered)
    assert done.recovered
