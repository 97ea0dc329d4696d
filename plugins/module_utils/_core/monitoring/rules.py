# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Recording rules and alerts, as Prometheus reads them from a file and prometheus-operator from a PrometheusRule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .expressions import Figures, Sources, figures
from .settings import MonitoringSettings


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: CamelCase; the runbook has a section of this name.
        expr: PromQL, with figures in angle brackets.
        pending: How long it is so before it fires; "" for at once.
        severity: ``critical`` calls somebody, ``warning`` is looked at by day.
        summary: One line, with Prometheus' own templates.
        description: What it means; ``<where>`` stands for the cluster, where it has a name.
    """

    name: str
    expr: str
    pending: str
    severity: str
    summary: str
    description: str


def rule_groups(settings: MonitoringSettings) -> dict[str, Any]:
    """A rule file: ``{"groups": […]}``, one of records and one of alerts. Same settings, same bytes."""
    found = figures(settings)
    more = {"interval": settings.interval} if settings.interval else {}
    records = [
        {
            "record": figure.record,
            "expr": found.recorded(figure.expr),
            "labels": {"resource": settings.resource_name, **figure.labels},
        }
        for figure in found.values()
    ]
    told = [_rule(alert, found, settings) for alert in alerts(settings)]
    name = f"gpuops-defrag {settings.resource_name}"
    return {"groups": [{"name": f"{name} records", **more, "rules": records}, {"name": f"{name} alerts", **more, "rules": told}]}


def _rule(alert: Alert, found: Figures, settings: MonitoringSettings) -> dict[str, Any]:
    where = "{{ with $labels.CLUSTER }} of cluster {{ . }}{{ end }}".replace("CLUSTER", settings.cluster_label)
    link = {"runbook_url": f"{settings.runbook_url}#{alert.name.lower()}"} if settings.runbook_url else {}
    return {
        "alert": alert.name,
        "expr": found.recorded(alert.expr),
        **({"for": alert.pending} if alert.pending else {}),
        "labels": {**settings.labels, "severity": alert.severity, "resource": settings.resource_name},
        "annotations": {"summary": alert.summary, "description": alert.description.replace("<where>", where), **link},
    }


def alerts(settings: MonitoringSettings) -> Iterator[Alert]:
    """The alerts. Each has a section in docs/runbooks.md."""
    c, at = f"({settings.cluster_label})", f"({settings.cluster_label}, pool)"
    yield Alert(
        "GPUFragmentationHigh",
        # Where no node has as many GPUs, tidying up wins nothing: a node of one GPU that is free is no hole.
        f"<pool_fragmentation> > {settings.fragmentation_threshold:g}\n"
        f"and on {at} (max by {at} (<node_gpus>) >= {settings.fragmentation_size})",
        settings.fragmentation_for,
        "warning",
        "GPUs of pool {{ $labels.pool }} are fragmented at size {{ $labels.size }}",
        "{{ $value | humanizePercentage }} of the nodes of pool {{ $labels.pool }}<where> have free GPUs, and fewer than "
        "{{ $labels.size }} of them.",
    )
    yield Alert(
        "GPUPodsBlocked",
        "<pool_blocked[*]> > 0",
        settings.blocked_for,
        "warning",
        "{{ $value }} pods of {{ $labels.size }} GPUs wait while pool {{ $labels.pool }} has GPUs enough, on no single node",
        "Pool {{ $labels.pool }}<where> has at least {{ $labels.size }} GPUs free in all and no node with as many. Tidying up "
        "would place pods that ask for {{ $labels.size }}, unless more than GPUs keeps them away: an audit tells of each.",
    )
    yield Alert(
        "GPUEvictionStorm",
        f"<evicted[10m]> > {settings.storm_evictions}",
        "",
        "critical",
        "{{ $value }} GPU pods of namespace {{ $labels.namespace }} were evicted within ten minutes",
        f"More than {settings.storm_evictions} GPU pods of namespace {{{{ $labels.namespace }}}}<where> left by the Eviction API "
        "within ten minutes, whoever asked for it. Until those that come in their place are Ready, so much capacity is gone.",
    )
    yield Alert(
        "GPUEvictionPingPong",
        f"""sum by {c} (<evicted[6h]>) >= {settings.ping_pong_evictions}
and on {c} (sum by {c} (<pool_stranded_now>) >= sum by {c} (<pool_stranded_now> offset 6h))
and on {c} (sum by {c} (<pool_stranded_now>) > 0)""",
        settings.fragmentation_for,
        "warning",
        "{{ $value }} GPU pods were evicted in six hours, and no GPU was won",
        "As many GPUs<where> are stranded as six hours ago. Evicted pods return to holes like those they left, or others undo "
        "what is done.",
    )
    if settings.descheduler_name:
        yield _descheduler(settings)
    yield Alert(
        "GPUTuningPaused",
        f"""max by ({settings.cluster_label}, verdict) (gpuops_run_info{{verdict=~"Paused|PausedByMetrics"}} == 1)
or
max by ({settings.cluster_label}, action) (gpuops_tune_info{{action="pause"}} == 1)""",
        settings.paused_for,
        "warning",
        "Defragmentation is paused",
        "The last run<where> came to {{ $labels.verdict }}{{ $labels.action }}: nothing is evicted until its reason is gone.",
    )
    yield _budget(settings)
    yield _blind(settings)


def _descheduler(settings: MonitoringSettings) -> Alert:
    c = f"({settings.cluster_label})"
    namespace = "exported_namespace" if "namespace" in settings.exported_labels else "namespace"
    sources = Sources(settings)

    def told(metric: str, kind: str) -> str:
        matchers = (f'{namespace}="{settings.descheduler_namespace}"', f'{kind}="{settings.descheduler_name}"')
        return f"max by {c} ({sources.raw(metric, *matchers)})"

    created = told("kube_cronjob_created", "cronjob")
    succeeded = told("kube_cronjob_status_last_successful_time", "cronjob")
    wanted = told("kube_deployment_spec_replicas", "deployment")
    available = told("kube_deployment_status_replicas_available", "deployment")
    problems = {
        "is not there": f"group by {c} (<node_gpus>) unless on {c} {created} unless on {c} {wanted}",
        "has not succeeded for too long": f"time() - ({succeeded} or {created}) > {settings.descheduler_max_age}",
        "has no pod that runs": f"({wanted} == 0) or ({wanted} > {available})",
    }
    name = f"{settings.descheduler_namespace}/{settings.descheduler_name}"
    return Alert(
        "GPUDeschedulerNotRunning",
        _any(problems),
        "15m",
        "warning",
        "The descheduler {{ $labels.problem }}",
        f"The CronJob or Deployment {name}<where> {{{{ $labels.problem }}}}. Its policy has no effect meanwhile.",
    )


def _budget(settings: MonitoringSettings) -> Alert:
    told, labels = Sources(settings), "namespace, poddisruptionbudget"
    allowed = told("kube_poddisruptionbudget_status_pod_disruptions_allowed", labels)
    expected = told("kube_poddisruptionbudget_status_expected_pods", labels)
    at = told.by("namespace")
    return Alert(
        "GPUBudgetAllowsNothing",
        f"({allowed} == 0)\nand ({expected} > 0)\nand on {at} group by {at} (<pod_gpus>)",
        settings.budget_for,
        "warning",
        "Budget {{ $labels.namespace }}/{{ $labels.poddisruptionbudget }} allows no disruption",
        "The PodDisruptionBudget {{ $labels.namespace }}/{{ $labels.poddisruptionbudget }}<where> has let none of its pods go "
        f"for {settings.budget_for}. No GPU pod that it covers can be moved.",
    )


def _blind(settings: MonitoringSettings) -> Alert:
    told, c = Sources(settings), f"({settings.cluster_label})"
    offered = told.raw("kube_node_status_allocatable", told.resource)
    # Without exported_node where it is expected every node is the same; where it is there unexpectedly, all are the exporter's.
    renamed = 'exported_node=""' if "node" in settings.exported_labels else 'exported_node!=""'
    misnamed = told.raw("kube_node_status_allocatable", told.resource, renamed)
    lately = f"group by {c} (last_over_time(<pool_nodes>[1d]))"
    problems = {
        "no node with GPUs is told of": f"absent({offered})",
        "nodes with GPUs are told of no more": f"{lately} unless on {c} group by {c} (<pool_nodes>)",
        "what pods request is not told": f"group by {c} (<node_gpus>) unless on {c} <pods_told>",
        "the labels of nodes are not those that the rules were made for": f"group by {c} ({misnamed})",
    }
    if settings.dcgm:
        problems["what GPUs do is not told by DCGM"] = f"group by {c} (<node_gpus>) unless on {c} <pool_busy>"
    return Alert(
        "GPUMonitoringBlind",
        _any(problems),
        settings.blind_for,
        "warning",
        "GPUs are not monitored: {{ $labels.problem }}",
        f"Of {settings.resource_name}<where>, {{{{ $labels.problem }}}}. Alerts that build on it are silent meanwhile, which "
        "does not mean that all is well.",
    )


def _any(problems: Mapping[str, str]) -> str:
    """Either of several things, each told in the label ``problem``."""
    return "\nor\n".join(f'label_replace({expr}, "problem", "{problem}", "", "")' for problem, expr in problems.items())
