# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Finding moves: solve, put in order, ask the scheduler's rules of each, and again where they say no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from .problem import Cap, Goal, Problem, formulate
from .release import Option, lower_bound, options
from .schedule import PodMove, in_waves, ordered, refused_at_once, units

COLD_START = 180.0
"""Seconds from scheduled to Ready that a pod costs where nothing is known: a 70B model takes about so long."""
EXACT_SIZE = 40_000
"""Up to so many kinds times nodes ``auto`` lets the exact solver look."""
ROUNDS = 20
"""So often a plan is made anew because the scheduler would refuse one of its moves for what other pods are there; then it
aims at half as much."""
ALONG = -1
"""The kind of a move that no solver chose: of a gang's member that goes along."""


@dataclass(slots=True)
class Found:
    """Moves that the scheduler would make, every one of them when its turn comes.

    Attributes:
        steps: The moves, one after the other.
        waves: The same moves in waves.
        gained: Slots or nodes gained.
        bound: No moves gain as much with fewer evictions.
        proved: Nothing is cheaper.
        wanted: Pending pods that get room, and where.
        solver: Which solver found them.
        notes: What came in the way.
        attempts: So many plans were made until the scheduler refused no move.
    """

    steps: list[PodMove] = field(default_factory=list)
    waves: list[list[PodMove]] = field(default_factory=list)
    gained: int = 0
    bound: int = 0
    proved: bool = True
    wanted: list[tuple[Pod, str]] = field(default_factory=list)
    solver: str = "heuristic"
    notes: list[str] = field(default_factory=list)
    attempts: int = 1


class Search:
    """The way to the moves of a plan: what may go, what it costs, and moves that the scheduler would make.

    Attributes:
        layout: Who is where; what has been settled is already where it goes.
        stays: Why pods must stay, by ``id()``.
        settled: ``id()`` of pods that have their last place.
        seconds: What is left of the exact solver's time.
        problem: The last one that moves were looked for in.
        over_budget: Moves were found that the most evictions do not allow.
        too_dear: ``id()`` of pending pods for which there were only such.
    """

    def __init__(self, cluster: Cluster, wish: PlanOptions) -> None:
        self.cluster = cluster
        self.wish = wish
        self.resource = wish.audit.resource
        self.layout = Layout(cluster)
        self.found: Survey = survey(self.layout, self.resource, wish.audit.selector)
        self.staying = staying(self.layout, wish.rules, wish.limits)
        self.stays = self.staying.stays
        self.settled: set[int] = set()
        self.seconds = wish.time_limit
        self.problem: Problem | None = None
        self.over_budget = False
        self.too_dear: set[int] = set()

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

    def formulate(self, goal: Goal, guest: Pod | None = None, guests: Sequence[Pod] = ()) -> Problem:
        """The problem of the layout as it is now."""
        seen = survey(self.layout, self.resource, self.wish.audit.selector)
        return formulate(
            self.layout,
            seen.nodes,
            self.resource,
            goal,
            stays=self.stays.keys() | self.settled,
            across_products=self.wish.across_products,
            costs=self.costs(),
            guest=guest,
            guests=guests,
            plain=seen.plain,
            gangs=self.staying.gang,
        )

    # Solving.

    def _may_be_exact(self, problem: Problem) -> bool:
        small = self.wish.solver == "auto" and len(problem.kinds) * len(problem.names) <= EXACT_SIZE
        return (self.wish.solver == "exact" or small) and self.seconds > 0 and exact.available()

    def _exact(self, problem: Problem, aim: int, hint: Outcome | None, most: int | None) -> exact.Proof:
        """What the exact solver finds in the time that is left to it."""
        proof = exact.solve(problem, aim, hint, seconds=self.seconds, seed=self.wish.seed, most=most)
        self.seconds -= proof.work
        usable = proof.outcome is not None and ordered(problem, proof.outcome.moves) is not None
        return proof if usable else replace(proof, outcome=None)

    def _best(self, problem: Problem, known: Sequence[Option], most: int | None) -> tuple[Outcome, Found]:
        """Moves for a problem with these options, of at most so many evictions; and how good they are."""
        outcome = self._within(problem, known, most)
        found = Found(gained=outcome.gained, bound=lower_bound(problem, known, outcome.gained))
        unit = all(kind.cost == 1.0 for kind in problem.kinds)
        wished = problem.goal.count
        found.proved = unit and len(outcome.moves) <= found.bound
        # The heuristic moves pods of a gang as if each were alone.
        sure = found.proved and outcome.gained == wished and not any(kind.gang for kind in problem.kinds)
        if not self._may_be_exact(problem) or (self.wish.solver == "auto" and sure):
            return outcome, found
        aim = max(outcome.gained, 1) if wished is None else wished
        climbing = wished is None
        while self.seconds > 0:
            proof = self._exact(problem, aim, outcome if outcome.gained >= aim else None, most)
            if proof.outcome:
                outcome = proof.outcome
                found.solver, found.gained, found.proved = "exact", outcome.gained, unit and proof.optimal
                found.bound = max(lower_bound(problem, known, outcome.gained), ceil(proof.bound - 1e-6) if unit else 0)
                if not climbing:
                    break
                aim += 1
            elif not climbing and aim > (least := max(outcome.gained, 1)):
                # What was wished cannot be had: from what is known upwards to the most that can.
                aim, climbing = least, True
            else:
                break
        found.bound = min(found.bound, len(outcome.moves))
        return outcome, found

    def _within(self, problem: Problem, known: Sequence[Option], most: int | None) -> Outcome:
        """What the heuristic finds; less is aimed at where it would evict more than it may."""
        outcome = solve(problem, known)
        if most is None or len(outcome.moves) <= most:
            return outcome
        self.over_budget = True
        best = self._halved(problem, known, outcome.gained, most)
        if any(kind.cost != 1.0 for kind in problem.kinds):
            # What is cheapest is not what evicts least.
            flat = replace(problem, kinds=[replace(kind, cost=1.0) for kind in problem.kinds])
            fewest = self._halved(flat, options(flat), outcome.gained + 1, most)
            if fewest.gained > best.gained:
                return replace(fewest, cost=sum(problem.kinds[move.kind].cost for move in fewest.moves))
        return best

    def _halved(self, problem: Problem, known: Sequence[Option], high: int, most: int) -> Outcome:
        """The most that is found below a gain within so many evictions."""
        low, best = 0, Outcome([], 0, 0.0)
        while low < high - 1:
            middle = (low + high) // 2
            found = solve(replace_count(problem, middle), known)
            if len(found.moves) <= most and found.gained >= middle:
                best, low = found, middle
            else:
                high = middle
        return best

    # Moves that the scheduler makes.

    def moves(self, goal: Goal, guest: Pod | None = None, spent: int = 0) -> Found:
        """Moves for a goal, so many evictions having been planned before."""
        settled = set(self.settled)
        found = self._moves(goal, guest, spent)
        if found.attempts > 1 and self.problem and self._may_be_exact(self.problem):
            # What the scheduler forbade the exact solver's plans it may not forbid those of the heuristic.
            mine, seconds, self.settled, self.seconds = self.settled, self.seconds, settled, 0.0
            other = self._moves(goal, guest, spent)
            self.seconds = seconds
            if (-other.gained, len(other.steps)) < (-found.gained, len(found.steps)):
                return other
            self.settled = mine
        return found

    def _moves(self, goal: Goal, guest: Pod | None, spent: int) -> Found:
        problem = whole = self.problem = self.formulate(goal, guest)
        certain, known = problem.certain, options(problem)
        most = None if self.wish.most is None else self.wish.most - spent
        notes: list[str] = []
        for attempt in count(1):
            outcome, found = self._best(problem, known, most)
            steps = ordered(problem, outcome.moves)
            if steps is None:
                notes.append("some moves wait for one another; the plan aims at less")
                problem, certain = replace_count(problem, max(0, outcome.gained - 1)), False
                continue
            chosen = len(steps)
            steps, torn = self._with_gangs(steps, problem, most)
            if not torn:
                steps, refused, cap = self._in_turn(steps, problem)
                torn = () if cap or not refused else self.staying.members(refused.pod)
            if torn:
                self.settled |= {id(pod) for pod in torn}
                problem, certain = self.formulate(problem.goal, guest), False
                known = options(problem)
                continue
            waves = None if cap else self._in_waves(steps)
            if cap is None and waves is None:
                # In flight the moves would disturb each other.
                notes.append("some moves would disturb each other; the plan aims at less")
                self.settled |= {id(pod) for step in steps for pod in self.staying.members(step.pod)}
                problem, certain = replace_count(self.formulate(goal, guest), outcome.gained // 2), False
                known = options(problem)
                continue
            if cap is None:
                if not certain:
                    # What other pods forbid now they may not forbid once they have moved.
                    anywhere = replace(whole, gainers=None) if guest else whole
                    found.bound = min(found.bound, lower_bound(anywhere, options(anywhere), outcome.gained))
                found.proved = found.proved and len(steps) in (chosen, found.bound)
                found.steps, found.waves, found.notes, found.attempts = steps, waves or [], notes, attempt
                if len(steps) > chosen and not guest:
                    found.gained = self._gain(steps, problem)
                return found
            certain = False
            problem.caps.append(cap)
            if attempt % ROUNDS == 0:
                notes.append(f"{ROUNDS} plans had a move that other pods forbid; the plan aims at less")
                problem = replace_count(problem, outcome.gained // 2)
        raise AssertionError("what aims at nothing is never refused")

    def _in_waves(self, steps: Sequence[PodMove]) -> list[list[PodMove]] | None:
        return in_waves(self.cluster, self.resource, steps, self.wish.limits, self.staying.begin, self.staying.gang)

    def _gain(self, steps: Sequence[PodMove], problem: Problem) -> int:
        """What the moves gain, with those that went along."""

        def have() -> int:
            found = 0
            for name in problem.names if problem.gainers is None else (problem.names[n] for n in problem.gainers):
                node = self.cluster.nodes[name]
                bare = all(pod.unmovable_companion for pod in self.layout.pods[name])
                gpus = node.allocatable.get(self.resource, 0)
                found += problem.slots(self.layout.room(node, self.resource)) if problem.goal.slot_size else bool(gpus and bare)
            return found

        before = have()
        with self._moved(steps):
            return have() - before

    def _in_turn(self, steps: list[PodMove], problem: Problem) -> tuple[list[PodMove], PodMove | None, Cap | None]:
        """The moves in an order in which the scheduler makes each of them.

        Where there is none: the first that it refuses when all that can go have gone, and what to learn from that; no
        solver can learn of one that only went along.
        """
        done: list[PodMove] = []
        waiting = list(units(steps, self.staying.gang))
        with self._moved(done):
            while waiting:
                left, first = [], None
                for unit in waiting:
                    refused = self._crowded(unit)
                    if refused is None:
                        for step in unit:
                            self.layout.move(step.pod, step.source, step.target)
                            done.append(step)
                    else:
                        first = first or refused
                        left.append(unit)
                if first and len(left) == len(waiting):
                    return list(done), first, None if first.kind == ALONG else self._lesson(first, done, problem)
                waiting = left
        return done, None, None

    def _lesson(self, step: PodMove, done: Sequence[PodMove], problem: Problem) -> Cap:
        """No more pods of the kind to the domain that is closed than have come; to the node alone where it is not a domain's."""
        target = self.cluster.nodes[step.target]
        with self.layout.without(step.pod, step.source):
            closed = [domains for domains in self._fit(step.pod).domains if domains.closes(target)]
        nodes = [self.cluster.nodes[name] for name in problem.names]
        labels = [closed[0].value(node) if closed else node.name for node in nodes]
        here = labels[problem.names.index(step.target)]
        if here is None:
            labels, here = [node.name for node in nodes], target.name
        domain = dict(zip(problem.names, labels, strict=True))
        came = sum(other.kind == step.kind and domain[other.target] == here for other in done)
        return Cap(frozenset((step.kind,)), labels, {here: came}, None)

    def _crowded(self, unit: list[PodMove]) -> PodMove | None:
        """The first of moves made at once of which the scheduler would say no.

        Of a gang all members are still where they were while the first replacements come.
        """
        if len(unit) == 1:
            with self.layout.without(unit[0].pod, unit[0].source):
                return refused_at_once(self.layout, self.resource, unit)
        return refused_at_once(self.layout, self.resource, unit)

    @contextmanager
    def _moved(self, steps: Sequence[PodMove]) -> Iterator[None]:
        """The layout as it is after moves; afterwards it is as before, moves that were added to the list undone too."""
        for step in steps:
            self.layout.move(step.pod, step.source, step.target)
        try:
            yield
        finally:
            for step in reversed(steps):
                self.layout.move(step.pod, step.target, step.source)

    # Gangs.

    def _with_gangs(self, steps: list[PodMove], problem: Problem, most: int | None) -> tuple[list[PodMove], tuple[Pod, ...]]:
        """The moves with every gang that they touch moved whole and at one go; and the members of one that cannot be."""
        for _name, members in sorted(self.staying.gangs.items()):
            moved = {id(step.pod) for step in steps}
            missing = [pod for pod in members if id(pod) not in moved]
            if len(missing) == len(members):
                continue
            more = self._along(steps, missing, problem)
            over = most is not None and more is not None and len(steps) + len(more) > most
            self.over_budget = self.over_budget or over
            if more is None or over:
                return steps, members
            among = {id(pod) for pod in members}
            together = [*(step for step in steps if id(step.pod) in among), *more]
            places = [number for number, step in enumerate(steps) if id(step.pod) in among]
            for place in (places[-1], places[0]):
                before = [step for step in steps[:place] if id(step.pod) not in among]
                after = [step for step in steps[place:] if id(step.pod) not in among]
                told = [*before, *together, *after]
                _steps, refused, _cap = self._in_turn(told, problem)
                if refused is None or id(refused.pod) not in among:
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
                with self.layout.without(pod, pod.node):
                    target = self._spare(pod, left, problem)
                if target is None:
                    break
                self.layout.add(pod, target)
                made.append(PodMove(pod, ALONG, pod.node, target))
            for step in made:
                self.layout.remove(step.pod, step.target)
        return made if len(made) == len(pods) else None

    def _spare(self, pod: Pod, left: set[str], problem: Problem) -> str | None:
        """The node that takes a pod without spoiling what counts, the one with the fewest GPUs to spare."""
        fit, gpus = self._fit(pod), pod.requests.get(self.resource, 0)
        numbers = {name: number for number, name in enumerate(problem.names)}
        found = []
        own = next((n.pool for n in self.found.nodes if n.node.name == pod.node), None)
        at_home = gpus and not self.wish.across_products
        takers = [n.node for n in self.found.nodes if n.usable and n.healthy and (not at_home or n.pool == own)]
        takers += [] if gpus else [node for node in self.found.plain if node.ready and not node.unschedulable]
        for node in takers:
            number = numbers.get(node.name)
            free = tuple(self.layout.room(node, resource) for resource in problem.resources)
            room = 0 if number is None else problem.room(number, free)
            if node.name != pod.node and node.name not in left and problem.part(gpus) <= room and not fit.refusals(node):
                found.append((room, node.name))
        return min(found)[1] if found else None

    # Room for pending pods.

    def make_room(self, pods: list[Pod]) -> Found:
        """Moves that let pending pods in, the first ones first; nothing moves twice."""
        found = self._one_by_one(pods)
        if len(pods) > 1 or len(found.wanted) < len(pods):
            joint = self._jointly(pods, found)
            order = {id(pod): number for number, pod in enumerate(pods)}

            def rank(each: Found) -> tuple[list[int], int]:
                placed = {order[id(pod)] for pod, _node in each.wanted}
                return [number not in placed for number in range(len(pods))], len(each.steps)

            if joint and rank(joint) <= rank(found):
                found = joint
        return found

    def _one_by_one(self, pods: list[Pod]) -> Found:
        """Room for one after the other; each then takes its node."""
        found = Found()
        before = set(self.settled)
        moved: list[Pod] = []
        for pod in pods:
            node = self._taker(pod)
            if node is None:
                self.over_budget = False
                as_at_first = not found.wanted and self.settled == before
                more = self.moves(Goal(pod.requests[self.resource], 1), guest=pod, spent=len(found.steps))
                for step in more.steps:
                    self.layout.move(step.pod, step.source, step.target)
                found.notes += more.notes
                node = self._taker(pod) if more.steps else None
                # All moves together, whether those before have got in by then or not.
                waves = self._in_waves([*found.steps, *more.steps]) if node else None
                if node and waves is not None:
                    self.settled |= {id(step.pod) for step in more.steps}
                    found.steps, found.waves = [*found.steps, *more.steps], waves
                    found.gained += 1
                    # Once others have got in a bound is not one of the cluster any more: they might have gone elsewhere.
                    found.bound, found.solver = more.bound if as_at_first else found.bound, more.solver
                    moved.append(pod)
                else:
                    node = None
                    for step in reversed(more.steps):
                        self.layout.move(step.pod, step.target, step.source)
                    if self.over_budget:
                        self.too_dear.add(id(pod))
            if node is not None:
                self.layout.add(pod, node)
                self.settled.add(id(pod))
                found.wanted.append((pod, node))
        for pod, node in found.wanted:
            self.layout.remove(pod, node)
        for step in reversed(found.steps):
            self.layout.move(step.pod, step.target, step.source)
        self.settled = before
        # Room for one of several pods takes no more evictions than room for them all.
        found.bound = max([found.bound, *map(self._fewest_for, moved)])
        found.proved = len(found.wanted) == len(pods) and len(found.steps) <= found.bound
        return found

    def _fewest_for(self, pod: Pod) -> int:
        """No fewer evictions make room for a pending pod, all others being where they are."""
        problem = self.formulate(Goal(pod.requests[self.resource], 1), guest=pod)
        # What other pods forbid now they may not forbid once they have moved.
        return lower_bound(problem if problem.certain else replace(problem, gainers=None), (), 1)

    def _jointly(self, pods: list[Pod], known: Found) -> Found | None:
        """Room for all at once, or for as many as can be, the first ones first; None where no exact solver looks."""
        if not self._may_be_exact(self.formulate(Goal(None, None), guests=pods)):
            return None
        found = self._all_of(pods)
        if found or self.seconds <= 0:
            return found
        placed: list[Pod] = []
        for pod in pods:
            more = self._all_of([*placed, pod])
            if more:
                found, placed = more, [*placed, pod]
        if found:
            same = {id(pod) for pod, _node in known.wanted} == {id(pod) for pod in placed}
            found.bound = max(found.bound, known.bound if same else 0)
        return found

    def _all_of(self, pods: list[Pod]) -> Found | None:
        """The fewest evictions that let all of these pods in; None where none do, or none are found."""
        problem = self.formulate(Goal(None, None), guests=pods)
        certain = problem.certain
        order = {id(pod): number for number, pod in enumerate(pods)}
        unit = all(kind.cost == 1.0 for kind in problem.kinds if kind.at)
        for _attempt in range(ROUNDS):
            if self.seconds <= 0:
                return None
            proof = self._exact(problem, 0, None, self.wish.most)
            if proof.outcome is None:
                return None
            steps, torn = self._with_gangs(ordered(problem, proof.outcome.moves) or [], problem, self.wish.most)
            if torn:
                self.settled |= {id(pod) for pod in torn}
                problem, certain = self.formulate(Goal(None, None), guests=pods), False
                continue
            steps, refused, cap = self._in_turn(steps, problem)
            if refused is None:
                wanted, cap = self._seated(steps, problem, proof.guests)
                waves = None if cap else self._in_waves(steps)
                if waves is not None:
                    wanted.sort(key=lambda each: order[id(each[0])])
                    bound = ceil(proof.bound - 1e-6) if unit and certain else 0
                    best = proof.optimal and unit and certain
                    return Found(steps, waves, len(pods), min(bound, len(steps)), best, wanted, "exact")
            if cap is None:
                return None
            problem.caps.append(cap)
            certain = False
        return None

    def _seated(
        self, steps: list[PodMove], problem: Problem, places: Sequence[tuple[int, int]]
    ) -> tuple[list[tuple[Pod, str]], Cap | None]:
        """Who takes which node once all have moved; and what to learn where the scheduler would not let one in there."""
        waiting = {number: sorted(kind.guests, key=str) for number, kind in enumerate(problem.kinds)}
        wanted: list[tuple[Pod, str]] = []
        lesson = None
        with self._moved(steps):
            for kind, place in places:
                pod, node = waiting[kind].pop(0), problem.names[place]
                if self._fit(pod).refusals(self.cluster.nodes[node]):
                    came = sum(other == (kind, place) for other in places[: len(wanted)])
                    lesson = Cap(frozenset((kind,)), problem.names, {node: came}, None)
                    break
                self.layout.add(pod, node)
                wanted.append((pod, node))
            for pod, node in wanted:
                self.layout.remove(pod, node)
        return wanted, lesson

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
