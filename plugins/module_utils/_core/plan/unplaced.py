# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Why a blocked pod gets no room."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..audit.measures import Fragmentation
from ..kube.model import Cluster, Pod
from .destinations import by_count
from .search import Found, Search


class Lack(StrEnum):
    """Why no room is made for a blocked pod. The first that holds is told."""

    RESOURCE_CLAIM = "ResourceClaim"
    VOLUME = "VolumeUnknown"
    COUNT = "Count"
    EVICTIONS = "MaxEvictions"
    GOAL = "BelowGoal"
    NO_ROOM = "NoRoom"


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why one blocked pod gets no room: the rule, and a sentence with its particulars."""

    pod: Pod
    reason: Lack
    detail: str


def urgent_first(before: Fragmentation) -> list[Pod]:
    """The blocked pods, those of the highest priority and the largest first."""
    blocked = sorted(before.blocked, key=lambda o: (-o.pod.priority, -o.gpus, o.pod.namespace, o.pod.name))
    return [outlook.pod for outlook in blocked]


def unknown(pod: Pod, cluster: Cluster) -> Unplaced | None:
    """Why it cannot be told where a pod would be taken, so that nothing is to be evicted for it; None if it can."""
    if pod.resource_claims:
        told = f"it asks for devices by resource claim {pod.resource_claims[0]}; where there are such is not looked at"
        return Unplaced(pod, Lack.RESOURCE_CLAIM, told)
    for name in pod.placement.volume_claims:
        claim = cluster.volume_claims.get((pod.namespace, name))
        told = f"PersistentVolumeClaim {pod.namespace}/{name}"
        if claim is None and "PersistentVolumeClaim" not in cluster.kinds:
            return Unplaced(pod, Lack.VOLUME, f"{told} was not read")
        if claim and claim.volume and claim.volume not in cluster.volumes:
            return Unplaced(pod, Lack.VOLUME, f"where {told} can be reached is not known: its volume {claim.volume} was not read")
    return None


def unplaced(search: Search, found: Found, before: Fragmentation, after: Fragmentation, *, carried_out: bool) -> list[Unplaced]:
    """Why each blocked pod without room has none, the most urgent first.

    Args:
        search: The search that is over.
        found: What it found.
        before: The cluster as it is.
        after: As it then is.
        carried_out: The plan is worth it.
    """
    placed = {id(pod) for pod, _node in found.wanted} if carried_out else set()
    wish = search.wish
    told = {id(outlook.pod): outlook for outlook in after.pending}
    lacking: list[Unplaced] = []
    tried = 0
    for pod in urgent_first(before):
        why = unknown(pod, search.cluster)
        tried += why is None
        if id(pod) in placed:
            continue
        if why is None and wish.count is not None and tried > wish.count:
            why = Unplaced(pod, Lack.COUNT, f"objective.count is {wish.count}, and others go first")
        if why is None and id(pod) in search.too_dear:
            why = Unplaced(pod, Lack.EVICTIONS, f"room for it takes more evictions than {wish.bound_by} {wish.most} allows")
        if why is None and any(pod is each for each, _node in found.wanted):
            why = Unplaced(pod, Lack.GOAL, f"there would be room, but the plan frees fewer nodes than {wish.min_nodes_freed}")
        if why is None:
            outlook = told[id(pod)]
            nodes = f": {by_count(outlook.refusals)}" if outlook.refusals else ""
            why = Unplaced(pod, Lack.NO_ROOM, f"{outlook.message}; no moves make room for it{nodes}")
        lacking.append(why)
    return lacking
