#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_scheduler_info
short_description: Tell whether the scheduler of a Kubernetes cluster packs GPU pods
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - An evicted pod goes where the scheduler puts its replacement. Kubernetes' own defaults spread pods, so it goes back to a
    hole like the one it left unless it is steered. A scheduler that is configured to pack puts it on the fullest node.
  - Finds out which of the two a cluster's scheduler does, per profile, with the reasons. Where it cannot be seen, as with
    most managed control planes, the answer is that it is unknown.
  - With O(url) the scheduler itself is asked. Else the pods that O(selector) finds in O(namespace) are looked at. Each is
    asked through the API server's pod proxy; if that is refused, its arguments tell, and the ConfigMap that they name.
  - Nothing is changed.
options:
  url:
    description:
      - Address of the scheduler, such as V(https://10.0.0.5:10259). It is asked at C(/configz), and nobody else is.
      - The credentials for the cluster are sent there, so give an address that is yours. What they need is the right to get
        the nonResourceURL C(/configz), and no other.
      - O(cluster_uid) cannot be checked there.
    type: str
  url_ca_cert:
    description:
      - Certificate authority of O(url). Without it that of the cluster is taken.
      - A scheduler that is given no certificate makes one of its own, which no authority vouches for.
    type: path
  url_validate_certs:
    description:
      - Whether the certificate of O(url) is checked. Without that, whoever answers there gets the credentials.
    type: bool
    default: true
  configuration_file:
    description:
      - A C(KubeSchedulerConfiguration) on the host that the module runs on. It is judged, and nobody is asked.
    type: path
  src:
    description:
      - A file with pods, such as C(kubectl get pods,configmaps -n kube-system -o json) prints. What their arguments and
        ConfigMaps say is told; a file that M(gpuops.defrag.gpu_snapshot) wrote has neither.
    type: path
  namespace:
    description:
      - Where the scheduler's pods are.
    type: str
    default: kube-system
  selector:
    description:
      - The labels of the scheduler's pods, as for C(kubectl -l). The default is what kubeadm gives them.
    type: str
    default: component=kube-scheduler
  gpus_per_node:
    description:
      - GPUs of the largest nodes. The more there are, the less does one of them count beside other things that are scored.
    type: int
    default: 8
  node_selector:
    description:
      - A scheduler is the same for all nodes. This is here so that all modules of the action group take the same options.
    type: raw
extends_documentation_fragment:
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.selection
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
  - gpuops.defrag.attributes.action_group
notes:
  - Through the API server it takes the rights to list pods in O(namespace) and to get the ConfigMap there that they name.
    Asking pods through its proxy takes the right to get C(pods/proxy) there, which is far more than that; without it the
    arguments are enough.
seealso:
  - plugin: gpuops.defrag.scheduler_configuration
    plugin_type: filter
    description: A configuration that packs.
  - plugin: gpuops.defrag.scheduler_packs
    plugin_type: filter
    description: The same for a configuration that a playbook already has.
"""

EXAMPLES = r"""
- name: Fail a pipeline where a configuration does not pack GPUs
  gpuops.defrag.gpu_scheduler_info:
    configuration_file: examples/scheduler.yaml
  register: gate
  failed_when: not gate.packs

- name: Tell what becomes of evicted pods
  ansible.builtin.debug:
    msg: "{{ gate.message }}"

- name: Look at the scheduler of a kubeconfig's cluster
  gpuops.defrag.gpu_scheduler_info:
    kubeconfig: ~/.kube/config
  register: running

- name: Ask the scheduler itself, not by a kubeconfig but with a token that may get /configz
  gpuops.defrag.gpu_scheduler_info:
    url: https://10.0.0.5:10259
    url_ca_cert: /etc/kubernetes/pki/ca.crt
    api_key: "{{ lookup('ansible.builtin.env', 'SCHEDULER_TOKEN') }}"
  register: asked
"""

RETURN = r"""
visible:
  description: Whether the configuration of a scheduler could be seen.
  returned: success
  type: bool
  sample: true
packs:
  description: Whether some profile packs; null where none could be seen.
  returned: success
  type: bool
  sample: false
packing_profiles:
  description: The profiles that pack. A pod chooses one with C(schedulerName).
  returned: success
  type: list
  elements: str
  sample: []
steering_needed:
  description:
    - Whether some evicted pods go back to holes unless they are steered by soft taints. So it is where some profile does not
      pack, and where none could be seen.
  returned: success
  type: bool
  sample: true
profiles:
  description: Every profile. Where schedulers that take turns differ, the one that does not pack counts.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: What pods give as C(schedulerName).
      type: str
      returned: always
      sample: default-scheduler
    packs:
      description: Whether of two nodes that differ in nothing but their use the fuller one is taken.
      type: bool
      returned: always
      sample: false
    strategy:
      description: How NodeResourcesFit scores; null where it does not.
      type: str
      returned: always
      sample: LeastAllocated
    weight:
      description: How much that counts beside other scores.
      type: int
      returned: always
      sample: 1
    reasons:
      description:
        - Why it does not pack.
        - The id is V(NotScored), V(LeastAllocated), V(ShapeDoesNotRise), V(ResourceNotCounted) or V(SpreadByDefault).
      type: list
      elements: dict
      returned: always
      sample: [{"id": "LeastAllocated", "message": "the strategy is LeastAllocated: the emptier node is taken"}]
    cautions:
      description:
        - What may put a pod elsewhere although the profile packs.
        - The id is V(BalancedAllocation), V(ImageLocality), V(TaintsOutweighed), V(SomeNodes), V(UnknownPlugin) or
          V(Extender).
      type: list
      elements: dict
      returned: always
      sample: []
reasons:
  description: Why profiles do not pack, and why schedulers cannot be seen, in sentences.
  returned: success
  type: list
  elements: str
  sample: ["default-scheduler: the strategy is LeastAllocated: the emptier node is taken"]
message:
  description: What becomes of evicted pods, in a sentence.
  returned: success
  type: str
  sample: "The scheduler packs nvidia.com/gpu: an evicted pod goes to the fullest node that takes it."
schedulers:
  description: The schedulers that were found.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its pod, its address, or the file.
      type: str
      returned: always
      sample: kube-scheduler-cp-1
    way:
      description:
        - How its configuration was read, V(url), V(proxy), V(config_map), V(arguments) or V(file); null where it could not be.
        - What a ConfigMap says now is not what the scheduler does if it was changed after the scheduler was started.
      type: str
      returned: always
      sample: arguments
    config_path:
      description: The file that its arguments name.
      type: str
      returned: always
    config_map:
      description: The ConfigMap that this file is from.
      type: str
      returned: always
    host_path:
      description: The file on the host that it is.
      type: str
      returned: always
cluster:
  description: Which cluster was read.
  returned: success
  type: dict
  contains:
    server:
      description: The address of its API server; null where that was not asked.
      type: str
      returned: always
      sample: https://10.0.0.1:6443
    uid:
      description: The uid of its namespace C(kube-system); null if it may not be read, and where nobody was asked.
      type: str
      returned: always
      sample: 5b1cf5e7-93a4-4ac1-a1b3-0d8f1c6f2a77
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._scheduler import SCHEDULER_ARGUMENTS, look
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets


def main() -> None:
    module = AnsibleModule(argument_spec=SCHEDULER_ARGUMENTS, supports_check_mode=True)
    hide_secrets(module)
    try:
        found = look(module.params)
    except InputError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
