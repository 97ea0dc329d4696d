# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What an audit left out or could not know, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..cluster.pools import Survey
from ..kube.model import Cluster, Placement, Pod
from ..kube.selectors import EVERYTHING, LabelSelector


def notes(cluster: Cluster, found: Survey, claiming: Sequence[Pod], selector: LabelSelector) -> list[str]:
    """The notes on what was read and surveyed."""
    return [*_on_input(cluster, found, selector), *_on_nodes(found), *_on_pods(cluster, found, claiming)]


def _on_input(cluster: Cluster, found: Survey, selector: LabelSelector) -> list[str]:
    told = []
    if cluster.nodes and "Pod" not in cluster.kinds:
        told.append("the input holds no pod: if there are any, what is free is unknown; dump nodes and pods together")
    if cluster.strangers:
        names = few(sorted(map(str, cluster.strangers)))
        told.append(f"{names}: left out, being on nodes that came or went while the cluster was read")
    if cluster.now is None and cluster.bound:
        told.append("the input has no times: how long pods live is unknown")
    waiting = [pod.placement for pod in cluster.pending if found.resource in pod.requests]
    if selector != EVERYTHING and waiting:
        told.append("what is said of pending pods holds for the nodes of node_selector alone")
    unread = [f"{kind}s" for kind in ("PersistentVolumeClaim", "PersistentVolume") if kind not in cluster.kinds]
    if unread and any(placement.volume_claims for placement in waiting):
        told.append(f"the input has no {' and no '.join(unread)}: whether volumes hold pending pods back is unknown")
    if "Namespace" not in cluster.kinds and any(map(_asks_of_namespaces, waiting)):
        told.append("the input has no Namespaces: whom the affinities of pending pods mean is known in part")
    return told


def _on_nodes(found: Survey) -> list[str]:
    told = []
    if found.shared:
        names = few([name for name, replicas in found.shared])
        told.append(f"{names}: GPUs are shared and left out: one of their {found.resource} is no whole GPU")
    if sliced := [node.node.name for node in found.nodes if node.node.labels.get("nvidia.com/mig.strategy") == "single"]:
        told.append(f"{few(sliced)}: their {found.resource} are MIG slices (strategy single), each counted and priced as one GPU")
    if found.unlisted:
        names = few(found.unlisted)
        told.append(f"{names}: pods request {found.resource} that the node does not list (devices of a DRA driver?): unmeasured")
    if over := [node.node.name for node in found.nodes if node.allocated > node.gpus]:
        told.append(f"{few(over)}: pods hold more GPUs than the node offers; utilization counts what it offers")
    for resource, nodes in sorted(found.other_resources.items()):
        offering = "1 node also offers" if nodes == 1 else f"{nodes} nodes also offer"
        told.append(f"{offering} {resource}; measure it with resource_name")
    return told


def _on_pods(cluster: Cluster, found: Survey, claiming: Sequence[Pod]) -> list[str]:
    told = []
    if claiming:
        have = "1 pod has" if len(claiming) == 1 else f"{len(claiming)} pods have"
        told.append(f"{have} ResourceClaims, whose devices these figures do not show")
    waiting = [pod for pod in cluster.pending if found.resource in pod.requests]
    if lost := [str(pod) for pod in waiting if pod.nominated and pod.nominated not in cluster.nodes]:
        told.append(f"{few(sorted(lost))}: nominated to a node that is not in the input")
    return told


def _asks_of_namespaces(placement: Placement) -> bool:
    """Whether an affinity term chooses namespaces by labels."""
    terms = (*placement.affinity, *placement.anti_affinity)
    return any(term.namespace_selector and term.namespace_selector.requirements for term in terms)


def few(names: Sequence[str], most: int = 3) -> str:
    """The first few of many names."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
