# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server's answers to an eviction mean."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.actions import Answer, Leaving
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.eviction import EvictionApi
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError

MOVE = Move("ns", "p", "u-1", "", 1, "n1", "n2")
AWAY = InputError("no answer")
GONE = RefusedError(404, "not found")


def answers(*given: Exception | None) -> Answer:
    """The last of the answers to evictions that end so, one after the other."""
    api = EvictionApi(mock.Mock(**{"send.side_effect": given}))
    return [api.ask(MOVE, None) for _each in given][-1]


@pytest.mark.parametrize(
    ("given", "leaving", "verdict"),
    [
        (RefusedError(404, "not found"), Leaving.GONE, None),
        (RefusedError(409, "the UID in the precondition does not match"), Leaving.GONE, None),
        (RefusedError(409, "please try again"), Leaving.BLOCKED, "BudgetExhausted"),
        (RefusedError(429, "disruption budget", 10.0), Leaving.BLOCKED, "BudgetExhausted"),
        (RefusedError(500, "This pod has more than one PodDisruptionBudget"), Leaving.REFUSED, "Refused"),
        (RefusedError(500, "etcd is away"), Leaving.BLOCKED, "Refused"),
        (RefusedError(403, "a webhook denies it"), Leaving.BLOCKED, "Refused"),
        (AWAY, Leaving.BLOCKED, "Refused"),
        (None, Leaving.DONE, None),
    ],
    ids=str,
)
def test_an_answer_is_told_as(given: Exception | None, leaving: Leaving, verdict: str | None) -> None:
    found = answers(given)
    assert (found.leaving, found.verdict if verdict else None) == (leaving, verdict)
    assert found.after == getattr(given, "after", None)


def test_a_pod_that_is_gone_has_left_if_an_answer_was_lost_before() -> None:
    assert answers(AWAY, GONE).leaving == Leaving.DONE
    assert answers(GONE, GONE).leaving == Leaving.GONE


@pytest.mark.parametrize(("grace", "options"), [(None, {}), (0, {"gracePeriodSeconds": 0})])
def test_it_is_this_very_pod_that_is_asked_for(grace: int | None, options: dict[str, int]) -> None:
    live = mock.Mock()
    EvictionApi(live).ask(MOVE, grace)
    method, path, body = live.send.call_args.args
    assert (method, path) == ("post", "/api/v1/namespaces/ns/pods/p/eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "u-1"}} | options
