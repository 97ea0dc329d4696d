# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that every module shares. Their documentation is the fragment gpuops.defrag.source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._core.errors import InputError
from ._core.selectors import LabelSelector, label_selector, parse_selector

SOURCE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "src": {"type": "path", "required": True},
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "node_selector": {"type": "raw"},
}


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
