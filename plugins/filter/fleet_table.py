# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.fleet_table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.fleet import fleet_table as render
from ..plugin_utils.reports import FLEET, report


def fleet_table(result: Any) -> str:
    """A fleet as text for a terminal."""
    return report("fleet_table", FLEET, render, result)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_table": fleet_table}
