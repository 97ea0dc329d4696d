# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What Prometheus is asked for unless the user says otherwise: PromQL over kube-state-metrics.

Several of its replicas, or two that overlap in a rollout, give every series twice: so each is reduced to one for a pod
first. Requests are there for pods that wait and for pods that are finished too. What is missing leaves an expression empty,
which is unknown, and never 0.

Of the other readings the API server knows more than any metric: which pods a PodDisruptionBudget selects, and which free GPUs
a taint, a product or a lack of memory puts out of reach. They have no query here, and may be given one.
"""

from __future__ import annotations

from string import Template

LOOK_BACK = "6h"
"""Starts of the pods of so long are looked at."""

_POD = "namespace, pod, uid"
_HOLDERS = Template(
    'max by ($pod) (kube_pod_container_resource_requests{resource="$resource", node!=""} > 0) '
    'and on ($pod) (max by ($pod) (kube_pod_status_phase{phase=~"Pending|Running"}) == 1) '
    "unless on ($pod) max by ($pod) (kube_pod_deletion_timestamp)"
)
_TEMPLATES = {
    "gpu_pods": "count($holders)",
    # A pod whose readiness nobody tells counts as not Ready; where that of none is told, nothing comes back.
    "gpu_pods_not_ready": (
        'count($holders) - count(($holders) and on ($pod) (max by ($pod) (kube_pod_status_ready{condition="true"}) == 1))'
    ),
    # Ready for the first time: readiness that comes and goes moves the time that is told. So only of pods that were scheduled
    # since the look back began.
    "cold_start": (
        "((min by ($pod) (min_over_time(kube_pod_status_ready_time[$look_back])) "
        "- on ($pod) (max by ($pod) (max_over_time(kube_pod_status_scheduled_time[$look_back])) > time() - $seconds)) "
        'and on ($pod) max by ($pod) (max_over_time(kube_pod_container_resource_requests{resource="$resource"}[$look_back]) > 0))'
        " * on ($pod) group_left (owner_kind, owner_name) "
        'max by ($pod, owner_kind, owner_name) (max_over_time(kube_pod_owner{owner_is_controller="true"}[$look_back]))'
    ),
    # Of the descheduler; a counter of an older name, never added to the one of the newer.
    "evictions": (
        'sum(increase(descheduler_pods_evicted_total{result="success"}[1h])) '
        'or sum(increase(descheduler_pods_evicted{result="success"}[1h]))'
    ),
}
MAY_BE_EMPTY = frozenset(("cold_start", "evictions"))
"""Readings of which nothing comes back also where all is well: no pod has started, or there is no descheduler."""


def default_queries(resource_name: str) -> dict[str, str]:
    """The queries by the name of the reading.

    Args:
        resource_name: The GPU resource, as a pod asks for it: ``nvidia.com/gpu``.
    """
    names = {"pod": _POD, "resource": spelling(resource_name), "look_back": LOOK_BACK, "seconds": "21600"}
    names["holders"] = _HOLDERS.substitute(names)
    return {name: Template(text).substitute(names) for name, text in _TEMPLATES.items()}


def lasting(query: str, window: str, *, above: bool) -> str:
    """A query whose values pass a bound only if they did all the time.

    Args:
        query: PromQL.
        window: So long, as PromQL writes it: ``5m``.
        above: The bound is passed upwards, not downwards.
    """
    return f"{'min' if above else 'max'}_over_time(({query})[{window}:])"


def spelling(resource_name: str) -> str:
    """A resource as kube-state-metrics spells it: ``nvidia_com_gpu``."""
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in resource_name)
