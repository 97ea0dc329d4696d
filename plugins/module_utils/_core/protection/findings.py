# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What can be wrong with a cluster's protection. The ids are for good: people's notes and pipelines refer to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from ..severity import Severity

IDS: Mapping[str, str] = {
    # Services
    "NamespaceNotFound": "a service in a namespace that is not there",
    "ServiceNotFound": "a service that is not there",
    "ServiceAmbiguous": "a name that workloads of several kinds have",
    "SelectsNothing": "a group of pods that has none",
    "SelectorUnknown": "a workload whose pods no selector tells from others",
    # Budgets
    "BudgetForbidsAll": "a PodDisruptionBudget that allows no eviction at all",
    "BudgetCannotCount": "a PodDisruptionBudget that the disruption controller cannot count for, so that it allows nothing",
    "SharedPods": "two wishes for one pod, of which the first counts",
    "ForeignBudget": "a PodDisruptionBudget of somebody else's that is there already",
    "SeveralBudgets": "pods of several PodDisruptionBudgets, which the Eviction API refuses to evict",
    "SeveralWorkloads": "a PodDisruptionBudget over pods of several workloads, which it counts as one",
    "ScaledToOne": "a workload that its autoscaler may bring down to what a PodDisruptionBudget needs",
    "NameTaken": "a PodDisruptionBudget of somebody else's that has the name",
    "SingleReplica": "a GPU workload of one replica, for which a PodDisruptionBudget can do nothing",
    "GroupNotBudgeted": "pods that only work together, for which a PodDisruptionBudget can do nothing",
    # Annotations
    "EvictMisread": 'an annotation evict: "false", which lets the descheduler evict the pod past every protection',
    "EvictWins": "both annotations, of which evict counts",
    "EvictsPastProtection": "pods that the descheduler may evict past every protection",
    "PreferNoEvictionFalse": 'prefer-no-eviction: "false", which protects as every value does',
    "NotReadByDescheduler": "an annotation that the descheduler does not read",
    "NotOnPods": "an annotation where nobody reads it",
    "LostOnRecreation": "annotations that the next pod does not have",
    "KeptInGit": "a workload whose template is kept elsewhere, so that a change here would be undone",
    "TemplateUnchanged": "a template that still has the annotation, as changing it needs leave",
}
"""Every id, and what it is about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        id: One of IDS.
        object: Which object, such as ``Deployment serving/llm``.
        message: What is there and what it does.
        fix: What to do; "" where there is nothing to do.
    """

    id: str
    severity: Severity
    object: str
    message: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The finding as plain data."""
        return asdict(self) | {"severity": str(self.severity)}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by object; each once."""
    rank = list(Severity)
    return sorted(set(findings), key=lambda each: (rank.index(each.severity), each.object, each.id, each.message))
