# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What is wished of a plan, and within what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..audit.measures import AuditOptions
from ..errors import InputError
from . import exact
from .evictable import Rules
from .schedule import Limits

LARGEST_SLOT = 1_000_000
"""No node has so many, even where what counts as GPUs is their memory in MiB."""
LARGEST_SEED = 2**31 - 1
"""OR-tools keeps it in 32 bits."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is wished, and within what.

    Attributes:
        kind: slots, free_nodes or blocked_pods.
        slot_size: GPUs of a slot; not looked at otherwise.
        count: How many more slots or nodes; None for as many as can be had.
        max_evictions: No plan evicts more; None for no such limit.
        min_nodes_freed: A plan that frees fewer nodes is not worth it.
        across_products: A pod that names no product may go to another pool.
        cold_start: Seconds by workload (``namespace/name``); ``default`` for all others.
        solver: auto, heuristic or exact.
        time_limit: Seconds for the exact solver.
    """

    audit: AuditOptions = AuditOptions()  # noqa: RUF009 - frozen
    kind: str = "slots"
    slot_size: int = 8
    count: int | None = None
    max_evictions: int | None = None
    min_nodes_freed: int = 0
    rules: Rules = Rules()  # noqa: RUF009 - frozen
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    across_products: bool = False
    cold_start: Mapping[str, float] = field(default_factory=dict)
    solver: str = "auto"
    time_limit: float = 30.0
    seed: int = 0

    @property
    def most(self) -> int | None:
        """Evictions that no plan passes; None where there is no such limit."""
        return 0 if self.limits.total == 0 else self.max_evictions

    @property
    def bound_by(self) -> str:
        """The option that says so."""
        return "limits.total" if self.limits.total == 0 else "max_evictions"

    def __post_init__(self) -> None:
        """Refuse what cannot be planned.

        Raises:
            InputError: A number is below or above what makes sense, or the exact solver is asked for and not installed.
        """
        for name, value, least in (
            ("objective.slot_size", self.slot_size, 1),
            ("objective.count", 1 if self.count is None else self.count, 1),
            ("max_evictions", 0 if self.max_evictions is None else self.max_evictions, 0),
            ("min_nodes_freed", self.min_nodes_freed, 0),
            ("time_limit", self.time_limit, 0),
            ("seed", self.seed, 0),
        ):
            if not value >= least:
                raise InputError(f"is {value}; it must be at least {least}", field=name)
        for name, value, most in (("objective.slot_size", self.slot_size, LARGEST_SLOT), ("seed", self.seed, LARGEST_SEED)):
            if value > most:
                raise InputError(f"is too large; it must be at most {most}", field=name)
        if self.solver == "exact" and not exact.available():
            raise InputError(
                "exact needs the Python package ortools where the module runs; install it, or take auto", field="solver"
            )
