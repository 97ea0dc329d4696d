# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of setting the rate. Their documentation is the fragment gpuops.defrag.rate, and that of gpu_eviction_rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ._arguments import SELECTION_ARGUMENTS, node_selector, seconds_of
from ._core.audit.measures import AuditOptions
from ._core.errors import InputError
from ._core.profiles import CONSERVATIVE, PROFILES, Bounds
from ._core.rate.queries import default_queries, lasting
from ._core.rate.readings import SCALARS
from ._prometheus_arguments import PROMETHEUS_ARGUMENTS

SHARES = ("cold_share", "service_share", "hour_share")
LAW_ARGUMENTS: dict[str, dict[str, Any]] = {
    "profile": {"type": "str", "default": CONSERVATIVE, "choices": list(PROFILES)},
    "bounds": {
        "type": "dict",
        "default": {},
        "options": {
            "per_node": {"type": "int"},
            "per_namespace": {"type": "int"},
            "per_workload": {"type": "int"},
            **{name: {"type": "float"} for name in SHARES},
            "raise_after": {"type": "str"},
        },
    },
    "interval": {"type": "str"},
}
RATE_ARGUMENTS: dict[str, dict[str, Any]] = {
    **LAW_ARGUMENTS,
    **SELECTION_ARGUMENTS,
    **PROMETHEUS_ARGUMENTS,
    "slot_size": {"type": "int"},
    "queries": {"type": "dict", "default": {}, "options": {name: {"type": "str"} for name in (*SCALARS, "cold_start")}},
    "matchers": {"type": "str"},
    "guards": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "query": {"type": "str", "required": True},
            "above": {"type": "float"},
            "below": {"type": "float"},
            "for": {"type": "str"},
        },
    },
    "state_namespace": {"type": "str", "default": "kube-system"},
}


@dataclass(frozen=True, slots=True)
class Law:
    """What the options of LAW_ARGUMENTS ask for: bounds, and the interval where it cannot be chosen."""

    bounds: Bounds
    interval: float | None


@dataclass(frozen=True, slots=True)
class Watch:
    """One of the option guards: the query that is asked, and the bounds of its values."""

    query: str
    above: float | None
    below: float | None


def law_of(params: Mapping[str, Any]) -> Law:
    """The bounds and the interval.

    Raises:
        InputError: An option makes no sense; it names it.
    """
    given = {name: value for name, value in (params["bounds"] or {}).items() if value is not None}
    if "raise_after" in given:
        given["raise_after"] = seconds_of(given["raise_after"], "bounds.raise_after")
    for name in ("per_node", "per_namespace", "per_workload"):
        if given.get(name, 1) < 1:
            raise InputError(f"is {given[name]}; with less than 1 nothing could ever be moved", field=f"bounds.{name}")
    for name in SHARES:
        most = math.inf if name == "hour_share" else 1
        if not 0 < given.get(name, 1) <= most or math.isinf(given.get(name, 1)):
            raise InputError(
                f"is {given[name]:g}; a share is above 0{' and at most 1' if most == 1 else ''}", field=f"bounds.{name}"
            )
    interval = None if params["interval"] is None else seconds_of(params["interval"], "interval")
    if interval is not None and interval < 1:
        raise InputError(f"is {interval:g} s; it must be at least 1", field="interval")
    return Law(replace(PROFILES[params["profile"]], **given), interval)


def audit_of(params: Mapping[str, Any]) -> AuditOptions:
    """Which GPUs are looked at, and at which size they count as stranded.

    Raises:
        InputError: An option makes no sense; it names it.
    """
    return AuditOptions(resource=params["resource_name"], selector=node_selector(params), slot_size=params["slot_size"])


def queries_of(params: Mapping[str, Any]) -> tuple[dict[str, str], frozenset[str]]:
    """What Prometheus is asked, by the name of the reading, and which of it is the user's.

    Raises:
        InputError: There are queries, and nobody to ask.
    """
    own = {name: query for name, query in (params["queries"] or {}).items() if query is not None}
    if not params["prometheus_url"]:
        if own:
            raise InputError("needs prometheus_url, to ask them of", field="queries")
        return {}, frozenset()
    return default_queries(params["resource_name"], params["matchers"] or "") | own, frozenset(own)


def watches_of(params: Mapping[str, Any]) -> list[Watch]:
    """The guards.

    Raises:
        InputError: One has no bound or two, or there is nobody to ask.
    """
    if params["guards"] and not params["prometheus_url"]:
        raise InputError("needs prometheus_url, to ask them of", field="guards")
    found = []
    for number, given in enumerate(params["guards"]):
        above, below, query, window = given["above"], given["below"], given["query"], given["for"]
        if (above is None) == (below is None):
            raise InputError("has one bound: above or below", field=f"guards[{number}]")
        if window is not None:
            seconds = seconds_of(window, f"guards[{number}].for")
            query = lasting(query, f"{max(1, round(seconds))}s", above=above is not None)
        found.append(Watch(query, above, below))
    return found
