# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.audit_page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.report.page import audit_page as render
from ..plugin_utils.reports import FRAGMENTATION, report


def audit_page(result: Any, title: str = "GPU fragmentation audit") -> str:
    """An audit as one HTML page."""
    return report("audit_page", FRAGMENTATION, render, result, title=title)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"audit_page": audit_page}
