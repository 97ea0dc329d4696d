# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Those that come, and where they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.actions import Answer, Leaving
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


def test_a_pod_that_waited_may_take_an_emptied_node() -> None:
    cluster = fleet()
    cluster.sizes["huge"], cluster.replicas["huge"] = 8, 1
    cluster.tick()
    found = finish(cluster)
    assert cluster.ready("huge") == 1
    assert not [stray for outcome in found for stray in outcome.strays]
    check_whole(cluster)


def test_a_pod_that_never_gets_ready_ends_the_run_and_freezes_its_workload() -> None:
    cluster = fleet(never_ready={"big", "mid", "low"})
    outcome = step(cluster)
    assert outcome.verdict == "NotReady"
    assert outcome.unready
    assert not outcome.done
    assert cluster.traces() == []
    cluster.never_ready.clear()
    cluster.tick()
    frozen = {f"default/{move['pod'].rsplit('-', 2)[0]}" for move in outcome.unready}
    moved = {f"default/{move.pod.rsplit('-', 2)[0]}" for wave in order(cluster).waves for move in wave}
    assert not frozen & moved
    cluster.time += BRISK.cool_down
    finish(cluster)
    assert empty(cluster) == 3
    check_whole(cluster)


def test_the_one_that_comes_is_waited_for_from_when_the_old_one_left() -> None:
    cluster = fleet(cold_start=1)
    made = order(cluster)
    hands = Hands(cluster)
    evict = hands.evict
    begun = cluster.time

    def late(move: Move, grace: int | None) -> Answer:
        if cluster.time < begun + 15:
            return Answer(Leaving.BLOCKED, "not yet")
        cluster.tick, tick = (lambda: None), cluster.tick  # type: ignore[method-assign]
        answer = evict(move, grace)
        cluster.tick = tick  # type: ignore[method-assign]
        return answer

    hands.evict = late  # type: ignore[method-assign]
    outcome = carry_out(hands, made, replace(BRISK, ready_timeout=10))
    assert outcome.verdict == "Recommended", outcome.message


def test_a_pod_with_a_long_grace_is_not_lost_while_it_ends_its_work() -> None:
    cluster = fleet(cold_start=1)
    made = order(cluster)
    first = made.waves[0][0]
    hands = Hands(cluster)
    until = cluster.time + 300
    (old,) = [each for each in cluster.running if each["metadata"]["uid"] == first.uid]

    def linger(move: Move, grace: int | None) -> Answer:
        old["metadata"]["deletionTimestamp"] = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Answer(Leaving.DONE)

    def end() -> None:
        if cluster.time >= until - 60 and old in cluster.running:
            cluster.running.remove(old)

    hands.evict = linger  # type: ignore[method-assign]
    cluster.on_wait = end
    outcome = carry_out(hands, replace(made, waves=((first,),)), replace(BRISK, ready_timeout=30))
    assert (outcome.verdict, len(outcome.landed)) == ("Recommended", 1), outcome.message
    assert cluster.time < until


def test_the_room_of_a_pod_may_go_to_one_of_another_namespace_that_had_waited() -> None:
    cluster = fleet(heeds_taints=False)
    cluster.sizes["huge"], cluster.replicas["huge"] = 8, 1
    cluster.tick()
    (huge,) = cluster.of("huge")
    huge["metadata"]["namespace"] = "other"
    made = order(cluster)
    first = made.waves[0][0]
    made = replace(made, waves=((first,),))

    hands = Hands(cluster)
    evict = hands.evict

    def take(move: Move, grace: int | None) -> Answer:
        huge["spec"]["nodeName"] = first.target
        return evict(move, grace)

    hands.evict = take  # type: ignore[method-assign]
    outcome = carry_out(hands, made, BRISK)
    assert (outcome.verdict, outcome.strays) == ("Recommended", [])
    assert outcome.landed[0]["node"] != first.target
