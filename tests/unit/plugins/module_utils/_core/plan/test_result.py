# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, measured, node, pod, serving

KEYS = [
    "schema_version", "plan_id", "as_of", "verdict", "message", "resource_name", "objective", "solver", "before", "after",
    "waves", "evictions", "cost_seconds", "freed_nodes", "slots_gained", "placed_pods", "unplaced", "lower_bound", "optimal",
    "skipped", "nodes_kept", "limits", "rules", "notes",
]  # fmt: skip


def one(name: str, on: str, gpus: int = 1, **more: Any) -> Object:
    return serving(name, on, gpus, owner=f"ReplicaSet/rs-{name}", metadata={"uid": f"uid-of-{name}"}, **more)


OBJECTS = [node("n1"), node("n2"), node("n3"), one("a", "n1"), one("b", "n1", 2), pod("base", 4, "n2"), one("c", "n3", 8)]


def planned(objects: list[Object] | None = None, *, details: bool = False, **wish: Any) -> dict[str, Any]:
    given = {"rules": Rules(movable_singletons=True), "solver": "heuristic", **wish}
    return plan(OBJECTS if objects is None else objects, PlanOptions(**given), details=details)


@pytest.mark.parametrize("wish", [{}, {"max_evictions": 0}, {"kind": "blocked_pods"}, {"min_nodes_freed": 9}], ids=str)
def test_every_plan_has_the_same_keys_and_is_plain_data(wish: dict[str, Any]) -> None:
    found = planned(**wish)
    assert list(found) == KEYS
    assert json.loads(json.dumps(found)) == found


def test_a_move_names_the_pod_its_owner_and_both_nodes() -> None:
    ((first, second),) = planned()["waves"]
    both = {"namespace": "default", "from": "n1", "to": "n2"}
    assert first == both | {"pod": "b", "uid": "uid-of-b", "owner": "ReplicaSet/rs-b", "gpus": 2}
    assert second == both | {"pod": "a", "uid": "uid-of-a", "owner": "ReplicaSet/rs-a", "gpus": 1}


def test_before_and_after_are_what_an_audit_measures_then_and_now() -> None:
    found = planned()
    moved = [*OBJECTS[:3], one("a", "n2"), one("b", "n2", 2), *OBJECTS[5:]]
    for told, measures in ((found["before"], measured(OBJECTS)), (found["after"], measured(moved))):
        assert told == {key: measures[key] for key in told if key != "blocked_pods"} | {"blocked_pods": 0}
    assert found["slots_gained"] == {"1": 0, "2": 0, "4": 0, "8": 1}
    assert (found["freed_nodes"], found["evictions"], found["cost_seconds"]) == (["n1"], 2, 360.0)


def test_what_stays_is_told_by_pod_and_by_node() -> None:
    found = planned()
    (skipped,) = found["skipped"]
    assert {key: skipped[key] for key in ("pod", "node", "gpus", "reason")} == {
        "pod": "base", "node": "n2", "gpus": 4, "reason": "BarePod",
    }  # fmt: skip
    assert [kept["node"] for kept in found["nodes_kept"]] == ["n2"]
    assert found["nodes_kept"][0]["reason"] == f"default/base stays: {skipped['detail']}"


def test_what_was_wished_is_repeated() -> None:
    found = planned(kind="free_nodes", count=1, limits=Limits(per_node=2, interval_seconds=60))
    assert (found["objective"]["kind"], found["objective"]["count"]) == ("free_nodes", 1)
    assert planned()["objective"] == {"kind": "slots", "slot_size": 8, "count": "max"}
    assert found["limits"] == {
        "per_node": 2, "per_namespace": None, "per_workload": None, "total": None, "interval_seconds": 60,
    }  # fmt: skip


def test_the_id_changes_with_the_plan_and_with_the_state_it_is_for() -> None:
    same = planned()["plan_id"]
    assert planned(list(reversed(OBJECTS)))["plan_id"] == same
    others = [
        planned(limits=Limits(total=1)),
        planned(max_evictions=0),
        planned([*OBJECTS, node("n4")]),
        planned([*OBJECTS[:3], one("a", "n1") | {"metadata": {**one("a", "n1")["metadata"], "uid": "new"}}, *OBJECTS[4:]]),
    ]
    assert len({same, *(found["plan_id"] for found in others)}) == 5


def test_details_tell_what_each_node_holds_before_and_after() -> None:
    first, second, _third = planned(details=True)["details"]["nodes"]
    a, b = ({"namespace": "default", "pod": name, "gpus": gpus} for name, gpus in (("a", 1), ("b", 2)))
    base = {"namespace": "default", "pod": "base", "gpus": 4}
    assert (first["node"], first["free_before"], first["free_after"], first["gpus"]) == ("n1", 5, 8, 8)
    assert (first["before"], first["after"], second["before"], second["after"]) == ([b, a], [], [base], [base, b, a])


def test_a_pod_that_gets_room_is_named_with_its_node() -> None:
    found = planned([*OBJECTS, pod("guest", 8)], kind="blocked_pods")
    assert found["placed_pods"] == [{"namespace": "default", "pod": "guest", "gpus": 8, "node": "n1"}]
    assert (found["before"]["blocked_pods"], found["after"]["blocked_pods"]) == (1, 0)
