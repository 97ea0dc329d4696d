# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What is to be solved, in numbers: one model that feeds the heuristic and the exact solver.

Pods that are alike in what they take, where they may go and what moving them costs are one kind, and interchangeable.
Nodes and kinds are numbered; amounts are tuples in one fixed order of resources, the GPUs first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..cluster.layout import Layout
from ..cluster.pools import GpuNode
from ..cluster.scheduling import Domains, Fit, reaches, refuses, tolerates
from ..kube.model import PODS, Placement, Pod, Volume

Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """What to gain.

    Attributes:
        slot_size: GPUs of a slot; None to empty whole nodes.
        count: How many more; None for as many as can be had.
    """

    slot_size: int | None
    count: int | None


@dataclass(slots=True)
class Kind:
    """Movable pods that are alike.

    Attributes:
        demand: What one takes.
        cost: What moving one costs.
        nodes: Numbers of the nodes that may hold one, room aside.
        at: Its pods by node number, dearest to keep last.
    """

    demand: Amounts
    cost: float
    nodes: frozenset[int]
    at: dict[int, list[Pod]] = field(default_factory=dict)


@dataclass(slots=True)
class Problem:
    """Nodes, what is free on them, and what may leave them.

    Attributes:
        goal: What to gain.
        resources: Names in the order of amounts; the GPU resource first, ``pods`` among them.
        names: Node names by number.
        free: What is free on each node, below 0 where more is taken than there is.
        kinds: The movable pods.
        held: By node number, how many pods of which kind it holds.
        bare: Nodes that hold no pod that would have to leave: already free.
        stuck: Nodes that hold a pod that must stay, so that they cannot be emptied.
        gainers: Nodes on which a gain counts; None for all.
        needs: What must be free on one of the gainers, if the gain is room for one pod. Slots do not count then: that pod
            can use none of those there are.
        certain: The nodes of kinds and the gainers do not hang on where other pods are. Else what is proved of the problem
            is not proved of the cluster.
    """

    goal: Goal
    resources: tuple[str, ...]
    names: list[str]
    free: list[Amounts]
    kinds: list[Kind]
    held: list[dict[int, int]]
    bare: frozenset[int]
    stuck: frozenset[int]
    gainers: frozenset[int] | None = None
    needs: Amounts | None = None
    certain: bool = True

    def slots(self, gpus: int) -> int:
        """Slots in so many free GPUs."""
        return max(0, gpus) // self.goal.slot_size if self.goal.slot_size else 0

    def part(self, gpus: int) -> int:
        """Of so many GPUs those that make up no whole slot, or all where no slots are gained.

        Nothing else counts when a pod moves: the whole slots that it takes on one node it leaves on the other.
        """
        return gpus if self.needs or not self.goal.slot_size else gpus % self.goal.slot_size

    def room(self, node: int, free: Amounts) -> int:
        """GPUs that may be taken on a node without spoiling what counts: a slot, or a node that is free already.

        Below 0 where not even a pod without GPUs may come.
        """
        spoilt = self.goal.slot_size is None and node in self.bare
        return -1 if spoilt else self.part(max(0, free[0]))


def formulate(
    layout: Layout,
    nodes: Sequence[GpuNode],
    resource: str,
    goal: Goal,
    *,
    stays: Collection[int],
    across_products: bool,
    costs: Mapping[int, float],
    guest: Pod | None = None,
) -> Problem:
    """The problem of a cluster.

    Args:
        layout: Who is where.
        nodes: The GPU nodes that may give and take.
        resource: The GPU resource.
        goal: What to gain.
        stays: ``id()`` of the pods that must stay.
        across_products: A pod may leave its pool for another that it does not exclude.
        costs: Cost of moving by ``id()`` of the pod; 1 where there is none.
        guest: A pending pod that the gain is for: it counts only where this pod is then taken.
    """
    only_gpus = goal.slot_size is not None and guest is None
    movable = [
        [pod for pod in layout.pods[n.node.name] if id(pod) not in stays and (resource in pod.requests or not only_gpus)]
        for n in nodes
    ]
    taken = {name for pods in movable for pod in pods for name in pod.requests}
    others = (taken | set(guest.requests if guest else ())) - {resource}
    resources = (resource, *sorted(others), PODS)
    free = [tuple(layout.room(n.node, name) for name in resources) for n in nodes]
    places = _Places(layout, nodes, resource, across_products)
    kinds: dict[object, Kind] = {}
    held: list[dict[int, int]] = []
    numbers: dict[object, int] = {}
    for number, pods in enumerate(movable):
        counts: dict[int, int] = defaultdict(int)
        # Kinds are numbered by the names of their pods, so that the order of the input does not matter.
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
            demand = _demand(pod, resources)
            key = (demand, costs.get(id(pod), 1.0), places.likeness(pod, number))
            if key not in kinds:
                numbers[key] = len(kinds)
                kinds[key] = Kind(demand, costs.get(id(pod), 1.0), places.of(pod, number))
            kinds[key].at.setdefault(number, []).append(pod)
            counts[numbers[key]] += 1
        held.append(dict(counts))
    lasting = [[pod for pod in layout.pods[n.node.name] if not pod.unmovable_companion] for n in nodes]
    return Problem(
        goal=goal,
        resources=resources,
        names=[n.node.name for n in nodes],
        free=free,
        kinds=list(kinds.values()),
        held=held,
        bare=frozenset(i for i, pods in enumerate(lasting) if not pods),
        stuck=frozenset(i for i, pods in enumerate(lasting) if any(id(pod) in stays for pod in pods)),
        # A slot on a node that takes no pods is none; a node that is emptied may well be closed.
        gainers=places.of_guest(guest) if guest else places.open if goal.slot_size else None,
        needs=_demand(guest, resources) if guest else None,
        certain=places.certain,
    )


def _demand(pod: Pod, resources: Sequence[str]) -> Amounts:
    return tuple(1 if name == PODS else pod.requests.get(name, 0) for name in resources)


class _Places:
    """Which nodes may hold a pod, room aside; looked at once for pods that the scheduler cannot tell apart."""

    def __init__(self, layout: Layout, nodes: Sequence[GpuNode], resource: str, across_products: bool) -> None:
        self.layout = layout
        self.nodes = nodes
        self.resource = resource
        self.across_products = across_products
        self.pools: dict[str, frozenset[int]] = {}
        for number, node in enumerate(nodes):
            self.pools[node.pool] = self.pools.get(node.pool, frozenset()) | {number}
        self.open = frozenset(number for number, node in enumerate(nodes) if node.usable and node.healthy)
        self.by_rules: dict[object, frozenset[int]] = {}
        self.by_pod: dict[object, frozenset[int]] = {}
        self.by_volume: dict[object, frozenset[int]] = {}
        self.by_label: dict[str | None, dict[str | None, set[int]]] = {}
        self.certain = True

    def likeness(self, pod: Pod, node: int) -> object:
        """Equal for pods with the same nodes to go to."""
        own = None if self.across_products else self.nodes[node].pool
        if self._is_simple(pod):
            return pod.placement, own
        # Others' labels and places matter to it: such pods are alike only within one workload.
        return pod.placement, own, pod.namespace, tuple(sorted(pod.labels.items())), pod.owner

    def of(self, pod: Pod, node: int) -> frozenset[int]:
        """The numbers of the nodes."""
        found = self._by_rules(pod.placement) if self._is_simple(pod) else self._by_fit(pod)
        return found if self.across_products else found & self.pools[self.nodes[node].pool]

    def of_guest(self, pod: Pod) -> frozenset[int]:
        """The numbers of the nodes that refuse a pending pod for nothing but a lack of room."""
        return self._by_rules(pod.placement) if self._is_simple(pod) else self._by_fit(pod)

    def _is_simple(self, pod: Pod) -> bool:
        rules = pod.placement
        social = rules.affinity or rules.anti_affinity or rules.spread or rules.host_ports or rules.volume_claims
        return not social and not self._is_repelled(pod)

    def _is_repelled(self, pod: Pod) -> bool:
        """Whether the anti-affinity of some pod anywhere is about this one."""
        return bool(self.layout.repelling and self.layout.census.is_repelled(pod))

    def _by_rules(self, rules: Placement) -> frozenset[int]:
        key = rules.node_selector, rules.node_terms, rules.tolerations
        if key not in self.by_rules:
            nodes = ((number, self.nodes[number].node) for number in self.open)
            self.by_rules[key] = frozenset(i for i, node in nodes if not refuses(rules, node) and tolerates(rules, node))
        return self.by_rules[key]

    def _by_fit(self, pod: Pod) -> frozenset[int]:
        self.certain = False
        key = (pod.placement, pod.namespace, tuple(sorted(pod.labels.items())), pod.owner, pod.node)
        if key not in self.by_pod:
            fit = Fit(pod, self.layout, self.resource)
            found = frozenset[int]() if fit.barred else self._by_rules(pod.placement)
            for volume in fit.volumes:
                found &= self._by_volume(volume)
            for domains in fit.domains:
                found = self._outside(domains, found)
            self.by_pod[key] = found
        return self.by_pod[key]

    def _by_volume(self, volume: Volume) -> frozenset[int]:
        key = volume.node_terms, tuple(sorted(volume.labels.items()))
        if key not in self.by_volume:
            self.by_volume[key] = frozenset(n for n in self.open if reaches(volume, self.nodes[n].node))
        return self.by_volume[key]

    def _outside(self, domains: Domains, found: frozenset[int]) -> frozenset[int]:
        """Those of the nodes that are not in the domains; whole domains are set apart, no node is asked."""
        labelled = self.by_label.get(domains.key)
        if labelled is None:
            labelled = self.by_label[domains.key] = defaultdict(set)
            for number in self.open:
                labelled[domains.value(self.nodes[number].node)].add(number)
        named = set[int]().union(*(labelled[value] for value in domains.values if value in labelled))
        return found & named if domains.admits else found - named
