# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.landing import (
    Landing,
    Status,
    landings,
    left_at,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import Flight, Run
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.workloads import workload_of
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, pod, serving

NOON = "2026-11-30T12:00:00Z"
NOW = epoch(NOON) + 60
RS = "ReplicaSet/llm-1"


def read(*objects: Object) -> list[Pod]:
    found = decode(objects, live=True)
    return [*found.strangers, *found.pending, *found.finished]


def new(name: str, on: str = "", *, ready: bool = True, owner: str = RS, created: str = NOON, **more: Any) -> Object:
    labels = {"pod-template-hash": owner.rpartition("-")[2]}
    return serving(name, on, 1, owner=owner, ready=ready, created=created, labels=labels, metadata={"uid": f"u-{name}"}, **more)


def flight(name: str = "old", to: str = "n2", gpus: int = 1, *, workload: str = "Deployment default/llm", **more: Any) -> Flight:
    return Flight(Move("default", name, f"u-{name}", RS, gpus, "n1", to), workload, NOW - 30, ("u-old", "u-kept"), **more)


def wave(*flights: Flight, **more: Any) -> Run:
    return Run("p-1", 0, NOW - 30, list(flights), **more)


def one(*objects: Object, of: Flight | None = None, timeout: float = 100, waited: tuple[str, ...] = ()) -> Landing:
    (found,) = landings(wave(of or flight(), waiting=waited), read(*objects), NOW, timeout)
    return found


CASES: dict[str, tuple[list[Object], Status]] = {
    "the pod is still where it was": ([new("old", "n1")], Status.STAYS),
    "it is on its way out, nothing has come": ([new("kept", "n3")], Status.WAITING),
    "one has come and is on no node": ([new("a", ready=False)], Status.WAITING),
    "it is bound": ([new("a", "n2", ready=False)], Status.BOUND),
    "it is Ready": ([new("a", "n2")], Status.READY),
    "it is of a later rollout": ([new("a", "n2", owner="ReplicaSet/llm-2")], Status.READY),
    "it is another workload's": ([new("a", "n2", owner="ReplicaSet/other-1")], Status.WAITING),
    "it has failed": ([new("a", "n2") | {"status": {"phase": "Failed"}}], Status.WAITING),
}


@pytest.mark.parametrize(("objects", "status"), CASES.values(), ids=CASES)
def test_how_far_a_move_is(objects: list[Object], status: Status) -> None:
    found = one(*objects)
    assert (found.status, found.stray) == (status, False)


@pytest.mark.parametrize(
    ("objects", "status"),
    [
        ([], Status.LOST),
        ([new("a")], Status.TIMED_OUT),
        ([new("a", "n2", ready=False)], Status.TIMED_OUT),
        ([new("a", "n2")], Status.READY),
    ],
    ids=["none came", "no node took it", "not Ready", "Ready all the same"],
)
def test_time_runs_out_but_not_for_what_is_ready(objects: list[Object], status: Status) -> None:
    found = one(*objects, timeout=30)
    assert found.status == status
    assert found.over
    assert found.bound


def test_time_is_counted_from_when_the_new_pod_was_made() -> None:
    late = new("a", "n2", ready=False, created="2026-11-30T12:00:50Z")
    assert one(late, timeout=20).status == Status.BOUND
    assert one(late, timeout=10).status == Status.TIMED_OUT


def test_one_that_is_made_anew_for_ever_is_given_up_after_twice_the_time() -> None:
    anew = new("a", "n2", ready=False, created="2026-11-30T12:00:59Z")
    assert one(anew, timeout=16).status == Status.BOUND
    assert one(anew, timeout=15).status == Status.TIMED_OUT
    assert one(anew, timeout=15, of=flight(replicas=1)).status == Status.TIMED_OUT
    assert one(new("a", "n2", created="2026-11-30T12:00:59Z"), timeout=15).status == Status.READY


@pytest.mark.parametrize(
    ("by", "left"), [(None, NOW - 30), ("12:30:00", NOW), ("12:00:45", NOW - 15), ("12:00:20", NOW - 30)], ids=str
)
def test_a_pod_is_leaving_while_its_grace_lasts(by: str | None, left: float) -> None:
    going = {"deletionTimestamp": f"2026-11-30T{by}Z"} if by else {}
    (old,) = read(pod("old", 1, "n1", metadata=going))
    assert left_at(flight(), old, NOW) == left
    assert left_at(flight(), None, NOW) == NOW - 30


def test_elsewhere_is_a_stray_unless_a_pod_that_waited_took_the_place() -> None:
    assert one(new("a", "n5")).stray
    found = one(new("a", "n5"), pod("w", 8, "n2", metadata={"uid": "u-w"}), waited=("u-w",))
    assert (found.stray, found.displaced) == (False, True)


@pytest.mark.parametrize(("node", "stray"), [("n2", False), ("n5", False), ("n6", True)])
def test_what_is_led_loosely_is_a_stray_only_where_something_is_at_stake(node: str, stray: bool) -> None:
    (found,) = landings(wave(flight(loose=True), avoided=("n2", "n6")), read(new("a", node)), NOW, 100)
    assert found.stray is stray


def test_a_stateful_pod_keeps_its_name_and_another_of_its_set_is_not_it() -> None:
    moved = Flight(Move("default", "db-0", "u-1", "StatefulSet/db", 1, "n1", "n2"), "StatefulSet default/db", NOW)
    other = serving("db-1", "n2", owner="StatefulSet/db", metadata={"uid": "u-x"})
    assert one(other, of=moved).status == Status.WAITING
    assert one(other, serving("db-0", "n2", owner="StatefulSet/db", metadata={"uid": "u-2"}), of=moved).status == Status.READY


def test_pods_alike_may_change_places_and_each_counts_once() -> None:
    flights = [flight("x", "n2"), flight("y", "n3")]
    found = landings(wave(*flights), read(new("a", "n3"), new("b", "n2")), NOW, 100)
    assert [(each.pod and each.pod.name, each.stray) for each in found] == [("b", False), ("a", False)]
    found = landings(wave(*flights), read(new("a", "n3"), new("b", "n9")), NOW, 100)
    assert [each.stray for each in found] == [True, False]


def test_another_workloads_destination_of_the_same_size_will_do() -> None:
    flights = [flight("x", "n2"), flight("y", "n3", workload="Deployment default/two")]
    found = landings(wave(*flights), read(new("a", "n3"), new("b", "n2", owner="ReplicaSet/two-1")), NOW, 100)
    assert [each.stray for each in found] == [False, False]
    flights[1] = flight("y", "n3", 2, workload="Deployment default/two")
    assert landings(wave(*flights), read(new("a", "n3")), NOW, 100)[0].stray


def test_one_that_comes_first_is_followed_while_the_old_one_stays() -> None:
    assert one(new("old", "n1"), new("a", "n2"), of=flight(replicas=1)).status == Status.READY


@pytest.mark.parametrize(
    ("owner", "labels", "told"),
    [
        ("ReplicaSet/llm-5d8f", {"pod-template-hash": "5d8f"}, "Deployment default/llm"),
        ("ReplicaSet/llm-5d8f", {"rollouts-pod-template-hash": "5d8f"}, "Rollout default/llm"),
        ("ReplicaSet/llm-5d8f", {"pod-template-hash": "other"}, "ReplicaSet default/llm-5d8f"),
        ("ReplicaSet/llm", {}, "ReplicaSet default/llm"),
        ("Job/train", {}, "Job default/train"),
        (None, {}, "Pod default/p"),
    ],
)
def test_whose_a_pod_is(owner: str | None, labels: dict[str, str], told: str) -> None:
    (found,) = read(pod("p", 1, "n1", owner=owner, labels=labels))
    assert workload_of(found) == told
