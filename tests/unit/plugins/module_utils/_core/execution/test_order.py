# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move, read_order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.tests.unit.builders import node, serving, workload

OBJECTS = [
    node("n1"),
    node("n2"),
    workload("ReplicaSet", "llm", 2),
    workload("ReplicaSet", "big", 2),
    serving("a", "n1", 1, metadata={"uid": "uid-a"}, created="2026-11-30T12:00:00Z"),
    serving("b", "n2", 1),
    serving("c", "n2", 4, owner="ReplicaSet/big"),
]


def made() -> dict[str, Any]:
    return json.loads(json.dumps(plan(OBJECTS, PlanOptions(kind="free_nodes", count=1, solver="heuristic"))))  # type: ignore[no-any-return]


def test_a_plan_is_read_as_it_was_made() -> None:
    order = read_order(made())
    assert order.waves == ((Move("default", "a", "uid-a", "ReplicaSet/llm", 1, "n1", "n2"),),)
    assert (order.verdict, order.made, order.interval, order.freed_nodes) == ("Recommended", 1796040000.0, 300.0, ("n1",))
    assert order.rules.budgets_required
    assert order.waves[0][0].told() == made()["waves"][0][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "plan.schema_version: is 2, not 1"),
        ({"plan_id": None}, "plan.plan_id: is NoneType"),
        ({"as_of": "noon"}, "plan.as_of: 'noon' is not a time"),
        ({"waves": {}}, "plan.waves: is dict"),
        ({"waves": [3]}, "plan.waves[0]: is int"),
        ({"waves": [[3]]}, "plan.waves[0][0]: is int"),
        ({"waves": [[{"namespace": "a"}]]}, "plan.waves[0][0].pod: is missing"),
        ({"rules": {}}, "plan.rules.movable_singletons: is missing"),
        ({"limits": {"interval_seconds": True}}, "plan.limits.interval_seconds: is bool"),
    ],
    ids=str,
)
def test_what_is_no_plan_is_refused_by_field(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        read_order(made() | change)
    assert words in str(error.value)
