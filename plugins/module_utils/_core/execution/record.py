# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a run remembers, in one ConfigMap: the moves in flight, what owners went through, what was planned and came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf
from typing import Any, TypeVar, cast

from ..errors import InputError
from .order import Move

T = TypeVar("T")

VERSION = 1
LARGEST = 900_000
"""Bytes of a state. A ConfigMap takes a million."""
HOUR = 3600.0
"""Seconds for which it is remembered how many pods were moved."""
_OWNERS = 2_000


@dataclass(slots=True)
class Flight:
    """One move that was begun, noted before anything is done about it.

    Attributes:
        workload: Whose pod it is, as :func:`landing.workload_of` tells.
        since: When its pod left, or before that was to leave.
        known: Uids of the workload's pods at that time: none of them is the one that comes.
        replicas: Of a Deployment that brings up the new pod first, how many it wants but for that; else None.
        deployment: Its name.
        cost: What the pod said before that its deletion costs.
        loose: Whether it may go anywhere but to nodes that the wave avoids: see :class:`steer.Lead`.
    """

    move: Move
    workload: str
    since: float
    known: tuple[str, ...] = ()
    replicas: int | None = None
    deployment: str = ""
    cost: str | None = None
    loose: bool = False


@dataclass(slots=True)
class Run:
    """A wave that was begun and is not over, or whose run died.

    Attributes:
        begun: When, in seconds since 1970.
        waiting: Pods that waited for room then: the namespace of each, by its uid.
        avoided: Nodes where something is at stake.
    """

    plan_id: str
    wave: int
    begun: float
    flights: list[Flight] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    avoided: tuple[str, ...] = ()


@dataclass(slots=True)
class Past:
    """What became of a workload's moves."""

    last: float = 0.0
    moves: int = 0
    strays: int = 0
    unready: int = 0
    frozen_until: float = 0.0


@dataclass(slots=True)
class Ended:
    """Moves that are over: when, how many pods left, and how many of those that came are elsewhere or not Ready in time."""

    at: float
    evicted: int
    strays: int
    unready: int


@dataclass(slots=True)
class State:
    """Everything that is remembered.

    Attributes:
        plan_id: The plan that was last carried on.
        waves_done: How many of its waves were carried out whole.
        last_wave: When the last wave began in which something was evicted.
        last_end: When it was over.
        workloads: What became of the moves of each.
        pods: Uids of pods that have just come, and until when they are not to be moved again.
        totals: What was planned, and what came of it.
        ended: The moves of the last hour.
    """

    plan_id: str = ""
    waves_done: int = 0
    last_wave: float = 0.0
    last_end: float = 0.0
    run: Run | None = None
    workloads: dict[str, Past] = field(default_factory=dict)
    pods: dict[str, float] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a total."""
        self.totals[name] = self.totals.get(name, 0) + more

    def cooling(self, now: float) -> dict[str, float]:
        """Workloads, and uids of pods, that are not to be moved, and until when."""
        frozen = {name: past.frozen_until for name, past in self.workloads.items()}
        return {name: until for name, until in (*frozen.items(), *self.pods.items()) if until > now}

    def to_json(self, now: float) -> str:
        """The state as text, without what has passed; the oldest histories are dropped before it gets too large."""
        self.pods = {uid: until for uid, until in self.pods.items() if until > now}
        self.ended = [each for each in self.ended if each.at > now - HOUR]
        newest = sorted(self.workloads, key=lambda name: (-self.workloads[name].last, name))
        keep = _OWNERS
        while True:
            self.workloads = {name: self.workloads[name] for name in sorted(newest[:keep])}
            text = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True, separators=(",", ":"))
            if len(text) <= LARGEST or not keep:
                return text
            keep //= 2


def read_state(text: str | None) -> State:
    """The state that a text tells; a new one for None.

    Raises:
        InputError: The text is not such a state, or one of another version: then nothing is known about what is in
            flight, and whoever reads it is to hold.
    """
    if text is None:
        return State()
    try:
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise TypeError("it is no mapping")
        version = raw.pop("version", None)
        if version != VERSION:
            raise InputError(f"is of version {version!r}, which is not {VERSION}", field="state.json")
        run = raw.pop("run")
        workloads = {str(name): _made(Past, past) for name, past in raw.pop("workloads").items()}
        ended = [_made(Ended, each) for each in raw.pop("ended")]
        state = _made(State, raw, run=None if run is None else _run(run), workloads=workloads, ended=ended)
        state.pods = {str(uid): _number(uid, until) for uid, until in state.pods.items()}
        state.totals = {str(name): int(number) for name, number in state.totals.items()}
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"cannot be read ({error})", field="state.json") from None
    return state


def _run(raw: Mapping[str, Any]) -> Run:
    flights = [
        _made(Flight, flight, move=_made(Move, flight["move"]), known=tuple(map(str, flight["known"])))
        for flight in raw["flights"]
    ]
    waiting = {str(uid): str(namespace) for uid, namespace in raw["waiting"].items()}
    return _made(Run, raw, flights=flights, waiting=waiting, avoided=tuple(map(str, raw["avoided"])))


def _made(kind: type[T], raw: Mapping[str, Any], **read: Any) -> T:
    """A dataclass of a mapping with exactly its fields, each of the type that its default, or its note, tells."""
    values = {**raw, **read}
    if values.keys() != {each.name for each in fields(cast("Any", kind))}:
        raise TypeError(f"{kind.__name__} has other fields")
    for each in fields(cast("Any", kind)):
        value, wanted = values[each.name], _TYPES.get(str(each.type))
        if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
            raise TypeError(f"{kind.__name__}.{each.name} is {type(value).__name__}")
        if isinstance(value, int | float):
            _number(each.name, value)
    return kind(**values)


def _number(name: str, value: Any) -> float:
    """A time or a count; what is not finite would compare as if all were well, or never pass."""
    number = float(value)
    if not 0 <= number < inf:
        raise ValueError(f"{name} is {number}")
    return number


_TYPES: dict[str, Any] = {
    "bool": bool,
    "str": str,
    "int": int,
    "float": (int, float),
    "int | None": (int, type(None)),
    "str | None": (str, type(None)),
    "dict[str, Past]": dict,
    "dict[str, float]": dict,
    "dict[str, str]": dict,
    "dict[str, int]": dict,
}
