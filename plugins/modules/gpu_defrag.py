#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_defrag
short_description: Carry out one wave of a plan against GPU fragmentation
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Takes the next wave of a plan of M(gpuops.defrag.gpu_defrag_plan), looks at each of its moves again on the cluster as it is
    now, has the pods evicted, waits until those that come in their place are where they should be and Ready, and cleans up.
  - Where anything is off, nothing is evicted, and RV(verdict) and RV(reasons) say what. Plan again then.
  - What it remembers is in the cluster, in the ConfigMap C(gpuops-defrag); a Lease of the same name lets only one run work at
    a time. A run that was killed is finished or undone by the next, whatever plan that one is given.
  - Pods leave by the Eviction API alone, which keeps PodDisruptionBudgets, or with O(make_before_break) once another is Ready.
options:
  plan:
    description: The plan, as M(gpuops.defrag.gpu_defrag_plan) returns it. One without moves cleans up and marks nodes.
    type: dict
  plan_file:
    description: The same as a JSON file, on the host the module runs on.
    type: path
  steering:
    description:
      - How pods are led to their destinations.
      - V(soft_taints) puts the taint C(gpuops.io/defrag:PreferNoSchedule) on the nodes that could attract a pod of the wave and
        are not where it should go, for as long as the wave lasts. It blocks nothing.
      - V(cordon) closes the nodes that pods leave, so that they do not return. Where else they go is the scheduler's choice.
      - V(none) leaves it to the scheduler, for one that packs.
    type: str
    choices: [soft_taints, cordon, none]
    default: soft_taints
  actuator:
    description:
      - Who evicts. V(eviction) is this module.
      - V(descheduler) is the descheduler, with its protections on top. The pods get the label C(gpuops.io/evict=true), which
        its policy must evict by.
    type: str
    choices: [eviction, descheduler]
    default: eviction
  ready_timeout:
    description:
      - How long a pod may take from when it was made until it is Ready. Longer than the longest cold start.
      - One that fails and is made anew each time has twice as long, from when the old pod left.
    type: str
    default: 10m
  evict_timeout:
    description:
      - How long an eviction that a PodDisruptionBudget does not allow is tried again, or the descheduler is waited for.
      - By default V(2m), with O(actuator=descheduler) V(15m).
    type: str
  grace_period:
    description: Of the evicted pods, instead of their own.
    type: str
  max_plan_age:
    description: A plan that was made, or last carried on, longer ago is not carried out.
    type: str
    default: 15m
  cool_down:
    description:
      - A pod that came in the place of another is not moved again for so long, nor any pod of a workload whose pod went
        astray or did not get Ready.
    type: str
    default: 30m
  max_stray_share:
    description: If a larger share of a wave's pods lands elsewhere than planned, the run ends.
    type: float
    default: 0.2
  max_unready_share:
    description: If a larger share of a wave's pods is not Ready in time, the run ends.
    type: float
    default: 0.1
  pause:
    description:
      - PromQL expressions. Nothing is evicted while one of them gives any result, as an alert fires, or cannot be evaluated.
      - They are asked of O(prometheus_url), before the wave, between its steps, and while an eviction is waited for.
    type: list
    elements: str
    default: []
  make_before_break:
    description:
      - Deployments, as C(namespace/name) or C(namespace/*), that get one replica more for as long as it takes; the old pod goes
        once the new one is Ready where it should be. Those that the plan names are added.
      - It is refused for a Deployment that a HorizontalPodAutoscaler scales or that is in the middle of a rollout.
    type: list
    elements: str
    default: []
  reclaim:
    description: What happens to nodes that hold nothing but DaemonSet, static and finished pods. No node is ever deleted.
    type: dict
    suboptions:
      label:
        description:
          - Label them C(gpuops.io/reclaimable=true) with the annotation C(gpuops.io/reclaimable-since), and take both away as
            soon as a run finds that they are no longer empty. With V(false) it takes away those that there are.
        type: bool
        default: true
      cordon:
        description: Close them too, until the label goes. Pods that wait for room do not get it there then.
        type: bool
        default: false
  node_selector:
    description: Which nodes are labelled and measured, as for M(gpuops.defrag.gpu_defrag_plan).
    type: raw
  state_namespace:
    description: Where the ConfigMap and the Lease are.
    type: str
    default: kube-system
  while_pid:
    description:
      - Id of a process, on the host the module runs on. Once it is gone the run ends and cleans up, as on SIGTERM.
      - For tasks with C(async), which would outlive C(ansible-playbook). The playbooks of this collection give its id.
    type: int
extends_documentation_fragment:
  - gpuops.defrag.source.live
  - gpuops.defrag.prometheus
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - It reads the cluster and tells what the wave would evict, taint and label.
  diff_mode:
    support: full
    details:
      - Taints of nodes, or which are closed, while the wave lasts, and labels that stay.
  idempotent:
    support: full
    details:
      - Once all waves of a plan are carried out, running it again changes nothing.
notes:
  - The rights that it needs are in C(policies/rbac/operator.yaml) of the collection.
  - To stop it, set the annotation C(gpuops.io/pause) on the namespace C(kube-system) or on the ConfigMap. Any value but V(false)
    pauses.
seealso:
  - module: gpuops.defrag.gpu_defrag_plan
    description: Makes the plan.
"""

EXAMPLES = r"""
- name: See what a plan for a cluster that was dumped would move
  gpuops.defrag.gpu_defrag_plan:
    src: examples/gpu200-1.json.gz
    objective:
      kind: free_nodes
  register: seen

- name: Plan for the live cluster
  gpuops.defrag.gpu_defrag_plan:
    kubeconfig: ~/.kube/config
    objective:
      kind: free_nodes
  register: planned

- name: Carry out its next wave
  gpuops.defrag.gpu_defrag:
    kubeconfig: ~/.kube/config
    plan: "{{ planned.plan }}"
  register: step

- name: Carry out a plan that was looked at and kept, gently, and stop while users wait too long
  gpuops.defrag.gpu_defrag:
    kubeconfig: ~/.kube/config
    plan_file: plan.json
    ready_timeout: 20m
    make_before_break:
      - serving/chat
    pause:
      - histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2
    prometheus_url: http://prometheus.monitoring:9090
"""

RETURN = r"""
verdict:
  description:
    - The verdict of the plan if all went well, such as V(Recommended).
    - V(StalePlan) if the cluster is no longer as the plan has it. Nothing was evicted for a move that does not hold.
    - V(TooSoon) if the limits' interval since the last wave has not passed.
    - V(Locked) if another run is at work.
    - V(Paused) or V(PausedByMetrics) if a user or O(pause) asks for it.
    - V(BudgetExhausted) if a PodDisruptionBudget did not allow an eviction in time, V(Refused) if the server refused one for
      another reason, V(NotEvicted) if the descheduler did not evict.
    - V(Strays) or V(NotReady) if too many pods landed elsewhere or were not Ready in time.
    - V(StateUnknown) if what an earlier run has left cannot be understood.
  returned: always
  type: str
  sample: Recommended
message:
  description: The same in a sentence.
  returned: always
  type: str
  sample: wave 1 of 3 is carried out
done:
  description: Whether nothing of the plan is left to do.
  returned: always
  type: bool
  sample: false
plan_id:
  description: Of the plan.
  returned: always
  type: str
  sample: p-3f9c0b7d2a41e856
wave:
  description: Number of the wave that was, or would be, carried out. V(null) if none was begun.
  returned: always
  type: int
  sample: 1
waves:
  description: How many the plan has.
  returned: always
  type: int
  sample: 3
retry_after:
  description: With V(TooSoon), seconds until the next wave may go; with V(Locked), after which to try again.
  returned: always
  type: float
  sample: null
evicted:
  description: Moves whose pods left, as the plan has them, and C(by) what, V(eviction), V(descheduler) or V(surge).
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: team-0
      pod: llm-7d9c-x2k4p
      uid: 5f0e7c2e-6d53-4c5e-9c43-2f1f7c1f3a52
      owner: ReplicaSet/llm-7d9c
      gpus: 1
      from: gpu-004
      to: gpu-017
      by: eviction
landed:
  description: Moves whose new pod is Ready on a planned destination, with C(replacement), C(node) and C(status).
  returned: always
  type: list
  elements: dict
  sample: []
strays:
  description: Moves whose new pod landed elsewhere.
  returned: always
  type: list
  elements: dict
  sample: []
unready:
  description: Moves whose new pod was not Ready in time (C(TimedOut)), or did not come (C(Lost)).
  returned: always
  type: list
  elements: dict
  sample: []
reasons:
  description:
    - Why moves were not made, by C(reason) and C(detail), with C(namespace) and C(pod) where it is about one.
    - V(TooOld), V(PodGone), V(UidChanged), V(PodMoved), V(DestinationGone), V(DestinationClosed), V(NoRoom),
      V(BudgetExhausted), V(OwnerFrozen), V(ReplicaPending), V(ReplicaNotReady), V(PodStays),
      V(MakeBeforeBreakRefused), V(MakeBeforeBreakUndone), V(Refused), V(NotEvicted), V(Paused) or V(PausedByMetrics).
  returned: always
  type: list
  elements: dict
  sample: []
recovered:
  description: Moves of a run that died which were seen through first.
  returned: always
  type: list
  elements: dict
  sample: []
steering:
  description: For each step of the wave the nodes that were kept from attracting its pods.
  returned: always
  type: list
  elements: list
  sample: [[gpu-004, gpu-009]]
nodes_written:
  description: How often a Node object was changed.
  returned: always
  type: int
  sample: 4
reclaimable:
  description: Nodes that got the label, C(added), or lost it, C(removed).
  returned: always
  type: dict
  sample: {"added": ["gpu-004"], "removed": []}
planned:
  description: What the whole plan promises, C(evictions), C(freed_nodes) and C(slots_gained).
  returned: always
  type: dict
  sample: {"evictions": 9, "freed_nodes": ["gpu-004", "gpu-009"], "slots_gained": {"8": 2}}
realized:
  description:
    - What has come of it by now. C(freed_nodes) are those of the plan that are empty or were taken by pods that waited,
      C(slots) the slots there are, C(slots_gained) those that this run gained, C(placed_pods) pods that waited and run.
  returned: when the cluster was looked at
  type: dict
  sample: {"freed_nodes": ["gpu-004"], "slots": {"8": 1}, "slots_gained": {"8": 1}, "placed_pods": 0}
notes:
  description: What is worth knowing besides.
  returned: always
  type: list
  elements: str
  sample: []
cluster:
  description: Which cluster it was, by C(server) and C(uid).
  returned: success
  type: dict
  sample: {"server": "https://10.0.0.1:6443", "uid": "0d6b3a3e-3d1c-4c5b-8f0b-0f2d5a0a7a11"}
"""

import signal
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import read_order
from ansible_collections.gpuops.defrag.plugins.module_utils._defrag_arguments import (
    CONNECTION_ARGUMENTS,
    DEFRAG_ARGUMENTS,
    manner_of,
    pause_of,
    plan_of,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.actions import LiveActions
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import StoppedError, as_result, diff_of
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError, connect
from ansible_collections.gpuops.defrag.plugins.module_utils._protect import protect
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets


def main() -> None:
    own = {"plan": {"type": "dict"}, "plan_file": {"type": "path"}}
    module = AnsibleModule(
        argument_spec=CONNECTION_ARGUMENTS | DEFRAG_ARGUMENTS | own,
        mutually_exclusive=[("plan", "plan_file")],
        required_one_of=[("plan", "plan_file")],
        supports_check_mode=True,
    )
    hide_secrets(module)
    # Whoever cancels a job sends this: it is a reason to clean up, which an unhandled one would not.
    signal.signal(signal.SIGTERM, _ended)
    params = module.params
    try:
        order, manner = read_order(plan_of(params)), manner_of(params)
        mark, pause = protect(order.rules.protect), pause_of(params)
        live = connect(params | {"resource_version": None})
        actions = LiveActions(live, params["state_namespace"], mark=mark, pause=pause, while_pid=params["while_pid"])
        outcome = carry_out(actions, order, manner, check=module.check_mode)
    except StoppedError as error:
        module.fail_json(msg=_advised(error), **as_result(error.outcome, order))
    except (InputError, RefusedError) as error:
        module.fail_json(msg=_advised(error))
    told: dict[str, Any] = as_result(outcome, order) | {"cluster": live.identity}
    if module._diff:
        told["diff"] = diff_of(outcome, manner.steering)
    module.exit_json(**told)


def _advised(error: Exception) -> str:
    return f"{error}; policies/rbac/operator.yaml has the rights that are needed" if "answers 403" in str(error) else str(error)


def _ended(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
