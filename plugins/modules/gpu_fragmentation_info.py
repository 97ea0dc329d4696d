#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_fragmentation_info
short_description: Measure how fragmented the GPUs of a Kubernetes cluster are
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Tells how many free GPUs are stranded, because they lie one here and two there, for which request sizes there is
    still room on a single node, which pods wait although enough GPUs are free and why every node refuses them, which
    nodes could be given back, and what all that costs.
  - Also says when defragmentation is not worth it for this cluster, with the figures.
  - Reads a live cluster, or a file without any. Nothing is changed.
extends_documentation_fragment:
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.selection
  - gpuops.defrag.audit
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
  - gpuops.defrag.attributes.action_group
seealso:
  - plugin: gpuops.defrag.gpu_fragmentation
    plugin_type: filter
    description: The same for objects that a playbook already has.
  - module: gpuops.defrag.gpu_snapshot
    description: Makes a file that can be shared.
"""

EXAMPLES = r"""
- name: Measure the cluster that a dump describes
  gpuops.defrag.gpu_fragmentation_info:
    src: examples/gpu200-1.json.gz
  register: audit

- name: Say how many whole nodes a pod that wants eight GPUs can choose from
  ansible.builtin.debug:
    msg: "{{ audit.fragmentation.gpus_free }} GPUs free, {{ audit.fragmentation.slots['8'] }} slots of 8"

- name: Price what is stranded for pods of 8 GPUs, on the nodes of one product
  gpuops.defrag.gpu_fragmentation_info:
    src: examples/gpu200-1.json.gz
    node_selector:
      nvidia.com/gpu.product: G2
    slot_size: 8
    gpu_hour_price: 2.5
  register: priced

- name: Measure the cluster of a kubeconfig, made sure to be the one meant
  gpuops.defrag.gpu_fragmentation_info:
    kubeconfig: ~/.kube/config
    context: gpu-prod
    cluster_uid: 5b1cf5e7-93a4-4ac1-a1b3-0d8f1c6f2a77
  register: live

- name: Fail a pipeline when pods are blocked while GPUs are free
  gpuops.defrag.gpu_fragmentation_info:
    src: examples/gpu200-1.json.gz
  register: gate
  failed_when: gate.fragmentation.blocked_pods | length > 0
"""

RETURN = r"""
cluster:
  description: Which cluster was read.
  returned: success
  type: dict
  contains:
    server:
      description: The address of its API server; null where a file was read.
      type: str
      returned: always
      sample: https://10.0.0.1:6443
    uid:
      description: The uid of its namespace C(kube-system), which no two clusters share; null if it may
        not be read, and where a file was read.
      type: str
      returned: always
      sample: 5b1cf5e7-93a4-4ac1-a1b3-0d8f1c6f2a77
fragmentation:
  description:
    - The measures. Sizes are numbers of GPUs, written as text where they are keys.
    - docs/measures.md in the collection defines every figure and works an example.
  returned: success
  type: dict
  contains:
    resource_name:
      description: The resource that was measured.
      type: str
      returned: always
      sample: nvidia.com/gpu
    nodes:
      description: GPU nodes.
      type: int
      returned: always
      sample: 25
    gpus_total:
      description: Allocatable GPUs.
      type: int
      returned: always
      sample: 200
    gpus_allocated:
      description: GPUs requested by the pods on these nodes. Terminating pods still hold theirs.
      type: int
      returned: always
      sample: 135
    gpus_free:
      description: The sum over nodes of allocatable less requested, never below 0 on any of them.
      type: int
      returned: always
      sample: 65
    gpus_unhealthy:
      description: GPUs that nodes have but do not offer.
      type: int
      returned: always
      sample: 0
    utilization:
      description: Allocated over total GPUs. Of a node, no more are counted as allocated than it offers.
      type: float
      returned: always
      sample: 0.675
    schedulable_utilization:
      description: Utilization less the share of GPUs that are stranded at C(slot_size).
      type: float
      returned: always
      sample: 0.35
    slots:
      description: By size, how many more pods of it find their GPUs on one node.
      type: dict
      returned: always
      sample: {"1": 65, "2": 27, "4": 8, "8": 0}
    slots_usable:
      description: The same, where a typical pod's CPU, memory and place among the node's pods are there too.
      type: dict
      returned: always
      sample: {"1": 65, "2": 27, "4": 8, "8": 0}
    stranded:
      description: By size, free GPUs that no slot of it uses.
      type: dict
      returned: always
      sample: {"1": 0, "2": 11, "4": 33, "8": 65}
    fragmentation_rate:
      description: Share of GPU nodes with some free GPUs, but fewer than C(fragmentation_size).
      type: float
      returned: always
      sample: 0.2
    fragmentation_size:
      description: The size that C(fragmentation_rate) is counted for.
      type: int
      returned: always
      sample: 2
    frag_rate:
      description: How many of the nodes could be empty if pods were packed as tightly as they can.
      type: dict
      returned: always
      contains:
        value:
          description: C(occupied) less C(fewest), over the nodes.
          type: float
          returned: always
          sample: 0.28
        exact:
          description: Whether C(fewest) is proved. If not, the true value may be higher.
          type: bool
          returned: always
          sample: true
        occupied:
          description: Nodes that hold GPU pods.
          type: int
          returned: always
          sample: 25
        fewest:
          description: The fewest nodes found that could hold the same pods.
          type: int
          returned: always
          sample: 18
    demand_weighted:
      description:
        - Free GPUs that a pod drawn from the cluster's own request mix cannot use, on average.
        - The measure of "Beware of Fragmentation" (USENIX ATC 2023).
      type: dict
      returned: always
      contains:
        gpus:
          description: How many.
          type: float
          returned: always
          sample: 1.128205
        share:
          description: As a share of the free GPUs.
          type: float
          returned: always
          sample: 0.017357001972386592
        mix:
          description: How many pods, running and pending, ask for how many GPUs, and their share of all GPU pods.
          type: list
          elements: dict
          returned: always
          sample:
            - {"gpus": 1, "pods": 107, "share": 0.9145299145299145}
            - {"gpus": 2, "pods": 8, "share": 0.06837606837606838}
            - {"gpus": 4, "pods": 1, "share": 0.008547008547008548}
            - {"gpus": 8, "pods": 1, "share": 0.008547008547008548}
    largest_slot:
      description: The most GPUs free on one node.
      type: int
      returned: always
      sample: 6
    stranded_gpus:
      description: Free GPUs that no slot of C(slot_size) uses; on a smaller node, no slot as large as the node.
      type: int
      returned: always
      sample: 65
    slot_size:
      description: The size that stranded GPUs are priced at.
      type: int
      returned: always
      sample: 8
    gpu_pods:
      description: Pods that request GPUs, running and pending.
      type: int
      returned: always
      sample: 117
    blocked_pods:
      description: Pending pods whose pool has the GPUs they ask for, while no single node can take them.
      type: list
      elements: dict
      returned: always
      contains:
        namespace:
          description: The pod's namespace.
          type: str
          returned: always
          sample: chat
        pod:
          description: The pod's name.
          type: str
          returned: always
          sample: medium-1
        gpus:
          description: GPUs it asks for.
          type: int
          returned: always
          sample: 4
        pools:
          description: Pools that it may use and that have its GPUs in all.
          type: list
          elements: str
          returned: always
          sample: [NVIDIA-A100-SXM4-80GB]
        pool_free:
          description: Free GPUs of the best stocked of them.
          type: int
          returned: always
          sample: 12
        largest_slot:
          description: The most GPUs free on one node that is open to it, so that nothing but a lack of room keeps it away.
          type: int
          returned: always
          sample: 2
        cause:
          description:
            - V([InsufficientGPU]) alone where it is fragmentation and nothing else, so that tidying up would help. The nodes
              that are open to it have its GPUs free in all, and none of them has enough.
            - Else what the nodes that have enough say. If none has, what closes nodes with free GPUs to it is told beside
              V(InsufficientGPU).
          type: list
          elements: str
          returned: always
          sample: [Taint]
        refusals:
          description:
            - GPU nodes by the first reason that each has, in this order.
            - V(NotReady), V(Cordoned), V(NodeSelector), V(NodeAffinity), V(Taint), V(InsufficientGPU), V(InsufficientCPU),
              V(InsufficientMemory), V(TooManyPods), V(InsufficientResource), V(ReservedForNominatedPod), V(HostPort),
              V(VolumeMissing), V(VolumeZone), V(VolumeInUse), V(TopologySpread), V(PodAffinity), V(PodAntiAffinity).
          type: dict
          returned: always
          sample: {"InsufficientGPU": 4, "Taint": 1}
        nodes:
          description: Up to five nodes with GPUs enough that refuse the pod all the same, with all their reasons.
          type: list
          elements: dict
          returned: always
          sample: [{"node": "spot-1", "reasons": ["Taint"]}]
        message:
          description: The same in a sentence.
          type: str
          returned: always
          sample: "needs 4 GPUs; pool NVIDIA-A100-SXM4-80GB has 12 free, node spot-1 has enough of them but refuses it: Taint"
    pending_pods:
      description: Every pending pod that asks for GPUs, the blocked ones too.
      type: list
      elements: dict
      returned: always
      contains:
        namespace:
          description: The pod's namespace.
          type: str
          returned: always
          sample: chat
        pod:
          description: The pod's name.
          type: str
          returned: always
          sample: small-1
        gpus:
          description: GPUs it asks for.
          type: int
          returned: always
          sample: 2
        state:
          description:
            - V(Fits) if a node takes it, V(Blocked) as above, V(Short) if no pool has so many GPUs free in all,
              V(TooLarge) if no node has so many at all,
              V(NoPool) if its selector or affinity admits no GPU node, V(Gated) by scheduling gates, V(Nominated)
              if a preemption keeps a node's room for it.
          type: str
          returned: always
          sample: Fits
        node:
          description: The node that takes it, or that it is nominated to. Null in every other state.
          type: str
          returned: always
          sample: gpu-1
        message:
          description: The same in a sentence.
          type: str
          returned: always
          sample: needs 2 GPUs; node gpu-1 takes it, the scheduler has yet to place it
    reclaimable_nodes:
      description: GPU nodes that hold nothing but DaemonSet, mirror and finished pods.
      type: list
      elements: str
      returned: always
      sample: []
    unhealthy_nodes:
      description: Nodes that offer fewer GPUs than they have, or fewer than are requested of them.
      type: list
      elements: dict
      returned: always
      sample:
        - node: gpu-9
          capacity: 8
          allocatable: 7
          allocated: 3
          message: 8 GPUs built in, 7 work, 3 requested
      contains:
        node:
          description: The node's name.
          type: str
          returned: always
        capacity:
          description: GPUs built in.
          type: int
          returned: always
        allocatable:
          description: GPUs that it offers to pods.
          type: int
          returned: always
        allocated:
          description: GPUs that its pods request.
          type: int
          returned: always
        message:
          description: The same in words.
          type: str
          returned: always
    shared_nodes:
      description: Nodes whose GPUs are time-sliced or shared by MPS, left out of all figures.
      type: list
      elements: dict
      returned: always
      sample: [{"node": "t4-1", "replicas": 4, "message": "GPUs are shared: left out of all figures"}]
      contains:
        node:
          description: The node's name.
          type: str
          returned: always
        replicas:
          description: How many pods share one GPU; 0 if the node does not tell.
          type: int
          returned: always
        message:
          description: The same in words.
          type: str
          returned: always
    resource_claim_pods:
      description: Pods on GPU nodes and pending pods that ask for devices through ResourceClaims, which no figure shows.
      type: list
      elements: dict
      returned: always
      sample: [{"namespace": "chat", "pod": "llm-1", "node": "gpu-1", "claims": ["gpu"]}]
      contains:
        namespace:
          description: The pod's namespace.
          type: str
          returned: always
        pod:
          description: The pod's name.
          type: str
          returned: always
        node:
          description: The node it is on; null for a pending pod.
          type: str
          returned: always
        claims:
          description: The names that the pod gives its claims.
          type: list
          elements: str
          returned: always
    pools:
      description:
        - The pools by name. A pool is the GPU nodes of one product.
        - Besides its C(name) and C(product) each has these measures, which mean the same as those of the whole cluster.
          They are C(nodes), C(gpus_total), C(gpus_allocated), C(gpus_free), C(gpus_unhealthy), C(utilization),
          C(schedulable_utilization), C(slots), C(slots_usable), C(stranded), C(fragmentation_rate), C(frag_rate),
          C(largest_slot), C(stranded_gpus) and C(reclaimable_nodes).
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: The pool's name, which is its product, or V((no product label\)).
          type: str
          returned: always
          sample: NVIDIA-A100-SXM4-80GB
        product:
          description: The product that the nodes' labels name; null where they name none.
          type: str
          returned: always
          sample: NVIDIA-A100-SXM4-80GB
    node_free:
      description: Free GPUs by node.
      type: dict
      returned: always
      sample: {"gpu-1": 2, "gpu-2": 2, "gpu-3": 2, "gpu-4": 2, "spot-1": 4}
    applicable:
      description: Whether defragmentation is worth it for this cluster at all.
      type: bool
      returned: always
      sample: true
    not_applicable_reasons:
      description: Why not.
      type: list
      elements: dict
      returned: always
      contains:
        reason:
          description:
            - V(NoGpuNodes), V(NoPods) where the input holds no pod at all, V(FewGpuNodes), V(SingleGpuPodsOnly) or
              V(ShortLivedPods).
          type: str
          returned: always
          sample: FewGpuNodes
        message:
          description: The same in a sentence.
          type: str
          returned: always
          sample: "5 GPU nodes, fewer than 10: tidying by hand is quicker"
        figures:
          description: What was found and the limit.
          type: dict
          returned: always
          sample: {"min_gpu_nodes": 10, "nodes": 5}
    cost:
      description:
        - What the stranded GPUs cost. The amounts are null without a price, and where a pool that strands GPUs has none.
      type: dict
      returned: always
      contains:
        currency:
          description: What amounts are in.
          type: str
          returned: always
          sample: USD
        gpu_hour_price:
          description: O(gpu_hour_price) as it was given, null without it.
          type: float
          returned: always
          sample: 3.0
        slot_size:
          description: The size that they are stranded at; on a smaller node, the node's own size.
          type: int
          returned: always
          sample: 8
        stranded_gpus:
          description: How many.
          type: int
          returned: always
          sample: 65
        per_hour:
          description: For an hour.
          type: float
          returned: always
          sample: 195.0
        per_month:
          description: For C(hours_per_month) hours.
          type: float
          returned: always
          sample: 142350.0
        per_year:
          description: For 8760 hours.
          type: float
          returned: always
          sample: 1708200.0
        hours_per_month:
          description: Hours that a month is counted for.
          type: int
          returned: always
          sample: 730
    notes:
      description: What was left out or could not be known, in sentences.
      type: list
      elements: str
      returned: always
      sample: []
    details:
      description: Every node with its holders, and who strands what.
      type: dict
      returned: O(details=true)
      contains:
        nodes:
          description: The GPU nodes by pool and name.
          type: list
          elements: dict
          returned: always
          sample:
            - node: gpu-1
              pool: NVIDIA-A100-SXM4-80GB
              gpus: 8
              allocated: 6
              free: 2
              stranded: 2
              state: Partial
              holders:
                - {namespace: chat, pod: llm-1, owner: ReplicaSet/llm, gpus: 6, terminating: false}
          contains:
            node:
              description: The node's name.
              type: str
              returned: always
            pool:
              description: The pool that it belongs to.
              type: str
              returned: always
            gpus:
              description: Allocatable GPUs.
              type: int
              returned: always
            allocated:
              description: GPUs that its pods request.
              type: int
              returned: always
            free:
              description: Allocatable less allocated, never below 0.
              type: int
              returned: always
            stranded:
              description: Free GPUs that no slot of C(slot_size) uses; on a smaller node, no slot as large as the node.
              type: int
              returned: always
            state:
              description:
                - The first of these that is so.
                - V(Unhealthy), one of C(unhealthy_nodes). V(NotReady), the kubelet does not report it ready. V(Cordoned),
                  closed to new pods. V(Full), no GPU is free. V(Partial), some are allocated and some free. V(Empty), none
                  is allocated.
              type: str
              returned: always
            holders:
              description: The pods that hold its GPUs, those with most first.
              type: list
              elements: dict
              returned: always
              contains:
                namespace:
                  description: The pod's namespace.
                  type: str
                  returned: always
                pod:
                  description: The pod's name.
                  type: str
                  returned: always
                owner:
                  description: The kind and name of what controls it, such as V(ReplicaSet/llm); null for a bare pod.
                  type: str
                  returned: always
                gpus:
                  description: GPUs that it requests.
                  type: int
                  returned: always
                terminating:
                  description: Whether it is being deleted. It holds its GPUs until it is gone.
                  type: bool
                  returned: always
        stranded_by:
          description:
            - Workloads on nodes with stranded GPUs, those that strand most first. A node's stranded GPUs are shared over
              its workloads by the GPUs that they hold there.
          type: list
          elements: dict
          returned: always
          sample: [{"namespace": "chat", "owner": "ReplicaSet/llm", "pods": 4, "gpus": 24, "nodes": 4, "stranded": 8.0}]
          contains:
            namespace:
              description: The workload's namespace.
              type: str
              returned: always
            owner:
              description: Its kind and name; V(Pod/NAME) for a bare pod.
              type: str
              returned: always
            pods:
              description: Its pods that hold GPUs.
              type: int
              returned: always
            gpus:
              description: GPUs that they hold.
              type: int
              returned: always
            nodes:
              description: Nodes that they are on.
              type: int
              returned: always
            stranded:
              description: Its share of the stranded GPUs of these nodes.
              type: float
              returned: always
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import AUDIT_ARGUMENTS, audit_params
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets
from ansible_collections.gpuops.defrag.plugins.module_utils._source import MEASURING, SOURCE_ARGUMENTS, open_source


def main() -> None:
    module = AnsibleModule(argument_spec=SOURCE_ARGUMENTS | AUDIT_ARGUMENTS, supports_check_mode=True)
    hide_secrets(module)
    try:
        given = audit_params(module.params)
        source = open_source(module.params)
        given["now"] = given["now"] or source.now
        fragmentation = source.read(MEASURING, lambda documents: audit(documents, source=source.name, live=source.live, **given))
    except InputError as error:
        module.fail_json(msg=str(error))
    fragmentation["notes"] += source.notes
    module.exit_json(changed=False, fragmentation=fragmentation, cluster=source.identity)


if __name__ == "__main__":
    main()
