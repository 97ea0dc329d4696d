# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Make before break: a Deployment gets one replica more, on the destination, and gives it back from the source.

The controller takes away the pod whose deletion costs least, so the old one is made the cheapest. It is then gone only
once the new one is Ready, and no eviction is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

COST = "controller.kubernetes.io/pod-deletion-cost"
CHEAPEST = "-2147483647"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What of a Deployment decides whether it may have one replica more for a while.

    Attributes:
        replicas: How many it wants.
        settled: All of them are there, of its newest template, and available.
    """

    namespace: str
    name: str
    replicas: int
    settled: bool


def read_deployment(raw: Mapping[str, Any]) -> Deployment:
    """A Deployment as the API has it."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    replicas = spec.get("replicas", 1)
    observed = (status.get("observedGeneration") or 0) >= (meta.get("generation") or 0)
    counts = [status.get(key) or 0 for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return Deployment(meta["namespace"], meta["name"], replicas, observed and counts == [replicas] * 3)


def refused(found: Deployment | None, autoscalers: Collection[tuple[str, str]]) -> str | None:
    """Why a Deployment may not have one replica more; None if it may.

    Args:
        found: The Deployment; None where there is none.
        autoscalers: Kind and name of what the namespace's HorizontalPodAutoscalers scale.
    """
    if found is None:
        return "its Deployment was not found"
    if ("Deployment", found.name) in autoscalers:
        return f"a HorizontalPodAutoscaler scales {found.name}, and would take the replica away or keep it"
    if not found.settled:
        return f"{found.name} is in the middle of a rollout, or not all of its replicas are available"
    return None


def restored(now: int, replicas: int) -> int | None:
    """How many replicas to set so that the one more is gone; None where somebody else has set another number."""
    return replicas if now == replicas + 1 else None
