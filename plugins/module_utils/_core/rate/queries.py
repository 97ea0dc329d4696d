# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What Prometheus is asked for unless the user says otherwise, made of the figures that are recorded too.

Of the other readings the API server knows more than any metric: which pods a PodDisruptionBudget selects, which free GPUs
a taint, a product or a lack of memory puts out of reach, and which pods are Ready at this moment, where a metric tells what was
so at the last scrape: after each wave it would take for cold what has just got Ready. They have no query here, and may be given
one.
"""

from __future__ import annotations

from ..monitoring.expressions import figures
from ..monitoring.settings import MonitoringSettings

MAY_BE_EMPTY = frozenset(("cold_start", "evictions"))
"""Readings of which nothing comes back also where all is well: no pod has started, or there is no descheduler."""


def default_queries(resource_name: str, matchers: str = "") -> dict[str, str]:
    """The queries by the name of the reading.

    Args:
        resource_name: The GPU resource, as a pod asks for it: ``nvidia.com/gpu``.
        matchers: Further matchers of the source series, as ``cluster="a"``.

    Raises:
        InputError: It is no such resource.
    """
    settings = MonitoringSettings(resource_name=resource_name, matchers=matchers)
    found = figures(settings)
    pod = f"({settings.cluster_label}, namespace, pod)"
    starts, workloads = found.inline("pod_cold_start"), found.inline("pod_workload")
    return {
        "gpu_pods": found.inline("pods"),
        "cold_start": f"({starts}) * on {pod} group_left (workload) ({workloads})",
        # The matchers may be of the one who tells of pods alone, such as its job: of the clusters that they leave.
        "evictions": f"({found.inline('descheduler_evictions')}) and on ({settings.cluster_label}) ({found.inline('pods_told')})",
    }


def lasting(query: str, window: str, *, above: bool) -> str:
    """A query whose values pass a bound only if they did all the time.

    A series that is no longer told of has none, as in an alert: of its past alone it would look well for all of the window.

    Args:
        query: PromQL.
        window: So long, as PromQL writes it: ``5m``.
        above: The bound is passed upwards, not downwards.
    """
    return f"{'min' if above else 'max'}_over_time(({query})[{window}:]) and ({query})"
