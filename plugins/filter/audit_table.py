# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.audit_table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.table import audit_table as render
from ..plugin_utils.reports import FRAGMENTATION, report


def audit_table(result: Any) -> str:
    """An audit as text for a terminal."""
    return report("audit_table", FRAGMENTATION, render, result)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"audit_table": audit_table}
