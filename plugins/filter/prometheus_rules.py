# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.prometheus_rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..module_utils._core.monitoring.rules import rule_groups
from ..plugin_utils.monitoring import rendered


def prometheus_rules(settings: Any) -> dict[str, Any]:
    """The rule file, a mapping, that these settings ask for."""
    return rendered("prometheus_rules", rule_groups, settings)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"prometheus_rules": prometheus_rules}
