#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_eviction_rate
short_description: Set how many pods may be moved next, from what the cluster can bear and how badly it needs it
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Reads the cluster and, if O(prometheus_url) is given, Prometheus, and sets the limits of the next cycle of evictions, with
    the reasons in words. No more GPU pods are cold at any moment than O(profile) or O(bounds) allow; within that the rate
    follows how many GPUs are stranded and how long pods have waited for them.
  - It rises slowly, once readings agree, and falls at once, when pods go astray or do not get Ready, or when one of O(guards)
    fires. What is unknown never raises it.
  - What it remembers is in the cluster, in the ConfigMap C(gpuops-defrag), so that any controller can make the next decision.
    That is all it writes. P(gpuops.defrag.gpu_policy#role) gives limits to the descheduler,
    M(gpuops.defrag.gpu_defrag_plan) takes them.
options:
  slot_size:
    description:
      - The request size at which GPUs count as stranded. By default every size that pods ask for, weighted by the GPUs that
        they ask for.
    type: int
  queries:
    description:
      - Queries in the place of those that Prometheus is asked by default, and for readings that it is not asked for by default.
        Each but O(queries.cold_start) is to give one series. What a query gives counts alone, but evictions are added to those
        of M(gpuops.defrag.gpu_defrag).
    type: dict
    default: {}
    suboptions:
      gpu_pods:
        description: GPU pods that are on a node and run.
        type: str
      gpu_pods_not_ready:
        description: How many of them are not Ready. By default counted.
        type: str
      stranded_share:
        description: Share of all GPUs that are free and of no use to the pods that ask for them. By default measured.
        type: str
      blocked_gpus:
        description: GPUs that pods wait for while there are enough, but on no single node. By default measured.
        type: str
      blocked_seconds:
        description: For how long the first of these pods has waited. By default measured.
        type: str
      evictions:
        description: Evictions in the last hour by others than M(gpuops.defrag.gpu_defrag). By default those of the descheduler;
          where it is the actuator, its evictions are counted twice unless a query leaves them out.
        type: str
      budget_headroom:
        description: GPU pods that PodDisruptionBudgets let go now. By default counted.
        type: str
      cold_start:
        description:
          - Seconds from scheduled to Ready, a series for each pod, with the labels C(namespace) and C(workload), as
            C(Deployment/llm).
        type: str
  matchers:
    description: Further matchers for the series of the default queries, such as V(cluster="a").
    type: str
  guards:
    description:
      - What must hold of the services while pods are moved, such as an error rate. While one fires the rate is halved with each
        decision, down to a pause; while nothing is known of one, down to one pod at a time.
    type: list
    elements: dict
    default: []
    suboptions:
      query:
        description: PromQL.
        type: str
        required: true
      above:
        description: It fires if a value is above this.
        type: float
      below:
        description: It fires if a value is below this.
        type: float
      for:
        description: Only if it was so all this time, as V(5m).
        type: str
  state_namespace:
    description: Where the ConfigMap is.
    type: str
    default: kube-system
extends_documentation_fragment:
  - gpuops.defrag.rate
  - gpuops.defrag.source.live
  - gpuops.defrag.prometheus
  - kubernetes.core.k8s_auth_options
  - gpuops.defrag.selection
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.action_group
attributes:
  check_mode:
    support: full
    details:
      - It decides, and remembers nothing.
  diff_mode:
    support: full
    details:
      - What is remembered.
  idempotent:
    support: full
    details:
      - Readings of the same moment are one, and change nothing when they are taken twice. While readings agree that the rate
        should rise, every third of O(bounds.raise_after) is a change.
notes:
  - The rights that it needs are in C(policies/rbac/reader.yaml), and those for the ConfigMap in C(policies/rbac/operator.yaml)
    of the collection.
  - While a user asks for a pause, by the annotation C(gpuops.io/pause) on the namespace C(kube-system) or on the ConfigMap, its
    answer is a pause.
seealso:
  - plugin: gpuops.defrag.eviction_limits
    plugin_type: filter
    description: The same for readings that come from elsewhere.
  - module: gpuops.defrag.gpu_defrag_plan
    description: Takes the limits.
"""

EXAMPLES = r"""
- name: See first, in a dump, how many GPUs are stranded and who waits for them
  gpuops.defrag.gpu_fragmentation_info:
    src: examples/blocked.yaml
  register: seen

- name: Set the limits from the cluster alone
  gpuops.defrag.gpu_eviction_rate:
    kubeconfig: ~/.kube/config
    profile: balanced
  register: rate

- name: Plan within them
  gpuops.defrag.gpu_defrag_plan:
    kubeconfig: ~/.kube/config
    limits: "{{ rate.limits }}"

- name: Ask Prometheus too, and hold back while users wait too long
  gpuops.defrag.gpu_eviction_rate:
    kubeconfig: ~/.kube/config
    prometheus_url: http://prometheus.monitoring:9090
    guards:
      - query: histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))
        above: 2
        for: 3m
"""

RETURN = r"""
limits:
  description:
    - Evictions that the next cycle may make, C(per_node), C(per_namespace), C(per_workload) and in C(total), and
      C(interval_seconds) from one cycle to the next. A C(total) of V(0) is a pause.
  returned: success
  type: dict
  sample: {"per_node": 2, "per_namespace": 9, "per_workload": 1, "total": 9, "interval_seconds": 180}
action:
  description: What became of the rate, V(raise), V(hold), V(back_off) or V(pause).
  returned: success
  type: str
  sample: hold
reasons:
  description:
    - Why, the gravest first, by C(reason) and in words by C(detail).
    - V(Paused), V(GuardFires), V(Strays), V(Unready), V(ServiceCold), V(Unknown), V(PodsCold), V(HourFull), V(NoBudget),
      V(CycleTooShort), V(Begins), V(MoreNeeded), V(LessNeeded) or V(Steady). C(docs/tune.md) tells what to do about each.
  returned: success
  type: list
  elements: dict
  sample:
    - reason: Steady
      detail: "14.0% of the GPUs are stranded: 9 of the 9 pods that may be cold at a time"
schedule:
  description: The same interval as a cron schedule, for a descheduler that runs as a CronJob.
  returned: success
  type: str
  sample: "*/3 * * * *"
inputs:
  description:
    - What it went by. V(null) is unknown, and C(unknown) tells why, also of what another source stands in for.
  returned: success
  type: dict
  sample:
    gpu_pods: 180
    gpu_pods_not_ready: 2
    in_flight: 0
    stranded_share: 0.14
    blocked_gpus: 16
    blocked_seconds: 900.0
    cold_start: {"p50": 150.0, "p90": 180.0, "workloads": {}}
    evictions: 12
    strays: 0
    unready: 0
    judged: "2026-11-30T11:57:00.000Z"
    budget_headroom: 90
    services: {"Deployment serving/llm": {"pods": 4, "not_ready": 0, "in_flight": 0}}
    guards: []
    paused: null
    as_of: "2026-11-30T12:00:00.000Z"
    unknown: {}
state:
  description: What is remembered.
  returned: success
  type: dict
  sample: {"version": 1, "level": 9, "agreeing": 0, "counted": 0.0, "judged": 1796039820.0}
notes:
  description: What could not be read.
  returned: success
  type: list
  elements: str
  sample: []
cluster:
  description: Which cluster it was, by C(server) and C(uid).
  returned: success
  type: dict
  sample: {"server": "https://10.0.0.1:6443", "uid": "0d6b3a3e-3d1c-4c5b-8f0b-0f2d5a0a7a11"}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._defrag_arguments import CONNECTION_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError, connect
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import prometheus_of
from ansible_collections.gpuops.defrag.plugins.module_utils._rate import KEY, Questions, keep, tick
from ansible_collections.gpuops.defrag.plugins.module_utils._rate_arguments import (
    RATE_ARGUMENTS,
    audit_of,
    law_of,
    queries_of,
    watches_of,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets


def main() -> None:
    module = AnsibleModule(argument_spec=CONNECTION_ARGUMENTS | RATE_ARGUMENTS, supports_check_mode=True)
    hide_secrets(module)
    params = module.params
    namespace = params["state_namespace"]
    try:
        law, audit = law_of(params), audit_of(params)
        queries, own = queries_of(params)
        questions = Questions(prometheus_of(params), queries, own, watches_of(params))
        live = connect(params | {"resource_version": None})
        found = tick(live, namespace, law, audit, questions)
        if not module.check_mode:
            keep(live, namespace, found)
    except RefusedError as error:
        module.fail_json(msg=f"{error}; policies/rbac/operator.yaml has the rights that are needed")
    except InputError as error:
        module.fail_json(msg=str(error))
    told = found.decision.plain() | {
        "changed": found.changed,
        "inputs": found.readings.plain(),
        "notes": list(found.notes),
        "cluster": live.identity,
    }
    if module._diff:
        header = f"{KEY} of ConfigMap {namespace}/gpuops-defrag"
        told["diff"] = {"before_header": header, "after_header": header, "before": found.before, "after": found.after}
    module.exit_json(**told)


if __name__ == "__main__":
    main()
