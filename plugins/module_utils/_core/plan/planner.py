# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""From a cluster and a wish to a plan: what may move, where to, in which waves, and what that gains."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, replace

from ..audit.measures import Fragmentation, measure
from ..cluster.pools import GpuNode
from ..kube.model import Cluster, Pod
from .evictable import Stay
from .options import PlanOptions
from .problem import Goal
from .schedule import PodMove, in_waves
from .search import Found, Search
from .verdict import held_nodes, verdict_of


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


def make_plan(cluster: Cluster, wish: PlanOptions) -> Plan:
    """Plan for a cluster; always a plan, if one without moves that says why."""
    before = measure(cluster, wish.audit)
    search = Search(cluster, wish)
    found = _found(search, before)
    steps = found.steps
    freed = {step.source for step in steps}
    waves = in_waves(cluster, wish.audit.resource, steps, wish.limits, search.staying.begin, search.staying.gang)
    after_cluster = _after(cluster, steps, found.wanted)
    after = measure(after_cluster, wish.audit)
    emptied = [n for n in after.survey.nodes if n.node.name in freed and not n.pods]
    verdict, message = verdict_of(search, found, before, len(emptied), len(waves))
    if verdict != "Recommended":
        waves, after, found = [], before, Found(solver=found.solver, notes=found.notes)
    gpu_pods = [pod for node in search.found.nodes for pod in node.pods]
    return Plan(
        options=wish,
        verdict=verdict,
        message=message,
        before=before,
        after=after,
        nodes=search.found.nodes,
        waves=waves,
        wanted=found.wanted,
        stays=[(pod, search.stays[id(pod)]) for pod in sorted(gpu_pods, key=str) if id(pod) in search.stays],
        kept=held_nodes(search, freed),
        gained=found.gained if waves else 0,
        bound=found.bound,
        proved=found.proved and bool(waves),
        cold_start=sum(search.cold_start(move.pod) for wave in waves for move in wave),
        solver=found.solver,
        notes=[*before.notes, *search.staying.notes, *found.notes, *(reason.message for reason in before.unsuited)],
    )


def _found(search: Search, before: Fragmentation) -> Found:
    wish = search.wish
    if wish.kind == "blocked_pods":
        blocked = sorted(before.blocked, key=lambda o: (-o.pod.priority, -o.gpus, o.pod.namespace, o.pod.name))
        return search.make_room([outlook.pod for outlook in blocked][: wish.count])
    return search.moves(Goal(wish.slot_size if wish.kind == "slots" else None, wish.count))


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
