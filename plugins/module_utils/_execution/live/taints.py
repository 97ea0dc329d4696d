# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our soft taint on nodes, beside the taints of others."""

from __future__ import annotations

from typing import Any

from ..._core.execution.steer import TAINT
from ..._core.kube.model import Cluster
from ..._kubernetes import Live, RefusedError
from .objects import TRIES, find

_OURS = {"key": TAINT.key, "effect": TAINT.effect}


class Taints:
    """The taints of nodes, as they were when last seen."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._seen: dict[str, list[dict[str, Any]]] = {}

    def look(self, cluster: Cluster) -> None:
        """Saves asking for each node: what has no taint needs no closer look."""
        self._seen = {name: [] for name, node in cluster.nodes.items() if not node.taints}

    def put(self, node: str, on: bool) -> bool:
        """Put ours on a node or take it off, and leave all others as they are; False if the node is gone."""
        path = f"/api/v1/nodes/{node}"
        for attempt in range(TRIES):
            seen = self._seen.pop(node, None)
            if seen is None:
                found = find(self._live, path)
                if found is None:
                    return False
                seen = found["spec"].get("taints") or []
            changes = _changes(seen, on)
            if not changes:
                self._seen[node] = seen
                return True
            try:
                found = self._live.send("patch", path, changes, content="application/json-patch+json")
            except RefusedError as error:
                if error.status == 404:
                    return False
                if error.status not in (409, 422) or attempt == TRIES - 1:
                    raise
                continue
            self._seen[node] = found["spec"].get("taints") or []
            return True
        return True


def _changes(taints: list[dict[str, Any]], on: bool) -> list[dict[str, Any]]:
    """A JSON patch that fails if the taints are others by then; empty where there is nothing to change."""
    places = [place for place, taint in enumerate(taints) if taint.items() >= _OURS.items()]
    if on == bool(places):
        return []
    unchanged = {"op": "test", "path": "/spec/taints", "value": taints or None}
    if not on:
        return [unchanged, {"op": "remove", "path": f"/spec/taints/{places[0]}"}]
    if taints:
        return [unchanged, {"op": "add", "path": "/spec/taints/-", "value": _OURS}]
    return [unchanged, {"op": "add", "path": "/spec/taints", "value": [_OURS]}]
