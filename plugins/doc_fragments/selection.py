# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs and nodes are looked at; the argument spec is SELECTION_ARGUMENTS in module_utils/_arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  resource_name:
    description:
      - The extended resource that counts as a GPU, for example V(amd.com/gpu) or V(nvidia.com/mig-1g.5gb).
      - One at a time. Nodes that do not offer it are left out.
    type: str
    default: nvidia.com/gpu
  node_selector:
    description:
      - Which nodes to look at, by their labels.
      - A selector as for C(kubectl -l), such as V(pool=inference,!spot) or V(zone in (a,b\)), or a mapping of labels
        that must all be there, as in a pod's C(nodeSelector).
      - Without it, every node is looked at.
    type: raw
"""
