#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_defrag_plan
short_description: Plan the fewest evictions that undo GPU fragmentation
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Finds the pods whose eviction frees whole nodes, makes slots of a size or lets blocked pods in, with as few evictions
    as it can, and for each of them a node that takes it when its turn comes, by the rules of kube-scheduler.
  - Every PodDisruptionBudget, protection and limit is looked at for the whole plan before anything is proposed. For every
    pod that must stay the reason is told.
  - At every step of the plan the cluster is one in which all pods run. Stopped anywhere, nothing is lost.
  - Touches nothing.
options:
  objective:
    description: What to gain.
    type: dict
    suboptions:
      kind:
        description:
          - V(slots) makes room for more pods of O(objective.slot_size) GPUs. Slots are counted on nodes as they are.
          - V(free_nodes) empties whole nodes, of pods without GPUs too.
          - V(blocked_pods) makes room for the pods that are blocked now, those of the highest priority and the largest
            first.
        type: str
        choices: [slots, free_nodes, blocked_pods]
        default: slots
      slot_size:
        description: GPUs of a slot, from 1 to 1000000.
        type: int
        default: 8
      count:
        description: How many more slots or nodes, or how many blocked pods; V(max) for as many as can be had.
        type: str
        default: max
  max_evictions:
    description: No plan evicts more pods than this. It aims at less where it would.
    type: int
  min_nodes_freed:
    description: A plan that frees fewer nodes is not worth it. It then has the verdict V(BelowGoal) and no moves.
    type: int
    default: 0
  limits:
    description: Evictions that one wave may make. A wave is what may be in flight together.
    type: dict
    suboptions:
      per_node:
        description: From one node.
        type: int
        default: 1
      per_namespace:
        description: In one namespace.
        type: int
        default: 5
      per_workload:
        description: Of one workload, by its nearest controller.
        type: int
        default: 1
      total:
        description: In all; with V(0) nothing is moved for now. Without it there is no such limit.
        type: int
      interval_seconds:
        description: From one wave to the next. Only repeated in the result.
        type: int
        default: 300
  across_products:
    description:
      - Let pods go to nodes of another GPU product where they name none. By default a pod stays on the product it is on.
    type: bool
    default: false
  protect:
    description:
      - JMESPath expressions over the pod as the API has it. A pod that one of them matches is never moved, nor one for which
        an expression cannot be decided.
      - An expression that cannot be read is refused, as is one that calls an unknown function or with too few or too many
        arguments.
    type: list
    elements: str
    default: []
  priority_threshold:
    description: Pods of this priority and above are never moved.
    type: int
  movable_singletons:
    description:
      - Move the only replica of a workload too, which is then away for its cold start. Nor is it looked then whether other
        replicas of a workload are ready.
    type: bool
    default: false
  movable_gangs:
    description:
      - Move pods that only work together too, all members of a gang in one wave or none. The wave's O(limits) must allow as
        many; of O(limits.per_workload) a gang takes one.
    type: bool
    default: false
  movable_local_storage:
    description:
      - Move pods with volumes on the node's disk too. What is in them is lost. Volumes in memory never hold a pod.
    type: bool
    default: false
  make_before_break:
    description:
      - Deployments, as C(namespace/name) or C(namespace/*), whose new pod is brought up before the old one goes. So their only
        replica may move too, and their PodDisruptionBudgets are not asked, as nothing is evicted.
    type: list
    elements: str
    default: []
  min_pod_age:
    description: Pods that started more recently stay, such as V(15m). A number is seconds.
    type: str
    default: 0s
  pod_cost:
    description:
      - Cold start, from scheduled to Ready, by workload. Keys are C(namespace/name) of a Deployment, ReplicaSet,
        StatefulSet or other controller, and C(default) for all others. Values are durations such as V(3m), or seconds.
      - Of plans that gain the same the one is taken whose pods cost least.
    type: dict
    default: {}
  solver:
    description:
      - V(heuristic) is plain Python, quick and near the optimum. V(exact) proves the fewest evictions with OR-tools.
      - V(auto) takes the exact one where it is installed, the cluster is not too large for it, and the heuristic's plan
        is not proved to be the best already.
    type: str
    choices: [auto, heuristic, exact]
    default: auto
  time_limit:
    description:
      - Seconds that the exact solver may take in all; V(0) is the heuristic alone. What it may do in that time is counted in
        steps, not by the clock, so that the same input gives the same plan. Only on a very slow machine the clock ends it.
    type: float
    default: 30
  seed:
    description: Of the exact solver's choices among equal plans.
    type: int
    default: 0
  now:
    description:
      - The time that ages are counted to, such as V(2026-11-30T12:00:00Z).
      - By default the newest time found in a file, or the server's clock.
    type: str
  state_namespace:
    description:
      - Where M(gpuops.defrag.gpu_defrag) keeps what it remembers. What it has moved a moment ago stays, when a live cluster
        is read.
    type: str
    default: kube-system
  details:
    description: Also return what every node holds before and after. Reports need it.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.selection
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
  - gpuops.defrag.attributes.action_group
requirements:
  - jmespath, for O(protect)
  - ortools, for O(solver=exact)
seealso:
  - module: gpuops.defrag.gpu_fragmentation_info
    description: Says whether it is worth it.
  - module: gpuops.defrag.gpu_defrag
    description: Carries the plan out.
"""

EXAMPLES = r"""
- name: Plan three more slots for pods of eight GPUs
  gpuops.defrag.gpu_defrag_plan:
    src: examples/gpu200-1.json.gz
    objective:
      kind: slots
      slot_size: 8
      count: 3
  register: planned

- name: Say what it takes
  ansible.builtin.debug:
    msg: "{{ planned.plan.verdict }}: {{ planned.plan.message }}"

- name: Free as many whole nodes as twenty evictions can
  gpuops.defrag.gpu_defrag_plan:
    src: examples/gpu200-1.json.gz
    objective:
      kind: free_nodes
    max_evictions: 20

- name: Let blocked pods in, but leave the main services and whatever is younger than a quarter of an hour alone
  gpuops.defrag.gpu_defrag_plan:
    src: examples/blocked.yaml
    objective:
      kind: blocked_pods
    protect:
      - metadata.labels.tier == 'production'
      - starts_with(metadata.namespace, 'serving-')
    min_pod_age: 15m
    pod_cost:
      default: 3m
      serving/embeddings: 20s
"""

RETURN = r"""
cluster:
  description: Which cluster was read, by C(server) and C(uid) as M(gpuops.defrag.gpu_fragmentation_info) returns them.
  returned: success
  type: dict
  sample: {"server": null, "uid": null}
plan:
  description: The plan, or why there is none.
  returned: success
  type: dict
  contains:
    schema_version:
      description: Changes when keys of a plan change their meaning.
      type: int
      returned: always
      sample: 1
    plan_id:
      description: The same for the same plan for the same pods.
      type: str
      returned: always
      sample: p-3f9c0b7d2a41e856
    as_of:
      description: The state of the cluster that it is for. V(null) if no time was found in a file.
      type: str
      returned: always
      sample: "2026-11-30T12:00:00Z"
    verdict:
      description:
        - V(Recommended), or one of those without moves. V(NoFragmentation) if there is nothing to gain, V(BelowGoal) if the
          plan would free fewer than O(min_nodes_freed) nodes, V(Blocked) if nothing can be gained although GPUs are
          scattered, for the reasons that RV(plan.message) sums up, V(NotApplicable) if no pod asks for GPUs or no node has
          any.
      type: str
      returned: always
      sample: Recommended
    message:
      description: The same in a sentence.
      type: str
      returned: always
      sample: 8 evictions in 3 waves gain 3 slots of 8 GPUs
    resource_name:
      description: The resource that counts as a GPU.
      type: str
      returned: always
      sample: nvidia.com/gpu
    objective:
      description: What was wished.
      type: dict
      returned: always
      sample: {"kind": "slots", "slot_size": 8, "count": 3}
    solver:
      description: Which solver's plan it is, V(heuristic) or V(exact).
      type: str
      returned: always
      sample: heuristic
    before:
      description: Measures of the cluster as it is, as M(gpuops.defrag.gpu_fragmentation_info) returns them.
      type: dict
      returned: always
      sample: {"gpus_free": 65, "largest_slot": 6, "slots": {"1": 65, "2": 27, "4": 8, "8": 0}}
    after:
      description: The same after all moves.
      type: dict
      returned: always
      sample: {"gpus_free": 65, "largest_slot": 8, "slots": {"1": 65, "2": 29, "4": 10, "8": 3}}
    waves:
      description:
        - Moves that may be in flight together, wave after wave, in a wave the largest pods first. What a wave frees is
          there for the next one.
      type: list
      elements: list
      returned: always
      sample:
        - - namespace: team-0
            pod: pod-00001
            uid: u-0
            owner: ReplicaSet/rs-0000
            gpus: 1
            from: openb-node-0304
            to: openb-node-0158
    evictions:
      description: How many moves that are.
      type: int
      returned: always
      sample: 8
    cost_seconds:
      description: Cold start of all the pods that are moved, together.
      type: float
      returned: always
      sample: 1440.0
    freed_nodes:
      description: Nodes that then hold no GPU pod any more.
      type: list
      elements: str
      returned: always
      sample: [openb-node-0225, openb-node-0301, openb-node-0304]
    slots_gained:
      description: By size, how many more slots there then are.
      type: dict
      returned: always
      sample: {"1": 0, "2": 2, "4": 2, "8": 3}
    placed_pods:
      description: With O(objective.kind=blocked_pods), the pending pods that then have a node, and which.
      type: list
      elements: dict
      returned: always
      sample: []
    unplaced:
      description: With O(objective.kind=blocked_pods), the blocked pods that get no room, the most urgent first.
      type: list
      elements: dict
      returned: always
      contains:
        namespace:
          description: The pod's namespace.
          type: str
          returned: always
          sample: team-1
        pod:
          description: The pod's name.
          type: str
          returned: always
          sample: train-0
        gpus:
          description: GPUs it asks for.
          type: int
          returned: always
          sample: 8
        reason:
          description:
            - V(ResourceClaim) or V(VolumeUnknown) if it is not known where it would be taken, so that nothing is evicted for
              it; V(Count) if O(objective.count) others go first; V(MaxEvictions) if there are moves but O(max_evictions) does
              not allow as many; V(BelowGoal) if there would be room but O(min_nodes_freed) is not reached; V(NoRoom) if no
              moves make room. Of several the first in this order is told.
          type: str
          returned: always
          sample: NoRoom
        detail:
          description: The particulars, in a sentence. With V(NoRoom), how many nodes refuse it for which reason.
          type: str
          returned: always
          sample: >-
            needs 8 GPUs; pool A100 has 12 free, at most 4 on one node; no moves make room for it: 3 InsufficientGPU, 1 Taint
    lower_bound:
      description: No plan reaches the same with fewer evictions.
      type: int
      returned: always
      sample: 8
    optimal:
      description: Whether it is proved that no fewer evictions do.
      type: bool
      returned: always
      sample: true
    skipped:
      description:
        - GPU pods that must stay, and those that may be evicted but that no other node takes once the plan is carried out.
          With O(objective.kind=free_nodes) pods without GPUs that hold a GPU node too.
        - Pods that could move but need not are not among them; nor is it looked where pods could go if no moves are looked
          for, no pod being blocked.
      type: list
      elements: dict
      returned: always
      contains:
        namespace:
          description: The pod's namespace.
          type: str
          returned: always
          sample: team-0
        pod:
          description: The pod's name.
          type: str
          returned: always
          sample: pod-00042
        node:
          description: Where it is.
          type: str
          returned: always
          sample: openb-node-0304
        gpus:
          description: GPUs it holds.
          type: int
          returned: always
          sample: 1
        reason:
          description:
            - The rule. V(Terminating), V(StaticPod), V(DaemonSet), V(BarePod), V(UnknownController), V(SystemCritical),
              V(Priority), V(Protected), V(ProtectExpression), V(Gang), V(ResourceClaim), V(LocalStorage), V(Volume),
              V(SeveralBudgets), V(SingleReplica), V(JobRetries), V(BudgetUnknown), V(Budget), V(ReplicaPending),
              V(NotReady), V(LastReadyReplica), V(ReplicaNotReady), V(TooYoung), V(CoolingDown) or V(NoDestination). Of several
              the first in this order is told.
          type: str
          returned: always
          sample: SingleReplica
        detail:
          description:
            - The particulars, in a sentence.
            - With V(NoDestination), how many other nodes refuse it for which first reason, most first. The reasons are those
              of pending pods in M(gpuops.defrag.gpu_fragmentation_info), V(OtherProduct) for nodes of another GPU product to
              which O(across_products) does not let it go, and V(UnhealthyGPU) for nodes with broken GPUs.
          type: str
          returned: always
          sample: "no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint"
    nodes_kept:
      description:
        - Nodes with GPUs free that nothing leaves, and the pod that holds each. One that may not be evicted is named before
          one that no other node takes.
      type: list
      elements: dict
      returned: always
      sample: []
    limits:
      description: The limits that the waves keep.
      type: dict
      returned: always
      sample: {"per_node": 1, "per_namespace": 5, "per_workload": 1, "total": null, "interval_seconds": 300}
    rules:
      description: The options that say what may move, for whoever carries the plan out and looks again.
      type: dict
      returned: always
      sample: {"movable_singletons": false, "min_pod_age": 0.0, "protect": []}
    notes:
      description: What was not known, and whether this cluster suits at all.
      type: list
      elements: str
      returned: always
      sample: []
    details:
      description: For every GPU node what it holds before and after.
      type: dict
      returned: O(details=true)
      sample: {"nodes": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.memory import cooling
from ansible_collections.gpuops.defrag.plugins.module_utils._plan_arguments import PLAN_ARGUMENTS, plan_params
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets
from ansible_collections.gpuops.defrag.plugins.module_utils._source import EVERYTHING, SOURCE_ARGUMENTS, Live, open_source


def main() -> None:
    module = AnsibleModule(argument_spec=SOURCE_ARGUMENTS | PLAN_ARGUMENTS, supports_check_mode=True)
    hide_secrets(module)
    try:
        source = open_source(module.params)
        moved, unknown = cooling(source, module.params["state_namespace"]) if isinstance(source, Live) else ({}, [])
        given = plan_params(module.params, live=source.live, cooling=moved)
        given["now"] = given["now"] or source.now
        found = source.read(EVERYTHING, lambda documents: plan(documents, source=source.name, live=source.live, **given))
    except InputError as error:
        module.fail_json(msg=str(error))
    found["notes"] += [*source.notes, *unknown]
    module.exit_json(changed=False, plan=found, cluster=source.identity)


if __name__ == "__main__":
    main()
