# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a module reads the cluster from; the argument spec is SOURCE_ARGUMENTS in module_utils/_source.py."""

from __future__ import annotations


class ModuleDocFragment:
    # What is read: a file or the live cluster. Together with gpuops.defrag.source.live.
    DOCUMENTATION = r"""
options:
  src:
    description:
      - The file that holds the cluster's state, on the host the module runs on. Without it the live cluster is read.
      - It is what C(kubectl get nodes,pods,pdb -A -o json) or C(-o yaml) prints, plain or compressed with gzip. A file
        with several outputs after one another is read as one.
      - Nodes and pods are needed. The more of the other kinds named in the notes it holds, the more can be told.
    type: path
  resource_version:
    description:
      - From which state on the live cluster may answer. V(0) lets the API server answer from memory, possibly with a state
        from a moment ago, which spares it on large clusters. By default it answers with the newest state.
    type: str
notes:
  - Write a file with
    C(kubectl get nodes,pods,pdb,rs,deploy,sts,ds,jobs,ns,pvc,pv,sc,pc,hpa -A -o json | gzip > cluster.json.gz), or with
    M(gpuops.defrag.gpu_snapshot), which leaves out what must not leave the cluster.
  - The rights that reading a live cluster needs are in C(policies/rbac/reader.yaml) of the collection.
"""

    # The live cluster, for modules that read it or write to it. Together with kubernetes.core.k8s_auth_options, which says how it
    # is reached.
    LIVE = r"""
options:
  cluster_uid:
    description:
      - The uid of the namespace C(kube-system) of the cluster that is meant. If another cluster answers, the module fails.
      - It is told by C(kubectl get namespace kube-system -o jsonpath={.metadata.uid}) and in the result.
    type: str
  page_size:
    description:
      - How many objects of the live cluster are asked for at a time. More need fewer requests and more memory.
    type: int
    default: 500
  request_timeout:
    description:
      - Seconds that one request to the live cluster may take. A request that fails because the server is busy or the
        connection breaks is made again, five times at the most.
    type: int
    default: 60
notes:
  - If options and environment name different clusters, such as O(kubeconfig) beside E(K8S_AUTH_HOST), the module fails
    before it asks any of them.
requirements:
  - kubernetes >= 24.2.0, for reading a live cluster
"""
