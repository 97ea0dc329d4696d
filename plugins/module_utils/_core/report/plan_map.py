# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Nodes x GPUs before and after a plan, side by side: what changes is open, what stays as it is folded away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .heatmap import EVERY_NODE, KINDS, LONGEST_NAME, MOST_BESIDE, MOST_DRAWN, OPEN, free_cells, largest_first, pod_cells
from .markup import section, text
from .words import count, number, shorten

Node = Mapping[str, Any]
Holder = Mapping[str, Any]

MOST_CHANGED = 400  # nodes that are drawn twice

MOVES = '<li><span class="gpus"><b class="p2 moves"><i>2</i><i></i></b></span>edged: a pod that moves, or gets its place</li>\n'


def plan_map(plan: Mapping[str, Any]) -> str:
    """The section of the map; empty without details or nodes."""
    nodes = plan.get("details", {}).get("nodes", [])
    if not nodes:
        return ""
    drawing = _Drawing(plan)
    changed = sorted(filter(_changes, nodes), key=drawing.order)
    title = "Before and after" if changed else "Nodes and their GPUs"
    about = "One row for each node, one cell for each GPU; cells that hang together are one pod. Point at a pod for its name."
    if changed:
        about = f"Each node that changes, before and after: the freed ones first. {about}"
    if len(changed) > MOST_CHANGED:
        about += f" The first {MOST_CHANGED} of {number(len(changed))} that change are shown."
    legend = f'<ul class="key">\n{KINDS}{MOVES if changed else ""}</ul>\n'
    shown = {node["node"] for node in changed[:MOST_CHANGED]}
    pools = sorted({node["pool"] for node in nodes}, key=lambda pool: (-sum(n["pool"] == pool for n in changed), pool))
    groups = []
    for pool in pools:
        members = sorted((node for node in nodes if node["pool"] == pool), key=drawing.order)
        groups.append(_pool(drawing, pool, members, shown, len(nodes) <= EVERY_NODE, opened=not changed))
    return section(title, about, legend, *groups)


def _changes(node: Node) -> bool:
    before, after = ({(holder["namespace"], holder["pod"]) for holder in node[when]} for when in ("before", "after"))
    return before != after


class _Drawing:
    """What a row needs to know of the plan."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        objective = plan["objective"]
        self._slot: int | None = objective["slot_size"] if objective["kind"] == "slots" else None
        self._freed = set(plan["freed_nodes"])
        moves = [move for wave in plan["waves"] for move in wave]
        self._leaves = {(move["namespace"], move["pod"], move["from"]): move["to"] for move in moves}
        self._comes = {(move["namespace"], move["pod"], move["to"]): move["from"] for move in moves}
        self._placed = {(pod["namespace"], pod["pod"], pod["node"]) for pod in plan["placed_pods"]}

    def order(self, node: Node) -> tuple[bool, int, str]:
        """Freed nodes first, then those that gain most."""
        return (node["node"] not in self._freed, node["free_before"] - node["free_after"], node["node"])

    def pair(self, node: Node) -> str:
        """A node before and after."""
        before, after = (self._cells(node, when) for when in ("before", "after"))
        freed, free = self.words(node)
        return (
            f'<li>{_name(node)}<span class="gpus">{before}</span><span aria-hidden="true">→</span>'
            f'<span class="gpus">{after}</span><span class="says dim">{f"<b>{freed}</b>" if freed else ""}{free}</span></li>\n'
        )

    def words(self, node: Node) -> tuple[str, str]:
        """What is said of a node that changes: whether it is freed, and its free GPUs."""
        free = f"{number(node['free_before'])} → {number(node['free_after'])} free"
        return ("freed", f", {free}") if node["node"] in self._freed else ("", free)

    def single(self, node: Node) -> str:
        """A node that stays as it is."""
        free = node["free_before"]
        words = f"{number(free)} free" if free else "full"
        cells = self._cells(node, "before")
        return f'<li>{_name(node)}<span class="gpus">{cells}</span><span class="says dim">{words}</span></li>\n'

    def _cells(self, node: Node, when: str) -> str:
        holders, free, gpus = node[when], node[f"free_{when}"], node["gpus"]
        used = sum(holder["gpus"] for holder in holders)
        if max(gpus, used + free) > MOST_DRAWN:
            return f"{number(used)} of {number(gpus)} used"
        lost = free % min(self._slot or gpus, gpus) if gpus else free
        pods = (self._pod(node["node"], holder, when) for holder in sorted(holders, key=largest_first))
        return "".join(pods) + free_cells(free, lost)

    def _pod(self, node: str, holder: Holder, when: str) -> str:
        key = (holder["namespace"], holder["pod"], node)
        words = ""
        if when == "before" and key in self._leaves:
            words = f", moves to {self._leaves[key]}"
        elif when == "after" and key in self._comes:
            words = f", comes from {self._comes[key]}"
        elif when == "after" and key in self._placed:
            words = ", waited and gets its place"
        return pod_cells(holder, words, marked=bool(words))


def _pool(drawing: _Drawing, pool: str, members: list[Node], shown: set[str], every: bool, *, opened: bool) -> str:
    changed = [node for node in members if _changes(node)]
    same = [node for node in members if not _changes(node)]
    rows = [node for node in changed if node["node"] in shown]
    widest = min(MOST_BESIDE, max(max(node["gpus"], 1) for node in members))
    name_width = min(LONGEST_NAME, max(len(node["node"]) for node in members))
    says_width = 40 + 7 * max((len("".join(drawing.words(node))) for node in rows), default=0)
    many, verb = number(len(changed)) if changed else "none", "change" if len(changed) > 1 else "changes"
    says = f"{count(len(members), 'node')}, {many} of them {verb}"
    stays = f"{count(len(same), 'node')} {'stays as it is' if len(same) == 1 else 'stay as they are'}"
    lists = [_list(drawing.pair, rows[:OPEN])] if rows else []
    if len(rows) > OPEN:
        lists.append(_details(f"{number(len(rows) - OPEN)} more that change", _list(drawing.pair, rows[OPEN:])))
    if same and every:
        listed = f'<div style="--times:1;--says:64px">{_list(drawing.single, same)}</div>'
        lists.append(_details(stays, listed, opened=opened))
    elif same:
        lists.append(f'<p class="dim">{stays}; the JSON result has them.</p>\n')
    return (
        f'<div class="pool" style="--gpus:{widest};--name:{name_width};--times:2;--says:{says_width}px">\n'
        f'<header><div><h3>{text(pool)}</h3><p class="dim">{says}</p></div></header>\n{"".join(lists)}</div>\n'
    )


def _details(summary: str, inside: str, *, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{inside}</details>\n"


def _list(draw: Callable[[Node], str], nodes: Iterable[Node]) -> str:
    return f'<ul class="map">\n{"".join(map(draw, nodes))}</ul>\n'


def _name(node: Node) -> str:
    return f'<span class="name" title="{text(node["node"])}">{text(shorten(node["node"], LONGEST_NAME))}</span>'
