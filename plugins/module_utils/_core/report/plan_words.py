# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the terminal text and the page of a plan say alike."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from .words import REASONS, clean, count, number, percent, reason_words, stranded

Reasons: TypeAlias = list[tuple[str, list[Mapping[str, Any]]]]
"""Pods by reason."""
VERDICTS = {
    "Recommended": "Worth carrying out",
    "NoFragmentation": "Nothing to do",
    "BelowGoal": "Not worth it",
    "Blocked": "Blocked",
    "NotApplicable": "Not advised",
}
# Why a pod stays (evictable.Reason), in words that follow "3 pods: ".
STAYS = {
    "Terminating": "being deleted already",
    "StaticPod": "run by the kubelet from a file",
    "DaemonSet": "of a DaemonSet, which would put it back on its node",
    "BarePod": "without a controller that would bring it back",
    "UnknownController": "of a controller that may not bring it back",
    "SystemCritical": "critical to the system",
    "Priority": "of a priority that is left alone",
    "Protected": "protected by an annotation",
    "ProtectExpression": "protected by an expression of the user's",
    "Gang": "of a gang, which moves whole or not at all",
    "ResourceClaim": "bound to devices of its node by a resource claim",
    "LocalStorage": "with data on its node that would be lost",
    "Volume": "with a volume that may not be reached from elsewhere",
    "SeveralBudgets": "of several disruption budgets, which the Eviction API refuses",
    "SingleReplica": "the only replica of its workload",
    "JobRetries": "of a Job that may fail if it loses them",
    "BudgetUnknown": "of a disruption budget that cannot be counted",
    "Budget": "of a disruption budget that allows no eviction now",
    "ReplicaPending": "of a workload that has a pod pending",
    "NotReady": "not ready",
    "LastReadyReplica": "the last ready replica of its workload",
    "ReplicaNotReady": "of a workload without a budget that has a pod not ready",
    "TooYoung": "younger than pods must be to move",
    "CoolingDown": "moved a moment ago, or of a workload that went astray",
    "NoDestination": "free to go, but no other node takes them",
}
# Why a blocked pod gets no room (unplaced.Lack), likewise.
UNPLACED = {
    "ResourceClaim": "in need of devices by a resource claim, which no plan looks at",
    "VolumeUnknown": "with a volume of which it is not known where it can be reached",
    "Count": "beyond the number of pods that was wished",
    "MaxEvictions": "whose room takes more evictions than are allowed",
    "BelowGoal": "left out with a plan that frees too few nodes",
    "NoRoom": "for which no moves make room",
}
COUNTED = ("NoDestination", "NoRoom")
"""Reasons whose details count nodes by what they have against a pod."""
LIMITS = {
    "total": "in all",
    "per_node": "from one node",
    "per_namespace": "of one namespace",
    "per_workload": "of one workload",
}


def headline(plan: Mapping[str, Any]) -> str:
    """The verdict in words, and the plan's own sentence."""
    verdict = VERDICTS.get(plan["verdict"]) or reason_words(plan["verdict"]).capitalize()
    return f"{verdict}: {sentence(plan['message'])}"


def sentence(text: object) -> str:
    """The cleaned text with a full stop, unless it ends in one."""
    said = clean(text)
    return said if said.endswith((".", "!", "?")) else f"{said}."


def goal(objective: Mapping[str, Any]) -> str:
    """``3 more slots of 8 GPUs``: what the plan was asked for."""
    kind, wanted = objective["kind"], objective["count"]
    slot = f"slot{'' if wanted == 1 else 's'} of {count(objective['slot_size'] or 0, 'GPU')}"
    nodes = f"empty node{'' if wanted == 1 else 's'}"
    what = {"slots": slot, "free_nodes": nodes}.get(kind)
    if what:
        return f"as many {what} as can be had" if wanted == "max" else f"{number(wanted)} more {what}"
    return "places for as many blocked pods as can be had" if wanted == "max" else f"places for {count(wanted, 'blocked pod')}"


def changes(plan: Mapping[str, Any]) -> bool:
    """Whether the plan does anything, so that there is an after that differs from before."""
    return bool(plan["waves"] or plan["placed_pods"])


def effort(plan: Mapping[str, Any]) -> str:
    """``10 evictions in 4 waves``."""
    return f"{count(plan['evictions'], 'eviction')} in {count(len(plan['waves']), 'wave')}"


def bound(plan: Mapping[str, Any]) -> str:
    """How good the number of evictions is proved to be."""
    least = plan["lower_bound"]
    if plan["optimal"]:
        return "proved the fewest"
    return f"at least {number(least)} {'is' if least == 1 else 'are'} needed"


def cold_starts(plan: Mapping[str, Any]) -> str:
    """``30 min`` that pods spend starting anew; nothing if it is unknown."""
    seconds = plan["cost_seconds"]
    if not seconds:
        return ""
    if seconds < 120:
        return f"{number(seconds)} s"
    return f"{number(seconds / 60)} min" if seconds < 7200 else f"{number(seconds / 3600, 1)} h"


def compared(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Figures of the whole, before and after."""
    before, after = plan["before"], plan["after"]
    for label, key in (("GPUs allocated", "gpus_allocated"), ("GPUs free", "gpus_free")):
        yield label, number(before[key]), number(after[key])
    yield "GPUs stranded", number(stranded(before)), number(stranded(after))
    yield "largest slot", number(before["largest_slot"]), number(after["largest_slot"])
    yield "blocked pods", number(before["blocked_pods"]), number(after["blocked_pods"])
    yield "reclaimable nodes", number(len(before["reclaimable_nodes"])), number(len(after["reclaimable_nodes"]))
    yield "fragmentation rate", percent(before["fragmentation_rate"]), percent(after["fragmentation_rate"])
    yield "FragRate", percent(before["frag_rate"]["value"]), percent(after["frag_rate"]["value"])


def signed(amount: int) -> str:
    """``+3``, ``-1``; nothing for 0."""
    return f"{amount:+,}" if amount else ""


def wave_words(wave: list[Mapping[str, Any]]) -> str:
    """``3 pods, 9 GPUs``."""
    return f"{count(len(wave), 'pod')}, {count(sum(move['gpus'] for move in wave), 'GPU')}"


def why_stay(reason: str) -> str:
    """What a reason to stay means; one that is not known here is spelled out from its own name."""
    return STAYS.get(reason) or reason_words(reason)


def why_unplaced(reason: str) -> str:
    """What a reason for getting no room means, likewise."""
    return UNPLACED.get(reason) or reason_words(reason)


def refusals_in(details: Iterable[str]) -> list[tuple[str, str]]:
    """The refusals that sentences name, each with what it means."""
    told = set(re.findall("[A-Za-z]+", " ".join(details)))
    return [(refusal, words) for refusal, words in REASONS.items() if refusal in told]


def staying_pods(plan: Mapping[str, Any]) -> str:
    """``3 GPU pods``, or ``3 pods`` where some have no GPUs."""
    return count(len(plan["skipped"]), "GPU pod" if all(pod["gpus"] for pod in plan["skipped"]) else "pod")


def staying(plan: Mapping[str, Any]) -> Reasons:
    """The pods that stay by reason, the reason of most pods first; of each, the largest pods first."""
    return by_reason(plan["skipped"])


def by_reason(pods: list[Mapping[str, Any]]) -> Reasons:
    """Pods by reason, the reason of most pods first; of each, the largest pods first."""
    reasons: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (-pod["gpus"], pod["namespace"], pod["pod"])):
        reasons[pod["reason"]].append(pod)
    return sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))


def kept(plan: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The nodes that are not emptied by the sentence why, the sentence of most nodes first."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for node in plan["nodes_kept"]:
        reasons[node["reason"]].append(node["node"])
    return sorted(reasons.items(), key=lambda item: (-len(item[1]), item[1]))


def limits(plan: Mapping[str, Any]) -> str:
    """What one wave may do, and how far waves are apart."""
    most = [f"{number(plan['limits'][key])} {words}" for key, words in LIMITS.items() if plan["limits"].get(key) is not None]
    told = f"at most {', '.join(most)} in a wave" if most else "no limit in a wave"
    interval = plan["limits"].get("interval_seconds")
    return f"{told}; {number(interval)} s from one to the next" if interval else told
