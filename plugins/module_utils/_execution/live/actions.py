# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions on a live cluster: each request by itself, and nothing decided."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..._core.execution.order import Move
from ..._core.execution.surge import Deployment, read_deployment
from ..._core.kube.decode import decode
from ..._core.kube.model import Cluster, Pod
from ..._kubernetes import EVERYTHING, Live, RefusedError
from ..._prometheus import Prometheus
from ..actions import Answer
from .events import tell
from .eviction import EvictionApi
from .lease import Lease
from .memory import Memory
from .objects import TRIES, clock, find, patch
from .taints import Taints

PATIENCE = 90.0
"""Seconds for which an API server that is away is waited for."""
RELISTING = 15.0
"""Seconds that the scheduler needs to list nodes and pods again after the server was away."""
LONGEST_BACKOFF = 60.0
"""Seconds that its watches may wait before that: client-go's reflector doubles 0.8 s up to 30 s, and adds as much at random."""


class LiveActions:
    """The actions on a live cluster.

    Args:
        live: The connection.
        namespace: Where the ConfigMap and the Lease are.
        mark: Says of a pod, as the API has it, why the user protects it.
        pause: Queries that pause when they fire, and whom to ask.
        while_pid: The process for which it runs; once that is gone the run ends, and cleans up.
    """

    def __init__(
        self,
        live: Live,
        namespace: str,
        *,
        mark: Callable[[Mapping[str, Any]], str | None] | None = None,
        pause: tuple[Prometheus, Sequence[str]] | None = None,
        while_pid: int | None = None,
    ) -> None:
        live.patience = PATIENCE
        self.live = live
        self.lease = Lease(live, namespace)
        self.memory = Memory(live, namespace)
        self._mark = mark
        self._pause = pause
        self._while_pid = while_pid
        self._eviction_api = EvictionApi(live)
        self._taints = Taints(live)

    def now(self) -> float:
        """The server's clock, in seconds since 1970."""
        return clock(self.live)

    def wait(self, seconds: float) -> None:
        """Let time pass, and keep the Lease."""
        time.sleep(seconds)
        self._stay_wanted()
        self.lease.keep()

    def _stay_wanted(self) -> None:
        """End the run, as SIGTERM does, once the process is gone that it runs for."""
        if self._while_pid is not None and not _runs(self._while_pid):
            raise SystemExit(f"process {self._while_pid} is gone, for which this runs")

    # One at a time, which remembers.

    def locked(self) -> str | None:
        """Who else holds the Lease."""
        return self.lease.other()

    def lock(self) -> str | None:
        """Take the Lease; whoever holds it where that cannot be."""
        return self.lease.take()

    def release(self) -> None:
        """Give the Lease back, if it is still ours."""
        self.lease.release()

    def load(self) -> str | None:
        """What was saved last; None if nothing ever was."""
        return self.memory.load()

    def save(self, text: str) -> None:
        """Save; what somebody else wrote meanwhile is never overwritten.

        Raises:
            InputError: Somebody else wrote.
        """
        self.lease.keep()
        self.memory.save(text)

    def annotations(self) -> Mapping[str, Mapping[str, str]]:
        """Where a user may ask for a pause, as it is now."""
        self.memory.load()
        system = find(self.live, "/api/v1/namespaces/kube-system") or {}
        return {
            self.memory.name: self.memory.annotations,
            "Namespace kube-system": (system.get("metadata") or {}).get("annotations") or {},
        }

    def fires(self) -> str | None:
        """Why the metrics ask for a pause; None if they do not."""
        if self._pause is None:
            return None
        prometheus, queries = self._pause
        return prometheus.fires(queries)

    # What is there.

    def read(self) -> Cluster:
        """Everything that planning looks at, as it is now."""
        self.lease.keep()
        live = self.live
        cluster = live.read(
            EVERYTHING, lambda documents: decode(documents, source=live.name, now=live.now, live=True, mark=self._mark)
        )
        self._taints.look(cluster)
        return cluster

    def pods(self, namespaces: Iterable[str]) -> list[Pod]:
        """All pods of some namespaces, as they are now."""
        found: list[Pod] = []
        for namespace in sorted(set(namespaces)):
            page = self.live.send("get", f"/api/v1/namespaces/{namespace}/pods")
            # Their nodes are not among what is read, so that those on one are strangers.
            cluster = decode([page], source=self.live.name, live=True)
            found += [*cluster.pending, *cluster.strangers, *cluster.finished]
        return found

    # What is changed.

    def evict(self, move: Move, grace: int | None) -> Answer:
        """Ask for the pod's eviction, of this very pod."""
        self._stay_wanted()
        self.lease.keep()
        self._let_others_catch_up()
        return self._eviction_api.ask(move, grace)

    def _let_others_catch_up(self) -> None:
        """A server that was away leaves the scheduler behind: it would not know of the taints yet."""
        if self.live.broke is not None:
            # A wait that began while the server was away is at most twice as long as it had been away.
            behind = self.live.broke + min(LONGEST_BACKOFF, 2 * self.live.away) + RELISTING - time.perf_counter()
            if behind > 0:
                self.wait(behind)

    def taint(self, node: str, on: bool) -> bool:
        """Put our soft taint on a node or take it off, and leave all others as they are; False if the node is gone."""
        self.lease.keep()
        return self._taints.put(node, on)

    def mark_node(
        self, node: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], closed: bool | None
    ) -> bool:
        """Set labels and annotations of a node (None takes one away), and close or open it; False if it is gone."""
        self.lease.keep()
        body: dict[str, Any] = {"metadata": {"labels": labels, "annotations": annotations}}
        if closed is not None:
            body["spec"] = {"unschedulable": closed}
        return self._changed(f"/api/v1/nodes/{node}", body)

    def mark_pod(self, pod: Pod | Move, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> bool:
        """Set labels and annotations of this very pod; False if it is gone."""
        self.lease.keep()
        name = pod.pod if isinstance(pod, Move) else pod.name
        body = {"metadata": {"uid": pod.uid, "labels": labels, "annotations": annotations}}
        return self._changed(f"/api/v1/namespaces/{pod.namespace}/pods/{name}", body)

    def _changed(self, path: str, body: Mapping[str, Any]) -> bool:
        try:
            patch(self.live, path, body)
        except RefusedError as error:
            # 409 and 422: the uid is another one.
            if error.status in (404, 409, 422):
                return False
            raise
        return True

    def deployment(self, namespace: str, name: str) -> Deployment | None:
        """A Deployment, as it is now."""
        found = find(self.live, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        return None if found is None else read_deployment(found)

    def autoscaled(self, namespace: str) -> set[tuple[str, str]]:
        """Kind and name of what HorizontalPodAutoscalers scale in a namespace."""
        found = self.live.send("get", f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
        targets = [item["spec"]["scaleTargetRef"] for item in found["items"]]
        return {(target["kind"], target["name"]) for target in targets}

    def scale(self, namespace: str, name: str, was: int, to: int) -> bool:
        """Set a Deployment's replicas, if they are what they were; whether they then are."""
        self.lease.keep()
        self._let_others_catch_up()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
        for _try in range(TRIES):
            found = find(self.live, path)
            if found is None:
                return False
            now = (found.get("spec") or {}).get("replicas", 0)
            if now != was:
                return bool(now == to)
            version = found["metadata"]["resourceVersion"]
            try:
                patch(self.live, path, {"metadata": {"resourceVersion": version}, "spec": {"replicas": to}})
            except RefusedError as error:
                if error.status not in (404, 409):
                    raise
                continue
            return True
        return False

    def tell(self, about: Mapping[str, str], reason: str, note: str, *, warning: bool = False) -> None:
        """An Event about an object. It is news, not memory: one that cannot be written is let go."""
        tell(self.live, self.lease.holder, about, reason, note, warning=warning)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It is another user's.
    return True
