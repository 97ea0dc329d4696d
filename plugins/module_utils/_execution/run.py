# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run: what was left is recovered, the next wave verified, carried out, cleaned up after, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from .._core.cluster.layout import Layout
from .._core.errors import InputError
from .._core.execution.order import Order
from .._core.execution.verify import Fault, faults, pods_of, too_old
from .._core.kube.model import Cluster
from .._core.plan.evictable import staying
from .._kubernetes import RefusedError
from .actions import Actions, LeaseLostError
from .arrivals import Arrivals
from .departures import Departures
from .journal import Journal
from .live.lease import LEASE_SECONDS
from .manner import Manner
from .nodes import Nodes
from .outcome import Outcome, StoppedError, realized
from .waiting import asked_to_stop
from .wave import Carrier, Wave


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
    execution = _Execution(actions, order, replace(manner, surging=manner.surging | order.rules.surging))
    if holder := actions.locked() if check else actions.lock():
        return Outcome("Locked", f"{holder} is at work", retry_after=float(LEASE_SECONDS))
    if check:
        return execution.foresee()
    try:
        execution.run()
    except LeaseLostError as error:
        # Whoever has it cleans up.
        return replace(execution.outcome, verdict="Locked", message=str(error), retry_after=float(LEASE_SECONDS))
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
        self.journal = Journal(actions, order, manner.cool_down)
        self.outcome = self.journal.outcome
        self.arrivals = Arrivals(actions, manner.ready_timeout)
        self.nodes = Nodes(actions, order.resource, manner, self.outcome)
        self.departures = Departures(actions, manner, self.journal, self.arrivals)
        self.carrier = Carrier(actions, manner.bounds, self.journal, self.nodes, self.departures, self.arrivals)

    def run(self) -> None:
        """Recover, verify, act, verify, clean, record."""
        if not self.journal.load():
            return
        cluster = self._look()
        if self.journal.state.run:
            self.carrier.recover(self.journal.state.run)
            self._clean()
            cluster = self._look()
        before = cluster
        # What a run left that ended badly is a reason to end too.
        wave = None if self.outcome.stopped else self._next(cluster)
        if wave:
            self.carrier.carry_out(wave)
        self._clean()
        if wave:
            cluster = self.actions.read()
        self.nodes.mark(cluster)
        self.outcome.realized = realized(self.order, self.manner.selector, before, cluster)
        self.journal.save()

    def foresee(self) -> Outcome:
        """What a run would do, but for what only shows once it has begun."""
        outcome = self.outcome
        if not self.journal.load():
            return outcome
        cluster = self._look()
        if run := self.journal.state.run:
            outcome.recovered = [landing.flight.move.told() for landing in self.arrivals.landings(run)]
        wave = self._next(cluster)
        if wave:
            outcome.wave = wave.number + 1
            outcome.message = f"{wave} would be carried out"
            for step in wave.steps:
                outcome.steering.append(sorted(wave.lead(step).repel))
                outcome.evicted += [move.told() for move in step]
        outcome.reclaimable = self.nodes.marks(cluster)
        return outcome

    def give_up(self) -> None:
        """Clean up after an error, as far as that goes; what is left the next run finds."""
        for undo in (self._clean, self.actions.release):
            try:
                undo()
            except LeaseLostError:
                return  # Whoever has it cleans up.
            except (InputError, RefusedError) as error:
                self.outcome.notes.append(f"not all was cleaned up, which is left to the next run: {error}")

    def _look(self) -> Cluster:
        """The cluster as it is, and what of ours is on it."""
        cluster = self.actions.read()
        self.nodes.look(cluster)
        self.departures.look(cluster)
        return cluster

    def _next(self, cluster: Cluster) -> Wave | None:
        """The wave to carry out now; None with the reason where there is none."""
        order, state, outcome, now = self.order, self.journal.state, self.outcome, self.actions.now()
        begun = state.waves_done if state.plan_id == order.plan_id else 0
        if begun >= len(order.waves):
            outcome.done = True
            outcome.message = "all waves of the plan are carried out" if order.waves else "the plan has no moves"
            return None
        if stop := asked_to_stop(self.actions):
            outcome.stop(*stop)
            return None
        wait = state.last_wave + order.interval - now
        if state.last_wave and wait > 0:
            outcome.retry_after = wait
            outcome.stop("TooSoon", f"the next wave may go in {wait:.0f} s")
            return None
        late = too_old(order, now, state.last_end if begun else 0.0, self.manner.max_plan_age)
        found = [late] if late else list(self._faults(begun, cluster))
        if found:
            outcome.reasons += [fault.told() for fault in found]
            outcome.stop("StalePlan", f"plan again: {len(found)} of its conditions do not hold, first: {found[0].detail}")
            return None
        return Wave(order, begun, self.manner, cluster)

    def _faults(self, wave: int, cluster: Cluster) -> Iterator[Fault]:
        order, moves = self.order, self.order.waves[wave]
        yield from self.departures.refusals(pods_of(cluster, moves))
        # Only now: what was just refused is left alone.
        cooling = self.journal.state.cooling(self.actions.now())
        rules = replace(order.rules, cooling=cooling, surging=self.manner.surging)
        yield from faults(moves, cluster, staying(Layout(cluster), rules), order.resource)

    def _clean(self) -> None:
        """Take everything of ours off nodes and pods. All is tried; the first error is raised."""
        _do_all([*self.nodes.undo(), *self.departures.undo()])


def _do_all(works: Iterable[Callable[[], None]]) -> None:
    """Do each, whatever becomes of the others; the first error is raised at the end.

    A server that has twice not answered is asked no more, as each time takes its while.
    """
    errors: list[Exception] = []
    for work in works:
        try:
            work()
        except LeaseLostError:
            raise
        except Exception as error:
            errors.append(error)
        if sum(isinstance(error, InputError) for error in errors) > 1:
            break
    if errors:
        raise errors[0]
