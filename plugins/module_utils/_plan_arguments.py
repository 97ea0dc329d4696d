# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of planning. Their documentation is that of gpu_defrag_plan."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from ._arguments import SELECTION_ARGUMENTS, node_selector, seconds_of, time_of
from ._core.audit.measures import AuditOptions
from ._core.errors import InputError
from ._core.plan.evictable import Rules
from ._core.plan.options import PlanOptions
from ._core.plan.schedule import Limits
from ._protect import protect

PLAN_ARGUMENTS: dict[str, dict[str, Any]] = {
    **SELECTION_ARGUMENTS,
    "objective": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "kind": {"type": "str", "default": "slots", "choices": ["slots", "free_nodes", "blocked_pods"]},
            "slot_size": {"type": "int", "default": 8},
            "count": {"type": "str", "default": "max"},
        },
    },
    "max_evictions": {"type": "int"},
    "min_nodes_freed": {"type": "int", "default": 0},
    "limits": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "per_node": {"type": "int", "default": 1},
            "per_namespace": {"type": "int", "default": 5},
            "per_workload": {"type": "int", "default": 1},
            "total": {"type": "int"},
            "interval_seconds": {"type": "int", "default": 300},
        },
    },
    "across_products": {"type": "bool", "default": False},
    "protect": {"type": "list", "elements": "str", "default": []},
    "priority_threshold": {"type": "int"},
    "movable_singletons": {"type": "bool", "default": False},
    "movable_gangs": {"type": "bool", "default": False},
    "movable_local_storage": {"type": "bool", "default": False},
    "make_before_break": {"type": "list", "elements": "str", "default": []},
    "min_pod_age": {"type": "str", "default": "0s"},
    "pod_cost": {"type": "dict", "default": {}},
    "solver": {"type": "str", "default": "auto", "choices": ["auto", "heuristic", "exact"]},
    "time_limit": {"type": "float", "default": 30.0},
    "seed": {"type": "int", "default": 0},
    "now": {"type": "str"},
    "state_namespace": {"type": "str", "default": "kube-system"},
    "details": {"type": "bool", "default": False},
}


def plan_params(params: Mapping[str, Any], *, live: bool, cooling: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The keyword arguments of ``plan`` that options of PLAN_ARGUMENTS ask for.

    Args:
        params: The options.
        live: A live cluster is read: PodDisruptionBudgets that it does not let be read may be there all the same.
        cooling: What was moved and is to be left alone, and until when.

    Raises:
        InputError: An option cannot be read or makes no sense; it names the option.
    """
    objective, limits = params["objective"], params["limits"]
    if objective["slot_size"] < 1:
        raise InputError(f"is {objective['slot_size']}; a slot has at least 1 GPU", field="objective.slot_size")
    return {
        "options": PlanOptions(
            audit=AuditOptions(
                resource=params["resource_name"],
                selector=node_selector(params),
                # Slots of the size that is wished are told too, and stranded GPUs judged at it.
                sizes=tuple(sorted({1, 2, 4, 8, objective["slot_size"]})),
                slot_size=objective["slot_size"] if objective["kind"] == "slots" else None,
            ),
            kind=objective["kind"],
            slot_size=objective["slot_size"],
            count=_count(objective["count"]),
            max_evictions=params["max_evictions"],
            min_nodes_freed=params["min_nodes_freed"],
            rules=Rules(
                movable_singletons=params["movable_singletons"],
                movable_gangs=params["movable_gangs"],
                movable_local_storage=params["movable_local_storage"],
                min_pod_age=seconds_of(params["min_pod_age"], "min_pod_age"),
                priority_threshold=params["priority_threshold"],
                budgets_required=live,
                cooling=cooling or {},
                protect=tuple(params["protect"]),
                surging=frozenset(surging(params["make_before_break"])),
            ),
            limits=Limits(**limits),
            across_products=params["across_products"],
            cold_start={name: seconds_of(value, f"pod_cost[{name}]") for name, value in params["pod_cost"].items()},
            solver=params["solver"],
            time_limit=params["time_limit"],
            seed=params["seed"],
        ),
        "now": time_of(params["now"]),
        "mark": protect(params["protect"]),
        "details": params["details"],
    }


def surging(names: Sequence[str]) -> Sequence[str]:
    """The option make_before_break.

    Raises:
        InputError: A name is not of the form namespace/name.
    """
    for number, name in enumerate(names):
        if name.count("/") != 1 or not all(name.split("/")):
            raise InputError(
                f"{name!r} is not namespace/name of a Deployment, or namespace/*", field=f"make_before_break[{number}]"
            )
    return names


def _count(text: str) -> int | None:
    if text == "max":
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise InputError(f"{reprlib.repr(text)} is neither a number nor max", field="objective.count")
    return int(text)
