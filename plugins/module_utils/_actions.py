# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What carrying out a plan does to a live cluster: each request by itself, and nothing decided."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from ._core.errors import InputError
from ._core.execution.order import Move
from ._core.execution.record import read_state
from ._core.execution.steer import TAINT
from ._core.execution.surge import Deployment, read_deployment
from ._core.kube.decode import decode, epoch
from ._core.kube.model import Cluster, Pod
from ._kubernetes import EVERYTHING, Live, RefusedError
from ._prometheus import Prometheus

NAME = "gpuops-defrag"
KEY = "state.json"
LEASE_SECONDS = 30
"""So long a run that died keeps others from starting."""
PATIENCE = 90.0
"""Seconds for which an API server that is away is waited for."""
CATCHING_UP = 15.0
"""Seconds that the scheduler's watches may take until they are up to date again after the server was away."""
TRIES = 10
"""So often what somebody else has just changed is read again and changed anew."""

# What the Eviction API answers with 500; it will never let such a pod go.
_SEVERAL = "more than one PodDisruptionBudget"
_MERGE = "application/merge-patch+json"
_JSON = "application/json-patch+json"
_LABELS: Mapping[str, str] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "gpuops.defrag"}


class Leaving(StrEnum):
    """What the server says to an eviction."""

    DONE = "Done"
    GONE = "Gone"
    BLOCKED = "Blocked"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """The same with particulars: what the server says, when to ask again, and what to call it if it never lets the pod go."""

    leaving: Leaving
    detail: str = ""
    after: float | None = None
    verdict: str = "BudgetExhausted"


class LeaseLostError(Exception):
    """Another run has taken over: nothing more may be written, as it cleans up."""


class Actions(Protocol):
    """What :mod:`_carry_out` needs done. Every request may be made twice, as a run may die between it and the next."""

    def now(self) -> float: ...

    def wait(self, seconds: float) -> None: ...

    def locked(self) -> str | None: ...

    def lock(self) -> str | None: ...

    def release(self) -> None: ...

    def load(self) -> str | None: ...

    def save(self, text: str) -> None: ...

    def annotations(self) -> Mapping[str, Mapping[str, str]]: ...

    def fires(self) -> str | None: ...

    def read(self) -> Cluster: ...

    def pods(self, namespaces: Iterable[str]) -> list[Pod]: ...

    def evict(self, move: Move, grace: int | None) -> Answer: ...

    def taint(self, node: str, on: bool) -> bool: ...

    def mark_node(
        self, node: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], closed: bool | None
    ) -> bool: ...

    def mark_pod(self, pod: Pod | Move, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> bool: ...

    def deployment(self, namespace: str, name: str) -> Deployment | None: ...

    def autoscaled(self, namespace: str) -> set[tuple[str, str]]: ...

    def scale(self, namespace: str, name: str, was: int, to: int) -> bool: ...

    def tell(self, about: Mapping[str, str], reason: str, note: str, *, warning: bool = False) -> None: ...


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
        self.namespace = namespace
        self.holder = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._mark = mark
        self._pause = pause
        self._while_pid = while_pid
        self._renewed: float | None = None
        self._version: str | None = None
        self._text: str | None = None
        self._annotations: dict[str, Mapping[str, str]] = {}
        self._unsure: set[str] = set()
        self._taints: dict[str, list[dict[str, Any]]] = {}

    def now(self) -> float:
        """The server's clock, in seconds since 1970."""
        return time.time() if self.live.now is None else self.live.now

    def wait(self, seconds: float) -> None:
        """Let time pass, and keep the Lease."""
        time.sleep(seconds)
        self._stay_wanted()
        self._keep()

    def _stay_wanted(self) -> None:
        """End the run, as SIGTERM does, once the process is gone that it runs for."""
        if self._while_pid is not None and not _runs(self._while_pid):
            raise SystemExit(f"process {self._while_pid} is gone, for which this runs")

    # One at a time.

    @property
    def _lease(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def locked(self) -> str | None:
        """Who else holds the Lease."""
        return self._holder(self._find(f"{self._lease}/{NAME}"))

    def lock(self) -> str | None:
        """Take the Lease; whoever holds it where that cannot be."""
        path = f"{self._lease}/{NAME}"
        found = self._find(path)
        if holder := self._holder(found):
            return holder
        try:
            if found is None:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self._meta(), "spec": self._held()}
                self.live.send("post", self._lease, body)
            else:
                self._patch(path, {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "spec": self._held()})
        except RefusedError as error:
            if error.status != 409:
                raise
            # Another was first; or we were, and the answer was lost.
            found = self._find(path)
            if ((found or {}).get("spec") or {}).get("holderIdentity") != self.holder:
                return self._holder(found) or "another run"
        self._renewed = time.monotonic()
        return None

    def _holder(self, lease: Mapping[str, Any] | None) -> str | None:
        """Who else holds the Lease, and has not let it run out."""
        spec = (lease or {}).get("spec") or {}
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        if not holder or holder == self.holder:
            return None
        lasting = spec.get("leaseDurationSeconds") or LEASE_SECONDS
        return None if renewed is None or epoch(renewed) + lasting < self.now() else str(holder)

    def _held(self) -> dict[str, Any]:
        moment = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": self.holder, "leaseDurationSeconds": LEASE_SECONDS, "acquireTime": moment, "renewTime": moment}

    def _keep(self) -> None:
        """Renew the Lease if a third of its time has passed; before every write, so that none is made without it."""
        if self._renewed is None or time.monotonic() - self._renewed < LEASE_SECONDS / 3:
            return
        path = f"{self._lease}/{NAME}"
        for _try in range(TRIES):
            found = self._find(path)
            if found is None or (found.get("spec") or {}).get("holderIdentity") != self.holder:
                self._renewed = None
                raise LeaseLostError(f"another run has taken the Lease {self.namespace}/{NAME}")
            held = self._held()
            del held["acquireTime"]
            try:
                self._patch(path, {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "spec": held})
            except RefusedError as error:
                if error.status != 409:
                    raise
                continue
            self._renewed = time.monotonic()
            return
        raise LeaseLostError(f"the Lease {self.namespace}/{NAME} cannot be renewed")

    def release(self) -> None:
        """Give the Lease back, if it is still ours."""
        if self._renewed is None:
            return
        self._renewed = None
        path = f"{self._lease}/{NAME}"
        found = self._find(path)
        if found and found["spec"].get("holderIdentity") == self.holder:
            given = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "spec": {"holderIdentity": ""}}
            try:
                self._patch(path, given)
            except RefusedError as error:
                # It has run out and another took it; or it is given back, and the answer was lost.
                if error.status != 409:
                    raise

    # Memory.

    @property
    def _maps(self) -> str:
        return _config_maps(self.namespace)

    def load(self) -> str | None:
        """What was saved last; None if nothing ever was."""
        found = self._find(f"{self._maps}/{NAME}")
        self._version = found["metadata"]["resourceVersion"] if found else None
        self._annotations[f"ConfigMap {self.namespace}/{NAME}"] = ((found or {}).get("metadata") or {}).get("annotations") or {}
        self._text = None if found is None else str((found.get("data") or {}).get(KEY, ""))
        # A ConfigMap that a user made for its annotation alone.
        self._text = self._text or None
        return self._text

    def save(self, text: str) -> None:
        """Save; what somebody else wrote meanwhile is never overwritten.

        Raises:
            InputError: Somebody else wrote.
        """
        self._keep()
        if text == self._text:
            return
        for _try in range(TRIES):
            try:
                if self._version is None:
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._meta(), "data": {KEY: text}}
                    found = self.live.send("post", self._maps, body)
                else:
                    given = {"metadata": {"resourceVersion": self._version}, "data": {KEY: text}}
                    found = self._patch(f"{self._maps}/{NAME}", given)
            except RefusedError as error:
                if error.status not in (404, 409):
                    raise
                before = self._text
                # Its annotations may have changed, or our own request was done although its answer was lost.
                if self.load() not in (before, text):
                    break
                if self._text == text:
                    return
                continue
            self._version, self._text = found["metadata"]["resourceVersion"], text
            return
        raise InputError("was changed by somebody else", source=self.live.name, object=f"ConfigMap {self.namespace}/{NAME}")

    def annotations(self) -> Mapping[str, Mapping[str, str]]:
        """Where a user may ask for a pause, as it is now."""
        self.load()
        system = self._find("/api/v1/namespaces/kube-system") or {}
        self._annotations["Namespace kube-system"] = (system.get("metadata") or {}).get("annotations") or {}
        return self._annotations

    def fires(self) -> str | None:
        """Why the metrics ask for a pause; None if they do not."""
        if self._pause is None:
            return None
        prometheus, queries = self._pause
        return prometheus.fires(queries)

    # What is there.

    def read(self) -> Cluster:
        """Everything that planning looks at, as it is now."""
        self._keep()
        live = self.live
        cluster = live.read(
            EVERYTHING, lambda documents: decode(documents, source=live.name, now=live.now, live=True, mark=self._mark)
        )
        # Saves asking for each: what has no taint needs no closer look.
        self._taints = {name: [] for name, node in cluster.nodes.items() if not node.taints}
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
        self._keep()
        options: dict[str, Any] = {"preconditions": {"uid": move.uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": move.namespace, "name": move.pod},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{move.namespace}/pods/{move.pod}/eviction"
        self._let_others_catch_up()
        try:
            self.live.send("post", path, body, once=True)
        except InputError as error:
            self._unsure.add(move.uid)
            return Answer(Leaving.BLOCKED, str(error), verdict="Refused")
        except RefusedError as error:
            if error.status == 404 or (error.status == 409 and "UID" in str(error)):
                # One whose answer was lost may have been granted.
                return Answer(Leaving.DONE if move.uid in self._unsure else Leaving.GONE, str(error))
            if _SEVERAL in str(error):
                return Answer(Leaving.REFUSED, str(error), None, "Refused")
            # A server that has just started may say no to what it later allows.
            return Answer(
                Leaving.BLOCKED, str(error), error.after, "BudgetExhausted" if error.status in (409, 429) else "Refused"
            )
        return Answer(Leaving.DONE)

    def _let_others_catch_up(self) -> None:
        """A server that was away leaves the scheduler behind: it would not know of the taints yet."""
        if self.live.broke is not None:
            behind = CATCHING_UP - (time.perf_counter() - self.live.broke)
            if behind > 0:
                self.wait(behind)

    def taint(self, node: str, on: bool) -> bool:
        """Put our soft taint on a node or take it off, and leave all others as they are; False if the node is gone."""
        self._keep()
        path = f"/api/v1/nodes/{node}"
        wanted = {"key": TAINT.key, "effect": TAINT.effect}
        for attempt in range(TRIES):
            known = self._taints.pop(node, None)
            if known is None:
                found = self._find(path)
                if found is None:
                    return False
                known = found["spec"].get("taints") or []
            places = [place for place, taint in enumerate(known) if taint.items() >= wanted.items()]
            if on == bool(places):
                self._taints[node] = known
                return True
            # The test fails if the list has changed since it was read.
            changes: list[dict[str, Any]] = [{"op": "test", "path": "/spec/taints", "value": known or None}]
            if not on:
                changes.append({"op": "remove", "path": f"/spec/taints/{places[0]}"})
            elif known:
                changes.append({"op": "add", "path": "/spec/taints/-", "value": wanted})
            else:
                changes.append({"op": "add", "path": "/spec/taints", "value": [wanted]})
            try:
                found = self.live.send("patch", path, changes, content=_JSON)
            except RefusedError as error:
                if error.status == 404:
                    return False
                if error.status not in (409, 422) or attempt == TRIES - 1:
                    raise
                continue
            self._taints[node] = found["spec"].get("taints") or []
            return True
        return True

    def mark_node(
        self, node: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], closed: bool | None
    ) -> bool:
        """Set labels and annotations of a node (None takes one away), and close or open it; False if it is gone."""
        self._keep()
        body: dict[str, Any] = {"metadata": {"labels": labels, "annotations": annotations}}
        if closed is not None:
            body["spec"] = {"unschedulable": closed}
        return self._changed(f"/api/v1/nodes/{node}", body)

    def mark_pod(self, pod: Pod | Move, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> bool:
        """Set labels and annotations of this very pod; False if it is gone."""
        self._keep()
        name = pod.pod if isinstance(pod, Move) else pod.name
        body = {"metadata": {"uid": pod.uid, "labels": labels, "annotations": annotations}}
        return self._changed(f"/api/v1/namespaces/{pod.namespace}/pods/{name}", body)

    def _changed(self, path: str, body: Mapping[str, Any]) -> bool:
        try:
            self._patch(path, body)
        except RefusedError as error:
            # 409 and 422: the uid is another one.
            if error.status in (404, 409, 422):
                return False
            raise
        return True

    def deployment(self, namespace: str, name: str) -> Deployment | None:
        """A Deployment, as it is now."""
        found = self._find(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        return None if found is None else read_deployment(found)

    def autoscaled(self, namespace: str) -> set[tuple[str, str]]:
        """Kind and name of what HorizontalPodAutoscalers scale in a namespace."""
        found = self.live.send("get", f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
        targets = [item["spec"]["scaleTargetRef"] for item in found["items"]]
        return {(target["kind"], target["name"]) for target in targets}

    def scale(self, namespace: str, name: str, was: int, to: int) -> bool:
        """Set a Deployment's replicas, if they are what they were; whether they then are."""
        self._keep()
        self._let_others_catch_up()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
        for _try in range(TRIES):
            found = self._find(path)
            if found is None:
                return False
            now = (found.get("spec") or {}).get("replicas", 0)
            if now != was:
                return bool(now == to)
            version = found["metadata"]["resourceVersion"]
            try:
                self._patch(path, {"metadata": {"resourceVersion": version}, "spec": {"replicas": to}})
            except RefusedError as error:
                if error.status not in (404, 409):
                    raise
                continue
            return True
        return False

    def tell(self, about: Mapping[str, str], reason: str, note: str, *, warning: bool = False) -> None:
        """An Event about an object. It is news, not memory: one that cannot be written is let go."""
        namespace = about.get("namespace") or "default"
        moment = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{about['name'][:200]}.{uuid.uuid4().hex[:16]}"},
            "eventTime": moment,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "action": reason,
            "note": note[:1000],
            "regarding": about,
            "reportingController": "gpuops.io/defrag",
            "reportingInstance": self.holder[:128],
        }
        with suppress(RefusedError, InputError):
            self.live.send("post", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body, once=True)

    def _find(self, path: str) -> dict[str, Any] | None:
        try:
            return self.live.send("get", path)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    def _patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.live.send("patch", path, body, content=_MERGE)

    def _meta(self) -> dict[str, Any]:
        return _named(self.namespace)


def recall(live: Live, namespace: str) -> dict[str, Any]:
    """The ConfigMap, or what is the same as one that holds nothing.

    Args:
        live: The connection.
        namespace: Where it is.

    Raises:
        RefusedError: It may not be read.
    """
    try:
        return live.send("get", f"{_config_maps(namespace)}/{NAME}")
    except RefusedError as error:
        if error.status != 404:
            raise
    return {"metadata": {}, "data": {}}


def remember(live: Live, namespace: str, key: str, text: str) -> None:
    """Write one key of the ConfigMap and leave the others to those whose they are."""
    path = _config_maps(namespace)
    for create in (False, True, False):
        try:
            if create:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(namespace), "data": {key: text}}
                live.send("post", path, body)
            else:
                live.send("patch", f"{path}/{NAME}", {"data": {key: text}}, content=_MERGE)
        except RefusedError as error:
            # It is not there yet, or somebody else has just made it.
            if error.status != (409 if create else 404):
                raise
            continue
        return
    raise InputError("comes and goes", source=live.name, object=f"ConfigMap {namespace}/{NAME}")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It is another user's.
    return True


def cooling(live: Live, namespace: str) -> tuple[dict[str, float], list[str]]:
    """What was moved and is to be left alone, and until when; and what is not known of it.

    Args:
        live: The connection.
        namespace: Where the ConfigMap is.
    """
    try:
        found = recall(live, namespace)
    except RefusedError as error:
        if error.status == 403:
            return {}, [f"may not get ConfigMap {namespace}/{NAME}: what was moved a moment ago is not known"]
        raise InputError(str(error), source=live.name) from None
    try:
        state = read_state((found.get("data") or {}).get(KEY) or None)
    except InputError as error:
        return {}, [f"ConfigMap {namespace}/{NAME}: {error}: what was moved a moment ago is not known"]
    return state.cooling(time.time() if live.now is None else live.now), []


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _named(namespace: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": NAME, "labels": dict(_LABELS)}
