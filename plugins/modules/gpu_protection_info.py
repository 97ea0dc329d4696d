#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_protection_info
short_description: Find what keeps GPU services up while pods are moved, and what is missing for it
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Computes the PodDisruptionBudgets and annotations that listed or discovered services need, and finds annotations and
    budgets that do not do what they seem to.
  - No budget is proposed over a pod that another one selects, as the Eviction API refuses a pod of several.
  - Touches nothing. The role P(gpuops.defrag.protection#role) applies what it proposes.
options:
  services:
    description: Services to be protected.
    type: list
    elements: dict
    default: []
    suboptions:
      namespace:
        description: Where it is.
        type: str
        required: true
      name:
        description:
          - The workload, such as a Deployment, a StatefulSet, a LeaderWorkerSet or another controller of pods.
          - With O(services[].selector) only what the budget is named after.
        type: str
      kind:
        description: The workload's kind, where workloads of several kinds have the name.
        type: str
      selector:
        description:
          - Labels of the pods, in the place of a workload. They become one group with one budget.
          - Labels alone, or C(matchLabels) and C(matchExpressions).
        type: dict
      min_available:
        description:
          - How many pods stay up, or a percentage of those wanted, which Kubernetes rounds up, as in V(50%).
        type: raw
      max_unavailable:
        description:
          - How many pods may be away at a time, or a percentage of those wanted, which Kubernetes rounds up as well.
          - V(1) if neither this nor O(services[].min_available) is given. It moves with the replicas of an autoscaler.
        type: raw
      allow_none:
        description: A budget that forbids every eviction is meant. No node that holds such a pod can be drained.
        type: bool
        default: false
      budget:
        description: Whether it gets a budget.
        type: bool
        default: true
      protect:
        description:
          - Keep its pods where they are, by annotations that plans and the descheduler heed.
        type: bool
        default: false
  discover:
    description:
      - Also propose budgets for every workload whose pods ask for O(resource_name) and that can be counted, unless it has
        a budget.
    type: bool
    default: false
  resource_name:
    description: The resource that counts as a GPU.
    type: str
    default: nvidia.com/gpu
  discover_min_replicas:
    description: Discovered workloads of fewer replicas get no budget.
    type: int
    default: 2
  discover_max_unavailable:
    description: C(maxUnavailable) of the budgets of discovered workloads.
    type: raw
    default: 1
  namespaces:
    description:
      - Where services are discovered, annotations looked at, and budgets removed that are not wanted any more. All by default.
      - Services that are listed may be elsewhere.
    type: list
    elements: str
    default: []
  namespaces_excluded:
    description: Namespaces where nothing is discovered and no annotation migrated.
    type: list
    elements: str
    default: [kube-system]
  migrate:
    description:
      - Propose to replace C(descheduler.alpha.kubernetes.io/evict) of any value but V(true) by annotations that protect.
    type: bool
    default: false
  rollout:
    description:
      - Propose to change templates too, although Deployments, StatefulSets and DaemonSets then replace all their pods.
      - Without it only pods are annotated, and lose it when they are replaced.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
  - gpuops.defrag.attributes.action_group
seealso:
  - module: gpuops.defrag.gpu_defrag_plan
    description: Plans moves, and heeds what protects.
"""

EXAMPLES = r"""
- name: See what protects the GPU services of a cluster, and what only seems to
  gpuops.defrag.gpu_protection_info:
    src: examples/gpu200-1.json.gz
    discover: true
  register: protection

- name: Tell it
  ansible.builtin.debug:
    msg: "{{ item.severity }}: {{ item.object }}: {{ item.message }}"
  loop: "{{ protection.findings }}"

- name: What would a list of services take
  gpuops.defrag.gpu_protection_info:
    kubeconfig: ~/.kube/config
    services:
      - namespace: serving
        name: llm-70b
        min_available: 2
      - namespace: serving
        name: embeddings
        selector:
          app.kubernetes.io/part-of: embeddings
        max_unavailable: 25%
      - namespace: research
        name: long-run
        budget: false
        protect: true
"""

RETURN = r"""
cluster:
  description: Which cluster was read, by C(server) and C(uid) as M(gpuops.defrag.gpu_fragmentation_info) returns them.
  returned: success
  type: dict
  sample: {"server": null, "uid": null}
ok:
  description: Whether no finding is an error.
  returned: success
  type: bool
  sample: true
budgets:
  description: The PodDisruptionBudgets that are wanted, as manifests.
  returned: success
  type: list
  elements: dict
  sample:
    - apiVersion: policy/v1
      kind: PodDisruptionBudget
      metadata:
        name: gpuops-llm-70b
        namespace: serving
        labels:
          app.kubernetes.io/managed-by: gpuops.defrag
          app.kubernetes.io/part-of: gpuops.defrag
          app.kubernetes.io/component: protection
        annotations:
          gpuops.io/protects: Deployment serving/llm-70b
      spec:
        maxUnavailable: 1
        selector:
          matchLabels:
            app: llm-70b
remove:
  description: Budgets that the role made before and that are not wanted any more, by kind and name.
  returned: success
  type: list
  elements: dict
  sample:
    - apiVersion: policy/v1
      kind: PodDisruptionBudget
      metadata:
        name: gpuops-llm-7b
        namespace: serving
annotate:
  description: Pods and workloads whose annotations are to change.
  returned: success
  type: list
  elements: dict
  contains:
    api_version:
      description: Of the object.
      type: str
      returned: always
      sample: v1
    kind:
      description: Of the object.
      type: str
      returned: always
      sample: Pod
    namespace:
      description: Of the object.
      type: str
      returned: always
      sample: serving
    name:
      description: Of the object.
      type: str
      returned: always
      sample: llm-70b-5d4f8-abcde
    annotations:
      description: The annotations that change; null for one that goes.
      type: dict
      returned: always
      sample: {"descheduler.alpha.kubernetes.io/evict": null, "gpuops.io/protect": "true"}
    rollout:
      description: Whether the workload replaces its pods by that.
      type: bool
      returned: always
      sample: false
    patch:
      description: The same as a merge patch that names its object.
      type: dict
      returned: always
      sample:
        apiVersion: v1
        kind: Pod
        metadata:
          namespace: serving
          name: llm-70b-5d4f8-abcde
          annotations:
            gpuops.io/protect: "true"
findings:
  description: What is wrong, and what is good to know; the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Stays the same from release to release. C(docs/protection.md) has all of them.
      type: str
      returned: always
      sample: EvictMisread
    severity:
      description: V(error) where a wish cannot be met, V(warning) where something does not do what it seems to, or V(info).
      type: str
      returned: always
      sample: warning
    object:
      description: Which object.
      type: str
      returned: always
      sample: Deployment serving/llm-70b
    message:
      description: What is there and what it does.
      type: str
      returned: always
      sample: "2 pods have descheduler.alpha.kubernetes.io/evict: \"false\""
    fix:
      description: What to do; empty where there is nothing to do.
      type: str
      returned: always
      sample: "migrate: true replaces it"
notes:
  description: What was not read.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.protection import protection
from ansible_collections.gpuops.defrag.plugins.module_utils._protection_arguments import PROTECTION_ARGUMENTS, protection_wishes
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets
from ansible_collections.gpuops.defrag.plugins.module_utils._source import PROTECTING, SOURCE_ARGUMENTS, open_source


def main() -> None:
    module = AnsibleModule(argument_spec=SOURCE_ARGUMENTS | PROTECTION_ARGUMENTS, supports_check_mode=True)
    hide_secrets(module)
    try:
        wishes = protection_wishes(module.params)
        source = open_source(module.params)
        found = source.read(PROTECTING, lambda documents: protection(documents, wishes, source=source.name))
    except InputError as error:
        module.fail_json(msg=str(error))
    found["notes"] += source.notes
    module.exit_json(changed=False, cluster=source.identity, **found)


if __name__ == "__main__":
    main()
