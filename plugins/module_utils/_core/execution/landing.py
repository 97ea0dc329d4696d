# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Where the pods that come in the place of others are.

A pod that was evicted is followed by its workload, not by its name: the one that comes is a pod of the same workload
that was not there before. Pods of a StatefulSet keep their names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..kube.model import Pod
from ..plan.workloads import workload_of
from .record import Flight, Run


class Status(StrEnum):
    """How far a move is."""

    STAYS = "Stays"
    WAITING = "Waiting"
    BOUND = "Bound"
    READY = "Ready"
    LOST = "Lost"
    TIMED_OUT = "TimedOut"


@dataclass(frozen=True, slots=True)
class Landing:
    """One move, and what came of it.

    Attributes:
        status: Stays while its pod is where it was; Waiting until another is bound; Lost if in time none came;
            TimedOut if one came and is not Ready in time.
        pod: The one that came.
        stray: It is on no node that the wave sends pods of its size to; if it was led loosely: it is on one that the wave
            avoids.
        displaced: It is elsewhere because a pod that had waited for room took its place, which is as good.
    """

    flight: Flight
    status: Status
    pod: Pod | None = None
    stray: bool = False
    displaced: bool = False

    @property
    def over(self) -> bool:
        """Nothing more is waited for."""
        return self.status in (Status.READY, Status.LOST, Status.TIMED_OUT)

    @property
    def bound(self) -> bool:
        """Nothing more is decided about where it goes."""
        return self.over or self.status == Status.BOUND

    @property
    def ready(self) -> bool:
        """The workload is whole again."""
        return self.status == Status.READY


def landings(run: Run, pods: Iterable[Pod], now: float, timeout: float) -> list[Landing]:
    """What came of each move of a wave that was begun.

    Args:
        run: The wave.
        pods: All pods of its moves' namespaces, as they are now.
        now: Seconds since 1970.
        timeout: Seconds that a pod may take until it is Ready, counted from when it came. One that fails and is made anew
            each time has twice as long, counted from when the old one left.
    """
    flights = run.flights
    listed = list(pods)
    there = {pod.uid: pod for pod in listed}
    came: dict[str, list[Pod]] = defaultdict(list)
    for pod in listed:
        if pod.active and not pod.terminating:
            came[workload_of(pod)].append(pod)
    matched = _matched(flights, came)
    taken = {pod.node for pod in listed if pod.node and pod.uid in run.waiting}
    targets = {(flight.move.gpus, flight.move.target) for flight in flights}
    return [
        _landing(flight, there.get(flight.move.uid), matched.get(number), now, timeout, targets, taken, run.avoided)
        for number, flight in enumerate(flights)
    ]


def left_at(flight: Flight, old: Pod | None, now: float) -> float:
    """When the pod of a move left: now while its grace lasts, as a StatefulSet's next one only comes after that.

    Args:
        flight: The move, which tells when it left as far as was known.
        old: Its pod, if it is still there.
        now: Seconds since 1970.
    """
    return flight.since if old is None or old.gone_by is None else max(flight.since, min(now, old.gone_by))


def _landing(
    flight: Flight,
    old: Pod | None,
    new: Pod | None,
    now: float,
    timeout: float,
    targets: Collection[tuple[int, str]],
    taken: Collection[str],
    avoided: Collection[str],
) -> Landing:
    surging = flight.replicas is not None
    if old is not None and not old.terminating and old.active and not surging:
        return Landing(flight, Status.STAYS)
    since = flight.since if new is None or new.created is None else max(flight.since, new.created)
    late = now - since >= timeout or now - flight.since >= 2 * timeout
    if new is None:
        return Landing(flight, Status.LOST if late else Status.WAITING)
    if not new.node:
        return Landing(flight, Status.TIMED_OUT if late else Status.WAITING, new)
    elsewhere = new.node in avoided if flight.loose else True
    elsewhere = elsewhere and (flight.move.gpus, new.node) not in targets
    displaced = elsewhere and flight.move.target in taken
    status = Status.READY if new.ready else Status.TIMED_OUT if late else Status.BOUND
    return Landing(flight, status, new, stray=elsewhere and not displaced, displaced=displaced)


def _matched(flights: Sequence[Flight], came: dict[str, list[Pod]]) -> dict[int, Pod]:
    """The pod that came for each move, by the move's number.

    Pods of one workload are alike: those on the very node that a move leads to are given to it first, then those on a
    node that another move of the same size leads to, then the others, the furthest first.
    """
    left = dict(enumerate(flights))
    used: set[str] = set()
    found: dict[int, Pod] = {}
    targets = Counter((flight.move.gpus, flight.move.target) for flight in flights)

    def candidates(flight: Flight) -> list[Pod]:
        named = flight.workload.startswith("StatefulSet ")
        fresh = [
            pod
            for pod in came.get(flight.workload, ())
            if pod.uid not in used
            and pod.uid != flight.move.uid
            and pod.uid not in flight.known
            and (not named or pod.name == flight.move.pod)
        ]
        return sorted(fresh, key=lambda pod: (not pod.node, not pod.ready, pod.created or 0.0, pod.name))

    for rule in ("own", "alike", "any"):
        for number, flight in list(left.items()):
            for pod in candidates(flight):
                wanted = {
                    "own": pod.node == flight.move.target,
                    "alike": targets[flight.move.gpus, pod.node] > 0,
                    "any": True,
                }[rule]
                if wanted:
                    targets[flight.move.gpus, pod.node] -= 1
                    used.add(pod.uid)
                    found[number] = pod
                    del left[number]
                    break
    return found
