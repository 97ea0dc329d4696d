# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make before break: a Deployment has one replica more, until its new pod is Ready and the old one can go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from .._core.execution import surge
from .._core.execution.landing import Landing
from .._core.execution.order import Move
from .._core.execution.record import Flight, Run
from .._core.execution.verify import Fault, FaultReason
from .._core.kube.model import Pod
from .._core.plan.workloads import wished, workload_of
from .actions import Actions
from .arrivals import Arrivals
from .journal import Journal
from .manner import Manner
from .waiting import POLL, Patience


class Surge:
    """Deployments with one replica more, of which there is one at a time.

    Attributes:
        flight: The move for which one has it now.
    """

    def __init__(self, actions: Actions, manner: Manner, journal: Journal, arrivals: Arrivals) -> None:
        self.flight: Flight | None = None
        self._actions = actions
        self._manner = manner
        self._journal = journal
        self._arrivals = arrivals

    def refusals(self, pods: Mapping[Move, Pod]) -> Iterator[Fault]:
        """Deployments that may not have a replica more. They are left alone for a while, so that plans go on without."""
        for move, pod in pods.items():
            workload = workload_of(pod)
            if wished(workload, self._manner.surging):
                found = self._actions.deployment(pod.namespace, _name(workload))
                reason = surge.refused(found, self._actions.autoscaled(pod.namespace))
                if reason:
                    self._journal.freeze(workload)
                    yield Fault(FaultReason.SURGE_REFUSED, reason, move)

    def note(self, flight: Flight, pod: Pod) -> None:
        """Note what the next run must know to give the replica back, if this is a move of that kind."""
        if not wished(flight.workload, self._manner.surging):
            return
        flight.deployment = _name(flight.workload)
        found = self._actions.deployment(pod.namespace, flight.deployment)
        flight.replicas = found.replicas if found else 0
        flight.cost = pod.annotations.get(surge.COST)
        # Those that came for earlier moves of the wave are no news.
        there = self._actions.pods([pod.namespace])
        flight.known = tuple(sorted(each.uid for each in there if workload_of(each) == flight.workload))

    def leave(self, run: Run, flight: Flight) -> None:
        """One replica more on the destination; the old pod goes once it is Ready."""
        self.flight = flight
        self._cost(flight.move, surge.CHEAPEST)
        if self._scale(flight, more=True):
            self._give_back(run, self._arrivals.wait_for(run, flight))
        else:
            told = f"{flight.deployment} was scaled by somebody else"
            self._journal.kept(run, flight, "MakeBeforeBreakRefused", told, "StalePlan")
            self._cost(flight.move, flight.cost)
        self.flight = None

    def recover(self, run: Run) -> None:
        """Give back what a run that died has left: pods that have not left stay."""
        for flight in [flight for flight in run.flights if flight.replicas is not None]:
            move = flight.move
            found = self._actions.deployment(move.namespace, flight.deployment)
            if found and surge.restored(found.replicas, flight.replicas or 0) is not None:
                self._journal.outcome.swept = True
                self._give_back(run, self._arrivals.wait_for(run, flight))
            else:
                # Not begun, or given back already.
                self._cost(move, flight.cost)
            if flight in run.flights and self._is_there(move):
                run.flights.remove(flight)

    def undo(self) -> list[Callable[[], None]]:
        """What gives the replica back in haste."""
        return [partial(self._scale_back, self.flight)] if self.flight else []

    def _scale_back(self, flight: Flight) -> None:
        """The controller keeps pods that are Ready, and of those it lets go the old one first."""
        self._scale(flight, more=False)
        self._cost(flight.move, flight.cost)

    def _give_back(self, run: Run, landing: Landing) -> None:
        """Take the replica back: the old pod goes if the new one is Ready where it should be, else the new one."""
        flight, move, new = landing.flight, landing.flight.move, landing.pod
        moved = landing.ready and not landing.stray
        if not moved:
            if new:
                self._cost(new, surge.CHEAPEST)
            self._cost(move, flight.cost)
        if not self._scale(flight, more=False):
            told = f"{move.namespace}/{flight.deployment} was scaled by somebody else, and is left so"
            self._journal.outcome.notes.append(told)
        if moved:
            self._let_old_go(run, flight)
        else:
            self._let_new_go(run, landing)

    def _let_old_go(self, run: Run, flight: Flight) -> None:
        if self._goes(flight.move):
            self._journal.left(flight, "surge")
            return
        # Somebody else has scaled, or another pod was not Ready and went.
        self._cost(flight.move, flight.cost)
        told = f"{flight.move} is still there beside its new pod"
        self._journal.kept(run, flight, "MakeBeforeBreakUndone", told, "StalePlan")

    def _let_new_go(self, run: Run, landing: Landing) -> None:
        told, verdict = ("landed elsewhere", "Strays") if landing.stray else ("was not Ready in time", "NotReady")
        became, new = "was taken back", landing.pod
        if new and not self._goes(new):
            # The controller did not know yet which is the cheapest, and took the old one, or somebody else has scaled.
            self._cost(new, new.annotations.get(surge.COST))
            became = "is still there"
        self._journal.settle([landing])
        self._journal.kept(run, landing.flight, "MakeBeforeBreakUndone", f"its new pod {told}, and {became}", verdict)

    def _cost(self, pod: Pod | Move, cost: str | None) -> None:
        """What a pod's deletion costs, by which the controller chooses; None where nobody says."""
        self._actions.mark_pod(pod, {}, {surge.COST: cost})

    def _scale(self, flight: Flight, *, more: bool) -> bool:
        """Whether the Deployment then has one replica more, or again as many as before."""
        before = flight.replicas or 0
        was, to = (before, before + 1) if more else (before + 1, before)
        return self._actions.scale(flight.move.namespace, flight.deployment, was, to)

    def _goes(self, pod: Pod | Move) -> bool:
        """Wait until a pod goes; whether it does."""
        patience = Patience(self._actions, self._manner.evict_timeout)
        while self._is_there(pod):
            if patience.over:
                return False
            self._actions.wait(POLL)
        return True

    def _is_there(self, pod: Pod | Move) -> bool:
        return any(each.uid == pod.uid and not each.terminating for each in self._actions.pods([pod.namespace]))


def _name(workload: str) -> str:
    """The name of a Deployment that is told as kind, namespace and name."""
    return workload.partition("/")[2]
