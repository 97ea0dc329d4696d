# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES, Bounds
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.law import (
    SAMPLES,
    Action,
    Decision,
    State,
    Why,
    decide,
    may_be_cold,
    read_state,
    schedule,
    severity,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import (
    NEEDED,
    STALE,
    ColdStart,
    Guard,
    Readings,
    Service,
)

NOW = 1_800_000_000.0
BALANCED = PROFILES["balanced"]
CALM = Readings(
    gpu_pods=180,
    gpu_pods_not_ready=0,
    stranded_share=0.14,
    blocked_gpus=16,
    blocked_seconds=900.0,
    cold_start=ColdStart(150.0, 180.0),
    evictions=0,
    strays=0,
    unready=0,
    budget_headroom=100,
    services={"Deployment a/b": Service(10, 0)},
    as_of=NOW,
)

bounds = st.sampled_from(list(PROFILES.values()))
states = st.none() | st.builds(
    State, level=st.integers(0, 40), agreeing=st.integers(0, SAMPLES), counted=st.sampled_from([0.0, NOW - 1000, NOW - 1])
)


def seldom(bad: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    """Mostly none: one bad thing is enough for a pause, and of a pause there is little to prove."""
    return st.sampled_from([True, False, False, False, False]).flatmap(lambda is_bad: bad if is_bad else st.just(0))


services = st.dictionaries(
    st.sampled_from(["Deployment a/a", "Deployment a/b", "StatefulSet b/c"]),
    st.tuples(st.integers(1, 40), seldom(st.integers(0, 40)), st.integers(0, 40)).map(
        lambda each: Service(each[0], min(each[:2]), min(each))
    ),
)


@st.composite
def readings(draw: st.DrawFn) -> Readings:
    """All known, as good or bad as they may be."""
    pods = draw(st.integers(0, 4000) | st.integers(100, 4000))
    p50 = draw(st.floats(0, 2000))
    return Readings(
        gpu_pods=pods,
        gpu_pods_not_ready=draw(st.integers(0, pods // 50) | seldom(st.integers(0, pods))),
        in_flight=draw(st.integers(0, 5)),
        stranded_share=draw(st.floats(0, 1)),
        blocked_gpus=draw(st.integers(0, 64)),
        blocked_seconds=draw(st.floats(0, 1e6)),
        cold_start=ColdStart(p50, p50 + draw(st.floats(0, 2000))),
        evictions=draw(st.integers(0, pods // 2) | seldom(st.integers(0, 4000))),
        strays=draw(seldom(st.integers(0, 3))),
        unready=draw(seldom(st.integers(0, 3))),
        budget_headroom=pods - draw(seldom(st.integers(0, pods))),
        services=draw(services),
        guards=draw(st.lists(st.builds(Guard, query=st.just("q"), fires=seldom(st.just(1)).map(bool)), max_size=2).map(tuple)),
        as_of=NOW,
    )


intervals = st.none() | st.integers(1, 3600)


def rate(decision: Decision) -> float:
    return decision.limits.total / decision.limits.interval_seconds


def reasons(decision: Decision) -> set[Why]:
    return {each.reason for each in decision.reasons}


@given(readings(), bounds, states, intervals)
def test_no_limit_ever_passes_a_bound(found: Readings, may: Bounds, state: State | None, interval: int | None) -> None:
    assert found.gpu_pods is not None
    assert found.gpu_pods_not_ready is not None
    assert found.cold_start is not None
    decision = decide(found, may, state, NOW, interval=interval)
    limits = decision.limits
    assert 1 <= limits.per_node <= may.per_node
    assert 1 <= limits.per_workload <= may.per_workload
    assert 1 <= limits.per_namespace <= max(may.per_namespace, math.ceil(limits.total / 2))
    assert limits.interval_seconds >= 1
    most = max(1, math.floor(may.cold_share * found.gpu_pods + 1e-9))
    assert decision.state.level <= most
    cold = max(0, found.gpu_pods_not_ready - found.in_flight)
    assert limits.total <= max(0, most - cold)
    assert limits.total <= found.budget_headroom  # type: ignore[operator]
    # Little: as many cycles as begin within a cold start have their pods cold at the same time.
    cycles = math.ceil(found.cold_start.longest / limits.interval_seconds)
    assert limits.total * cycles <= most
    hourly = max(1, math.floor(may.hour_share * found.gpu_pods + 1e-9))
    assert limits.total <= max(0, hourly - found.evictions)  # type: ignore[operator]
    if interval is None or limits.total > 1:
        assert rate(decision) * 3600 <= hourly + 1e-6
    assert (decision.action == Action.PAUSE) == (limits.total == 0)
    assert decision.reasons


@given(readings(), bounds, states, st.floats(0, 1), st.floats(0, 1))
def test_the_worse_the_fragmentation_the_higher_the_rate(
    found: Readings, may: Bounds, state: State | None, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    less, more = (decide(replace(found, stranded_share=share), may, state, NOW) for share in (low, high))
    assert less.limits.total <= more.limits.total
    assert less.state.level <= more.state.level
    # A cycle lasts whole seconds.
    assert rate(less) <= rate(more) * (1 + 1 / more.limits.interval_seconds) + 1e-12


@given(readings(), bounds, states, st.floats(0, 4000), st.floats(0, 4000), intervals)
def test_the_longer_the_cold_start_the_lower_the_rate(
    found: Readings, may: Bounds, state: State | None, one: float, other: float, interval: int | None
) -> None:
    short, long = sorted((one, other))
    quick, slow = (decide(replace(found, cold_start=ColdStart(p, p)), may, state, NOW, interval=interval) for p in (short, long))
    assert rate(slow) <= rate(quick)


@given(readings(), bounds, states, st.sampled_from(NEEDED), st.booleans(), intervals)
def test_nothing_unknown_ever_raises_the_rate(
    found: Readings, may: Bounds, state: State | None, name: str, stands_in: bool, interval: int | None
) -> None:
    known = decide(found, may, state, NOW, interval=interval)
    doubted = replace(found, unknown={name: "it is old"}) if stands_in else found.without(name, "it is old")
    decision = decide(doubted, may, state, NOW, interval=interval)
    assert decision.action != Action.RAISE
    assert decision.state.level <= (state or State()).level
    assert decision.state.level <= max(known.state.level, 1)
    assert decision.limits.total <= max(known.limits.total, 1)
    # A cycle lasts whole seconds. One pod at a time is what is done where nothing is known.
    assert decision.limits.total <= 1 or rate(decision) <= rate(known) * (1 + 1 / known.limits.interval_seconds)
    assert f"{name}: it is old" in [each.detail for each in decision.reasons]


@pytest.mark.parametrize("level", [0, 1, 2, 9])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"as_of": None}, "when this was so is not known"),
        ({"as_of": NOW - STALE - 1}, "this was so 301 s ago"),
        ({"as_of": NOW + 100}, "this is said to be so 100 s from now"),
        ({"guards": (Guard("errors"),)}, "guard errors: nothing is known"),
        ({"guards": (Guard("errors", detail="it times out"),)}, "guard errors: it times out"),
    ],
    ids=lambda each: str(each) if isinstance(each, str) else "",
)
def test_what_is_old_or_cannot_be_told_leads_to_one_at_a_time_and_not_to_none(
    level: int, change: dict[str, Any], words: str
) -> None:
    state: State | None = State(level=level)
    for _tick in range(5):
        decision = decide(replace(CALM, **change), BALANCED, state, NOW)
        state = decision.state
        assert words in [each.detail for each in decision.reasons]
    assert decision.state.level == min(level, 1)


@given(readings(), bounds, states)
def test_constant_readings_settle_and_stay(found: Readings, may: Bounds, state: State | None) -> None:
    """What happened once, as strays do, is told once; then the rate goes to its place in one direction and stays there."""
    state, now = decide(found, may, state, NOW).state, NOW
    found = replace(found, strays=0, unready=0)
    levels = []
    for _tick in range(60):
        now += may.raise_after / SAMPLES
        decision = decide(replace(found, as_of=now), may, state, now)
        state = decision.state
        levels.append(state.level)
    assert levels in (sorted(levels), sorted(levels, reverse=True))
    assert len(set(levels[-10:])) == 1
    again = decide(replace(found, as_of=now + 1), may, state, now + 1)
    assert (again.state, again.limits) == (state, decision.limits)


@given(st.floats(0, 0.06), st.floats(0, 0.06), bounds)
def test_readings_to_and_fro_do_not_carry_the_rate_along(one: float, other: float, may: Bounds) -> None:
    """It settles at the lower of the two: a rise needs readings that agree."""
    low, high = sorted((one, other))
    state, now = State(level=may_be_cold(180, may)), NOW
    levels = []
    for tick in range(40):
        now += may.raise_after
        share = low if tick % 2 else high
        found = replace(CALM, stranded_share=share, blocked_gpus=0, as_of=now)
        state = decide(found, may, state, now).state
        levels.append(state.level)
    assert levels == sorted(levels, reverse=True)


BAD: dict[str, dict[str, Any]] = {
    "a pod went astray": {"strays": 1},
    "a pod was not Ready in time": {"unready": 1},
    "a guard fires": {"guards": (Guard("errors", 2.0, True, "2 is above 1"),)},
    "a service is down to what it may not be": {"services": {"Deployment a/b": Service(10, 4)}},
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("profile", PROFILES)
def test_it_backs_off_at_once_and_comes_back(name: str, profile: str) -> None:
    may = PROFILES[profile]
    full = may_be_cold(CALM.gpu_pods, may)
    state, now = State(level=full), NOW
    bad = decide(replace(CALM, **BAD[name]), may, state, now)
    assert bad.action in (Action.BACK_OFF, Action.PAUSE)
    assert bad.state.level == full // 2
    assert bad.limits.total <= full // 2
    state, levels = bad.state, [full // 2]
    for _tick in range(20):
        now += may.raise_after / SAMPLES
        decision = decide(replace(CALM, as_of=now), may, state, now)
        state = decision.state
        levels.append(state.level)
    assert levels[:SAMPLES] == [full // 2] * SAMPLES
    assert levels == sorted(levels)
    assert levels[-1] == full


def test_what_stays_bad_ends_in_a_pause_and_says_why() -> None:
    state: State | None = State(level=9)
    levels = []
    for _tick in range(6):
        decision = decide(replace(CALM, **BAD["a guard fires"]), BALANCED, state, NOW)
        state = decision.state
        levels.append((state.level, decision.action))
    assert levels == [(4, "back_off"), (2, "back_off"), (1, "back_off"), (0, "pause"), (0, "pause"), (0, "pause")]
    assert decision.reasons[0].told() == {"reason": "GuardFires", "detail": "errors: 2 is above 1"}


def test_it_begins_with_one_and_rises_once_three_readings_agree() -> None:
    state: State | None = None
    seen = []
    for tick in range(8):
        now = NOW + 60 * tick
        decision = decide(replace(CALM, as_of=now), BALANCED, state, now)
        state = decision.state
        seen.append((state.level, str(decision.action)))
    assert seen == [(1, "hold"), (1, "hold"), (2, "raise"), (4, "raise"), (8, "raise"), (9, "raise"), (9, "hold"), (9, "hold")]
    assert "MoreNeeded" in {each["reason"] for each in decide(CALM, BALANCED, None, NOW).plain()["reasons"]}


def test_the_same_moment_read_twice_is_one_reading() -> None:
    state = decide(CALM, BALANCED, None, NOW).state
    for seconds in (1, 20, 59):
        decision = decide(replace(CALM, as_of=NOW + seconds), BALANCED, state, NOW + seconds)
        assert decision.state == state
    state = replace(state, agreeing=SAMPLES)
    assert decide(CALM, BALANCED, state, NOW + 1).state.level == 1
    # A clock that was set back does not hold it for ever.
    assert decide(replace(CALM, as_of=NOW - 9000), BALANCED, state, NOW - 9000).state.level == 2


@pytest.mark.parametrize(
    ("pods", "profile", "most"),
    [
        (180, "conservative", 3),
        (180, "balanced", 9),
        (180, "aggressive", 18),
        (10, "conservative", 1),
        (0, "balanced", 1),
        (50, "conservative", 1),
        (100, "conservative", 2),
        (3081, "balanced", 154),
    ],
)
def test_a_share_of_pods_is_rounded_down_and_one_may_always_be_cold(pods: int, profile: str, most: int) -> None:
    assert may_be_cold(pods, PROFILES[profile]) == most


@pytest.mark.parametrize(
    ("change", "total", "why"),
    [
        ({"gpu_pods_not_ready": 4}, 5, Why.COLD),
        ({"gpu_pods_not_ready": 9}, 0, Why.COLD),
        ({"gpu_pods_not_ready": 9, "in_flight": 9}, 9, Why.STEADY),
        ({"evictions": 178}, 2, Why.HOUR),
        ({"evictions": 180}, 0, Why.HOUR),
        ({"budget_headroom": 3}, 3, Why.BUDGETS),
        ({"budget_headroom": 0}, 0, Why.BUDGETS),
        ({"paused": "the namespace kube-system has the annotation"}, 0, Why.PAUSED),
        ({"stranded_share": 0.0, "blocked_gpus": 0}, 5, Why.EASED),
    ],
    ids=str,
)
def test_each_bound_holds_back_what_passes_it(change: dict[str, Any], total: int, why: Why) -> None:
    decision = decide(replace(CALM, **change), BALANCED, State(level=9), NOW)
    assert decision.limits.total == total
    assert why in reasons(decision)
    assert decision.action == (Action.PAUSE if total == 0 else Action.BACK_OFF if total < 9 else Action.HOLD)


@pytest.mark.parametrize(
    ("share", "level", "action"),
    [(0.05, 9, "hold"), (0.03, 9, "hold"), (0.025, 9, "hold"), (0.022, 5, "back_off"), (0.0, 5, "back_off")],
)
def test_a_rate_is_halved_once_less_than_half_of_it_is_asked_for(share: float, level: int, action: str) -> None:
    """Else the last moves of a defragmentation, which leave little stranded, would go one by one."""
    decision = decide(replace(CALM, stranded_share=share, blocked_gpus=0), BALANCED, State(level=9), NOW)
    assert (decision.state.level, decision.action) == (level, action)


def test_a_cycle_lasts_as_long_as_the_slowest_workload_takes() -> None:
    slow = ColdStart(20, 30, {"Deployment a/small": ColdStart(20, 25), "Deployment a/llm": ColdStart(200, 210.5)})
    decision = decide(replace(CALM, cold_start=slow), BALANCED, State(level=9), NOW)
    assert (decision.limits.total, decision.limits.interval_seconds) == (9, 211)
    assert decision.plain()["schedule"] == "*/4 * * * *"


def test_pods_that_start_quickly_are_still_not_moved_more_often_than_the_hour_allows() -> None:
    decision = decide(replace(CALM, cold_start=ColdStart(2, 3)), BALANCED, State(level=9), NOW)
    assert (decision.limits.total, decision.limits.interval_seconds) == (9, 180)
    # Where cycles are as they are, each has its share of the hour, and one pod always.
    for interval, total in ((180, 9), (60, 3), (10, 1)):
        given = decide(replace(CALM, cold_start=ColdStart(2, 3)), BALANCED, State(level=9), NOW, interval=interval)
        assert (given.limits.total, given.limits.interval_seconds) == (total, interval)
        assert (Why.HOUR in reasons(given)) == (total < 9)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("interval", [60, 120, 300])
def test_an_hour_of_cycles_whose_evictions_nobody_counts_passes_no_bound(profile: str, interval: int) -> None:
    may = PROFILES[profile]
    state, made = State(level=may_be_cold(180, may)), 0
    for cycle in range(3600 // interval):
        now = NOW + cycle * interval
        decision = decide(replace(CALM, cold_start=ColdStart(2, 3), as_of=now), may, state, now, interval=interval)
        state, made = decision.state, made + decision.limits.total
    assert made <= may.hour_share * 180


@pytest.mark.parametrize(
    ("interval", "level", "total", "why"),
    [(300, 9, 9, Why.STEADY), (60, 9, 3, Why.STEADY), (90, 9, 4, Why.STEADY), (20, 9, 1, Why.STEADY), (10, 9, 0, Why.TOO_QUICK)],
)
def test_cycles_that_are_closer_than_a_cold_start_share_the_bound(interval: int, level: int, total: int, why: Why) -> None:
    decision = decide(CALM, BALANCED, State(level=level), NOW, interval=interval)
    assert (decision.limits.total, decision.limits.interval_seconds) == (total, interval)
    assert why in reasons(decision)


def test_a_service_is_never_colder_than_it_may_be() -> None:
    bold = PROFILES["aggressive"]

    def per_workload(*found: Service) -> int:
        told = {f"Deployment a/{number}": each for number, each in enumerate(found)}
        return decide(replace(CALM, services=told), bold, State(level=18), NOW).limits.per_workload

    assert per_workload(Service(12, 0), Service(6, 0)) == 2
    assert per_workload(Service(12, 0), Service(5, 0)) == 1
    assert per_workload(Service(6, 1)) == 1
    assert per_workload(Service(6, 1, in_flight=1)) == 2
    # One with a single pod is not moved unless the user says so, and has no share.
    assert per_workload(Service(12, 0), Service(1, 0)) == per_workload(Service(12, 0), Service(1, 1)) == 2
    decision = decide(CALM.without("services", "?"), bold, State(level=18), NOW)
    assert decision.limits.per_workload == 1


def test_where_pods_are_not_known_one_is_moved_at_a_time() -> None:
    for name in ("gpu_pods", "gpu_pods_not_ready", "evictions", "cold_start"):
        assert decide(CALM.without(name, "?"), BALANCED, State(level=9), NOW).limits.total == 1
    decision = decide(CALM.without("cold_start", "?"), BALANCED, State(level=9), NOW)
    assert (decision.limits.total, decision.limits.interval_seconds) == (1, 600)


def test_an_assumed_cold_start_is_no_pause_that_never_ends() -> None:
    """Nobody would start, and so tell how long that takes."""
    few = replace(CALM.without("cold_start", "?"), gpu_pods=15, budget_headroom=15)
    decision = decide(few, BALANCED, State(level=1), NOW, interval=300)
    assert (decision.limits.total, decision.action) == (1, Action.HOLD)
    assert reasons(decision) == {Why.UNKNOWN}
    # It goes alone: the next decision sees whether it is Ready.
    cold = decide(replace(few, gpu_pods_not_ready=1), BALANCED, State(level=1), NOW, interval=300)
    assert (cold.limits.total, cold.action) == (0, Action.PAUSE)
    for state, interval in ((State(level=0), 300), (State(level=1), 20)):
        assert decide(few, BALANCED, state, NOW, interval=interval).limits.total == 0


def test_severity_grows_with_what_is_stranded_and_with_what_waits() -> None:
    def of(share: float, gpus: int, seconds: float) -> float | None:
        return severity(replace(CALM, stranded_share=share, blocked_gpus=gpus, blocked_seconds=seconds))

    assert of(0, 0, 0) == 0
    assert of(0.05, 0, 0) == 1
    assert of(0.025, 0, 0) == pytest.approx(0.5)
    assert of(0, 8, 450) == pytest.approx(0.5)
    assert of(0.025, 8, 450) == pytest.approx(0.75)
    assert severity(CALM.without("blocked_gpus", "?")) is None


@pytest.mark.parametrize(
    ("seconds", "cron"),
    [
        (1, "*/1 * * * *"),
        (60, "*/1 * * * *"),
        (61, "*/2 * * * *"),
        (180, "*/3 * * * *"),
        (400, "*/10 * * * *"),
        (3600, "0 * * * *"),
        (3601, "0 */2 * * *"),
        (43200, "0 */12 * * *"),
        (90000, "0 0 * * *"),
    ],
)
def test_a_schedule_is_never_quicker_than_the_interval(seconds: int, cron: str) -> None:
    assert schedule(seconds) == cron


@given(readings(), bounds, states)
def test_a_decision_is_plain_data_and_its_state_can_be_read_again(found: Readings, may: Bounds, state: State | None) -> None:
    decision = decide(found, may, state, NOW)
    told = decision.plain()
    assert json.loads(json.dumps(told)) == told
    assert read_state(told["state"]) == decision.state
    assert decide(found, may, state, NOW) == decision


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        "text",
        {"version": 2},
        {"version": 1, "level": "high"},
        {"version": 1, "level": -1},
        {"version": 1, "more": 1},
        {"version": 1, "level": math.nan},
        {"version": 1, "level": 10**400},
        {"version": 1, "counted": None},
    ],
    ids=str,
)
def test_what_is_no_state_is_refused(raw: Any) -> None:
    with pytest.raises(InputError, match="state: is no state of the rate"):
        read_state(raw)


def test_no_state_is_none() -> None:
    assert read_state(None) is None
    assert read_state({"version": 1}) == State()
