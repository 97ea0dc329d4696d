# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For whom a run is: it ends once nobody wants it any more."""

from __future__ import annotations

import subprocess
from unittest import mock

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.actions import LiveActions


def test_it_ends_before_the_next_eviction_once_the_process_is_gone_for_which_it_runs() -> None:
    live = mock.Mock()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        actions = LiveActions(live, "kube-system", while_pid=process.pid)
        actions.wait(0)
    with pytest.raises(SystemExit, match=f"process {process.pid} is gone"):
        actions.wait(0)
    with pytest.raises(SystemExit):
        actions.evict(Move("ns", "p", "u", "", 1, "n1", "n2"), None)
    live.send.assert_not_called()
