# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import Ended, Flight, Run, State
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.observe import observe
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import ColdStart, Readings, Service
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, budget, node, packed, pod

NOW = epoch("2026-11-30T12:00:00Z")
NONE: Object = {"kind": "PodDisruptionBudgetList", "items": []}


def served(app: str, gpus: int, on: str, number: int, *, ready: bool = True, since: str = "11:03:00", **more: Any) -> Object:
    """A pod of a Deployment, scheduled at 11:00."""
    return pod(
        f"{app}-{number}",
        gpus,
        on,
        labels={"app": app, "pod-template-hash": "7d9c"},
        owner=f"ReplicaSet/{app}-7d9c",
        created="2026-11-30T10:59:58Z",
        status={
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T11:00:00Z"},
                {"type": "Ready", "status": str(ready), "lastTransitionTime": f"2026-11-30T{since}Z"},
            ]
        },
        **more,
    )


def seen(*objects: Object, moves: State | None = None, judged: float = 0.0, **options: Any) -> Readings:
    return observe(decode([*objects, NONE], now=NOW, live=True), AuditOptions(**options), moves or State(), judged)


def test_pods_that_are_on_nodes_are_counted_by_workload() -> None:
    found = seen(
        node("n1"),
        node("n2"),
        served("chat", 2, "n1", 1),
        served("chat", 2, "n2", 2, ready=False),
        served("llm", 4, "n1", 3, since="11:00:30"),
        served("old", 1, "n2", 4, metadata={"deletionTimestamp": "2026-11-30T11:59:00Z"}),
        pod("done", 1, "n2", phase="Succeeded"),
        pod("web", None, "n2"),
        pod("waiting", 1),
    )
    assert (found.gpu_pods, found.gpu_pods_not_ready) == (3, 1)
    assert found.services == {"Deployment default/chat": Service(2, 1), "Deployment default/llm": Service(1, 0)}
    assert found.cold_start == ColdStart(
        105, 165, {"Deployment default/chat": ColdStart(180, 180), "Deployment default/llm": ColdStart(30, 30)}
    )
    assert found.as_of == NOW


def test_a_cold_start_nobody_tells_is_unknown() -> None:
    found = seen(node("n1"), pod("bare", 1, "n1"))
    assert found.cold_start is None
    assert "cold_start is not known" in list(found.doubts(NOW))


def test_gpus_are_stranded_for_those_that_ask_for_more_weighted_by_what_they_ask_for() -> None:
    # 3 of 16 are free: 3 of them stranded for 8 and 4 GPUs, 1 for 2, none for 1.
    objects = packed("8: 4+2", "8: 4+1+1+1")
    asked = 4 + 4 + 2 + 3
    assert seen(*objects).stranded_share == pytest.approx((8 * 3 + 2 * 1) / asked / 16)
    assert seen(*objects, slot_size=8).stranded_share == pytest.approx(3 / 16)
    waiting = pod("big", 8, created="2026-11-30T11:45:00Z")
    assert seen(*objects, waiting).stranded_share == pytest.approx((8 * 3 + 2 * 1 + 8 * 3) / (asked + 8) / 16)
    assert seen(node("n1")).stranded_share == 0


def test_where_no_node_offers_gpus_nothing_is_told_of_them() -> None:
    found = seen(node("n1", 0), resource=GPU)
    assert found.stranded_share is None
    assert "no node offers" in found.unknown["stranded_share"]


def test_blocked_pods_are_those_that_fragmentation_keeps_waiting() -> None:
    objects = packed("8: 4+1", "8: 4+1")
    blocked = [pod(f"b{n}", 4, created=f"2026-11-30T11:{minute}:00Z") for n, minute in enumerate(("45", "50"))]
    found = seen(*objects, *blocked, pod("too-large", 32, created="2026-11-30T09:00:00Z"))
    assert (found.blocked_gpus, found.blocked_seconds) == (8, 900)
    nobody = seen(*objects)
    assert (nobody.blocked_gpus, nobody.blocked_seconds) == (0, 0)
    undated = seen(*objects, pod("b", 4))
    assert undated.blocked_seconds is None


def test_budgets_let_go_what_they_allow_and_pods_without_one_always_may() -> None:
    pods = [served("chat", 1, "n1", number) for number in range(3)]
    guard = budget("chat", {"app": "chat"}, allowed=1, healthy=3, needed=2)
    objects = [node("n1"), *pods, served("free", 1, "n1", 9)]

    def headroom(*more: Object) -> int | None:
        return observe(decode([*objects, *more], now=NOW, live=True), AuditOptions(), State(), 0.0).budget_headroom

    assert headroom(guard) == 2
    assert headroom(NONE) == 4
    assert headroom() is None


def flight(number: int, workload: str) -> Flight:
    move = Move("default", f"chat-{number}", f"u{number}", "ReplicaSet/chat-7d9c", 1, "n1", "n2")
    return Flight(move, workload, NOW - 10)


def test_what_was_moved_is_told_of_the_last_hour_and_what_came_of_it_since_the_last_decision() -> None:
    moves = State(ended=[Ended(NOW - 4000, 9, 9, 9), Ended(NOW - 3000, 5, 1, 1), Ended(NOW - 100, 4, 2, 0)])
    found = seen(node("n1"), moves=moves, judged=NOW - 3000)
    assert (found.evictions, found.strays, found.unready, found.judged) == (9, 2, 0, NOW - 100)
    again = seen(node("n1"), moves=moves, judged=NOW - 100)
    assert (again.evictions, again.strays, again.unready) == (9, 0, 0)


def test_a_wave_that_ends_later_than_now_is_judged_in_its_time() -> None:
    moves = State(ended=[Ended(NOW - 100, 4, 1, 0), Ended(NOW + 3600, 2, 2, 2), Ended(1e300, 1, 1, 1)])
    found = seen(node("n1"), moves=moves)
    assert (found.evictions, found.strays, found.unready, found.judged) == (7, 1, 0, NOW - 100)
    assert found.plain()["judged"] == "2026-11-30T11:58:20.000Z"


def test_pods_of_a_wave_that_is_under_way_are_told_apart_from_others_that_are_cold() -> None:
    run = Run("p", 0, NOW - 10, [flight(1, "Deployment default/chat"), flight(2, "Deployment default/chat")])
    pods = [served("chat", 1, "n1", 3, ready=False), served("other", 1, "n1", 4, ready=False), served("other", 1, "n1", 5)]
    found = seen(node("n1"), *pods, moves=State(run=run))
    assert (found.gpu_pods_not_ready, found.in_flight, found.evictions) == (2, 1, 2)
    assert found.services == {"Deployment default/chat": Service(1, 1, 1), "Deployment default/other": Service(2, 1)}


def test_what_was_moved_is_unknown_where_the_record_cannot_be_understood() -> None:
    found = observe(decode([node("n1"), NONE], now=NOW, live=True), AuditOptions(), None, 0.0)
    assert (found.evictions, found.strays, found.unready) == (None, None, None)
