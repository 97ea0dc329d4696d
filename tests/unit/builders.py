# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects for tests, as the API prints them; whatever a test does not speak of is left out or plain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
ZONE = "topology.kubernetes.io/zone"
NODE_NAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(
    name: str,
    gpus: int | str | None = 8,
    *,
    capacity: int | str | None = None,
    product: str | None = None,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Any] | None = None,
    taints: Iterable[Object] = (),
    unschedulable: bool = False,
    ready: str | None = None,
) -> Object:
    """A node with so many GPUs (none of the resource for None), 96 cores, 768Gi and room for 110 pods."""
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110"} | ({} if gpus is None else {GPU: str(gpus)})
    offered = amounts | dict(allocatable or {})
    status: Object = {"allocatable": offered, "capacity": offered | ({} if capacity is None else {GPU: str(capacity)})}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": ready}]
    spec: Object = {"unschedulable": True} if unschedulable else {}
    if taints := list(taints):
        spec["taints"] = taints
    own = {NODE_NAME: name} | ({} if product is None else {PRODUCT: product}) | dict(labels or {})
    return {"kind": "Node", "metadata": {"name": name, "labels": own}, "spec": spec, "status": status}


def container(name: str = "main", *, requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    """A container with its requests and limits."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": name, "resources": resources, **more}


def pod(
    name: str,
    gpus: int | str | None = None,
    on: str = "",
    *,
    namespace: str = "default",
    requests: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: str | None = None,
    created: str | None = None,
    phase: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A pod of one container, on a node or pending; further names are fields of its spec."""
    wanted = ({} if gpus is None else {GPU: str(gpus)}) | dict(requests or {})
    meta: Object = {"namespace": namespace, "name": name, **(metadata or {})}
    if labels is not None:
        meta["labels"] = dict(labels)
    if owner is not None:
        kind, controller = owner.split("/", 1)
        meta["ownerReferences"] = [{"kind": kind, "name": controller, "uid": f"uid-{controller}", "controller": True}]
    if created is not None:
        meta["creationTimestamp"] = created
    told = {"phase": phase or ("Running" if on else "Pending"), **(status or {})}
    content = {"containers": [container(requests=wanted)]} | ({"nodeName": on} if on else {}) | spec
    return {"kind": "Pod", "metadata": meta, "spec": content, "status": told}


def claim(name: str, volume: str = "", *, namespace: str = "default", modes: Iterable[str] = ("ReadWriteOnce",)) -> Object:
    """A PersistentVolumeClaim, bound to a volume if one is named."""
    spec: Object = {"accessModes": list(modes)} | ({"volumeName": volume} if volume else {})
    return {"kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def volume(name: str, *, labels: Mapping[str, str] | None = None, terms: Iterable[Object] | None = None) -> Object:
    """A PersistentVolume with its labels and the node selector terms of its node affinity."""
    spec: Object = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}
    return {"kind": "PersistentVolume", "metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def namespace(name: str, **labels: str) -> Object:
    """A Namespace, which carries its name as a label."""
    return {"kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}


def uses(*claims: str) -> list[Object]:
    """Volumes of a pod that mount these claims."""
    return [{"name": f"data-{index}", "persistentVolumeClaim": {"claimName": name}} for index, name in enumerate(claims)]


def expression(key: str, operator: str, *values: str) -> Object:
    """One entry of matchExpressions; values only where there are any."""
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def packed(*rows: str, **options: Any) -> list[Object]:
    """Nodes n1, n2, … and their pods, written as ``"8: 4+2+1"``; options are those of :func:`node`."""
    objects = []
    for row, text in enumerate(rows, start=1):
        gpus, pods = text.split(":", 1)
        objects.append(node(f"n{row}", int(gpus), **options))
        sizes = [int(size) for size in pods.split("+") if size.strip()]
        objects += [pod(f"p{row}-{index}", size, f"n{row}") for index, size in enumerate(sizes, start=1)]
    return objects


def measured(objects: Iterable[Object], **options: Any) -> dict[str, Any]:
    """The audit of objects; ``details``, ``now``, ``source`` and ``live`` are its own, further names are options."""
    own = {name: options.pop(name) for name in ("details", "now", "source", "live") if name in options}
    return audit(objects, AuditOptions(**options), **own)


def laid_out(objects: Iterable[Object]) -> Layout:
    """Who is where."""
    return Layout(decode(objects))


def pod_of(layout: Layout, name: str) -> Pod:
    """The one pod of that name, bound or pending."""
    (found,) = (pod for pods in (*layout.pods.values(), layout.cluster.pending) for pod in pods if pod.name == name)
    return found


def serving(
    name: str,
    on: str = "n1",
    gpus: int | None = 1,
    *,
    owner: str | None = "ReplicaSet/llm",
    ready: bool = True,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    """A pod on a node, Ready unless told otherwise, of a ReplicaSet unless told otherwise."""
    meta = {**(metadata or {}), **({} if annotations is None else {"annotations": dict(annotations)})}
    status = {"conditions": [{"type": "Ready", "status": str(ready)}], **more.pop("status", {})}
    return pod(name, gpus, on, owner=owner, metadata=meta, status=status, **more)


def budget(
    name: str,
    labels: Mapping[str, str] | None,
    *,
    allowed: int | None = None,
    healthy: int = 0,
    needed: int = 0,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """A PodDisruptionBudget over the pods with these labels; with the status of its controller if one is told."""
    raw: Object = {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": spec | ({} if labels is None else {"selector": {"matchLabels": dict(labels)}}),
    }
    if allowed is not None:
        counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": needed}
        raw["status"] = {"observedGeneration": 1, **counts}
    return raw


def workload(kind: str, name: str, replicas: int | None = None, *, owner: str | None = None, uid: str | None = None) -> Object:
    """A controller of pods, with the uid that :func:`pod` gives owners."""
    meta: Object = {"namespace": "default", "name": name, "uid": f"uid-{name}" if uid is None else uid}
    if owner is not None:
        above, controller = owner.split("/", 1)
        meta["ownerReferences"] = [{"kind": above, "name": controller, "uid": f"uid-{controller}", "controller": True}]
    field = "parallelism" if kind == "Job" else "replicas"
    return {"kind": kind, "metadata": meta, "spec": {} if replicas is None else {field: replicas}}
