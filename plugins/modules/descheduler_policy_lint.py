#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: descheduler_policy_lint
short_description: Find what is wrong with a DeschedulerPolicy before the descheduler runs it
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - The descheduler passes over most of what it does not know, and then does nothing or more than was meant. This module
    finds fields and plugins that the version at hand does not read or refuses, thresholds that are numbers of GPUs,
    protections that do not protect, and whatever else is known to surprise.
  - With a cluster it also finds nodes that would count as empty, pods that may be evicted by mistake or cannot be, and
    selectors that select nothing.
  - Every finding has an id, a place, what it does and what to do about it. C(docs/policy.md) of the collection lists the ids.
options:
  policy:
    description:
      - The policy as a mapping, or its YAML or JSON as text, by which keys that stand twice are found too.
      - It may also be a ConfigMap that holds it, or values of the descheduler's Helm chart with C(deschedulerPolicy).
    type: raw
  policy_file:
    description: The file that holds the same, on the host the module runs on.
    type: path
  config_map_name:
    description:
      - The name of the ConfigMap that the descheduler mounts. If the policy comes in another one, that is an error.
    type: str
  descheduler_version:
    description: The version of the descheduler that is to read it, from V(0.32.0) on.
    type: str
    default: 0.36.0
  resource_name:
    description: The GPU resource.
    type: str
    default: nvidia.com/gpu
  src:
    description:
      - The file that holds the cluster's state, on the host the module runs on, such as M(gpuops.defrag.gpu_snapshot) or
        C(kubectl get nodes,pods,pdb,pc -A -o json) write it.
      - Without it, and without O(live), the policy alone is looked at.
    type: path
  live:
    description:
      - Look at the live cluster too, which the other options and the environment lead to. Not together with O(src).
    type: bool
    default: false
extends_documentation_fragment:
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
  - gpuops.defrag.attributes.action_group
requirements:
  - PyYAML, for a policy as text
seealso:
  - plugin: gpuops.defrag.descheduler_policy
    plugin_type: filter
  - plugin: gpuops.defrag.descheduler_policy_migrate
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Look at a policy that somebody copied from an article
  gpuops.defrag.descheduler_policy_lint:
    policy: |
      apiVersion: descheduler/v1alpha2
      kind: DeschedulerPolicy
      strategies:
        LowNodeUtilization:
          enabled: true
  register: linted

- name: It would never do anything
  ansible.builtin.assert:
    that:
      - not linted.ok
      - "'OldStrategies' in linted.findings | map(attribute='id')"

- name: See whether a policy suits a cluster, and stop if it does not
  gpuops.defrag.descheduler_policy_lint:
    policy: "{{ {'mode': 'native', 'pools': pools} | gpuops.defrag.descheduler_policy }}"
    src: examples/gpu200-1.json.gz
  register: linted
  failed_when: not linted.ok
  vars:
    pools:
      - name: eights
        node_selector: {nvidia.com/gpu.count: '8'}
        gpus_per_node: 8
        max_free: 2
"""

RETURN = r"""
findings:
  description: What was found, errors first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: What kind of finding it is. Ids do not change.
      type: str
      returned: always
      sample: ThresholdIsCount
    severity:
      description:
        - V(error) if the policy does not do what it says, or does harm. V(warning) if it does what it says and that may not be
          what is wanted. V(info) for what is good to know.
      type: str
      returned: always
      sample: error
    path:
      description: Where in the policy; empty for the whole.
      type: str
      returned: always
      sample: profiles[0].pluginConfig[1].args.thresholds['nvidia.com/gpu']
    message:
      description: What is there, and what it does.
      type: str
      returned: always
      sample: >-
        2 is 2 percent of a node's nvidia.com/gpu, not 2 of them; on nodes of 16 or fewer that is less than one
    fix:
      description: What to do.
      type: str
      returned: always
      sample: >-
        write a percentage: settings of the filter descheduler_policy take numbers of GPUs
ok:
  description: Whether none of the findings is an error.
  returned: success
  type: bool
  sample: false
descheduler_version:
  description: The version that was asked about.
  returned: success
  type: str
  sample: 0.36.0
cluster:
  description:
    - Which cluster was looked at, by C(server) and C(uid) as M(gpuops.defrag.gpu_fragmentation_info) returns them. Null if
      the policy alone was.
  returned: success
  type: dict
  sample: {"server": null, "uid": null}
notes:
  description: What could not be read of the cluster.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.check import as_result, check
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint_cluster import see
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.versions import NEWEST, parse_version, told
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._descheduler import policy_document, policy_file
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets
from ansible_collections.gpuops.defrag.plugins.module_utils._source import EVERYTHING, SOURCE_ARGUMENTS, open_source

ARGUMENTS = {
    "policy": {"type": "raw"},
    "policy_file": {"type": "path"},
    "config_map_name": {"type": "str"},
    "descheduler_version": {"type": "str", "default": NEWEST},
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "live": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=SOURCE_ARGUMENTS | ARGUMENTS,
        mutually_exclusive=[("policy", "policy_file")],
        required_one_of=[("policy", "policy_file")],
        supports_check_mode=True,
    )
    hide_secrets(module)
    given = module.params
    try:
        if given["live"] and given["src"] is not None:
            raise InputError("is a file, and live asks for the cluster itself; give one of them", field="src")
        name, version = given["config_map_name"], parse_version(given["descheduler_version"])
        if given["policy_file"] is not None:
            document = policy_file(given["policy_file"], name=name)
        else:
            document = policy_document(given["policy"], name=name)
        source = open_source(given) if given["src"] is not None or given["live"] else None
        seen = None
        if source:
            seen = source.read(EVERYTHING, lambda documents: see(documents, source=source.name, live=source.live, now=source.now))
        found = check(document, version, resource=given["resource_name"], seen=seen)
    except InputError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        descheduler_version=told(version),
        cluster=source.identity if source else None,
        notes=source.notes if source else [],
        **as_result(found),
    )


if __name__ == "__main__":
    main()
