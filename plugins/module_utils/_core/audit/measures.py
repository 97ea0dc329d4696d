# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How fragmented the GPUs of a cluster are, and what that costs.

The words are those of docs/measures.md. All figures are counted per pool, where nodes are alternatives to each
other, and added up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median

from ..cluster.layout import Layout
from ..cluster.pools import GpuNode, Survey, pod_room, survey
from ..cluster.scheduling import refuses, tolerates
from ..errors import InputError
from ..kube.model import UNCONSTRAINED, Cluster, Pod
from ..kube.selectors import EVERYTHING, LabelSelector
from .applicability import Unsuited, unsuited
from .notes import few, notes
from .packing import Amounts, fewest_nodes
from .pending import Outlook, outlooks

HOURS_PER_MONTH = 730
HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to measure, and against what.

    Attributes:
        resource: The GPU resource.
        selector: Only nodes with such labels.
        sizes: Request sizes whose slots are counted.
        fragmentation_size: The k of the fragmentation rate.
        slot_size: The size that stranded GPUs are priced at; None: the largest request of the cluster's GPU pods that some
            node could hold.
        gpu_hour_price: Price of one GPU for one hour; None where no product has one of its own: no money is told.
        gpu_hour_prices: The same by product, before the general one.
        min_gpu_nodes: With fewer GPU nodes the collection is not worth it.
        min_pod_lifetime: Seconds; with a shorter median life of GPU pods neither.
    """

    resource: str = "nvidia.com/gpu"
    selector: LabelSelector = EVERYTHING
    sizes: tuple[int, ...] = (1, 2, 4, 8)
    fragmentation_size: int = 2
    slot_size: int | None = None
    gpu_hour_price: float | None = None
    gpu_hour_prices: Mapping[str, float] = field(default_factory=dict)
    currency: str = "USD"
    min_gpu_nodes: int = 10
    min_pod_lifetime: float = 300

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            InputError: The resource has no domain, a size is below 1, or a number below 0; it names the option.
        """
        if "/" not in self.resource:
            message = f"is {self.resource!r}; the resource of a GPU has a domain, such as nvidia.com/gpu"
            raise InputError(message, field="resource_name")
        sizes = {"fragmentation_size": self.fragmentation_size, "slot_size": 1 if self.slot_size is None else self.slot_size}
        sizes |= {f"sizes[{index}]": size for index, size in enumerate(self.sizes)}
        prices = {f"gpu_hour_prices[{product}]": price for product, price in self.gpu_hour_prices.items()}
        prices |= {"gpu_hour_price": self.gpu_hour_price or 0}
        for name, size in sizes.items():
            if size < 1:
                raise InputError(f"is {size}; a pod takes at least 1 GPU", field=name)
        for name, value in (prices | {"min_gpu_nodes": self.min_gpu_nodes, "min_pod_lifetime": self.min_pod_lifetime}).items():
            if not 0 <= value < math.inf:
                raise InputError(f"is {value}; it cannot be below 0 or infinite", field=name)
        if not self.sizes:
            raise InputError("is empty; name at least one size, such as 8", field="sizes")


@dataclass(slots=True)
class Measures:
    """The measures of one pool, or of all together.

    Attributes:
        gpus_held: Those of the allocated GPUs that nodes still offer; fewer where devices failed under running pods.
        occupied: Nodes that hold GPU pods.
        fewest: The fewest nodes that could hold the same pods by what they take; proved if ``exact``, which it is not
            where pods also have rules of placement.
        fragmented: Nodes with 0 < free < fragmentation size.
        stranded_now: Free GPUs that no slot of the slot size uses; on a smaller node, of the node's own size.
        unusable: Free GPUs, on average over the request mix, that the pod asking for them could not use (FGD).
    """

    nodes: int = 0
    gpus_total: int = 0
    gpus_allocated: int = 0
    gpus_held: int = 0
    gpus_free: int = 0
    gpus_unhealthy: int = 0
    slots: Counter[int] = field(default_factory=Counter)
    slots_usable: Counter[int] = field(default_factory=Counter)
    stranded: Counter[int] = field(default_factory=Counter)
    fragmented: int = 0
    occupied: int = 0
    fewest: int = 0
    exact: bool = True
    unusable: float = 0.0
    stranded_now: int = 0
    largest_slot: int = 0
    reclaimable: list[str] = field(default_factory=list)

    def add(self, other: Measures) -> None:
        """Take the measures of one more pool in."""
        self.nodes += other.nodes
        self.gpus_total += other.gpus_total
        self.gpus_allocated += other.gpus_allocated
        self.gpus_held += other.gpus_held
        self.gpus_free += other.gpus_free
        self.gpus_unhealthy += other.gpus_unhealthy
        self.slots += other.slots
        self.slots_usable += other.slots_usable
        self.stranded += other.stranded
        self.fragmented += other.fragmented
        self.occupied += other.occupied
        self.fewest += other.fewest
        self.unusable += other.unusable
        self.stranded_now += other.stranded_now
        self.exact = self.exact and other.exact
        self.largest_slot = max(self.largest_slot, other.largest_slot)
        self.reclaimable = sorted(self.reclaimable + other.reclaimable)


@dataclass(slots=True)
class Fragmentation:
    """A whole audit.

    Attributes:
        total: Over all pools.
        pools: By pool name.
        slot_size: The size that was priced.
        mix: How many GPU pods ask for how many GPUs: {GPUs: pods}.
        claiming: Pods on GPU nodes with dynamic resource claims, which no figure shows.
    """

    options: AuditOptions
    survey: Survey
    total: Measures
    pools: dict[str, Measures]
    slot_size: int
    mix: Counter[int]
    pending: list[Outlook]
    unsuited: list[Unsuited]
    claiming: list[Pod]
    cost_per_hour: float | None
    notes: list[str]

    @property
    def blocked(self) -> list[Outlook]:
        """The pending pods that fragmentation (or what their message says) keeps waiting."""
        return [outlook for outlook in self.pending if outlook.state == "Blocked"]


def measure(cluster: Cluster, options: AuditOptions) -> Fragmentation:
    """Measure a cluster."""
    resource = options.resource
    layout = Layout(cluster)
    found = survey(layout, resource, options.selector)
    waiting = [pod for pod in cluster.pending if resource in pod.requests]
    finished = [pod for pod in cluster.finished if resource in pod.requests]
    mix = Counter(demand[0] for node in found.nodes for demand in node.demands)
    mix.update(pod.requests[resource] for pod in waiting)
    slot_size = _usual_slot_size(mix, found.nodes, options.sizes) if options.slot_size is None else options.slot_size

    by_pool: dict[str, list[GpuNode]] = defaultdict(list)
    for node in found.nodes:
        by_pool[node.pool].append(node)
    pools = {name: _measure_pool(nodes, layout, options, slot_size, mix) for name, nodes in by_pool.items()}
    total = Measures()
    for measures in pools.values():
        total.add(measures)

    bound = (layout.pods[name] for name, node in cluster.nodes.items() if options.selector.matches(node.labels))
    claiming = [pod for pods in (*bound, cluster.pending) for pod in pods if pod.resource_claims]
    cost = _cost_per_hour(pools, options)

    return Fragmentation(
        options=options,
        survey=found,
        total=total,
        pools=pools,
        slot_size=slot_size,
        mix=mix,
        pending=outlooks(layout, found),
        unsuited=unsuited(
            cluster,
            total.nodes,
            [*chain.from_iterable(node.pods for node in found.nodes), *waiting, *finished],
            resource,
            min_gpu_nodes=options.min_gpu_nodes,
            min_pod_lifetime=options.min_pod_lifetime,
        ),
        claiming=claiming,
        cost_per_hour=cost,
        notes=[*notes(cluster, found, claiming, options.selector), *_price_notes(pools, options)],
    )


def _usual_slot_size(mix: Counter[int], nodes: Sequence[GpuNode], sizes: Sequence[int]) -> int:
    """The largest request that some node could ever hold; without pods the largest size that is counted."""
    largest = max((node.gpus for node in nodes), default=0)
    return max((size for size in mix if size <= largest), default=max(sizes))


def _measure_pool(nodes: Sequence[GpuNode], layout: Layout, options: AuditOptions, slot_size: int, mix: Counter[int]) -> Measures:
    free = Counter(node.free for node in nodes)
    measures = Measures(
        nodes=len(nodes),
        gpus_total=sum(node.gpus for node in nodes),
        gpus_allocated=sum(node.allocated for node in nodes),
        gpus_held=sum(min(node.allocated, node.gpus) for node in nodes),
        gpus_free=sum(node.free for node in nodes),
        gpus_unhealthy=sum(max(0, node.capacity - node.gpus) for node in nodes),
        fragmented=sum(times for amount, times in free.items() if 0 < amount < options.fragmentation_size),
        occupied=sum(1 for node in nodes if node.pods),
        stranded_now=sum(node.stranded(slot_size) for node in nodes),
        largest_slot=max(free),
        reclaimable=sorted(node.node.name for node in nodes if _reclaimable(node, layout)),
    )
    typical = _typical_pods(nodes, {*options.sizes, *mix})
    room = [_Room.of(node, layout) for node in nodes]
    for size in options.sizes:
        measures.slots[size] = sum(amount // size * times for amount, times in free.items())
        measures.slots_usable[size] = sum(place.slots(size, typical[size]) for place in room)
        measures.stranded[size] = measures.gpus_free - size * measures.slots[size]
    # A closed node's free GPUs are of no use to anyone.
    closed = sum(node.free for node in nodes if not node.usable)
    for size, times in sorted(mix.items()):
        wasted = sum(place.gpus for place in room if place.gpus and not place.slots(size, typical[size]))
        measures.unusable += times / mix.total() * (wasted + closed)
    measures.fewest, measures.exact = _fewest(nodes, layout)
    return measures


def _reclaimable(node: GpuNode, layout: Layout) -> bool:
    """It holds nothing but DaemonSet and mirror pods (finished ones hold nothing), and its devices work.

    No pod is to take its room after a preemption either, and pods were read at all.
    """
    name, cluster = node.node.name, layout.cluster
    empty = node.healthy and "Pod" in cluster.kinds and all(pod.unmovable_companion for pod in layout.pods[name])
    return empty and not any(pod.nominated == name for pod in cluster.pending)


@dataclass(slots=True)
class _Room:
    """What is free on a node that takes pods; nothing on one that does not."""

    gpus: int
    cpu: int
    memory: int
    pods: int

    @classmethod
    def of(cls, node: GpuNode, layout: Layout) -> _Room:
        if not node.usable:
            return cls(0, 0, 0, 0)
        return cls(node.free, layout.room(node.node, "cpu"), layout.room(node.node, "memory"), pod_room(node, layout))

    def slots(self, size: int, typical: tuple[float, float]) -> int:
        """Typical pods of a size that find room."""
        if self.gpus < size:
            return 0
        cpu, memory = typical
        slots = min(self.gpus // size, self.pods)
        if cpu:
            slots = min(slots, int(self.cpu // cpu))
        if memory:
            slots = min(slots, int(self.memory // memory))
        return max(0, slots)


def _typical_pods(nodes: Sequence[GpuNode], sizes: set[int]) -> dict[int, tuple[float, float]]:
    """CPU (thousandths) and memory (bytes) of a typical pod of each size.

    The medians of the pool's pods of that size, else those of the nearest smaller size scaled up; nothing where
    there is no such pod.
    """
    seen: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for node in nodes:
        for demand in node.demands:
            seen[demand[0]].append(demand)
    medians = {
        size: (median([demand[1] for demand in demands]), median([demand[2] for demand in demands]))
        for size, demands in seen.items()
    }
    typical = {}
    for size in sizes:
        nearest = max((known for known in medians if known <= size), default=None)
        if nearest is None:
            typical[size] = (0.0, 0.0)
        else:
            cpu, memory = medians[nearest]
            typical[size] = (cpu * size / nearest, memory * size / nearest)
    return typical


def _fewest(nodes: Sequence[GpuNode], layout: Layout) -> tuple[int, bool]:
    """The fewest nodes that could hold the pool's GPU pods. Unhealthy nodes keep theirs; other pods stay put.

    Returns:
        The number, and whether it is proved.
    """
    pods: list[Amounts] = []
    offered: list[Amounts] = []
    occupied = kept = 0
    for node in nodes:
        if not node.healthy:
            kept += bool(node.pods)
            continue
        occupied += bool(node.pods)
        # A closed node keeps what it holds and takes nothing more.
        room = _Room.of(node, layout)
        gpus, cpu, memory = node.allocated + room.gpus, max(0, room.cpu), max(0, room.memory)
        for demand in node.demands:
            pods.append((*demand, 1))
            cpu += demand[1]
            memory += demand[2]
        offered.append((gpus, cpu, memory, room.pods + len(node.pods)))
    fewest = fewest_nodes(pods, offered, occupied)
    # As few as there are now can be had whatever the rules.
    return kept + fewest.nodes, fewest.exact and (fewest.nodes == occupied or not _have_rules(nodes))


def _have_rules(nodes: Sequence[GpuNode]) -> bool:
    """Whether some pod may not go to every other node of its pool for another reason than room."""
    placements = {pod.placement for node in nodes for pod in node.pods if pod.placement is not UNCONSTRAINED}
    return any(
        rules.affinity or rules.anti_affinity or rules.spread or rules.host_ports or rules.volume_claims for rules in placements
    ) or any(refuses(rules, node.node) or not tolerates(rules, node.node) for rules in placements for node in nodes)


def _price_notes(pools: Mapping[str, Measures], options: AuditOptions) -> list[str]:
    """What keeps a price from being told, or from being used."""
    found = []
    unpriced = [name for name in sorted(pools) if name not in options.gpu_hour_prices and pools[name].stranded_now]
    if options.gpu_hour_prices and options.gpu_hour_price is None and unpriced:
        found.append(f"no price for {few(unpriced)}: what is stranded cannot be priced as a whole; give gpu_hour_price too")
    if unused := sorted(options.gpu_hour_prices.keys() - pools.keys()):
        found.append(f"gpu_hour_prices names {few(unused)}, which no pool is; pools: {few(sorted(pools), 9) or 'none'}")
    return found


def _cost_per_hour(pools: Mapping[str, Measures], options: AuditOptions) -> float | None:
    """Price of the stranded GPUs for one hour; None without any price, or where some of them have none."""
    if options.gpu_hour_price is None and not options.gpu_hour_prices:
        return None
    total = 0.0
    for name, measures in pools.items():
        price = options.gpu_hour_prices.get(name, options.gpu_hour_price)
        if price is not None:
            total += measures.stranded_now * price
        elif measures.stranded_now:
            return None
    return total
