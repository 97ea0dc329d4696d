# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One tick of the rate of a live cluster: what is known is gathered, and what was decided is remembered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ._core.audit.measures import AuditOptions
from ._core.errors import InputError
from ._core.execution import record
from ._core.execution.breaker import paused
from ._core.kube.decode import decode
from ._core.rate.law import Decision, State, decide, read_state
from ._core.rate.observe import observe
from ._core.rate.readings import STALE, Guard, Readings
from ._core.rate.series import Sample, guard, with_answers
from ._execution.live.memory import KEY as MOVES
from ._execution.live.memory import recall, remember
from ._execution.live.objects import NAME, clock
from ._kubernetes import TUNING, Live
from ._prometheus import Prometheus, UnansweredError
from ._rate_arguments import Law, Watch

KEY = "rate.json"
"""In the ConfigMap that gpu_defrag keeps its own state in."""


@dataclass(frozen=True, slots=True)
class Questions:
    """What Prometheus is asked.

    Attributes:
        prometheus: Whom to ask; None for nobody.
        queries: By the name of the reading.
        own: Readings whose query is the user's.
        watches: The guards.
    """

    prometheus: Prometheus | None
    queries: Mapping[str, str]
    own: frozenset[str]
    watches: Sequence[Watch]


@dataclass(frozen=True, slots=True)
class Tick:
    """What was decided.

    Attributes:
        before: What was remembered, as text; "" for nothing.
        after: What is to be remembered.
        notes: What could not be read.
    """

    decision: Decision
    readings: Readings
    before: str
    after: str
    notes: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether something else is to be remembered than was."""
        return self.before != self.after


def tick(live: Live, namespace: str, law: Law, audit: AuditOptions, questions: Questions) -> Tick:
    """Read the cluster and decide; nothing is written.

    Args:
        live: The connection.
        namespace: Where the ConfigMap is.
        law: The bounds.
        audit: Which GPUs are looked at.
        questions: What Prometheus is asked.

    Raises:
        InputError: The cluster does not answer, or is not what it should be.
        RefusedError: A right is missing.
    """
    found = recall(live, namespace)
    where = f"ConfigMap {namespace}/{NAME}"
    data = found.get("data") or {}
    text, notes = str(data.get(KEY) or ""), []
    state: State | None = None
    try:
        state = read_state(json.loads(text)) if text else None
    except (ValueError, RecursionError) as error:
        notes.append(f"{where}: {KEY} cannot be read ({error}): the rate begins anew")
    moves, lost = None, ""
    try:
        moves = record.read_state(data.get(MOVES) or None)
    except InputError as error:
        lost = f"{where}: {error}"
    system = live.send("get", "/api/v1/namespaces/kube-system")
    annotations = {where: found["metadata"], "Namespace kube-system": system["metadata"]}
    asked = paused({name: meta.get("annotations") or {} for name, meta in annotations.items()})
    answers, watched = _ask(questions)
    cluster = live.read(TUNING, lambda documents: decode(documents, source=live.name, now=live.now, live=True))
    readings = observe(cluster, audit, moves, state.judged_until(clock(live)) if state else 0.0)
    for name in ("evictions", "strays", "unready") if lost else ():
        readings = readings.without(name, lost)
    # The server's clock is read with each of its answers: before the cluster was read it told when Prometheus was asked first.
    now = clock(live)
    guards = tuple(_guarded(watch, answer, now) for watch, answer in watched)
    readings = with_answers(replace(readings, paused=asked, guards=guards), answers, questions.own, now)
    decision = decide(readings, law.bounds, state, now, interval=law.interval)
    after = json.dumps(decision.state.plain(), sort_keys=True, separators=(",", ":"))
    return Tick(decision, readings, text, after, (*notes, *live.notes))


def keep(live: Live, namespace: str, found: Tick) -> None:
    """Remember what was decided.

    Raises:
        RefusedError: A right is missing.
    """
    if found.changed:
        remember(live, namespace, KEY, found.after)


def _ask(questions: Questions) -> tuple[dict[str, Sequence[Sample] | str], list[tuple[Watch, Sequence[Sample] | str]]]:
    """What came of the queries, and of the guards."""
    prometheus = questions.prometheus
    if prometheus is None:
        return {}, []
    answers = {name: _answer(prometheus, query) for name, query in questions.queries.items()}
    return answers, [(watch, _answer(prometheus, watch.query)) for watch in questions.watches]


def _guarded(watch: Watch, answer: Sequence[Sample] | str, now: float) -> Guard:
    if isinstance(answer, str):
        return Guard(watch.query, detail=answer)
    return guard(watch.query, answer, now, above=watch.above, below=watch.below)


def _answer(prometheus: Prometheus, query: str) -> Sequence[Sample] | str:
    """What a query comes to, or why there is no answer."""
    try:
        # Within an expression too: its own sample is of this very moment, however old what it is made of.
        answer = prometheus.instant(query, max_age=STALE)
    except UnansweredError as error:
        # Whoever has not answered for so long is not waited for again.
        prometheus.patience = 0
        return str(error)
    return "; ".join(answer.warnings) or answer.samples
