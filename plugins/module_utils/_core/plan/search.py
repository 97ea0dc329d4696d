# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Finding moves: solve, put in order, ask the scheduler's rules of each, and again where they say no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from math import ceil

from ..cluster.layout import Layout
from ..cluster.pools import Survey, survey
from ..cluster.scheduling import Fit
from ..kube.model import Cluster, Pod
from . import exact
from .evictable import staying
from .heuristic import solve
from .moves import Outcome
from .options import PlanOptions
from .problem import Goal, Problem, formulate
from .release import Option, lower_bound, options
from .schedule import PodMove, ordered, units

COLD_START = 180.0
"""Seconds from scheduled to Ready that a pod costs where nothing is known: a 70B model takes about so long."""
EXACT_SIZE = 40_000
"""Up to so many kinds times nodes ``auto`` lets the exact solver look."""
ROUNDS = 20
"""So often a plan is made anew because the scheduler would refuse one of its moves for what other pods are there; then it
aims at half as much."""
NO_KIND = -1
"""The kind of a move that no solver chose: of a gang's member that goes along."""


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
        self.staying = staying(self.layout, wish.rules, wish.limits)
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
        aim = max(outcome.gained, 1) if wished is None else wished
        climbing = wished is None
        while True:
            hint = outcome if outcome.gained >= aim else None
            proof = exact.solve(problem, aim, hint, seconds=self.wish.time_limit, seed=self.wish.seed)
            usable = proof.outcome and ordered(problem, proof.outcome.moves) is not None
            if usable and proof.outcome and self._affordable(proof.outcome):
                self.solver, outcome, proved = "exact", proof.outcome, proof.optimal
                bound = max(bound, ceil(proof.bound - 1e-6) if unit else 0)
                if climbing:
                    aim += 1
                    continue
            elif not climbing and aim > (least := max(outcome.gained, 1)):
                # What was wished cannot be had: from what is known upwards to the most that can.
                aim, climbing = least, True
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
        for attempt in count(1):
            outcome, proved, bound = self.best(problem, known)
            steps = ordered(problem, outcome.moves)
            if steps is None:
                self.notes.append("some moves wait for one another; the plan aims at less")
                problem, certain = replace_count(problem, max(0, outcome.gained - 1)), False
                continue
            chosen = len(steps)
            steps, stuck = self._with_gangs(steps, problem)
            refused = self._refused(steps)
            if stuck or (refused and refused[0] == NO_KIND):
                held = stuck or next(pods for pods in self.staying.gangs.values() if refused and refused[2] in pods)
                self.settled |= {id(pod) for pod in held}
                problem, certain = self.formulate(problem.goal, guest), False
                known = options(problem)
                continue
            if refused is None:
                if not certain:
                    # What other pods forbid now they may not forbid once they have moved.
                    anywhere = replace(whole, gainers=None) if guest else whole
                    bound = min(bound, lower_bound(anywhere, options(anywhere), outcome.gained))
                if not self.wanted:
                    # Room for the first of several pods takes no fewer evictions than room for them all.
                    self.bound = max(self.bound, bound)
                    self.proved = self.proved and proved and len(steps) in (chosen, bound)
                self.gained += outcome.gained
                self.evictions += len(steps)
                return steps
            certain = False
            problem.kinds[refused[0]].nodes -= {problem.names.index(refused[1])}
            if attempt % ROUNDS == 0:
                self.notes.append(f"{ROUNDS} plans had a move that other pods forbid; the plan aims at less")
                problem = replace_count(problem, outcome.gained // 2)
        raise AssertionError("what aims at nothing is never refused")

    def _with_gangs(self, steps: list[PodMove], problem: Problem) -> tuple[list[PodMove], tuple[Pod, ...]]:
        """The moves with every gang that they touch moved whole and at one go; and the members of one that cannot be."""
        for _name, members in sorted(self.staying.gangs.items()):
            moved = {id(step.pod) for step in steps}
            missing = [pod for pod in members if id(pod) not in moved]
            if len(missing) == len(members):
                continue
            more = self._along(steps, missing, problem)
            most = self.wish.max_evictions
            if more is None or (most is not None and self.evictions + len(steps) + len(more) > most):
                return steps, members
            among = {id(pod) for pod in members}
            together = [*(step for step in steps if id(step.pod) in among), *more]
            places = [number for number, step in enumerate(steps) if id(step.pod) in among]
            for place in (places[-1], places[0]):
                before = [step for step in steps[:place] if id(step.pod) not in among]
                after = [step for step in steps[place:] if id(step.pod) not in among]
                told = [*before, *together, *after]
                refused = self._refused(told)
                if refused is None or id(refused[2]) not in among:
                    break
            else:
                return steps, members
            steps = told
        return steps, ()

    def _along(self, steps: list[PodMove], pods: list[Pod], problem: Problem) -> list[PodMove] | None:
        """Places for pods that must go along once all else has moved, tightest first; None where one finds none."""
        made: list[PodMove] = []
        left = {step.source for step in steps}
        with self._moved(steps):
            for pod in sorted(pods, key=lambda pod: (-pod.requests.get(self.resource, 0), pod.namespace, pod.name)):
                self.layout.remove(pod, pod.node)
                target = self._spare(pod, left, problem)
                self.layout.add(pod, pod.node)
                if target is None:
                    break
                self.layout.add(pod, target)
                made.append(PodMove(pod, NO_KIND, pod.node, target))
            for step in made:
                self.layout.remove(step.pod, step.target)
        return made if len(made) == len(pods) else None

    def _spare(self, pod: Pod, left: set[str], problem: Problem) -> str | None:
        """The node that takes a pod without spoiling what counts, the one with the fewest GPUs to spare."""
        fit, gpus = self._fit(pod), pod.requests.get(self.resource, 0)
        found = []
        for number, name in enumerate(problem.names):
            node = self.cluster.nodes[name]
            room = problem.room(number, tuple(self.layout.room(node, resource) for resource in problem.resources))
            if name != pod.node and name not in left and gpus <= room and not fit.refusals(node):
                found.append((room, name))
        return min(found)[1] if found else None

    def _refused(self, steps: list[PodMove]) -> tuple[int, str, Pod] | None:
        """The kind, node and pod of the first move of which the scheduler would say no, other pods being where they then are.

        Of a gang all members are still where they were while the first replacements come.
        """
        done: list[PodMove] = []
        with self._moved(done):
            for unit in units(steps, self.staying.gang):
                refused = self._crowded(unit)
                if refused:
                    return refused.kind, refused.target, refused.pod
                for step in unit:
                    self.layout.remove(step.pod, step.source)
                    self.layout.add(step.pod, step.target)
                    done.append(step)
        return None

    def _crowded(self, unit: list[PodMove]) -> PodMove | None:
        """The first of moves made at once of which the scheduler would say no."""
        if len(unit) == 1:
            (step,) = unit
            self.layout.remove(step.pod, step.source)
            taken = not self._fit(step.pod).refusals(self.cluster.nodes[step.target])
            self.layout.add(step.pod, step.source)
            return None if taken else step
        made: list[PodMove] = []
        refused = None
        for step in unit:
            if self._fit(step.pod).refusals(self.cluster.nodes[step.target]):
                refused = step
                break
            self.layout.add(step.pod, step.target)
            made.append(step)
        for step in made:
            self.layout.remove(step.pod, step.target)
        return refused

    @contextmanager
    def _moved(self, steps: list[PodMove]) -> Iterator[None]:
        """The layout as it is after moves; afterwards it is as before, moves that were added to the list undone too."""
        for step in steps:
            self.layout.remove(step.pod, step.source)
            self.layout.add(step.pod, step.target)
        try:
            yield
        finally:
            for step in reversed(steps):
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
