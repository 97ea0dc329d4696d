# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.audit_nodes_csv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.nodes import audit_nodes_csv as render
from ..plugin_utils.reports import FRAGMENTATION, report


def audit_nodes_csv(result: Any) -> str:
    """The audited nodes as CSV."""
    return report("audit_nodes_csv", FRAGMENTATION, render, result)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"audit_nodes_csv": audit_nodes_csv}
