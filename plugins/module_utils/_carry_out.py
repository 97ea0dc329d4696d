# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One wave of a plan, carried out: what the core decides, in the order in which it may be done, and cleaned up after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ._actions import LEASE_SECONDS, Actions, Answer, LeaseLostError, Leaving
from ._core.audit.measures import AuditOptions, measure
from ._core.cluster.layout import Layout
from ._core.errors import InputError
from ._core.execution import reclaim, steer, surge
from ._core.execution.breaker import Bounds, paused, tripped
from ._core.execution.landing import Landing, Status, landings, left_at
from ._core.execution.order import Move, Order
from ._core.execution.record import Flight, Past, Run, State, read_state
from ._core.execution.verify import Fault, FaultReason, faults, pods_of, too_old
from ._core.kube.model import Cluster, Pod
from ._core.kube.selectors import LabelSelector
from ._core.plan.evictable import staying
from ._core.plan.gangs import gang_of
from ._core.plan.workloads import Workloads, active_pods, wished, workload_of
from ._kubernetes import RefusedError

POLL = 1.0
"""Seconds between two looks at what is waited for."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a plan is carried out. Times are seconds.

    Attributes:
        steering: soft_taints, cordon or none.
        actuator: eviction or descheduler.
        ready_timeout: From when a pod came until it is Ready.
        evict_timeout: How long an eviction that is not allowed is tried again, or the descheduler waited for.
        grace_period: Of the evicted pods; None for their own.
        max_plan_age: Of a plan that is begun or carried on.
        cool_down: How long what came, and what went astray, is left alone.
        surging: Deployments whose new pod comes before the old one goes, besides those of the plan.
        label: Mark nodes that could be given back.
        cordon: Close them too.
        selector: Which GPU nodes are looked at for that.
    """

    steering: str = "soft_taints"
    actuator: str = "eviction"
    ready_timeout: float = 600.0
    evict_timeout: float = 120.0
    grace_period: int | None = None
    max_plan_age: float = 900.0
    cool_down: float = 1800.0
    bounds: Bounds = Bounds()  # noqa: RUF009 - frozen
    surging: frozenset[str] = frozenset()
    label: bool = True
    cordon: bool = False
    selector: LabelSelector = LabelSelector()  # noqa: RUF009 - frozen


@dataclass(slots=True)
class Outcome:
    """What was done, or would be.

    Attributes:
        verdict: The plan's own where all went well, else what ended it.
        done: Nothing of the plan is left to do.
        wave: The number, from 1, of the wave that was carried out; None where none was begun.
        retry_after: Seconds after which the next wave may go, or another run be done.
        steering: For each step of the wave the nodes that were kept from attracting its pods.
        recovered: What was left by a run that died.
        swept: Something of such a run was taken away, or given back.
        written: Names of Node objects that were changed, each time.
    """

    verdict: str
    message: str = ""
    done: bool = False
    wave: int | None = None
    retry_after: float | None = None
    evicted: list[dict[str, Any]] = field(default_factory=list)
    landed: list[dict[str, Any]] = field(default_factory=list)
    strays: list[dict[str, Any]] = field(default_factory=list)
    unready: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[dict[str, Any]] = field(default_factory=list)
    steering: list[list[str]] = field(default_factory=list)
    recovered: list[dict[str, Any]] = field(default_factory=list)
    swept: bool = False
    reclaimable: reclaim.Marks = reclaim.Marks((), ())  # noqa: RUF009 - frozen
    written: list[str] = field(default_factory=list)
    realized: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed that lasts."""
        marks = self.reclaimable
        return bool(self.evicted or self.recovered or self.swept or self.written or marks.add or marks.remove)

    def stop(self, verdict: str, message: str) -> None:
        """End with the first verdict that was reached."""
        self.verdict, self.message = verdict, message


class StoppedError(InputError):
    """A run ended by an error of the cluster.

    Attributes:
        outcome: What was done until then.
    """

    def __init__(self, error: Exception, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(str(error))


def carry_out(actions: Actions, order: Order, manner: Manner, *, check: bool = False) -> Outcome:
    """Carry out the next wave of a plan, and finish or undo first what a run that died has left.

    Whatever happens, nothing of ours stays on nodes and pods but the mark of nodes that could be given back; what could
    not be cleaned up the next run finds.

    Args:
        actions: What is done, and to which cluster.
        order: The plan.
        manner: How.
        check: Only say what would be done.

    Raises:
        StoppedError: The cluster does not answer, or a right is missing.
    """
    execution = _Execution(actions, order, manner)
    if holder := actions.locked() if check else actions.lock():
        return Outcome("Locked", f"{holder} is at work", retry_after=float(LEASE_SECONDS))
    if check:
        return execution.foresee()
    try:
        execution.run()
    except LeaseLostError as error:
        # Whoever has it cleans up.
        execution.outcome.stop("Locked", str(error))
        execution.outcome.retry_after = float(LEASE_SECONDS)
        return execution.outcome
    except BaseException as error:
        execution.give_up()
        if isinstance(error, (InputError, RefusedError)):
            raise StoppedError(error, execution.outcome) from error
        raise
    try:
        actions.release()
    except (InputError, RefusedError) as error:
        raise StoppedError(error, execution.outcome) from error
    return execution.outcome


class _Execution:
    """One run."""

    def __init__(self, actions: Actions, order: Order, manner: Manner) -> None:
        self.actions = actions
        self.order = order
        self.manner = manner
        self.surging = manner.surging | order.rules.surging
        self.outcome = Outcome(order.verdict)
        self.state = State()
        self.tainted: set[str] = set()
        self.closed: set[str] = set()
        self.labelled: dict[str, Move | Pod] = {}
        self.surged: Flight | None = None
        self.moves = 0

    # The course of a run.

    def give_up(self) -> None:
        """Clean up after an error, as far as that goes; what is left the next run finds."""
        for undo in (self.clean, self.actions.release):
            try:
                undo()
            except LeaseLostError:
                return  # Whoever has it cleans up.
            except (InputError, RefusedError) as error:
                self.outcome.notes.append(f"not all was cleaned up, which is left to the next run: {error}")

    def run(self) -> None:
        """Recover, verify, act, verify, clean, record."""
        outcome = self.outcome
        if not self._remember():
            return
        cluster = self._look()
        if self.state.run:
            self._recover(self.state.run)
            self.clean()
            cluster = self._look()
        before = cluster
        # What a run left that ended badly is a reason to end too.
        wave = self._next(cluster) if outcome.verdict == self.order.verdict else None
        if wave is None:
            self.clean()
        else:
            self._wave(wave, cluster)
            self.clean()
            cluster = self.actions.read()
        self._reclaim(cluster)
        outcome.realized = self._realized(before, cluster)
        self._save()

    def foresee(self) -> Outcome:
        """What a run would do, but for what only shows once it has begun."""
        outcome = self.outcome
        if not self._remember():
            return outcome
        cluster = self._look()
        if run := self.state.run:
            outcome.recovered = [landing.flight.move.told() for landing in self._landings(run) if landing.status != Status.STAYS]
        wave = self._next(cluster)
        if wave is not None:
            outcome.wave = wave + 1
            outcome.message = f"wave {wave + 1} of {len(self.order.waves)} would be carried out"
            pods, found = self._steps(wave, cluster)
            for step in found:
                outcome.steering.append(sorted(self._lead(wave, cluster, pods, step).repel))
                outcome.evicted += [move.told() for move in step]
        outcome.reclaimable = self._marks(cluster)
        return outcome

    def _remember(self) -> bool:
        """Read the state; where it cannot be understood, what is in flight is not known, and nothing is touched."""
        text = self.actions.load()
        try:
            self.state = read_state(text)
        except InputError as error:
            told = "what is in flight is not known; put the ConfigMap right, or delete it once nothing is"
            self.outcome.stop("StateUnknown", f"ConfigMap gpuops-defrag: {error}: {told}")
            return False
        return True

    def _look(self) -> Cluster:
        """The cluster as it is, and what of ours is on it."""
        cluster = self.actions.read()
        self.tainted = steer.tainted(cluster)
        self.closed = {n.name for n in cluster.nodes.values() if n.labels.get(steer.CORDONED) == steer.FOR_A_WAVE}
        self.labelled = {pod.uid: pod for pod in active_pods(cluster) if steer.EVICT in pod.labels and not pod.terminating}
        self.outcome.swept |= bool(self.tainted or self.closed or self.labelled)
        return cluster

    def _next(self, cluster: Cluster) -> int | None:
        """The wave to carry out now; None with the reason where there is none."""
        order, state, outcome, now = self.order, self.state, self.outcome, self.actions.now()
        begun = state.waves_done if state.plan_id == order.plan_id else 0
        if begun >= len(order.waves):
            outcome.done = True
            outcome.message = "all waves of the plan are carried out" if order.waves else "the plan has no moves"
            return None
        if stop := self._stops():
            outcome.stop(*stop)
            return None
        wait = state.last_wave + order.interval - now
        if state.last_wave and wait > 0:
            outcome.retry_after = wait
            outcome.stop("TooSoon", f"the next wave may go in {wait:.0f} s")
            return None
        late = too_old(order, now, state.last_end if begun else 0.0, self.manner.max_plan_age)
        found = [late] if late else [*self._surges_refused(begun, cluster), *self._faults(begun, cluster)]
        if found:
            outcome.reasons += [fault.told() for fault in found]
            outcome.stop("StalePlan", f"plan again: {len(found)} of its conditions do not hold, first: {found[0].detail}")
            return None
        return begun

    def _stops(self) -> tuple[str, str] | None:
        """Who asks for a pause."""
        if asked := paused(self.actions.annotations()):
            return "Paused", asked
        if fires := self.actions.fires():
            return "PausedByMetrics", fires
        return None

    def _faults(self, wave: int, cluster: Cluster) -> Iterator[Fault]:
        rules = replace(self.order.rules, cooling=self.state.cooling(self.actions.now()), surging=self.surging)
        yield from faults(self.order.waves[wave], cluster, staying(Layout(cluster), rules), self.order.resource)

    def _surges_refused(self, wave: int, cluster: Cluster) -> Iterator[Fault]:
        """Deployments that may not have a replica more. They are left alone for a while, so that plans go on without."""
        pods = pods_of(cluster, self.order.waves[wave])
        for move, pod in pods.items():
            workload = workload_of(pod)
            if wished(workload, self.surging):
                namespace, name = _deployment(workload)
                found = self.actions.deployment(namespace, name)
                reason = surge.refused(found, self.actions.autoscaled(namespace))
                if reason:
                    past = self.state.workloads.setdefault(workload, Past())
                    past.frozen_until = self.actions.now() + self.manner.cool_down
                    yield Fault(FaultReason.SURGE_REFUSED, reason, move)

    # A wave.

    def _steps(self, wave: int, cluster: Cluster) -> tuple[dict[Move, Pod], list[list[Move]]]:
        moves = self.order.waves[wave]
        pods = pods_of(cluster, moves)
        workloads = Workloads(cluster)
        told = {id(pod): gang_of(pod, workloads.of(pod)) for pod in pods.values()}
        gangs = {number: gang for number, gang in told.items() if gang}
        alone = {move for move, pod in pods.items() if wished(workload_of(pod), self.surging)}
        return pods, steer.steps(cluster, pods, moves, self.order.resource, gangs=gangs, alone=alone)

    def _wave(self, wave: int, cluster: Cluster) -> None:
        outcome, state, actions = self.outcome, self.state, self.actions
        pods, steps = self._steps(wave, cluster)
        known: dict[str, list[str]] = {}
        for pod in active_pods(cluster):
            known.setdefault(workload_of(pod), []).append(pod.uid)
        waiting = {pod.uid: pod.namespace for pod in cluster.pending if self.order.resource in pod.requests}
        self.moves = len(pods)
        outcome.wave = wave + 1
        outcome.notes += [
            f"{pod} tolerates every soft taint: where it goes is the scheduler's choice"
            for pod in pods.values()
            if self.manner.steering == "soft_taints" and steer.unsteerable(pod)
        ]
        now = actions.now()
        state.plan_id, state.waves_done = self.order.plan_id, wave
        state.run = run = Run(self.order.plan_id, wave, now, waiting=waiting)
        whole = True
        for number, step in enumerate(steps):
            stop = self._stops() if number else None
            if stop:
                outcome.stop(*stop)
                whole = False
                break
            led = self._lead(wave, cluster, pods, step)
            outcome.steering.append(sorted(led.repel))
            self._steer(led.repel, {move.target for move in step})
            flights = [replace(self._flight(move, pods[move], known), loose=move in led.loose) for move in step]
            run.flights += flights
            run.avoided = tuple(sorted(self.tainted)) if any(flight.loose for flight in run.flights) else ()
            # Before anything is done, so that the next run knows of it if this one dies.
            self._save()
            whole = self._leave(run, flights) and self._landed_well(run, lambda landing: landing.bound)
            if not whole:
                break
        # Pods that are on their way are waited for in any case.
        found = self._await(run, lambda landing: landing.over)
        trip = tripped(found, self.moves, self.manner.bounds)
        if trip and whole:
            outcome.stop(*trip)
            whole = False
        self._settle(found)
        if outcome.evicted:
            state.last_wave, state.last_end = now, actions.now()
        state.count("planned", len(pods))
        if whole:
            state.waves_done = wave + 1
        outcome.done = whole and state.waves_done == len(self.order.waves)
        if whole:
            outcome.message = f"wave {wave + 1} of {len(self.order.waves)} is carried out"
        state.run = None

    def _flight(self, move: Move, pod: Pod, known: dict[str, list[str]]) -> Flight:
        workload = workload_of(pod)
        flight = Flight(move, workload, self.actions.now(), tuple(sorted(known.get(workload, ()))))
        if wished(workload, self.surging):
            namespace, name = _deployment(workload)
            found = self.actions.deployment(namespace, name)
            flight.deployment, flight.replicas = name, found.replicas if found else 0
            flight.cost = pod.annotations.get(surge.COST)
            # Those that came for earlier moves of the wave are no news.
            there = self.actions.pods([namespace])
            flight.known = tuple(sorted(pod.uid for pod in there if workload_of(pod) == workload))
        return flight

    def _lead(self, wave: int, cluster: Cluster, pods: dict[Move, Pod], step: Sequence[Move]) -> steer.Lead:
        if self.manner.steering == "soft_taints":
            return steer.lead(cluster, pods, step, self.order.resource, steer.Stakes.of(self.order, wave))
        closed = {move.source for move in pods if not cluster.nodes[move.source].unschedulable}
        return steer.Lead(frozenset(closed if self.manner.steering == "cordon" else ()), frozenset())

    def _steer(self, repel: Collection[str], goals: Collection[str]) -> None:
        """Only what differs is written. What an earlier step repelled goes on doing so, unless it is a goal now."""
        cordon = self.manner.steering == "cordon"
        now, mark = (self.closed, self._close) if cordon else (self.tainted, self._taint)
        wanted = set(repel) if cordon else (now | set(repel)) - set(goals)
        for node in sorted(wanted ^ now):
            mark(node, node in wanted)

    def _taint(self, node: str, on: bool) -> None:
        # Noted first when it comes, last when it goes.
        self.tainted |= {node}
        if self.actions.taint(node, on):
            self.outcome.written.append(node)
        if not on:
            self.tainted -= {node}

    def _close(self, node: str, close: bool) -> None:
        self.closed |= {node}
        if self.actions.mark_node(node, {steer.CORDONED: steer.FOR_A_WAVE if close else None}, {}, close):
            self.outcome.written.append(node)
        if not close:
            self.closed -= {node}

    # How pods leave.

    def _leave(self, run: Run, flights: list[Flight]) -> bool:
        """Have the pods of a step leave; whether all have."""
        surging = [flight for flight in flights if flight.replicas is not None]
        others = [flight for flight in flights if flight.replicas is None]
        if surging:
            # They go one by one, each in a step of its own.
            return all(self._surge(run, flight) for flight in surging)
        return self._label(run, others) if self.manner.actuator == "descheduler" else self._evict(run, others)

    def _evict(self, run: Run, flights: list[Flight]) -> bool:
        waiting, whole, wait = list(flights), True, 0.0
        deadline = self.actions.now() + self.manner.evict_timeout
        while True:
            blocked: list[tuple[Flight, Answer]] = []
            for flight in waiting:
                answer = self.actions.evict(flight.move, self.manner.grace_period)
                if answer.leaving == Leaving.DONE:
                    self._left(flight, "eviction")
                elif answer.leaving == Leaving.BLOCKED:
                    blocked.append((flight, answer))
                else:
                    gone = answer.leaving == Leaving.GONE
                    self._kept(run, flight, "PodGone" if gone else "Refused", answer.detail, "StalePlan" if gone else "Refused")
                    whole = False
            if not blocked:
                return whole
            if self.actions.now() >= deadline or not whole:
                for flight, answer in blocked:
                    self._kept(run, flight, answer.verdict, answer.detail, answer.verdict)
                return False
            if stop := self._stops():
                for flight, _answer in blocked:
                    self._kept(run, flight, stop[0], stop[1], stop[0])
                return False
            wait = min(max(2 * wait, POLL, min(answer.after or 0.0 for _flight, answer in blocked)), 15.0)
            self.actions.wait(min(wait, max(POLL, deadline - self.actions.now())))
            waiting = [flight for flight, _answer in blocked]

    def _label(self, run: Run, flights: list[Flight]) -> bool:
        """Let the descheduler evict them."""
        waiting = {flight.move.uid: flight for flight in flights}
        for uid, flight in list(waiting.items()):
            self.labelled[uid] = flight.move
            if not self.actions.mark_pod(flight.move, {steer.EVICT: "true"}, {}):
                self._kept(run, flight, "PodGone", "it is not there any more", "StalePlan")
                del waiting[uid], self.labelled[uid]
        whole = len(waiting) == len(flights)
        deadline, wait = self.actions.now() + self.manner.evict_timeout, 0.0
        stop = None
        while not stop:
            self._note_evicted(waiting)
            if not waiting:
                return whole
            late = self.actions.now() >= deadline
            stop = ("NotEvicted", "the descheduler did not evict it in time") if late else self._stops()
            if not stop:
                wait = min(max(2 * wait, POLL), 15.0)
                self.actions.wait(min(wait, max(POLL, deadline - self.actions.now())))
        for uid in waiting:
            self._unlabel(uid)
        # Some may have been evicted before their label was gone.
        self._note_evicted(waiting)
        for flight in waiting.values():
            self._kept(run, flight, stop[0], stop[1], stop[0])
        return whole and not waiting

    def _note_evicted(self, waiting: dict[str, Flight]) -> None:
        """Take out those that the descheduler has evicted."""
        there = {pod.uid: pod for pod in self.actions.pods(flight.move.namespace for flight in waiting.values())}
        for uid, flight in list(waiting.items()):
            if uid not in there or there[uid].terminating:
                self._left(flight, "descheduler")
                del waiting[uid]
                self.labelled.pop(uid, None)

    def _unlabel(self, uid: str) -> None:
        self.actions.mark_pod(self.labelled[uid], {steer.EVICT: None}, {})
        del self.labelled[uid]

    def _surge(self, run: Run, flight: Flight) -> bool:
        """One replica more on the destination; the old pod goes once it is Ready."""
        move, replicas = flight.move, flight.replicas or 0
        self.surged = flight
        self.actions.mark_pod(move, {}, {surge.COST: surge.CHEAPEST})
        if not self.actions.scale(move.namespace, flight.deployment, replicas, replicas + 1):
            self._kept(run, flight, "MakeBeforeBreakRefused", f"{flight.deployment} was scaled by somebody else", "StalePlan")
            self._cost_again(flight)
            self.surged = None
            return False
        whole = self._give_back(run, self._await_one(run, flight))
        self.surged = None
        return whole

    def _scale_back(self, flight: Flight) -> None:
        """In haste: the controller keeps pods that are Ready, and of those it lets go the old one first."""
        replicas = flight.replicas or 0
        self.actions.scale(flight.move.namespace, flight.deployment, replicas + 1, replicas)
        self._cost_again(flight)

    def _give_back(self, run: Run, landing: Landing) -> bool:
        """Take the replica back: the old pod goes if the new one is Ready where it should be, else the new one."""
        flight, move = landing.flight, landing.flight.move
        moved = landing.ready and not landing.stray
        if not moved:
            if landing.pod:
                self.actions.mark_pod(landing.pod, {}, {surge.COST: surge.CHEAPEST})
            self._cost_again(flight)
        replicas = flight.replicas or 0
        if not self.actions.scale(move.namespace, flight.deployment, replicas + 1, replicas):
            told = f"{move.namespace}/{flight.deployment} was scaled by somebody else, and is left so"
            self.outcome.notes.append(told)
        leaving = move.uid if moved else landing.pod.uid if landing.pod else None
        deadline = self.actions.now() + self.manner.evict_timeout
        while leaving and self._is_there(move.namespace, leaving) and self.actions.now() < deadline:
            self.actions.wait(POLL)
        if moved and not self._is_there(move.namespace, move.uid):
            self._left(flight, "surge")
            return True
        if moved:
            # Somebody else has scaled, or another pod was not Ready and went.
            self._cost_again(flight)
            told = f"{move} is still there beside its new pod"
            self._kept(run, flight, "MakeBeforeBreakUndone", told, "StalePlan")
            return False
        told, verdict = ("landed elsewhere", "Strays") if landing.stray else ("was not Ready in time", "NotReady")
        became = "was taken back"
        if landing.pod and self._is_there(move.namespace, landing.pod.uid):
            # The controller did not know yet which is the cheapest, and took the old one, or somebody else has scaled.
            self.actions.mark_pod(landing.pod, {}, {surge.COST: landing.pod.annotations.get(surge.COST)})
            became = "is still there"
        self._settle([landing])
        self._kept(run, flight, "MakeBeforeBreakUndone", f"its new pod {told}, and {became}", verdict)
        return False

    def _cost_again(self, flight: Flight) -> None:
        """The old pod's deletion costs what it did before, if it is still there."""
        self.actions.mark_pod(flight.move, {}, {surge.COST: flight.cost})

    def _is_there(self, namespace: str, uid: str) -> bool:
        return any(pod.uid == uid and not pod.terminating for pod in self.actions.pods([namespace]))

    def _left(self, flight: Flight, by: str) -> None:
        move, flight.since = flight.move, self.actions.now()
        self.outcome.evicted.append(move.told() | {"by": by})
        self.state.count("evicted")
        note = f"moved from {move.source}, to go to {move.target}: plan {self.order.plan_id}"
        self.actions.tell(_about("Pod", move.namespace, move.pod, move.uid), "Defragmenting", note)

    def _kept(self, run: Run, flight: Flight, reason: str, detail: str, verdict: str) -> None:
        """A pod that did not leave: the wave ends."""
        move, outcome = flight.move, self.outcome
        outcome.reasons.append({"reason": reason, "detail": detail, "namespace": move.namespace, "pod": move.pod})
        if outcome.verdict == self.order.verdict:
            outcome.stop(verdict, f"{move}: {detail}")
        if flight in run.flights:
            run.flights.remove(flight)

    # What comes.

    def _await(self, run: Run, enough: Callable[[Landing], bool]) -> list[Landing]:
        """Wait until every move of a wave is as far as that."""
        while True:
            found = self._landings(run)
            if all(enough(landing) for landing in found if landing.status != Status.STAYS):
                return found
            self.actions.wait(POLL)

    def _landings(self, run: Run) -> list[Landing]:
        namespaces = {flight.move.namespace for flight in run.flights}
        there = self.actions.pods(namespaces)
        old = {pod.uid: pod for pod in there}
        for flight in run.flights:
            flight.since = left_at(flight, old.get(flight.move.uid), self.actions.now())
        found = landings(run, there, self.actions.now(), self.manner.ready_timeout)
        elsewhere = set(run.waiting.values()) - namespaces
        if elsewhere and any(landing.stray for landing in found):
            # A pod of another namespace may have got the room that it had waited for.
            there += self.actions.pods(elsewhere)
            found = landings(run, there, self.actions.now(), self.manner.ready_timeout)
        return found

    def _await_one(self, run: Run, flight: Flight) -> Landing:
        found = self._await(run, lambda each: each.over or each.flight is not flight)
        return next(landing for landing in found if landing.flight is flight)

    def _landed_well(self, run: Run, enough: Callable[[Landing], bool]) -> bool:
        trip = tripped(self._await(run, enough), self.moves, self.manner.bounds)
        if trip:
            self.outcome.stop(*trip)
        return trip is None

    def _settle(self, found: Iterable[Landing]) -> None:
        """Note what came of each move: for the result, for the next run, and as Events."""
        now, state, outcome = self.actions.now(), self.state, self.outcome
        for landing in found:
            if landing.status == Status.STAYS:
                continue
            move, pod = landing.flight.move, landing.pod
            past = state.workloads.setdefault(landing.flight.workload, Past())
            past.last = now
            past.moves += 1
            told = move.told() | {
                "node": pod.node if pod else "",
                "replacement": pod.name if pod else "",
                "status": landing.status,
            }
            if pod:
                state.pods[pod.uid] = now + self.manner.cool_down
            if landing.stray:
                past.strays += 1
                outcome.strays.append(told)
            if not landing.ready:
                past.unready += 1
                outcome.unready.append(told)
            if landing.ready and not landing.stray:
                outcome.landed.append(told)
                state.count("landed")
            else:
                past.frozen_until = now + self.manner.cool_down
                state.count("strays" if landing.stray else "unready")
            self._news(landing)

    def _news(self, landing: Landing) -> None:
        pod, move = landing.pod, landing.flight.move
        if pod is None:
            about = _about("Node", None, move.source, "")
            note = f"nothing has come in time in the place of {move}"
            self.actions.tell(about, "DefragmentationLost", note, warning=True)
            return
        reason = "DefragmentationStray" if landing.stray else "Defragmented" if landing.ready else "DefragmentationNotReady"
        note = f"in the place of {move}, moved from {move.source} to {move.target}; on {pod.node or 'no node'}, {landing.status}"
        about = _about("Pod", pod.namespace, pod.name, pod.uid)
        self.actions.tell(about, reason, note, warning=reason != "Defragmented")

    # Before and after.

    def _recover(self, run: Run) -> None:
        """Finish, or undo, what a run left that died: what has left is waited for, what has not stays."""
        self.moves = len(run.flights)
        for uid in list(self.labelled):
            self._unlabel(uid)
        for flight in [flight for flight in run.flights if flight.replicas is not None]:
            self._unsurge(run, flight)
        found = self._await(run, lambda landing: landing.over)
        self._settle(found)
        trip = tripped(found, self.moves, self.manner.bounds)
        if trip and self.outcome.verdict == self.order.verdict:
            self.outcome.stop(*trip)
        gone = [landing for landing in found if landing.status != Status.STAYS]
        self.outcome.recovered = [landing.flight.move.told() for landing in gone]
        if gone:
            self.state.last_wave, self.state.last_end = run.begun, self.actions.now()
        self.state.run = None
        self._save()

    def _unsurge(self, run: Run, flight: Flight) -> None:
        move, replicas = flight.move, flight.replicas or 0
        found = self.actions.deployment(move.namespace, flight.deployment)
        if found and surge.restored(found.replicas, replicas) is not None:
            self.outcome.swept = True
            self._give_back(run, self._await_one(run, flight))
        else:
            # Not begun, or given back already.
            self._cost_again(flight)
        if flight in run.flights and self._is_there(move.namespace, move.uid):
            run.flights.remove(flight)

    def clean(self) -> None:
        """Take everything of ours off nodes and pods. All is tried; the first error is raised."""
        with _all_of() as each:
            for node in sorted(self.tainted):
                each(partial(self._taint, node, False))
            for node in sorted(self.closed):
                each(partial(self._close, node, False))
            for uid in list(self.labelled):
                each(partial(self._unlabel, uid))
            if self.surged:
                each(partial(self._scale_back, self.surged))

    def _marks(self, cluster: Cluster) -> reclaim.Marks:
        found = measure(cluster, AuditOptions(resource=self.order.resource, selector=self.manner.selector))
        empty = found.total.reclaimable if self.manner.label else ()
        return reclaim.marks(cluster, empty, [gpu.node.name for gpu in found.survey.nodes])

    def _reclaim(self, cluster: Cluster) -> None:
        """Mark the nodes that could be given back, and no others."""
        marks = self.outcome.reclaimable = self._marks(cluster)
        since = datetime.fromtimestamp(self.actions.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in marks.add:
            close = self.manner.cordon and not cluster.nodes[name].unschedulable
            labels: dict[str, str | None] = {reclaim.LABEL: "true"}
            labels |= {steer.CORDONED: "reclaimable"} if close else {}
            if self.actions.mark_node(name, labels, {reclaim.SINCE: since}, True if close else None):
                self.outcome.written.append(name)
            self.actions.tell(_about("Node", None, name, ""), "Reclaimable", "it holds no pods but those that every node has")
        for name in marks.remove:
            ours = cluster.nodes[name].labels.get(steer.CORDONED) == "reclaimable"
            gone: dict[str, str | None] = dict.fromkeys((reclaim.LABEL, steer.CORDONED) if ours else (reclaim.LABEL,))
            if self.actions.mark_node(name, gone, {reclaim.SINCE: None}, False if ours else None):
                self.outcome.written.append(name)

    def _realized(self, before: Cluster, after: Cluster) -> dict[str, Any]:
        """What came of it, to be held against what was planned."""
        options = AuditOptions(resource=self.order.resource, selector=self.manner.selector)
        was, now = measure(before, options).total, measure(after, options).total
        waited = {pod.uid for pod in before.pending}
        freed = [
            name
            for name in self.order.freed_nodes
            if name in after.bound
            and not any(self.order.resource in pod.requests and pod.uid not in waited for pod in after.bound[name])
        ]
        return {
            "freed_nodes": freed,
            "slots": {str(size): number for size, number in sorted(now.slots.items())},
            "slots_gained": {str(size): number - was.slots[size] for size, number in sorted(now.slots.items())},
            "placed_pods": sum(pod.uid in waited for pods in after.bound.values() for pod in pods),
        }

    def _save(self) -> None:
        self.actions.save(self.state.to_json(self.actions.now()))


def as_result(outcome: Outcome, order: Order) -> dict[str, Any]:
    """An outcome as plain data: what the module returns."""
    return {
        "changed": outcome.changed,
        "verdict": outcome.verdict,
        "message": outcome.message,
        "done": outcome.done,
        "plan_id": order.plan_id,
        "wave": outcome.wave,
        "waves": len(order.waves),
        "retry_after": outcome.retry_after,
        "evicted": outcome.evicted,
        "landed": outcome.landed,
        "strays": outcome.strays,
        "unready": outcome.unready,
        "reasons": outcome.reasons,
        "recovered": outcome.recovered,
        "steering": outcome.steering,
        "nodes_written": len(outcome.written),
        "reclaimable": {"added": list(outcome.reclaimable.add), "removed": list(outcome.reclaimable.remove)},
        "planned": {
            "evictions": sum(map(len, order.waves)),
            "freed_nodes": list(order.freed_nodes),
            "slots_gained": dict(order.slots_gained),
        },
        "realized": outcome.realized,
        "notes": outcome.notes,
    }


def diff_of(outcome: Outcome, steering: str) -> list[dict[str, str]]:
    """What nodes carry while the wave lasts, and labels that stay, before and after."""
    what, sign = ("closed nodes", "unschedulable") if steering == "cordon" else ("taints of nodes", steer.TAINT.key)
    steered = sorted({name for step in outcome.steering for name in step})
    marks = outcome.reclaimable
    parts = {
        f"{what} while the wave lasts": ("", "".join(f"{name}: {sign}\n" for name in steered)),
        "labels of nodes": (
            "".join(f"{name}: {reclaim.LABEL}\n" for name in marks.remove),
            "".join(f"{name}: {reclaim.LABEL}\n" for name in marks.add),
        ),
    }
    return [
        {"before_header": header, "after_header": header, "before": before, "after": after}
        for header, (before, after) in parts.items()
        if before != after
    ]


def _deployment(workload: str) -> tuple[str, str]:
    namespace, _slash, name = workload.partition(" ")[2].partition("/")
    return namespace, name


def _about(kind: str, namespace: str | None, name: str, uid: str) -> dict[str, str]:
    told = {"apiVersion": "v1", "kind": kind, "name": name}
    return told | ({"namespace": namespace} if namespace else {}) | ({"uid": uid} if uid else {})


@contextmanager
def _all_of() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Do each, whatever becomes of the others; the first error is raised at the end.

    A server that has twice not answered is asked no more, as each time takes its while.
    """
    errors: list[Exception] = []

    def each(work: Callable[[], None]) -> None:
        if sum(isinstance(error, InputError) for error in errors) > 1:
            return
        try:
            work()
        except LeaseLostError:
            raise
        except Exception as error:
            errors.append(error)

    yield each
    if errors:
        raise errors[0]
