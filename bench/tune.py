# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hours of cluster time under the law of the rate, beside a fixed rate: ``make bench-tune``.

The plans are the planner's, wave after wave, as the playbooks make them: a wave lasts until its pods are Ready, and the next plan
is made of what is there then. Nothing else happens to the cluster. A decision is made every minute and before each plan.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The collection under the name that Ansible gives it; make setup links the repository there.
sys.path.insert(0, str(ROOT / ".venv/collections"))

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import (  # noqa: E402
    Ended,
    Flight,
    Run,
    State,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Cluster, Pod  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.planner import make_plan  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits, PodMove  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.workloads import workload_of  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES, Bounds  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate import law  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.observe import observe  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import ColdStart  # noqa: E402

STATES = ("gpu200-1", "gpu200-2", "gpu200-3", "openb-1213")
COLD_START = 180.0
TICK = 60.0
SLOT = 8
GOAL = 0.9
COOL_DOWN = 86400.0
FIXED = Limits(per_node=1, per_namespace=5, per_workload=1, total=5, interval_seconds=300)
AUDIT = AuditOptions(slot_size=SLOT)


@dataclass
class World:
    """A cluster in which pods are cold for a while after they were moved, and a clock.

    Attributes:
        ready_at: By uid, when a pod that was moved is Ready again.
        moved: By uid, until when a pod that was moved is left alone.
        coldest: The most pods that were cold at any moment.
        evictions: Pods that were moved so far.
    """

    cluster: Cluster
    now: float
    moves: State = field(default_factory=State)
    ready_at: dict[str, float] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    coldest: int = 0
    evictions: int = 0

    @property
    def slots(self) -> int:
        gpus = AUDIT.resource
        free = (
            node.allocatable.get(gpus, 0) - sum(pod.requests.get(gpus, 0) for pod in self.cluster.bound[name])
            for name, node in self.cluster.nodes.items()
        )
        return sum(max(0, each) // SLOT for each in free)

    def evict(self, wave: list[PodMove]) -> None:
        """All pods of a wave leave, and come at once where they should, cold."""
        flights = []
        for move in wave:
            came = replace(move.pod, node=move.target, uid=f"{move.pod.uid}+", ready=False, created=self.now)
            self.cluster.bound[move.source] = [pod for pod in self.cluster.bound[move.source] if pod is not move.pod]
            self.cluster.bound[move.target].append(came)
            self.ready_at[came.uid] = self.now + COLD_START
            self.moved[came.uid] = self.now + COOL_DOWN
            told = Move(came.namespace, came.name, came.uid, str(came.owner), 0, move.source, move.target)
            flights.append(Flight(told, workload_of(came), self.now))
        self.moves.run = Run("p", 0, self.now, flights)
        self.evictions += len(wave)
        self.coldest = max(self.coldest, sum(not pod.ready for pod in self.pods()))

    def pass_to(self, moment: float) -> None:
        """Let time pass: who has been cold for long enough is Ready."""
        self.now = self.cluster.now = moment
        for pod in self.pods():
            if not pod.ready and self.ready_at[pod.uid] <= moment:
                pod.ready = True
        run = self.moves.run
        if run and run.begun + COLD_START <= moment:
            self.moves.ended.append(Ended(moment, len(run.flights), 0, 0))
            self.moves.run = None

    def pods(self) -> Iterator[Pod]:
        for pods in self.cluster.bound.values():
            yield from (pod for pod in pods if AUDIT.resource in pod.requests)


@dataclass
class Tuner:
    """Decisions, one after the other."""

    world: World
    bounds: Bounds
    state: law.State | None = None

    def tick(self) -> law.Decision:
        seen = observe(self.world.cluster, AUDIT, self.world.moves, self.state.judged if self.state else 0.0)
        # The states are of a trace and tell no starts; nor did they list budgets, of which there are none.
        seen = replace(seen, cold_start=ColdStart(COLD_START, COLD_START), budget_headroom=seen.gpu_pods, unknown={})
        decision = law.decide(seen, self.bounds, self.state, self.world.now)
        self.state = decision.state
        return decision


@dataclass(frozen=True)
class Outcome:
    """What came of one way.

    Attributes:
        waves: How many there were.
        evictions: Pods that were moved until the goal, and the seconds it took.
        slots: Slots gained in the end, and those that could be.
        coldest: The most pods that were cold at any moment, and those that may be.
    """

    waves: int
    evictions: int
    seconds: float
    slots: int
    possible: int
    coldest: int
    may: int

    @property
    def least(self) -> float:
        """Seconds in which as many pods can be moved with all that may be cold, cold all the time."""
        return self.evictions * COLD_START / self.may

    def row(self, name: str) -> str:
        times = f"{self.seconds / 60:.0f} | {self.least / 60:.0f} | {self.seconds / self.least:.2f}"
        gained = f"{self.slots} of {self.possible} | {self.evictions} | {self.waves}"
        return f"| {name} | {gained} | {times} | {self.coldest} of {self.may} |"


def world_of(name: str) -> World:
    """A bundled state, all of whose pods are Ready."""
    with gzip.open(ROOT / "examples" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        cluster = decode([json.load(file)], now=1_800_000_000.0)
    for pods in cluster.bound.values():
        for pod in pods:
            pod.ready = True
    return World(cluster, 1_800_000_000.0)


def planned(world: World, limits: Limits) -> list[list[PodMove]]:
    """The waves of a plan for as many slots as can be had."""
    rules = Rules(movable_singletons=True, cooling=world.moved)
    wish = PlanOptions(audit=AUDIT, slot_size=SLOT, limits=limits, rules=rules, solver="heuristic")
    return make_plan(world.cluster, wish).waves


def gain(world: World) -> int:
    """Slots that a plan without limits gains."""
    wish = PlanOptions(audit=AUDIT, slot_size=SLOT, rules=Rules(movable_singletons=True), solver="heuristic")
    return make_plan(world.cluster, wish).gained


def following(world: World, tuner: Tuner | None) -> Iterator[list[PodMove]]:
    """The waves, each of a plan of its own by the limits of its time; at the fixed rate those of one plan."""
    if tuner is None:
        yield from planned(world, FIXED)
        return
    while waves := planned(world, Limits(**asdict(tuner.tick().limits))):
        yield waves[0]


def run(name: str, bounds: Bounds | None, *, settled: bool = True) -> Outcome:
    """Defragment a state.

    Args:
        name: Of the state.
        bounds: Of the law; None for the fixed rate.
        settled: Whether decisions have been made for some time before the first pod is moved.
    """
    world = world_of(name)
    possible, had = gain(world), world.slots
    tuner = Tuner(world, bounds) if bounds else None
    while tuner and settled:
        level = tuner.state.level if tuner.state else 0
        found = tuner.tick()
        if found.action == law.Action.HOLD and found.state.level == level and not found.state.agreeing:
            break
        world.pass_to(world.now + TICK)
    began, goal = world.now, (0, 0.0, 0)
    for number, wave in enumerate(following(world, tuner), start=1):
        start = world.now
        world.evict(wave)
        over = start + (COLD_START if tuner else max(COLD_START, FIXED.interval_seconds))
        while tuner and world.now + TICK < over:
            world.pass_to(world.now + TICK)
            tuner.tick()
        world.pass_to(over)
        # The last slot is there once its pods have left, and whole again once they are Ready.
        if not goal[0] and world.slots - had >= ceil(GOAL * possible):
            goal = (world.evictions, start + COLD_START - began, number)
    pods = sum(1 for _pod in world.pods())
    may = law.may_be_cold(pods, bounds or PROFILES["conservative"])
    evictions, seconds, until = goal
    return Outcome(until, evictions, seconds, world.slots - had, possible, world.coldest, may)


def section(name: str) -> list[str]:
    """The lines of one state."""
    world = world_of(name)
    pods, nodes = sum(1 for _pod in world.pods()), len(world.cluster.nodes)
    rows = [run(name, bounds).row(f"`{profile}`") for profile, bounds in PROFILES.items()]
    rows.append(run(name, PROFILES["balanced"], settled=False).row("`balanced`, first decision at the first plan"))
    rows.append(run(name, None).row("fixed, conservative"))
    return [
        f"## {name}",
        "",
        f"{nodes} nodes, {pods} GPU pods.",
        "",
        f"| rate | slots of {SLOT} gained | evictions | waves | minutes | least | ratio | cold at most |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def main() -> None:
    page = [
        "# The rate, simulated",
        "",
        "Written by `make bench-tune`. Plans are the planner's, and a wave lasts until its pods are Ready, each of them",
        f"{COLD_START:.0f} s after it was moved. A decision is made every minute and before each plan; but for the rows that say",
        "otherwise, that has been so for a while before the first pod is moved. Evictions, waves and minutes are those until",
        f"{GOAL:.0%} of the slots are gained that a plan without limits gains. *Least* is what so many evictions take with all",
        "pods that may be cold, cold all the time: evictions × cold start / pods that may be cold. It knows no whole waves, of",
        "which the last takes as long as any. The fixed rate is 1 pod of a node, 5 of a namespace, 1 of a workload and 5 in all",
        "every 5 minutes; its *least* is that of `conservative`, whose bound it passes.",
        "",
        *(line for name in STATES for line in section(name)),
    ]
    text = "\n".join(page[:-1]) + "\n"
    (ROOT / "docs/bench-tune.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
