# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Is defragmentation worth anything on this cluster? Each no comes with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..kube.model import Pod


@dataclass(frozen=True, slots=True)
class Unsuited:
    """One reason why this cluster does not gain.

    Attributes:
        reason: NoGpuNodes, FewGpuNodes, SingleGpuPodsOnly or ShortLivedPods.
        figures: What was found, and the limit it was held against.
    """

    reason: str
    message: str
    figures: dict[str, float | int]


def unsuited(
    nodes: int, pods: Sequence[Pod], resource: str, now: float | None, *, min_gpu_nodes: int, min_pod_lifetime: float
) -> list[Unsuited]:
    """Why the cluster does not suit, if it does not.

    Args:
        nodes: GPU nodes.
        pods: All pods that request GPUs: active, pending and finished.
        resource: The GPU resource.
        now: The time that the age of unfinished pods is counted to; None where it is not known.
        min_gpu_nodes: With fewer nodes a person is quicker.
        min_pod_lifetime: Seconds; holes of pods that live shorter close before anyone could move a pod.
    """
    if not nodes:
        message = f"no node offers {resource}; if the cluster has GPUs, name their resource with resource_name"
        return [Unsuited("NoGpuNodes", message, {"nodes": 0})]
    found = []
    if nodes < min_gpu_nodes:
        message = f"{nodes} GPU node{'s' if nodes > 1 else ''}, fewer than {min_gpu_nodes}: tidying by hand is quicker"
        found.append(Unsuited("FewGpuNodes", message, {"nodes": nodes, "min_gpu_nodes": min_gpu_nodes}))
    largest = max((pod.requests[resource] for pod in pods), default=0)
    if largest == 1:
        message = f"all {len(pods)} GPU pods take one GPU: a single free GPU always fits the next pod"
        found.append(Unsuited("SingleGpuPodsOnly", message, {"pods": len(pods), "largest_request": 1}))
    lifetimes = [life for pod in pods if (life := _lifetime(pod, now)) is not None]
    if lifetimes and (middle := median(lifetimes)) < min_pod_lifetime:
        message = (
            f"GPU pods live {middle:.0f} s (median of {len(lifetimes)}), less than {min_pod_lifetime:.0f} s: "
            "holes close faster than pods can be moved"
        )
        figures = {"median_seconds": middle, "pods": len(lifetimes), "min_pod_lifetime": min_pod_lifetime}
        found.append(Unsuited("ShortLivedPods", message, figures))
    return found


def _lifetime(pod: Pod, now: float | None) -> float | None:
    """Seconds from creation to the finish, or to now; None for a pod that has not begun or a time not known."""
    if pod.created is None or (pod.active and not pod.node):
        return None
    end = now if pod.active else pod.finished
    return None if end is None else max(0.0, end - pod.created)
