# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that modules and filters share. Their documentation is the fragments gpuops.defrag.selection and .audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._core.audit.measures import AuditOptions
from ._core.errors import InputError
from ._core.kube.decode import epoch
from ._core.kube.selectors import LabelSelector, label_selector, parse_selector
from ._core.plan.protection import duration

SELECTION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "node_selector": {"type": "raw"},
}

AUDIT_ARGUMENTS: dict[str, dict[str, Any]] = {
    **SELECTION_ARGUMENTS,
    "sizes": {"type": "list", "elements": "int", "default": [1, 2, 4, 8]},
    "fragmentation_size": {"type": "int", "default": 2},
    "slot_size": {"type": "int"},
    "gpu_hour_price": {"type": "float"},
    "gpu_hour_prices": {"type": "dict", "default": {}},
    "currency": {"type": "str", "default": "USD"},
    "min_gpu_nodes": {"type": "int", "default": 10},
    "min_pod_lifetime": {"type": "float", "default": 300.0},
    "now": {"type": "str"},
    "details": {"type": "bool", "default": False},
}


def audit_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of ``audit`` that options of AUDIT_ARGUMENTS ask for.

    Raises:
        InputError: An option cannot be read or makes no sense; it names the option.
    """
    return {
        "options": AuditOptions(
            resource=params["resource_name"],
            selector=node_selector(params),
            sizes=tuple(sorted(set(params["sizes"]))),
            fragmentation_size=params["fragmentation_size"],
            slot_size=params["slot_size"],
            gpu_hour_price=params["gpu_hour_price"],
            gpu_hour_prices={product: _price(product, price) for product, price in params["gpu_hour_prices"].items()},
            currency=params["currency"],
            min_gpu_nodes=params["min_gpu_nodes"],
            min_pod_lifetime=params["min_pod_lifetime"],
        ),
        "now": time_of(params["now"]),
        "details": params["details"],
    }


def _price(product: str, price: Any) -> float:
    try:
        return float(price)
    except (TypeError, ValueError):
        raise InputError(f"{price!r} is not a number", field=f"gpu_hour_prices[{product}]") from None


def seconds_of(value: Any, field: str) -> float:
    """Seconds of a number, or of a duration such as 90s, 15m or 1h30m.

    Raises:
        InputError: It is neither, or below 0.
    """
    text = str(value)
    found = duration(text) if not text.replace(".", "", 1).isdecimal() else float(text)
    if found is None or found < 0:
        raise InputError(f"{value!r} is no duration; write it as 90s, 15m or 1h30m", field=field)
    return found


def time_of(text: str | None) -> float | None:
    """Seconds since 1970 of the option now.

    Raises:
        InputError: It is no time.
    """
    if text is None:
        return None
    try:
        return epoch(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time; write it as 2026-11-30T12:00:00Z", field="now") from None


def node_selector(params: Mapping[str, Any]) -> LabelSelector:
    """The option node_selector: text as for ``kubectl -l``, or a mapping of labels. Without it, any node matches.

    Raises:
        InputError: It is neither, or cannot be read.
    """
    selector = params["node_selector"]
    if isinstance(selector, Mapping):
        # Labels are text in the API: YAML's true and 8 stand for "true" and "8".
        labels = {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in selector.items()}
        return label_selector({"matchLabels": labels}, "node_selector") or LabelSelector()
    if not isinstance(selector, str | None):
        raise InputError("is neither text as for kubectl -l nor a mapping of labels", field="node_selector")
    return parse_selector(selector or "")
