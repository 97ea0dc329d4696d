# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit measures; the argument spec is AUDIT_ARGUMENTS in module_utils/_arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  sizes:
    description:
      - Request sizes, in GPUs, whose slots are counted.
    type: list
    elements: int
    default: [1, 2, 4, 8]
  fragmentation_size:
    description:
      - The C(k) of C(fragmentation_rate), which is the share of GPU nodes with some free GPUs but fewer than C(k).
    type: int
    default: 2
  slot_size:
    description:
      - The request size that stranded GPUs are priced at.
      - By default the largest request of the cluster's own GPU pods that some node could hold.
    type: int
  gpu_hour_price:
    description:
      - What one GPU costs for one hour. Without it no money is told.
    type: float
  gpu_hour_prices:
    description:
      - The same by GPU product, as the nodes' product label spells it. Goes before O(gpu_hour_price).
    type: dict
    default: {}
  currency:
    description:
      - What prices are in. Only repeated in the result.
    type: str
    default: USD
  min_gpu_nodes:
    description:
      - With fewer GPU nodes than this the result says that it is not worth it.
    type: int
    default: 10
  min_pod_lifetime:
    description:
      - Seconds. If half of the GPU pods live shorter than this, the result says that it is not worth it.
    type: float
    default: 300
  now:
    description:
      - The time that ages are counted to, such as V(2026-11-30T12:00:00Z).
      - By default the newest time found in the input, so that the same file always gives the same result.
    type: str
  details:
    description:
      - Also return every node with the pods that hold its GPUs, and which workloads strand how many. Reports need it.
      - Large for large clusters.
    type: bool
    default: false
"""
