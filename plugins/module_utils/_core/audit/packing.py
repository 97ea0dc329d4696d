# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The fewest nodes that could hold the same GPU pods: vector bin packing, bounded from both sides.

The lower bound takes the largest nodes first until a resource's sum is covered, for each resource alone. The upper
bound fills one node after the other, largest pods first. Where both meet, the number is proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

Amounts = tuple[int, ...]
"""Amounts in one fixed order of resources, the GPUs first."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest nodes, and whether that is proved or only the best found."""

    nodes: int
    exact: bool


def fewest_nodes(pods: Iterable[Amounts], nodes: Sequence[Amounts], occupied: int) -> Fewest:
    """The fewest nodes that could hold all the pods.

    Args:
        pods: What each pod takes.
        nodes: What each node offers to such pods.
        occupied: Nodes that hold them now: never worse than that.
    """
    shapes = Counter(pods)
    if not shapes:
        return Fewest(0, True)
    bound = _bound(shapes, nodes)
    # Largest nodes first. Which pods go first matters, and differs: each of these orders is the best on some cluster.
    offered = sorted(nodes, reverse=True)
    total = [sum(node[r] for node in nodes) or 1 for r in range(len(offered[0]))]
    shares = {pod: tuple(amount / all_of_it for amount, all_of_it in zip(pod, total, strict=True)) for pod in shapes}
    weights: tuple[Callable[[Amounts], float], ...] = (
        lambda pod: shares[pod][0],
        lambda pod: max(shares[pod]),
        lambda pod: sum(shares[pod]),
        lambda pod: sum(shares[pod][1:]),
        *(lambda pod, resource=resource: shares[pod][resource] for resource in range(1, len(total))),
    )
    best = occupied
    for weight in weights:
        order = sorted(shapes, key=lambda pod: (weight(pod), pod), reverse=True)
        best = min(best, _fill(order, shapes, offered, best))
        if best <= bound:
            break
    return Fewest(best, best == bound)


def _bound(shapes: Counter[Amounts], nodes: Sequence[Amounts]) -> int:
    """No fewer nodes can do, whichever single resource one looks at."""
    bound = 1
    for resource in range(len(next(iter(shapes)))):
        amounts = Counter[int]()
        for pod, times in shapes.items():
            amounts[pod[resource]] += times
        capacities = sorted((node[resource] for node in nodes), reverse=True)
        bound = max(bound, _by_sum(amounts, capacities), _by_halves(amounts, capacities[0]))
    return bound


def _by_sum(amounts: Counter[int], capacities: Sequence[int]) -> int:
    """The largest nodes that together have as much as all pods take."""
    wanted = sum(amount * times for amount, times in amounts.items())
    for used, capacity in enumerate(capacities):
        if wanted <= 0:
            return used
        wanted -= capacity
    return len(capacities)


def _by_halves(amounts: Counter[int], capacity: int) -> int:
    """Pods of more than half a node each need one of their own, and smaller ones get what these leave.

    The bound L2 of Martello and Toth (1990), as if every node were as large as the largest.
    """
    larger = sorted(amount for amount in amounts if amount * 2 > capacity)
    smaller = sorted((amount for amount in amounts if 0 < amount * 2 <= capacity), reverse=True)
    alone = sum(amounts[amount] for amount in larger)
    bound = alone
    # Pods below the limit are left out; those too large to share with one at the limit leave nothing to the rest.
    shared, left_over, rest = len(larger), 0, 0
    for limit in smaller:
        rest += limit * amounts[limit]
        while shared and larger[len(larger) - shared] <= capacity - limit:
            left_over += (capacity - larger[len(larger) - shared]) * amounts[larger[len(larger) - shared]]
            shared -= 1
        if rest > left_over:
            bound = max(bound, alone - (left_over - rest) // capacity)
    return bound


def _fill(order: Sequence[Amounts], shapes: Counter[Amounts], nodes: Sequence[Amounts], limit: int) -> int:
    """Nodes used when each takes all it can, in the order given; the limit where it does not get below that."""
    left = {pod: shapes[pod] for pod in order}
    used = 0
    for node, alike in groupby(nodes):
        count = len(list(alike))
        while count and left and used < limit:
            load = _load(node, left)
            if not load:
                break
            # Nodes alike take the same load for as long as there are pods for it.
            times = min(count, *(left[pod] // number for pod, number in load))
            for pod, number in load:
                left[pod] -= number * times
                if not left[pod]:
                    del left[pod]
            used += times
            count -= times
    return limit if left else min(used, limit)


def _load(node: Amounts, left: Mapping[Amounts, int]) -> list[tuple[Amounts, int]]:
    """What one node takes of the pods that are left: {pod: number}, as pairs."""
    room = node
    load = []
    for pod, waiting in left.items():
        if pod[0] > room[0]:
            continue
        number = min(waiting, *(r // p for r, p in zip(room, pod, strict=True) if p))
        if number > 0:
            load.append((pod, number))
            room = tuple(r - number * p for r, p in zip(room, pod, strict=True))
            if not room[0]:
                break
    return load
