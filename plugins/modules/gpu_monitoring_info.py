#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_monitoring_info
short_description: Tell whether Prometheus has loaded rules as they were made
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - A rule file or a C(PrometheusRule) that is there need not be loaded. A selector drops it without a word, an enforced
    namespace label rewrites it to see one namespace alone, and a rule that cannot be evaluated fails where nobody looks.
  - Asks Prometheus what it has loaded, and says what is wrong with it and what to do.
  - Nothing is changed.
options:
  rules:
    description: The rules, as P(gpuops.defrag.prometheus_rules#filter) makes them.
    type: dict
    required: true
  prometheus_url:
    required: true
extends_documentation_fragment:
  - gpuops.defrag.prometheus
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.info_module
seealso:
  - plugin: gpuops.defrag.prometheus_rules
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write rules where Prometheus reads them
  ansible.builtin.copy:
    content: "{{ {} | gpuops.defrag.prometheus_rules | to_nice_yaml(sort_keys=false) }}"
    dest: build/gpuops-defrag.rules.yml
    mode: "0644"

- name: Wait until it has loaded them
  gpuops.defrag.gpu_monitoring_info:
    rules: "{{ {} | gpuops.defrag.prometheus_rules }}"
    prometheus_url: http://prometheus.monitoring:9090
  register: seen
  until: seen.ok
  retries: 12
  delay: 10
"""

RETURN = r"""
ok:
  description: Whether all rules are loaded as they were made, and can be evaluated.
  returned: success
  type: bool
  sample: false
findings:
  description: What is wrong, each in a sentence; empty if all is well.
  returned: success
  type: list
  elements: str
  sample:
    - >-
      group gpuops-defrag nvidia.com/gpu alerts is not loaded; does Prometheus select the object, by its labels (ruleSelector) and
      namespace (ruleNamespaceSelector), or read the file?
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.loaded import flaws
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import UnansweredError
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import PROMETHEUS_ARGUMENTS, prometheus_of
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets


def main() -> None:
    own = {"rules": {"type": "dict", "required": True}, "prometheus_url": {"type": "str", "required": True}}
    module = AnsibleModule(argument_spec=PROMETHEUS_ARGUMENTS | own, supports_check_mode=True)
    hide_secrets(module)
    try:
        prometheus = prometheus_of(module.params)
        if prometheus is None:
            raise InputError("is empty", field="prometheus_url")
        found = flaws(module.params["rules"], prometheus.rules())
    except (InputError, UnansweredError) as error:
        module.fail_json(msg=str(error))
    except (KeyError, TypeError):
        module.fail_json(msg="rules: is no rule file; give what the filter prometheus_rules makes")
    module.exit_json(changed=False, ok=not found, findings=found)


if __name__ == "__main__":
    main()
