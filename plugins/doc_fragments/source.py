# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a module reads the cluster from; the argument spec is SOURCE_ARGUMENTS in module_utils/_arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  src:
    description:
      - The file that holds the cluster's state, on the host the module runs on.
      - It is what C(kubectl get nodes,pods,pdb -A -o json) or C(-o yaml) prints, plain or compressed with gzip. A file
        with several outputs after one another is read as one.
      - Nodes and pods are needed. The more of the other kinds named in the notes it holds, the more can be told.
    type: path
    required: true
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
notes:
  - Write the file with
    C(kubectl get nodes,pods,pdb,rs,deploy,sts,ds,jobs,ns,pvc,pv,sc,pc,hpa -A -o json | gzip > cluster.json.gz).
    M(gpuops.defrag.gpu_snapshot) then takes out of it what must not leave the cluster.
"""
