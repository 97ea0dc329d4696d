# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import Flight, Run
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.departures import Departures
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.manner import Manner
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import Outcome


def flight(name: str, replicas: int | None = None) -> Flight:
    return Flight(Move("ns", name, name, "", 1, "n1", "n2"), f"Deployment ns/{name}", 0.0, replicas=replicas)


@pytest.mark.parametrize(("stops", "evicted"), [(False, ["b", "c"]), (True, [])])
def test_of_a_gang_those_with_a_replica_more_and_the_others_all_leave_unless_one_does_not(
    stops: bool, evicted: list[str]
) -> None:
    journal = mock.Mock(outcome=Outcome("Recommended"))
    departures = Departures(mock.Mock(), Manner(), journal, mock.Mock())
    run = Run("p", 0, 0.0)

    def surge(_run: Run, _flight: Flight) -> None:
        if stops:
            journal.outcome.stop("NotReady", "it is not")

    with mock.patch.object(departures, "_surge") as surging, mock.patch.object(departures, "_usual") as usual:
        surging.leave.side_effect = surge
        departures.leave(run, [flight("a", 2), flight("b"), flight("c")])
    assert [call.args[1].move.pod for call in surging.leave.call_args_list] == ["a"]
    assert [each.move.pod for call in usual.leave.call_args_list for each in call.args[1]] == evicted
