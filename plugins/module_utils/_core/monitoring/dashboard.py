# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A Grafana dashboard over the recorded figures: the state now, its trend, each node, what runs did, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..audit.measures import HOURS_PER_MONTH
from .expressions import figures
from .settings import MonitoringSettings

WIDTH = 24
# Grafana of this schema, 10.2 and newer, reads it as it is; newer ones carry it over.
SCHEMA = 39
# Told apart by eyes that do not tell red from green too (Okabe and Ito), and by the numbers.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"

_SELECTOR = re.compile(r"((?:node|pool|cluster|namespace|workload):gpuops_\w+(?::\w+)?)\{")
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
    """

    title: str
    kind: str
    queries: Sequence[tuple[str, str]]
    width: int = 12
    unit: str = "short"
    about: str = ""
    steps: Sequence[tuple[float, str]] = ()
    most: float | None = None
    instant: bool = False
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
                top, left = top + height, 0
            height = 4 if panel.kind == "stat" else 8
            placed.append(_panel(panel, len(placed) + 1, _at(left, top, panel.width, height), found.recorded, settings))
            left += panel.width
        top += height
    return {
        "uid": "gpuops-defrag",
        "title": "GPU fragmentation",
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
    coloured: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": [{"color": c, "value": v if i else None} for i, (v, c) in enumerate(steps)]},
    }
    if panel.steps:
        coloured["color"] = {"mode": "thresholds"}
    if panel.most is not None:
        coloured |= {"min": 0, "max": panel.most}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": datasource,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": coloured, "overrides": []},
        "options": panel.options,
    }


def _chosen(expr: str, cluster: str) -> str:
    """A query of recorded series, of the clusters and pools that the reader has chosen."""

    def narrowed(found: re.Match[str]) -> str:
        chosen = f'{cluster}=~"$cluster", '
        if found[1].startswith(_POOLED):
            chosen += 'pool=~"$pool", '
        return f"{found[1]}{{{chosen}"

    return re.sub(r"\b(gpuops_(?:run|tune)_\w+)\{", rf'\1{{{cluster}=~"$cluster", ', _SELECTOR.sub(narrowed, expr)).replace(
        ", }", "}"
    )


def _rows(settings: MonitoringSettings) -> Iterator[tuple[str, list[Panel]]]:
    c = settings.cluster_label
    k, threshold = settings.fragmentation_size, settings.fragmentation_threshold
    used, usable = "(sum(<pool_gpus>) - sum(<pool_free>))", "(sum(<pool_gpus>) - sum(<pool_free>) - sum(<pool_stranded_now>))"
    calm = ((0, BLUE), (1, ORANGE))
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
        ],
    )
    yield (
        "Pools",
        [
            Panel("Free GPUs", "bargauge", [("<pool_free>", "{{pool}}")], 8, instant=True),
            Panel("Stranded GPUs", "bargauge", [("<pool_stranded_now>", "{{pool}}")], 8, steps=calm, instant=True),
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
            Panel("Fragmentation rate", "timeseries", [("<pool_fragmentation>", "{{pool}}")], unit="percentunit", most=1),
            Panel("Stranded GPUs by size", "timeseries", [("sum by (size) (<pool_stranded[*]>)", "{{size}} GPUs")]),
            Panel("Blocked pods", "timeseries", [("sum(<blocked_pods>)", "pods"), ("sum(<blocked_gpus>)", "GPUs they ask for")]),
        ],
    )
    yield (
        "Nodes",
        [
            Panel(
                "Free GPUs of each node",
                "status-history",
                [("<node_free>", "{{node}}")],
                WIDTH,
                about="A row for each node, the darker the more is free.",
                steps=((0, "#08306B"), (1, "#E69F00"), (k, "#6BAED6"), (max(settings.sizes), "#DEEBF7")),
                options={"showValue": "auto", "rowHeight": 0.9, "colWidth": 0.95, "legend": {"showLegend": False}},
            ),
        ],
    )
    yield (
        "What runs did",
        [
            Panel(
                "Last run",
                "table",
                [(f"max by ({c}, verdict) (gpuops_run_info{{}})", "")],
                8,
                about="How it ended. The collection tells it where metrics_file or pushgateway_url is set.",
                instant=True,
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
                "GPU pods evicted in an hour",
                "timeseries",
                [("sum by (namespace) (<evicted[1h]>)", "{{namespace}}"), ("sum(<descheduler_evictions>)", "by the descheduler")],
                about="By the Eviction API, whoever asked for it.",
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
