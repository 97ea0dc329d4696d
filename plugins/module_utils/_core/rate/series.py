# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""From what Prometheus answers to readings. Nothing came, NaN, old, twice, below 0: unknown, and why."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import quantiles
from typing import Any, Protocol

from .queries import MAY_BE_EMPTY
from .readings import COUNTS, SKEW, STALE, ColdStart, Guard, Readings, consistent, number

LONGEST_START = 3600.0
"""Seconds; what took longer to get Ready was not starting: its readiness has changed since."""
APART = 5
"""GPU pods that two sources may differ by, as they are asked one after the other."""


class Sample(Protocol):
    """One sample of an answer.

    Attributes:
        value: As it came, NaN and infinite too.
        time: When it was measured, in seconds since 1970.
    """

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def value(self) -> float: ...

    @property
    def time(self) -> float: ...


def scalar(name: str, samples: Sequence[Sample], now: float) -> tuple[float | int | None, str | None]:
    """The one number that a query is to give; None, and why it is not known.

    Args:
        name: Of the reading.
        samples: What came.
        now: Seconds since 1970.
    """
    if not samples:
        return None, "the query gives nothing"
    if len(samples) > 1:
        return None, f"the query gives {len(samples)} series, and one is wanted; aggregate them"
    (sample,) = samples
    doubt = old(sample, now)
    if doubt:
        return None, doubt
    if name in COUNTS and math.isfinite(sample.value):
        # A rate's extrapolation gives halves.
        return number(float(math.ceil(sample.value - 1e-9)), name)
    return number(sample.value, name)


def with_answers(readings: Readings, answers: Mapping[str, Sequence[Sample] | str], own: Collection[str], now: float) -> Readings:
    """Readings with what Prometheus says.

    Where it says nothing that could be true, what the API server told stands in, and that this is so is noted: a rate does
    not rise by what only stands in. Evictions of others are added to ours. Where both count the GPU pods the fewer are taken;
    where they are far apart, one of them is of another cluster.

    Args:
        readings: As the API server told them.
        answers: By the name of the reading what came of its query, or why there is no answer.
        own: Readings whose query is the user's: these alone count.
        now: Seconds since 1970.
    """
    for name, answer in answers.items():
        if not isinstance(answer, str) and not answer and name in MAY_BE_EMPTY:
            continue
        value: Any = None
        if isinstance(answer, str):
            doubt: str | None = answer
        elif name == "cold_start":
            value, doubt = cold_starts(answer, now)
        else:
            value, doubt = scalar(name, answer, now)
        told = getattr(readings, name)
        if value is not None and name == "evictions":
            value = None if told is None else value + told
        elif value is not None and name == "gpu_pods" and name not in own and told is not None:
            if abs(value - told) > max(APART, 0.25 * told):
                doubt = f"Prometheus counts {value} GPU pods, and the API server {told}: is it another cluster's?"
            value = min(value, told)
        if doubt:
            readings = replace(readings, unknown={**readings.unknown, name: doubt})
        elif value is not None:
            known = {key: why for key, why in readings.unknown.items() if key != name}
            readings = replace(readings, **{name: value}, unknown=known)
    return consistent(readings)


def cold_starts(samples: Iterable[Sample], now: float) -> tuple[ColdStart | None, str | None]:
    """Percentiles of seconds from scheduled to Ready, one sample a pod; None where there is none, and why.

    Args:
        samples: With the labels ``namespace`` and ``workload``.
        now: Seconds since 1970.
    """
    by_workload: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        doubt = old(sample, now)
        if doubt:
            return None, doubt
        if not math.isfinite(sample.value) or sample.value < 0:
            return None, f"a pod is said to have been Ready {sample.value:g} s after it was scheduled"
        by_workload[workload(sample.labels)].append(sample.value)
    return percentiles(by_workload), None


def percentiles(by_workload: Mapping[str, Sequence[float]]) -> ColdStart | None:
    """The cold start of pods; None where no pod's is known.

    Args:
        by_workload: Seconds from scheduled to Ready of each pod, by workload. Those of more than an hour are left out.
    """
    starts = {name: [each for each in seconds if each <= LONGEST_START] for name, seconds in sorted(by_workload.items())}
    every = [each for seconds in starts.values() for each in seconds]
    if not every:
        return None
    parts = {name: ColdStart(*_two(seconds)) for name, seconds in starts.items() if seconds}
    return ColdStart(*_two(every), workloads=parts)


def _two(seconds: Sequence[float]) -> tuple[float, float]:
    """Half are no longer than the first, nine in ten no longer than the second, in whole milliseconds."""
    if len(seconds) == 1:
        return round(seconds[0], 3), round(seconds[0], 3)
    tenths = quantiles(seconds, n=10, method="inclusive")
    return round(tenths[4], 3), round(tenths[8], 3)


def workload(labels: Mapping[str, str]) -> str:
    """The workload that labels tell, ``Deployment/llm``, as :func:`..plan.workloads.workload_of` tells it."""
    kind, _slash, name = labels.get("workload", "").partition("/")
    return f"{kind} {labels.get('namespace', '')}/{name}"


def guard(query: str, samples: Sequence[Sample], now: float, *, above: float | None, below: float | None) -> Guard:
    """Whether a query's values pass a bound: one that does is enough, one that cannot be told leaves it unknown.

    Args:
        query: As it was asked.
        samples: What came.
        now: Seconds since 1970.
        above: It fires above this.
        below: It fires below this.
    """
    if not samples:
        return Guard(query, detail="the query gives nothing")
    for sample in samples:
        doubt = old(sample, now) or ("" if math.isfinite(sample.value) else f"a value is {sample.value:g}")
        if doubt:
            return Guard(query, detail=doubt)
    values = [sample.value for sample in samples]
    high, low = max(values), min(values)
    if above is not None and high > above:
        return Guard(query, high, True, f"{high:g} is above {above:g}")
    if below is not None and low < below:
        return Guard(query, low, True, f"{low:g} is below {below:g}")
    return Guard(query, high if below is None else low, False)


def old(sample: Sample, now: float) -> str | None:
    """Why a sample tells nothing of the cluster as it is now; None if it does."""
    if not math.isfinite(sample.time):
        return "the newest sample tells no time"
    if now - sample.time > STALE:
        return f"the newest sample is {now - sample.time:.0f} s old"
    if sample.time - now > SKEW:
        return f"a sample is {sample.time - now:.0f} s from now; compare the clocks"
    return None
