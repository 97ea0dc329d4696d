# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""From a cluster and a wish to a plan: what may move, where to, in which waves, and what that gains."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, replace

from ..audit.measures import Fragmentation, measure
from ..cluster.layout import Layout
from ..cluster.pools import GpuNode
from ..kube.model import Cluster, Pod
from .evictable import Stay
from .options import PlanOptions
from .problem import Goal
from .schedule import PodMove
from .search import Found, Search
from .unplaced import Unplaced, unknown, unplaced, urgent_first
from .verdict import held_nodes, holders, verdict_of, why


@dataclass(slots=True)
class Plan:
    """A plan, or why there is none.

    Attributes:
        waves: Moves that may be in flight together, wave after wave.
        wanted: Pending pods that the plan makes room for, and the node of each.
        unplaced: Blocked pods that it makes no room for, and why.
        stays: Pods that must stay or have nowhere to go, and why.
        bound: No plan reaches the same with fewer evictions.
        proved: The evictions are the fewest possible.
        cold_start: Seconds from scheduled to Ready of all the pods moved.
        made: When the cluster was as it was read, in seconds since 1970; None where no time is known.
    """

    options: PlanOptions
    verdict: str
    message: str
    before: Fragmentation
    after: Fragmentation
    nodes: list[GpuNode]
    waves: list[list[PodMove]]
    wanted: list[tuple[Pod, str]]
    unplaced: list[Unplaced]
    stays: list[tuple[Pod, Stay]]
    kept: list[tuple[str, str]]
    gained: int
    bound: int
    proved: bool
    cold_start: float
    solver: str
    notes: list[str]
    made: float | None

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
    sources = {step.source for step in steps}
    waves = found.waves
    after_cluster = _after(cluster, steps, found.wanted)
    after = measure(after_cluster, wish.audit) if steps or found.wanted else before
    emptied = [n for n in after.survey.nodes if n.node.name in sources and not n.pods]
    worth = bool(found.wanted if wish.kind == "blocked_pods" else steps) and len(emptied) >= wish.min_nodes_freed
    if not worth:
        waves, after, after_cluster, sources = [], before, cluster, set()
    lacking = unplaced(search, found, before, after, carried_out=worth) if wish.kind == "blocked_pods" else []
    reasons = why(search, Layout(after_cluster), steps if worth else (), lacking)
    verdict, message = verdict_of(search, found, before, len(emptied), len(waves), reasons)
    if not worth:
        found = Found(solver=found.solver, notes=found.notes)
    pods = {id(pod): pod for node in search.found.nodes for pod in (*node.pods, *holders(search, node))}
    return Plan(
        options=wish,
        verdict=verdict,
        message=message,
        before=before,
        after=after,
        nodes=search.found.nodes,
        waves=waves,
        wanted=found.wanted,
        unplaced=reasons.unplaced,
        stays=[(pod, reasons.stays[id(pod)]) for pod in sorted(pods.values(), key=str) if id(pod) in reasons.stays],
        kept=held_nodes(search, reasons, sources),
        gained=found.gained if waves else 0,
        bound=found.bound,
        proved=found.proved and bool(waves),
        cold_start=sum(search.cold_start(move.pod) for wave in waves for move in wave),
        solver=found.solver,
        notes=[
            *before.notes,
            *search.staying.notes,
            *found.notes,
            *_notes(waves),
            *(reason.message for reason in before.unsuited),
        ],
        made=cluster.now,
    )


def _found(search: Search, before: Fragmentation) -> Found:
    wish = search.wish
    if wish.kind == "blocked_pods":
        known = [pod for pod in urgent_first(before) if unknown(pod, search.cluster) is None]
        return search.make_room(known[: wish.count])
    return search.moves(Goal(wish.slot_size if wish.kind == "slots" else None, wish.count))


def _notes(waves: list[list[PodMove]]) -> list[str]:
    """What was not looked at of the pods that move."""
    attached = sum(bool(move.pod.placement.volume_claims) for wave in waves for move in wave)
    if not attached:
        return []
    have = "1 pod that moves has" if attached == 1 else f"{attached} pods that move have"
    return [f"{have} PersistentVolumeClaims: how many volumes their nodes can still attach was not looked at"]


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
