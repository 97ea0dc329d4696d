# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Is defragmentation worth anything on this cluster? Each no comes with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..kube.model import Cluster, Pod


@dataclass(frozen=True, slots=True)
class Unsuited:
    """One reason why this cluster does not gain.

    Attributes:
        reason: NoGpuNodes, NoPods, FewGpuNodes, SingleGpuPodsOnly or ShortLivedPods.
        figures: What was found, and the limit it was held against.
    """

    reason: str
    message: str
    figures: dict[str, float | int]


def unsuited(
    cluster: Cluster, nodes: int, pods: Sequence[Pod], resource: str, *, min_gpu_nodes: int, min_pod_lifetime: float
) -> list[Unsuited]:
    """Why the cluster does not suit, if it does not.

    Args:
        cluster: What was read; ages of unfinished pods are counted to its time.
        nodes: GPU nodes that were measured.
        pods: All pods that request GPUs: active, pending and finished.
        resource: The GPU resource.
        min_gpu_nodes: With fewer nodes a person is quicker.
        min_pod_lifetime: Seconds; holes of pods that live shorter close before anyone could move a pod.
    """
    if not nodes:
        if "Node" not in cluster.kinds:
            message = "the input holds no node; dump nodes and pods together"
        elif any(node.allocatable.get(resource) or node.capacity.get(resource) for node in cluster.nodes.values()):
            message = f"nodes offer {resource}, but node_selector leaves them out, or their GPUs are shared"
        else:
            message = f"no node offers {resource}; if the cluster has GPUs, name their resource with resource_name"
        return [Unsuited("NoGpuNodes", message, {"nodes": 0})]
    found = []
    if "Pod" not in cluster.kinds:
        found.append(Unsuited("NoPods", "the input holds no pod: nothing to move, or pods were not dumped", {"pods": 0}))
    if nodes < min_gpu_nodes:
        message = f"{nodes} GPU node{'s' if nodes > 1 else ''}, fewer than {min_gpu_nodes}: tidying by hand is quicker"
        found.append(Unsuited("FewGpuNodes", message, {"nodes": nodes, "min_gpu_nodes": min_gpu_nodes}))
    largest = max((pod.requests[resource] for pod in pods), default=0)
    if largest == 1:
        message = f"all {len(pods)} GPU pods take one GPU: a single free GPU always fits the next pod"
        found.append(Unsuited("SingleGpuPodsOnly", message, {"pods": len(pods), "largest_request": 1}))
    lifetimes = [life for pod in pods if (life := _lifetime(pod, cluster.now)) is not None]
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
