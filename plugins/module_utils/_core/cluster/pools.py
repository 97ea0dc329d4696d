# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which nodes are GPU nodes, what state they are in, and which are alternatives to each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..kube.model import PODS, Node, Pod
from ..kube.selectors import LabelSelector
from .layout import Layout

PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels that name a node's GPU product, the first found counts."""

UNNAMED = "(no product label)"

# Resources that are GPUs or the like, for telling what else a cluster has.
_DEVICE = re.compile(
    r"nvidia\.com/(gpu(\.shared)?|mig-.+?(\.shared)?)|amd\.com/(gpu|.*_.*)|gpu\.intel\.com/\w+|habana\.ai/gaudi|huawei\.com/Ascend.*"
)
_SHARED_RESOURCE = ".shared"
# How a GPU is shared, and by how many.
_SHARING_LABELS = (
    ("nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"),
    ("cloud.google.com/gke-gpu-sharing-strategy", "cloud.google.com/gke-max-shared-clients-per-gpu"),
)


@dataclass(slots=True)
class GpuNode:
    """A GPU node and what is taken of it.

    Attributes:
        pool: Name of its pool.
        gpus: Allocatable GPUs.
        capacity: GPUs in the machine; above ``gpus`` where devices are unhealthy.
        allocated: GPUs that its active pods request.
        free: ``max(0, gpus - allocated)``.
        pods: Its active pods that request GPUs.
        demands: What each of these takes: (GPUs, thousandths of CPU, bytes of memory).
        usable: It takes new pods: ready and not cordoned.
    """

    node: Node
    pool: str
    gpus: int
    capacity: int
    allocated: int
    free: int
    pods: list[Pod]
    demands: list[tuple[int, int, int]]
    usable: bool

    @property
    def healthy(self) -> bool:
        """All its devices work, and no more are requested than there are."""
        return self.gpus >= self.capacity and self.allocated <= self.gpus

    @property
    def state(self) -> str:
        """One word: Unhealthy, NotReady, Cordoned, Full, Empty or Partial."""
        if not self.healthy:
            return "Unhealthy"
        if not self.node.ready:
            return "NotReady"
        if self.node.unschedulable:
            return "Cordoned"
        return "Full" if not self.free else "Partial" if self.allocated else "Empty"

    def stranded(self, slot_size: int) -> int:
        """Free GPUs that no slot of that size uses; on a smaller node, no slot as large as the node."""
        return self.free % min(slot_size, self.gpus) if self.free else 0


@dataclass(slots=True)
class Survey:
    """The GPU nodes of a cluster, sorted by pool and name, and what is kept out of the figures.

    Attributes:
        shared: Nodes whose GPUs are time-sliced or shared by MPS, with the number of replicas (0 if not told).
        unlisted: Nodes that list none of the resource while their pods request it (devices behind a DRA driver).
        other_resources: Other GPU resources in the cluster: {resource: nodes}.
        elsewhere: Nodes that offer the resource and are in no figure: shared, or not selected.
    """

    resource: str
    nodes: list[GpuNode] = field(default_factory=list)
    shared: list[tuple[str, int]] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    other_resources: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Node] = field(default_factory=list)
    plain: list[Node] = field(default_factory=list)


def product(labels: Mapping[str, str]) -> str | None:
    """The GPU product that a node's labels name, if any."""
    return next((str(labels[key]) for key in PRODUCT_LABELS if labels.get(key)), None)


def shared_replicas(labels: Mapping[str, str], resource: str) -> int | None:
    """How many pods share one GPU of the node (0 if not told); None where each GPU is whole.

    NVIDIA's GPU feature discovery tells it by the sharing strategy, the number of replicas, and a product that ends
    in -SHARED; GKE by labels of its own. A resource that is itself called shared is measured as what it is.
    """
    if resource.endswith(_SHARED_RESOURCE):
        return None
    named = labels.get("nvidia.com/gpu.product", "").endswith("-SHARED")
    for strategy, replicas in _SHARING_LABELS:
        count = labels.get(replicas, "")
        number = int(count) if re.fullmatch("[0-9]{1,9}", count) else 0
        if number > 1 and (named or labels.get(strategy) in ("time-slicing", "time-sharing", "mps")):
            return number
    return 0 if named else None


def survey(layout: Layout, resource: str, selector: LabelSelector) -> Survey:
    """Find the GPU nodes: those that have, or had before devices failed, some of the resource.

    Args:
        layout: Who is where.
        resource: The GPU resource.
        selector: Only nodes with such labels; the empty one takes all.
    """
    result = Survey(resource)
    for name, node in layout.cluster.nodes.items():
        if not selector.matches(node.labels):
            if node.allocatable.get(resource):
                result.elsewhere.append(node)
            continue
        gpus, capacity = node.allocatable.get(resource, 0), node.capacity.get(resource, 0)
        for other in node.allocatable:
            if other != resource and node.allocatable[other] and "/" in other and _DEVICE.fullmatch(other):
                result.other_resources[other] = result.other_resources.get(other, 0) + 1
        allocated = layout.used[name].get(resource, 0)
        if not gpus and not capacity:
            if allocated:
                result.unlisted.append(name)
            else:
                result.plain.append(node)
            continue
        replicas = shared_replicas(node.labels, resource)
        if replicas is not None:
            result.shared.append((name, replicas))
            result.elsewhere.append(node)
            continue

        pods = [pod for pod in layout.pods[name] if resource in pod.requests]
        result.nodes.append(
            GpuNode(
                node=node,
                pool=product(node.labels) or UNNAMED,
                gpus=gpus,
                capacity=capacity,
                allocated=allocated,
                free=max(0, gpus - allocated),
                pods=pods,
                demands=[(r[resource], r.get("cpu", 0), r.get("memory", 0)) for r in (pod.requests for pod in pods)],
                usable=node.ready and not node.unschedulable,
            )
        )
    result.nodes.sort(key=lambda gpu_node: (gpu_node.pool, gpu_node.node.name))
    result.shared.sort()
    result.unlisted.sort()
    result.plain.sort(key=lambda node: node.name)
    return result


def pod_room(gpu_node: GpuNode, layout: Layout) -> int:
    """How many more pods the node's pod limit allows."""
    return max(0, layout.room(gpu_node.node, PODS))
