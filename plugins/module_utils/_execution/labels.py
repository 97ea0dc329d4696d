# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that the descheduler evicts, as they carry the label that its policy goes by."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .._core.execution import steer
from .._core.execution.order import Move
from .._core.execution.record import Flight, Run
from .._core.kube.model import Cluster, Pod
from .._core.plan.workloads import active_pods
from .actions import Actions
from .journal import Journal
from .waiting import Patience, asked_to_stop


class Labels:
    """The label on pods.

    Attributes:
        labelled: Those that carry it, by uid.
    """

    def __init__(self, actions: Actions, timeout: float, journal: Journal) -> None:
        self.labelled: dict[str, Move | Pod] = {}
        self._actions = actions
        self._timeout = timeout
        self._journal = journal

    def look(self, cluster: Cluster) -> None:
        """See what a run that died has left."""
        self.labelled = {pod.uid: pod for pod in active_pods(cluster) if steer.EVICT in pod.labels and not pod.terminating}
        self._journal.outcome.swept |= bool(self.labelled)

    def leave(self, run: Run, flights: list[Flight]) -> None:
        """Have the descheduler evict the pods of a step."""
        waiting = self._put(run, flights)
        patience, stop = Patience(self._actions, self._timeout), None
        while not stop:
            self._note_evicted(waiting)
            if not waiting:
                return
            late = ("NotEvicted", "the descheduler did not evict it in time") if patience.over else None
            stop = late or asked_to_stop(self._actions)
            if not stop:
                patience.wait()
        for uid in waiting:
            self._take_off(uid)
        # Some may have been evicted before their label was gone.
        self._note_evicted(waiting)
        verdict, detail = stop
        for flight in waiting.values():
            self._journal.kept(run, flight, verdict, detail, verdict)

    def undo(self) -> list[Callable[[], None]]:
        """What takes all labels off again."""
        return [partial(self._take_off, uid) for uid in self.labelled]

    def _put(self, run: Run, flights: list[Flight]) -> dict[str, Flight]:
        """Label the pods; those that are still there."""
        found = {}
        for flight in flights:
            move = flight.move
            self.labelled[move.uid] = move
            if self._actions.mark_pod(move, {steer.EVICT: "true"}, {}):
                found[move.uid] = flight
            else:
                self._journal.kept(run, flight, "PodGone", "it is not there any more", "StalePlan")
                del self.labelled[move.uid]
        return found

    def _take_off(self, uid: str) -> None:
        self._actions.mark_pod(self.labelled[uid], {steer.EVICT: None}, {})
        del self.labelled[uid]

    def _note_evicted(self, waiting: dict[str, Flight]) -> None:
        """Take out those that have left."""
        there = {pod.uid: pod for pod in self._actions.pods(flight.move.namespace for flight in waiting.values())}
        for uid, flight in list(waiting.items()):
            if uid not in there or there[uid].terminating:
                self._journal.left(flight, "descheduler")
                del waiting[uid]
                self.labelled.pop(uid, None)
