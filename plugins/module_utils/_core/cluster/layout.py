# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Who is where, and how much of each node is taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..kube.model import PODS, Cluster, Node, Pod
from .census import Census


class Layout:
    """Pods on nodes, with what they take, kept up to date as pods come and go.

    Attributes:
        cluster: The cluster whose nodes, volumes and namespaces apply.
        pods: Active pods by node name.
        used: Amounts taken by node name and resource; ``pods`` counts the pods.
        repelling: How many pods on any node have required anti-affinity terms.
        nominated: Pending pods for which a preemption keeps room.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: dict[str, list[Pod]] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.repelling = 0
        self.nominated = [pod for pod in cluster.pending if pod.nominated]
        self._census: Census | None = None
        for name, pods in cluster.bound.items():
            used = {PODS: len(pods)}
            for pod in pods:
                for resource, amount in pod.requests.items():
                    used[resource] = used.get(resource, 0) + amount
                if pod.placement.anti_affinity:
                    self.repelling += 1
            self.used[name] = used
            self.pods[name] = list(pods)

    @property
    def census(self) -> Census:
        """The pods as rules of other pods see them. Where no pod has such rules, nobody asks and none is taken."""
        if self._census is None:
            self._census = Census(self.cluster, self.pods)
        return self._census

    def room(self, node: Node, resource: str) -> int:
        """What is left of a resource on a node; below zero where more is taken than the node still has."""
        return node.allocatable.get(resource, 0) - self.used[node.name].get(resource, 0)

    def fits(self, pod: Pod, node: str) -> bool:
        """Whether a node has room for a pod, all else aside."""
        offered, used = self.cluster.nodes[node].allocatable, self.used[node]
        return all(n <= offered.get(r, 0) - used.get(r, 0) for r, n in (*pod.requests.items(), (PODS, 1)))

    def remove(self, pod: Pod, node: str) -> None:
        """Take a pod off a node."""
        self.pods[node].remove(pod)
        self._count(pod, node, -1)

    def add(self, pod: Pod, node: str) -> None:
        """Put a pod on a node; its own ``node`` is left as it is."""
        self.pods[node].append(pod)
        self._count(pod, node, +1)

    def move(self, pod: Pod, source: str, target: str) -> None:
        """Take a pod off one node and put it on another."""
        self.remove(pod, source)
        self.add(pod, target)

    @contextmanager
    def without(self, pod: Pod, node: str) -> Iterator[None]:
        """The layout with a pod taken off a node; afterwards it is there again."""
        self.remove(pod, node)
        try:
            yield
        finally:
            self.add(pod, node)

    def _count(self, pod: Pod, node: str, sign: int) -> None:
        used = self.used[node]
        for resource, amount in (*pod.requests.items(), (PODS, 1)):
            used[resource] = used.get(resource, 0) + sign * amount
        self.repelling += sign * bool(pod.placement.anti_affinity)
        if self._census is not None:
            self._census.count(pod, node, sign)
