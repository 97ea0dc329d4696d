# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make before break, on a cluster with one replica on a node of its own, and a budget that allows no eviction."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution import surge
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands, MakeBelieve
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    empty,
    order,
    step,
)


def single(**more: Any) -> MakeBelieve:
    """One replica on a node of its own, with a budget that allows no eviction."""
    made = MakeBelieve(**more)
    for number in range(3):
        made.add(f"n{number}")
    made.serve("base", 6, "n0", "n2")
    made.serve("solo", 1, "n1")
    made.needed = {"solo": 1, "base": 2}
    return made


SOLO: dict[str, Any] = {"rules": Rules(surging=frozenset({"default/solo"}), budgets_required=True)}


def test_the_new_pod_is_ready_before_the_old_one_goes() -> None:
    cluster = single()
    outcome = step(cluster, **SOLO)
    assert [move["by"] for move in outcome.evicted] == ["surge"]
    assert (empty(cluster), cluster.evictions, cluster.replicas["solo"]) == (1, 0, 1)
    assert cluster.least["solo"] == 1
    check_whole(cluster)


def test_without_it_the_only_replica_stays() -> None:
    cluster = single()
    assert order(cluster).waves == ()


def test_an_autoscaled_deployment_is_refused_by_name_and_then_left_alone() -> None:
    cluster = single(autoscalers={"solo"})
    outcome = step(cluster, **SOLO)
    assert (outcome.verdict, outcome.reasons[0]["reason"]) == ("StalePlan", "MakeBeforeBreakRefused")
    assert "HorizontalPodAutoscaler" in outcome.reasons[0]["detail"]
    assert order(cluster, **SOLO).waves == ()
    check_whole(cluster)


def test_a_new_pod_that_does_not_get_ready_is_taken_back_and_the_old_one_stays() -> None:
    cluster = single(never_ready={"solo"})
    outcome = step(cluster, **SOLO)
    assert outcome.verdict == "NotReady"
    assert outcome.reasons[0]["reason"] == "MakeBeforeBreakUndone"
    assert cluster.where()["n1"] == ["solo"]
    assert (cluster.least["solo"], cluster.replicas["solo"]) == (1, 1)
    check_whole(cluster)


def test_where_another_pod_went_the_old_one_has_not_moved_and_its_deletion_costs_what_it_did() -> None:
    cluster = single()
    hands = Hands(cluster)
    scale = hands.scale

    def more(namespace: str, name: str, was: int, to: int) -> bool:
        if to < was:
            # Somebody else scales up just now.
            cluster.replicas[name] = was + 1
        return scale(namespace, name, was, to)

    hands.scale = more  # type: ignore[method-assign]
    outcome = carry_out(hands, order(cluster, **SOLO), BRISK)
    assert (outcome.verdict, outcome.evicted) == ("StalePlan", [])
    assert outcome.reasons[0]["reason"] == "MakeBeforeBreakUndone"
    assert "still there" in outcome.message
    assert cluster.least["solo"] == 1
    check_whole(cluster)


def test_a_new_pod_that_the_controller_keeps_in_place_of_the_old_one_costs_no_less_than_others() -> None:
    cluster = single(heeds_taints=False)
    for name in ("n3", "n4"):
        cluster.add(name)  # The roomiest: so there it goes.
    made = order(cluster, **SOLO)
    hands = Hands(cluster)
    scale, least = hands.scale, surge.CHEAPEST

    def late(namespace: str, name: str, was: int, to: int) -> bool:
        marked = next((p for p in cluster.of(name) if p["metadata"].get("annotations", {}).get(surge.COST) == least), None)
        if to < was and marked:
            del marked["metadata"]["annotations"][surge.COST]
        answer = scale(namespace, name, was, to)
        if to < was and marked:
            marked["metadata"]["annotations"][surge.COST] = least
        return answer

    hands.scale = late  # type: ignore[method-assign]
    outcome = carry_out(hands, made, BRISK)
    assert outcome.verdict == "Strays"
    assert "is still there" in outcome.message
    assert cluster.least["solo"] == 1
    check_whole(cluster)
