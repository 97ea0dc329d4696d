# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Findings that several rules share."""

from __future__ import annotations

from ..severity import ERROR, WARNING
from .findings import Finding

REFUSED = frozenset(
    (
        "ExclusiveFields",
        "InvalidValue",
        "PriorityOutOfRange",
        "ProtectionsMixed",
        "RequiredField",
        "ThresholdMismatch",
        "ThresholdMissing",
        "ThresholdOutOfRange",
    )
)
"""Findings for which the descheduler refuses a policy whether the plugin is enabled or not."""


def exclusive(where: str, what: str) -> Finding:
    """Two things that do not go together."""
    return Finding(
        "ExclusiveFields", ERROR, where, f"{what} do not go together; the descheduler refuses the whole policy", "leave one out"
    )


def required(where: str, what: str) -> Finding:
    """Something without which the policy is refused."""
    return Finding(
        "RequiredField", ERROR, where, f"{what} must be there; the descheduler refuses the whole policy", f"write {what}"
    )


def soft_constraints(where: str) -> Finding:
    """Topology spread constraints with ScheduleAnyway."""
    message = "pods are evicted for constraints that the scheduler may break again when it places them: for ever"
    return Finding("SoftConstraints", WARNING, where, message, "take hard constraints alone: constraints: [DoNotSchedule]")


def duplicates_packed(where: str) -> Finding:
    """RemoveDuplicates where pods are packed."""
    message = "replicas are evicted for sharing a node, where packing puts them: each undoes the other, a cold start each time"
    return Finding("DuplicatesPacked", WARNING, where, message, "leave it out; where replicas must be apart, say so in the pods")
