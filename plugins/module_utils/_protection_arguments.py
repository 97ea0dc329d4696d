# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of protection. Their documentation is that of gpu_protection_info."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._core.errors import InputError
from ._core.protection.wishes import Wishes, services, share

PROTECTION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "services": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "namespace": {"type": "str", "required": True},
            "name": {"type": "str"},
            "kind": {"type": "str"},
            "selector": {"type": "dict"},
            "min_available": {"type": "raw"},
            "max_unavailable": {"type": "raw"},
            "allow_none": {"type": "bool", "default": False},
            "budget": {"type": "bool", "default": True},
            "protect": {"type": "bool", "default": False},
        },
    },
    "discover": {"type": "bool", "default": False},
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "discover_min_replicas": {"type": "int", "default": 2},
    "discover_max_unavailable": {"type": "raw", "default": 1},
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "namespaces_excluded": {"type": "list", "elements": "str", "default": ["kube-system"]},
    "migrate": {"type": "bool", "default": False},
    "rollout": {"type": "bool", "default": False},
}


def protection_wishes(params: Mapping[str, Any]) -> Wishes:
    """What options of PROTECTION_ARGUMENTS wish.

    Raises:
        InputError: An option makes no sense; it names the option.
    """
    if params["discover_min_replicas"] < 1:
        raise InputError(f"is {params['discover_min_replicas']}; it must be at least 1", field="discover_min_replicas")
    field = "discover_max_unavailable"
    most = share(params[field], field)
    if most in (0, "0%"):
        raise InputError(f"{most} forbids every eviction; give at least 1", field=field)
    return Wishes(
        services=services(params["services"]),
        discover=params["discover"],
        resource=params["resource_name"],
        min_replicas=params["discover_min_replicas"],
        max_unavailable=most,
        namespaces=frozenset(params["namespaces"]),
        excluded=frozenset(params["namespaces_excluded"]),
        migrate=params["migrate"],
        rollout=params["rollout"],
    )
