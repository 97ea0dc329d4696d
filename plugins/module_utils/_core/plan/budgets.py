# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How many evictions PodDisruptionBudgets allow, over a whole plan.

The numbers are those of the disruption controller (Kubernetes v1.36, ``pkg/controller/disruption``), taken from the
status it wrote or, where it has not looked at the present spec yet, counted as it would. What a pod's eviction costs
is decided as the Eviction API does (``pkg/registry/core/pod/storage/eviction.go``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ..kube.model import Cluster, Pod, PodDisruptionBudget
from .workloads import Workloads, active_pods

SCALED = frozenset(("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "CloneSet", "Rollout"))
"""Kinds whose number of replicas the disruption controller can ask for. With any other kind it allows nothing."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """What one budget allows.

    Attributes:
        left: Evictions at a time; 0 where that is unknown.
        healthy: Ready pods.
        needed: Pods that must stay ready.
        unknown: Why nothing can be told; None if it can.
    """

    budget: PodDisruptionBudget
    left: int
    healthy: int
    needed: int
    unknown: str | None = None

    def __str__(self) -> str:
        return f"PDB {self.budget.namespace}/{self.budget.name}"


class Budgets:
    """What the budgets of a cluster allow: a wave counts it down, and the next finds it whole again.

    Args:
        cluster: The cluster.
        workloads: Its workloads, for how many pods are expected.
    """

    def __init__(self, cluster: Cluster, workloads: Workloads) -> None:
        self._by_namespace: dict[str, list[Headroom]] = {}
        for budget in sorted(cluster.budgets, key=lambda budget: budget.name):
            self._by_namespace.setdefault(budget.namespace, []).append(_headroom(budget, cluster, workloads))

    def of(self, pod: Pod) -> list[Headroom]:
        """Every budget that selects the pod. With more than one the Eviction API refuses, whatever they allow."""
        return [
            headroom
            for headroom in self._by_namespace.get(pod.namespace, ())
            if headroom.budget.selector is not None and headroom.budget.selector.matches(pod.labels)
        ]

    def charged(self, pod: Pod) -> list[Headroom]:
        """The budgets that must allow the pod's eviction.

        None for a pod that does not run yet or is being deleted; nor for one that is not ready, where the budget's
        policy is AlwaysAllow or enough others are.
        """
        if pod.phase == "Pending" or pod.terminating:
            return []
        found = self.of(pod)
        if len(found) != 1 or pod.ready:
            return found
        (headroom,) = found
        spared = headroom.budget.unhealthy_policy == "AlwaysAllow" or headroom.healthy >= headroom.needed > 0
        return [] if spared else found

    def begin(self) -> Callable[[Pod], bool]:
        """Begin a wave, with all replacements of earlier ones ready.

        Returns:
            What says whether the budgets allow one more eviction in this wave, and counts it if they do.
        """
        taken: Counter[str] = Counter()

        def allows(pod: Pod) -> bool:
            charged = self.charged(pod)
            if len(charged) > 1 or any(headroom.left <= taken[str(headroom)] for headroom in charged):
                return False
            taken.update(map(str, charged))
            return True

        return allows


def _headroom(budget: PodDisruptionBudget, cluster: Cluster, workloads: Workloads) -> Headroom:
    if budget.disruptions_allowed is not None:
        return Headroom(budget, max(0, budget.disruptions_allowed), budget.current_healthy, budget.desired_healthy)
    selector = budget.selector
    pods = [
        pod
        for pod in (*active_pods(cluster), *cluster.finished)
        if pod.namespace == budget.namespace and selector is not None and selector.matches(pod.labels)
    ]
    healthy = sum(pod.ready and pod.active and not pod.terminating for pod in pods)
    scale = {}
    for pod in pods:
        behind = workloads.of(pod)
        if behind is None:
            continue
        if behind.owner.kind not in SCALED and not _counts_pods(budget):
            return Headroom(budget, 0, healthy, 0, f"{behind} tells no number of replicas")
        scale[str(behind)] = behind.wanted
    expected, needed = demand(budget.min_available, budget.max_unavailable, len(pods), sum(scale.values()))
    return Headroom(budget, max(0, healthy - needed) if expected > 0 else 0, healthy, needed)


def _counts_pods(budget: PodDisruptionBudget) -> bool:
    """Whether the pods themselves are what is expected, not what their controllers want."""
    return budget.max_unavailable is None and not isinstance(budget.min_available, str)


def demand(min_available: int | str | None, max_unavailable: int | str | None, pods: int, scale: int) -> tuple[int, int]:
    """How many pods a budget expects, and how many of them must be healthy (``getExpectedPodCount``).

    Args:
        min_available: A number or a percentage, or None.
        max_unavailable: Likewise; it goes first.
        pods: Pods that the budget selects.
        scale: Replicas that their controllers want.
    """
    if max_unavailable is not None:
        return scale, max(0, scale - scaled(max_unavailable, scale))
    if isinstance(min_available, str):
        return scale, scaled(min_available, scale)
    return (0, 0) if min_available is None else (pods, min_available)


def scaled(share: int | str, total: int) -> int:
    """A number, or a percentage of the total rounded up: so for both fields of a budget."""
    return share if isinstance(share, int) else -(-int(share.removesuffix("%")) * total // 100)
