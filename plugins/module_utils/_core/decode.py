# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""API JSON in, a :class:`Cluster` out, in one pass.

What is not of the API's shape is refused by object and field. Kinds that measuring and planning do not need are
passed over, so that any dump will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from .errors import InputError
from .model import (
    HOSTNAME,
    PODS,
    UNCONSTRAINED,
    AffinityTerm,
    Cluster,
    HostPort,
    Node,
    Owner,
    Placement,
    Pod,
    PodDisruptionBudget,
    SpreadConstraint,
    Taint,
    Toleration,
    Volume,
    VolumeClaim,
    Workload,
)
from .requests import amounts, effective_requests
from .selectors import label_selector, node_selector_terms

Raw = Mapping[str, Any]
T = TypeVar("T")

_NOTHING: Raw = {}
WORKLOADS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
# The kubelet's default pod limit, for a node written by hand that names none. Real nodes always do.
USUAL_PODS = 110
# The keys of a pod's spec that limit where it may run; with none of them the placement is the common empty one.
_PLACING = frozenset(("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "volumes", "hostNetwork", "ports"))


@lru_cache(maxsize=65536)
def epoch(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time.

    Raises:
        ValueError: It is not a time.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _time(raw: Raw, key: str, field: str) -> float | None:
    text = raw.get(key)
    if text is None:
        return None
    try:
        return epoch(text)
    except (ValueError, TypeError):
        raise InputError(f"{text!r} is not a time; write it as 2026-11-30T12:00:00Z", field=f"{field}{key}") from None


def _get(raw: Raw, key: str, kind: type[T], field: str, default: T) -> T:
    """A value of the type that the API has there; absent and null are the default."""
    value = raw.get(key)
    if value is None:
        return default
    if type(value) is not kind and not isinstance(value, kind):
        raise InputError(f"is {type(value).__name__}, the API has {kind.__name__} there", field=field)
    return value


def objects(documents: Iterable[Any]) -> Iterator[Raw]:
    """The single objects of documents that may be lists (List, NodeList, PodList, …), lists of lists included.

    Items of a typed list need no kind of their own.

    Raises:
        InputError: A document or an item is no mapping or has no kind.
    """
    for document in documents:
        yield from _objects(document, None)


def _objects(raw: Any, implied: str | None) -> Iterator[Raw]:
    if not isinstance(raw, Mapping):
        raise InputError(f"an object is {type(raw).__name__}, not a mapping; give what kubectl get -o json prints")
    kind = raw.get("kind", implied)
    if not isinstance(kind, str) or not kind:
        raise InputError("has no kind; give what kubectl get -o json prints", object=_label(raw, "object"), field="kind")
    items = raw.get("items")
    if (kind.endswith("List") and "metadata" not in raw) or isinstance(items, list):
        if not isinstance(items, list):
            raise InputError("is missing or is no list", object=kind, field="items")
        for item in items:
            yield from _objects(item, kind.removesuffix("List") or None)
    else:
        yield raw if "kind" in raw else {**raw, "kind": kind}


def _label(raw: Raw, kind: str) -> str:
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, Mapping) else _NOTHING
    return f"{kind} {'/'.join(str(meta[k]) for k in ('namespace', 'name') if meta.get(k)) or '(no name)'}"


def decode(documents: Iterable[Any], *, source: str | None = None, now: float | None = None) -> Cluster:
    """The cluster that documents describe.

    Args:
        documents: What ``kubectl get nodes,pods,… -A -o json`` prints: lists of any nesting or single objects.
        source: Where they came from, for messages.
        now: The time that ages are counted to; by default the newest time found in the objects.

    Raises:
        InputError: An object is malformed or given twice, or a pod is on a node that is not there. It names source,
            object and field.
    """
    try:
        return _Decoder().run(documents, now)
    except InputError as error:
        raise error.within(source=source) from None


class _Decoder:
    """Collects objects into a cluster and remembers the newest time seen."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.newest = float("-inf")
        self.pods: dict[tuple[str, str], Pod] = {}
        self.owners: dict[str, Owner] = {}

    def run(self, documents: Iterable[Any], now: float | None) -> Cluster:
        readers: dict[str, Callable[[Raw, Raw], None]] = {
            "Node": self.node,
            "Pod": self.pod,
            "PodDisruptionBudget": self.budget,
            "PersistentVolume": self.volume,
            "PersistentVolumeClaim": self.volume_claim,
            "Namespace": self.namespace,
            **dict.fromkeys(WORKLOADS, self.workload),
        }
        kinds = set()
        for raw in objects(documents):
            kind = raw["kind"]
            kinds.add(kind)
            reader = readers.get(kind)
            if reader is None:
                continue
            try:
                meta = raw.get("metadata")
                if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
                    raise InputError("is missing", field="metadata.name")
                reader(raw, meta)
            except InputError as error:
                raise error.within(object=_label(raw, kind)) from None
            except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                raise InputError(
                    f"is not of the API's shape ({error})", object=_label(raw, kind), field=_misshapen(raw)
                ) from None
        cluster = self.cluster
        cluster.kinds = frozenset(kinds)
        cluster.now = now if now is not None else self.newest if self.newest > float("-inf") else None
        self.place()
        return cluster

    def place(self) -> None:
        """Sort pods by where they are. A finished pod may outlive its node; an active one may not."""
        cluster = self.cluster
        cluster.bound = {name: [] for name in cluster.nodes}
        for pod in self.pods.values():
            if not pod.active:
                cluster.finished.append(pod)
            elif not pod.node:
                cluster.pending.append(pod)
            elif pod.node in cluster.bound:
                cluster.bound[pod.node].append(pod)
            else:
                raise InputError(
                    f"node {pod.node!r} is not in the input; dump nodes and pods together, all of both",
                    object=f"Pod {pod}",
                    field="spec.nodeName",
                )

    def seen(self, moment: float | None) -> float | None:
        if moment is not None and moment > self.newest:
            self.newest = moment
        return moment

    def conditions(self, status: Raw) -> bool | None:
        """Whether the Ready condition is True; None where there is none. Notes the times of all conditions."""
        ready = None
        for index, condition in enumerate(_get(status, "conditions", list, "status.conditions", [])):
            if condition.get("type") == "Ready":
                ready = condition.get("status") == "True"
            for key in ("lastTransitionTime", "lastHeartbeatTime"):
                if key in condition:
                    self.seen(_time(condition, key, f"status.conditions[{index}]."))
        return ready

    def controller(self, meta: Raw) -> Owner | None:
        for reference in _get(meta, "ownerReferences", list, "metadata.ownerReferences", []):
            if reference.get("controller"):
                uid = reference.get("uid", "")
                owner = self.owners.get(uid) if uid else None
                if owner is None or owner.name != reference["name"]:
                    owner = self.owners[uid] = Owner(reference["kind"], reference["name"], uid)
                return owner
        return None

    def node(self, raw: Raw, meta: Raw) -> None:
        name = meta["name"]
        if name in self.cluster.nodes:
            raise InputError("is given twice; two dumps were put together", field="metadata.name")
        spec = _get(raw, "spec", dict, "spec", {})
        status = _get(raw, "status", dict, "status", {})
        allocatable = amounts(_get(status, "allocatable", dict, "status.allocatable", {}), "status.allocatable")
        allocatable.setdefault(PODS, USUAL_PODS)
        self.cluster.nodes[name] = Node(
            name=name,
            labels=_get(meta, "labels", dict, "metadata.labels", {}),
            taints=tuple(
                Taint(taint["key"], taint.get("value") or "", taint["effect"])
                for taint in _get(spec, "taints", list, "spec.taints", [])
            ),
            unschedulable=bool(spec.get("unschedulable")),
            ready=self.conditions(status) is not False,
            allocatable=allocatable,
            capacity=amounts(_get(status, "capacity", dict, "status.capacity", {}), "status.capacity"),
        )

    def pod(self, raw: Raw, meta: Raw) -> None:
        spec = raw.get("spec")
        if not isinstance(spec, dict):
            raise InputError("is missing; give whole pods, as kubectl get pods -o json prints them", field="spec")
        if not isinstance(spec.get("containers"), list) or not spec["containers"]:
            raise InputError("is missing or empty", field="spec.containers")
        status = _get(raw, "status", dict, "status", {})
        namespace = _get(meta, "namespace", str, "metadata.namespace", "default")
        key = (namespace, meta["name"])
        if key in self.pods:
            raise InputError("is given twice; two dumps were put together", field="metadata.name")
        phase = _get(status, "phase", str, "status.phase", "Pending")
        created = self.seen(_time(meta, "creationTimestamp", "metadata."))
        ready = self.conditions(status)
        claims = spec.get("resourceClaims")
        self.pods[key] = Pod(
            namespace=namespace,
            name=meta["name"],
            uid=_get(meta, "uid", str, "metadata.uid", ""),
            labels=_get(meta, "labels", dict, "metadata.labels", {}),
            annotations=_get(meta, "annotations", dict, "metadata.annotations", {}),
            owner=self.controller(meta) if "ownerReferences" in meta else None,
            node=_get(spec, "nodeName", str, "spec.nodeName", ""),
            nominated=_get(status, "nominatedNodeName", str, "status.nominatedNodeName", ""),
            phase=phase,
            terminating=meta.get("deletionTimestamp") is not None,
            ready=bool(ready),
            requests=effective_requests(spec, status),
            priority=_get(spec, "priority", int, "spec.priority", 0),
            placement=_placement(spec, meta) if _PLACING & spec.keys() else UNCONSTRAINED,
            created=created,
            finished=self.finish(status) if phase in ("Succeeded", "Failed") else None,
            gated=bool(spec.get("schedulingGates")),
            resource_claims=tuple(claim["name"] for claim in claims) if claims else (),
        )

    def finish(self, status: Raw) -> float | None:
        """When the last container ended, or the last condition changed where no container says."""
        moments = [
            _time(terminated, "finishedAt", f"status.containerStatuses[{index}].state.terminated.")
            for index, state in enumerate(status.get("containerStatuses") or ())
            if (terminated := (state.get("state") or _NOTHING).get("terminated"))
        ] or [_time(c, "lastTransitionTime", "status.conditions.") for c in status.get("conditions") or ()]
        known = [self.seen(moment) for moment in moments if moment is not None]
        return max((moment for moment in known if moment is not None), default=None)

    def budget(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        status = _get(raw, "status", dict, "status", {})
        current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
        self.cluster.budgets.append(
            PodDisruptionBudget(
                namespace=_get(meta, "namespace", str, "metadata.namespace", "default"),
                name=meta["name"],
                selector=label_selector(spec.get("selector"), "spec.selector"),
                min_available=spec.get("minAvailable"),
                max_unavailable=spec.get("maxUnavailable"),
                unhealthy_policy=spec.get("unhealthyPodEvictionPolicy") or "IfHealthyBudget",
                disruptions_allowed=status.get("disruptionsAllowed") if current else None,
                current_healthy=status.get("currentHealthy", 0),
                desired_healthy=status.get("desiredHealthy", 0),
                expected_pods=status.get("expectedPods", 0),
            )
        )

    def workload(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        namespace = _get(meta, "namespace", str, "metadata.namespace", "default")
        wanted = spec.get("parallelism" if raw["kind"] == "Job" else "replicas")
        self.cluster.workloads[raw["kind"], namespace, meta["name"]] = Workload(
            kind=raw["kind"],
            namespace=namespace,
            name=meta["name"],
            uid=_get(meta, "uid", str, "metadata.uid", ""),
            owner=self.controller(meta),
            replicas=wanted if isinstance(wanted, int) else None,
        )

    def volume(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        required = (spec.get("nodeAffinity") or _NOTHING).get("required")
        self.cluster.volumes[meta["name"]] = Volume(
            name=meta["name"],
            labels=_get(meta, "labels", dict, "metadata.labels", {}),
            node_terms=node_selector_terms(required["nodeSelectorTerms"], "spec.nodeAffinity.required") if required else None,
        )

    def volume_claim(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        namespace = _get(meta, "namespace", str, "metadata.namespace", "default")
        self.cluster.volume_claims[namespace, meta["name"]] = VolumeClaim(
            namespace=namespace,
            name=meta["name"],
            volume=_get(spec, "volumeName", str, "spec.volumeName", ""),
            access_modes=tuple(spec.get("accessModes") or ()),
        )

    def namespace(self, raw: Raw, meta: Raw) -> None:
        self.cluster.namespaces[meta["name"]] = _get(meta, "labels", dict, "metadata.labels", {})


@lru_cache(maxsize=4096)
def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration(key, operator, value, effect)


@lru_cache(maxsize=65536)
def _shared(placement: Placement) -> Placement:
    """One object for equal placements: pods of one workload share it."""
    return placement


def _placement(spec: Raw, meta: Raw) -> Placement:
    affinity = spec.get("affinity") or _NOTHING
    node_affinity = (affinity.get("nodeAffinity") or _NOTHING).get("requiredDuringSchedulingIgnoredDuringExecution")
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    placement = Placement(
        node_selector=tuple(sorted(_get(spec, "nodeSelector", dict, "spec.nodeSelector", {}).items())),
        node_terms=None if node_affinity is None else node_selector_terms(node_affinity["nodeSelectorTerms"], field),
        tolerations=tuple(
            _toleration(t.get("key") or "", t.get("operator") or "", t.get("value") or "", t.get("effect") or "")
            for t in spec.get("tolerations") or ()
        ),
        affinity=_pod_terms(affinity, "podAffinity", meta),
        anti_affinity=_pod_terms(affinity, "podAntiAffinity", meta),
        spread=tuple(
            _spread(constraint, meta, f"spec.topologySpreadConstraints[{index}]")
            for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ())
            if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ),
        host_ports=_host_ports(spec),
        volume_claims=tuple(
            volume["persistentVolumeClaim"]["claimName"]
            if "persistentVolumeClaim" in volume
            # A generic ephemeral volume has a claim named after the pod and the volume.
            else f"{meta['name']}-{volume['name']}"
            for volume in spec.get("volumes") or ()
            if "persistentVolumeClaim" in volume or "ephemeral" in volume
        ),
    )
    return UNCONSTRAINED if placement == UNCONSTRAINED else _shared(placement)


def _pod_terms(affinity: Raw, kind: str, meta: Raw) -> tuple[AffinityTerm, ...]:
    terms = (affinity.get(kind) or _NOTHING).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    field = f"spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution"
    own = (meta.get("namespace", "default"),)
    return tuple(
        AffinityTerm(
            topology_key=term["topologyKey"],
            selector=label_selector(term.get("labelSelector"), f"{field}[{index}].labelSelector"),
            namespaces=tuple(term.get("namespaces") or (() if term.get("namespaceSelector") is not None else own)),
            namespace_selector=label_selector(term.get("namespaceSelector"), f"{field}[{index}].namespaceSelector"),
        )
        for index, term in enumerate(terms)
    )


def _spread(raw: Raw, meta: Raw, field: str) -> SpreadConstraint:
    selector = label_selector(raw.get("labelSelector"), f"{field}.labelSelector")
    labels = meta.get("labels") or _NOTHING
    if selector is not None:
        selector = selector.also((k, labels[k]) for k in raw.get("matchLabelKeys") or () if k in labels)
    return SpreadConstraint(
        topology_key=raw.get("topologyKey", HOSTNAME),
        max_skew=raw["maxSkew"],
        min_domains=raw.get("minDomains") or 1,
        selector=selector,
        honor_affinity=raw.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _host_ports(spec: Raw) -> tuple[HostPort, ...]:
    """Ports taken on the node. On the host's network the API server makes every container port a host port."""
    on_host = spec.get("hostNetwork")
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return tuple(
        HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number)
        for container in (*spec["containers"], *sidecars)
        for port in container.get("ports") or ()
        if (number := port.get("hostPort") or (port.get("containerPort") if on_host else 0))
    )


_SHAPES: tuple[tuple[tuple[str, ...], type], ...] = tuple(
    (tuple(path.split(".")), kind)
    for path, kind in (
        ("spec.containers.*", dict),
        ("spec.containers.*.resources", dict),
        ("spec.containers.*.resources.requests", dict),
        ("spec.containers.*.resources.limits", dict),
        ("spec.containers.*.ports", list),
        ("spec.initContainers", list),
        ("spec.initContainers.*", dict),
        ("spec.initContainers.*.resources", dict),
        ("spec.initContainers.*.resources.requests", dict),
        ("spec.affinity", dict),
        ("spec.affinity.nodeAffinity", dict),
        ("spec.affinity.podAffinity", dict),
        ("spec.affinity.podAntiAffinity", dict),
        ("spec.tolerations", list),
        ("spec.tolerations.*", dict),
        ("spec.taints.*", dict),
        ("spec.topologySpreadConstraints", list),
        ("spec.topologySpreadConstraints.*", dict),
        ("spec.resourceClaims", list),
        ("spec.resourceClaims.*", dict),
        ("spec.volumes", list),
        ("spec.volumes.*", dict),
        ("spec.overhead", dict),
        ("spec.resources", dict),
        ("spec.selector", dict),
        ("metadata.ownerReferences.*", dict),
        ("status.conditions.*", dict),
        ("status.containerStatuses", list),
        ("status.containerStatuses.*", dict),
    )
)


def _misshapen(raw: Raw) -> str | None:
    """The first field that is not of the API's type; looked for only once something has gone wrong."""

    def walk(value: Any, path: tuple[str, ...], kind: type, trail: str) -> str | None:
        if value is None:
            return None
        if not path:
            return None if isinstance(value, kind) else trail
        if path[0] == "*":
            members = enumerate(value) if isinstance(value, list) else ()
            return next((f for i, v in members if (f := walk(v, path[1:], kind, f"{trail}[{i}]"))), None)
        if not isinstance(value, dict):
            return None
        return walk(value.get(path[0]), path[1:], kind, f"{trail}.{path[0]}" if trail else path[0])

    return next((found for path, kind in _SHAPES if (found := walk(raw, path, kind, ""))), None)
