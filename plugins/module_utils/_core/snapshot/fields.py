# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which fields of which kinds stay in a snapshot, and what each of them is.

A field is a name, a label key, labels, or a plain value that tells nobody anything (a number, a time, an amount, a
word of the API). A field that the tables do not have is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..errors import InputError
from .names import Names

Raw = Mapping[str, Any]
Leaf: TypeAlias = Callable[[Any, Names], Any]
Shape: TypeAlias = "Leaf | dict[str, Shape] | list[Shape]"

_KNOWN_ANNOTATION = re.compile(
    r"gpuops\.io/.+|descheduler\.alpha\.kubernetes\.io/.+|cluster-autoscaler\.kubernetes\.io/.+"
    r"|scheduling\.volcano\.sh/.+|scheduling\.x-k8s\.io/pod-group|pod-group\.scheduling\.sigs\.k8s\.io.*"
    r"|karpenter\.sh/do-not-disrupt|controller\.kubernetes\.io/pod-deletion-cost"
    r"|kubernetes\.io/config\.(mirror|source)|scheduling\.k8s\.io/group-name"
)


def _wrong(value: Any, wanted: str) -> InputError:
    return InputError(f"is {type(value).__name__}, the API has {wanted} there")


def _mapping(value: Any) -> Raw:
    if not isinstance(value, Mapping):
        raise _wrong(value, "a mapping")
    return value


def _plain(value: Any, names: Names) -> Any:
    if not isinstance(value, str | int | float):
        raise _wrong(value, "a single value")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "text")
    return value


def _name(value: Any, names: Names) -> str:
    return names.name(_text(value))


def _key(value: Any, names: Names) -> str:
    return names.key(_text(value))


def _word(value: Any, names: Names) -> str:
    return names.word(_text(value))


def _present(value: Any, names: Names) -> dict[str, Any]:
    """That it is there matters, nothing in it does."""
    return {}


def _api_version(value: Any, names: Names) -> str:
    group, slash, version = _text(value).rpartition("/")
    return (names.key(group) if "." in group else group) + slash + version


def _amounts(value: Any, names: Names) -> dict[str, Any]:
    return {resource: _plain(amount, names) for resource, amount in _mapping(value).items()}


def _labels(value: Any, names: Names) -> dict[str, str]:
    return {names.key(key): names.value(key, _text(text)) for key, text in _mapping(value).items()}


def _annotations(value: Any, names: Names) -> dict[str, str]:
    known = ((key, text) for key, text in _mapping(value).items() if _KNOWN_ANNOTATION.fullmatch(key))
    return {key: names.annotation(_text(text)) for key, text in known}


def _times_by_name(value: Any, names: Names) -> dict[str, Any]:
    return {names.name(name): _plain(time, names) for name, time in _mapping(value).items()}


def _keyed(*plain: str) -> Leaf:
    """A taint, toleration or requirement: value or values go with the key; the other fields are plain."""

    def leaf(value: Any, names: Names) -> dict[str, Any]:
        key = _text(_mapping(value).get("key") or "")
        shape: Shape = {"key": _key, "value": _of(key), "values": [_of(key)], **dict.fromkeys(plain, _plain)}
        taken: dict[str, Any] = kept(value, shape, names)
        return taken

    return leaf


def _of(key: str) -> Leaf:
    return lambda value, names: names.value(key, _text(value))


def _volumes(value: Any, names: Names) -> list[Any]:
    """Volumes that bind a pod to a place or count as local storage; secrets, config maps and the rest go."""
    return [volume for volume in kept(value, [_VOLUME], names) if len(volume) > 1]


_OWNER: Shape = {"apiVersion": _api_version, "kind": _plain, "name": _name, "uid": _name, "controller": _plain}
_META: Shape = {
    "name": _name,
    "namespace": _name,
    "uid": _name,
    "generation": _plain,
    "creationTimestamp": _plain,
    "deletionTimestamp": _plain,
    "deletionGracePeriodSeconds": _plain,
    "labels": _labels,
    "annotations": _annotations,
    "ownerReferences": [_OWNER],
}
_TOP: dict[str, Shape] = {"apiVersion": _api_version, "kind": _plain, "metadata": _META}
_CONDITION: Shape = {
    "type": _word,
    "status": _plain,
    "reason": _word,
    "lastHeartbeatTime": _plain,
    "lastTransitionTime": _plain,
}
_REQUIREMENT = _keyed("operator")
_SELECTOR: Shape = {"matchLabels": _labels, "matchExpressions": [_REQUIREMENT]}
_NODE_TERM: Shape = {
    "matchExpressions": [_REQUIREMENT],
    "matchFields": [{"key": _plain, "operator": _plain, "values": [_name]}],
}
_NODE_SELECTOR: Shape = {"nodeSelectorTerms": [_NODE_TERM]}
_POD_TERM: Shape = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "namespaces": [_name],
    "topologyKey": _key,
    "matchLabelKeys": [_key],
    "mismatchLabelKeys": [_key],
}
_POD_AFFINITY: Shape = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _plain, "podAffinityTerm": _POD_TERM}],
}
_AFFINITY: Shape = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": _NODE_SELECTOR,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _plain, "preference": _NODE_TERM}],
    },
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_SPREAD: Shape = {
    "maxSkew": _plain,
    "minDomains": _plain,
    "topologyKey": _key,
    "whenUnsatisfiable": _plain,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [_key],
    "nodeAffinityPolicy": _plain,
    "nodeTaintsPolicy": _plain,
}
_RESOURCES: Shape = {"requests": _amounts, "limits": _amounts, "claims": [{"name": _name, "request": _name}]}
_CONTAINER: Shape = {
    "name": _name,
    "resources": _RESOURCES,
    "restartPolicy": _plain,
    "ports": [{"containerPort": _plain, "hostPort": _plain, "hostIP": _name, "protocol": _plain}],
}
_VOLUME: Shape = {
    "name": _name,
    "persistentVolumeClaim": {"claimName": _name},
    "ephemeral": _present,
    "emptyDir": {"medium": _plain, "sizeLimit": _plain},
    "hostPath": _present,
}
_CONTAINER_STATUS: Shape = {
    "name": _name,
    "ready": _plain,
    "restartCount": _plain,
    "resources": _RESOURCES,
    "allocatedResources": _amounts,
    "state": {
        "running": {"startedAt": _plain},
        "terminated": {"startedAt": _plain, "finishedAt": _plain, "exitCode": _plain},
        "waiting": {"reason": _word},
    },
}


def _plain_fields(*fields: str) -> dict[str, Shape]:
    return dict.fromkeys(fields, _plain)


def _workload(spec: tuple[str, ...], status: tuple[str, ...]) -> Shape:
    return {**_TOP, "spec": {"selector": _SELECTOR, **_plain_fields(*spec)}, "status": _plain_fields(*status)}


_REPLICAS = _workload(
    ("replicas",),
    ("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas"),
)

KINDS: dict[str, Shape] = {
    "Node": {
        **_TOP,
        "spec": {"unschedulable": _plain, "taints": [_keyed("effect", "timeAdded")]},
        "status": {
            "allocatable": _amounts,
            "capacity": _amounts,
            "conditions": [_CONDITION],
            "nodeInfo": _plain_fields("kubeletVersion"),
        },
    },
    "Pod": {
        **_TOP,
        "spec": {
            "nodeName": _name,
            "nodeSelector": _labels,
            "affinity": _AFFINITY,
            "tolerations": [_keyed("operator", "effect", "tolerationSeconds")],
            "topologySpreadConstraints": [_SPREAD],
            "schedulerName": _name,
            "schedulingGates": [{"name": _key}],
            "priorityClassName": _name,
            "schedulingGroup": {"podGroupName": _name},
            "resourceClaims": [{"name": _name, "resourceClaimName": _name, "resourceClaimTemplateName": _name}],
            "overhead": _amounts,
            "resources": _RESOURCES,
            "initContainers": [_CONTAINER],
            "containers": [_CONTAINER],
            "volumes": _volumes,
            **_plain_fields("priority", "preemptionPolicy", "hostNetwork", "restartPolicy"),
            **_plain_fields("terminationGracePeriodSeconds"),
        },
        "status": {
            "phase": _plain,
            "reason": _word,
            "startTime": _plain,
            "nominatedNodeName": _name,
            "conditions": [_CONDITION],
            "containerStatuses": [_CONTAINER_STATUS],
            "initContainerStatuses": [_CONTAINER_STATUS],
            "resources": _RESOURCES,
            "allocatedResources": _amounts,
            "resourceClaimStatuses": [{"name": _name, "resourceClaimName": _name}],
        },
    },
    "PodDisruptionBudget": {
        **_TOP,
        "spec": {
            "selector": _SELECTOR,
            **_plain_fields("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"),
        },
        "status": {
            "conditions": [_CONDITION],
            "disruptedPods": _times_by_name,
            **_plain_fields("observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy"),
            **_plain_fields("expectedPods"),
        },
    },
    "ReplicaSet": _REPLICAS,
    "Deployment": _REPLICAS,
    "StatefulSet": _REPLICAS,
    # The one whose selector is bare labels.
    "ReplicationController": {
        **_TOP,
        "spec": {"selector": _labels, "replicas": _plain},
        "status": _plain_fields("observedGeneration", "replicas", "readyReplicas", "availableReplicas"),
    },
    "DaemonSet": _workload(
        (),
        ("observedGeneration", "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"),
    ),
    "Job": {
        **_TOP,
        "spec": {
            "selector": _SELECTOR,
            "podFailurePolicy": {"rules": [{"action": _plain, "onPodConditions": [_plain_fields("type", "status")]}]},
            **_plain_fields("parallelism", "completions", "completionMode", "suspend", "backoffLimit", "backoffLimitPerIndex"),
        },
        "status": _plain_fields("active", "ready", "succeeded", "failed", "startTime", "completionTime"),
    },
    "Namespace": {**_TOP, "status": _plain_fields("phase")},
    "PersistentVolume": {
        **_TOP,
        "spec": {
            "capacity": _amounts,
            "accessModes": [_plain],
            "storageClassName": _name,
            "claimRef": {"namespace": _name, "name": _name, "uid": _name},
            "nodeAffinity": {"required": _NODE_SELECTOR},
        },
        "status": _plain_fields("phase"),
    },
    "PersistentVolumeClaim": {
        **_TOP,
        "spec": {
            "accessModes": [_plain],
            "storageClassName": _name,
            "volumeName": _name,
            "resources": {"requests": _amounts},
        },
        "status": _plain_fields("phase"),
    },
    "StorageClass": {
        **_TOP,
        "provisioner": _key,
        "volumeBindingMode": _plain,
        "allowedTopologies": [{"matchLabelExpressions": [_keyed()]}],
    },
    "PriorityClass": {**_TOP, **_plain_fields("value", "globalDefault", "preemptionPolicy")},
    "HorizontalPodAutoscaler": {
        **_TOP,
        "spec": {
            "scaleTargetRef": {"apiVersion": _api_version, "kind": _plain, "name": _name},
            **_plain_fields("minReplicas", "maxReplicas"),
        },
        "status": _plain_fields("currentReplicas", "desiredReplicas"),
    },
    # Kinds whose pods stand and fall together: who owns whom is enough.
    **dict.fromkeys(("PodGroup", "JobSet", "LeaderWorkerSet", "PyTorchJob", "TrainJob", "RayCluster", "RayJob"), _TOP),
}


def kept(value: Any, shape: Shape, names: Names) -> Any:
    """The part of a value that its shape names. Null is left out: to the API it is the same as absent."""
    if isinstance(shape, dict):
        value, taken = _mapping(value), {}
        for field, inner in shape.items():
            part = value.get(field)
            if part is not None:
                try:
                    taken[field] = kept(part, inner, names)
                except InputError as error:
                    raise _at(field, error) from None
        return taken
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        items = []
        for index, item in enumerate(value):
            try:
                items.append(kept(item, shape[0], names))
            except InputError as error:
                raise _at(f"[{index}]", error) from None
        return items
    return shape(value, names)


def _at(field: str, error: InputError) -> InputError:
    inner = error.field or ""
    return InputError(error.message, field=f"{field}.{inner}".rstrip(".").replace(".[", "["))
