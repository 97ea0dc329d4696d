# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Nodes x GPUs: one row per node, one cell per GPU, grouped by pool, the most stranded first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .markup import section, text
from .words import broken, count, gpus_of, number, shorten, worst_first, worst_pools

Node = Mapping[str, Any]

EVERY_NODE = 1500  # up to this many nodes each gets its row; above, each pool shows its worst
WORST = 24
OPEN = 60  # rows of a pool that are open at once
MOST_COLUMNS = 17  # of a histogram; a node with more GPUs shares columns
MOST_BESIDE = 16  # GPUs; a row with more wraps
MOST_DRAWN = 128  # GPUs; a node with more is told in words
LONGEST_NAME = 32
ENOUGH_FOR_HISTOGRAM = 8
TALLEST = 40  # pixels

KINDS = """<li><span class="gpus"><b><i>1</i></b></span>a 1-GPU pod</li>
<li><span class="gpus"><b class="p2"><i>2</i><i></i></b></span>a 2-GPU pod</li>
<li><span class="gpus"><b class="p4"><i>4</i><i></i><i></i><i></i></b></span>a 4-GPU pod</li>
<li><span class="gpus"><b class="p8"><i>8</i><i></i></b></span>8 or more</li>
<li><span class="gpus"><i class="f"></i></span>free, part of a slot</li>
<li><span class="gpus"><i class="s"></i></span>free, stranded</li>
"""
LEGEND = f'<ul class="key">\n{KINDS}<li><span class="gpus"><i class="u"></i></span>unhealthy</li>\n</ul>\n'


def heatmap(result: Mapping[str, Any]) -> str:
    """The section of the map; empty without details or nodes."""
    nodes = result.get("details", {}).get("nodes", [])
    if not nodes:
        return ""
    every = len(nodes) <= EVERY_NODE
    about = (
        "One row for each node, one cell for each GPU; cells that hang together are one pod. Point at a pod for its name."
        if every
        else f"How many nodes have how many GPUs free, and the {WORST} nodes of each pool that strand most."
    )
    members: dict[str, list[Node]] = {pool["name"]: [] for pool in worst_pools(result)}
    for node in worst_first(nodes):
        members[node["pool"]].append(node)
    groups = (_pool(name, members[name], broken(result), every) for name in members)
    return section("Nodes and their GPUs", about, LEGEND, *groups)


def _pool(name: str, nodes: Sequence[Node], sick: Mapping[str, int], every: bool) -> str:
    shown = nodes if every else nodes[:WORST]
    widest = min(MOST_BESIDE, max(gpus_of(node, sick.get(node["node"], 0)) for node in nodes))
    rows = [_row(node, sick.get(node["node"], 0)) for node in shown]
    lost = sum(node["stranded"] for node in nodes)
    says = f"{count(len(nodes), 'node')}, {count(sum(node['gpus'] for node in nodes), 'GPU')}, {number(lost)} stranded"
    name_width = min(LONGEST_NAME, max(len(node["node"]) for node in nodes))
    says_width = 142 if any(_state(node) for node in nodes) else 84
    histogram = _histogram(nodes) if len(nodes) >= ENOUGH_FOR_HISTOGRAM else ""
    folded = f"<details><summary>{number(len(rows) - OPEN)} more nodes</summary>{_list(rows[OPEN:])}</details>"
    return (
        f'<div class="pool" style="--gpus:{widest};--name:{name_width};--says:{says_width}px">\n'
        f'<header><div><h3>{text(name)}</h3><p class="dim">{says}</p></div>{histogram}</header>\n'
        f"{_list(rows[:OPEN])}{folded if len(rows) > OPEN else ''}</div>\n"
    )


def _list(rows: Iterable[str]) -> str:
    return f'<ul class="map">\n{"".join(rows)}</ul>\n'


def _row(node: Node, sick: int) -> str:
    lost = node["stranded"]
    return (
        f'<li><span class="name" title="{text(node["node"])}">{text(shorten(node["node"], LONGEST_NAME))}</span>'
        f'<span class="gpus">{_cells(node, lost, sick)}</span>{_says(node, lost)}</li>\n'
    )


def _cells(node: Node, lost: int, sick: int) -> str:
    total = gpus_of(node, sick)
    if total > MOST_DRAWN:
        return f"{number(node['allocated'])} of {number(total)} used"
    pods = "".join(pod_cells(holder, _more_of(holder)) for holder in sorted(node["holders"], key=largest_first))
    dead: str = '<i class="u"></i>' * (total - node["allocated"] - node["free"])
    return pods + free_cells(node["free"], lost) + dead


def largest_first(holder: Mapping[str, Any]) -> tuple[int, str, str]:
    """The order of a node's pods."""
    return (-holder["gpus"], holder["namespace"], holder["pod"])


def pod_cells(holder: Mapping[str, Any], more: str, *, marked: bool = False) -> str:
    """The GPUs of one pod, that hang together; pointed at, it tells its name, its GPUs and ``more``."""
    gpus = holder["gpus"]
    shades = [f"p{least}" for least in (8, 4, 2) if gpus >= least][:1] + ["moves"] * marked
    style = f' class="{" ".join(shades)}"' if shades else ""
    title = text(f"{holder['namespace']}/{holder['pod']}: {count(gpus, 'GPU')}{more}")
    return f'<b{style} title="{title}"><i>{gpus}</i>{"<i></i>" * (gpus - 1)}</b>'


def free_cells(free: int, lost: int) -> str:
    """The free GPUs of a node, the stranded ones among them last."""
    return '<i class="f"></i>' * (free - lost) + '<i class="s"></i>' * lost


def _more_of(holder: Mapping[str, Any]) -> str:
    owner = f", of {holder['owner']}" if holder["owner"] else ""
    return f"{owner}, terminating" if holder["terminating"] else owner


def _says(node: Node, lost: int) -> str:
    state = _state(node)
    if lost:
        words = f'<span class="lost">{number(lost)} stranded</span>'
    else:
        words = f"{number(node['free'])} free" if node["free"] else "" if state else "full"
    return f'<span class="says dim">{words}{" " if words and state else ""}{text(state)}</span>'


def _state(node: Node) -> str:
    """What keeps pods away from a node, if anything does."""
    return {"Cordoned": "cordoned", "NotReady": "not ready", "Unhealthy": "unhealthy"}.get(node["state"], "")


def _histogram(nodes: Sequence[Node]) -> str:
    """Nodes by free GPUs, as columns; in each, the nodes that strand some of them on top."""
    most = max(node["free"] for node in nodes)
    step = most // MOST_COLUMNS + 1
    stranding = Counter(node["free"] // step for node in nodes if node["stranded"])
    others = Counter(node["free"] // step for node in nodes if not node["stranded"])
    scale = TALLEST / max((stranding + others).values())
    columns = []
    for place in range(most // step + 1):
        low, high = place * step, (place + 1) * step - 1
        blocks = (("lost", stranding[place]), ("used" if high == 0 else "usable", others[place]))
        drawn = "".join(f'<i class="is-{kind}" style="height:{round(scale * n)}px"></i>' for kind, n in blocks if n)
        above = number(stranding[place] + others[place]) if drawn else ""
        columns.append(f"<li>{above}{drawn}<b>{low if low == high else f'{low}-{high}'}</b></li>")
    return f'<ul class="histogram">{"".join(columns)}<li class="unit">GPUs free on a node</li></ul>'
