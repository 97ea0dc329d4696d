# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that leave by the Eviction API."""

from __future__ import annotations

from .._core.execution.record import Flight, Run
from .actions import Actions, Answer, Leaving
from .journal import Journal
from .manner import Manner
from .waiting import Patience, asked_to_stop


class Evictions:
    """Evictions, asked for again while a budget does not allow them."""

    def __init__(self, actions: Actions, manner: Manner, journal: Journal) -> None:
        self._actions = actions
        self._manner = manner
        self._journal = journal

    def leave(self, run: Run, flights: list[Flight]) -> None:
        """Have the pods of a step leave. Once one of them never will, the others are asked for no more."""
        waiting, patience = flights, Patience(self._actions, self._manner.evict_timeout)
        while blocked := self._ask(run, waiting):
            given_up = patience.over or self._journal.outcome.stopped
            stop = None if given_up else asked_to_stop(self._actions)
            if given_up or stop:
                for flight, answer in blocked:
                    verdict, detail = stop or (answer.verdict, answer.detail)
                    self._journal.kept(run, flight, verdict, detail, verdict)
                return
            patience.wait(min(answer.after or 0.0 for _flight, answer in blocked))
            waiting = [flight for flight, _answer in blocked]

    def _ask(self, run: Run, flights: list[Flight]) -> list[tuple[Flight, Answer]]:
        """Ask for each; those that are not allowed now, but may be later."""
        blocked = []
        for flight in flights:
            answer = self._actions.evict(flight.move, self._manner.grace_period)
            if answer.leaving == Leaving.DONE:
                self._journal.left(flight, "eviction")
            elif answer.leaving == Leaving.BLOCKED:
                blocked.append((flight, answer))
            elif answer.leaving == Leaving.GONE:
                self._journal.kept(run, flight, "PodGone", answer.detail, "StalePlan")
            else:
                self._journal.kept(run, flight, "Refused", answer.detail, "Refused")
        return blocked
