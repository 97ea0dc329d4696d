# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Would kube-scheduler place this pod on this node, and if not, why not.

Each check is one of kube-scheduler's filter plugins (v1.36, ``pkg/scheduler/framework/plugins``), named in its
docstring. Preferences do not count: they change where a pod goes, never whether it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from ..kube.model import PODS, AffinityTerm, Cluster, Node, Placement, Pod, SpreadConstraint, Taint
from .layout import Layout

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NAME = "kubernetes.io/metadata.name"
_ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


class Refusal(StrEnum):
    """Why a node does not take a pod; the order is the order in which the first one is told.

    UnhealthyGPU and OtherProduct are never the scheduler's: a plan sends no pod to a node with broken GPUs, nor to
    another product unless it may.
    """

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    UNHEALTHY = "UnhealthyGPU"
    NODE_SELECTOR = "NodeSelector"
    NODE_AFFINITY = "NodeAffinity"
    OTHER_PRODUCT = "OtherProduct"
    TAINT = "Taint"
    GPU = "InsufficientGPU"
    CPU = "InsufficientCPU"
    MEMORY = "InsufficientMemory"
    PODS = "TooManyPods"
    RESOURCE = "InsufficientResource"
    NOMINATED = "ReservedForNominatedPod"
    HOST_PORT = "HostPort"
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_ZONE = "VolumeZone"
    VOLUME_IN_USE = "VolumeInUse"
    TOPOLOGY_SPREAD = "TopologySpread"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"


AMOUNTS = frozenset((Refusal.GPU, Refusal.CPU, Refusal.MEMORY, Refusal.PODS, Refusal.RESOURCE, Refusal.NOMINATED))
"""Refusals for lack of something that pods take; all others say that the node is closed to the pod."""


def refuses(placement: Placement, node: Node) -> Refusal | None:
    """NodeAffinity: what the pod's node selector or required node affinity has against the node, if anything."""
    for key, value in placement.node_selector:
        if node.labels.get(key) != value:
            return Refusal.NODE_SELECTOR
    terms = placement.node_terms
    if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
        return Refusal.NODE_AFFINITY
    return None


def tolerates(placement: Placement, node: Node) -> bool:
    """TaintToleration: every NoSchedule and NoExecute taint is tolerated. A cordon is told by its own name."""
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule" or (taint.key == _UNSCHEDULABLE.key and node.unschedulable):
            continue
        if taint.key in _NOT_READY and not node.ready:
            continue
        if not any(toleration.tolerates(taint) for toleration in placement.tolerations):
            return False
    return True


def standing(placement: Placement, node: Node) -> Iterator[Refusal]:
    """What the node is, whoever is on it: NodeUnschedulable, NodeAffinity, TaintToleration, readiness."""
    if not node.ready:
        yield Refusal.NOT_READY
    if node.unschedulable and not any(t.tolerates(_UNSCHEDULABLE) for t in placement.tolerations):
        yield Refusal.CORDONED
    if refusal := refuses(placement, node):
        yield refusal
    if node.taints and not tolerates(placement, node):
        yield Refusal.TAINT


def covers(cluster: Cluster, term: AffinityTerm, other: Pod, *, unknown: bool) -> bool:
    """Whether an affinity term speaks of a pod: its namespace and its labels.

    Args:
        cluster: For the labels of namespaces.
        term: The term.
        other: The pod.
        unknown: The answer where it hangs on labels of a namespace that was not read: True for anti-affinity, False for
            affinity, so that what is not known lets no pod in.
    """
    if term.selector is None or not term.selector.matches(other.labels):
        return False
    if other.namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return False
    labels = cluster.namespaces.get(other.namespace)
    if labels is not None:
        return term.namespace_selector.matches(labels)
    # Every namespace carries its name as a label, which may be enough to tell.
    name = {_NAME: other.namespace}
    told = (r.matches(name) for r in term.namespace_selector.requirements if r.key == _NAME)
    return all(told) and (unknown or not asks_for_labels(term))


def asks_for_labels(term: AffinityTerm) -> bool:
    """Whether an affinity term chooses namespaces by more than their names."""
    return term.namespace_selector is not None and any(r.key != _NAME for r in term.namespace_selector.requirements)


class Fit:
    """The checks for one pod, with what they need of all other pods counted once.

    Counting looks at every pod only if this pod has affinities or spread constraints, or some pod repels others.

    Args:
        pod: The pod to place. If it is on a node, it is counted there like any other.
        layout: Who is where.
        gpu: The GPU resource, so that a lack of it is told by its own name.
    """

    def __init__(self, pod: Pod, layout: Layout, gpu: str) -> None:
        self.pod = pod
        self.layout = layout
        self.gpu = gpu
        placement = pod.placement
        self._repelled = self._repelled_domains() if layout.repelling else frozenset()
        self._affinity = _Terms(placement.affinity, self, unknown=False) if placement.affinity else None
        self._anti_affinity = _Terms(placement.anti_affinity, self, unknown=True) if placement.anti_affinity else None
        self._spread = [_Spread(constraint, self) for constraint in placement.spread]
        self._reserved = self._reserved_room()

    def refusals(self, node: Node) -> list[Refusal]:
        """Every reason why the node does not take the pod; none if it does."""
        found = list(standing(self.pod.placement, node))
        found.extend(self._lacking(node))
        placement = self.pod.placement
        if placement.host_ports and self._port_taken(node):
            found.append(Refusal.HOST_PORT)
        if placement.volume_claims:
            told = set(self._volumes(node))
            found.extend(refusal for refusal in Refusal if refusal in told)
        if not all(spread.allows(node) for spread in self._spread):
            found.append(Refusal.TOPOLOGY_SPREAD)
        if self._affinity and not self._affinity.attract(node):
            found.append(Refusal.POD_AFFINITY)
        if (self._anti_affinity and self._anti_affinity.touch(node)) or self._is_repelled(node):
            found.append(Refusal.POD_ANTI_AFFINITY)
        return found

    def _lacking(self, node: Node) -> Iterator[Refusal]:
        """NodeResourcesFit: every resource, and the number of pods."""
        used = self.layout.used[node.name]
        wanted = (*self.pod.requests.items(), (PODS, 1))
        lacking = {r for r, amount in wanted if amount > node.allocatable.get(r, 0) - used.get(r, 0)}
        names = {self.gpu: Refusal.GPU, "cpu": Refusal.CPU, "memory": Refusal.MEMORY, PODS: Refusal.PODS}
        yield from (refusal for resource, refusal in names.items() if resource in lacking)
        if lacking - names.keys():
            yield Refusal.RESOURCE
        reserved = self._reserved.get(node.name)
        if reserved and not lacking:
            short = (amount > node.allocatable.get(r, 0) - used.get(r, 0) - reserved.get(r, 0) for r, amount in wanted)
            if any(short):
                yield Refusal.NOMINATED

    def _reserved_room(self) -> Mapping[str, Mapping[str, int]]:
        """What nodes keep for pods that a preemption nominated, of at least this pod's priority."""
        reserved: dict[str, dict[str, int]] = {}
        for other in self.layout.cluster.pending:
            if other.nominated and other is not self.pod and other.priority >= self.pod.priority:
                node = reserved.setdefault(other.nominated, {})
                for resource, amount in (*other.requests.items(), (PODS, 1)):
                    node[resource] = node.get(resource, 0) + amount
        return reserved

    def _port_taken(self, node: Node) -> bool:
        """NodePorts."""
        return any(
            mine.conflicts(theirs)
            for other in self.layout.pods[node.name]
            for theirs in other.placement.host_ports
            for mine in self.pod.placement.host_ports
        )

    def _volumes(self, node: Node) -> Iterator[Refusal]:
        """VolumeBinding, VolumeZone and VolumeRestrictions, for claims that are bound. What is unknown refuses nothing."""
        cluster = self.layout.cluster
        for name in self.pod.placement.volume_claims:
            claim = cluster.volume_claims.get((self.pod.namespace, name))
            if claim is None:
                if "PersistentVolumeClaim" in cluster.kinds:
                    yield Refusal.VOLUME_MISSING
                continue
            volume = cluster.volumes.get(claim.volume)
            if volume is not None:
                reached = volume.node_terms is None or any(t.matches(node.name, node.labels) for t in volume.node_terms)
                if not reached or not _same_zone(volume.labels, node):
                    yield Refusal.VOLUME_ZONE
            if "ReadWriteOncePod" in claim.access_modes and any(
                name in other.placement.volume_claims and other.namespace == self.pod.namespace
                for pods in self.layout.pods.values()
                for other in pods
                if other is not self.pod and other.placement.volume_claims
            ):
                yield Refusal.VOLUME_IN_USE

    def _repelled_domains(self) -> frozenset[tuple[str, str]]:
        """InterPodAffinity, the other way round: domains of pods whose anti-affinity names this pod."""
        domains = set()
        nodes = self.layout.cluster.nodes
        for name, pods in self.layout.pods.items():
            labels = nodes[name].labels
            for other in pods:
                for term in other.placement.anti_affinity:
                    if (
                        term.topology_key in labels
                        and other is not self.pod
                        and covers(self.layout.cluster, term, self.pod, unknown=True)
                    ):
                        domains.add((term.topology_key, labels[term.topology_key]))
        return frozenset(domains)

    def _is_repelled(self, node: Node) -> bool:
        return any(node.labels.get(key) == value for key, value in self._repelled)


class _Terms:
    """InterPodAffinity: how many pods the pod's own terms find in each domain; ``unknown`` is as for :func:`covers`."""

    def __init__(self, terms: tuple[AffinityTerm, ...], fit: Fit, *, unknown: bool) -> None:
        self.terms = terms
        self.together: Counter[tuple[str, str]] = Counter()
        self.each: set[tuple[AffinityTerm, str]] = set()
        nodes = fit.layout.cluster.nodes
        for name, pods in fit.layout.pods.items():
            labels = nodes[name].labels
            for other in pods:
                if other is fit.pod:
                    continue
                found = [term for term in terms if covers(fit.layout.cluster, term, other, unknown=unknown)]
                self.each.update((t, labels[t.topology_key]) for t in found if t.topology_key in labels)
                if len(found) == len(terms):
                    keys = {t.topology_key for t in terms if t.topology_key in labels}
                    self.together.update((key, labels[key]) for key in keys)
        self.finds_itself = all(covers(fit.layout.cluster, term, fit.pod, unknown=unknown) for term in terms)

    def attract(self, node: Node) -> bool:
        """Affinity: in every term's domain is a pod that all terms find; the first of its kind may go anywhere."""
        if any(term.topology_key not in node.labels for term in self.terms):
            return False
        if all(self.together[term.topology_key, node.labels[term.topology_key]] for term in self.terms):
            return True
        return not self.together and self.finds_itself

    def touch(self, node: Node) -> bool:
        """Anti-affinity: in some term's domain is a pod that this term finds."""
        return any((term, node.labels.get(term.topology_key)) in self.each for term in self.terms)


class _Spread:
    """PodTopologySpread: how many pods of the constraint each domain has."""

    def __init__(self, constraint: SpreadConstraint, fit: Fit) -> None:
        self.constraint = constraint
        pod, layout, selector = fit.pod, fit.layout, constraint.selector
        # With several constraints a node counts only if it has all their keys.
        keys = [c.topology_key for c in pod.placement.spread]
        self.counts: Counter[str] = Counter()
        # An empty selector counts no pod, though it matches this one.
        counted = selector if selector is not None and selector.requirements else None
        for name, node in layout.cluster.nodes.items():
            if any(key not in node.labels for key in keys):
                continue
            if (constraint.honor_affinity and refuses(pod.placement, node)) or (
                constraint.honor_taints and not _admits(pod, node)
            ):
                continue
            self.counts[node.labels[constraint.topology_key]] += sum(
                other is not pod
                and not other.terminating
                and other.namespace == pod.namespace
                and counted is not None
                and counted.matches(other.labels)
                for other in layout.pods[name]
            )
        self.itself = int(selector is not None and selector.matches(pod.labels))
        enough = len(self.counts) >= constraint.min_domains
        self.least = min(self.counts.values(), default=0) if enough else 0

    def allows(self, node: Node) -> bool:
        """Whether one more pod in the node's domain stays within the skew."""
        domain = node.labels.get(self.constraint.topology_key)
        if domain is None:
            return False
        return self.counts[domain] + self.itself - self.least <= self.constraint.max_skew


def _admits(pod: Pod, node: Node) -> bool:
    """Like :func:`tolerates`, with cordons and readiness as the taints that they also are."""
    return all(
        taint.effect == "PreferNoSchedule" or any(t.tolerates(taint) for t in pod.placement.tolerations) for taint in node.taints
    )


def _same_zone(volume_labels: Mapping[str, str], node: Node) -> bool:
    """VolumeZone: a volume's zone labels (several values joined by __) hold the node's; a node without any passes."""
    if not any(key in node.labels for key in _ZONES):
        return True
    for key, newer in _ZONES.items():
        zones = [zone.strip() for zone in volume_labels.get(key, "").split("__")]
        # A label with an empty zone is passed over, as the scheduler does.
        if all(zones) and node.labels.get(key, node.labels.get(newer)) not in zones:
            return False
    return True
