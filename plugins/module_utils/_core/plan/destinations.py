# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which pods may be evicted and have nowhere to go, and why each node refuses them.

Pods of a kind are looked at together, by the numbers that moves were looked for with. The scheduler's rules are asked
only of kinds that other pods have a say in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from operator import gt
from typing import TypeVar

from ..cluster.layout import Layout
from ..cluster.pools import GpuNode
from ..cluster.scheduling import Fit, Refusal, standing
from ..kube.model import PODS, Placement, Pod
from .evictable import Reason, Stay
from .problem import Kind, Problem

_ORDER = {refusal: place for place, refusal in enumerate(Refusal)}
_NO_REFUSALS: Counter[Refusal] = Counter()
Name = TypeVar("Name", bound=str)

Refusals = Counter[Refusal]
"""Nodes by the first reason that each has to refuse a pod."""


def by_count(counts: Mapping[Name, int]) -> str:
    """``3 Taint, 2 InsufficientGPU``: most first."""
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def nowhere(refusals: Refusals) -> Stay:
    """Why a pod stays that no other node takes."""
    return Stay(Reason.NO_DESTINATION, f"no node takes it: {by_count(refusals) or 'there is no other'}")


class Destinations:
    """What is free on the nodes of a problem, whose pods may have moved since.

    Args:
        problem: What moves were looked for in.
        layout: Who is where by now.
        nodes: The GPU nodes.
        resource: The GPU resource.
        across_products: A pod may leave its pool for another.
    """

    def __init__(
        self, problem: Problem, layout: Layout, nodes: Sequence[GpuNode], resource: str, *, across_products: bool
    ) -> None:
        self._problem = problem
        self._layout = layout
        self._resource = resource
        self._across = across_products
        self._nodes = [layout.cluster.nodes[name] for name in problem.names]
        known = {n.node.name: n for n in nodes}
        self._gpu_nodes = [known.get(name) for name in problem.names]
        self._free = [tuple(layout.room(node, name) for name in problem.resources) for node in self._nodes]
        self._roomiest = sorted(range(len(self._nodes)), key=lambda number: -self._free[number][0])
        self._names = [_lack(name, resource) for name in problem.resources]
        self._reserved = any(pod.nominated for pod in layout.cluster.pending)
        # By id() of a kind's set of nodes, which kinds share.
        self._closed: dict[tuple[Placement, str | None, int], Refusals | None] = {}
        self._gpus: dict[int, list[int]] = {}

    def missing(self, moved: Collection[int]) -> Iterator[tuple[Pod, Refusals]]:
        """Pods that no other node takes, and what the nodes have against them.

        Args:
            moved: ``id()`` of the pods that are where they go.
        """
        for kind in self._problem.kinds:
            at = {node: left for node, pods in kind.at.items() if (left := [pod for pod in pods if id(pod) not in moved])}
            if not at:
                continue
            # Two are enough: one of them is another node than the pod's own.
            takers = roomy = list(islice(self._with_room(kind), 2))
            if roomy and (kind.social or self._reserved):
                fit = Fit(at[min(at)][0], self._layout, self._resource)
                takers = list(islice(self._taking(kind, fit), 2))
            by_fit = self._by_fit if kind.social or takers != roomy else None
            everywhere: list[Refusals] = []
            for node, pods in at.items():
                if any(taker != node for taker in takers):
                    continue
                found = by_fit(pods[0], node) if by_fit else self._by_numbers(kind, everywhere, pods[0], node)
                if found is not None:
                    yield from ((pod, found) for pod in pods)

    def _with_room(self, kind: Kind) -> Iterator[int]:
        """The kind's nodes with room for one."""
        demand = kind.demand
        for number in self._roomiest:
            free = self._free[number]
            if demand[0] and free[0] < demand[0]:
                return
            # What is overdrawn lacks only to those that ask for it; that is rare, and looked at closely.
            if number in kind.nodes and (
                not any(map(gt, demand, free)) or (min(free) < 0 and self._lacking(demand, free) is None)
            ):
                yield number

    def _taking(self, kind: Kind, fit: Fit) -> Iterator[int]:
        """Those of them that the scheduler's rules allow too."""
        return (number for number in self._with_room(kind) if not fit.refusals(self._nodes[number]))

    def _lacking(self, demand: tuple[int, ...], free: tuple[int, ...]) -> Refusal | None:
        short = [name for name, amount, have in zip(self._names, demand, free, strict=True) if amount and amount > have]
        return min(short, key=_ORDER.__getitem__) if short else None

    def _own(self, node: int, pod: Pod) -> str | None:
        """The pool that a pod may not leave."""
        found = self._gpu_nodes[node]
        return found.pool if found and not self._across and self._resource in pod.requests else None

    def _plans(self, number: int, own: str | None) -> Iterator[Refusal]:
        """What a plan has against a node, besides the scheduler."""
        node, found = self._nodes[number], self._gpu_nodes[number]
        if node.unschedulable:
            yield Refusal.CORDONED
        if found and not found.healthy:
            yield Refusal.UNHEALTHY
        if found and own is not None and found.pool != own:
            yield Refusal.OTHER_PRODUCT

    def _first(self, number: int, own: str | None, told: Iterator[Refusal] | list[Refusal]) -> Refusal | None:
        return min((*told, *self._plans(number, own)), key=_ORDER.__getitem__, default=None)

    def _by_fit(self, pod: Pod, node: int) -> Refusals | None:
        """What the other nodes have against a pod; None where one takes it."""
        fit, own = Fit(pod, self._layout, self._resource), self._own(node, pod)
        counts = _NO_REFUSALS.copy()
        for number, other in enumerate(self._nodes):
            if number != node:
                refusal = self._first(number, own, fit.refusals(other))
                if refusal is None:
                    return None
                counts[refusal] += 1
        return counts

    def _by_numbers(self, kind: Kind, everywhere: list[Refusals], pod: Pod, node: int) -> Refusals | None:
        """The same for a pod that no other pod has a say in: counted once for all of its kind, but for their own nodes.

        Args:
            kind: The kind.
            everywhere: Takes what all nodes have against one of the kind.
            pod: One of the kind.
            node: Where it is.
        """
        own = self._own(node, pod)
        if not everywhere:
            closed = self._shut(kind, pod, own)
            if closed is None:
                return self._by_fit(pod, node)
            everywhere.append(closed + self._open(kind))
        if node in kind.nodes:
            mine = self._lacking(kind.demand, self._free[node])
        else:
            mine = self._first(node, own, standing(pod.placement, self._nodes[node]))
        return everywhere[0] - Counter([mine] if mine else [])

    def _shut(self, kind: Kind, pod: Pod, own: str | None) -> Refusals | None:
        """What is against the nodes that are closed to a kind, looked at once for all that are closed to the same.

        None where nothing is: a plan was refused that node for what was there then.
        """
        key = pod.placement, own, id(kind.nodes)
        if key not in self._closed:
            others = (number for number in range(len(self._nodes)) if number not in kind.nodes)
            firsts = [self._first(number, own, standing(pod.placement, self._nodes[number])) for number in others]
            self._closed[key] = None if None in firsts else Counter(refusal for refusal in firsts if refusal)
        return self._closed[key]

    def _open(self, kind: Kind) -> Refusals:
        """What the kind's own nodes lack."""
        gpus = kind.demand[0]
        if id(kind.nodes) not in self._gpus:
            self._gpus[id(kind.nodes)] = sorted(self._free[number][0] for number in kind.nodes)
        counts = Counter({Refusal.GPU: bisect_left(self._gpus[id(kind.nodes)], gpus)}) if gpus else _NO_REFUSALS.copy()
        for number in self._roomiest:
            free = self._free[number]
            if gpus and free[0] < gpus:
                break
            if number in kind.nodes and (refusal := self._lacking(kind.demand, free)):
                counts[refusal] += 1
        return counts


def _lack(resource: str, gpu: str) -> Refusal:
    names = {gpu: Refusal.GPU, "cpu": Refusal.CPU, "memory": Refusal.MEMORY, PODS: Refusal.PODS}
    return names.get(resource, Refusal.RESOURCE)
