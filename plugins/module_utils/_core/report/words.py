# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the terminal text and the page say alike: numbers, names, sentences, and which nodes come first.

Names come from clusters that nobody vouches for, so both reports pass every one of them through ``clean``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "unknown"

# Why a node refuses a pod (scheduling.Refusal), in words that follow "3 nodes: ".
REASONS = {
    "NotReady": "not ready to run pods",
    "Cordoned": "cordoned, so closed to new pods",
    "UnhealthyGPU": "some of its GPUs are broken or taken twice",
    "OtherProduct": "GPUs of another product, where it is not to go",
    "NodeSelector": "not what its node selector asks for",
    "NodeAffinity": "not what its node affinity asks for",
    "Taint": "a taint that it does not tolerate",
    "InsufficientGPU": "too few GPUs free",
    "InsufficientCPU": "too little CPU left",
    "InsufficientMemory": "too little memory left",
    "TooManyPods": "no room for one more pod",
    "InsufficientResource": "too little left of another resource it asks for",
    "ReservedForNominatedPod": "its room is kept for a pod that a preemption nominated",
    "HostPort": "the host port it asks for is taken",
    "VolumeMissing": "its volume does not exist",
    "VolumeZone": "its volume cannot be reached from there",
    "VolumeInUse": "its volume is in use elsewhere",
    "TopologySpread": "its topology spread allows no more pods there",
    "PodAffinity": "the pods it must be near are not there",
    "PodAntiAffinity": "a pod it must be kept apart from is there",
}


def clean(text: object) -> str:
    """The text with every character that could move a cursor, hide or reorder text replaced by ``?``."""
    return "".join(char if char.isprintable() else "?" for char in str(text))


def shorten(text: object, width: int) -> str:
    """The cleaned text in at most ``width`` characters; the middle goes, as a pod's name differs at its end."""
    full = clean(text)
    if len(full) <= width:
        return full
    tail = (width - 2) // 2
    return f"{full[: width - 2 - tail]}..{full[len(full) - tail :]}"


def number(value: float | None, decimals: int = 0) -> str:
    """``1,213``, ``5.5``: no more decimals than told, none that are zero."""
    if value is None:
        return UNKNOWN
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def percent(share: float | None) -> str:
    """A share of one as ``67.5 %``."""
    return UNKNOWN if share is None else f"{share * 100:.1f} %"


def part(amount: float, whole: float) -> str:
    """An amount as a percentage of a whole, which may be nothing."""
    return percent(amount / whole if whole else 0)


def money(amount: float | None, currency: str) -> str:
    """``142,350 USD``; cents only below a thousand."""
    if amount is None:
        return UNKNOWN
    return f"{amount:,.0f} {clean(currency)}" if amount >= 1000 else f"{amount:,.2f} {clean(currency)}"


def count(amount: float, noun: str) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{number(amount, 1)} {noun}" if amount == 1 else f"{number(amount, 1)} {noun}s"


def size_of(gpus: int) -> str:
    """``an 8-GPU``, ``a 2-GPU``."""
    article = "an" if str(gpus).startswith("8") or gpus in (11, 18) else "a"
    return f"{article} {gpus}-GPU"


def names(values: list[str], most: int) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(clean(value) for value in values[:most])
    return f"{shown} and {number(len(values) - most)} more" if len(values) > most else shown


def holder_name(owner: Mapping[str, Any]) -> str:
    """``namespace/Kind/name`` of a workload."""
    return f"{owner['namespace']}/{owner['owner']}"


def reason_words(reason: str) -> str:
    """What a reason means; one that is not known here is spelled out from its own name."""
    return REASONS.get(reason) or clean(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason).lower())


def refusals(pod: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Why nodes refuse a pod and how many do, most first."""
    return sorted(pod["refusals"].items(), key=lambda item: (-item[1], item[0]))


def figures(values: Mapping[str, Any]) -> str:
    """``min gpu nodes 10, nodes 3``: the figures behind a verdict."""
    return ", ".join(f"{clean(key).replace('_', ' ')} {number(value, 1)}" for key, value in sorted(values.items()))


def headline(result: Mapping[str, Any]) -> list[str]:
    """The audit in a few plain sentences: what is stranded, what it costs, what it blocks, whether to act."""
    return [_stranded_sentence(result), *_cost_sentence(result), *_blocked_sentence(result), *_verdict(result)]


def _stranded_sentence(result: Mapping[str, Any]) -> str:
    total, free, size = result["gpus_total"], result["gpus_free"], result["slot_size"]
    lost = stranded(result)
    if not result["nodes"]:
        return f"No node offers {clean(result['resource_name'])}, so there is nothing to measure."
    if not free:
        return f"None of the {number(total)} GPUs is free, so none is stranded."
    if not lost:
        return f"None of the {count(free, 'free GPU')} is stranded: {size_of(size)} pod can use each of them."
    whole = ", nor one that takes a whole smaller node" if smaller_nodes(result) else ""
    if lost == free:
        return f"Each of the {number(free)} free GPUs is stranded: no {size}-GPU pod can use it{whole}."
    verb, them = ("is", "it") if lost == 1 else ("are", "them")
    return f"{number(lost)} of the {number(free)} free GPUs {verb} stranded: no {size}-GPU pod can use {them}{whole}."


def _cost_sentence(result: Mapping[str, Any]) -> list[str]:
    cost = result["cost"]
    if not stranded(result) or cost["per_month"] is None:
        return []
    return [f"That costs {money(cost['per_month'], cost['currency'])} a month."]


def _blocked_sentence(result: Mapping[str, Any]) -> list[str]:
    blocked = len(result["blocked_pods"])
    if not blocked:
        return []
    verb, whose = ("waits", "its") if blocked == 1 else ("wait", "their")
    return [f"{count(blocked, 'pod')} {verb} although {whose} pool has enough GPUs free in all."]


def _verdict(result: Mapping[str, Any]) -> list[str]:
    if not result["nodes"]:
        return []
    if not result["applicable"]:
        return ["Moving pods is not advised here."]
    return ["Worth acting on."] if stranded(result) or result["blocked_pods"] else ["Nothing to do."]


def packing(frag_rate: Mapping[str, Any]) -> str:
    """What FragRate says: how many nodes hold the pods, and how few could."""
    occupied, fewest = frag_rate["occupied"], frag_rate["fewest"]
    if occupied > fewest:
        return f"{count(occupied, 'node')} hold what {number(fewest)} could{'' if frag_rate['exact'] else ', or fewer'}"
    could = "could hold" if frag_rate["exact"] else "are known to hold"
    return f"no fewer than the {count(occupied, 'node')} in use {could} the pods"


def priced_alike(cost: Mapping[str, Any]) -> bool:
    """Whether all stranded GPUs have the one price that the result names."""
    price = cost["gpu_hour_price"]
    return price is not None and round(cost["stranded_gpus"] * price, 2) == cost["per_hour"]


def stranded(result: Mapping[str, Any]) -> int:
    """Free GPUs that no slot of the slot size uses; on a smaller node, no slot as large as the node."""
    found: int = result["stranded_gpus"]
    return found


def smaller_nodes(result: Mapping[str, Any]) -> bool:
    """Whether nodes smaller than the slot size make a difference to the stranded GPUs."""
    found: bool = result["stranded"].get(str(result["slot_size"]), stranded(result)) != stranded(result)
    return found


def broken(result: Mapping[str, Any]) -> dict[str, int]:
    """How many of its GPUs a node does not offer, for the nodes where that is so."""
    return {node["node"]: max(0, node["capacity"] - node["allocatable"]) for node in result["unhealthy_nodes"]}


def gpus_of(node: Mapping[str, Any], broken_gpus: int) -> int:
    """GPUs of a node of the details: held, free and, if pods do not hold them, broken."""
    total: int = max(node["gpus"] + broken_gpus, node["allocated"] + node["free"])
    return total


def worst_pools(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pools, those that strand most GPUs first, then by name."""
    return sorted(result["pools"], key=lambda pool: (-pool["stranded_gpus"], pool["name"]))


def worst_first(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The nodes, those that strand most GPUs first, then by name."""
    return sorted(nodes, key=lambda node: (-node["stranded"], node["node"]))
