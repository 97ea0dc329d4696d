# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move, Order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.verify import (
    Fault,
    FaultReason,
    faults,
    pods_of,
    too_old,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules, staying
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, budget, node, pod, serving, workload

NOW = 1_000_000.0
MOVES = (
    Move("default", "llm-0", "u0", "ReplicaSet/llm", 2, "n1", "n2"),
    Move("default", "big-0", "u1", "ReplicaSet/big", 4, "n1", "n3"),
)


def cluster(**change: Any) -> list[Object]:
    """Two pods on n1, room for each on n2 and n3; by name what is to be otherwise."""
    found: dict[str, Any] = {
        "n1": node("n1"),
        "n2": node("n2"),
        "n3": node("n3"),
        "llm-0": serving("llm-0", "n1", 2, metadata={"uid": "u0"}, labels={"app": "llm"}),
        "llm-1": serving("llm-1", "n2", 2, labels={"app": "llm"}),
        "big-0": serving("big-0", "n1", 4, owner="ReplicaSet/big", metadata={"uid": "u1"}),
        "big-1": serving("big-1", "n3", 4, owner="ReplicaSet/big"),
        "llm": workload("ReplicaSet", "llm", 2),
        "big": workload("ReplicaSet", "big", 2),
        "budgets": {"kind": "PodDisruptionBudgetList", "items": []},
    }
    found |= change
    return [each for each in found.values() if each is not None]


def found(rules: Rules = Rules(budgets_required=True), **change: Any) -> list[Fault]:  # noqa: B008 - frozen
    read = decode(cluster(**change), live=True, now=NOW)
    return list(faults(MOVES, read, staying(Layout(read), rules), GPU))


def test_a_wave_that_holds_has_no_faults() -> None:
    assert found() == []


FAULTS: dict[str, tuple[FaultReason, dict[str, Any]]] = {
    "the pod is gone": (FaultReason.POD_GONE, {"llm-0": None}),
    "another has its name": (FaultReason.UID_CHANGED, {"llm-0": serving("llm-0", "n1", 2, metadata={"uid": "other"})}),
    "it is elsewhere": (FaultReason.POD_MOVED, {"llm-0": serving("llm-0", "n3", 2, metadata={"uid": "u0"})}),
    "it is being deleted": (
        FaultReason.POD_GONE,
        {"llm-0": serving("llm-0", "n1", 2, metadata={"uid": "u0", "deletionTimestamp": "2026-11-30T12:00:00Z"})},
    ),
    "it is protected now": (
        FaultReason.STAYS,
        {"llm-0": serving("llm-0", "n1", 2, metadata={"uid": "u0"}, annotations={"gpuops.io/protect": "true"})},
    ),
    "a sibling waits": (FaultReason.REPLICA_PENDING, {"llm-2": pod("llm-2", 2, owner="ReplicaSet/llm")}),
    "the destination is gone": (FaultReason.DESTINATION_GONE, {"n2": None, "llm-1": None, "x": serving("llm-1", "n1", 1)}),
    "it is cordoned": (FaultReason.DESTINATION_CLOSED, {"n2": node("n2", unschedulable=True)}),
    "it is not ready": (FaultReason.DESTINATION_CLOSED, {"n2": node("n2", ready="False")}),
    "it is full": (FaultReason.NO_ROOM, {"full": pod("full", 5, "n2")}),
    "the budget allows none": (FaultReason.BUDGET_EXHAUSTED, {"b": budget("b", {"app": "llm"}, allowed=0, healthy=2, needed=2)}),
    "budgets were not read": (FaultReason.BUDGET_EXHAUSTED, {"budgets": None}),
}


@pytest.mark.parametrize(("reason", "change"), FAULTS.values(), ids=FAULTS)
def test_what_is_off_is_told_by_name(reason: FaultReason, change: dict[str, Any]) -> None:
    told = found(**change)
    assert reason in {fault.reason for fault in told}
    first = next(fault for fault in told if fault.reason == reason)
    assert first.move is not None
    assert first.told() == {"reason": str(reason), "detail": first.detail, "namespace": "default", "pod": first.move.pod}


def test_what_was_moved_a_moment_ago_is_left_alone() -> None:
    frozen = Rules(budgets_required=True, cooling={"ReplicaSet default/llm": NOW + 10, "u1": NOW + 10})
    assert {fault.reason for fault in found(frozen)} == {FaultReason.OWNER_FROZEN}
    passed = Rules(budgets_required=True, cooling={"ReplicaSet default/llm": NOW - 10, "u1": NOW})
    assert found(passed) == []


def test_room_that_a_pod_of_the_wave_still_holds_is_none() -> None:
    back = Move("default", "x", "u2", "ReplicaSet/x", 6, "n4", "n1")
    more = {
        "n4": node("n4"),
        "x": serving("x", "n4", 6, owner="ReplicaSet/x", metadata={"uid": "u2"}),
        "rs": workload("ReplicaSet", "x", 1),
    }
    read = decode(cluster(**more), live=True, now=NOW)
    rules = Rules(movable_singletons=True, budgets_required=True)
    told = list(faults((*MOVES, back), read, staying(Layout(read), rules), GPU))
    assert [fault.reason for fault in told] == [FaultReason.NO_ROOM]


def test_the_pods_of_a_wave_are_found_by_uid_where_they_are_bound() -> None:
    assert list(pods_of(decode(cluster(**{"big-0": None}), live=True), MOVES)) == [MOVES[0]]


@pytest.mark.parametrize(
    ("made", "carried_on", "old"),
    [
        (NOW - 100, 0, False),
        (NOW - 901, 0, True),
        (NOW - 5000, NOW - 10, False),
        (None, NOW, True),
        (NOW + 60, 0, False),
        (NOW + 5000, 0, True),
        (NOW - 100, NOW + 5000, True),
    ],
)
def test_a_plan_is_too_old_by_when_it_was_made_or_carried_on(made: float | None, carried_on: float, old: bool) -> None:
    order = Order("p", "Recommended", GPU, (), made, Rules(), 300, (), {})
    fault = too_old(order, NOW, carried_on, 900)
    assert (fault is not None and fault.reason == FaultReason.TOO_OLD) == old
