# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import SELECTION_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.module_utils._plan_arguments import PLAN_ARGUMENTS, plan_params
from ansible_collections.gpuops.defrag.plugins.modules import gpu_defrag_plan


def spec_of(documented: dict[str, Any]) -> dict[str, Any]:
    """Documented options as an argument spec."""
    found = {}
    for name, option in documented.items():
        found[name] = {key: value for key, value in option.items() if key not in ("description", "suboptions")}
        if "suboptions" in option:
            # Their defaults hold where none of them is given.
            found[name] |= {"options": spec_of(option["suboptions"]), "apply_defaults": True}
    return found


def params(live: bool = False, **given: Any) -> dict[str, Any]:
    checked = ArgumentSpecValidator(PLAN_ARGUMENTS).validate(given)
    assert not checked.error_messages
    return plan_params(checked.validated_parameters, live=live)


def test_every_option_is_documented_as_it_is() -> None:
    documentation = yaml.safe_load(gpu_defrag_plan.DOCUMENTATION)
    own = {name: spec for name, spec in PLAN_ARGUMENTS.items() if name not in SELECTION_ARGUMENTS}
    assert spec_of(documentation["options"]) == own
    assert "gpuops.defrag.selection" in documentation["extends_documentation_fragment"]


def test_every_option_is_described_in_whole_sentences() -> None:
    def described(options: dict[str, Any]) -> list[str]:
        texts: list[str] = []
        for option in options.values():
            told = option["description"]
            texts += [told] if isinstance(told, str) else told
            texts += described(option.get("suboptions", {}))
        return texts

    assert all(text.endswith(".") for text in described(yaml.safe_load(gpu_defrag_plan.DOCUMENTATION)["options"]))


def test_without_options_a_plan_has_the_core_s_own_defaults_and_careful_limits() -> None:
    careful = Limits(per_node=1, per_namespace=5, per_workload=1)
    assert params() == {
        "options": PlanOptions(audit=AuditOptions(slot_size=8), limits=careful),
        "now": None,
        "mark": None,
        "details": False,
    }


def test_live_budgets_that_were_not_read_are_unknown() -> None:
    assert params(live=True)["options"].rules == Rules(budgets_required=True)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"objective": {"kind": "free_nodes"}}, "kind", "free_nodes"),
        ({"objective": {"slot_size": 4}}, "slot_size", 4),
        ({"objective": {"slot_size": 6}}, "audit", AuditOptions(sizes=(1, 2, 4, 6, 8), slot_size=6)),
        ({"objective": {"kind": "free_nodes"}}, "audit", AuditOptions()),
        ({"objective": {"count": 3}}, "count", 3),
        ({"objective": {"count": "3"}}, "count", 3),
        ({"objective": {"count": "max"}}, "count", None),
        ({"max_evictions": 5}, "max_evictions", 5),
        ({"min_nodes_freed": 2}, "min_nodes_freed", 2),
        ({"limits": {"per_node": 3}}, "limits", Limits(3, 5, 1)),
        ({"limits": {"per_workload": 2, "total": 9, "interval_seconds": 60}}, "limits", Limits(1, 5, 2, 9, 60)),
        ({"across_products": True}, "across_products", True),
        ({"movable_gangs": True, "movable_local_storage": True}, "rules", Rules(movable_gangs=True, movable_local_storage=True)),
        ({"min_pod_age": "1h30m"}, "rules", Rules(min_pod_age=5400.0)),
        ({"min_pod_age": 90}, "rules", Rules(min_pod_age=90.0)),
        ({"priority_threshold": 100}, "rules", Rules(priority_threshold=100)),
        ({"pod_cost": {"a/b": "3m", "default": 60}}, "cold_start", {"a/b": 180.0, "default": 60.0}),
        ({"solver": "exact", "time_limit": 5, "seed": 7}, "solver", "exact"),
        ({"time_limit": 5}, "time_limit", 5.0),
        ({"seed": 7}, "seed", 7),
    ],
    ids=str,
)
def test_options_reach_the_plan(given: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(params(**given)["options"], name) == value


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"objective": {"count": ""}}, "objective.count"),
        ({"objective": {"slot_size": 0}}, "objective.slot_size"),
        ({"objective": {"slot_size": 1_000_001}}, "objective.slot_size"),
        ({"objective": {"kind": "free_nodes", "slot_size": 10**400}}, "objective.slot_size"),
        ({"objective": {"count": "1.5"}}, "objective.count"),
        ({"objective": {"count": "²"}}, "objective.count"),
        ({"objective": {"count": "9" * 5000}}, "objective.count"),
        ({"min_pod_age": "-5"}, "min_pod_age"),
        ({"min_pod_age": "inf"}, "min_pod_age"),
        ({"pod_cost": {"default": None}}, "pod_cost[default]"),
        ({"protect": ["a", "b["]}, "protect[1]"),
        ({"protect": ["a", "nope(@)"]}, "protect[1]"),
        ({"limits": {"total": -1}}, "limits.total"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_an_option_that_makes_no_sense_is_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        params(**given)
    assert refused.value.field == field
