# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.grafana_dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.monitoring.dashboard import dashboard
from ..plugin_utils.monitoring import rendered


def grafana_dashboard(settings: Any) -> dict[str, Any]:
    """The dashboard, a mapping, that these settings ask for."""
    return rendered("grafana_dashboard", dashboard, settings)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"grafana_dashboard": grafana_dashboard}
