# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of ours is on nodes: taints and cordons for the length of a wave, and the marks of nodes that could be given back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial

from .._core.audit.measures import AuditOptions, measure
from .._core.execution import reclaim, steer
from .._core.kube.model import Cluster
from .actions import Actions, node_named
from .manner import Manner
from .outcome import Outcome

HEARD = 0.5
"""Seconds until the scheduler knows what was written to a node: it hears of nodes and of pods apart, in any order."""


class Nodes:
    """The nodes of a cluster, as far as this run has to do with them.

    Attributes:
        tainted: Those with our soft taint.
        closed: Those that we closed for a wave.
    """

    def __init__(self, actions: Actions, resource: str, manner: Manner, outcome: Outcome) -> None:
        self.tainted: set[str] = set()
        self.closed: set[str] = set()
        self._actions = actions
        self._resource = resource
        self._manner = manner
        self._outcome = outcome

    def look(self, cluster: Cluster) -> None:
        """See what a run that died has left."""
        self.tainted = steer.tainted(cluster)
        self.closed = {n.name for n in cluster.nodes.values() if n.labels.get(steer.CORDONED) == steer.FOR_A_WAVE}
        self._outcome.swept |= bool(self.tainted or self.closed)

    def steer(self, repel: Collection[str], goals: Collection[str]) -> None:
        """Have nodes repel pods. Only what differs is written; what repelled before goes on doing so, unless it is a goal now."""
        cordon = self._manner.steering == "cordon"
        now, put = (self.closed, self._close) if cordon else (self.tainted, self._taint)
        wanted = set(repel) if cordon else (now | set(repel)) - set(goals)
        differ = sorted(wanted ^ now)
        for node in differ:
            put(node, node in wanted)
        if differ:
            # A pod that comes before it knows could go to a node that is to repel it.
            self._actions.wait(HEARD)

    def undo(self) -> list[Callable[[], None]]:
        """What takes all taints and cordons off again."""
        open_again = [partial(self._close, node, False) for node in sorted(self.closed)]
        return [*(partial(self._taint, node, False) for node in sorted(self.tainted)), *open_again]

    def marks(self, cluster: Cluster) -> reclaim.Marks:
        """The marks that would change."""
        found = measure(cluster, AuditOptions(resource=self._resource, selector=self._manner.selector))
        empty = found.total.reclaimable if self._manner.label else ()
        return reclaim.marks(cluster, empty, [gpu.node.name for gpu in found.survey.nodes])

    def mark(self, cluster: Cluster) -> None:
        """Mark the nodes that could be given back, and no others."""
        marks = self._outcome.reclaimable = self.marks(cluster)
        since = datetime.fromtimestamp(self._actions.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in marks.add:
            close = self._manner.cordon and not cluster.nodes[name].unschedulable
            labels: dict[str, str | None] = {reclaim.LABEL: "true"}
            labels |= {steer.CORDONED: "reclaimable"} if close else {}
            self._mark(name, labels, since, True if close else None)
            self._actions.tell(node_named(name), "Reclaimable", "it holds no pods but those that every node has")
        for name in marks.remove:
            ours = cluster.nodes[name].labels.get(steer.CORDONED) == "reclaimable"
            gone: dict[str, str | None] = dict.fromkeys((reclaim.LABEL, steer.CORDONED) if ours else (reclaim.LABEL,))
            self._mark(name, gone, None, False if ours else None)

    def _mark(self, node: str, labels: dict[str, str | None], since: str | None, closed: bool | None) -> None:
        self._written(node, self._actions.mark_node(node, labels, {reclaim.SINCE: since}, closed))

    def _taint(self, node: str, on: bool) -> None:
        # Noted first when it comes, last when it goes.
        self.tainted |= {node}
        self._written(node, self._actions.taint(node, on))
        if not on:
            self.tainted -= {node}

    def _close(self, node: str, close: bool) -> None:
        self.closed |= {node}
        label = {steer.CORDONED: steer.FOR_A_WAVE if close else None}
        self._written(node, self._actions.mark_node(node, label, {}, close))
        if not close:
            self.closed -= {node}

    def _written(self, node: str, done: bool) -> None:
        if done:
            self._outcome.written.append(node)
