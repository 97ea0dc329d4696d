# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How much may be evicted at a time: three levels to choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Bounds:
    """Evictions that one cycle may make: from one node, in one namespace, of one workload, in all."""

    per_node: int
    per_namespace: int
    per_workload: int
    total: int


CONSERVATIVE = "conservative"

PROFILES: Mapping[str, Bounds] = MappingProxyType(
    {
        CONSERVATIVE: Bounds(per_node=1, per_namespace=5, per_workload=1, total=5),
        "balanced": Bounds(per_node=2, per_namespace=10, per_workload=1, total=20),
        "aggressive": Bounds(per_node=4, per_namespace=20, per_workload=2, total=50),
    }
)
"""By name, the gentlest first."""
