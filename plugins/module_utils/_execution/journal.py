# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted of a run: for the run after it, for the result, and as Events for whoever looks at pods and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.errors import InputError
from .._core.execution.landing import Landing
from .._core.execution.order import Order
from .._core.execution.record import Ended, Flight, Past, Run, State, read_state
from .actions import Actions, node_named, pod_named
from .outcome import Outcome


class Journal:
    """The journal of one run.

    Attributes:
        state: What is remembered from run to run.
        outcome: What this run has done.
    """

    def __init__(self, actions: Actions, order: Order, cool_down: float) -> None:
        self.state = State()
        self.outcome = Outcome(order.verdict)
        self._actions = actions
        self._plan_id = order.plan_id
        self._cool_down = cool_down

    def load(self) -> bool:
        """Read the state; where it cannot be understood, what is in flight is not known, and nothing is touched."""
        text = self._actions.load()
        try:
            self.state = read_state(text)
        except InputError as error:
            told = "what is in flight is not known; put the ConfigMap right, or delete it once nothing is"
            self.outcome.stop("StateUnknown", f"ConfigMap gpuops-defrag: {error}: {told}")
            return False
        return True

    def save(self) -> None:
        """Save the state, for the run after this one."""
        self._actions.save(self.state.to_json(self._actions.now()))

    def freeze(self, workload: str) -> None:
        """Have a workload left alone for a while."""
        self._past(workload).frozen_until = self._actions.now() + self._cool_down

    def left(self, flight: Flight, by: str) -> None:
        """A pod has left its node."""
        move, flight.since = flight.move, self._actions.now()
        self.outcome.evicted.append(move.told() | {"by": by})
        self.state.count("evicted")
        note = f"moved from {move.source}, to go to {move.target}: plan {self._plan_id}"
        self._actions.tell(pod_named(move), "Defragmenting", note)

    def kept(self, run: Run, flight: Flight, reason: str, detail: str, verdict: str) -> None:
        """A pod did not leave: the wave ends."""
        move = flight.move
        self.outcome.reasons.append({"reason": reason, "detail": detail, "namespace": move.namespace, "pod": move.pod})
        self.outcome.stop(verdict, f"{move}: {detail}")
        if flight in run.flights:
            run.flights.remove(flight)

    def settle(self, found: Sequence[Landing]) -> None:
        """Moves are over, well or not."""
        now, state, outcome = self._actions.now(), self.state, self.outcome
        if found:
            strays, unready = sum(each.stray for each in found), sum(not each.ready for each in found)
            state.ended.append(Ended(now, len(found), strays, unready))
        for landing in found:
            pod, past = landing.pod, self._past(landing.flight.workload)
            past.last = now
            past.moves += 1
            told = landing.flight.move.told() | {
                "node": pod.node if pod else "",
                "replacement": pod.name if pod else "",
                "status": landing.status,
            }
            if pod:
                state.pods[pod.uid] = now + self._cool_down
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
                self.freeze(landing.flight.workload)
                state.count("strays" if landing.stray else "unready")
            self._tell(landing)

    def _past(self, workload: str) -> Past:
        return self.state.workloads.setdefault(workload, Past())

    def _tell(self, landing: Landing) -> None:
        pod, move = landing.pod, landing.flight.move
        if pod is None:
            note = f"nothing has come in time in the place of {move}"
            self._actions.tell(node_named(move.source), "DefragmentationLost", note, warning=True)
            return
        reason = "DefragmentationStray" if landing.stray else "Defragmented" if landing.ready else "DefragmentationNotReady"
        note = f"in the place of {move}, moved from {move.source} to {move.target}; on {pod.node or 'no node'}, {landing.status}"
        self._actions.tell(pod_named(pod), reason, note, warning=reason != "Defragmented")
