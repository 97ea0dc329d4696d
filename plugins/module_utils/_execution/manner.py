# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a plan is carried out, as the user wishes."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.execution.breaker import Bounds
from .._core.kube.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Manner:
    """How a plan is carried out. Times are seconds.

    Attributes:
        steering: soft_taints, cordon or none.
        actuator: eviction or descheduler.
        ready_timeout: From when a pod came until it is Ready.
        evict_timeout: How long an eviction that is not allowed is tried again, or the descheduler waited for.
        grace_period: Of the evicted pods; None for their own.
        max_plan_age: Of a plan that is begun or carried on.
        cool_down: How long what came, and what went astray, is left alone.
        surging: Deployments whose new pod comes before the old one goes, besides those of the plan.
        label: Mark nodes that could be given back.
        cordon: Close them too.
        selector: Which GPU nodes are looked at for that.
    """

    steering: str = "soft_taints"
    actuator: str = "eviction"
    ready_timeout: float = 600.0
    evict_timeout: float = 120.0
    grace_period: int | None = None
    max_plan_age: float = 900.0
    cool_down: float = 1800.0
    bounds: Bounds = Bounds()  # noqa: RUF009 - frozen
    surging: frozenset[str] = frozenset()
    label: bool = True
    cordon: bool = False
    selector: LabelSelector = LabelSelector()  # noqa: RUF009 - frozen
