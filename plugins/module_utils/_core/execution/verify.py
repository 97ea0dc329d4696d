# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a wave can still be carried out: every move of it looked at again, on the cluster as it now is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..cluster.layout import Layout
from ..cluster.scheduling import AMOUNTS, Fit
from ..kube.model import Cluster, Pod
from ..plan.evictable import Reason, Stay, Staying
from .order import Move, Order


class FaultReason(StrEnum):
    """Why a move cannot be made any more."""

    TOO_OLD = "TooOld"
    POD_GONE = "PodGone"
    UID_CHANGED = "UidChanged"
    POD_MOVED = "PodMoved"
    DESTINATION_GONE = "DestinationGone"
    DESTINATION_CLOSED = "DestinationClosed"
    NO_ROOM = "NoRoom"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    OWNER_FROZEN = "OwnerFrozen"
    REPLICA_PENDING = "ReplicaPending"
    REPLICA_NOT_READY = "ReplicaNotReady"
    STAYS = "PodStays"
    SURGE_REFUSED = "MakeBeforeBreakRefused"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is off: with one move, or with the plan."""

    reason: FaultReason
    detail: str
    move: Move | None = None

    def told(self) -> dict[str, Any]:
        """For a result."""
        where = {"namespace": self.move.namespace, "pod": self.move.pod} if self.move else {}
        return {"reason": str(self.reason), "detail": self.detail, **where}


_BY_RULE = {
    Reason.TERMINATING: FaultReason.POD_GONE,
    Reason.BUDGETS: FaultReason.BUDGET_EXHAUSTED,
    Reason.BUDGET: FaultReason.BUDGET_EXHAUSTED,
    Reason.BUDGET_UNKNOWN: FaultReason.BUDGET_EXHAUSTED,
    Reason.COOLING_DOWN: FaultReason.OWNER_FROZEN,
    Reason.SIBLINGS_PENDING: FaultReason.REPLICA_PENDING,
    Reason.SIBLINGS_NOT_READY: FaultReason.REPLICA_NOT_READY,
}


def too_old(order: Order, now: float, begun: float, most: float) -> Fault | None:
    """Whether a plan was made, and last carried on, too long ago; one whose time is not told is too old."""
    if order.made is None:
        return Fault(FaultReason.TOO_OLD, "when the plan was made is not told")
    age = now - max(order.made, begun)
    if age < -most:
        return Fault(FaultReason.TOO_OLD, f"the plan was made {-age:.0f} s after now: clocks differ, and its age is not known")
    if age > most:
        return Fault(FaultReason.TOO_OLD, f"the plan is {age:.0f} s old, more than {most:.0f}")
    return None


def pods_of(cluster: Cluster, moves: Sequence[Move]) -> dict[Move, Pod]:
    """The very pod of each move, where it still is."""
    there = {pod.uid: pod for pods in cluster.bound.values() for pod in pods}
    return {move: there[move.uid] for move in moves if move.uid in there}


def faults(wave: Sequence[Move], cluster: Cluster, staying: Staying, resource: str) -> Iterator[Fault]:
    """What is off with the moves of a wave, made one after the other; nothing if it can be carried out.

    Args:
        wave: Its moves, in the plan's order.
        cluster: As it is now.
        staying: What may not be evicted, by the rules that the plan was made with.
        resource: The GPU resource.
    """
    # In one the pods move as they will; in the other those that leave still hold their room, as they do for a while.
    layout, crowded = Layout(cluster), Layout(cluster)
    named = {(pod.namespace, pod.name): pod for pods in (*cluster.bound.values(), cluster.pending) for pod in pods}
    allows = staying.begin()
    for move in wave:
        pod = named.get((move.namespace, move.pod))
        fault = _gone(move, pod) if pod is None or pod.uid != move.uid or pod.node != move.source else None
        if fault or pod is None:
            yield fault or _gone(move, None)
            continue
        if stay := staying.stays.get(id(pod)):
            yield _held(move, stay)
        elif not allows(pod):
            yield Fault(FaultReason.BUDGET_EXHAUSTED, "its budgets do not allow all evictions of the wave", move)
        node = cluster.nodes.get(move.target)
        if node is None:
            yield Fault(FaultReason.DESTINATION_GONE, f"there is no node {move.target}", move)
            continue
        refusals = Fit(pod, layout, resource).refusals(node)
        if refusals:
            closed = [refusal for refusal in refusals if refusal not in AMOUNTS]
            reason = FaultReason.DESTINATION_CLOSED if closed else FaultReason.NO_ROOM
            yield Fault(reason, f"{move.target} refuses it: {', '.join(refusals)}", move)
        elif not crowded.fits(pod, move.target):
            yield Fault(FaultReason.NO_ROOM, f"{move.target} has no room before others leave it", move)
        layout.remove(pod, pod.node)
        layout.add(pod, move.target)
        crowded.add(pod, move.target)


def _gone(move: Move, pod: Pod | None) -> Fault:
    if pod is None:
        return Fault(FaultReason.POD_GONE, "it is not there any more", move)
    if pod.uid != move.uid:
        return Fault(FaultReason.UID_CHANGED, f"another pod has its name, {pod.uid} instead of {move.uid}", move)
    return Fault(FaultReason.POD_MOVED, f"it is on {pod.node or 'no node'}, not on {move.source}", move)


def _held(move: Move, stay: Stay) -> Fault:
    reason = _BY_RULE.get(stay.reason, FaultReason.STAYS)
    return Fault(reason, stay.detail if reason != FaultReason.STAYS else f"{stay.reason}: {stay.detail}", move)
