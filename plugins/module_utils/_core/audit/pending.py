# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Pending GPU pods: which node takes each, or why every node refuses it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ..cluster.layout import Layout
from ..cluster.pools import Survey
from ..cluster.scheduling import AMOUNTS, Fit, Refusal, refuses
from ..kube.model import Pod

SHOWN_NODES = 5
"""So many nodes with GPUs enough are named with their reasons."""


@dataclass(slots=True)
class Outlook:
    """What a pending pod may hope for.

    Attributes:
        state: Fits, Blocked (its pool has the GPUs, no single node can take it), TooLarge (no node of its pools has so many
            GPUs, free or not), Short (no pool has them free), NoPool (its selector or affinity admits no GPU node), Gated
            or Nominated.
        node: The node that takes it: the one it leaves with the fewest GPUs free; or the one it is nominated to.
        pools: The pools that it may use and that have its GPUs in all; all it may use where none has.
        pool_free: Free GPUs of the fullest-stocked of them.
        largest: The most free GPUs on one node that is open to it: nothing but a lack of room keeps it away.
        open_free: Free GPUs on the nodes of the best stocked pool that are open to it.
        closed: Why nodes with free GPUs are closed to it.
        refusals: Nodes by the first reason each has; the numbers add up to the GPU nodes.
        near: Nodes with GPUs enough that refuse all the same, fewest reasons first.
    """

    pod: Pod
    gpus: int
    state: str
    node: str | None = None
    pools: list[str] = field(default_factory=list)
    pool_free: int = 0
    largest: int = 0
    open_free: int = 0
    closed: list[Refusal] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    near: list[tuple[str, list[Refusal]]] = field(default_factory=list)

    @property
    def cause(self) -> list[str]:
        """Lack of GPUs alone where tidying up would help; else also what keeps it from the GPUs that are free."""
        if self.near:
            return sorted({reason for near in self.near for reason in near[1]})
        return sorted({Refusal.GPU, *(self.closed if self.open_free < self.gpus else ())})

    @property
    def message(self) -> str:
        """One plain sentence."""
        needs = f"needs {self.gpus} GPU{'s' if self.gpus != 1 else ''}"
        stock = f"{'pool' if len(self.pools) == 1 else 'the best stocked pool of'} {', '.join(self.pools)}"
        free = f"{stock} has {self.pool_free} free"
        match self.state:
            case "Fits":
                return f"{needs}; node {self.node} takes it, the scheduler has yet to place it"
            case "Gated":
                return f"{needs}; its scheduling gates keep it back"
            case "Nominated":
                return f"{needs}; a preemption keeps room on node {self.node} for it"
            case "NoPool":
                if not self.refusals:
                    return f"{needs}; there is no GPU node"
                return f"{needs}; its node selector or affinity admits no GPU node"
            case "TooLarge":
                return f"{needs}; no node that it may use has so many"
            case "Short":
                return f"{needs}; {free} in all: more GPUs are needed, not tidier ones"
        if self.near:
            node, reasons = self.near[0]
            return f"{needs}; {free}, node {node} has enough of them but refuses it: {', '.join(reasons)}"
        if self.open_free < self.gpus:
            why = ", ".join(self.closed)
            return f"{needs}; {free}, only {self.open_free} of them on nodes open to it (others: {why}): tidying up does not help"
        return f"{needs}; {free}, at most {self.largest} on one node"


def outlooks(layout: Layout, found: Survey) -> list[Outlook]:
    """The outlook of every pending pod that requests the surveyed GPU resource, by namespace and name.

    Pods that the scheduler cannot tell apart are looked at once.
    """
    resource = found.resource
    pods = [pod for pod in layout.cluster.pending if resource in pod.requests]
    pods.sort(key=lambda pod: (pod.namespace, pod.name))
    free = Counter[str]()
    for node in found.nodes:
        free[node.pool] += node.free
    alike: dict[object, Outlook] = {}
    result = []
    for pod in pods:
        gpus = pod.requests[resource]
        if pod.gated:
            result.append(Outlook(pod, gpus, "Gated"))
        elif pod.nominated:
            result.append(Outlook(pod, gpus, "Nominated", node=pod.nominated))
        else:
            key = _likeness(pod, layout)
            if key not in alike:
                alike[key] = _look(pod, gpus, layout, found, free)
            result.append(replace(alike[key], pod=pod))
    return result


def _likeness(pod: Pod, layout: Layout) -> object:
    """Pods with the same likeness get the same answers from the scheduler."""
    placement = pod.placement
    key: tuple[object, ...] = (tuple(sorted(pod.requests.items())), placement, pod.priority)
    if layout.repelling or placement.affinity or placement.anti_affinity or placement.spread or placement.volume_claims:
        key += (pod.namespace, tuple(sorted(pod.labels.items())))
    return key


def _look(pod: Pod, gpus: int, layout: Layout, found: Survey, free: Counter[str]) -> Outlook:
    fit = Fit(pod, layout, found.resource)
    firsts = Counter[str]()
    near: list[tuple[str, list[Refusal]]] = []
    admitted: set[str] = set()
    largest = built = 0
    opened = Counter[str]()
    closed: set[Refusal] = set()
    taker: tuple[int, str] | None = None
    for candidate in found.nodes:
        name = candidate.node.name
        if refuses(pod.placement, candidate.node) is None:
            admitted.add(candidate.pool)
            built = max(built, candidate.gpus)
        reasons = fit.refusals(candidate.node)
        if AMOUNTS.issuperset(reasons):
            largest = max(largest, candidate.free)
            opened[candidate.pool] += candidate.free
        elif candidate.free:
            closed.update(set(reasons) - AMOUNTS)
        if not reasons:
            taker = min(taker or (candidate.free, name), (candidate.free, name))
            continue
        firsts[reasons[0]] += 1
        if candidate.free >= gpus and not {Refusal.NODE_SELECTOR, Refusal.NODE_AFFINITY} & set(reasons):
            near.append((name, reasons))
    if not taker:
        # A node that is in no figure may take it all the same.
        takers = (node for node in found.elsewhere if not fit.refusals(node))
        taker = min(((layout.room(node, found.resource), node.name) for node in takers), default=None)
    near.sort(key=lambda entry: (len(entry[1]), entry[0]))
    stocked = sorted(pool for pool in admitted if free[pool] >= gpus)
    if taker:
        state = "Fits"
    elif not admitted:
        state = "NoPool"
    elif built < gpus:
        state = "TooLarge"
    else:
        state = "Blocked" if stocked else "Short"
    pools = stocked or sorted(admitted)
    return Outlook(
        pod=pod,
        gpus=gpus,
        state=state,
        node=taker[1] if taker else None,
        pools=pools,
        pool_free=max((free[pool] for pool in pools), default=0),
        largest=largest,
        open_free=max((opened[pool] for pool in pools), default=0),
        closed=sorted(closed),
        refusals={reason.value: firsts[reason] for reason in Refusal if firsts[reason]},
        near=near[:SHOWN_NODES],
    )
