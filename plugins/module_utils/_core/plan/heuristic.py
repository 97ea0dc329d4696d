# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Near-optimal moves in plain Python.

Which nodes gain is chosen by what that costs, cheapest first; what must leave them is packed into the others, tightest
fit first. A pod that finds no place may push a pod that was placed before, or at the price of one more eviction one
that stood there. Where a choice cannot be packed, the next cheapest choice is tried.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf

from .problem import Amounts, Cap, Problem

TRIES = 200
"""So many choices of nodes are tried before less is aimed at."""
LOOKS = 2000
"""So many sets of pods of a node are looked at for the cheapest that makes room for one pod."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod of a kind goes from a node to another, all by number."""

    kind: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Option:
    """One more slot (or the node emptied) on a node.

    Attributes:
        level: The how-manieth slot more on this node, from 1.
        kinds: What leaves the node for this level and those below it: {kind: pods}, as pairs.
        cost: What this level costs more than the one below it.
        effort: Share of the cluster's room that the leaving pods take, to tell equal costs apart.
    """

    node: int
    level: int
    kinds: tuple[tuple[int, int], ...]
    cost: float
    effort: float


@dataclass(slots=True)
class Outcome:
    """Moves, in no order, and what they gain."""

    moves: list[Move]
    gained: int
    cost: float


def options(problem: Problem) -> list[Option]:
    """What every node could gain by evictions, cheapest first."""
    total = [sum(max(0, free[r]) for free in problem.free) or 1 for r in range(len(problem.resources))]
    effort = [sum(d / t for d, t in zip(kind.demand, total, strict=True)) for kind in problem.kinds]
    found: list[Option] = []
    for node, held in enumerate(problem.held):
        if problem.gainers is not None and node not in problem.gainers:
            continue
        below = 0.0
        for level, kinds in enumerate(_releases(problem, node, held, effort), start=1):
            cost = sum(problem.kinds[kind].cost * number for kind, number in kinds)
            hard = sum(effort[kind] * number for kind, number in kinds)
            found.append(Option(node, level, kinds, cost - below, hard))
            below = cost
    found.sort(key=lambda option: (option.cost, option.effort, problem.names[option.node], option.level))
    return found


def _releases(
    problem: Problem, node: int, held: dict[int, int], effort: Sequence[float]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Level by level, the cheapest pods whose leaving gains so much on the node."""
    if problem.needs:
        lacks = _lacks(problem, node)
        if lacks and (enough := _enough(problem, held, lacks, effort)):
            yield enough
        return
    if problem.goal.slot_size is None:
        if node not in problem.stuck and node not in problem.bare:
            yield tuple(sorted(held.items()))
        return
    size = problem.goal.slot_size
    free = max(0, problem.free[node][0])
    # A pod of whole slots takes as many elsewhere as it leaves here.
    useful = {kind: number for kind, number in held.items() if problem.kinds[kind].demand[0] % size}
    most = free + sum(problem.kinds[kind].demand[0] * number for kind, number in useful.items())
    for slots in range(free // size + 1, most // size + 1):
        yield _cheapest(problem, useful, slots * size - free, effort)


def _lacks(problem: Problem, node: int) -> dict[int, int]:
    """What the pod that the gain is for lacks on a node: {resource: amount}."""
    short = {r: need - free for r, (need, free) in enumerate(zip(problem.needs or (), problem.free[node], strict=True)) if need}
    return {r: amount for r, amount in short.items() if amount > 0}


def _enough(
    problem: Problem, held: dict[int, int], lacks: dict[int, int], effort: Sequence[float]
) -> tuple[tuple[int, int], ...] | None:
    """The cheapest pods that hold at least what is lacking, as {kind: pods} in pairs; None where all do not.

    Sets of pods are looked at the cheapest first. Where a node holds so much that this takes too long, the first that
    was made up of the most helpful pods has to do.
    """
    helping = [kind for kind in sorted(held) if any(problem.kinds[kind].demand[r] for r in lacks)]

    def short(taken: dict[int, int]) -> bool:
        return any(sum(problem.kinds[k].demand[r] * n for k, n in taken.items()) < amount for r, amount in lacks.items())

    if short({kind: held[kind] for kind in helping}):
        return None
    queue: list[tuple[float, float, tuple[tuple[int, int], ...]]] = [(0.0, 0.0, ())]
    for _look in range(LOOKS):
        cost, hard, taken = heapq.heappop(queue)
        if not short(dict(taken)):
            return taken
        # Only kinds after the last one, and one more of the last: so no set is made twice.
        last, number = taken[-1] if taken else (-1, 0)
        for kind in helping:
            if kind > last or (kind == last and number < held[kind]):
                more = (*taken, (kind, 1)) if kind > last else (*taken[:-1], (kind, number + 1))
                heapq.heappush(queue, (cost + problem.kinds[kind].cost, hard + effort[kind], more))
    chosen: dict[int, int] = {}
    for kind in sorted(helping, key=lambda k: -sum(min(1.0, problem.kinds[k].demand[r] / n) for r, n in lacks.items())):
        while short(chosen) and chosen.get(kind, 0) < held[kind]:
            chosen[kind] = chosen.get(kind, 0) + 1
    return tuple(sorted(chosen.items()))


def _cheapest(problem: Problem, held: dict[int, int], need: int, effort: Sequence[float]) -> tuple[tuple[int, int], ...]:
    """The cheapest pods that hold so many GPUs at least: a knapsack over GPUs, which are few on a node."""
    best: list[tuple[float, float, tuple[tuple[int, int], ...]]] = [(0.0, 0.0, ()), *[(inf, inf, ())] * need]
    for kind, number in sorted(held.items()):
        gpus, cost = problem.kinds[kind].demand[0], problem.kinds[kind].cost
        before = list(best)
        for taken in range(1, number + 1):
            for have in range(need + 1):
                base = before[max(0, have - gpus * taken)] if have else before[0]
                if have and base[0] < inf:
                    made = (base[0] + cost * taken, base[1] + effort[kind] * taken, (*base[2], (kind, taken)))
                    best[have] = min(best[have], made)
    return best[need][2]


def solve(problem: Problem, known: Sequence[Option] | None = None) -> Outcome:
    """The cheapest moves found for the goal; for less than the goal where it is not reached.

    Args:
        problem: The problem.
        known: Its options, if they were looked for before: neither the count nor the nodes of kinds change them.
    """
    known = options(problem) if known is None else known
    most = len(known)
    wanted = most if problem.goal.count is None else min(problem.goal.count, most)
    outcome = _for(problem, known, wanted) if problem.goal.count is not None else None
    if outcome:
        return outcome
    # The most that can be had: more is harder, so that halving finds it.
    best = Outcome([], 0, 0.0)
    low, high = 0, wanted
    while low < high:
        middle = (low + high + 1) // 2
        found = _for(problem, known, middle)
        if found:
            best, low = found, max(middle, found.gained)
        else:
            high = middle - 1
    return best


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
    for resource, amount in _lacks(problem, node).items():
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


def _for(problem: Problem, known: Sequence[Option], count: int) -> Outcome | None:
    """The cheapest packable choice of so many options, if one is found within the tries."""
    if count == 0:
        return Outcome([], 0, 0.0)
    if count > len(known):
        return None
    first = tuple(range(count))
    queue: list[tuple[float, int, tuple[int, ...]]] = [(sum(known[i].cost for i in first), 0, first)]
    seen = {first}
    best: Outcome | None = None
    tried = 0
    while queue and tried < TRIES:
        cost, _order, chosen = heapq.heappop(queue)
        if best and cost >= best.cost:
            break
        tried += 1
        found = _pack(problem, [known[i] for i in chosen], count)
        if found and (not best or found.cost < best.cost):
            best = found
        # The next choices: one option given up for the next one that is not taken, the hardest first.
        taken = set(chosen)
        after = next((i for i in range(chosen[-1] + 1, len(known)) if i not in taken), None)
        nexts = [i for i in (after, *(i for i in range(chosen[-1]) if i not in taken)) if i is not None]
        for given in sorted(chosen, key=lambda i: (-known[i].effort, i))[:12]:
            for instead in nexts[:6]:
                made = tuple(sorted((taken - {given}) | {instead}))
                if made not in seen:
                    seen.add(made)
                    heapq.heappush(queue, (sum(known[i].cost for i in made), len(seen), made))
    return best


@dataclass(slots=True)
class _Packing:
    """Pods on their way to other nodes.

    Attributes:
        placed: Pods by the node they were placed on: (kind, source).
        shelves: Nodes that may receive, by the GPUs that may be taken on them; on a shelf those with least left of the
            other resources first.
        caps: The problem's caps by kind, each with its number.
        came: Pods that came, less those that left, by the number of a cap and the domain.
    """

    problem: Problem
    free: list[list[int]]
    sources: frozenset[int]
    held: list[dict[int, int]]
    placed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    shelves: dict[int, list[tuple[Amounts, int]]] = field(default_factory=dict)
    caps: dict[int, list[tuple[int, Cap]]] = field(default_factory=dict)
    came: Counter[tuple[int, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Sort the caps by kind."""
        for number, cap in enumerate(self.problem.caps):
            for kind in cap.kinds:
                self.caps.setdefault(kind, []).append((number, cap))

    def admits(self, node: int, kind: int) -> bool:
        """Whether the caps let one more pod of a kind come to a node."""
        for number, cap in self.caps.get(kind, ()):
            domain = cap.domains[node]
            limit = cap.limit(domain)
            if domain is not None and limit is not None and self.came[number, domain] >= limit:
                return False
        return True

    def come(self, node: int, kind: int, sign: int) -> None:
        """A pod of a kind comes to a node (+1) that may receive, or goes again (-1)."""
        self.shift(node, self.problem.kinds[kind].demand, -sign)
        self.count(node, kind, sign)

    def count(self, node: int, kind: int, sign: int) -> None:
        """Count a pod of a kind that comes to a node (+1) or leaves it (-1) for the caps."""
        for number, cap in self.caps.get(kind, ()):
            domain = cap.domains[node]
            if domain is not None:
                self.came[number, domain] += sign

    def room(self, node: int) -> int:
        return self.problem.room(node, tuple(self.free[node]))

    def put(self, node: int) -> None:
        """Put a node on its shelf."""
        insort(self.shelves.setdefault(self.room(node), []), (tuple(self.free[node][1:]), node))

    def shift(self, node: int, demand: Amounts, sign: int) -> None:
        """Take (-1) or give back (+1) a demand on a node."""
        shelf = self.shelves[self.room(node)]
        del shelf[bisect_left(shelf, (tuple(self.free[node][1:]), node))]
        free = self.free[node]
        for index, amount in enumerate(demand):
            free[index] += sign * amount
        self.put(node)

    def fits(self, node: int, demand: Amounts) -> bool:
        return all(amount <= have for amount, have in zip(demand, self.free[node], strict=True) if amount)

    def target(self, kind: int, but: int = -1) -> int | None:
        """The tightest node for a pod: fewest GPUs left over, then least left of the rest."""
        which = self.problem.kinds[kind]
        for room in sorted(self.shelves):
            if room < which.demand[0]:
                continue
            shelf = self.shelves[room]
            # Those with less of the first other resource than it takes need not be looked at.
            for _left, node in shelf[bisect_left(shelf, (which.demand[1:2], -1)) :]:
                if node != but and node in which.nodes and self.fits(node, which.demand) and self.admits(node, kind):
                    return node
        return None


def _pack(problem: Problem, chosen: Sequence[Option], count: int) -> Outcome | None:
    """Places for all that leaves the chosen nodes; None where some pod finds none."""
    leaving: dict[int, Option] = {}
    for option in chosen:
        if option.node not in leaving or leaving[option.node].level < option.level:
            leaving[option.node] = option
    # A level stands for those below it: all of them must be meant.
    if sum(option.level for option in leaving.values()) != count:
        return None
    packing = _Packing(problem, [list(free) for free in problem.free], frozenset(leaving), [dict(held) for held in problem.held])
    total = [sum(max(0, free[r]) for free in problem.free) or 1 for r in range(len(problem.resources))]
    pods = [(kind, node) for node, option in leaving.items() for kind, number in option.kinds for _pod in range(number)]

    def size(pod: tuple[int, int]) -> tuple[float, ...]:
        demand = problem.kinds[pod[0]].demand
        return (-demand[0], -max(d / t for d, t in zip(demand, total, strict=True)), *pod)

    pods.sort(key=size)
    for node in range(len(problem.names)):
        # A node that is free already is to stay free, of pods without GPUs too.
        if node not in leaving and (problem.goal.slot_size or node not in problem.bare):
            packing.put(node)
    for kind, node in pods:
        packing.count(node, kind, -1)
    extra: list[Move] = []
    for pod in pods:
        if not _place(packing, pod, extra):
            return None
    moves = [Move(kind, source, target) for target, found in packing.placed.items() for kind, source in found] + extra
    return Outcome(moves, count, sum(problem.kinds[move.kind].cost for move in moves))


def _place(packing: _Packing, pod: tuple[int, int], extra: list[Move]) -> bool:
    target = packing.target(pod[0])
    if target is None:
        target = _push(packing, pod[0])
    if target is None:
        target = _evict(packing, pod[0], extra)
    if target is None:
        return False
    packing.come(target, pod[0], +1)
    packing.placed.setdefault(target, []).append(pod)
    return True


def _would_fit(packing: _Packing, node: int, demand: Amounts, gone: Amounts) -> bool:
    """Whether a demand fits on a node once another has gone."""
    free = tuple(have + back for have, back in zip(packing.free[node], gone, strict=True))
    return packing.problem.room(node, free) >= demand[0] and all(d <= f for d, f in zip(demand, free, strict=True) if d)


def _push(packing: _Packing, kind: int) -> int | None:
    """Make room by sending a pod that was placed before to another node; the node that then has room."""
    which = packing.problem.kinds[kind]
    for node in sorted(packing.placed):
        if node not in which.nodes or not packing.admits(node, kind):
            continue
        for other in sorted(set(packing.placed[node])):
            demand = packing.problem.kinds[other[0]].demand
            if not _would_fit(packing, node, which.demand, demand):
                continue
            target = packing.target(other[0], but=node)
            if target is None:
                continue
            packing.placed[node].remove(other)
            packing.come(node, other[0], -1)
            packing.come(target, other[0], +1)
            packing.placed.setdefault(target, []).append(other)
            return node
    return None


def _evict(packing: _Packing, kind: int, extra: list[Move]) -> int | None:
    """Make room by moving one more pod away, at its price; the node that then has room."""
    problem, which = packing.problem, packing.problem.kinds[kind]
    for node in sorted(which.nodes - packing.sources):
        if not packing.admits(node, kind):
            continue
        for other in sorted(packing.held[node], key=lambda k: (problem.kinds[k].cost, k)):
            demand = problem.kinds[other].demand
            if demand == which.demand or not packing.held[node][other] or not _would_fit(packing, node, which.demand, demand):
                continue
            target = packing.target(other, but=node)
            if target is None:
                continue
            packing.held[node][other] -= 1
            packing.come(node, other, -1)
            packing.come(target, other, +1)
            extra.append(Move(other, node, target))
            return node
    return None
