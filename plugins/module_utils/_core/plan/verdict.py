# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a plan comes to, in a word and in a sentence; why pods stay, and what holds the nodes that give nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from ..audit.measures import Fragmentation
from ..cluster.layout import Layout
from ..cluster.pools import GpuNode
from ..kube.model import Pod
from .destinations import Destinations, Refusals, by_count, nowhere
from .evictable import Reason, Stay
from .schedule import PodMove
from .search import Found, Search
from .unplaced import Unplaced


@dataclass(frozen=True, slots=True)
class Why:
    """Why what stays stays.

    Attributes:
        stays: By ``id()``, the pods that must stay, and those that nothing takes.
        refusals: What nodes have against the latter, over all of them.
        unplaced: The blocked pods that get no room.
    """

    stays: dict[int, Stay]
    refusals: Refusals
    unplaced: list[Unplaced]


def why(search: Search, layout: Layout, steps: Collection[PodMove], unplaced: list[Unplaced]) -> Why:
    """Why pods stay.

    Args:
        search: The search that is over.
        layout: Who is where once the plan is carried out.
        steps: Its moves.
        unplaced: The blocked pods that get no room.
    """
    stays = dict(search.stays)
    moved = {id(step.pod) for step in steps}
    refusals: Refusals = Counter()
    # Where no moves were looked for no pod had to go anywhere.
    if search.problem:
        problem = search.problem
        nodes, across = search.found.nodes, search.wish.across_products
        for pod, told in Destinations(problem, layout, nodes, search.resource, across_products=across).missing(moved):
            stays[id(pod)] = nowhere(told)
            refusals += told
    for gang, members in search.staying.gangs.items():
        left = sorted((pod for pod in members if id(pod) not in moved), key=str)
        stuck = next((pod for pod in left if id(pod) in stays), None)
        if stuck:
            held = Stay(Reason.GANG, f"{gang} moves whole or not at all, and {stuck} stays: {stays[id(stuck)].detail}")
        elif any(id(pod) in search.settled for pod in left):
            held = Stay(Reason.GANG, f"{gang} moves whole or not at all, and no places were found for its {len(members)} pods")
        else:
            continue
        for pod in left:
            stays.setdefault(id(pod), held)
    return Why(stays, refusals, unplaced)


def holders(search: Search, node: GpuNode) -> list[Pod]:
    """The pods that would have to leave a node for it to be of use: those with GPUs, or all if whole nodes are wished."""
    if search.wish.kind != "free_nodes":
        return node.pods
    return [pod for pod in search.cluster.bound[node.node.name] if not pod.unmovable_companion]


def verdict_of(search: Search, found: Found, before: Fragmentation, freed: int, waves: int, reasons: Why) -> tuple[str, str]:
    """The verdict, and in a sentence what it means here."""
    wish = search.wish
    if not before.total.nodes:
        return "NotApplicable", before.unsuited[0].message
    if not before.mix:
        return "NotApplicable", "no pod asks for GPUs"
    if not found.steps and not found.wanted:
        return _why_none(search, before, reasons)
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


def _why_none(search: Search, before: Fragmentation, found: Why) -> tuple[str, str]:
    wish = search.wish
    if wish.kind == "blocked_pods":
        if not before.blocked:
            return "NoFragmentation", "no pod is blocked"
        none = f"no moves make room for any of the {len(before.blocked)} blocked pods"
        if len(found.unplaced) == 1:
            return "Blocked", f"{none}: {found.unplaced[0].pod}: {found.unplaced[0].detail}"
        return "Blocked", f"{none}: {by_count(Counter(str(each.reason) for each in found.unplaced))}"
    if wish.kind == "slots":
        lost = sum(node.free % wish.slot_size for node in search.found.nodes)
        if lost < wish.slot_size:
            return "NoFragmentation", f"{lost} GPUs lie outside slots of {wish.slot_size}: too few for one more"
    elif not any(node.free and holders(search, node) for node in search.found.nodes):
        return "NoFragmentation", "every node is full or empty"
    if search.over_budget:
        return (
            "Blocked",
            f"nothing can be gained within {wish.most} evictions ({wish.bound_by}): what was found takes more",
        )
    return "Blocked", f"nothing can be gained: {_what_stays(search, found)}"


def _what_stays(search: Search, found: Why) -> str:
    """How many pods must stay, how many have nowhere to go, and how many could go in vain."""
    pods = [pod for node in search.found.nodes for pod in holders(search, node)]
    what = "GPU pod" if all(search.resource in pod.requests for pod in pods) else "pod"
    lost = sum(id(pod) in found.stays and found.stays[id(pod)].reason is Reason.NO_DESTINATION for pod in pods)
    must = sum(id(pod) in found.stays for pod in pods) - lost
    free = len(pods) - must - lost
    of = f"of {len(pods)} {what}{'s' if len(pods) != 1 else ''}"
    parts = [f"{must} {of} must stay"] if must else []
    if lost:
        why_not = f" ({by_count(found.refusals)})" if lost == 1 else f" ({', '.join(_commonest(found.refusals))})"
        parts.append(f"no node takes {lost}{'' if must else f' {of}'}{why_not}")
    if free:
        other = "the other" if free == 1 else f"the other {free}"
        parts.append(f"moving {other} gains nothing" if parts else f"moving any {of} gains nothing")
    return ", ".join(parts) or f"no {what} is there to move"


def _commonest(refusals: Refusals) -> list[str]:
    return [str(name) for name, _count in sorted(refusals.items(), key=lambda item: (-item[1], item[0]))]


def held_nodes(search: Search, found: Why, freed: set[str]) -> list[tuple[str, str]]:
    """Nodes with some GPUs free that give none of their pods, and what holds them.

    Of several pods one that may not be evicted is named before one that has nowhere to go, then the first by name.
    """
    told = []
    for node in search.found.nodes:
        if node.node.name in freed or not node.free:
            continue
        held = [(found.stays[id(pod)], pod) for pod in holders(search, node) if id(pod) in found.stays]
        if held:
            stay, pod = min(held, key=lambda each: (each[0].reason is Reason.NO_DESTINATION, each[1].namespace, each[1].name))
            more = f"; {len(held) - 1} more of its pods stay too" if len(held) > 1 else ""
            told.append((node.node.name, f"{pod} stays: {stay.detail}{more}"))
    return told
