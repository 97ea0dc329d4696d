# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a plan comes to, in a word and in a sentence; and what holds the nodes that give nothing."""

from __future__ import annotations

from ..audit.measures import Fragmentation
from .search import Found, Search


def verdict_of(search: Search, found: Found, before: Fragmentation, freed: int, waves: int) -> tuple[str, str]:
    """The verdict, and in a sentence what it means here."""
    wish = search.wish
    if not before.total.nodes:
        return "NotApplicable", before.unsuited[0].message
    if not before.mix:
        return "NotApplicable", "no pod asks for GPUs"
    if not found.steps and not found.wanted:
        return _why_none(search, before)
    if freed < wish.min_nodes_freed:
        return "BelowGoal", f"the plan frees {_nodes(freed)}, fewer than the {wish.min_nodes_freed} that make it worth while"
    what = {
        "slots": f"gain {found.gained} slot{'s' if found.gained != 1 else ''} of {wish.slot_size} GPUs",
        "free_nodes": f"free {_nodes(freed)}",
        "blocked_pods": f"make room for {len(found.wanted)} of {len(before.blocked)} blocked pods",
    }[wish.kind]
    short = ""
    if wish.kind != "blocked_pods" and wish.count is not None and found.gained < wish.count:
        short = f"; {wish.count} were wished, no more were found"
    evictions = f"{len(found.steps)} eviction{'s' if len(found.steps) != 1 else ''} in {waves} wave{'s' if waves != 1 else ''}"
    return "Recommended", f"{evictions} {what}{short}"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _why_none(search: Search, before: Fragmentation) -> tuple[str, str]:
    wish = search.wish
    within = "" if wish.max_evictions is None else f" within {wish.max_evictions} evictions (max_evictions)"
    if wish.kind == "blocked_pods":
        if not before.blocked:
            return "NoFragmentation", "no pod is blocked"
        return "Blocked", f"no moves make room for any of the {len(before.blocked)} blocked pods{within}"
    if wish.kind == "slots":
        lost = sum(node.free % wish.slot_size for node in search.found.nodes)
        if lost < wish.slot_size:
            return "NoFragmentation", f"{lost} GPUs lie outside slots of {wish.slot_size}: too few for one more"
    elif not any(node.allocated and node.free for node in search.found.nodes):
        return "NoFragmentation", "every node is full or empty"
    staying_pods = sum(id(pod) in search.stays for node in search.found.nodes for pod in node.pods)
    pods = sum(len(node.pods) for node in search.found.nodes)
    why = f"{staying_pods} of {pods} GPU pods must stay" if staying_pods else "what would have to move finds no room elsewhere"
    return "Blocked", f"nothing can be gained{within}: {why}"


def held_nodes(search: Search, freed: set[str]) -> list[tuple[str, str]]:
    """Nodes with some GPUs free that give none of their pods, and what holds them."""
    found = []
    for node in search.found.nodes:
        if node.node.name in freed or not node.free or not node.allocated:
            continue
        held = [(pod, search.stays[id(pod)]) for pod in node.pods if id(pod) in search.stays]
        if held:
            pod, stay = held[0]
            more = f"; {len(held) - 1} more of its pods stay too" if len(held) > 1 else ""
            found.append((node.node.name, f"{pod} stays: {stay.detail}{more}"))
    return found
