# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Eviction API, and what its answers mean."""

from __future__ import annotations

from typing import Any

from ..._core.errors import InputError
from ..._core.execution.order import Move
from ..._kubernetes import Live, RefusedError
from ..actions import Answer, Leaving

# What it answers with 500; it will never let such a pod go.
_SEVERAL = "more than one PodDisruptionBudget"


class EvictionApi:
    """Evictions that were asked for, some without an answer."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._unsure: set[str] = set()

    def ask(self, move: Move, grace: int | None) -> Answer:
        """Ask for a pod's eviction, of this very pod.

        Args:
            move: What it is evicted for.
            grace: Seconds; None for the pod's own.
        """
        options: dict[str, Any] = {"preconditions": {"uid": move.uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": move.namespace, "name": move.pod},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{move.namespace}/pods/{move.pod}/eviction"
        try:
            self._live.send("post", path, body, once=True)
        except InputError as error:
            self._unsure.add(move.uid)
            return Answer(Leaving.BLOCKED, str(error), verdict="Refused")
        except RefusedError as error:
            return self._refused(move, error)
        return Answer(Leaving.DONE)

    def _refused(self, move: Move, error: RefusedError) -> Answer:
        told = str(error)
        if error.status == 404 or (error.status == 409 and "UID" in told):
            # One whose answer was lost may have been granted.
            return Answer(Leaving.DONE if move.uid in self._unsure else Leaving.GONE, told)
        if _SEVERAL in told:
            return Answer(Leaving.REFUSED, told, verdict="Refused")
        # A server that has just started may say no to what it later allows.
        return Answer(Leaving.BLOCKED, told, error.after, "BudgetExhausted" if error.status in (409, 429) else "Refused")
