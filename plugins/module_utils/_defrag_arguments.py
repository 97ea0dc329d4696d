# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of carrying out a plan. Their documentation is that of gpu_defrag."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._arguments import node_selector, seconds_of
from ._core.errors import InputError
from ._core.execution.breaker import Bounds
from ._execution.manner import Manner
from ._kubernetes import LIVE_ARGUMENTS
from ._plan_arguments import surging
from ._prometheus import Prometheus
from ._prometheus_arguments import PROMETHEUS_ARGUMENTS, prometheus_of

DEFRAG_ARGUMENTS: dict[str, dict[str, Any]] = {
    "steering": {"type": "str", "default": "soft_taints", "choices": ["soft_taints", "cordon", "none"]},
    "actuator": {"type": "str", "default": "eviction", "choices": ["eviction", "descheduler"]},
    "ready_timeout": {"type": "str", "default": "10m"},
    "evict_timeout": {"type": "str"},
    "grace_period": {"type": "str"},
    "max_plan_age": {"type": "str", "default": "15m"},
    "cool_down": {"type": "str", "default": "30m"},
    "max_stray_share": {"type": "float", "default": 0.2},
    "max_unready_share": {"type": "float", "default": 0.1},
    "pause": {"type": "list", "elements": "str", "default": []},
    **PROMETHEUS_ARGUMENTS,
    "make_before_break": {"type": "list", "elements": "str", "default": []},
    "reclaim": {
        "type": "dict",
        "apply_defaults": True,
        "options": {"label": {"type": "bool", "default": True}, "cordon": {"type": "bool", "default": False}},
    },
    "node_selector": {"type": "raw"},
    "state_namespace": {"type": "str", "default": "kube-system"},
    "while_pid": {"type": "int"},
}

# Not resource_version: what is acted upon must be as it is now.
CONNECTION_ARGUMENTS = {name: argument for name, argument in LIVE_ARGUMENTS.items() if name != "resource_version"}

_PATIENCE = {"eviction": "2m", "descheduler": "15m"}


def manner_of(params: Mapping[str, Any]) -> Manner:
    """How the options of DEFRAG_ARGUMENTS want a plan carried out.

    Raises:
        InputError: An option cannot be read or makes no sense; it names the option.
    """
    for name in ("max_stray_share", "max_unready_share"):
        if not 0 <= params[name] <= 1:
            raise InputError(f"is {params[name]:g}; a share is between 0 and 1", field=name)
    if params["reclaim"]["cordon"] and not params["reclaim"]["label"]:
        raise InputError("cordon needs label too; without the label none of the nodes could be opened again", field="reclaim")
    grace = params["grace_period"]
    return Manner(
        steering=params["steering"],
        actuator=params["actuator"],
        ready_timeout=seconds_of(params["ready_timeout"], "ready_timeout"),
        evict_timeout=seconds_of(params["evict_timeout"] or _PATIENCE[params["actuator"]], "evict_timeout"),
        grace_period=None if grace is None else int(seconds_of(grace, "grace_period")),
        max_plan_age=seconds_of(params["max_plan_age"], "max_plan_age"),
        cool_down=seconds_of(params["cool_down"], "cool_down"),
        bounds=Bounds(strays=params["max_stray_share"], unready=params["max_unready_share"]),
        surging=frozenset(surging(params["make_before_break"])),
        label=params["reclaim"]["label"],
        cordon=params["reclaim"]["cordon"],
        selector=node_selector(params),
    )


def pause_of(params: Mapping[str, Any]) -> tuple[Prometheus, list[str]] | None:
    """The queries that pause, and whom to ask them.

    Raises:
        InputError: There are queries, and nobody to ask.
    """
    prometheus = prometheus_of(params)
    if not params["pause"]:
        return None
    if prometheus is None:
        raise InputError("needs prometheus_url, to ask the queries of", field="pause")
    return prometheus, params["pause"]


def plan_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The plan, given as it is or as a file.

    Raises:
        InputError: The file cannot be read, or is no plan.
    """
    found: Any = params["plan"]
    path = params["plan_file"]
    try:
        found = found if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", source=path) from None
    if not isinstance(found, Mapping):
        raise InputError("holds no plan; give what gpu_defrag_plan returns", source=path)
    # The whole result of gpu_defrag_plan will do too.
    inner = found.get("plan")
    return inner if isinstance(inner, Mapping) else found
