# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A Grafana dashboard over the recorded figures: the state now, its trend, each node, what runs did, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..audit.measures import HOURS_PER_MONTH
from .expressions import figures
from .settings import MonitoringSettings

WIDTH = 24
# Grafana of this schema, 10.2 and newer, reads it as it is; newer ones carry it over.
SCHEMA = 39
# Rows of the panel's units; others are 8.
HEIGHTS = {"stat": 4, "status-history": 16}
# Told apart by eyes that do not tell red from green too (Okabe and Ito), and by the numbers.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"

# What alerts have in common, and what some of them tell of.
ALERTED = "alertname, alertstate, severity, pool, size, namespace, poddisruptionbudget, problem, verdict, action"

_SELECTOR = re.compile(r"((?:node|pool|cluster|namespace|pod):gpuops_\w+(?::\w+)?)\{")
_POOLED = ("node:", "pool:")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: What it shows.
        kind: Grafana's panel type.
        queries: PromQL and the legend of each, with figures in angle brackets.
        width: Of 24 columns.
        unit: Grafana's.
        about: What the figure means.
        steps: Values from which a colour counts, with the colour; the first is for all below.
        most: The end of the scale.
        empty: What it says where there is no series.
        instant: Whether it shows now alone.
        points: How many moments it shows at most; as many as it is wide if None.
        columns: Columns of a table that get another name, or none and are left out.
        options: Grafana's, of its kind.
    """

    title: str
    kind: str
    queries: Sequence[tuple[str, str]]
    width: int = 12
    unit: str = "short"
    about: str = ""
    steps: Sequence[tuple[float, str]] = ()
    most: float | None = None
    empty: str = "unknown"
    instant: bool = False
    points: int | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def dashboard(settings: MonitoringSettings) -> dict[str, Any]:
    """The dashboard, for Grafana's HTTP API, a provisioned file or the ConfigMap of a sidecar. Same settings, same bytes.

    It asks whatever Prometheus the variable ``datasource`` is set to, and holds no id of an installation.
    """
    found = figures(settings)
    placed: list[dict[str, Any]] = []
    top = 0
    for row, panels in _rows(settings):
        placed.append(
            {
                "id": len(placed) + 1,
                "type": "row",
                "title": row,
                "collapsed": False,
                "panels": [],
                "gridPos": _at(0, top, WIDTH, 1),
            }
        )
        top, left, height = top + 1, 0, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                top, left, height = top + height, 0, 0
            place = _at(left, top, panel.width, HEIGHTS.get(panel.kind, 8))
            placed.append(_panel(panel, len(placed) + 1, place, found.recorded, settings))
            left, height = left + panel.width, max(height, place["h"])
        top += height
    return {
        # Grafana keeps one of a uid, and takes up to 40 characters.
        "uid": ("gpuops-" + re.sub("[^a-zA-Z0-9]", "-", settings.resource_name))[:40],
        "title": f"GPU fragmentation, {settings.resource_name}",
        "description": "Free GPUs that no pod can use, where they are, and what is done about it.",
        "tags": ["gpu", "kubernetes", "gpuops.defrag"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "timezone": "",
        "templating": {"list": _variables(settings)},
        "annotations": {"list": []},
        "links": [],
        "panels": placed,
    }


def queries(found: dict[str, Any]) -> list[str]:
    """Every query of a dashboard."""
    return [target["expr"] for panel in found["panels"] for target in panel.get("targets", ())]


def _at(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _variables(settings: MonitoringSettings) -> list[dict[str, Any]]:
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    nodes = figures(settings).series("pool_nodes")
    several = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
    asked = [
        {
            "name": name,
            "label": name,
            "type": "query",
            "datasource": datasource,
            "query": {"query": f"label_values({series}, {label})", "refId": name},
            "refresh": 2,
            "sort": 1,
            **several,
        }
        for name, label, series in (
            ("cluster", settings.cluster_label, nodes),
            ("pool", "pool", f'{nodes[:-1]}, {settings.cluster_label}=~"$cluster"}}'),
        )
    ]
    return [{"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus", "current": {}}, *asked]


def _panel(panel: Panel, number: int, place: dict[str, int], recorded: Any, settings: MonitoringSettings) -> dict[str, Any]:
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": datasource,
            "expr": _chosen(recorded(expr), settings.cluster_label),
            "legendFormat": legend,
            "instant": panel.instant or panel.kind == "stat",
            "range": not (panel.instant or panel.kind == "stat"),
            **({"format": "table"} if panel.kind == "table" else {}),
        }
        for index, (expr, legend) in enumerate(panel.queries)
    ]
    steps = panel.steps or ((0, BLUE),)
    # Nothing here can be below 0, and what is not known is not 0.
    shown: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "noValue": panel.empty,
        "thresholds": {"mode": "absolute", "steps": [{"color": c, "value": v if i else None} for i, (v, c) in enumerate(steps)]},
    }
    if panel.steps:
        shown["color"] = {"mode": "thresholds"}
    if panel.most is not None:
        shown["max"] = panel.most
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": datasource,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": shown, "overrides": []},
        "options": panel.options,
        **({"maxDataPoints": panel.points} if panel.points else {}),
        **({"transformations": [_organize({"Time": None, **panel.columns})]} if panel.kind == "table" else {}),
    }


def _organize(columns: Mapping[str, str | None]) -> dict[str, Any]:
    hidden = {name: True for name, other in columns.items() if other is None}
    return {"id": "organize", "options": {"excludeByName": hidden, "renameByName": {k: v for k, v in columns.items() if v}}}


def _chosen(expr: str, cluster: str) -> str:
    """A query of recorded series, of the clusters and pools that the reader has chosen."""

    def narrowed(found: re.Match[str]) -> str:
        chosen = f'{cluster}=~"$cluster", '
        if found[1].startswith(_POOLED):
            chosen += 'pool=~"$pool", '
        return f"{found[1]}{{{chosen}"

    return re.sub(
        r"\b(gpuops_(?:run|tune)_\w+|ALERTS)\{", rf'\1{{{cluster}=~"$cluster", ', _SELECTOR.sub(narrowed, expr)
    ).replace(", }", "}")


def _rows(settings: MonitoringSettings) -> Iterator[tuple[str, list[Panel]]]:
    c, pool = settings.cluster_label, f"{{{{{settings.cluster_label}}}}} {{{{pool}}}}"
    k, threshold = settings.fragmentation_size, settings.fragmentation_threshold
    used, usable = "(sum(<pool_gpus>) - sum(<pool_free>))", "(sum(<pool_gpus>) - sum(<pool_free>) - sum(<pool_stranded_now>))"
    calm = ((0, BLUE), (1, ORANGE))
    resource = f'resource="{settings.resource_name}"'
    yield (
        "Now",
        [
            Panel("Free GPUs", "stat", [("sum(<pool_free>)", "")], 4, about="Allocatable less what active pods request."),
            Panel(
                "Stranded GPUs",
                "stat",
                [("sum(<pool_stranded_now>)", "")],
                4,
                about="Free GPUs that no slot of the largest usual request uses.",
                steps=calm,
            ),
            Panel(
                "Utilization",
                "stat",
                [(f"{used} / sum(<pool_gpus>)", "requested"), (f"clamp_min({usable}, 0) / sum(<pool_gpus>)", "schedulable")],
                5,
                "percentunit",
                "What is between the two is lost to fragmentation.",
            ),
            Panel(
                f"Fragmentation rate at {k}",
                "stat",
                [("sum(<pool_fragmentation> * ignoring (size) <pool_nodes>) / sum(<pool_nodes>)", "")],
                4,
                "percentunit",
                f"Nodes with some but fewer than {k} free GPUs.",
                ((0, BLUE), (threshold, ORANGE)),
            ),
            Panel(
                "Blocked pods",
                "stat",
                [("sum(<blocked_pods>)", "pods"), ("sum(<blocked_gpus>)", "GPUs")],
                4,
                about="They wait while their GPUs are free, on no single node.",
                steps=calm,
            ),
            Panel("Nodes to give back", "stat", [("sum(<pool_reclaimable>)", "")], 3, about="They hold nothing of their own."),
            Panel(
                "Alerts",
                "table",
                [(f"max by ({c}, {ALERTED}) (ALERTS{{{resource}}})", "")],
                WIDTH,
                about="One that is pending fires if it lasts. With GPUMonitoringBlind, that others are not here means nothing.",
                empty="none",
                instant=True,
                columns={"Value": None},
            ),
        ],
    )
    yield (
        "Pools",
        [
            Panel("Free GPUs", "bargauge", [("<pool_free>", pool)], 8, instant=True),
            Panel("Stranded GPUs", "bargauge", [("<pool_stranded_now>", pool)], 8, steps=calm, instant=True),
            Panel("Slots left by size", "bargauge", [("sum by (size) (<pool_slots[*]>)", "{{size}} GPUs")], 8, instant=True),
        ],
    )
    yield (
        "Trend",
        [
            Panel(
                "Utilization",
                "timeseries",
                [(f"{used} / sum(<pool_gpus>)", "requested"), (f"clamp_min({usable}, 0) / sum(<pool_gpus>)", "schedulable")],
                unit="percentunit",
                most=1,
            ),
            Panel("Fragmentation rate", "timeseries", [("<pool_fragmentation>", pool)], unit="percentunit", most=1),
            Panel("Stranded GPUs by size", "timeseries", [("sum by (size) (<pool_stranded[*]>)", "{{size}} GPUs")]),
            Panel("Blocked pods", "timeseries", [("sum(<blocked_pods>)", "pods"), ("sum(<blocked_gpus>)", "GPUs they ask for")]),
        ],
    )
    shades = {0: "#08306B", 1: ORANGE, k: "#6BAED6", max(k, *settings.sizes): "#DEEBF7"}
    yield (
        "Nodes",
        [
            Panel(
                "Free GPUs of each node",
                "status-history",
                [("<node_free>", f"{{{{{c}}}}} {{{{node}}}}")],
                WIDTH,
                about=f"A row for each node: dark where none is free, the paler the more, orange where fewer than {k} are.",
                steps=sorted(shades.items()),
                # It shows no row at all where a moment would have less than two pixels.
                points=120,
                options={"showValue": "auto", "rowHeight": 0.9, "colWidth": 0.95, "perPage": 50, "legend": {"showLegend": False}},
            ),
        ],
    )
    if settings.dcgm:
        yield (
            "Use",
            [
                Panel(
                    "GPUs at work and GPUs requested",
                    "timeseries",
                    [("<pool_busy>", f"{pool}, at work"), ("<pool_utilization>", f"{pool}, requested")],
                    unit="percentunit",
                    about="By DCGM: the share of the time in which something runs on them.",
                    most=1,
                ),
                Panel(
                    "Pods that use their GPUs least",
                    "bargauge",
                    [("bottomk(10, <pod_busy>)", "{{namespace}}/{{pod}}")],
                    unit="percentunit",
                    about="A GPU that several pods share counts for one of them.",
                    most=1,
                    instant=True,
                ),
            ],
        )
    ended = f"max by ({c}, verdict) (gpuops_run_info{{}})"
    since = f"(time() - max by ({c}) (gpuops_run_timestamp_seconds{{}}))"
    yield (
        "What runs did",
        [
            Panel(
                "Last run",
                "table",
                [(f"{ended} * on ({c}) group_left () {since}", "")],
                8,
                "s",
                about="How it ended, and how long ago. The collection tells it where metrics_file or pushgateway_url is set.",
                empty="not told",
                instant=True,
                columns={"Value": "ago"},
            ),
            Panel(
                "Last decision on the rate",
                "table",
                [(f"max by ({c}, action) (gpuops_tune_info{{}})", "")],
                8,
                about="By the playbook tune, or a run with limits=tuned.",
                empty="not told",
                instant=True,
                columns={"Value": None},
            ),
            Panel(
                "Pods that may be evicted in a cycle",
                "timeseries",
                [(f'max by ({c}, limit) (gpuops_tune_limit{{limit!="interval_seconds"}})', f"{{{{{c}}}}} {{{{limit}}}}")],
                8,
                about="The limits that were decided on; total is for all of them.",
            ),
            Panel("Pods of the last run", "bargauge", [("sum by (outcome) (gpuops_run_pods{})", "{{outcome}}")], 8, instant=True),
            Panel(
                "Freed nodes, planned and realised",
                "bargauge",
                [("sum by (of) (gpuops_run_freed_nodes{})", "{{of}}")],
                8,
                instant=True,
            ),
            Panel(
                "Slots gained, planned and realised",
                "bargauge",
                [("sum by (of, size) (gpuops_run_slots_gained{})", "{{of}}, {{size}} GPUs")],
                8,
                instant=True,
            ),
            Panel(
                "GPU pods evicted in an hour",
                "timeseries",
                [("sum by (namespace) (<evicted[1h]>)", "{{namespace}}"), ("sum(<descheduler_evictions>)", "by the descheduler")],
                about="By the Eviction API, whoever asked for it.",
                empty="none seen",
            ),
            Panel("Strays of the last run", "timeseries", [('sum(gpuops_run_pods{outcome="stray"})', "strays")]),
        ],
    )
    yield (
        "Services",
        [
            Panel(
                "Cold start",
                "timeseries",
                [(f"max(<cold_start[{quantile}]>)", f"p{round(100 * quantile)}") for quantile in (0.5, 0.9)],
                unit="s",
                about="From being scheduled to being Ready for the first time.",
            ),
            Panel("GPU pods that are not Ready", "timeseries", [("sum(<pods_not_ready>)", "not Ready"), ("sum(<pods>)", "all")]),
        ],
    )
    if settings.gpu_hour_price is not None:
        monthly = f"{settings.gpu_hour_price * HOURS_PER_MONTH:g}"
        yield (
            "Cost",
            [
                Panel(
                    f"Stranded GPUs, {settings.currency} a month",
                    "timeseries",
                    [(f"sum by (pool) (<pool_stranded_now>) * {monthly}", "{{pool}}")],
                    WIDTH,
                    about=f"At {settings.gpu_hour_price:g} {settings.currency} a GPU and hour, {HOURS_PER_MONTH} hours a month.",
                )
            ],
        )
