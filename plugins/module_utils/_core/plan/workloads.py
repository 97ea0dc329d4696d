# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which workload a pod is a replica of, and how many it wants."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ..kube.model import Cluster, Owner, Pod

RECREATING = frozenset(
    ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "Job", "CloneSet", "Rollout", "DaemonSet")
)
"""Kinds that are known to put a new pod in the place of one that was evicted."""


@dataclass(slots=True)
class Behind:
    """A workload and its pods.

    Attributes:
        owner: The Deployment where its ReplicaSet was read and tells of it, else the pod's controller.
        owners: The pod's controller, that one's controller and so on, as far as they were read.
        read: Whether the workload's own number of replicas was read.
        wanted: That number, or else the number of pods seen that are not being deleted.
        retries: How many pods a Job may lose before it fails; None where evictions do not count, or that is not known.
        pods: All active pods of the workload.
    """

    namespace: str
    owner: Owner
    owners: tuple[Owner, ...]
    read: bool
    wanted: int
    retries: int | None = None
    pods: list[Pod] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.owner.kind} {self.namespace}/{self.owner.name}"


class Workloads:
    """All workloads of a cluster that have active pods.

    Args:
        cluster: Its pods on nodes and in the queue are counted.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._by_owner: dict[tuple[str, Owner], Behind] = {}
        self._by_workload: dict[tuple[str, Owner], Behind] = {}
        for pod in active_pods(cluster):
            behind = self.of(pod)
            if behind:
                behind.pods.append(pod)
        for behind in self._by_workload.values():
            if not behind.read:
                behind.wanted = sum(not pod.terminating for pod in behind.pods)

    def of(self, pod: Pod) -> Behind | None:
        """The workload of a pod; None for a bare pod."""
        if pod.owner is None:
            return None
        key = pod.namespace, pod.owner
        behind = self._by_owner.get(key)
        if behind is None:
            behind = self._by_owner[key] = self._behind(*key)
        return behind

    def _behind(self, namespace: str, owner: Owner) -> Behind:
        owners = tuple(self._owners(namespace, owner))
        top = next((each for each in owners if each.kind == "Deployment"), owner)
        known = self.cluster.workloads.get((top.kind, namespace, top.name))
        wanted = known.replicas if known and _same(known.uid, top.uid) else None
        if wanted is None and top is not owner:
            # A ReplicaSet knows its own number where its Deployment was not read.
            top, known = owner, self.cluster.workloads[owner.kind, namespace, owner.name]
            wanted = known.replicas
        retries = known.retries if known and _same(known.uid, top.uid) else None
        behind = Behind(namespace, top, owners, wanted is not None, 0 if wanted is None else wanted, retries)
        return self._by_workload.setdefault((namespace, top), behind)

    def _owners(self, namespace: str, owner: Owner | None) -> Iterator[Owner]:
        told: set[Owner] = set()
        while owner and owner not in told:
            told.add(owner)
            yield owner
            known = self.cluster.workloads.get((owner.kind, namespace, owner.name))
            owner = known.owner if known and _same(known.uid, owner.uid) else None


def active_pods(cluster: Cluster) -> Iterator[Pod]:
    """Every active pod: on a node, in the queue, or on a node that was not read."""
    for pods in cluster.bound.values():
        yield from pods
    yield from cluster.strangers
    yield from cluster.pending


def _same(uid: str, other: str) -> bool:
    """Two objects of one name are the same unless their uids tell otherwise."""
    return uid == other or not uid or not other


_ABOVE = {"pod-template-hash": "Deployment", "rollouts-pod-template-hash": "Rollout"}


def workload_of(pod: Pod) -> str:
    """The workload of a pod by kind, namespace and name, as its own fields tell.

    A Deployment's ReplicaSets have its name and the hash that their pods carry as a label; so it is the same workload
    after a rollout, and nothing else needs to be read.
    """
    if pod.owner is None:
        return f"Pod {pod}"
    kind, name = pod.owner.kind, pod.owner.name
    if kind == "ReplicaSet":
        for label, above in _ABOVE.items():
            template = pod.labels.get(label)
            if template and name.endswith(f"-{template}"):
                return f"{above} {pod.namespace}/{name.removesuffix(f'-{template}')}"
    return f"{kind} {pod.namespace}/{name}"


def wished(workload: str, names: Collection[str]) -> bool:
    """Whether a workload is one of these Deployments: ``namespace/name``, or ``namespace/*`` for all of a namespace."""
    kind, _space, name = workload.partition(" ")
    return kind == "Deployment" and (name in names or f"{name.partition('/')[0]}/*" in names)
