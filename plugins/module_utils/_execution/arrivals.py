# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that come in the place of those that left, and how they are waited for."""

from __future__ import annotations

from collections.abc import Callable

from .._core.execution.landing import Landing, Status, landings, left_at
from .._core.execution.record import Flight, Run
from .._core.kube.model import Pod
from .actions import Actions
from .waiting import POLL


class Arrivals:
    """What has come, looked at again and again; nothing is kept between two looks.

    Args:
        actions: To look and to wait.
        timeout: Seconds that a pod may take until it is Ready.
    """

    def __init__(self, actions: Actions, timeout: float) -> None:
        self._actions = actions
        self._timeout = timeout

    def landings(self, run: Run) -> list[Landing]:
        """What has come of the moves whose pods have left; when each of them left is noted on the way."""
        namespaces = {flight.move.namespace for flight in run.flights}
        there = self._actions.pods(namespaces)
        old = {pod.uid: pod for pod in there}
        for flight in run.flights:
            flight.since = left_at(flight, old.get(flight.move.uid), self._actions.now())
        found = self._landings(run, there)
        elsewhere = set(run.waiting.values()) - namespaces
        if elsewhere and any(landing.stray for landing in found):
            # A pod of another namespace may have got the room that it had waited for.
            found = self._landings(run, there + self._actions.pods(elsewhere))
        return found

    def wait(self, run: Run, enough: Callable[[Landing], bool]) -> list[Landing]:
        """Wait until each of them is as far as that."""
        while True:
            found = self.landings(run)
            if all(map(enough, found)):
                return found
            self._actions.wait(POLL)

    def wait_for(self, run: Run, flight: Flight) -> Landing:
        """Wait until one move is over."""
        found = self.wait(run, lambda each: each.over or each.flight is not flight)
        return next(landing for landing in found if landing.flight is flight)

    def _landings(self, run: Run, pods: list[Pod]) -> list[Landing]:
        found = landings(run, pods, self._actions.now(), self._timeout)
        return [landing for landing in found if landing.status != Status.STAYS]
