# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Takes out of API objects what must not leave a cluster, and keeps what measuring and planning need.

One table says per kind which fields stay and what each field is: a name, a label key, labels, or a plain value that
tells nobody anything (a number, a time, an amount, a word of the API). A field that the table does not have is
dropped. Hashing walks the same table, so that no field can be kept and forgotten by it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..cluster.pools import PRODUCT_LABELS
from ..errors import InputError
from ..kube.decode import namesake
from ..kube.selectors import LabelSelector

Raw = Mapping[str, Any]
Leaf: TypeAlias = Callable[[Any, "Names"], Any]
Shape: TypeAlias = "Leaf | dict[str, Shape] | list[Shape]"

_KNOWN_ANNOTATION = re.compile(
    r"gpuops\.io/.+|descheduler\.alpha\.kubernetes\.io/.+|cluster-autoscaler\.kubernetes\.io/.+"
    r"|scheduling\.volcano\.sh/.+|pod-group\.scheduling\.sigs\.k8s\.io.*"
    r"|karpenter\.sh/do-not-disrupt|controller\.kubernetes\.io/pod-deletion-cost"
    r"|kubernetes\.io/config\.(mirror|source)|scheduling\.k8s\.io/group-name"
)

# Domains whose label keys, taint keys and API groups are public knowledge.
_KNOWN_DOMAIN = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|x-k8s\.io|gpuops\.io|nvidia\.com|amd\.com|intel\.com|habana\.ai"
    r"|karpenter\.sh|k8s\.aws|amazonaws\.com|cloud\.google\.com|azure\.com"
    r"|volcano\.sh|kubeflow\.org|ray\.io|kserve\.io|argoproj\.io|openshift\.io)"
)
# Under these two, operators choose the part after the slash themselves.
_CHOSEN_DOMAINS = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
_KNOWN_KEYS = frozenset(("pod-template-hash", "controller-revision-hash", "controller-uid", "job-name"))

# Labels whose values describe a GPU, not its owner.
_GPU_LABEL = re.compile(
    "|".join(map(re.escape, PRODUCT_LABELS)) + r"|kubernetes\.azure\.com/accelerator"
    r"|nvidia\.com/(gpu\.(count|memory|family|mode|replicas|sharing-strategy|compute\.(major|minor)|present)"
    r"|mig\.(strategy|capable)|mig-.+|mps\.capable|vgpu\.present|cuda\..+)"
    r"|(beta\.)?amd\.com/gpu\.(vram|family|cu-count|simd-count|device-id)(\..+)?"
    r"|gpu\.nvidia\.com/(class|model|count|vram)"
    r"|cloud\.google\.com/gke-(accelerator-count|gpu-partition-size|gpu-sharing-strategy|max-shared-clients-per-gpu)"
    r"|karpenter\.k8s\.aws/instance-gpu-(manufacturer|count|memory)"
)
# A volume that several zones reach carries them in one label, joined by "__".
_ZONE_LABEL = re.compile(r"(topology|failure-domain\.beta)\.kubernetes\.io/(zone|region)")

# Texts that stay wherever they stand: they are the same in every cluster.
_WORDS = frozenset(
    (
        *("", "true", "false", "present", "spot", "on-demand", "file", "http", "api", "0.0.0.0", "127.0.0.1", "::"),
        *("amd64", "arm64", "ppc64le", "s390x", "linux", "windows", "control-plane", "master", "worker"),
        *("default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"),
        *("system-cluster-critical", "system-node-critical"),
    )
)
_NUMBER = re.compile(r"[+-]?[0-9]+")
_PUBLIC_VALUE = re.compile(r"(?i:true|false)|[+-]?[0-9]{1,18}(\.[0-9]{1,9})?|([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|ms|s|m|h|d))+")
_CAMEL_CASE = re.compile(r"[A-Z][A-Za-z0-9]{1,63}")


class Names:
    """What becomes of each kind of text. Here: nothing."""

    def name(self, text: str) -> str:
        """A name or uid of an object, container, volume, scheduler, …"""
        return text

    def key(self, text: str) -> str:
        """The key of a label, taint or annotation, or another text that begins with a domain."""
        return text

    def value(self, key: str, text: str) -> str:
        """The value that goes with the key of a label or taint."""
        return text

    def annotation(self, text: str) -> str:
        """The value of a known annotation."""
        return text

    def word(self, text: str) -> str:
        """A reason or a condition's type: a word in CamelCase, as the API has it."""
        return text


class Hasher(Names):
    """Puts a token for every text that could tell something, the same token for the same text everywhere.

    A token is a keyed hash (HMAC-SHA256), a valid name for any object: whoever lacks the key cannot try names out.

    Args:
        key: The secret.
        compared: Label and taint keys that some pod compares by Gt or Lt; numbers under them stay.
    """

    def __init__(self, key: str, compared: Iterable[str] = ()) -> None:
        if not key:
            raise InputError("is empty; give a long random text and keep it secret", field="hash_key")
        self._secret = key.encode()
        self._compared = frozenset(compared)
        self._tokens: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def name(self, text: str) -> str:
        if text in _WORDS:
            return text
        token = self._tokens.get(text)
        if token is None:
            token = "h-" + hmac.digest(self._secret, text.encode(), "sha256").hex()[:12]
            if self._texts.setdefault(token, text) != text:
                raise InputError("two names get one token under this hash_key; choose another one")
            self._tokens[text] = token
        return token

    def join(self, text: str, parts: tuple[str, ...]) -> None:
        """From now on the text, which Kubernetes made of the parts, is their tokens joined by a dash."""
        self._tokens[text] = "-".join(map(self.name, parts))

    def key(self, text: str) -> str:
        domain, slash, rest = text.partition("/")
        if domain in _CHOSEN_DOMAINS:
            return domain + slash + self.name(rest)
        return text if text in _KNOWN_KEYS or _KNOWN_DOMAIN.fullmatch(domain) else self.name(text)

    def value(self, key: str, text: str) -> str:
        if _GPU_LABEL.fullmatch(key) or (key in self._compared and _NUMBER.fullmatch(text)):
            return text
        if _ZONE_LABEL.fullmatch(key):
            return "__".join(map(self.name, text.split("__")))
        return self.name(text)

    def annotation(self, text: str) -> str:
        return text if _PUBLIC_VALUE.fullmatch(text) else self.name(text)

    def word(self, text: str) -> str:
        return text if _CAMEL_CASE.fullmatch(text) else self.name(text)


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
        kept: dict[str, Any] = _kept(value, shape, names)
        return kept

    return leaf


def _of(key: str) -> Leaf:
    return lambda value, names: names.value(key, _text(value))


def _volumes(value: Any, names: Names) -> list[Any]:
    """Volumes that bind a pod to a place or count as local storage; secrets, config maps and the rest go."""
    return [volume for volume in _kept(value, [_VOLUME], names) if len(volume) > 1]


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

_KINDS: dict[str, Shape] = {
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
    "Job": _workload(
        ("parallelism", "completions", "completionMode", "suspend"),
        ("active", "ready", "succeeded", "failed", "startTime", "completionTime"),
    ),
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


def _kept(value: Any, shape: Shape, names: Names) -> Any:
    """The part of a value that its shape names. Null is left out: to the API it is the same as absent."""
    if isinstance(shape, dict):
        value, kept = _mapping(value), {}
        for field, inner in shape.items():
            part = value.get(field)
            if part is not None:
                try:
                    kept[field] = _kept(part, inner, names)
                except InputError as error:
                    raise _at(field, error) from None
        return kept
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        items = []
        for index, item in enumerate(value):
            try:
                items.append(_kept(item, shape[0], names))
            except InputError as error:
                raise _at(f"[{index}]", error) from None
        return items
    return shape(value, names)


def _at(field: str, error: InputError) -> InputError:
    inner = error.field or ""
    return InputError(error.message, field=f"{field}.{inner}".rstrip(".").replace(".[", "["))


def _identity(item: Raw) -> tuple[str, str, str]:
    meta = item.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    return str(item["kind"]), str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _rewrite(objects: Iterable[Raw], names: Names) -> list[dict[str, Any]]:
    result = []
    for item in objects:
        shape = None if namesake(item) else _KINDS.get(item["kind"])
        if shape is None:
            continue
        try:
            result.append(_kept(item, shape, names))
        except InputError as error:
            kind, namespace, name = _identity(item)
            raise error.within(object=f"{kind} {namespace + '/' if namespace else ''}{name or '(no name)'}") from None
    return result


def reduce(objects: Iterable[Raw]) -> list[dict[str, Any]]:
    """The objects without what measuring, planning and placement do not look at, in the order given.

    Kinds, fields and annotations are kept by name; all others go, so that neither secrets, environment, arguments,
    commands, images, addresses nor messages remain. What is kept has the API's own shape: the result measures like
    the input, and reducing it again changes nothing.

    Args:
        objects: Single objects (see :func:`.decode.objects`), each with its kind.

    Raises:
        InputError: A field is not of the API's type; it names object and field.
    """
    return _rewrite(objects, Names())


def hash_names(objects: Iterable[Raw], key: str) -> list[dict[str, Any]]:
    """Like :func:`reduce`, with tokens for all names, labels and other text that is the cluster's own.

    Equal texts have equal tokens, within one result and between results of one key, so that owners, selectors,
    affinities, tolerations and topologies match as before and the result measures as before but for the names.
    What stays readable is what every cluster has: kinds, resource names, amounts, times, well-known label and taint
    keys, GPU descriptions, numbers that are compared, ``kube-system`` and its like. The result is sorted, as the
    order of names would tell something about them.

    Args:
        objects: Single objects, each with its kind; reduced or not.
        key: The secret of the hash.

    Raises:
        InputError: A field is not of the API's type, or the key is empty or gives two names one token.
    """
    kept = reduce(objects)
    hasher = Hasher(key, compared=_compared_keys(kept))
    # The claim of an ephemeral volume is named after pod and volume, and must be so again.
    claims = [
        (item["metadata"]["name"], volume["name"])
        for item in kept
        for volume in item.get("spec", {}).get("volumes", ())
        if "ephemeral" in volume
    ]
    # The shortest first, as the name of a claim may itself be part of another's.
    for parts in sorted(claims, key=lambda parts: len("-".join(parts))):
        hasher.join("-".join(parts), parts)
    return sorted(_rewrite(kept, hasher), key=_identity)


def _compared_keys(value: Any) -> Iterator[str]:
    """The keys of all requirements and tolerations that compare numbers."""
    if isinstance(value, dict):
        if value.get("operator") in ("Gt", "Lt") and "key" in value:
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _compared_keys(part)


def select_nodes(objects: Iterable[Raw], selector: LabelSelector) -> list[Raw]:
    """The objects without the nodes that the selector does not match and without the pods bound to them."""
    objects = list(objects)
    names = {
        item["metadata"]["name"]
        for item in objects
        if item["kind"] == "Node" and selector.matches(item["metadata"].get("labels") or {})
    }

    def stays(item: Raw) -> bool:
        if item["kind"] == "Node":
            return item["metadata"]["name"] in names
        bound = item["kind"] == "Pod" and item["spec"].get("nodeName")
        return not bound or bound in names

    return [item for item in objects if stays(item)]
