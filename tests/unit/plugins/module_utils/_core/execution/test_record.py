# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import (
    HOUR,
    LARGEST,
    Ended,
    Flight,
    Past,
    Run,
    State,
    read_state,
)

MOVE = Move("ns", "p", "u", "ReplicaSet/r", 2, "n1", "n2")
FULL = State(
    plan_id="p-1",
    waves_done=2,
    last_wave=5.0,
    last_end=9.0,
    run=Run("p-1", 2, 5.0, [Flight(MOVE, "ReplicaSet ns/r", 6.0, ("k",), 3, "d", "7", True)], {"w": "ns"}, ("n1",)),
    workloads={"ReplicaSet ns/r": Past(9.0, 3, 1, 0, 100.0), "Job ns/j": Past(8.0, 1)},
    pods={"new": 50.0, "old": 10.0},
    totals={"evicted": 3},
    ended=[Ended(12.0, 3, 1, 0)],
)


def test_what_is_written_is_read_again_without_what_has_passed() -> None:
    text = FULL.to_json(now=20.0)
    again = read_state(text)
    assert again.pods == {"new": 50.0}
    assert again == FULL
    assert again.to_json(20.0) == text


def test_moves_are_forgotten_after_an_hour() -> None:
    state = State(ended=[Ended(100.0, 1, 0, 0), Ended(200.0, 2, 0, 0)])
    assert read_state(state.to_json(100.0 + HOUR)).ended == [Ended(200.0, 2, 0, 0)]


def test_what_is_to_be_left_alone_is_told_until_its_time() -> None:
    state = State(workloads={"a": Past(frozen_until=10.0), "b": Past()}, pods={"u": 20.0})
    assert state.cooling(5.0) == {"a": 10.0, "u": 20.0}
    assert state.cooling(10.0) == {"u": 20.0}


def test_nothing_written_is_a_new_state() -> None:
    assert read_state(None) == State()


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(FULL.to_json(20.0)), **fields})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"version": 1}',
        changed(version=2),
        changed(version=None),
        changed(plan_id=3),
        changed(waves_done=True),
        changed(waves_done=-1),
        changed(last_wave=float("nan")),
        changed(last_end=float("inf")),
        changed(last_wave=10**400),
        changed(pods={"u": float("nan")}),
        changed(workloads={"a": asdict(Past()) | {"frozen_until": float("-inf")}}),
        changed(other=1),
        changed(run={}),
        changed(run={"plan_id": "p", "wave": 0, "begun": 1.0, "flights": [{}], "waiting": {}}),
        changed(run={"plan_id": "p", "wave": 0, "begun": 1.0, "flights": [], "waiting": []}),
        changed(workloads=[]),
        changed(workloads={"a": {}}),
        changed(pods={"u": "soon"}),
        changed(totals={"evicted": []}),
        changed(ended=[{"at": 1.0}]),
        changed(ended=[{"at": 1.0, "evicted": 1, "strays": "none", "unready": 0}]),
    ],
)
def test_what_is_not_understood_is_an_error_and_never_a_guess(text: str) -> None:
    with pytest.raises(InputError, match=r"^state.json: "):
        read_state(text)


def test_the_oldest_histories_go_before_it_gets_too_large() -> None:
    state = State(workloads={f"Deployment ns/{'x' * 1000}-{n}": Past(last=float(n)) for n in range(3000)})
    text = state.to_json(0.0)
    assert len(text) <= LARGEST
    kept = sorted(past.last for past in read_state(text).workloads.values())
    assert kept[-1] == 2999.0
    assert kept[0] == 3000.0 - len(kept)
