# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Where all pods are while a plan is made: what may come where, what that gains and costs, and the way back."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .moves import Move, paired
from .problem import Amounts, Cap, Problem


class Mark(NamedTuple):
    """What had been done, and its cost."""

    done: int
    cost: float


class Placing:
    """How many pods of each kind are on each node. Pods of a kind are alike: more need not be known.

    So a pod that is moved twice has cost one eviction, and one that comes back to a node that its like has left, none.

    Attributes:
        free: What is free on each node.
        held: By node, how many pods of which kind it holds.
        gained: Slots or nodes more than at first; 1 or more when there is room for the pod that the gain is for.
        cost: Of the pods that are not where they were.
        shelves: The nodes by the GPUs that may be taken on them; on a shelf those with least of the other resources first.
        journal: What was done, for the way back: (kind, node, +1 for one that came and -1 for one that left).
        caps: The problem's caps by kind, each with its number.
        more: How many more pods than at first a domain holds, by the number of a cap.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free: list[Amounts] = list(problem.free)
        self.held = [dict(held) for held in problem.held]
        self.gained = 0
        self.cost = 0.0
        self.shelves: dict[int, list[tuple[Amounts, int]]] = {}
        self.journal: list[tuple[int, int, int]] = []
        self.caps: dict[int, list[tuple[int, Cap]]] = {}
        self.more: Counter[tuple[int, str]] = Counter()
        for number, cap in enumerate(problem.caps):
            for kind in cap.kinds:
                self.caps.setdefault(kind, []).append((number, cap))
        for node in range(len(problem.names)):
            self._shelve(node)

    def may_come(self, kind: int, node: int) -> bool:
        """Whether a node may take one more pod of a kind, whatever that costs in slots."""
        which = self.problem.kinds[kind]
        if node not in which.nodes or any(a > have for a, have in zip(which.demand, self.free[node], strict=True) if a):
            return False
        return all(self.more[number, domain] < limit for number, domain, limit in self._limits(kind, node) if limit is not None)

    def shift(self, kind: int, node: int, sign: int) -> None:
        """A pod comes to a node (+1) or leaves it (-1)."""
        self.journal.append((kind, node, sign))
        self._shift(kind, node, sign)

    def mark(self) -> Mark:
        """Where ``undo`` is to go back to."""
        return Mark(len(self.journal), self.cost)

    def undo(self, mark: Mark) -> None:
        """Everything is as it was at a mark."""
        while len(self.journal) > mark.done:
            kind, node, sign = self.journal.pop()
            self._shift(kind, node, -sign)
        self.cost = mark.cost

    def changed(self, mark: Mark) -> list[int]:
        """The nodes that something came to or left since a mark."""
        return sorted({node for _kind, node, _sign in self.journal[mark.done :]})

    def left(self) -> list[int]:
        """The nodes that hold less than at first of some kind."""
        held = enumerate(zip(self.problem.held, self.held, strict=True))
        return [node for node, (at_first, now) in held if any(now.get(kind, 0) < n for kind, n in at_first.items())]

    def restore(self, node: int) -> bool:
        """Give a node back what it held at first, if there is room for that."""
        for kind, number in self.problem.held[node].items():
            for _pod in range(number - self.held[node].get(kind, 0)):
                came = (n for n in sorted(self.problem.kinds[kind].nodes) if self._has_come(kind, n))
                self.shift(kind, next(came), -1)
                if not self.may_come(kind, node):
                    return False
                self.shift(kind, node, +1)
        return True

    def _has_come(self, kind: int, node: int) -> bool:
        return self.held[node].get(kind, 0) > self.problem.held[node].get(kind, 0)

    def place(self, kind: int) -> bool:
        """Find a pod a place where no slot is lost: the tightest, or one where another pod makes way."""
        target = self._tightest(kind)
        if target is None:
            return self._push(kind)
        self.shift(kind, target, +1)
        return True

    def moves(self) -> list[Move]:
        """From where all pods were at first to where they are."""
        left: dict[tuple[int, int], int] = {}
        came: dict[tuple[int, int], int] = {}
        for node, (before, now) in enumerate(zip(self.problem.held, self.held, strict=True)):
            for kind in before.keys() | now.keys():
                more = now.get(kind, 0) - before.get(kind, 0)
                (came if more > 0 else left)[kind, node] = abs(more)
        return paired(left, came)[0]

    def _limits(self, kind: int, node: int) -> Iterator[tuple[int, str, int | None]]:
        """What caps a pod of the kind on the node: the cap's number, the domain and how many more that takes."""
        for number, cap in self.caps.get(kind, ()):
            domain = cap.domains[node]
            if domain is not None:
                yield number, domain, cap.limit(domain)

    def _shift(self, kind: int, node: int, sign: int) -> None:
        which, held = self.problem.kinds[kind], self.held[node]
        before, at_first = held.get(kind, 0), self.problem.held[node].get(kind, 0)
        self._unshelve(node)
        self.gained -= self._worth(node)
        if sign < 0 and before <= at_first:
            self.cost += which.cost
        if sign > 0 and before < at_first:
            self.cost -= which.cost
        held[kind] = before + sign
        if not held[kind]:
            del held[kind]
        self.free[node] = tuple(have - sign * amount for have, amount in zip(self.free[node], which.demand, strict=True))
        for number, domain, _limit in self._limits(kind, node):
            self.more[number, domain] += sign
        self.gained += self._worth(node)
        self._shelve(node)

    def _worth(self, node: int) -> int:
        """What a node has of what is to be gained."""
        problem, free = self.problem, self.free[node]
        if problem.gainers is not None and node not in problem.gainers:
            return 0
        if problem.needs:
            return int(all(need <= have for need, have in zip(problem.needs, free, strict=True) if need))
        if problem.goal.slot_size:
            return problem.slots(free[0])
        return int(self._is_bare(node))

    def _is_bare(self, node: int) -> bool:
        return not self.held[node] and node not in self.problem.stuck

    def _room(self, node: int) -> int:
        """GPUs that may be taken on a node without spoiling what counts; -1 where nothing at all may come."""
        whole = self.problem.needs or not self.problem.goal.slot_size
        return -1 if whole and self._worth(node) else self.problem.part(max(0, self.free[node][0]))

    def _shelve(self, node: int) -> None:
        insort(self.shelves.setdefault(self._room(node), []), (self.free[node][1:], node))

    def _unshelve(self, node: int) -> None:
        shelf = self.shelves[self._room(node)]
        del shelf[bisect_left(shelf, (self.free[node][1:], node))]

    def _tightest(self, kind: int, but: int | None = None) -> int | None:
        """The node with the fewest GPUs left over, then with the least of the rest; not the one that is excepted."""
        demand = self.problem.kinds[kind].demand
        gpus = self.problem.part(demand[0])
        for room in sorted(self.shelves):
            if room >= gpus:
                shelf = self.shelves[room]
                # Those with less of the first other resource than it takes need not be looked at.
                for _free, node in shelf[bisect_left(shelf, (demand[1:2], -1)) :]:
                    if node != but and self.may_come(kind, node):
                        return node
        return None

    def _push(self, kind: int) -> bool:
        """Place a pod where another goes on to a third node: one that has come, or, at its price, one that was there."""
        for _price, node, other in sorted(self._in_the_way(kind)):
            target = self._tightest(other, node)
            if target is not None:
                mark = self.mark()
                self.shift(other, node, -1)
                self.shift(other, target, +1)
                if self.may_come(kind, node):
                    self.shift(kind, node, +1)
                    return True
                self.undo(mark)
        return False

    def _in_the_way(self, kind: int) -> Iterator[tuple[float, int, int]]:
        """Pods that may find a place themselves, and in whose stead a pod would: (price, node, kind)."""
        kinds, part = self.problem.kinds, self.problem.part
        demand = kinds[kind].demand
        may_go: dict[int, bool] = {}
        for node in kinds[kind].nodes:
            free, room = self.free[node], self._room(node)
            for other, number in self.held[node].items() if room >= 0 else ():
                if other not in may_go:
                    may_go[other] = self._tightest(other) is not None
                back = kinds[other].demand
                helps = may_go[other] and room + part(back[0]) >= part(demand[0])
                if helps and all(a <= have + more for a, have, more in zip(demand, free, back, strict=True) if a):
                    came = number > self.problem.held[node].get(other, 0)
                    yield 0.0 if came else kinds[other].cost, node, other
