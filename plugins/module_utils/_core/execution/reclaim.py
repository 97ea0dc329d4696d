# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which nodes could be given back: marked for whoever takes nodes away, which is never us."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..kube.model import Cluster

LABEL = "gpuops.io/reclaimable"
SINCE = "gpuops.io/reclaimable-since"


@dataclass(frozen=True, slots=True)
class Marks:
    """Nodes whose label changes."""

    add: tuple[str, ...]
    remove: tuple[str, ...]


def marks(cluster: Cluster, reclaimable: Collection[str], among: Collection[str]) -> Marks:
    """What to change so that exactly the reclaimable nodes carry the label.

    Args:
        cluster: As it is now.
        reclaimable: Nodes that hold nothing but DaemonSet, mirror and finished pods.
        among: The GPU nodes that were looked at. Others may be empty for a run that goes by another GPU resource or selector:
            they lose the label only with a pod on them.
    """
    marked = {name for name, node in cluster.nodes.items() if LABEL in node.labels}
    taken = {name for name in marked if not all(pod.unmovable_companion for pod in cluster.bound[name])}
    return Marks(tuple(sorted(set(reclaimable) - marked)), tuple(sorted(marked & ({*among} | taken) - set(reclaimable))))
