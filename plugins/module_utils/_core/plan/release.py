# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What leaves a node so that something is gained on it, and how few pods that can be wherever they go."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf

from .problem import Amounts, Problem

LEVELS = 2
"""So many slots more are looked for on a node at a time: two may take hardly more than one where the pods are large."""
LOOKS = 2000
"""So many sets of pods of a node are looked at for the cheapest that makes room for one pod."""

Pods = tuple[tuple[int, int], ...]
"""Pods as (kind, number) in the order of kinds."""


@dataclass(frozen=True, slots=True)
class Option:
    """Pods whose leaving gains something on a node.

    Attributes:
        level: How many slots more; 1 for the node emptied, or room for the pod that the gain is for.
        kinds: What leaves.
        cost: What that costs.
        effort: Share of the cluster's room that the leaving pods take, to tell equal costs apart.
    """

    node: int
    level: int
    kinds: Pods
    cost: float
    effort: float

    @property
    def price(self) -> float:
        """The cost of each slot."""
        return self.cost / self.level


class Releases:
    """The options of nodes, whatever they hold; each is looked for once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        total = [sum(max(0, free[r]) for free in problem.free) or 1 for r in range(len(problem.resources))]
        self.effort = [sum(d / t for d, t in zip(kind.demand, total, strict=True)) for kind in problem.kinds]
        self.known: dict[tuple[int, Pods, frozenset[int]], list[Option]] = {}

    def of(self, node: int, held: Mapping[int, int], free: Amounts, but: frozenset[int] = frozenset()) -> list[Option]:
        """What a node could gain by evictions, but of some kinds, when it holds these pods and this is free."""
        if self.problem.gainers is not None and node not in self.problem.gainers:
            return []
        key = node, tuple(sorted(held.items())), but
        if key not in self.known:
            useful = {kind: number for kind, number in held.items() if kind not in but}
            whole = self.problem.goal.slot_size is None and not self.problem.needs
            prices = _Prices(self.problem, self.effort, {} if whole and but else useful, self.problem.held[node])
            self.known[key] = [
                Option(node, level, pods, *prices.of(pods)) for level, pods in _releases(self.problem, node, prices, free)
            ]
        return self.known[key]


def options(problem: Problem) -> list[Option]:
    """What every node could gain by evictions, cheapest first."""
    releases = Releases(problem)
    found = (option for node, held in enumerate(problem.held) for option in releases.of(node, held, problem.free[node]))
    return sorted(found, key=lambda option: (option.price, option.effort, option.node, option.kinds))


@dataclass(frozen=True, slots=True)
class _Prices:
    """What it costs that pods leave a node; those that came to it only now leave it for nothing."""

    problem: Problem
    efforts: Sequence[float]
    held: Mapping[int, int]
    at_first: Mapping[int, int]

    def of_kind(self, kind: int, number: int) -> tuple[float, float]:
        came = max(0, self.held[kind] - self.at_first.get(kind, 0))
        return self.problem.kinds[kind].cost * max(0, number - came), self.efforts[kind] * number

    def of(self, pods: Pods) -> tuple[float, float]:
        told = [self.of_kind(kind, number) for kind, number in pods]
        return sum(cost for cost, _effort in told), sum(effort for _cost, effort in told)


def _releases(problem: Problem, node: int, prices: _Prices, free: Amounts) -> Iterator[tuple[int, Pods]]:
    """Level by level, the cheapest pods whose leaving gains so much on the node."""
    if problem.needs:
        lacks = _lacks(problem, free)
        if lacks and (enough := _enough(prices, lacks)):
            yield 1, enough
    elif problem.goal.slot_size is None:
        if prices.held and node not in problem.stuck:
            yield 1, tuple(sorted(prices.held.items()))
    else:
        size = problem.goal.slot_size
        short = size * (problem.slots(free[0]) + 1) - free[0]
        best = _cheapest(prices, short + (LEVELS - 1) * size)
        yield from ((level, pods) for level, pods in enumerate(best[short::size], start=1) if pods)


def _cheapest(prices: _Prices, most: int) -> list[Pods]:
    """The cheapest pods that hold so many GPUs at least that make up no whole slot, for 0 up to the most; none where all do not.

    A knapsack over GPUs, which are few on a node.
    """
    parts = {kind: prices.problem.part(prices.problem.kinds[kind].demand[0]) for kind in sorted(prices.held)}
    best: list[tuple[float, float, Pods]] = [(0.0, 0.0, ()), *[(inf, inf, ())] * most]
    for kind, part in ((kind, part) for kind, part in parts.items() if part):
        before = list(best)
        for number in range(1, min(prices.held[kind], ceil(most / part)) + 1):
            cost, effort = prices.of_kind(kind, number)
            for have in range(1, most + 1):
                base = before[max(0, have - part * number)]
                if base[0] < inf:
                    best[have] = min(best[have], (base[0] + cost, base[1] + effort, (*base[2], (kind, number))))
    return [pods for _cost, _effort, pods in best]


def _lacks(problem: Problem, free: Amounts) -> dict[int, int]:
    """What the pod that the gain is for lacks where this is free: {resource: amount}."""
    short = {r: need - have for r, (need, have) in enumerate(zip(problem.needs or (), free, strict=True)) if need}
    return {r: amount for r, amount in short.items() if amount > 0}


def _enough(prices: _Prices, lacks: Mapping[int, int]) -> Pods | None:
    """The cheapest pods that hold at least what is lacking; None where all do not.

    Sets of pods are looked at the cheapest first. Where a node holds so much that this takes too long, the first that
    was made up of the most helpful pods has to do.
    """
    kinds, held = prices.problem.kinds, prices.held
    helping = [kind for kind in sorted(held) if any(kinds[kind].demand[r] for r in lacks)]

    def short(pods: Pods) -> bool:
        return any(sum(kinds[kind].demand[r] * number for kind, number in pods) < amount for r, amount in lacks.items())

    if short(tuple((kind, held[kind]) for kind in helping)):
        return None
    queue: list[tuple[float, float, Pods]] = [(0.0, 0.0, ())]
    for _look in range(LOOKS):
        _cost, _effort, pods = heapq.heappop(queue)
        if not short(pods):
            return pods
        # Only kinds after the last one, and one more of the last: so no set is made twice.
        last, number = pods[-1] if pods else (-1, 0)
        for kind in helping:
            if kind > last or (kind == last and number < held[kind]):
                more = (*pods, (kind, 1)) if kind > last else (*pods[:-1], (kind, number + 1))
                heapq.heappush(queue, (*prices.of(more), more))
    chosen: dict[int, int] = {}
    for kind in sorted(helping, key=lambda k: -sum(min(1.0, kinds[k].demand[r] / n) for r, n in lacks.items())):
        while short(tuple(chosen.items())) and chosen.get(kind, 0) < held[kind]:
            chosen[kind] = chosen.get(kind, 0) + 1
    return tuple(sorted(chosen.items()))


def lower_bound(problem: Problem, known: Sequence[Option], gained: int) -> int:
    """No plan gains so much with fewer evictions, wherever the pods go.

    Each node alone, without regard to where its pods would find room: the fewest pods for each level, taken along the
    lower convex hull of the levels, so that no choice of levels can be cheaper. Room for one pod takes as many as the
    largest of each resource that is lacking.
    """
    if problem.needs:
        nodes = range(len(problem.names)) if problem.gainers is None else problem.gainers
        known_of = (_fewest_for(problem, node) for node in nodes)
        return min((fewest for fewest in known_of if fewest is not None), default=0) if gained else 0
    slopes: list[tuple[float, int]] = []
    by_node: dict[int, list[int]] = {}
    for option in known:
        by_node.setdefault(option.node, []).append(0)
    for node in by_node:
        slopes += _hull(_fewest(problem, node))
    slopes.sort()
    left, total = gained, 0.0
    for slope, width in slopes:
        if left <= 0:
            break
        total += slope * min(width, left)
        left -= width
    return ceil(total - 1e-9)


def _fewest_for(problem: Problem, node: int) -> int | None:
    """No fewer pods than these must leave the node for the pod that the gain is for; None if all together are not enough."""
    fewest = 0
    for resource, amount in _lacks(problem, problem.free[node]).items():
        demands = sorted(problem.kinds[k].demand[resource] for k, n in problem.held[node].items() for _pod in range(n))
        pods = 0
        while amount > 0:
            if not demands:
                return None
            amount -= demands.pop()
            pods += 1
        fewest = max(fewest, pods)
    return fewest


def _fewest(problem: Problem, node: int) -> list[int]:
    """The fewest pods that must leave the node for each level, from 0."""
    size = problem.goal.slot_size
    if size is None:
        return [0, sum(problem.held[node].values())]
    free = max(0, problem.free[node][0])
    # What a pod of more than a slot leaves is lost elsewhere but for the rest.
    rests = sorted(
        (problem.kinds[kind].demand[0] % size for kind, number in problem.held[node].items() for _pod in range(number)),
        reverse=True,
    )
    counts, have, used = [0], free % size, 0
    while True:
        while have < size * len(counts) and used < len(rests) and rests[used]:
            have += rests[used]
            used += 1
        if have < size * len(counts):
            return counts
        counts.append(used)


def _hull(counts: Sequence[int]) -> list[tuple[float, int]]:
    """The lower convex hull of counts by level, as (slope, levels)."""
    pieces: list[tuple[float, int]] = []
    for low, high in pairwise(counts):
        slope, width = float(high - low), 1
        while pieces and pieces[-1][0] >= slope:
            last, wide = pieces.pop()
            slope = (slope * width + last * wide) / (width + wide)
            width += wide
        pieces.append((slope, width))
    return pieces
