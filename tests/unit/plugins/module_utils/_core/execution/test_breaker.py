# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.breaker import PAUSE, Bounds, paused, tripped
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.landing import Landing, Status
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import Flight


def landing(status: Status, *, stray: bool = False) -> Landing:
    return Landing(Flight(Move("a", "p", "u", "", 1, "n1", "n2"), "w", 0.0), status, stray=stray)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([], None),
        ([landing(Status.READY)] * 5, None),
        ([landing(Status.READY, stray=True)], None),
        ([landing(Status.BOUND, stray=True)] * 2, "Strays"),
        ([landing(Status.WAITING)] * 5, None),
        ([landing(Status.TIMED_OUT)], "NotReady"),
        ([landing(Status.LOST)], "NotReady"),
    ],
)
def test_a_wave_of_five_ends_upon(found: list[Landing], verdict: str | None) -> None:
    told = tripped(found, 5, Bounds())
    assert (told and told[0]) == verdict


@pytest.mark.parametrize(("value", "pauses"), [("true", True), ("", True), ("False", True), ("false", False), (None, False)])
def test_any_value_but_false_pauses(value: str | None, pauses: bool) -> None:
    annotations = {} if value is None else {PAUSE: value}
    told = paused({"ConfigMap a/b": {}, "Namespace kube-system": annotations})
    assert (told is not None) == pauses
    assert told is None or told.startswith("Namespace kube-system has")
