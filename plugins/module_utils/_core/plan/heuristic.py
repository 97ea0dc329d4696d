# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Near-optimal moves in plain Python.

Of a node's free GPUs only those count that make up no whole slot, and so of a pod's: by a move the source gains a slot where
the two make up one, and the target loses one where it has less to spare than the pod takes. So slot by slot those pods
leave whose leaving costs least, each for the tightest place where nothing is lost. Where one finds none, or only if others
make way at their price, the next cheapest are tried first. At last every node is given back what left it, and what that
loses is gained by other options, where that is cheaper or leads further.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from .moves import Outcome
from .placing import Placing
from .problem import Problem
from .release import Option, Pods, Releases, lower_bound, options
from .schedule import ordered

LOOKS = 500_000
"""So many nodes are looked at to make a plan cheaper: all of them for each option tried, and for each node given back."""
LITTLE = 1e-9
"""Costs that differ by less are equal."""


def solve(problem: Problem, known: Sequence[Option] | None = None) -> Outcome:
    """The cheapest moves found for the goal; for less than the goal where it is not reached.

    Args:
        problem: The problem.
        known: Its options, if they were looked for before: neither the count nor the nodes of kinds change them.
    """
    known = options(problem) if known is None else known
    wanted = inf if problem.goal.count is None else problem.goal.count
    cheapest = min((kind.cost for kind in problem.kinds), default=0.0)
    found: list[Placing] = []
    for easiest_first in (True, False):
        climb = _Climb(problem, easiest_first)
        climb.up(wanted, known)
        least = cheapest * lower_bound(problem, known, climb.placing.gained)
        climb.again(wanted, least)
        found.append(climb.placing)
        if climb.placing.gained >= wanted and climb.placing.cost <= least + LITTLE:
            break
    best = min(found, key=lambda placing: (ordered(problem, placing.moves()) is None, -placing.gained, placing.cost))
    moves = best.moves()
    return Outcome(moves, best.gained, sum(problem.kinds[move.kind].cost for move in moves))


@dataclass(frozen=True, slots=True, order=True)
class _Bid:
    """An option in the queue.

    Attributes:
        price: What a slot costs by it: what leaves and, once it was tried, what has to make way.
        order: Of equal prices.
        option: What to do.
        version: How often its node had changed when it was made.
        tried: How many options had been taken when it was tried; -1 if it was not.
        but: Kinds of its node that found no place.
    """

    price: float
    order: tuple[float, int, Pods]
    option: Option = field(compare=False)
    version: int = field(compare=False, default=0)
    tried: int = field(compare=False, default=-1)
    but: frozenset[int] = field(compare=False, default=frozenset())


class _Climb:
    """The way from gain to gain.

    Attributes:
        easiest_first: Of options of one price those are taken first that need least room, which leaves most of it to the
            others; else those that need most, while there is some.
        placing: Where all pods are by now.
        releases: What may leave the nodes.
        looks: How many nodes were looked at.
    """

    def __init__(self, problem: Problem, easiest_first: bool) -> None:
        self.problem = problem
        self.easiest_first = easiest_first
        self.placing = Placing(problem)
        self.releases = Releases(problem)
        self.looks = 0

    def up(self, wanted: float, known: Sequence[Option], within: float = inf) -> None:
        """Take options, the cheapest first, until so much is gained in all, or cannot be within a cost."""
        placing = self.placing
        queue = [self._bid(option) for option in known]
        heapq.heapify(queue)
        seen = {(option.node, 0, option.kinds) for option in known}
        versions: Counter[int] = Counter()
        taken = 0

        def offer(node: int, but: frozenset[int] = frozenset()) -> None:
            for option in self._options(node, but):
                key = node, versions[node], option.kinds
                if key not in seen:
                    seen.add(key)
                    heapq.heappush(queue, self._bid(option, versions[node], but))

        while queue and placing.gained < wanted:
            bid = heapq.heappop(queue)
            option, left = bid.option, wanted - placing.gained
            if bid.version != versions[option.node] or option.level > left:
                continue
            if within < inf and placing.cost + bid.price * left > within - LITTLE:
                return
            mark, gained = placing.mark(), placing.gained
            homeless = self._take(option)
            if homeless is not None:
                offer(option.node, bid.but | {homeless})
                continue
            if placing.gained <= gained:
                placing.undo(mark)
                continue
            price = (placing.cost - mark.cost) / (placing.gained - gained)
            if bid.tried != taken and queue and price > queue[0].price + LITTLE:
                placing.undo(mark)
                heapq.heappush(queue, replace(bid, price=price, tried=taken))
                continue
            taken += 1
            for node in placing.changed(mark):
                versions[node] += 1
                offer(node)

    def again(self, wanted: float, fewest: float) -> None:
        """Give a node back what left it and take other options instead, as long as that leads further or costs less.

        Args:
            wanted: What is to be gained in all.
            fewest: Nothing costs less than this.
        """
        placing, most = self.placing, self.looks + LOOKS
        waiting = placing.left()
        while waiting and self.looks < most and (placing.gained < wanted or placing.cost > fewest + LITTLE):
            node = waiting.pop()
            mark, gained = placing.mark(), placing.gained
            within = mark.cost if gained >= wanted else inf
            self.looks += len(self.problem.names)
            if placing.restore(node):
                # First something else, then whatever is cheapest.
                self.up(placing.gained + 1, self._elsewhere(node), within)
                self.up(wanted, self._elsewhere(), within)
                better = (-placing.gained, placing.cost) < (-gained, mark.cost - LITTLE)
                if better and ordered(self.problem, placing.moves()) is not None:
                    waiting = placing.left()
                    continue
            placing.undo(mark)

    def _take(self, option: Option) -> int | None:
        """Do what an option says; nothing where a kind finds no place, which is then given back."""
        placing, kinds = self.placing, self.problem.kinds
        self.looks += len(self.problem.names)
        mark = placing.mark()
        pods = [kind for kind, number in option.kinds for _pod in range(number)]
        pods.sort(key=lambda kind: (-self.problem.part(kinds[kind].demand[0]), -self.releases.effort[kind], kind))
        for kind in pods:
            placing.shift(kind, option.node, -1)
        homeless = next((kind for kind in pods if not placing.place(kind)), None)
        if homeless is not None:
            placing.undo(mark)
        return homeless

    def _bid(self, option: Option, version: int = 0, but: frozenset[int] = frozenset()) -> _Bid:
        effort = option.effort if self.easiest_first else -option.effort
        return _Bid(option.price, (effort, option.node, option.kinds), option, version, but=but)

    def _options(self, node: int, but: frozenset[int] = frozenset()) -> list[Option]:
        return self.releases.of(node, self.placing.held[node], self.placing.free[node], but)

    def _elsewhere(self, but: int | None = None) -> list[Option]:
        return [option for node in range(len(self.problem.names)) if node != but for option in self._options(node)]
