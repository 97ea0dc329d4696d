# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.fleet_page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.fleet_page import fleet_page as render
from ..plugin_utils.reports import FLEET, report


def fleet_page(result: Any, title: str = "GPU fragmentation of the fleet") -> str:
    """A fleet as one HTML page."""
    return report("fleet_page", FLEET, render, result, title=title)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_page": fleet_page}
