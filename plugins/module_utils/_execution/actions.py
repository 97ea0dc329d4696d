# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run may do to a cluster, request by request, and what it is answered. :mod:`live` does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .._core.execution.order import Move
from .._core.execution.surge import Deployment
from .._core.kube.model import Cluster, Pod


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
    """What a run needs done. Every request may be made twice, as a run may die between it and the next."""

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


def pod_named(pod: Pod | Move) -> dict[str, str]:
    """A pod, as an Event names what it is about."""
    name = pod.pod if isinstance(pod, Move) else pod.name
    return {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": name, "uid": pod.uid}


def node_named(name: str) -> dict[str, str]:
    """A node, as an Event names what it is about."""
    return {"apiVersion": "v1", "kind": "Node", "name": name}
