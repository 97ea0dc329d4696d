# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The objects that measuring and planning look at.

Amounts are whole numbers in the scheduler's own units: CPU in thousandths of a core, memory and storage in bytes,
everything else in pieces. Times are seconds since 1970 (UTC). Labels and annotations are the API's own mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .selectors import Labels, LabelSelector, NodeSelectorTerm

Resources = Mapping[str, int]

PODS = "pods"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key or effect means any."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is tolerated, as ``v1.Toleration.ToleratesTaint`` decides."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
        return False


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required pod affinity or anti-affinity term.

    Attributes:
        topology_key: The node label whose values are the domains.
        selector: Which pods; None selects none.
        namespaces: Their namespaces by name (the pod's own where neither names nor a selector are given).
        namespace_selector: Their namespaces by label, in addition.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``.

    Attributes:
        honor_affinity: Only nodes that the pod's node affinity admits count (nodeAffinityPolicy).
        honor_taints: Only nodes whose taints the pod tolerates count (nodeTaintsPolicy).
    """

    topology_key: str
    max_skew: int
    min_domains: int
    selector: LabelSelector | None
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a pod takes on its node."""

    protocol: str
    address: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be had on one node; 0.0.0.0 stands for every address."""
        return (self.protocol, self.port) == (other.protocol, other.port) and (
            self.address == other.address or "0.0.0.0" in (self.address, other.address)
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything but amounts that decides where a pod may run. Hashable: pods with one placement are alike."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volume_claims: tuple[str, ...] = ()


UNCONSTRAINED = Placement()


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(slots=True)
class Node:
    """A node.

    Attributes:
        ready: False where the Ready condition says so; a node without that condition is taken as the scheduler
            takes it, by its taints alone.
        allocatable: What pods may request.
        capacity: What the machine has; above allocatable where devices are unhealthy or reserved.
    """

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    allocatable: Resources
    capacity: Resources


@dataclass(slots=True)
class Pod:
    """A pod.

    Attributes:
        owner: Its controller; None for a bare pod.
        node: The node it is bound to, or "".
        nominated: The node a preemption keeps for it, or "".
        gone_by: When the grace ends of a pod that is being deleted; else None.
        requests: Effective requests, as the scheduler counts them; zero amounts are left out.
        scheduled: When a node was found for it; None where that is not told.
        started: When the kubelet took it on.
        ready_since: When it last got Ready; None where it is not, or that is not told.
        finished: When the last container ended, for a Succeeded or Failed pod; else None.
        gated: It has scheduling gates, so that the scheduler does not look at it yet.
        resource_claims: Names of its dynamic resource claims, whose devices no request shows.
        local_storage: Volumes on the node's disk, each by kind and name: what is in them is lost with the pod or the node.
        group: The PodGroup of its scheduling group, or "".
        mark: The expression of the user's that matched it; None where none did.
    """

    namespace: str
    name: str
    uid: str
    labels: Labels
    annotations: Mapping[str, str]
    owner: Owner | None
    node: str
    nominated: str
    phase: str
    terminating: bool
    gone_by: float | None
    ready: bool
    requests: Resources
    priority: int
    priority_class: str
    placement: Placement
    created: float | None
    scheduled: float | None
    started: float | None
    ready_since: float | None
    finished: float | None
    gated: bool
    resource_claims: tuple[str, ...]
    local_storage: tuple[str, ...]
    group: str
    mark: str | None

    @property
    def active(self) -> bool:
        """Neither Succeeded nor Failed: it holds what it requests, terminating or not."""
        return self.phase not in ("Succeeded", "Failed")

    @property
    def unmovable_companion(self) -> bool:
        """A DaemonSet or mirror pod: it belongs to its node and leaves with it."""
        return (self.owner is not None and self.owner.kind in ("DaemonSet", "Node")) or (
            "kubernetes.io/config.mirror" in self.annotations
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class PodDisruptionBudget:
    """A PodDisruptionBudget, its spec and what the disruption controller made of it.

    Attributes:
        min_available: A number, a percentage such as "50%", or None.
        max_unavailable: Likewise.
        disruptions_allowed: Evictions allowed now; None where the controller has not looked at this spec yet.
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    min_available: int | str | None
    max_unavailable: int | str | None
    unhealthy_policy: str
    disruptions_allowed: int | None
    current_healthy: int
    desired_healthy: int
    expected_pods: int


@dataclass(slots=True)
class Workload:
    """A controller of pods, or a controller of such a controller.

    Attributes:
        replicas: How many pods are wanted; None where the kind has no such number.
        retries: How many more pods a Job may lose before it fails; None where an eviction does not count as a failure,
            and for every other kind.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    owner: Owner | None
    replicas: int | None
    retries: int | None = None


@dataclass(slots=True)
class Volume:
    """A PersistentVolume: which nodes reach it."""

    name: str
    labels: Labels
    node_terms: tuple[NodeSelectorTerm, ...] | None


@dataclass(slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim and the volume it is bound to, or ""."""

    namespace: str
    name: str
    volume: str
    access_modes: tuple[str, ...]


@dataclass(slots=True)
class Cluster:
    """One state of a cluster.

    Attributes:
        nodes: By name, in the order read.
        bound: Active pods by node name; every node has an entry.
        pending: Active pods that are on no node and not being deleted.
        finished: Succeeded and Failed pods.
        namespaces: Labels by namespace name, for those that were read.
        strangers: Active pods on nodes that came or went while a live cluster was read.
        kinds: The kinds that were read; a kind that is missing is unknown, not empty.
        now: The newest time in the data, or the server's clock; None where there is none.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    bound: dict[str, list[Pod]] = field(default_factory=dict)
    pending: list[Pod] = field(default_factory=list)
    finished: list[Pod] = field(default_factory=list)
    strangers: list[Pod] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    workloads: dict[tuple[str, str, str], Workload] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    volume_claims: dict[tuple[str, str], VolumeClaim] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    now: float | None = None
