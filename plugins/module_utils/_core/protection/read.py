# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What protection has to know beyond the model of a cluster: selectors, templates, annotations and who keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..gitops.keepers import keeper
from ..kube.decode import decode, namesake, objects
from ..kube.model import Cluster, Pod
from ..kube.selectors import LabelSelector, label_selector
from ..plan.gangs import gang_of
from ..plan.workloads import Behind, Workloads, active_pods

Raw = Mapping[str, Any]
Labels = Mapping[str, str]

MANAGER = "gpuops.defrag"
OWN_LABELS = {
    "app.kubernetes.io/managed-by": MANAGER,
    "app.kubernetes.io/part-of": MANAGER,
    "app.kubernetes.io/component": "protection",
}
"""What tells the budgets of ours from all others."""

TEMPLATED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet")
"""Kinds that are read and whose template may be changed."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A workload as its object has it.

    Attributes:
        selector: Its own ``metav1.LabelSelector``; None where it has none.
        template: Labels of the pods it makes.
        annotations: Annotations of the pods it makes.
        own: Annotations of the object itself.
        own_labels: Labels of the object itself.
        replicas: How many pods it wants; None where the kind has no such number.
        above: Whether another object made it.
        rolls: Whether a change of its template replaces the pods by itself.
        kept: The GitOps tool that keeps it, or "".
    """

    kind: str
    namespace: str
    name: str
    selector: Raw | None
    template: Labels
    annotations: Labels
    own: Labels
    own_labels: Labels
    replicas: int | None
    above: bool
    rolls: bool
    paused: bool
    kept: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget that is there.

    Attributes:
        ours: It carries all of OWN_LABELS.
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    min_available: int | str | None
    max_unavailable: int | str | None
    ours: bool

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.namespace}/{self.name}"

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Whether it selects a pod of the namespace with these labels."""
        return namespace == self.namespace and self.selector is not None and self.selector.matches(labels)


@dataclass(slots=True)
class Group:
    """Pods that one workload, or one set that works only together, is made of.

    Attributes:
        kind: The kind of the workload; of the set, such as LeaderWorkerSet, where it is one.
        behind: The workload; None for a set of several.
        gang: Its pods only work together.
        replicas: How many pods are wanted, or seen where that was not read.
        least: How few its autoscaler may leave; None without one.
    """

    kind: str
    namespace: str
    name: str
    behind: Behind | None
    gang: bool
    replicas: int
    least: int | None = None
    pods: list[Pod] = field(default_factory=list)
    controller: Controller | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def gpus(self, resource: str) -> bool:
        """Whether its pods ask for the resource."""
        return any(pod.requests.get(resource) for pod in self.pods)


@dataclass(slots=True)
class Found:
    """A cluster as protection looks at it.

    Attributes:
        groups: By kind, namespace and name.
    """

    cluster: Cluster
    controllers: dict[tuple[str, str, str], Controller]
    budgets: list[Budget]
    workloads: Workloads
    groups: dict[tuple[str, str, str], Group] = field(default_factory=dict)
    _of: dict[int, Group] = field(default_factory=dict)

    def pods(self) -> Iterator[Pod]:
        """Every active pod."""
        return active_pods(self.cluster)

    def group_of(self, pod: Pod) -> Group | None:
        """The group of a pod; None for a bare one."""
        return self._of.get(id(pod))

    def subjects(self) -> Iterator[tuple[str, Labels, str]]:
        """Namespace, labels and group of every pod, and of one pod of every workload that has none now."""
        for pod in self.pods():
            group = self.group_of(pod)
            yield pod.namespace, pod.labels, str(group or f"Pod {pod}")
        for key, controller in self.controllers.items():
            if not controller.above and key not in self.groups:
                yield controller.namespace, controller.template, str(controller)


def read(documents: Iterable[Any], *, source: str | None = None) -> Found:
    """The cluster that documents describe.

    Args:
        documents: What ``kubectl get pods,pdb,deploy,… -A -o json`` prints.
        source: Where they came from, for messages.

    Raises:
        InputError: An object is malformed. It names source, object and field.
    """
    controllers: dict[tuple[str, str, str], Controller] = {}
    budgets: list[Budget] = []
    scalers: dict[tuple[str, str, str], int] = {}
    listed: set[str] = set()

    def watched() -> Iterator[Raw]:
        for raw in objects(documents, listed):
            yield raw  # The decoder refuses what is malformed before it is looked at here.
            if namesake(raw):
                continue
            if raw["kind"] in TEMPLATED:
                controller = _controller(raw)
                controllers[controller.kind, controller.namespace, controller.name] = controller
            elif raw["kind"] == "PodDisruptionBudget":
                budgets.append(_budget(raw))
            elif raw["kind"] == "HorizontalPodAutoscaler":
                scalers.update(_scaler(raw))

    cluster = decode(watched(), source=source, live=True)
    cluster.kinds |= listed
    found = Found(cluster, controllers, budgets, Workloads(cluster))
    _group(found, scalers)
    return found


def _group(found: Found, scalers: Mapping[tuple[str, str, str], int]) -> None:
    for pod in found.pods():
        behind = found.workloads.of(pod)
        gang = gang_of(pod, behind)
        if gang:
            kind, rest = gang.split(f" {pod.namespace}/", 1)
            # Each group of a LeaderWorkerSet falls by itself: the set is what a budget is for.
            key = (kind.removeprefix("indexed "), pod.namespace, rest.partition(" group ")[0])
        elif behind:
            key = (behind.owner.kind, behind.namespace, behind.owner.name)
        else:
            continue
        group = found.groups.get(key)
        if group is None:
            alone = None if gang else behind
            group = found.groups[key] = Group(*key, alone, gang is not None, alone.wanted if alone else 0)
            group.least = scalers.get(key) if alone else None
            group.controller = found.controllers.get(key)
        group.pods.append(pod)
        found._of[id(pod)] = group
    for group in found.groups.values():
        if group.behind is None:
            group.replicas = sum(not pod.terminating for pod in group.pods)


def _controller(raw: Raw) -> Controller:
    meta, spec = raw["metadata"], raw.get("spec") or {}
    kind, selector = raw["kind"], spec.get("selector")
    template = ((spec.get("template") or {}).get("metadata")) or {}
    own, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    strategy = (spec.get("updateStrategy") or {}).get("type")
    replicas = spec.get("replicas", None if kind == "DaemonSet" else 1)
    try:
        if kind == "ReplicationController":
            selector = {"matchLabels": selector} if selector else None
        label_selector(selector, "spec.selector")
    except InputError as error:
        raise error.within(object=f"{kind} {meta.get('namespace', 'default')}/{meta['name']}") from None
    return Controller(
        kind=kind,
        namespace=meta.get("namespace", "default"),
        name=meta["name"],
        selector=selector,
        template=template.get("labels") or {},
        annotations=template.get("annotations") or {},
        own=own,
        own_labels=labels,
        replicas=replicas,
        above=any(each.get("controller") for each in meta.get("ownerReferences") or ()),
        rolls=kind not in ("ReplicaSet", "ReplicationController") and strategy != "OnDelete",
        paused=bool(spec.get("paused")),
        kept=keeper(meta).tool,
    )


def _budget(raw: Raw) -> Budget:
    meta, spec = raw["metadata"], raw.get("spec") or {}
    labels = meta.get("labels") or {}
    return Budget(
        namespace=meta.get("namespace", "default"),
        name=meta["name"],
        selector=label_selector(spec.get("selector"), "spec.selector"),
        min_available=spec.get("minAvailable"),
        max_unavailable=spec.get("maxUnavailable"),
        ours=all(labels.get(key) == value for key, value in OWN_LABELS.items()),
    )


def _scaler(raw: Raw) -> Iterator[tuple[tuple[str, str, str], int]]:
    """What an autoscaler scales, and how few it may leave: 1 where it does not say."""
    spec = raw.get("spec") or {}
    target = spec.get("scaleTargetRef") or {}
    if isinstance(target, Mapping) and isinstance(target.get("name"), str):
        least = spec.get("minReplicas")
        key = (str(target.get("kind")), raw["metadata"].get("namespace", "default"), target["name"])
        yield key, least if isinstance(least, int) else 1
