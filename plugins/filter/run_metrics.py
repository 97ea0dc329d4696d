# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.run_metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..module_utils._core.monitoring import results
from ..plugin_utils.reports import report

WANTED = "what gpu_defrag or gpu_eviction_rate returns"


def run_metrics(result: Any, labels: Mapping[str, Any] | None = None, now: float | None = None) -> str:
    """What a run did, in Prometheus' text format."""
    at = time.time() if now is None else float(now)
    named = {str(label): str(value) for label, value in (labels or {}).items()}
    return report("run_metrics", WANTED, results.run_metrics, result, labels=named, now=at)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"run_metrics": run_metrics}
