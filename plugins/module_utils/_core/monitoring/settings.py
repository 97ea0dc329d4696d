# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What rules, alerts and dashboards are made for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cluster.pools import PRODUCT_LABELS
from ..errors import InputError
from ..settings import read_settings

SOURCES = ("kube_state_metrics", "kube_scheduler")
RENAMED = ("namespace", "pod", "container", "node")

_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_DURATION = re.compile(r"([0-9]+(ms|[smhdwy]))+")


@dataclass(frozen=True, slots=True)
class MonitoringSettings:
    """What is measured, and what is too much.

    Attributes:
        resource_name: The GPU resource, as Kubernetes spells it.
        sizes: Request sizes whose slots and stranded GPUs are recorded. Blocked pods are looked for up to the largest.
        fragmentation_size: The k of the fragmentation rate.
        slot_size: The size that stranded GPUs count at; None for the largest request that some node could hold, as in an audit.
        requests_from: Who tells what pods request: kube-state-metrics by container, or kube-scheduler by pod, which is exact.
        cluster_label: Label that tells clusters apart; where series have none, all are one.
        exported_labels: Labels that reach Prometheus as ``exported_…``, since the scrape has its own of the name.
        product_labels: Node labels that name a GPU product, the first found counts. kube-state-metrics tells them where
            ``--metric-labels-allowlist=nodes=[…]`` has them; without them all nodes are one pool.
        matchers: Further matchers of the source series, as ``job="kube-state-metrics"``.
        dcgm: Whether DCGM's exporter tells what GPUs do, and rules and dashboard are to have it.
        interval: Between evaluations; "" for Prometheus' own.
        fragmentation_threshold: Share of a pool's nodes from which its fragmentation is high.
        fragmentation_for, blocked_for, paused_for, budget_for, blind_for: How long it is so before the alert fires.
        storm_evictions: More GPU pods of one namespace evicted within ten minutes are a storm.
        ping_pong_evictions: So many GPU pods evicted within six hours and no GPU won are ping-pong.
        cold_start_window: Pods that were scheduled within it tell how long a start takes.
        descheduler_namespace, descheduler_name: Its CronJob or Deployment; without a name none is expected.
        descheduler_max_age: Seconds since its last success from which it counts as not running.
        runbook_url: Where the runbooks are, a page whose sections bear the names of the alerts; "" for no links.
        labels: Labels of every alert besides its severity, such as a team.
        gpu_hour_price, currency: What a dashboard prices stranded GPUs at; None for no price.
    """

    resource_name: str = "nvidia.com/gpu"
    sizes: Sequence[int] = (1, 2, 4, 8)
    fragmentation_size: int = 2
    slot_size: int | None = None
    requests_from: str = "kube_state_metrics"
    cluster_label: str = "cluster"
    exported_labels: Sequence[str] = ()
    product_labels: Sequence[str] = PRODUCT_LABELS
    matchers: str = ""
    dcgm: bool = False
    interval: str = ""
    fragmentation_threshold: float = 0.3
    fragmentation_for: str = "30m"
    blocked_for: str = "15m"
    storm_evictions: int = 5
    ping_pong_evictions: int = 20
    paused_for: str = "30m"
    budget_for: str = "1h"
    blind_for: str = "15m"
    cold_start_window: str = "1d"
    descheduler_namespace: str = "kube-system"
    descheduler_name: str = "descheduler"
    descheduler_max_age: int = 3600
    runbook_url: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_hour_price: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        """Refuse what no rule could be made of.

        Raises:
            InputError: It names the setting.
        """
        if not _RESOURCE.fullmatch(self.resource_name):
            raise InputError(f"is {self.resource_name!r}; it is a GPU resource such as nvidia.com/gpu", field="resource_name")
        if self.requests_from not in SOURCES:
            raise InputError(f"is {self.requests_from!r}; there are {', '.join(SOURCES)}", field="requests_from")
        if self.dcgm and self.resource_name != "nvidia.com/gpu":
            raise InputError(f"tells of nvidia.com/gpu, and resource_name is {self.resource_name}; leave it off", field="dcgm")
        if unknown := sorted(set(self.exported_labels) - set(RENAMED)):
            raise InputError(f"has {unknown[0]!r}; there are {', '.join(RENAMED)}", field="exported_labels")
        if not self.sizes:
            raise InputError("is empty; name at least one size, such as 8", field="sizes")
        for name in [self.cluster_label, *self.labels]:
            if not _LABEL.fullmatch(name):
                raise InputError(
                    f"{name!r} is no name of a label", field="cluster_label" if name == self.cluster_label else "labels"
                )
        sizes = {f"sizes[{index}]": size for index, size in enumerate(self.sizes)}
        sizes |= {name: getattr(self, name) for name in ("fragmentation_size", "slot_size")}
        sizes |= {name: getattr(self, name) for name in ("storm_evictions", "ping_pong_evictions", "descheduler_max_age")}
        for name, number in sizes.items():
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
                raise InputError(f"is {number!r}; it is a whole number of at least 1", field=name)
        for name in ("fragmentation_threshold", "gpu_hour_price"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < math.inf:
                raise InputError(f"is {share!r}; it cannot be below 0 or infinite", field=name)
        durations = ["fragmentation_for", "blocked_for", "paused_for", "budget_for", "blind_for", "cold_start_window"]
        for name in [*durations, *(["interval"] if self.interval else [])]:
            if not _DURATION.fullmatch(getattr(self, name)):
                raise InputError(f"is {getattr(self, name)!r}; Prometheus writes durations as 90s, 15m or 1h30m", field=name)


def settings_of(given: Any) -> MonitoringSettings:
    """Settings of a mapping by the names of MonitoringSettings; null is as if not given.

    Raises:
        InputError: A setting is unknown, or makes no sense.
    """
    return read_settings(MonitoringSettings, given)
