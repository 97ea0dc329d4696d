# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For whom a run is, and when it waits for others."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.actions import LiveActions

MOVE = Move("ns", "p", "u", "", 1, "n1", "n2")


def test_it_ends_before_the_next_eviction_once_the_process_is_gone_for_which_it_runs() -> None:
    live = mock.Mock()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        actions = LiveActions(live, "kube-system", while_pid=process.pid)
        actions.wait(0)
    with pytest.raises(SystemExit, match=f"process {process.pid} is gone"):
        actions.wait(0)
    with pytest.raises(SystemExit):
        actions.evict(MOVE, None)
    live.send.assert_not_called()


@pytest.mark.parametrize(
    ("away", "ago", "waits"),
    [(None, 0, []), (1, 0, [17]), (10, 0, [35]), (10, 30, [5]), (10, 36, []), (300, 0, [75])],
    ids=["never", "a moment", "ten seconds", "half a minute ago", "long ago", "minutes"],
)
def test_after_the_server_was_away_the_scheduler_gets_time_to_see_what_is_there(
    away: float | None, ago: float, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    live: Any = SimpleNamespace(broke=None if away is None else 1000.0 - ago, away=away, now=0.0)
    actions = LiveActions(live, "kube-system")
    waited: list[float] = []
    monkeypatch.setattr("time.perf_counter", lambda: 1000.0)
    monkeypatch.setattr(actions, "wait", waited.append)
    monkeypatch.setattr(actions.lease, "keep", lambda: None)
    monkeypatch.setattr(actions, "_eviction_api", SimpleNamespace(ask=lambda *_given: None))
    actions.evict(MOVE, None)
    assert waited == waits
