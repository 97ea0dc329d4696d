# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.plan_table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.plan_table import plan_table as render
from ..plugin_utils.reports import PLAN, report


def plan_table(result: Any) -> str:
    """A plan as text for a terminal."""
    return report("plan_table", PLAN, render, result)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_table": plan_table}
