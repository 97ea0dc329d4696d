# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wave: what it is on the cluster as it is, and how it is carried out, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.execution import steer
from .._core.execution.breaker import Bounds, tripped
from .._core.execution.landing import Landing
from .._core.execution.order import Move, Order
from .._core.execution.record import Flight, Run
from .._core.execution.verify import pods_of
from .._core.kube.model import Cluster
from .._core.plan.gangs import gang_of
from .._core.plan.workloads import Workloads, active_pods, wished, workload_of
from .actions import Actions
from .arrivals import Arrivals
from .departures import Departures
from .journal import Journal
from .manner import Manner
from .nodes import Nodes
from .waiting import asked_to_stop


class Wave:
    """A wave that can be carried out, and nothing of it done yet.

    Args:
        order: The plan.
        number: Which of its waves, from 0.
        manner: How it is to be carried out.
        cluster: As it is now.

    Attributes:
        pods: The pod of each move.
        steps: Moves whose pods leave together, one step after the other.
        known: Uids of the pods that each workload has by now.
    """

    def __init__(self, order: Order, number: int, manner: Manner, cluster: Cluster) -> None:
        moves, workloads = order.waves[number], Workloads(cluster)
        self.order = order
        self.number = number
        self.pods = pods_of(cluster, moves)
        self._manner = manner
        self._cluster = cluster
        told = {id(pod): gang_of(pod, workloads.of(pod)) for pod in self.pods.values()}
        gangs = {pod: gang for pod, gang in told.items() if gang}
        alone = {move for move, pod in self.pods.items() if wished(workload_of(pod), manner.surging)}
        self.steps = steer.steps(cluster, self.pods, moves, order.resource, gangs=gangs, alone=alone)
        self.known: dict[str, list[str]] = {}
        for pod in active_pods(cluster):
            self.known.setdefault(workload_of(pod), []).append(pod.uid)

    def __str__(self) -> str:
        return f"wave {self.number + 1} of {len(self.order.waves)}"

    def lead(self, step: Sequence[Move]) -> steer.Lead:
        """Which nodes are to repel the pods of a step."""
        order, nodes = self.order, self._cluster.nodes
        if self._manner.steering == "soft_taints":
            stakes = steer.Stakes.of(order, self.number)
            return steer.lead(self._cluster, self.pods, step, order.resource, stakes)
        closed = {move.source for move in self.pods if not nodes[move.source].unschedulable}
        return steer.Lead(frozenset(closed if self._manner.steering == "cordon" else ()), frozenset())

    def notes(self) -> list[str]:
        """Which pods cannot be led."""
        if self._manner.steering != "soft_taints":
            return []
        free = [pod for pod in self.pods.values() if steer.unsteerable(pod)]
        return [f"{pod} tolerates every soft taint: where it goes is the scheduler's choice" for pod in free]

    def begun(self, now: float) -> Run:
        """The wave, as it is remembered once it is begun."""
        waiting = {pod.uid: pod.namespace for pod in self._cluster.pending if self.order.resource in pod.requests}
        return Run(self.order.plan_id, self.number, now, waiting=waiting)


class Carrier:
    """Carries waves out, and finishes what a run that died has begun."""

    def __init__(
        self, actions: Actions, bounds: Bounds, journal: Journal, nodes: Nodes, departures: Departures, arrivals: Arrivals
    ) -> None:
        self._actions = actions
        self._bounds = bounds
        self._journal = journal
        self._nodes = nodes
        self._departures = departures
        self._arrivals = arrivals

    def carry_out(self, wave: Wave) -> None:
        """Carry out a wave, until all is done or something stops it."""
        outcome, state, now = self._journal.outcome, self._journal.state, self._actions.now()
        outcome.wave = wave.number + 1
        outcome.notes += wave.notes()
        state.plan_id, state.waves_done = wave.order.plan_id, wave.number
        state.run = run = wave.begun(now)
        for number, step in enumerate(wave.steps):
            if number and (stop := asked_to_stop(self._actions)):
                outcome.stop(*stop)
                break
            self._step(run, wave, step)
            if outcome.stopped:
                break
        self._see_through(run, len(wave.pods))
        if outcome.evicted:
            state.last_wave, state.last_end = now, self._actions.now()
        state.count("planned", len(wave.pods))
        if not outcome.stopped:
            state.waves_done = wave.number + 1
            outcome.done = state.waves_done == len(wave.order.waves)
            outcome.message = f"{wave} is carried out"
        state.run = None

    def recover(self, run: Run) -> None:
        """Finish, or undo, what a run left that died: what has left is waited for, what has not stays."""
        outcome, state, moves = self._journal.outcome, self._journal.state, len(run.flights)
        self._departures.recover(run)
        gone = self._see_through(run, moves)
        outcome.recovered = [landing.flight.move.told() for landing in gone]
        if gone:
            state.last_wave, state.last_end = run.begun, self._actions.now()
        state.run = None
        self._journal.save()

    def _step(self, run: Run, wave: Wave, step: Sequence[Move]) -> None:
        """Have the pods of a step leave, and wait until it is known where those go that come."""
        lead = wave.lead(step)
        self._journal.outcome.steering.append(sorted(lead.repel))
        self._nodes.steer(lead.repel, {move.target for move in step})
        flights = [self._flight(wave, move, loose=move in lead.loose) for move in step]
        run.flights += flights
        run.avoided = tuple(sorted(self._nodes.tainted)) if any(flight.loose for flight in run.flights) else ()
        # Before anything is done, so that the next run knows of it if this one dies.
        self._journal.save()
        self._departures.leave(run, flights)
        if not self._journal.outcome.stopped:
            self._judge(self._arrivals.wait(run, lambda landing: landing.bound), len(wave.pods))

    def _flight(self, wave: Wave, move: Move, *, loose: bool) -> Flight:
        pod = wave.pods[move]
        workload = workload_of(pod)
        flight = Flight(move, workload, self._actions.now(), tuple(sorted(wave.known.get(workload, ()))), loose=loose)
        self._departures.note(flight, pod)
        return flight

    def _see_through(self, run: Run, moves: int) -> list[Landing]:
        """Wait for the pods that are on their way, and note what came of them."""
        found = self._arrivals.wait(run, lambda landing: landing.over)
        self._judge(found, moves)
        self._journal.settle(found)
        return found

    def _judge(self, found: Sequence[Landing], moves: int) -> None:
        if trip := tripped(found, moves, self._bounds):
            self._journal.outcome.stop(*trip)
