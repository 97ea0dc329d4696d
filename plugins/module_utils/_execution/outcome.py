# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of a run, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.audit.measures import AuditOptions, measure
from .._core.errors import InputError
from .._core.execution import reclaim, steer
from .._core.execution.order import Order
from .._core.kube.model import Cluster
from .._core.kube.selectors import LabelSelector


@dataclass(slots=True)
class Outcome:
    """What was done, or would be.

    Attributes:
        verdict: The plan's own where all went well, else what ended it.
        done: Nothing of the plan is left to do.
        wave: The number, from 1, of the wave that was carried out; None where none was begun.
        retry_after: Seconds after which the next wave may go, or another run be done.
        steering: For each step of the wave the nodes that were kept from attracting its pods.
        recovered: What was left by a run that died.
        swept: Something of such a run was taken away, or given back.
        written: Names of Node objects that were changed, each time.
        stopped: It ended before its time.
    """

    verdict: str
    message: str = ""
    done: bool = False
    wave: int | None = None
    retry_after: float | None = None
    evicted: list[dict[str, Any]] = field(default_factory=list)
    landed: list[dict[str, Any]] = field(default_factory=list)
    strays: list[dict[str, Any]] = field(default_factory=list)
    unready: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[dict[str, Any]] = field(default_factory=list)
    steering: list[list[str]] = field(default_factory=list)
    recovered: list[dict[str, Any]] = field(default_factory=list)
    swept: bool = False
    reclaimable: reclaim.Marks = reclaim.Marks((), ())  # noqa: RUF009 - frozen
    written: list[str] = field(default_factory=list)
    realized: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed that lasts."""
        marks = self.reclaimable
        return bool(self.evicted or self.recovered or self.swept or self.written or marks.add or marks.remove)

    def stop(self, verdict: str, message: str) -> None:
        """End with this verdict, unless another was reached before."""
        if not self.stopped:
            self.verdict, self.message, self.stopped = verdict, message, True


class StoppedError(InputError):
    """A run ended by an error of the cluster.

    Attributes:
        outcome: What was done until then.
    """

    def __init__(self, error: Exception, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(str(error))


def realized(order: Order, selector: LabelSelector, before: Cluster, after: Cluster) -> dict[str, Any]:
    """What has come of a plan, to be held against what was planned.

    Args:
        order: The plan.
        selector: Which GPU nodes are counted.
        before: The cluster as it was before the wave.
        after: As it is now.
    """
    options = AuditOptions(resource=order.resource, selector=selector)
    was, now = measure(before, options).total, measure(after, options).total
    waited = {pod.uid for pod in before.pending}
    freed = [
        name
        for name in order.freed_nodes
        if name in after.bound and not any(order.resource in pod.requests and pod.uid not in waited for pod in after.bound[name])
    ]
    return {
        "freed_nodes": freed,
        "slots": {str(size): number for size, number in sorted(now.slots.items())},
        "slots_gained": {str(size): number - was.slots[size] for size, number in sorted(now.slots.items())},
        "placed_pods": sum(pod.uid in waited for pods in after.bound.values() for pod in pods),
    }


def as_result(outcome: Outcome, order: Order) -> dict[str, Any]:
    """An outcome as plain data: what the module returns."""
    return {
        "changed": outcome.changed,
        "verdict": outcome.verdict,
        "message": outcome.message,
        "done": outcome.done,
        "plan_id": order.plan_id,
        "wave": outcome.wave,
        "waves": len(order.waves),
        "retry_after": outcome.retry_after,
        "evicted": outcome.evicted,
        "landed": outcome.landed,
        "strays": outcome.strays,
        "unready": outcome.unready,
        "reasons": outcome.reasons,
        "recovered": outcome.recovered,
        "steering": outcome.steering,
        "nodes_written": len(outcome.written),
        "reclaimable": {"added": list(outcome.reclaimable.add), "removed": list(outcome.reclaimable.remove)},
        "planned": {
            "evictions": sum(map(len, order.waves)),
            "freed_nodes": list(order.freed_nodes),
            "slots_gained": dict(order.slots_gained),
        },
        "realized": outcome.realized,
        "notes": outcome.notes,
    }


def diff_of(outcome: Outcome, steering: str) -> list[dict[str, str]]:
    """What nodes carry while the wave lasts, and labels that stay, before and after."""
    what, sign = ("closed nodes", "unschedulable") if steering == "cordon" else ("taints of nodes", steer.TAINT.key)
    steered = sorted({name for step in outcome.steering for name in step})
    marks = outcome.reclaimable
    parts = {
        f"{what} while the wave lasts": ("", "".join(f"{name}: {sign}\n" for name in steered)),
        "labels of nodes": (
            "".join(f"{name}: {reclaim.LABEL}\n" for name in marks.remove),
            "".join(f"{name}: {reclaim.LABEL}\n" for name in marks.add),
        ),
    }
    return [
        {"before_header": header, "after_header": header, "before": before, "after": after}
        for header, (before, after) in parts.items()
        if before != after
    ]
