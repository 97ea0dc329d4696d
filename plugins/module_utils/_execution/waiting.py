# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting: how often to look, until when, and who may end it."""

from __future__ import annotations

from .._core.execution.breaker import paused
from .actions import Actions

POLL = 1.0
"""Seconds between two looks at what is waited for."""
LONGEST = 15.0
"""The same for what is asked again ever less often."""


class Patience:
    """A deadline, and looks that get rarer until then."""

    def __init__(self, actions: Actions, seconds: float) -> None:
        self._actions = actions
        self._deadline = actions.now() + seconds
        self._wait = 0.0

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self._actions.now() >= self._deadline

    def wait(self, asked: float = 0.0) -> None:
        """Wait for the next look, which somebody may have asked to be so many seconds later."""
        self._wait = min(max(2 * self._wait, POLL, asked), LONGEST)
        self._actions.wait(min(self._wait, max(POLL, self._deadline - self._actions.now())))


def asked_to_stop(actions: Actions) -> tuple[str, str] | None:
    """The verdict and the reason of a pause that a user or the metrics ask for; None if nobody does."""
    if asked := paused(actions.annotations()):
        return "Paused", asked
    if fires := actions.fires():
        return "PausedByMetrics", fires
    return None
