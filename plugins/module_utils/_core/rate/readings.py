# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the law goes by: numbers, or why they are not known. What makes no sense is unknown, never 0."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ..errors import InputError
from ..kube.decode import epoch

STALE = 300.0
"""Seconds after which readings tell nothing of the cluster as it is now."""
SKEW = 60.0
"""Seconds that two clocks may differ by."""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds from scheduled to Ready: of half of the pods, and of nine in ten, no more.

    Attributes:
        workloads: The same of each workload's pods.
    """

    p50: float
    p90: float
    workloads: Mapping[str, ColdStart] = field(default_factory=dict)

    @property
    def longest(self) -> float:
        """The p90 of the slowest workload: a cycle that does not wait for its pods may hit these alone."""
        return max(self.p90, *(each.p90 for each in self.workloads.values())) if self.workloads else self.p90


@dataclass(frozen=True, slots=True)
class Service:
    """GPU pods of one workload that are on nodes.

    Attributes:
        not_ready: How many of them are not Ready.
        in_flight: How many of those came in the wave that is under way.
    """

    pods: int
    not_ready: int
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Guard:
    """A bound on something of the user's, such as an error rate.

    Attributes:
        fires: Whether it is passed; None where that is not known.
        detail: Why not, or what came back.
    """

    query: str
    value: float | None = None
    fires: bool | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Readings:
    """What is known of a cluster at one moment; None is unknown.

    Attributes:
        gpu_pods: GPU pods that are on a node and neither finished nor being deleted.
        gpu_pods_not_ready: How many of them are not Ready: cold.
        in_flight: How many of those came in the wave that is under way, and are Ready before the next one.
        stranded_share: Share of all GPUs that are free and of no use to the pods that ask for them.
        blocked_gpus: GPUs that blocked pods ask for.
        blocked_seconds: How long the one that has waited longest has.
        evictions: Of ours in the last hour.
        strays: Of ours that landed elsewhere since this was last decided.
        unready: Of ours that were not Ready in time since then.
        judged: When the last wave ended that is in these numbers, in seconds since 1970.
        budget_headroom: GPU pods that PodDisruptionBudgets let go now; pods without one always go.
        services: By workload.
        paused: Where a user asks for a pause.
        as_of: When all this was so, in seconds since 1970.
        unknown: Why, by the name of the reading; also of one that another source stands in for.
    """

    gpu_pods: int | None = None
    gpu_pods_not_ready: int | None = None
    in_flight: int = 0
    stranded_share: float | None = None
    blocked_gpus: int | None = None
    blocked_seconds: float | None = None
    cold_start: ColdStart | None = None
    evictions: int | None = None
    strays: int | None = None
    unready: int | None = None
    judged: float | None = None
    budget_headroom: int | None = None
    services: Mapping[str, Service] | None = None
    guards: tuple[Guard, ...] = ()
    paused: str | None = None
    as_of: float | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)

    def without(self, name: str, why: str) -> Readings:
        """The same with one reading unknown."""
        return replace(self, **{name: None}, unknown={**self.unknown, name: why})  # type: ignore[arg-type]

    def doubts(self, now: float) -> Iterator[str]:
        """What is not known, each in a sentence."""
        if self.as_of is None:
            yield "when this was so is not known"
        elif now - self.as_of > STALE:
            yield f"this was so {now - self.as_of:.0f} s ago"
        elif self.as_of - now > SKEW:
            yield f"this is said to be so {self.as_of - now:.0f} s from now"
        for name in NEEDED:
            if name in self.unknown:
                yield f"{name}: {self.unknown[name]}"
            elif getattr(self, name) is None:
                yield f"{name} is not known"
        for guard in self.guards:
            if guard.fires is None:
                yield f"guard {guard.query}: {guard.detail or 'nothing is known'}"

    def plain(self) -> dict[str, Any]:
        """The same as plain data, which :func:`read_readings` reads."""
        told = asdict(self)
        told["guards"] = [asdict(guard) for guard in self.guards]
        told["unknown"] = dict(sorted(self.unknown.items()))
        for name in ("as_of", "judged"):
            told[name] = None if told[name] is None else _text(told[name])
        if self.cold_start:
            parts = {name: {"p50": each.p50, "p90": each.p90} for name, each in sorted(self.cold_start.workloads.items())}
            told["cold_start"] = {"p50": self.cold_start.p50, "p90": self.cold_start.p90, "workloads": parts}
        return told


NEEDED = (
    "gpu_pods",
    "gpu_pods_not_ready",
    "stranded_share",
    "blocked_gpus",
    "blocked_seconds",
    "cold_start",
    "evictions",
    "strays",
    "unready",
    "budget_headroom",
    "services",
)
"""Readings without which the rate does not rise."""
SCALARS = ("gpu_pods", "gpu_pods_not_ready", "stranded_share", "blocked_gpus", "blocked_seconds", "evictions", "budget_headroom")
"""Readings that are one number of the cluster as it is."""
COUNTS = frozenset(
    (
        "gpu_pods",
        "gpu_pods_not_ready",
        "in_flight",
        "blocked_gpus",
        "evictions",
        "strays",
        "unready",
        "budget_headroom",
        "pods",
        "not_ready",
    )
)
"""Those that count something."""


def read_readings(raw: Any) -> Readings:
    """Readings of plain data, as a filter is given them.

    A value that is no number that could be true (NaN, infinite, below 0, half a pod, more not Ready than there are) is
    unknown with the reason.

    Raises:
        InputError: A key is unknown, or a value is of another shape; it names the key.
    """
    given = _mapping(raw, "readings", Readings.__dataclass_fields__)
    unknown = {str(name): str(why) for name, why in _mapping(given.get("unknown") or {}, "unknown", None).items()}
    found: dict[str, Any] = {}
    for name in (*SCALARS, "strays", "unready"):
        found[name], doubt = number(given.get(name), name)
        if doubt:
            unknown[name] = doubt
    found["in_flight"] = number(given.get("in_flight") or 0, "in_flight")[0] or 0
    for name in ("as_of", "judged"):
        found[name] = _moment(given.get(name), name)
    found["paused"] = None if given.get("paused") is None else str(given["paused"])
    found["cold_start"], doubt = _cold_start(given.get("cold_start"), "cold_start")
    if doubt:
        unknown["cold_start"] = doubt
    found["services"], doubt = _services(given.get("services"))
    if doubt:
        unknown["services"] = doubt
    found["guards"] = tuple(_guard(each, f"guards[{index}]") for index, each in enumerate(_listed(given.get("guards"), "guards")))
    return consistent(Readings(**found, unknown=unknown))


def number(value: Any, name: str) -> tuple[Any, str | None]:
    """A reading's number, or None and why what is given is none.

    Raises:
        InputError: It is not a number at all; it names the reading.
    """
    if value is None:
        return None, None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{reprlib.repr(value)} is not a number; leave it out where it is not known", field=name)
    if not _finite(value):
        return None, f"{reprlib.repr(value)} cannot be"
    if value < 0:
        return None, f"{value:g} cannot be"
    if name.rpartition(".")[2] in COUNTS:
        if value != int(value):
            return None, f"{value:g} is no whole number"
        return int(value), None
    return float(value), None


def _finite(value: float) -> bool:
    """Whether it is a number that can be counted with; a whole number may be larger than any of those."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def consistent(found: Readings) -> Readings:
    """The readings without those that contradict each other."""
    if found.gpu_pods is not None and found.gpu_pods_not_ready is not None and found.gpu_pods_not_ready > found.gpu_pods:
        why = f"{found.gpu_pods_not_ready} of {found.gpu_pods} GPU pods are said not to be Ready"
        found = found.without("gpu_pods", why).without("gpu_pods_not_ready", why)
    if found.stranded_share is not None and found.stranded_share > 1:
        found = found.without("stranded_share", f"{found.stranded_share:g} is no share")
    return found


def _mapping(raw: Any, name: str, known: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise InputError(f"is {type(raw).__name__}, not a mapping", field=name)
    for key in raw:
        if known is not None and key not in known:
            raise InputError(f"there is no such key; there are {', '.join(known)}", field=f"{name}.{key}")
    return raw


def _listed(raw: Any, name: str) -> list[Any]:
    if raw is not None and not isinstance(raw, (list, tuple)):
        raise InputError(f"is {type(raw).__name__}, not a list", field=name)
    return list(raw or ())


def _moment(raw: Any, name: str) -> float | None:
    if raw is None:
        return None
    try:
        found = epoch(str(raw))
        # One that cannot be told again, as it is in the year 10000 by our clocks, is none.
        _text(found)
        return found
    except (ValueError, OverflowError):
        raise InputError(f"{raw!r} is not a time; write it as 2026-11-30T12:00:00Z", field=name) from None


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cold_start(raw: Any, name: str) -> tuple[ColdStart | None, str | None]:
    if raw is None:
        return None, None
    given = _mapping(raw, name, ColdStart.__dataclass_fields__)
    found: dict[str, float] = {}
    for key in ("p50", "p90"):
        value, doubt = number(given.get(key), f"{name}.{key}")
        if value is None:
            return None, f"{key} {doubt or 'is not known'}"
        found[key] = value
    if found["p50"] > found["p90"]:
        return None, f"p50 {found['p50']:g} s is said to be longer than p90 {found['p90']:g} s"
    parts: dict[str, ColdStart] = {}
    for workload, each in _mapping(given.get("workloads") or {}, f"{name}.workloads", None).items():
        part, doubt = _cold_start(each, f"{name}.workloads.{workload}")
        if part is None:
            return None, f"{workload}: {doubt}"
        parts[str(workload)] = part
    return ColdStart(**found, workloads=parts), None


def _services(raw: Any) -> tuple[dict[str, Service] | None, str | None]:
    if raw is None:
        return None, None
    found: dict[str, Service] = {}
    for name, each in _mapping(raw, "services", None).items():
        given = _mapping(each, f"services.{name}", Service.__dataclass_fields__)
        values: dict[str, int] = {}
        for key in Service.__dataclass_fields__:
            value, doubt = number(given.get(key, 0 if key == "in_flight" else None), f"services.{name}.{key}")
            if value is None:
                return None, f"{name}: {key} {doubt or 'is not known'}"
            values[key] = value
        if values["not_ready"] > values["pods"]:
            return None, f"{name}: {values['not_ready']} of {values['pods']} pods are said not to be Ready"
        found[str(name)] = Service(**values)
    return found, None


def _guard(raw: Any, name: str) -> Guard:
    given = _mapping(raw, name, Guard.__dataclass_fields__)
    if not isinstance(given.get("query"), str):
        raise InputError("is missing", field=f"{name}.query")
    fires = given.get("fires")
    if not isinstance(fires, bool | None):
        raise InputError(f"{reprlib.repr(fires)} is neither true nor false; null where it is not known", field=f"{name}.fires")
    value = given.get("value")
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise InputError(f"{reprlib.repr(value)} is not a number", field=f"{name}.value")
    if value is not None and not _finite(value):
        return Guard(given["query"], None, None, f"{reprlib.repr(value)} tells nothing")
    return Guard(given["query"], value, fires, str(given.get("detail") or ""))
