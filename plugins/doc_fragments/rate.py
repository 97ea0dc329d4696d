# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Within which bounds the rate is set; the argument spec is LAW_ARGUMENTS in module_utils/_rate_arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  profile:
    description:
      - How many GPU pods may be cold, which is on a node and not Ready, at any moment. V(conservative) is 2 % of them,
        V(balanced) 5 %, V(aggressive) 10 %.
    type: str
    choices: [conservative, balanced, aggressive]
    default: conservative
  bounds:
    description: Other bounds than those of O(profile).
    type: dict
    default: {}
    suboptions:
      per_node:
        description: Evictions from one node in one cycle.
        type: int
      per_namespace:
        description: Evictions in one namespace in one cycle. Where a cycle is larger than twice that, half of it.
        type: int
      per_workload:
        description: Evictions of one workload in one cycle.
        type: int
      cold_share:
        description: Share of the GPU pods that may be cold at any moment, as V(0.05). One always may.
        type: float
      service_share:
        description: Share of the GPU pods of one workload that may be cold at any moment. One always may.
        type: float
      hour_share:
        description: Share of the GPU pods that may be evicted in any hour, however quickly they start.
        type: float
      raise_after:
        description:
          - For how long readings must agree before the rate rises, as V(3m). Three are needed, a third of that apart.
        type: str
  interval:
    description:
      - Time from one cycle of whoever evicts to the next, as V(5m), where it cannot be chosen. The limits of a cycle are made
        so that no more pods are cold, however many cycles begin within a cold start, nor more than one is evicted where
        O(bounds.hour_share) would be passed by as many in each cycle.
      - By default a cycle lasts a cold start, and the limits tell how long that is.
    type: str
"""
