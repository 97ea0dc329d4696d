# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How pods leave their nodes, each as the manner and its workload want it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .._core.execution.order import Move
from .._core.execution.record import Flight, Run
from .._core.execution.verify import Fault
from .._core.kube.model import Cluster, Pod
from .actions import Actions
from .arrivals import Arrivals
from .evictions import Evictions
from .journal import Journal
from .labels import Labels
from .manner import Manner
from .surge import Surge


class Departures:
    """Evicted, labelled for the descheduler, or gone once another pod is Ready."""

    def __init__(self, actions: Actions, manner: Manner, journal: Journal, arrivals: Arrivals) -> None:
        self._outcome = journal.outcome
        self._labels = Labels(actions, manner.evict_timeout, journal)
        self._surge = Surge(actions, manner, journal, arrivals)
        self._usual = self._labels if manner.actuator == "descheduler" else Evictions(actions, manner, journal)

    def look(self, cluster: Cluster) -> None:
        """See what a run that died has left on pods."""
        self._labels.look(cluster)

    def refusals(self, pods: Mapping[Move, Pod]) -> Iterator[Fault]:
        """Moves of a wave whose pods cannot leave as they should."""
        return self._surge.refusals(pods)

    def note(self, flight: Flight, pod: Pod) -> None:
        """Note of a move what the next run must know of how its pod leaves."""
        self._surge.note(flight, pod)

    def leave(self, run: Run, flights: list[Flight]) -> None:
        """Have the pods of a step leave. Where one does not, the outcome is stopped."""
        usual = [flight for flight in flights if flight.replicas is None]
        for flight in flights:
            if flight.replicas is not None and not self._outcome.stopped:
                self._surge.leave(run, flight)
        if usual and not self._outcome.stopped:
            self._usual.leave(run, usual)

    def recover(self, run: Run) -> None:
        """See to it that pods that have not left when a run died stay."""
        for undo in self._labels.undo():
            undo()
        self._surge.recover(run)

    def undo(self) -> list[Callable[[], None]]:
        """What takes all of ours off pods and Deployments again."""
        return [*self._labels.undo(), *self._surge.undo()]
