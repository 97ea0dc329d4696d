# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What is to be solved, in numbers: one model that feeds the heuristic and the exact solver.

Pods that are alike in what they take, where they may go and what moving them costs are one kind, and interchangeable.
Nodes and kinds are numbered; amounts are tuples in one fixed order of resources, the GPUs first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ..cluster.layout import Layout
from ..cluster.pools import GpuNode
from ..cluster.scheduling import Domains, Fit, Share, reaches, refuses, tolerates
from ..kube.model import PODS, Node, Placement, Pod, Volume

Amounts = tuple[int, ...]
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Goal:
    """What to gain.

    Attributes:
        slot_size: GPUs of a slot; None to empty whole nodes.
        count: How many more; None for as many as can be had.
    """

    slot_size: int | None
    count: int | None


class Except(Set[int]):
    """A set but for some: where every workload has nodes of its own to keep off, the rest is one set for all of them."""

    __slots__ = ("but", "of")

    def __init__(self, of: frozenset[int], but: Set[int]) -> None:
        self.of = of
        self.but = but & of

    def __contains__(self, number: object) -> bool:
        return number in self.of and number not in self.but

    def __iter__(self) -> Iterator[int]:
        return (number for number in self.of if number not in self.but)

    def __len__(self) -> int:
        return len(self.of) - len(self.but)

    @classmethod
    def _from_iterable(cls, it: Iterable[int]) -> frozenset[int]:  # type: ignore[override]
        """What set operations give."""
        return frozenset(it)


@dataclass(slots=True)
class Kind:
    """Movable pods that are alike.

    Attributes:
        demand: What one takes.
        cost: What moving one costs.
        nodes: Numbers of the nodes that may hold one, room aside.
        at: Its pods by node number, dearest to keep last.
        guests: Pending pods of the kind, all of which are to get in.
        social: Its nodes hang on which other pods are where.
        gang: The gang that all of them belong to, which moves whole or not at all.
    """

    demand: Amounts
    cost: float
    nodes: Set[int]
    at: dict[int, list[Pod]] = field(default_factory=dict)
    guests: list[Pod] = field(default_factory=list)
    social: bool = False
    gang: str | None = None


@dataclass(frozen=True, slots=True)
class Cap:
    """How many more pods of some kinds a domain takes, where they close it to each other: so many come, less those that leave.

    Attributes:
        kinds: Numbers of the kinds.
        domains: The domain of each node by number; None for a node in none.
        most: By domain, where it is not the usual number.
        usual: None for no limit.
    """

    kinds: frozenset[int]
    domains: Sequence[str | None]
    most: Mapping[str, int]
    usual: int | None

    def limit(self, domain: str | None) -> int | None:
        """How many more a domain takes, none where there are too many already; None for any number."""
        limit = None if domain is None else self.most.get(domain, self.usual)
        return None if limit is None else max(0, limit)


@dataclass(slots=True)
class Problem:
    """Nodes, what is free on them, and what may leave them.

    Attributes:
        goal: What to gain.
        resources: Names in the order of amounts; the GPU resource first, ``pods`` among them.
        names: Node names by number: the GPU nodes, then others where pods without GPUs may go.
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
        caps: How many pods may come where they close the way to each other.
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
    caps: list[Cap] = field(default_factory=list)

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
    guests: Sequence[Pod] = (),
    plain: Sequence[Node] = (),
    gangs: Mapping[int, str] | None = None,
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
        guests: Pending pods all of which are to get in; nothing else is gained.
        plain: Nodes without GPUs, which may take pods that ask for none.
        gangs: The gang of each pod that moves only with one, by ``id()``.
    """
    gangs = gangs or {}
    movable = [[pod for pod in layout.pods[n.node.name] if id(pod) not in stays] for n in nodes]
    if all(resource in pod.requests for pods in movable for pod in pods):
        plain = ()
    movable += [[pod for pod in layout.pods[node.name] if id(pod) in gangs and id(pod) not in stays] for node in plain]
    taken = {name for pods in movable for pod in pods for name in pod.requests}
    others = taken.union(*(pod.requests for pod in ((guest, *guests) if guest else guests))) - {resource}
    resources = (resource, *sorted(others), PODS)
    every = [*(n.node for n in nodes), *plain]
    places = _Places(layout, nodes, plain, resource, across_products)
    kinds: dict[object, Kind] = {}
    held: list[dict[int, int]] = []
    numbers: dict[object, int] = {}
    for number, pods in enumerate(movable):
        counts: dict[int, int] = defaultdict(int)
        # Kinds are numbered by the names of their pods, so that the order of the input does not matter.
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
            demand, gang = _demand(pod, resources), gangs.get(id(pod))
            key = (demand, costs.get(id(pod), 1.0), gang, places.likeness(pod, number))
            if key not in kinds:
                numbers[key] = len(kinds)
                kinds[key] = Kind(demand, costs.get(id(pod), 1.0), places.of(pod, number))
                kinds[key].social, kinds[key].gang = not places.is_simple(pod), gang
            kinds[key].at.setdefault(number, []).append(pod)
            counts[numbers[key]] += 1
        held.append(dict(counts))
    for pod in guests:
        likeness = (_demand(pod, resources), places.likeness(pod, None))
        kinds.setdefault(likeness, Kind(likeness[0], 0.0, places.of_guest(pod))).guests.append(pod)
    lasting = [[pod for pod in layout.pods[n.node.name] if not pod.unmovable_companion] for n in nodes]
    stuck = {i for i, pods in enumerate(lasting) if any(id(pod) in stays for pod in pods)}
    return Problem(
        goal=goal,
        resources=resources,
        names=[node.name for node in every],
        free=[tuple(layout.room(node, name) for name in resources) for node in every],
        kinds=list(kinds.values()),
        held=held,
        bare=frozenset(i for i, pods in enumerate(lasting) if not pods),
        stuck=frozenset(stuck | set(range(len(nodes), len(every)))),
        # A slot on a node that takes no pods is none; a node that is emptied may well be closed.
        gainers=frozenset(places.of_guest(guest)) if guest else places.usable if goal.slot_size else None,
        needs=_demand(guest, resources) if guest else None,
        certain=places.certain,
        caps=places.caps(list(kinds.values())),
    )


def _demand(pod: Pod, resources: Sequence[str]) -> Amounts:
    return tuple(1 if name == PODS else pod.requests.get(name, 0) for name in resources)


class _Places:
    """Which nodes may hold a pod, room aside.

    Sets of nodes are made once for all pods that they are the same for, and whole domains are set apart: there are too
    many pods to ask every node about each.
    """

    def __init__(
        self, layout: Layout, nodes: Sequence[GpuNode], plain: Sequence[Node], resource: str, across_products: bool
    ) -> None:
        self.layout = layout
        self.nodes = [*(n.node for n in nodes), *plain]
        self.resource = resource
        self.across_products = across_products
        self.pool_of = [n.pool for n in nodes]
        pools: dict[str, set[int]] = defaultdict(set)
        for number, node in enumerate(nodes):
            pools[node.pool].add(number)
        self.pools = {pool: frozenset(numbers) for pool, numbers in pools.items()}
        self.usable = frozenset(number for number, node in enumerate(nodes) if node.usable and node.healthy)
        takers = (len(nodes) + number for number, node in enumerate(plain) if node.ready and not node.unschedulable)
        self.open = self.usable.union(takers)
        self.by_rules: dict[object, frozenset[int]] = {}
        self.by_volume: dict[object, frozenset[int]] = {}
        self.by_label: dict[str | None, dict[str | None, set[int]]] = {}
        self.common: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        self.certain = True

    def likeness(self, pod: Pod, node: int | None) -> object:
        """Equal for pods with the same nodes to go to."""
        own = self._pool(pod, node)
        if self.is_simple(pod):
            return pod.placement, own
        # Others' labels and places matter to it: such pods are alike only within one workload, and within a domain of many
        # nodes, where what one leaves behind another does not.
        rules = pod.placement
        terms = (*rules.affinity, *rules.anti_affinity)
        told = (*(term.topology_key for term in terms), *(constraint.topology_key for constraint in rules.spread))
        keys = [key for key in dict.fromkeys(told) if key != HOSTNAME]
        domains = () if node is None else tuple(self.nodes[node].labels.get(key) for key in keys)
        return pod.placement, own, pod.namespace, tuple(sorted(pod.labels.items())), pod.owner, domains

    def of(self, pod: Pod, node: int) -> Set[int]:
        """The numbers of the nodes."""
        found, pool = self._by_rules(pod.placement), self._pool(pod, node)
        if pool is not None:
            found = self._both(found, self.pools[pool])
        return found if self.is_simple(pod) else self._by_others(pod, found)

    def _pool(self, pod: Pod, node: int | None) -> str | None:
        """The pool that a pod does not leave; None where it may."""
        return None if node is None or self.across_products or self.resource not in pod.requests else self.pool_of[node]

    def caps(self, kinds: Sequence[Kind]) -> list[Cap]:
        """How many pods of the kinds may come where they close the way to each other."""
        under: dict[tuple[str | None, Hashable], tuple[Share, set[int]]] = {}
        for number, kind in enumerate(kinds):
            pod = next(iter(kind.at.values()))[0] if kind.at else kind.guests[0]
            if not self.is_simple(pod):
                for share in Fit(pod, self.layout, self.resource).shares():
                    under.setdefault((share.key, share.rule), (share, set()))[1].add(number)
        domains: dict[str | None, list[str | None]] = {}
        for share, _kinds in under.values():
            if share.key not in domains:
                domains[share.key] = [node.name if share.key is None else node.labels.get(share.key) for node in self.nodes]
        return [Cap(frozenset(found), domains[share.key], share.left, share.usual) for share, found in under.values()]

    def of_guest(self, pod: Pod) -> Set[int]:
        """The numbers of the nodes that refuse a pending pod for nothing but a lack of room."""
        found = self._by_rules(pod.placement)
        return found if self.is_simple(pod) else self._by_others(pod, found)

    def is_simple(self, pod: Pod) -> bool:
        """Whether its nodes hang on no other pod."""
        rules = pod.placement
        social = rules.affinity or rules.anti_affinity or rules.spread or rules.host_ports or rules.volume_claims
        # Or the anti-affinity of some pod anywhere is about this one.
        return not social and not (self.layout.repelling and self.layout.census.is_repelled(pod))

    def _by_rules(self, rules: Placement) -> frozenset[int]:
        key = rules.node_selector, rules.node_terms, rules.tolerations
        if key not in self.by_rules:
            nodes = ((number, self.nodes[number]) for number in self.open)
            self.by_rules[key] = frozenset(i for i, node in nodes if not refuses(rules, node) and tolerates(rules, node))
        return self.by_rules[key]

    def _by_others(self, pod: Pod, found: frozenset[int]) -> Set[int]:
        """Those of the nodes that its volumes reach and other pods do not close."""
        self.certain = False
        fit = Fit(pod, self.layout, self.resource)
        if fit.barred:
            return frozenset()
        for volume in fit.volumes:
            found = self._both(found, self._by_volume(volume))
        closed: set[int] = set()
        for domains in fit.domains:
            if domains.admits:
                found = self._both(found, frozenset(self._in(domains)))
            else:
                closed |= self._in(domains)
        return Except(found, closed) if closed else found

    def _by_volume(self, volume: Volume) -> frozenset[int]:
        key = volume.node_terms, tuple(sorted(volume.labels.items()))
        if key not in self.by_volume:
            self.by_volume[key] = frozenset(n for n in self.open if reaches(volume, self.nodes[n]))
        return self.by_volume[key]

    def _in(self, domains: Domains) -> set[int]:
        """The nodes with the values that are told."""
        labelled = self.by_label.get(domains.key)
        if labelled is None:
            labelled = self.by_label[domains.key] = defaultdict(set)
            for number in self.open:
                labelled[domains.value(self.nodes[number])].add(number)
        return set[int]().union(*(labelled[value] for value in domains.values if value in labelled))

    def _both(self, one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
        """What two sets have in common, as one object for all who ask."""
        if (one, other) not in self.common:
            self.common[one, other] = one & other
        return self.common[one, other]
