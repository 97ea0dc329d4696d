# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.plan_page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.plan_page import plan_page as render
from ..plugin_utils.reports import PLAN, report


def plan_page(result: Any, title: str = "GPU defragmentation plan") -> str:
    """A plan as one HTML page."""
    return report("plan_page", PLAN, render, result, title=title)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_page": plan_page}
