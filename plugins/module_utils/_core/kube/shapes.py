# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the API has in the fields that decoding reads: asked for the fault once an object has turned out to be odd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ..errors import InputError

# A mapping has these fields ("!" ends the name of one that must be there; "*" stands for every key), a list has such
# members. Amounts and times are read, and refused, by those who know them: any value will do here.
Shape: TypeAlias = "type | dict[str, Shape] | list[Shape]"

_ANY: Shape = object
_TEXTS: Shape = {"*": str}
_AMOUNTS: Shape = {"*": _ANY}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_META: Shape = {
    "name!": str,
    "namespace": str,
    "uid": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "generation": int,
    "ownerReferences": [{"kind!": str, "name!": str, "uid": str, "controller": bool}],
}
_REQUIREMENT: Shape = {"key!": str, "operator!": str, "values": [str]}
_SELECTOR: Shape = {"matchLabels": _TEXTS, "matchExpressions": [_REQUIREMENT]}
_NODE_SELECTOR: Shape = {"nodeSelectorTerms!": [{"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}]}
_POD_TERMS: Shape = {
    _REQUIRED: [{"topologyKey!": str, "labelSelector": _SELECTOR, "namespaces": [str], "namespaceSelector": _SELECTOR}]
}
_SPREAD: Shape = {
    "topologyKey!": str,
    "maxSkew!": int,
    "minDomains": int,
    "whenUnsatisfiable": str,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [str],
    "nodeAffinityPolicy": str,
    "nodeTaintsPolicy": str,
}
_RESOURCES: Shape = {"requests": _AMOUNTS, "limits": _AMOUNTS}
_CONTAINERS: Shape = [
    {
        "name": str,
        "restartPolicy": str,
        "resources": _RESOURCES,
        "ports": [{"protocol": str, "hostIP": str, "hostPort": int, "containerPort": int}],
    }
]
_STATUSES: Shape = [
    {
        "name": str,
        "resources": _RESOURCES,
        "allocatedResources": _AMOUNTS,
        "state": {"terminated": {"finishedAt": _ANY}},
    }
]
_CONDITIONS: Shape = [{"type": str, "status": str, "reason": str}]
_WORKLOAD: Shape = {"metadata!": _META, "spec": {"replicas": int, "parallelism": int}}

_KINDS: dict[str, Shape] = {
    "Node": {
        "metadata!": _META,
        "spec": {"unschedulable": bool, "taints": [{"key!": str, "value": str, "effect!": str}]},
        "status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS, "conditions": _CONDITIONS},
    },
    "Pod": {
        "metadata!": _META,
        "spec!": {
            "containers!": _CONTAINERS,
            "initContainers": _CONTAINERS,
            "nodeName": str,
            "priority": int,
            "priorityClassName": str,
            "schedulingGroup": {"podGroupName": str},
            "nodeSelector": _TEXTS,
            "affinity": {"nodeAffinity": {_REQUIRED: _NODE_SELECTOR}, "podAffinity": _POD_TERMS, "podAntiAffinity": _POD_TERMS},
            "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
            "topologySpreadConstraints": [_SPREAD],
            "volumes": [
                {
                    "name!": str,
                    "persistentVolumeClaim": {"claimName!": str},
                    "ephemeral": {},
                    "emptyDir": {"medium": str},
                    "hostPath": {},
                }
            ],
            "hostNetwork": bool,
            "overhead": _AMOUNTS,
            "resources": _RESOURCES,
            "resourceClaims": [{"name!": str}],
            "schedulingGates": [{}],
        },
        "status": {
            "phase": str,
            "nominatedNodeName": str,
            "conditions": _CONDITIONS,
            "containerStatuses": _STATUSES,
            "initContainerStatuses": _STATUSES,
            "resources": _RESOURCES,
            "allocatedResources": _AMOUNTS,
        },
    },
    "PodDisruptionBudget": {
        "metadata!": _META,
        "spec": {"selector": _SELECTOR, "unhealthyPodEvictionPolicy": str},
        "status": {
            "observedGeneration": int,
            "disruptionsAllowed": int,
            "currentHealthy": int,
            "desiredHealthy": int,
            "expectedPods": int,
        },
    },
    "PersistentVolume": {"metadata!": _META, "spec": {"nodeAffinity": {"required": _NODE_SELECTOR}}},
    "PersistentVolumeClaim": {"metadata!": _META, "spec": {"volumeName": str, "accessModes": [str]}},
    "Namespace": {"metadata!": _META},
}


def expected(kind: type, value: Any, field: str) -> InputError:
    """The error for a value of another type than the API has there."""
    wanted = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}.get(kind, "a whole number")
    return InputError(f"is {type(value).__name__}, the API has {wanted} there", field=field)


def fault(raw: Mapping[str, Any]) -> InputError | None:
    """The first field of an object that is not what the API has there, by the order of the tables above."""
    return next(_faults(raw, _KINDS.get(raw["kind"], _WORKLOAD), ""), None)


def _faults(value: Any, shape: Shape, field: str) -> Iterator[InputError]:
    kind: type = shape if isinstance(shape, type) else type(shape)
    fits = isinstance(value, kind)
    if not fits or (kind is int and isinstance(value, bool)):
        yield expected(kind, value, field)
    elif isinstance(shape, list):
        for index, member in enumerate(value):
            yield from _faults(member, shape[0], f"{field}[{index}]")
    elif isinstance(shape, dict):
        for name, inner in shape.items():
            key = name.removesuffix("!")
            path = f"{field}.{key}" if field else key
            if key == "*":
                for each, member in value.items():
                    yield from _faults(member, inner, f"{field}[{each}]")
            elif value.get(key) is not None:
                yield from _faults(value[key], inner, path)
            elif name != key:
                yield InputError("is missing", field=path)
