# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Finding moves: solve, put in order, ask the scheduler's rules of each, and again where they say no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from ..cluster.layout import Layout
from ..cluster.pools import Survey, survey
from ..cluster.scheduling import Fit
from ..kube.model import Cluster, Pod
from . import exact
from .evictable import staying
from .heuristic import Option, Outcome, lower_bound, options, solve
from .options import PlanOptions
from .problem import Goal, Problem, formulate
from .schedule import PodMove, ordered

COLD_START = 180.0
"""Seconds from scheduled to Ready that a pod costs where nothing is known: a 70B model takes about so long."""
EXACT_SIZE = 40_000
"""Up to so many kinds times nodes ``auto`` lets the exact solver look."""
ROUNDS = 20
"""So often a plan is made anew because the scheduler would refuse one of its moves for what other pods are there."""


class Search:
    """The way to the moves of a plan: what may go, what it costs, and moves that the scheduler would make.

    Attributes:
        layout: Who is where; what has been settled is already where it goes.
        stays: Why pods must stay, by ``id()``.
        settled: ``id()`` of pods that have their last place.
        wanted: Pending pods that get room, and where.
        gained: Slots or nodes gained so far.
        bound: No moves gain as much with fewer evictions.
    """

    def __init__(self, cluster: Cluster, wish: PlanOptions) -> None:
        self.cluster = cluster
        self.wish = wish
        self.resource = wish.audit.resource
        self.layout = Layout(cluster)
        self.found: Survey = survey(self.layout, self.resource, wish.audit.selector)
        self.staying = staying(self.layout, wish.rules)
        self.stays = self.staying.stays
        self.bound = 0
        self.proved = True
        self.solver = "heuristic"
        self.gained = 0
        self.evictions = 0
        self.wanted: list[tuple[Pod, str]] = []
        self.settled: set[int] = set()
        self.notes: list[str] = list(self.staying.notes)

    def costs(self) -> dict[int, float]:
        """Cost of moving by ``id()``: cold start over the usual one, more for pods of priority."""
        default = self.wish.cold_start.get("default", COLD_START)
        if not self.wish.cold_start and not any(pod.priority > 0 for node in self.found.nodes for pod in node.pods):
            return {}
        return {
            id(pod): self.cold_start(pod) / (default or 1.0) * (1 + max(0, pod.priority) / 1_000_000)
            for node in self.found.nodes
            for pod in self.layout.pods[node.node.name]
        }

    def cold_start(self, pod: Pod) -> float:
        """Seconds that a pod needs from scheduled to Ready."""
        known = self.wish.cold_start
        default = known.get("default", COLD_START)
        return next((known[name] for name in self._workloads(pod) if name in known), default)

    def _workloads(self, pod: Pod) -> list[str]:
        """Names of the controllers above a pod, the nearest first."""
        found, owner = [], pod.owner
        while owner is not None:
            found.append(f"{pod.namespace}/{owner.name}")
            above = self.cluster.workloads.get((owner.kind, pod.namespace, owner.name))
            owner = above.owner if above else None
        return found

    def formulate(self, goal: Goal, guest: Pod | None = None) -> Problem:
        """The problem of the layout as it is now."""
        return formulate(
            self.layout,
            survey(self.layout, self.resource, self.wish.audit.selector).nodes,
            self.resource,
            goal,
            stays=self.stays.keys() | self.settled,
            across_products=self.wish.across_products,
            costs=self.costs(),
            guest=guest,
        )

    def best(self, problem: Problem, known: Sequence[Option]) -> tuple[Outcome, bool, int]:
        """Of a problem and its options: moves, whether they are proved the cheapest, and the fewest evictions for the gain."""
        outcome = self._within_budget(problem, known, solve(problem, known))
        bound = lower_bound(problem, known, outcome.gained)
        unit = all(kind.cost == 1.0 for kind in problem.kinds)
        wished = problem.goal.count
        full = outcome.gained == wished if wished is not None else False
        proved = full and unit and len(outcome.moves) <= bound
        small = len(problem.kinds) * len(problem.names) <= EXACT_SIZE
        wanted = self.wish.solver == "exact" or (self.wish.solver == "auto" and small and not proved)
        if not wanted or not exact.available():
            return outcome, unit and len(outcome.moves) <= bound, bound
        count = max(outcome.gained, 1) if wished is None else wished
        climbing = wished is None
        while True:
            hint = outcome if outcome.gained >= count else None
            proof = exact.solve(problem, count, hint, seconds=self.wish.time_limit, seed=self.wish.seed)
            usable = proof.outcome and ordered(problem, proof.outcome.moves) is not None
            if usable and proof.outcome and self._affordable(proof.outcome):
                self.solver, outcome, proved = "exact", proof.outcome, proof.optimal
                bound = max(bound, ceil(proof.bound - 1e-6) if unit else 0)
                if climbing:
                    count += 1
                    continue
            elif not climbing and count > (least := max(outcome.gained, 1)):
                # What was wished cannot be had: from what is known upwards to the most that can.
                count, climbing = least, True
                continue
            return outcome, proved and unit, min(bound, len(outcome.moves)) if unit else bound

    def _affordable(self, outcome: Outcome) -> bool:
        most = self.wish.max_evictions
        return most is None or self.evictions + len(outcome.moves) <= most

    def _within_budget(self, problem: Problem, known: Sequence[Option], outcome: Outcome) -> Outcome:
        """Less is aimed at where the plan would evict more than it may."""
        low, high = 0, outcome.gained
        best = Outcome([], 0, 0.0)
        if self._affordable(outcome):
            return outcome
        while low < high - 1:
            middle = (low + high) // 2
            found = solve(replace_count(problem, middle), known)
            if self._affordable(found) and found.gained >= middle:
                best, low = found, middle
            else:
                high = middle
        return best

    def moves(self, goal: Goal, guest: Pod | None = None) -> list[PodMove]:
        """Moves for a goal that the scheduler would make, every one of them when its turn comes."""
        problem = whole = self.formulate(goal, guest)
        certain, known = problem.certain, options(problem)
        for _round in range(ROUNDS):
            outcome, proved, bound = self.best(problem, known)
            steps = ordered(problem, outcome.moves)
            if steps is None:
                self.notes.append("some moves wait for one another; the plan aims at less")
                problem, certain = replace_count(problem, max(0, outcome.gained - 1)), False
                continue
            if torn := self._torn(steps):
                # All members move or none; not all of this gang would.
                self.settled |= {id(pod) for pod in torn}
                problem, certain = self.formulate(goal, guest), False
                known = options(problem)
                continue
            refused = self._refused(steps)
            if refused is None:
                if not certain:
                    # What other pods forbid now they may not forbid once they have moved.
                    anywhere = replace(whole, gainers=None) if guest else whole
                    bound = min(bound, lower_bound(anywhere, options(anywhere), outcome.gained))
                if not self.wanted:
                    # Room for the first of several pods takes no fewer evictions than room for them all.
                    self.bound, self.proved = max(self.bound, bound), self.proved and proved
                self.gained += outcome.gained
                self.evictions += len(steps)
                return steps
            certain = False
            kind, target = refused
            problem.kinds[kind].nodes -= {problem.names.index(target)}
        self.notes.append(f"after {ROUNDS} plans the scheduler would still refuse a move for what other pods are there")
        return []

    def _torn(self, steps: list[PodMove]) -> tuple[Pod, ...]:
        """The members of a gang of which the moves take some and leave some."""
        moved = {id(step.pod) for step in steps}
        gangs = (members for _name, members in sorted(self.staying.gangs.items()))
        torn = (members for members in gangs if 0 < sum(id(pod) in moved for pod in members) < len(members))
        return next(torn, ())

    def _refused(self, steps: list[PodMove]) -> tuple[int, str] | None:
        """The first kind and node of which the scheduler would say no, other pods being where they then are."""
        done: list[PodMove] = []
        try:
            for step in steps:
                self.layout.remove(step.pod, step.source)
                if self._fit(step.pod).refusals(self.cluster.nodes[step.target]):
                    self.layout.add(step.pod, step.source)
                    return step.kind, step.target
                self.layout.add(step.pod, step.target)
                done.append(step)
            return None
        finally:
            for step in reversed(done):
                self.layout.remove(step.pod, step.target)
                self.layout.add(step.pod, step.source)

    def make_room(self, pods: list[Pod]) -> list[PodMove]:
        """Moves that let pending pods in, one after the other; each then takes its node, and nothing moves twice."""
        steps: list[PodMove] = []
        for pod in pods:
            node = self._taker(pod)
            if node is None:
                found = self.moves(Goal(pod.requests[self.resource], 1), guest=pod)
                for step in found:
                    self.layout.remove(step.pod, step.source)
                    self.layout.add(step.pod, step.target)
                    self.settled.add(id(step.pod))
                steps += found
                node = self._taker(pod) if found else None
            if node is not None:
                self.layout.add(pod, node)
                self.settled.add(id(pod))
                self.wanted.append((pod, node))
        return steps

    def _fit(self, pod: Pod) -> Fit:
        return Fit(pod, self.layout, self.resource)

    def _taker(self, pod: Pod) -> str | None:
        """The node that takes a pod as things are, the one with the fewest GPUs free."""
        fit = self._fit(pod)
        nodes = [n.node for n in self.found.nodes if not fit.refusals(n.node)]
        return min(nodes, key=lambda n: (self.layout.room(n, self.resource), n.name)).name if nodes else None


def replace_count(problem: Problem, count: int) -> Problem:
    """The same problem with another count."""
    return replace(problem, goal=Goal(problem.goal.slot_size, count))
