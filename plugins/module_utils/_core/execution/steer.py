# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How a wave is led: its moves in steps, and for each step the nodes that should not attract its pods.

The default kube-scheduler spreads, so that a pod that was evicted would return to a hole like the one it left. A soft
taint keeps it off, and blocks nothing: where there is no other room the pod still goes there. With more than a hundred
nodes the scheduler compares only some of those that could take a pod, so that where many could, none can be dictated.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..cluster.layout import Layout
from ..cluster.scheduling import Fit
from ..kube.model import Cluster, Node, Pod, Taint
from .order import Move, Order

TAINT = Taint("gpuops.io/defrag", "", "PreferNoSchedule")
CORDONED = "gpuops.io/cordoned"
"""Label of a node that we closed, so that we open no other; its value says what for."""
FOR_A_WAVE = "steering"
EVICT = "gpuops.io/evict"
"""Label of a pod that the descheduler is to evict."""

Pods = Mapping[Move, Pod]


def ours(taint: Taint) -> bool:
    """Whether a taint is one of ours, whatever its value."""
    return (taint.key, taint.effect) == (TAINT.key, TAINT.effect)


def tainted(cluster: Cluster) -> set[str]:
    """Nodes that carry our taint."""
    return {name for name, node in cluster.nodes.items() if any(map(ours, node.taints))}


def steps(
    cluster: Cluster, pods: Pods, moves: Sequence[Move], resource: str, *, gangs: Mapping[int, str], alone: Collection[Move] = ()
) -> list[list[Move]]:
    """The moves of a wave in steps: the pods of one step are bound before those of the next leave.

    The largest go first, else the small ones would take their places. Together go pods that are alike, to nodes that
    they fill: then each node gets as many as it should. A node that could take more is led to alone.

    Args:
        cluster: As it is before the wave.
        pods: The pod of each move.
        moves: The wave.
        resource: The GPU resource.
        gangs: The gang of a pod, by ``id()``. Its members go at once, as they may only start together.
        alone: Moves that go one by one.
    """
    layout = Layout(cluster)
    found: list[list[Move]] = []
    whole = [move for move in moves if id(pods[move]) in gangs]
    for _gang, together in groupby(sorted(whole, key=lambda m: gangs[id(pods[m])]), lambda m: gangs[id(pods[m])]):
        found.append(list(together))
    rest = [move for move in moves if id(pods[move]) not in gangs]
    for _kind, alike in groupby(sorted(rest, key=lambda move: _by_size(pods[move], resource)), lambda m: _kind_of(pods[m])):
        found += _by_room(layout, list(alike), resource, alone)
    # A gang counts by its largest pod.
    return sorted(found, key=lambda step: -max(move.gpus for move in step))


def _by_room(layout: Layout, moves: list[Move], resource: str, alone: Collection[Move]) -> list[list[Move]]:
    """Moves of pods that are alike: those to nodes that they fill at once, those to roomier nodes node by node."""
    nodes = layout.cluster.nodes
    coming = Counter(move.target for move in moves)
    filled = [
        move
        for move in moves
        if move not in alone and layout.room(nodes[move.target], resource) < (coming[move.target] + 1) * move.gpus
    ]
    roomy = sorted((move for move in moves if move not in alone and move not in filled), key=lambda move: move.target)
    found = [filled] if filled else []
    found += [list(step) for _target, step in groupby(roomy, lambda move: move.target)]
    return found + [[move] for move in moves if move in alone]


def _by_size(pod: Pod, resource: str) -> tuple[int, tuple[tuple[str, int], ...], str, str, str]:
    amounts = tuple(sorted((name, -amount) for name, amount in pod.requests.items()))
    return -pod.requests.get(resource, 0), amounts, repr(pod.placement), pod.namespace, pod.name


def _kind_of(pod: Pod) -> object:
    return tuple(sorted(pod.requests.items())), repr(pod.placement)


def compared(nodes: int) -> int:
    """How many nodes that could take a pod kube-scheduler compares at most, unless it is configured otherwise.

    ``numFeasibleNodesToFind`` with ``percentageOfNodesToScore: 0``: all of up to a hundred; of more, half less one in a
    hundred for every 125 nodes, but no fewer than a hundred and than a twentieth.

    Args:
        nodes: All nodes of the cluster.
    """
    return min(nodes, max(100, nodes * max(5, 50 - nodes // 125) // 100))


@dataclass(frozen=True, slots=True)
class Stakes:
    """What is lost where a pod comes to the wrong node.

    Attributes:
        nodes: What waves that are left empty, or send pods to.
        slot: GPUs of a slot, of which none is to be lost; None where whole nodes are not to be lost.
    """

    nodes: frozenset[str]
    slot: int | None

    @classmethod
    def of(cls, order: Order, wave: int) -> Stakes:
        """Those of a plan, its waves from this one on."""
        left = [move for moves in order.waves[wave:] for move in moves]
        return cls(frozenset({move.source for move in left} | {move.target for move in left}), order.slot)

    def on(self, node: Node, layout: Layout, gpus: int, resource: str) -> bool:
        """Whether anything is lost if a pod of so many GPUs comes to a node."""
        free = layout.room(node, resource)
        whole = free >= node.allocatable.get(resource, 0) if self.slot is None else free % self.slot < gpus
        return whole or node.name in self.nodes


@dataclass(frozen=True, slots=True)
class Lead:
    """How the pods of a step are led.

    Attributes:
        repel: Nodes that are to carry the soft taint.
        loose: Moves whose pods more nodes could take than the scheduler compares. It may never see the one that is meant,
            so they are only kept from nodes where something is at stake.
    """

    repel: frozenset[str]
    loose: frozenset[Move]


def lead(cluster: Cluster, pods: Pods, step: Sequence[Move], resource: str, stakes: Stakes) -> Lead:
    """Which nodes are to repel the pods of a step: all that could attract one and are not where it should go.

    Where pods of the wave leave counts as free: they have left when others look for a place.

    Args:
        cluster: As it was before the wave.
        pods: The pod of each move of the wave.
        step: Moves whose pods leave now.
        resource: The GPU resource.
        stakes: What is lost elsewhere.
    """
    layout = Layout(cluster)
    for pod in pods.values():
        layout.remove(pod, pod.node)
    nodes = cluster.nodes.values()
    most = compared(len(nodes))
    repel: set[str] = set()
    loose: set[Move] = set()
    alike: dict[object, list[Move]] = defaultdict(list)
    for move in step:
        alike[_kind_of(pods[move]), pods[move].namespace, tuple(sorted(pods[move].labels.items()))].append(move)
    for moves in alike.values():
        pod = pods[moves[0]]
        fit = Fit(pod, layout, resource)
        could = [node for node in nodes if not fit.refusals(node)]
        if len(could) > most:
            loose.update(moves)
            could = [node for node in could if stakes.on(node, layout, pod.requests.get(resource, 0), resource)]
        repel.update(node.name for node in could)
    return Lead(frozenset(repel - {move.target for move in step}), frozenset(loose))


def unsteerable(pod: Pod) -> bool:
    """Whether a pod tolerates our taint, so that it goes wherever the scheduler likes."""
    return any(toleration.tolerates(TAINT) for toleration in pod.placement.tolerations)
