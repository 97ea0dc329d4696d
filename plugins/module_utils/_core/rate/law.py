# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How many pods may be moved at a time, and how often.

Little's law (J. D. C. Little, *A proof for the queuing formula L = λW*, 1961) says how many pods are cold at any moment:
evictions per second × seconds of a cold start. So with at most ``level`` evictions per cycle and a cycle that lasts a cold
start, at most ``level`` pods are cold. The level is bounded by the share of GPU pods that may be cold; within the bound it
follows how badly moves are needed. It rises slowly, and falls at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from ..errors import InputError
from ..profiles import Bounds
from .readings import SKEW, ColdStart, Readings, Service

SAMPLES = 3
"""So many readings in a row must ask for a higher rate before it rises."""
BAND = 0.1
"""More is asked for than the present rate if by more than this share of it."""
EASED = 2
"""Less is asked for if by more than this factor, and the rate is divided by no more than that at a time. The stranded GPUs become
fewer with every wave: a rate that went down with each of them would make many small waves of the last few moves."""
BACK_OFF = 2
"""By what the rate is divided when something is bad, and what it grows by at most at a time."""
FULL_SHARE = 0.05
"""With this share of all GPUs stranded moves are needed as badly as can be: 10 of 200."""
GPU_HOUR = 3600.0
"""Seconds that one GPU may be waited for until that alone makes moves half as needed as can be."""
UNKNOWN_COLD_START = 600.0
"""Seconds that pods are taken to need where nothing is known: more than most do."""
WATCHED = 60.0
"""Seconds within which a decision follows another: of cycles that last as long each is seen before the next."""
VERSION = 1


class Action(StrEnum):
    """What becomes of the rate."""

    RAISE = "raise"
    HOLD = "hold"
    BACK_OFF = "back_off"
    PAUSE = "pause"


class Why(StrEnum):
    """What a reason is about. docs/tune.md tells what each means."""

    PAUSED = "Paused"
    GUARD = "GuardFires"
    STRAYS = "Strays"
    UNREADY = "Unready"
    SERVICE = "ServiceCold"
    UNKNOWN = "Unknown"
    COLD = "PodsCold"
    HOUR = "HourFull"
    BUDGETS = "NoBudget"
    TOO_QUICK = "CycleTooShort"
    FIRST = "Begins"
    NEEDED = "MoreNeeded"
    EASED = "LessNeeded"
    STEADY = "Steady"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the limits are what they are."""

    reason: Why
    detail: str

    def told(self) -> dict[str, str]:
        """As plain data."""
        return {"reason": str(self.reason), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered from one decision to the next. It changes only if something else did.

    Attributes:
        level: Pods that may be cold at a time by what was decided so far; 0 is a stop.
        agreeing: Readings in a row that asked for more.
        counted: When the last of these was counted, in seconds since 1970.
        judged: When the last wave ended whose strays and unready pods were looked at.
    """

    level: int = 1
    agreeing: int = 0
    counted: float = 0.0
    judged: float = 0.0

    def judged_until(self, now: float) -> float:
        """The same, unless it lies ahead, as after a clock was set back: what happens until then would never be looked at."""
        return self.judged if self.judged <= now + SKEW else 0.0

    def plain(self) -> dict[str, Any]:
        """The state as plain data, which :func:`read_state` reads."""
        return {"version": VERSION, **asdict(self)}


def read_state(raw: Any) -> State | None:
    """The state that plain data tell; None for None.

    Raises:
        InputError: They are not such a state.
    """
    if raw is None:
        return None
    try:
        given = dict(raw)
        if given.pop("version") != VERSION:
            raise ValueError("its version is another")
        state = State(**given)
        if not all(isinstance(value, (int, float)) and math.isfinite(value) and value >= 0 for value in asdict(state).values()):
            raise ValueError("it holds what is no number")
        return replace(state, level=int(state.level), agreeing=int(state.agreeing))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InputError(f"is no state of the rate ({error}); leave it out to begin anew", field="state") from None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Evictions that one cycle may make, and seconds from one cycle to the next. A total of 0 is a pause."""

    per_node: int
    per_namespace: int
    per_workload: int
    total: int
    interval_seconds: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Limits, and why.

    Attributes:
        state: What is to be remembered.
    """

    limits: RateLimits
    action: Action
    reasons: tuple[Reason, ...]
    state: State

    def plain(self) -> dict[str, Any]:
        """The decision as plain data, as filter and module return it."""
        return {
            "limits": asdict(self.limits),
            "action": str(self.action),
            "reasons": [reason.told() for reason in self.reasons],
            "schedule": schedule(self.limits.interval_seconds),
            "state": self.state.plain(),
        }


def decide(readings: Readings, bounds: Bounds, state: State | None, now: float, *, interval: float | None = None) -> Decision:
    """Set the limits of the next cycle.

    Args:
        readings: The cluster as it is.
        bounds: What is never passed.
        state: What the last decision left; None for the first one.
        now: Seconds since 1970.
        interval: Seconds from one cycle to the next where that cannot be chosen.
    """
    first = state is None
    before = state or State()
    most = may_be_cold(readings.gpu_pods, bounds)
    wanted = _wanted(readings, most)
    known_cold_start = readings.cold_start or ColdStart(UNKNOWN_COLD_START, UNKNOWN_COLD_START)
    bad, doubts = list(_bad(readings, bounds)), [Reason(Why.UNKNOWN, doubt) for doubt in readings.doubts(now)]
    level = min(before.level, most)
    after = replace(before, level=level, agreeing=0, counted=0.0, judged=max(before.judged_until(now), readings.judged or 0.0))
    told: list[Reason] = []
    if bad:
        after = replace(after, level=level // BACK_OFF)
    elif doubts or wanted is None:
        # What is unknown leads to one pod at a time, what is bad to none.
        after = replace(after, level=min(level, max(1, level // BACK_OFF)))
    elif wanted > level * (1 + BAND):
        after = _agreeing(after, before, bounds, now)
        if after.agreeing >= SAMPLES and after.counted != before.counted:
            after = replace(after, level=min(wanted, max(1, level * BACK_OFF)))
        told.append(_asks(readings, wanted, most, after))
    elif wanted * EASED < level:
        after = replace(after, level=-(-level // EASED))
        eased = f"{wanted} of the {most} pods that may be cold at a time will do; {after.level} from now on"
        told.append(Reason(Why.EASED, f"{_severity_told(readings)}: {eased}"))
    else:
        told.append(Reason(Why.STEADY, f"{_severity_told(readings)}: {level} of the {most} pods that may be cold at a time"))
    cold_start = known_cold_start.longest
    seconds = max(1, math.ceil(cold_start if interval is None else interval))
    total, stops = _total(readings, bounds, after.level, most, cold_start, seconds, given=interval is not None)
    if interval is None and total and readings.gpu_pods:
        # By the level, not by what goes this time: a schedule is not to change with every pod that is not Ready.
        seconds = max(seconds, math.ceil(3600 * after.level / _per_hour(readings.gpu_pods, bounds)))
    if readings.paused:
        total, stops = 0, [Reason(Why.PAUSED, readings.paused), *stops]
    if total == 0:
        action = Action.PAUSE
    elif stops or after.level < before.level:
        action = Action.BACK_OFF
    elif after.level > before.level:
        action = Action.RAISE
    else:
        action = Action.HOLD
    if first:
        told.insert(0, Reason(Why.FIRST, "nothing was decided before: one pod at a time"))
    limits = _limits(readings, bounds, total, seconds)
    return Decision(limits, action, (*stops, *bad, *doubts, *told), after)


def may_be_cold(pods: int | None, bounds: Bounds) -> int:
    """GPU pods that may be cold at a time: a share of them, rounded down; one always, also where they are not known."""
    return max(1, math.floor(bounds.cold_share * (pods or 0) + 1e-9))


def severity(readings: Readings) -> float | None:
    """How badly moves are needed, from 0 to 1; None where that is not known.

    1 − (1 − s)(1 − b), where s grows with the share of stranded GPUs up to FULL_SHARE, and b = w/(w + 1) with the GPU hours
    that blocked pods have waited.
    """
    share, gpus, seconds = readings.stranded_share, readings.blocked_gpus, readings.blocked_seconds
    if share is None or gpus is None or seconds is None:
        return None
    waited = gpus * seconds / GPU_HOUR
    return 1 - (1 - min(1.0, share / FULL_SHARE)) * (1 - waited / (waited + 1))


def schedule(seconds: int) -> str:
    """The cron schedule whose cycles are evenly that far apart, or as little more as cron allows."""
    minutes = -(-seconds // 60)
    if minutes <= 60:
        every = next(each for each in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60) if each >= minutes)
        return f"*/{every} * * * *" if every < 60 else "0 * * * *"
    hours = next((each for each in (1, 2, 3, 4, 6, 8, 12) if each * 60 >= minutes), 24)
    return f"0 */{hours} * * *" if hours < 24 else "0 0 * * *"


def _wanted(readings: Readings, most: int) -> int | None:
    """The level that the severity asks for; one at least, so that there is always some progress."""
    found = severity(readings)
    return None if found is None else max(1, math.ceil(found * most - 1e-9))


def _bad(readings: Readings, bounds: Bounds) -> Iterator[Reason]:
    """What says that moves did harm, or that more would."""
    for guard in readings.guards:
        if guard.fires:
            yield Reason(Why.GUARD, f"{guard.query}: {guard.detail or guard.value}")
    if readings.strays:
        yield Reason(Why.STRAYS, f"{_pods(readings.strays)} of the last waves landed elsewhere than planned")
    if readings.unready:
        yield Reason(Why.UNREADY, f"{_pods(readings.unready)} of the last waves did not get Ready in time")
    for name, service in sorted((readings.services or {}).items()):
        may = _service_may(service, bounds)
        cold = _others(service.not_ready, service.in_flight)
        if cold > may:
            yield Reason(Why.SERVICE, f"{name}: {cold} of {service.pods} pods are not Ready, {may} may be")


def _agreeing(after: State, before: State, bounds: Bounds, now: float) -> State:
    """One more reading that asks for more; one that follows another too soon is the same one."""
    apart = bounds.raise_after / SAMPLES
    if before.agreeing and 0 <= now - before.counted < apart:
        return replace(after, agreeing=before.agreeing, counted=before.counted)
    return replace(after, agreeing=min(SAMPLES, before.agreeing + 1), counted=now)


def _asks(readings: Readings, wanted: int, most: int, after: State) -> Reason:
    asks = f"{_severity_told(readings)}: {wanted} of the {most} pods that may be cold at a time are asked for"
    if after.agreeing < SAMPLES:
        return Reason(Why.NEEDED, f"{asks}; reading {after.agreeing} of {SAMPLES} that must agree")
    return Reason(Why.NEEDED, f"{asks}; {after.level} from now on")


def _total(
    readings: Readings, bounds: Bounds, level: int, most: int, cold_start: float, seconds: int, *, given: bool
) -> tuple[int, list[Reason]]:
    """Evictions of one cycle, and what keeps them below the level.

    Args:
        given: Whether the cycle lasts what it lasts, whatever the total.
    """
    stops: list[Reason] = []
    cycles = max(1, math.ceil(cold_start / seconds))
    total = level // cycles
    if level and not total and readings.cold_start is None and seconds >= WATCHED:
        # Of what is only assumed no pause is made: while nothing starts nobody could tell how long that takes.
        total = 1
    if level and not total:
        stops.append(
            Reason(
                Why.TOO_QUICK,
                f"a cycle every {seconds} s and a cold start of {cold_start:g} s: one eviction a cycle makes {cycles} pods cold, "
                f"{level} may be; let cycles be at least {math.ceil(cold_start)} s apart",
            )
        )
    left: list[tuple[int, Why, str]] = []
    if readings.cold_start is None:
        # They may take longer than is assumed, and so be more at a time.
        left.append((1, Why.COLD, "how long pods take to get Ready is not known"))
    if readings.gpu_pods is None or readings.gpu_pods_not_ready is None:
        left.append((1, Why.COLD, "how many GPU pods are not Ready is not known"))
    else:
        cold = _others(readings.gpu_pods_not_ready, readings.in_flight)
        left.append((most - cold, Why.COLD, f"{cold} of {readings.gpu_pods} GPU pods are not Ready, and {most} may be"))
    hourly = None if readings.gpu_pods is None else _per_hour(readings.gpu_pods, bounds)
    if hourly is None or readings.evictions is None:
        left.append((1, Why.HOUR, "how many evictions were made in the last hour is not known"))
    else:
        left.append((hourly - readings.evictions, Why.HOUR, f"{readings.evictions} of {hourly} evictions of an hour are made"))
    if given and hourly is not None:
        # Not only by those that are counted: nobody counts those of a descheduler without metrics, or that runs as a CronJob.
        told = f"{hourly} evictions may be made in an hour, by cycles every {seconds} s"
        left.append((max(1, hourly * seconds // 3600), Why.HOUR, told))
    if readings.budget_headroom is not None:
        told = f"PodDisruptionBudgets let {_pods(readings.budget_headroom)} go"
        left.append((readings.budget_headroom, Why.BUDGETS, told))
    for room, why, detail in left:
        if room < total:
            total = max(0, room)
            stops.append(Reason(why, f"{detail}: {total} more" if total else f"{detail}: none more for now"))
    return total, stops


def _limits(readings: Readings, bounds: Bounds, total: int, seconds: int) -> RateLimits:
    services = (readings.services or {}).values()
    rooms = [_service_may(each, bounds) - _others(each.not_ready, each.in_flight) for each in services if each.pods > 1]
    # One limit is for all: a workload that has no room left is held by its budget, or without one by the plan.
    per_workload = min([bounds.per_workload, *(room for room in rooms if room > 0)]) if readings.services is not None else 1
    at_least = max(1, total)
    return RateLimits(
        per_node=min(bounds.per_node, at_least),
        per_namespace=min(at_least, max(bounds.per_namespace, -(-total // 2))),
        per_workload=min(per_workload, at_least),
        total=total,
        interval_seconds=seconds,
    )


def _service_may(service: Service, bounds: Bounds) -> int:
    return max(1, math.floor(bounds.service_share * service.pods + 1e-9))


def _per_hour(pods: int, bounds: Bounds) -> int:
    return max(1, math.floor(bounds.hour_share * pods + 1e-9))


def _others(not_ready: int, in_flight: int) -> int:
    """Pods that are cold and do not come to be Ready with the wave that is under way."""
    return max(0, not_ready - in_flight)


def _severity_told(readings: Readings) -> str:
    parts = [f"{readings.stranded_share:.1%} of the GPUs are stranded"]
    if readings.blocked_gpus and readings.blocked_seconds is not None:
        parts.append(f"{readings.blocked_gpus} are waited for, for {readings.blocked_seconds / 60:.0f} min")
    return " and ".join(parts)


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count != 1 else ''}"
