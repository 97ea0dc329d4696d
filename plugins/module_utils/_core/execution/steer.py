# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How a wave is led: its moves in steps, and for each step the nodes that should not attract its pods.

The default kube-scheduler spreads, so that a pod that was evicted would return to a hole like the one it left. A soft
taint keeps it off, and blocks nothing: where there is no other room the pod still goes there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

from ..cluster.layout import Layout
from ..cluster.scheduling import Fit
from ..kube.model import Cluster, Node, Pod, Taint
from .order import Move

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


def repelling(cluster: Cluster, pods: Pods, step: Sequence[Move], resource: str) -> set[str]:
    """Nodes that could attract a pod of a step and are not where it should go: they are to carry the soft taint.

    Where pods of the wave leave counts as free: they have left when others look for a place.

    Args:
        cluster: As it was before the wave.
        pods: The pod of each move of the wave.
        step: Moves whose pods leave now.
        resource: The GPU resource.
    """
    layout = Layout(cluster)
    for pod in pods.values():
        layout.remove(pod, pod.node)
    goals = {move.target for move in step}
    found: set[str] = set()
    seen: set[object] = set()
    for move in step:
        kind = (_kind_of(pods[move]), pods[move].namespace, tuple(sorted(pods[move].labels.items())))
        if kind not in seen:
            seen.add(kind)
            found |= _open(layout, pods[move], resource, cluster.nodes.values(), found | goals)
    return found


def _open(layout: Layout, pod: Pod, resource: str, nodes: Iterable[Node], known: Collection[str]) -> set[str]:
    fit = Fit(pod, layout, resource)
    return {node.name for node in nodes if node.name not in known and not fit.refusals(node)}


def unsteerable(pod: Pod) -> bool:
    """Whether a pod tolerates our taint, so that it goes wherever the scheduler likes."""
    return any(toleration.tolerates(TAINT) for toleration in pod.placement.tolerations)
