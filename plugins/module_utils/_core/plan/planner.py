# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""From a cluster and a wish to a plan: what may move, where to, in which waves, and what that gains."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from ..audit.measures import AuditOptions, Fragmentation, measure
from ..cluster.layout import Layout
from ..cluster.pools import GpuNode, Survey, survey
from ..cluster.scheduling import Fit
from ..errors import InputError
from ..kube.model import Cluster, Pod
from . import exact
from .evictable import Rules, Stay, staying
from .heuristic import Outcome, lower_bound, options, solve
from .problem import Goal, Problem, formulate
from .schedule import Limits, PodMove, in_waves, ordered

COLD_START = 180.0
"""Seconds from scheduled to Ready that a pod costs where nothing is known: a 70B model takes about so long."""
EXACT_SIZE = 40_000
"""Up to so many kinds times nodes ``auto`` lets the exact solver look."""
ROUNDS = 20
"""So often a plan is made anew because the scheduler would refuse one of its moves for what other pods are there."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is wished, and within what.

    Attributes:
        kind: slots, free_nodes or blocked_pods.
        slot_size: GPUs of a slot; not looked at otherwise.
        count: How many more slots or nodes; None for as many as can be had.
        max_evictions: No plan evicts more; None for no such limit.
        min_nodes_freed: A plan that frees fewer nodes is not worth it.
        across_products: A pod that names no product may go to another pool.
        cold_start: Seconds by workload (``namespace/name``); ``default`` for all others.
        solver: auto, heuristic or exact.
        time_limit: Seconds for the exact solver.
    """

    audit: AuditOptions = AuditOptions()  # noqa: RUF009 - frozen
    kind: str = "slots"
    slot_size: int = 8
    count: int | None = None
    max_evictions: int | None = None
    min_nodes_freed: int = 0
    rules: Rules = Rules()  # noqa: RUF009 - frozen
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    across_products: bool = False
    cold_start: Mapping[str, float] = field(default_factory=dict)
    solver: str = "auto"
    time_limit: float = 30.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be planned.

        Raises:
            InputError: A number is below what makes sense, or the exact solver is asked for and not installed.
        """
        for name, value, least in (
            ("objective.slot_size", self.slot_size, 1),
            ("objective.count", 1 if self.count is None else self.count, 1),
            ("max_evictions", 0 if self.max_evictions is None else self.max_evictions, 0),
            ("min_nodes_freed", self.min_nodes_freed, 0),
            ("time_limit", self.time_limit, 0),
        ):
            if value < least:
                raise InputError(f"is {value}; it must be at least {least}", field=name)
        if self.solver == "exact" and not exact.available():
            raise InputError(
                "exact needs the Python package ortools where the module runs; install it, or take auto", field="solver"
            )


@dataclass(slots=True)
class Plan:
    """A plan, or why there is none.

    Attributes:
        waves: Moves that may be in flight together, wave after wave.
        wanted: Pending pods that the plan makes room for, and the node of each.
        stays: Pods that must stay, and why.
        bound: No plan reaches the same with fewer evictions.
        proved: The evictions are the fewest possible.
        cold_start: Seconds from scheduled to Ready of all the pods moved.
    """

    options: PlanOptions
    verdict: str
    message: str
    before: Fragmentation
    after: Fragmentation
    nodes: list[GpuNode]
    waves: list[list[PodMove]]
    wanted: list[tuple[Pod, str]]
    stays: list[tuple[Pod, Stay]]
    kept: list[tuple[str, str]]
    gained: int
    bound: int
    proved: bool
    cold_start: float
    solver: str
    notes: list[str]

    @property
    def moves(self) -> list[PodMove]:
        """All moves in order."""
        return [move for wave in self.waves for move in wave]

    @property
    def plan_id(self) -> str:
        """The same for the same plan for the same pods."""
        told = [[(m.pod.uid, str(m.pod), m.source, m.target) for m in wave] for wave in self.waves]
        nodes = [(n.node.name, n.allocated, n.gpus) for n in self.nodes]
        text = json.dumps([told, nodes, self.verdict], separators=(",", ":"))
        return f"p-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class _Planner:
    """What the steps of planning share."""

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

    def best(self, problem: Problem) -> tuple[Outcome, bool, int]:
        """Moves, whether they are proved the cheapest, and the fewest evictions for what they gain."""
        outcome = self._within_budget(problem, solve(problem))
        bound = lower_bound(problem, options(problem), outcome.gained)
        unit = all(kind.cost == 1.0 for kind in problem.kinds)
        wished = problem.goal.count
        full = outcome.gained == wished if wished is not None else False
        proved = full and unit and len(outcome.moves) <= bound
        small = len(problem.kinds) * len(problem.names) <= EXACT_SIZE
        wanted = self.wish.solver == "exact" or (self.wish.solver == "auto" and small and not proved)
        if not wanted or not exact.available():
            return outcome, unit and len(outcome.moves) <= bound, bound
        self.solver = "exact"
        count = max(outcome.gained, 1) if wished is None else wished
        while True:
            hint = outcome if outcome.gained >= count else None
            proof = exact.solve(problem, count, hint, seconds=self.wish.time_limit, seed=self.wish.seed)
            usable = proof.outcome and ordered(problem, proof.outcome.moves) is not None
            if usable and proof.outcome and self._affordable(proof.outcome):
                outcome, proved = proof.outcome, proof.optimal
                bound = max(bound if outcome.gained == count else 0, ceil(proof.bound - 1e-6) if unit else 0)
                if wished is None:
                    count += 1
                    continue
            elif wished is not None and count > outcome.gained + 1 and not usable:
                # What was wished cannot be had: look for the most that can.
                count -= 1
                continue
            return outcome, proved and unit, min(bound, len(outcome.moves)) if unit else bound

    def _affordable(self, outcome: Outcome) -> bool:
        most = self.wish.max_evictions
        return most is None or len(outcome.moves) <= most

    def _within_budget(self, problem: Problem, outcome: Outcome) -> Outcome:
        """Less is aimed at where the plan would evict more than it may."""
        low, high = 0, outcome.gained
        best = Outcome([], 0, 0.0)
        if self._affordable(outcome):
            return outcome
        while low < high - 1:
            middle = (low + high) // 2
            found = solve(replace_count(problem, middle))
            if self._affordable(found) and found.gained >= middle:
                best, low = found, middle
            else:
                high = middle
        return best

    def moves(self, goal: Goal, guest: Pod | None = None) -> list[PodMove]:
        """Moves for a goal that the scheduler would make, every one of them when its turn comes."""
        problem = self.formulate(goal, guest)
        for _round in range(ROUNDS):
            outcome, proved, bound = self.best(problem)
            steps = ordered(problem, outcome.moves)
            if steps is None:
                self.notes.append("some moves wait for one another; the plan aims at less")
                problem = replace_count(problem, max(0, outcome.gained - 1))
                continue
            if torn := self._torn(steps):
                # All members move or none; not all of this gang would.
                self.settled |= {id(pod) for pod in torn}
                problem = self.formulate(goal, guest)
                continue
            refused = self._refused(steps)
            if refused is None:
                self.gained += outcome.gained
                self.bound += bound
                self.proved = self.proved and proved
                return steps
            kind, target = refused
            problem.kinds[kind].nodes -= {problem.names.index(target)}
        self.notes.append(f"after {ROUNDS} plans the scheduler would still refuse a move for what other pods are there")
        return []

    def _torn(self, steps: list[PodMove]) -> tuple[Pod, ...]:
        """The members of a gang of which the moves take some and leave some."""
        moved = {id(step.pod) for step in steps}
        torn = (members for members in self.staying.gangs.values() if 0 < sum(id(pod) in moved for pod in members) < len(members))
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


def make_plan(cluster: Cluster, wish: PlanOptions) -> Plan:
    """Plan for a cluster; always a plan, if one without moves that says why."""
    before = measure(cluster, wish.audit)
    planner = _Planner(cluster, wish)
    steps = _steps(planner, before)
    freed = {step.source for step in steps}
    waves = in_waves(Layout(cluster), wish.audit.resource, steps, wish.limits, planner.staying.begin)
    after_cluster = _after(cluster, steps, planner.wanted)
    after = measure(after_cluster, wish.audit)
    emptied = [n for n in after.survey.nodes if n.node.name in freed and not n.pods]
    verdict, message = _verdict(planner, before, steps, len(emptied), len(waves))
    if verdict != "Recommended":
        waves, after, planner.wanted = [], before, []
    gpu_pods = [pod for node in planner.found.nodes for pod in node.pods]
    return Plan(
        options=wish,
        verdict=verdict,
        message=message,
        before=before,
        after=after,
        nodes=planner.found.nodes,
        waves=waves,
        wanted=planner.wanted,
        stays=[(pod, planner.stays[id(pod)]) for pod in sorted(gpu_pods, key=str) if id(pod) in planner.stays],
        kept=_kept(planner, freed),
        gained=planner.gained if waves else 0,
        bound=planner.bound if waves else 0,
        proved=planner.proved and bool(waves),
        cold_start=sum(planner.cold_start(move.pod) for wave in waves for move in wave),
        solver=planner.solver,
        notes=[*before.notes, *planner.notes, *(reason.message for reason in before.unsuited)],
    )


def _steps(planner: _Planner, before: Fragmentation) -> list[PodMove]:
    wish = planner.wish
    if wish.kind == "blocked_pods":
        blocked = sorted(before.blocked, key=lambda o: (-o.pod.priority, -o.gpus, o.pod.namespace, o.pod.name))
        return planner.make_room([outlook.pod for outlook in blocked][: wish.count])
    return planner.moves(Goal(wish.slot_size if wish.kind == "slots" else None, wish.count))


def _after(cluster: Cluster, steps: list[PodMove], wanted: list[tuple[Pod, str]]) -> Cluster:
    """The cluster once all has happened."""
    target = {id(step.pod): step.target for step in steps} | {id(pod): node for pod, node in wanted}
    bound: dict[str, list[Pod]] = defaultdict(list, {name: [] for name in cluster.nodes})
    for pods in cluster.bound.values():
        for pod in pods:
            moved = replace(pod, node=target[id(pod)]) if id(pod) in target else pod
            bound[moved.node].append(moved)
    for pod, node in wanted:
        bound[node].append(replace(pod, node=node))
    return replace(cluster, bound=dict(bound), pending=[pod for pod in cluster.pending if id(pod) not in target])


def _verdict(planner: _Planner, before: Fragmentation, steps: list[PodMove], freed: int, waves: int) -> tuple[str, str]:
    """The verdict, and in a sentence what it means here."""
    wish = planner.wish
    if not before.total.nodes or not before.mix:
        why = before.unsuited[0].message if before.unsuited else "no pod asks for GPUs"
        return "NotApplicable", why
    if not steps and not planner.wanted:
        return _why_none(planner, before)
    if freed < wish.min_nodes_freed:
        return "BelowGoal", f"the plan frees {_nodes(freed)}, fewer than the {wish.min_nodes_freed} that make it worth while"
    what = {
        "slots": f"gain {planner.gained} slot{'s' if planner.gained != 1 else ''} of {wish.slot_size} GPUs",
        "free_nodes": f"free {_nodes(freed)}",
        "blocked_pods": f"make room for {len(planner.wanted)} of {len(before.blocked)} blocked pods",
    }[wish.kind]
    short = ""
    if wish.kind != "blocked_pods" and wish.count is not None and planner.gained < wish.count:
        short = f"; {wish.count} were wished, no more were found"
    evictions = f"{len(steps)} eviction{'s' if len(steps) != 1 else ''} in {waves} wave{'s' if waves != 1 else ''}"
    return "Recommended", f"{evictions} {what}{short}"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _why_none(planner: _Planner, before: Fragmentation) -> tuple[str, str]:
    wish = planner.wish
    if wish.kind == "blocked_pods":
        if not before.blocked:
            return "NoFragmentation", "no pod is blocked"
        return "Blocked", f"no moves make room for any of the {len(before.blocked)} blocked pods"
    if wish.kind == "slots":
        lost = sum(node.free % wish.slot_size for node in planner.found.nodes)
        if lost < wish.slot_size:
            return "NoFragmentation", f"{lost} GPUs lie outside slots of {wish.slot_size}: too few for one more"
    elif not any(node.allocated and node.free for node in planner.found.nodes):
        return "NoFragmentation", "every node is full or empty"
    staying_pods = sum(id(pod) in planner.stays for node in planner.found.nodes for pod in node.pods)
    pods = sum(len(node.pods) for node in planner.found.nodes)
    why = f"{staying_pods} of {pods} GPU pods must stay" if staying_pods else "what would have to move finds no room elsewhere"
    return "Blocked", f"nothing can be gained: {why}"


def _kept(planner: _Planner, freed: set[str]) -> list[tuple[str, str]]:
    """Nodes with some GPUs free that give none of their pods, and what holds them."""
    found = []
    for node in planner.found.nodes:
        if node.node.name in freed or not node.free or not node.allocated:
            continue
        held = [(pod, planner.stays[id(pod)]) for pod in node.pods if id(pod) in planner.stays]
        if held:
            pod, stay = held[0]
            more = f", and {len(held) - 1} more" if len(held) > 1 else ""
            found.append((node.node.name, f"{pod} stays: {stay.detail}{more}"))
    return found
