# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Would kube-scheduler place this pod on this node, and if not, why not.

Each check is one of kube-scheduler's filter plugins (v1.36, ``pkg/scheduler/framework/plugins``), named in its
docstring. Preferences do not count: they change where a pod goes, never whether it can.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..kube.model import PODS, AffinityTerm, Node, Placement, Pod, SpreadConstraint, Taint, Volume
from .census import Census, Query, covers
from .layout import Layout

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_UNLABELLED: frozenset[str | None] = frozenset((None,))
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


@dataclass(frozen=True, slots=True)
class Domains:
    """Nodes that other pods close to a pod, told by the value of a label.

    Attributes:
        refusal: What such a node says.
        key: The label; None for the name of the node.
        values: The values that are closed; None among them for nodes without the label.
        admits: The values are those that are open instead.
    """

    refusal: Refusal
    key: str | None
    values: frozenset[str | None]
    admits: bool = False

    def value(self, node: Node) -> str | None:
        """The node's value of the label."""
        return node.name if self.key is None else node.labels.get(self.key)

    def closes(self, node: Node) -> bool:
        """Whether the node is closed."""
        return (self.value(node) in self.values) != self.admits


@dataclass(frozen=True, slots=True)
class Share:
    """How many pods under one rule a domain takes, where each that comes closes it to others under the same rule.

    Attributes:
        rule: Equal for pods under the same rule.
        key: The label that tells the domain; None for the name of the node.
        usual: How many more a domain takes.
        left: By domain, where it is another number: all that are there now are counted.
    """

    rule: Hashable
    key: str | None
    usual: int
    left: Mapping[str, int]


class Fit:
    """The checks for one pod, with what they need of all other pods counted once.

    Args:
        pod: The pod to place. If it is on a node, it is counted there like any other.
        layout: Who is where.
        gpu: The GPU resource, so that a lack of it is told by its own name.

    Attributes:
        domains: Nodes that are closed by where other pods are.
        volumes: The volumes of its claims that were read.
        barred: What keeps it off every node.
    """

    def __init__(self, pod: Pod, layout: Layout, gpu: str) -> None:
        self.pod = pod
        self.layout = layout
        self.gpu = gpu
        self.domains = list(self._domains())
        self.barred: set[Refusal] = set()
        self.volumes: list[Volume] = []
        self._look_at_claims()
        self._reserved = self._reserved_room() if layout.nominated else {}

    def refusals(self, node: Node) -> list[Refusal]:
        """Every reason why the node does not take the pod; none if it does."""
        found = [*standing(self.pod.placement, node), *self._lacking(node)]
        told = self.barred | {domains.refusal for domains in self.domains if domains.closes(node)}
        if not all(reaches(volume, node) for volume in self.volumes):
            told.add(Refusal.VOLUME_ZONE)
        if told:
            found.extend(refusal for refusal in Refusal if refusal in told)
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
        for other in self.layout.nominated:
            if other is not self.pod and other.priority >= self.pod.priority:
                node = reserved.setdefault(other.nominated, {})
                for resource, amount in (*other.requests.items(), (PODS, 1)):
                    node[resource] = node.get(resource, 0) + amount
        return reserved

    def _look_at_claims(self) -> None:
        """VolumeBinding and VolumeRestrictions, for claims that are bound. What is unknown refuses nothing."""
        cluster = self.layout.cluster
        for name in self.pod.placement.volume_claims:
            claim = cluster.volume_claims.get((self.pod.namespace, name))
            if claim is None:
                if "PersistentVolumeClaim" in cluster.kinds:
                    self.barred.add(Refusal.VOLUME_MISSING)
                continue
            if claim.volume in cluster.volumes:
                self.volumes.append(cluster.volumes[claim.volume])
            if "ReadWriteOncePod" in claim.access_modes and self.layout.census.is_claimed(self.pod, name):
                self.barred.add(Refusal.VOLUME_IN_USE)

    def _domains(self) -> Iterator[Domains]:
        """NodePorts, PodTopologySpread and InterPodAffinity."""
        placement, layout = self.pod.placement, self.layout
        if placement.host_ports:
            yield Domains(Refusal.HOST_PORT, None, layout.census.conflicting(placement.host_ports))
        for constraint in placement.spread:
            yield self._crowded(constraint, layout.census)
        if placement.affinity:
            yield from self._attracted(placement.affinity, layout.census)
        for term in placement.anti_affinity:
            others = layout.census.others(self.pod, Query((term,), term.topology_key, unknown=True))
            yield Domains(Refusal.POD_ANTI_AFFINITY, term.topology_key, frozenset(others))
        if layout.repelling:
            # The other way round: pods whose anti-affinity speaks of this one.
            for key, values in layout.census.repelled(self.pod):
                yield Domains(Refusal.POD_ANTI_AFFINITY, key, frozenset(values))

    def _attracted(self, terms: tuple[AffinityTerm, ...], census: Census) -> Iterator[Domains]:
        """Affinity: in every term's domain is a pod that all terms find; the first of its kind may go anywhere."""
        keys = dict.fromkeys(term.topology_key for term in terms)
        found = {key: frozenset(census.others(self.pod, Query(terms, key))) for key in keys}
        first = not any(found.values()) and all(covers(self.layout.cluster, term, self.pod, unknown=False) for term in terms)
        for key, values in found.items():
            yield Domains(Refusal.POD_AFFINITY, key, _UNLABELLED if first else values, admits=not first)

    def shares(self) -> Iterator[Share]:
        """What this pod and others under the same rules have to share."""
        placement, census = self.pod.placement, self.layout.census
        for port in placement.host_ports:
            yield Share((port.protocol, port.port), None, 1, dict.fromkeys(census.conflicting((port,)), 0))
        for term in placement.anti_affinity:
            if covers(self.layout.cluster, term, self.pod, unknown=True):
                counts = census.counts(Query((term,), term.topology_key, unknown=True))
                yield Share(term, term.topology_key, 1, {value: 1 - number for value, number in counts.items()})
        for constraint in placement.spread:
            if constraint.selector is not None and constraint.selector.matches(self.pod.labels):
                query = self._counted(constraint, census)
                counts = census.counts(query)
                most = constraint.max_skew + _least(constraint, query, counts)
                yield Share((constraint, query), query.key, most, {value: most - number for value, number in counts.items()})

    def _crowded(self, constraint: SpreadConstraint, census: Census) -> Domains:
        """Spread: domains in which one more pod would be too many."""
        query = self._counted(constraint, census)
        others = census.others(self.pod, query)
        itself = int(constraint.selector is not None and constraint.selector.matches(self.pod.labels))
        least = _least(constraint, query, others)
        # A skew of 1 at least is allowed, so that a domain without such pods is never too full.
        full = frozenset(value for value, number in others.items() if number + itself - least > constraint.max_skew)
        return Domains(Refusal.TOPOLOGY_SPREAD, query.key, full | _UNLABELLED)

    def _counted(self, constraint: SpreadConstraint, census: Census) -> Query:
        """What a spread constraint counts."""
        placement, key, selector = self.pod.placement, constraint.topology_key, constraint.selector
        # With several constraints a node counts only if it has all their keys.
        keys = frozenset(each.topology_key for each in placement.spread)
        affinity = (placement.node_selector, placement.node_terms) if constraint.honor_affinity else None
        tolerations = placement.tolerations if constraint.honor_taints else None

        def counts(node: Node) -> bool:
            return (
                keys <= node.labels.keys()
                and (affinity is None or not refuses(placement, node))
                and (tolerations is None or _admits(placement, node))
            )

        among = census.among(key, (keys, affinity, tolerations), counts)
        # An empty selector counts no pod, though it matches this one.
        counted = selector if selector is not None and selector.requirements else None
        term = AffinityTerm(key, counted, (self.pod.namespace,), None)
        return Query((term,), key, among, lasting=True)


def _least(constraint: SpreadConstraint, query: Query, counts: Mapping[str, int]) -> int:
    """How many pods the emptiest domain has; none where there are too few domains."""
    # A domain without any has no entry, and its none is the least.
    every = query.among is not None and len(counts) == query.among.domains >= constraint.min_domains
    return min(counts.values(), default=0) if every else 0


def reaches(volume: Volume, node: Node) -> bool:
    """VolumeZone, and the node affinity of a volume: whether the node can have it."""
    terms = volume.node_terms
    return (terms is None or any(term.matches(node.name, node.labels) for term in terms)) and _same_zone(volume.labels, node)


def _admits(placement: Placement, node: Node) -> bool:
    """Like :func:`tolerates`, with cordons and readiness as the taints that they also are."""
    return all(
        taint.effect == "PreferNoSchedule" or any(t.tolerates(taint) for t in placement.tolerations) for taint in node.taints
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
