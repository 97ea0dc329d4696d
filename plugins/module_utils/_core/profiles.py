# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How much may be evicted at a time: three levels to choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Bounds:
    """What evictions may never pass.

    Attributes:
        per_node: Evictions from one node in one cycle.
        per_namespace: In one namespace; where the rate follows live metrics and a cycle is larger than that, half of it.
        per_workload: Of one workload.
        total: In all; where the rate follows live metrics, ``cold_share`` takes its place.
        cold_share: Share of the GPU pods that may be cold, which is on a node and not Ready, at any moment.
        service_share: The same of one workload's GPU pods; one pod always may.
        hour_share: Share of the GPU pods that may be evicted in any hour, however quickly they start.
        raise_after: Seconds for which readings must agree before the rate rises.
    """

    per_node: int
    per_namespace: int
    per_workload: int
    total: int
    cold_share: float
    service_share: float
    hour_share: float
    raise_after: float


CONSERVATIVE = "conservative"

PROFILES: Mapping[str, Bounds] = MappingProxyType(
    {
        CONSERVATIVE: Bounds(
            per_node=1,
            per_namespace=5,
            per_workload=1,
            total=5,
            cold_share=0.02,
            service_share=0.1,
            hour_share=0.5,
            raise_after=600,
        ),
        "balanced": Bounds(
            per_node=2,
            per_namespace=10,
            per_workload=1,
            total=20,
            cold_share=0.05,
            service_share=0.2,
            hour_share=1,
            raise_after=180,
        ),
        "aggressive": Bounds(
            per_node=4,
            per_namespace=20,
            per_workload=2,
            total=50,
            cold_share=0.1,
            service_share=0.34,
            hour_share=2,
            raise_after=60,
        ),
    }
)
"""By name, the gentlest first."""
