# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters, written as known answers are: "8: 4+2+1" is an 8-GPU node that holds pods of 4, 2 and 1 GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def node(name: str, gpus: int, *, product: str = "A100", broken: int = 0, cordoned: bool = False) -> dict[str, Any]:
    """A node with CPU and memory in plenty, some of its GPUs broken."""
    room = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {PRODUCT: product}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": room | {GPU: str(gpus - broken)},
            "capacity": room | {GPU: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, gpus: int, *, on: str | None = None, namespace: str = "team", **spec: Any) -> dict[str, Any]:
    """A pod of ReplicaSet "llm" on a node, or pending."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "llm", "uid": "llm", "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]}
        | spec
        | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running" if on else "Pending"},
    }


def held(layout: str, name: str, **options: Any) -> list[dict[str, Any]]:
    """The node ``name`` as "8: 4+2+1" describes it, with its pods."""
    gpus, *pods = layout.replace("+", ":").split(":")
    sizes = [int(size) for size in pods if size.strip()]
    return [node(name, int(gpus), **options)] + [pod(f"{name}-{i}", size, on=name) for i, size in enumerate(sizes)]


def audited(layouts: Iterable[str], *more: Mapping[str, Any], details: bool = True, **options: Any) -> dict[str, Any]:
    """The audit of nodes "gpu-0", "gpu-1", … with such layouts, and of more objects."""
    objects = [found for i, layout in enumerate(layouts) for found in held(layout, f"gpu-{i}")]
    return audit([{"kind": "List", "items": [*objects, *more]}], AuditOptions(**options), details=details)


FREE_HERE_AND_THERE = ["8: 4+2", "8: 4+2+1", "8: 2+1+1", "8: 1", "8: 8"] * 5  # 25 nodes, 85 GPUs free, none empty
HOSTILE = "<script>alert('x')</script>\" onmouseover=\"alert(1)\x1b[2J\u202e\ud800"


def hostile() -> dict[str, Any]:
    """A cluster whose every name is an attack on a terminal, a page or a spreadsheet."""
    name = f"={HOSTILE}"
    return audited(
        ["8: 4"] * 10,
        *held("8: 1+1", name, product=HOSTILE, broken=2),
        pod(HOSTILE, 1, on=name, namespace=HOSTILE),
        pod(f"{HOSTILE}-pending", 8, namespace=HOSTILE, nodeSelector={PRODUCT: "A100"}),
        pod(f"{HOSTILE}-short", 99, namespace=HOSTILE),
        currency=HOSTILE,
        gpu_hour_price=3.0,
    )


def long_names() -> dict[str, Any]:
    """A cluster whose names are as long as Kubernetes allows."""
    name, namespace = "n" * 253, "s" * 63
    return audited(
        ["8: 4"] * 12,
        *held("16: 8+4+1", name, product="P" * 63),
        pod("p" * 253, 1, on=name, namespace=namespace),
        pod("w" * 253, 8, namespace=namespace, nodeSelector={PRODUCT: "A100"}),
    )


def large(nodes: int) -> dict[str, Any]:
    """An audit with so many nodes in its details, as like one another as those of a large cluster are."""
    result = audited(FREE_HERE_AND_THERE)
    seen = result["details"]["nodes"]
    result["nodes"] = nodes
    result["details"]["nodes"] = [seen[i % len(seen)] | {"node": f"gpu-{i:05}"} for i in range(nodes)]
    return result
