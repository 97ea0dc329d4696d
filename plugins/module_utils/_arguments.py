# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that every module shares. Their documentation is the fragment gpuops.defrag.source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SOURCE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "src": {"type": "path", "required": True},
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "node_selector": {"type": "dict"},
}


def node_selector(params: Mapping[str, Any]) -> dict[str, str]:
    """The labels a node must carry, all text as in the API: YAML's true and 8 stand for "true" and "8"."""
    labels = params["node_selector"] or {}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in labels.items()}
