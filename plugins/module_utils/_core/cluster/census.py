# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Pods as the rules of other pods see them: found by namespace and labels, counted by domain.

A question is counted out once, over the pods that it finds and no others, and its answer is kept up to date as pods
come and go. So what a rule costs hangs on the pods that it is about, not on the size of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ..kube.model import AffinityTerm, Cluster, HostPort, Node, Pod
from ..kube.selectors import LabelSelector

_NAME = "kubernetes.io/metadata.name"
_Key = TypeVar("_Key", bound=Hashable)


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


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """Nodes on which alone pods are counted: their names, and how many domains they make up.

    Equal only to itself: names are many, and :meth:`Census.among` gives one object for the same nodes.
    """

    names: frozenset[str]
    domains: int


@dataclass(frozen=True, slots=True)
class Query:
    """Which pods to count, and by what.

    Attributes:
        terms: Every one of them speaks of the pod. There is one at least.
        key: The node label whose values are the domains.
        among: Only pods on these nodes; None for all.
        lasting: Only pods that are not being deleted.
        unknown: As for :func:`covers`.
    """

    terms: tuple[AffinityTerm, ...]
    key: str
    among: Among | None = None
    lasting: bool = False
    unknown: bool = False


@dataclass(slots=True)
class _Tally:
    """Pods by domain, where a domain without any has no entry; and in all, in a domain or not."""

    key: str
    among: Among | None = None
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def count(self, node: Node, number: int) -> None:
        self.total += number
        domain = node.labels.get(self.key)
        if domain is not None and (self.among is None or node.name in self.among.names):
            _shift(self.counts, domain, number)


@dataclass(slots=True)
class _Alike:
    """Pods that no query tells apart: one of them, how many each node has, and the tallies that count them."""

    pod: Pod
    at: dict[str, int] = field(default_factory=dict)
    tallies: list[_Tally] = field(default_factory=list)


class Census:
    """Where pods are that the rules of pods are about.

    Args:
        cluster: The cluster whose nodes and namespaces apply.
        pods: Active pods by node name.
    """

    def __init__(self, cluster: Cluster, pods: Mapping[str, Collection[Pod]]) -> None:
        self._cluster = cluster
        self._where: dict[int, list[str]] = {}
        self._alike: dict[object, _Alike] = {}
        self._tallies: dict[Query, _Tally] = {}
        # By one label that the pods must have; None for pods of any labels.
        self._labelled: dict[tuple[str, str] | None, list[_Alike]] = defaultdict(list)
        self._repelling: dict[tuple[str, str] | None, list[AffinityTerm]] = defaultdict(list)
        # The pods that have a required anti-affinity term, and the terms that speak of pods by what these are.
        self._repellers: dict[AffinityTerm, _Tally] = {}
        self._repelled: dict[object, list[tuple[AffinityTerm, _Tally]]] = {}
        self._ports: dict[tuple[str, int], dict[tuple[HostPort, str], int]] = defaultdict(dict)
        self._claims: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        self._among: dict[tuple[str, object], Among] = {}
        for name, found in pods.items():
            for pod in found:
                self.count(pod, name, +1)

    def count(self, pod: Pod, node: str, number: int) -> None:
        """Count a pod that comes to a node (+1) or leaves it (-1)."""
        where = self._where.setdefault(id(pod), [])
        if number > 0:
            where.append(node)
        else:
            where.remove(node)
        here = self._cluster.nodes[node]
        alike = self._alike_of(pod)
        _shift(alike.at, node, number)
        for tally in alike.tallies:
            tally.count(here, number)
        placement = pod.placement
        for term in dict.fromkeys(placement.anti_affinity):
            self._repeller(term).count(here, number)
        for port in placement.host_ports:
            _shift(self._ports[port.protocol, port.port], (port, node), number)
        for claim in placement.volume_claims:
            _shift(self._claims[pod.namespace, claim], id(pod), number)

    def counts(self, query: Query) -> Mapping[str, int]:
        """How many pods a query finds in each domain; a domain without any has no entry."""
        return self._tally(query).counts

    def others(self, pod: Pod, query: Query) -> Mapping[str, int]:
        """The same without one pod."""
        tally = self._tally(query)
        return self._without(pod, tally) if self._finds(query, pod) else tally.counts

    def is_repelled(self, pod: Pod) -> bool:
        """Whether the required anti-affinity of some pod on a node, itself among them, speaks of a pod."""
        return any(tally.total for _term, tally in self._speaking_of(pod))

    def repelled(self, pod: Pod) -> Iterator[tuple[str, Collection[str]]]:
        """The domains of other pods whose required anti-affinity speaks of this one, as (node label, values)."""
        for term, tally in self._speaking_of(pod):
            counts = self._without(pod, tally) if term in pod.placement.anti_affinity else tally.counts
            if counts:
                yield term.topology_key, counts.keys()

    def conflicting(self, ports: Collection[HostPort]) -> frozenset[str]:
        """The nodes on which one of these ports is taken."""
        return frozenset(
            node for mine in ports for theirs, node in self._ports.get((mine.protocol, mine.port), ()) if mine.conflicts(theirs)
        )

    def is_claimed(self, pod: Pod, claim: str) -> bool:
        """Whether another pod on a node uses a claim of the pod's namespace."""
        return bool(self._claims.get((pod.namespace, claim), {}).keys() - {id(pod)})

    def among(self, key: str, likeness: object, passes: Callable[[Node], bool]) -> Among:
        """The nodes that pass, all of which have a label, and the domains that it makes of them.

        Args:
            key: The label.
            likeness: Equal wherever the same nodes pass: they are looked at once.
            passes: Asked of each node.
        """
        found = self._among.get((key, likeness))
        if found is None:
            nodes = [node for node in self._cluster.nodes.values() if passes(node)]
            found = Among(frozenset(node.name for node in nodes), len({node.labels[key] for node in nodes}))
            self._among[key, likeness] = found
        return found

    def _repeller(self, term: AffinityTerm) -> _Tally:
        tally = self._repellers.get(term)
        if tally is None:
            tally = self._repellers[term] = _Tally(term.topology_key)
            self._repelled.clear()
            for handle in _handles(term.selector):
                self._repelling[handle].append(term)
        return tally

    def _speaking_of(self, pod: Pod) -> list[tuple[AffinityTerm, _Tally]]:
        """Terms by which pods repel this one, or once did."""
        key = _likeness(pod)
        found = self._repelled.get(key)
        if found is None:
            known = (term for handle in (*pod.labels.items(), None) for term in self._repelling.get(handle, ()))
            found = [(term, self._repellers[term]) for term in known if covers(self._cluster, term, pod, unknown=True)]
            self._repelled[key] = found
        return found

    def _alike_of(self, pod: Pod) -> _Alike:
        key = (*_likeness(pod), pod.terminating)
        alike = self._alike.get(key)
        if alike is None:
            alike = self._alike[key] = _Alike(pod)
            alike.tallies += (tally for query, tally in self._tallies.items() if self._finds(query, pod))
            for label in (*pod.labels.items(), None):
                self._labelled[label].append(alike)
        return alike

    def _tally(self, query: Query) -> _Tally:
        if query not in self._tallies:
            self._tallies[query] = self._counted(query)
        return self._tallies[query]

    def _counted(self, query: Query) -> _Tally:
        tally = _Tally(query.key, query.among)
        for handle in _handles(query.terms[0].selector):
            for alike in self._labelled.get(handle, ()):
                if self._finds(query, alike.pod):
                    alike.tallies.append(tally)
                    for node, number in alike.at.items():
                        tally.count(self._cluster.nodes[node], number)
        return tally

    def _finds(self, query: Query, pod: Pod) -> bool:
        return not (query.lasting and pod.terminating) and all(
            covers(self._cluster, term, pod, unknown=query.unknown) for term in query.terms
        )

    def _without(self, pod: Pod, tally: _Tally) -> Mapping[str, int]:
        """What a tally that counts the pod comes to without it, wherever it is."""
        where = self._where.get(id(pod))
        if not where:
            return tally.counts
        rest = _Tally(tally.key, tally.among, dict(tally.counts))
        for node in where:
            rest.count(self._cluster.nodes[node], -1)
        return rest.counts


def _shift(counts: dict[_Key, int], key: _Key, number: int) -> None:
    """Count, and forget what comes to none."""
    total = counts.get(key, 0) + number
    if total:
        counts[key] = total
    else:
        del counts[key]


def _likeness(pod: Pod) -> tuple[object, ...]:
    """Equal for pods that no term tells apart."""
    return pod.namespace, tuple(sorted(pod.labels.items()))


def _handles(selector: LabelSelector | None) -> list[tuple[str, str] | None]:
    """Labels of which a selected pod has exactly one; None stands for a pod of any labels."""
    if selector is None:
        return []
    wanted = next((each for each in selector.requirements if each.operator == "In"), None)
    return [(wanted.key, value) for value in dict.fromkeys(wanted.values)] if wanted else [None]
