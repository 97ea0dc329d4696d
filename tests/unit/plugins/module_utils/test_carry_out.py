# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wave on a cluster in memory: what is done, what stops it, and what is left when it dies at any of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution import surge
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.breaker import PAUSE, Bounds
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move, Order, read_order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.reclaim import LABEL
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import read_state
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import CORDONED, EVICT, TAINT
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.actions import Answer, Leaving
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.manner import Manner
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import Outcome, StoppedError
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands, KilledError, MakeBelieve, Mortal

BRISK = Manner(ready_timeout=60, evict_timeout=20)


def fleet(**more: Any) -> MakeBelieve:
    """Six nodes of eight GPUs; three of them can be emptied."""
    made = MakeBelieve(**more)
    for number in range(6):
        made.add(f"n{number}")
    made.serve("big", 4, "n0", "n1")
    made.serve("mid", 2, "n2", "n3", "n4")
    made.serve("low", 1, "n1", "n5", "n3")
    made.needed = {"big": 1, "mid": 2, "low": 2}
    return made


def order(cluster: MakeBelieve, **wish: Any) -> Order:
    """A plan for a cluster as it is."""
    given: dict[str, Any] = {"kind": "free_nodes", "limits": Limits(2, 5, 1, interval_seconds=1), "solver": "heuristic"}
    given |= {"audit": AuditOptions(), "rules": Rules(budgets_required=True)} | wish
    cooling = read_state(cluster.text).cooling(cluster.time)
    given["rules"] = replace(given["rules"], cooling=cooling)
    return read_order(plan(cluster.objects(), PlanOptions(**given), now=cluster.time, live=True))


def step(cluster: MakeBelieve, manner: Manner = BRISK, **wish: Any) -> Outcome:
    """Plan, and carry out a wave: what is repeated until all is done."""
    cluster.time += 5
    return carry_out(Hands(cluster), order(cluster, **wish), manner)


def finish(cluster: MakeBelieve, manner: Manner = BRISK, **wish: Any) -> list[Outcome]:
    """Steps until a plan has no moves, or nothing more can be done."""
    found = []
    for _step in range(20):
        found.append(step(cluster, manner, **wish))
        if found[-1].verdict != "Recommended":
            return found
    raise AssertionError("it does not come to an end")


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


def empty(cluster: MakeBelieve) -> int:
    return sum(not apps for name, apps in cluster.where().items() if name)


def check_whole(cluster: MakeBelieve) -> None:
    """Every pod that is wanted is there and Ready, no budget was broken on the way, nothing of ours is left."""
    for _second in range(60):
        cluster.time += 1
        cluster.tick()
    assert {app: cluster.ready(app) for app in cluster.replicas} == cluster.replicas
    assert all(cluster.least[app] >= needed for app, needed in cluster.needed.items())
    assert cluster.traces() == []
    assert read_state(cluster.text).run is None


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


def test_check_mode_tells_the_same_and_touches_nothing() -> None:
    cluster = fleet()
    before = cluster.objects()
    told = carry_out(Hands(cluster), order(cluster), BRISK, check=True)
    assert cluster.objects() == before
    assert (cluster.text, cluster.lease, cluster.evictions) == (None, None, 0)
    done = carry_out(Hands(cluster), order(cluster), BRISK)
    assert (told.changed, told.wave, told.steering) == (True, 1, done.steering)
    assert told.evicted == [{key: value for key, value in move.items() if key != "by"} for move in done.evicted]


@pytest.mark.parametrize("steering", ["cordon", "none"])
def test_other_ways_to_steer_leave_nothing_behind(steering: str) -> None:
    cluster = fleet()
    finish(cluster, replace(BRISK, steering=steering, cool_down=0))
    check_whole(cluster)


def test_the_descheduler_evicts_what_is_labelled() -> None:
    cluster = fleet(descheduler=True)
    found = finish(cluster, replace(BRISK, actuator="descheduler"))
    assert {move["by"] for outcome in found for move in outcome.evicted} == {"descheduler"}
    assert empty(cluster) == 3
    check_whole(cluster)


def test_a_pod_that_waited_may_take_an_emptied_node() -> None:
    cluster = fleet()
    cluster.sizes["huge"], cluster.replicas["huge"] = 8, 1
    cluster.tick()
    found = finish(cluster)
    assert cluster.ready("huge") == 1
    assert not [stray for outcome in found for stray in outcome.strays]
    check_whole(cluster)


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


def test_a_pod_that_never_gets_ready_ends_the_run_and_freezes_its_workload() -> None:
    cluster = fleet(never_ready={"big", "mid", "low"})
    outcome = step(cluster)
    assert outcome.verdict == "NotReady"
    assert outcome.unready
    assert not outcome.done
    assert cluster.traces() == []
    cluster.never_ready.clear()
    cluster.tick()
    frozen = {f"default/{move['pod'].rsplit('-', 2)[0]}" for move in outcome.unready}
    moved = {f"default/{move.pod.rsplit('-', 2)[0]}" for wave in order(cluster).waves for move in wave}
    assert not frozen & moved
    cluster.time += BRISK.cool_down
    finish(cluster)
    assert empty(cluster) == 3
    check_whole(cluster)


def test_a_scheduler_that_ignores_soft_taints_is_noticed_at_once() -> None:
    cluster = fleet(heeds_taints=False)
    outcome = step(cluster)
    assert outcome.verdict == "Strays"
    assert outcome.strays
    # Only the first step of the wave was taken.
    assert len(outcome.evicted) < len(order(fleet()).waves[0]) or len(outcome.steering) == 1
    check_whole(cluster)


def test_a_descheduler_that_evicts_nothing_is_waited_for_and_then_given_up() -> None:
    cluster = fleet(descheduler=False)
    outcome = step(cluster, replace(BRISK, actuator="descheduler"))
    assert outcome.verdict == "NotEvicted"
    assert cluster.evictions == 0
    check_whole(cluster)


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
    cluster.on_wait = lambda: setattr(mortal, "dead", True)
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


def test_labels_alone_that_a_dead_run_left_are_a_change() -> None:
    cluster = fleet()
    cluster.running[0]["metadata"]["labels"][EVICT] = "true"
    none = replace(order(cluster), waves=())
    manner = replace(BRISK, label=False)
    assert carry_out(Hands(cluster), none, manner, check=True).changed
    assert carry_out(Hands(cluster), none, manner).changed
    assert not carry_out(Hands(cluster), none, manner).changed
    check_whole(cluster)


# Those that come, and where they are.


def test_the_one_that_comes_is_waited_for_from_when_the_old_one_left() -> None:
    cluster = fleet(cold_start=1)
    made = order(cluster)
    hands = Hands(cluster)
    evict = hands.evict
    begun = cluster.time

    def late(move: Move, grace: int | None) -> Answer:
        if cluster.time < begun + 15:
            return Answer(Leaving.BLOCKED, "not yet")
        cluster.tick, tick = (lambda: None), cluster.tick  # type: ignore[method-assign]
        answer = evict(move, grace)
        cluster.tick = tick  # type: ignore[method-assign]
        return answer

    hands.evict = late  # type: ignore[method-assign]
    outcome = carry_out(hands, made, replace(BRISK, ready_timeout=10))
    assert outcome.verdict == "Recommended", outcome.message


def test_a_pod_with_a_long_grace_is_not_lost_while_it_ends_its_work() -> None:
    cluster = fleet(cold_start=1)
    made = order(cluster)
    first = made.waves[0][0]
    hands = Hands(cluster)
    until = cluster.time + 300
    (old,) = [each for each in cluster.running if each["metadata"]["uid"] == first.uid]

    def linger(move: Move, grace: int | None) -> Answer:
        old["metadata"]["deletionTimestamp"] = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Answer(Leaving.DONE)

    def end() -> None:
        if cluster.time >= until - 60 and old in cluster.running:
            cluster.running.remove(old)

    hands.evict = linger  # type: ignore[method-assign]
    cluster.on_wait = end
    outcome = carry_out(hands, replace(made, waves=((first,),)), replace(BRISK, ready_timeout=30))
    assert (outcome.verdict, len(outcome.landed)) == ("Recommended", 1), outcome.message
    assert cluster.time < until


def test_the_room_of_a_pod_may_go_to_one_of_another_namespace_that_had_waited() -> None:
    cluster = fleet(heeds_taints=False)
    cluster.sizes["huge"], cluster.replicas["huge"] = 8, 1
    cluster.tick()
    (huge,) = cluster.of("huge")
    huge["metadata"]["namespace"] = "other"
    made = order(cluster)
    first = made.waves[0][0]
    made = replace(made, waves=((first,),))

    hands = Hands(cluster)
    evict = hands.evict

    def take(move: Move, grace: int | None) -> Answer:
        huge["spec"]["nodeName"] = first.target
        return evict(move, grace)

    hands.evict = take  # type: ignore[method-assign]
    outcome = carry_out(hands, made, BRISK)
    assert (outcome.verdict, outcome.strays) == ("Recommended", [])
    assert outcome.landed[0]["node"] != first.target


def test_a_pause_stops_the_descheduler_too() -> None:
    cluster = fleet(descheduler=False)
    cluster.on_wait = lambda: cluster.asked.update({PAUSE: "now"})
    began = cluster.time
    outcome = step(cluster, replace(BRISK, actuator="descheduler", evict_timeout=900))
    assert (outcome.verdict, outcome.evicted) == ("Paused", [])
    assert cluster.time < began + 60
    check_whole(cluster)


def test_a_pod_that_the_descheduler_evicts_at_the_last_moment_is_followed() -> None:
    cluster = fleet()
    hands = Hands(cluster)
    mark = hands.mark_pod

    def last(pod: Any, labels: Any, annotations: Any) -> bool:
        if labels == {EVICT: None}:
            cluster.descheduler = True
            cluster.tick()
            cluster.descheduler = False
        return mark(pod, labels, annotations)

    hands.mark_pod = last  # type: ignore[method-assign]
    outcome = carry_out(hands, order(cluster), replace(BRISK, actuator="descheduler"))
    assert cluster.evictions == len(outcome.evicted) == len(outcome.landed) > 0
    assert outcome.message == "wave 1 of 2 is carried out"
    check_whole(cluster)


@pytest.mark.parametrize("label", [True, False])
def test_marks_go_where_they_are_no_longer_wanted(label: bool) -> None:
    cluster = fleet()
    finish(cluster)
    outcome = step(cluster, replace(BRISK, label=label))
    assert len(outcome.reclaimable.remove) == (0 if label else 3)
    assert sum(LABEL in node["metadata"]["labels"] for node in cluster.nodes.values()) == (3 if label else 0)


# Make before break.


def single(**more: Any) -> MakeBelieve:
    """One replica on a node of its own, with a budget that allows no eviction."""
    made = MakeBelieve(**more)
    for number in range(3):
        made.add(f"n{number}")
    made.serve("base", 6, "n0", "n2")
    made.serve("solo", 1, "n1")
    made.needed = {"solo": 1, "base": 2}
    return made


SOLO: dict[str, Any] = {"rules": Rules(surging=frozenset({"default/solo"}), budgets_required=True)}


def test_the_new_pod_is_ready_before_the_old_one_goes() -> None:
    cluster = single()
    outcome = step(cluster, **SOLO)
    assert [move["by"] for move in outcome.evicted] == ["surge"]
    assert (empty(cluster), cluster.evictions, cluster.replicas["solo"]) == (1, 0, 1)
    assert cluster.least["solo"] == 1
    check_whole(cluster)


def test_without_it_the_only_replica_stays() -> None:
    cluster = single()
    assert order(cluster).waves == ()


def test_an_autoscaled_deployment_is_refused_by_name_and_then_left_alone() -> None:
    cluster = single(autoscalers={"solo"})
    outcome = step(cluster, **SOLO)
    assert (outcome.verdict, outcome.reasons[0]["reason"]) == ("StalePlan", "MakeBeforeBreakRefused")
    assert "HorizontalPodAutoscaler" in outcome.reasons[0]["detail"]
    assert order(cluster, **SOLO).waves == ()
    check_whole(cluster)


def test_a_new_pod_that_does_not_get_ready_is_taken_back_and_the_old_one_stays() -> None:
    cluster = single(never_ready={"solo"})
    outcome = step(cluster, **SOLO)
    assert outcome.verdict == "NotReady"
    assert outcome.reasons[0]["reason"] == "MakeBeforeBreakUndone"
    assert cluster.where()["n1"] == ["solo"]
    assert (cluster.least["solo"], cluster.replicas["solo"]) == (1, 1)
    check_whole(cluster)


def test_where_another_pod_went_the_old_one_has_not_moved_and_its_deletion_costs_what_it_did() -> None:
    cluster = single()
    hands = Hands(cluster)
    scale = hands.scale

    def more(namespace: str, name: str, was: int, to: int) -> bool:
        if to < was:
            # Somebody else scales up just now.
            cluster.replicas[name] = was + 1
        return scale(namespace, name, was, to)

    hands.scale = more  # type: ignore[method-assign]
    outcome = carry_out(hands, order(cluster, **SOLO), BRISK)
    assert (outcome.verdict, outcome.evicted) == ("StalePlan", [])
    assert outcome.reasons[0]["reason"] == "MakeBeforeBreakUndone"
    assert "still there" in outcome.message
    assert cluster.least["solo"] == 1
    check_whole(cluster)


def test_a_new_pod_that_the_controller_keeps_in_place_of_the_old_one_costs_no_less_than_others() -> None:
    cluster = single(heeds_taints=False)
    for name in ("n3", "n4"):
        cluster.add(name)  # The roomiest: so there it goes.
    made = order(cluster, **SOLO)
    hands = Hands(cluster)
    scale, least = hands.scale, surge.CHEAPEST

    def late(namespace: str, name: str, was: int, to: int) -> bool:
        marked = next((p for p in cluster.of(name) if p["metadata"].get("annotations", {}).get(surge.COST) == least), None)
        if to < was and marked:
            del marked["metadata"]["annotations"][surge.COST]
        answer = scale(namespace, name, was, to)
        if to < was and marked:
            marked["metadata"]["annotations"][surge.COST] = least
        return answer

    hands.scale = late  # type: ignore[method-assign]
    outcome = carry_out(hands, made, BRISK)
    assert outcome.verdict == "Strays"
    assert "is still there" in outcome.message
    assert cluster.least["solo"] == 1
    check_whole(cluster)
