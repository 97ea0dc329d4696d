# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that the descheduler evicts, or does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.breaker import PAUSE
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import EVICT
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._execution.fleets import (
    BRISK,
    check_whole,
    empty,
    finish,
    fleet,
    order,
    step,
)


def test_the_descheduler_evicts_what_is_labelled() -> None:
    cluster = fleet(descheduler=True)
    found = finish(cluster, replace(BRISK, actuator="descheduler"))
    assert {move["by"] for outcome in found for move in outcome.evicted} == {"descheduler"}
    assert empty(cluster) == 3
    check_whole(cluster)


def test_a_descheduler_that_evicts_nothing_is_waited_for_and_then_given_up() -> None:
    cluster = fleet(descheduler=False)
    outcome = step(cluster, replace(BRISK, actuator="descheduler"))
    assert outcome.verdict == "NotEvicted"
    assert cluster.evictions == 0
    check_whole(cluster)


def test_labels_alone_that_a_dead_run_left_are_a_change() -> None:
    cluster = fleet()
    cluster.running[0]["metadata"]["labels"][EVICT] = "true"
    none = replace(order(cluster), waves=())
    manner = replace(BRISK, label=False)
    assert carry_out(Hands(cluster), none, manner, check=True).changed
    assert carry_out(Hands(cluster), none, manner).changed
    assert not carry_out(Hands(cluster), none, manner).changed
    check_whole(cluster)


def test_a_pause_stops_the_descheduler_too() -> None:
    cluster = fleet(descheduler=False)
    cluster.on_wait = lambda: cluster.asked.update({PAUSE: "now"})
    began = cluster.time
    outcome = step(cluster, replace(BRISK, actuator="descheduler", evict_timeout=900))
    assert (outcome.verdict, outcome.evicted) == ("Paused", [])
    assert cluster.time < began + 60
    check_whole(cluster)


def test_a_pod_that_the_descheduler_evicts_at_the_last_moment_is_followed() -> None:
    cluster = fleet()
    hands = Hands(cluster)
    mark = hands.mark_pod

    def last(pod: Any, labels: Any, annotations: Any) -> bool:
        if labels == {EVICT: None}:
            cluster.descheduler = True
            cluster.tick()
            cluster.descheduler = False
        return mark(pod, labels, annotations)

    hands.mark_pod = last  # type: ignore[method-assign]
    outcome = carry_out(hands, order(cluster), replace(BRISK, actuator="descheduler"))
    assert cluster.evictions == len(outcome.evicted) == len(outcome.landed) > 0
    assert outcome.message == "wave 1 of 2 is carried out"
    check_whole(cluster)
