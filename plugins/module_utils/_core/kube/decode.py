# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""API JSON in, a :class:`Cluster` out, in one pass.

What is not of the API's shape is refused by object and field. Kinds that measuring and planning do not need are
passed over, so that any dump will do.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from ..errors import InputError
from .model import (
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
from .selectors import Labels, label_selector, node_selector_terms
from .shapes import expected, fault

Raw = Mapping[str, Any]
T = TypeVar("T")

_NOTHING: Raw = {}
WORKLOADS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
# API groups of the kinds that are read; others have kinds of the same name (Longhorn a Node, Volcano a Job).
_GROUPS = {
    **dict.fromkeys(("Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "Namespace", "ReplicationController"), ""),
    **dict.fromkeys(("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"), "apps"),
    "PodDisruptionBudget": "policy",
    "Job": "batch",
}
# The kubelet's default pod limit, for a node written by hand that names none. Real nodes always do.
USUAL_PODS = 110
# The keys of a pod's spec that limit where it may run; with none of them the placement is the common empty one.
_PLACING = frozenset(("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "volumes", "hostNetwork"))
_IN_MEMORY = ("Memory", "HugePages")
_GROUP_NAME = "spec.schedulingGroup.podGroupName"
_INT32 = range(-(2**31), 2**31)
_PERCENTAGE = re.compile(r"[0-9]{1,9}%")


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
    if not isinstance(text, str):
        raise expected(str, text, f"{field}{key}")
    try:
        return epoch(text)
    except (ValueError, OverflowError):
        raise InputError(f"{reprlib.repr(text)} is not a time; write it as 2026-11-30T12:00:00Z", field=f"{field}{key}") from None


def _get(raw: Raw, key: str, kind: type[T], field: str, default: T) -> T:
    """A value of the type that the API has there; absent and null are the default."""
    value = raw.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise expected(kind, value, field)
    return value


def _labels(meta: Raw) -> Labels:
    labels = _get(meta, "labels", dict, "metadata.labels", {})
    for key, value in labels.items():
        if not isinstance(value, str):
            raise expected(str, value, f"metadata.labels[{key}]")
    return labels


def objects(documents: Iterable[Any], listed: set[str] | None = None) -> Iterator[Raw]:
    """The single objects of documents that may be lists (List, NodeList, PodList, …), lists of lists included.

    Items of a typed list need no kind of their own.

    Args:
        documents: The documents.
        listed: Takes the kinds of typed lists: an empty PodList says that there is no pod.

    Raises:
        InputError: A document or an item is no mapping or has no kind.
    """
    open_lists: list[tuple[str, str, str | None, Iterator[tuple[int, Any]]]] = [("input", "", None, _numbered(documents))]
    while open_lists:
        within, field, implied, members = open_lists[-1]
        for index, raw in members:
            if not isinstance(raw, Mapping):
                message = f"is {type(raw).__name__}, not an object; give what kubectl get -o json prints"
                raise InputError(message, object=within, field=f"{field}[{index}]")
            kind = raw.get("kind", implied)
            if not isinstance(kind, str) or not kind:
                raise InputError("is missing; give what kubectl get -o json prints", object=_label(raw, "object"), field="kind")
            items = raw.get("items")
            # A kind of one's own may end in List too, but its objects have names, as lists have not.
            if isinstance(items, list) or (kind.endswith("List") and not _name(raw)):
                if not isinstance(items, list | None):
                    raise expected(list, items, "items").within(object=kind)
                if listed is not None and kind != "List":
                    listed.add(kind.removesuffix("List"))
                open_lists.append((kind, "items", kind.removesuffix("List") or None, enumerate(items or ())))
                break
            yield raw if "kind" in raw else {**raw, "kind": kind}
        else:
            open_lists.pop()


def _numbered(documents: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Documents with their numbers, each let go of before the next is asked for; enumerate keeps the last."""
    number = 0
    for document in documents:
        yield number, document
        del document
        number += 1  # noqa: SIM113 - enumerate would hold on to the document


def namesake(raw: Raw) -> bool:
    """Whether an object only has the kind's name, being of another API group than the kind that is read."""
    version, group = raw.get("apiVersion"), _GROUPS.get(raw["kind"])
    return group is not None and isinstance(version, str) and group != (version.rpartition("/")[0])


def _name(raw: Raw) -> str | None:
    """The object's name, if it has one."""
    meta = raw.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    return name if isinstance(name, str) and name else None


def _label(raw: Raw, kind: str) -> str:
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, Mapping) else _NOTHING
    told = [text for key in ("namespace", "name") if (text := meta.get(key)) and isinstance(text, str)]
    return f"{kind} {'/'.join(told) or '(no name)'}"


def decode(
    documents: Iterable[Any],
    *,
    source: str | None = None,
    now: float | None = None,
    live: bool = False,
    mark: Callable[[Raw], str | None] | None = None,
) -> Cluster:
    """The cluster that documents describe.

    Args:
        documents: What ``kubectl get nodes,pods,… -A -o json`` prints: lists of any nesting or single objects.
        source: Where they came from, for messages.
        now: The time that ages are counted to; by default the newest time found in the objects.
        live: The objects were read one kind after the other while the cluster went on: a pod on a node that is not
            among them is set aside.
        mark: Gives each pod, as the API has it, its mark.

    Raises:
        InputError: An object is malformed or given twice, or a pod is on a node that is not there. It names source,
            object and field.
    """
    try:
        return _Decoder(live, mark).run(documents, now)
    except InputError as error:
        raise error.within(source=source) from None


class _Decoder:
    """Collects objects into a cluster and remembers the newest time seen."""

    def __init__(self, live: bool, mark: Callable[[Raw], str | None] | None) -> None:
        self.live = live
        self.mark = mark
        self.cluster = Cluster()
        self.newest = float("-inf")
        self.known: set[tuple[str, str | None, str]] = set()
        self.pods: list[Pod] = []
        self.owners: dict[str, Owner] = {}
        self.placements = {UNCONSTRAINED: UNCONSTRAINED}

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
        kinds: set[str] = set()
        for raw in objects(documents, kinds):
            kind = raw["kind"]
            reader = readers.get(kind)
            if reader is None or namesake(raw):
                continue
            kinds.add(kind)
            try:
                # Nodes and pods are many: they are looked at closely only when reading them fails.
                found = fault(raw) if kind not in ("Node", "Pod") else None
                if found:
                    raise found
                if not _name(raw):
                    raise fault(raw) or InputError("is missing", field="metadata.name")
                self.once(raw)
                reader(raw, raw["metadata"])
            except InputError as error:
                raise error.within(object=_label(raw, kind)) from None
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                found = fault(raw) or InputError(f"is not of the API's shape ({error})")
                raise found.within(object=_label(raw, kind)) from None
        cluster = self.cluster
        cluster.kinds = frozenset(kinds)
        cluster.now = now if now is not None else self.newest if self.newest > float("-inf") else None
        self.place()
        return cluster

    def place(self) -> None:
        """Sort pods by where they are. A finished pod may outlive its node; an active one may not."""
        cluster = self.cluster
        cluster.bound = {name: [] for name in cluster.nodes}
        for pod in self.pods:
            if not pod.active:
                cluster.finished.append(pod)
            elif not pod.node:
                # One that is being deleted waits for nothing any more: the scheduler passes it over.
                if not pod.terminating:
                    cluster.pending.append(pod)
            elif pod.node in cluster.bound:
                cluster.bound[pod.node].append(pod)
            elif self.live:
                cluster.strangers.append(pod)
            else:
                raise InputError(
                    f"node {reprlib.repr(pod.node)} is not in the input; dump nodes and pods together, all of both",
                    object=f"Pod {pod}",
                    field="spec.nodeName",
                )

    def once(self, raw: Raw) -> None:
        """Refuse an object that was read before."""
        meta = raw["metadata"]
        key = (raw["kind"], meta.get("namespace"), meta["name"])
        if key in self.known:
            raise InputError("is given twice; two dumps were put together", field="metadata.name")
        self.known.add(key)

    def seen(self, moment: float | None) -> float | None:
        if moment is not None and moment > self.newest:
            self.newest = moment
        return moment

    def conditions(self, status: Raw) -> dict[str, tuple[bool, float | None]]:
        """Whether each condition is True, and since when. Notes the times of all of them."""
        found: dict[str, tuple[bool, float | None]] = {}
        for index, condition in enumerate(_get(status, "conditions", list, "status.conditions", [])):
            since = None
            for key in ("lastHeartbeatTime", "lastTransitionTime"):
                if key in condition:
                    since = self.seen(_time(condition, key, f"status.conditions[{index}]."))
            found[condition.get("type") or ""] = condition.get("status") == "True", since
        return found

    def controller(self, meta: Raw) -> Owner | None:
        for reference in _get(meta, "ownerReferences", list, "metadata.ownerReferences", []):
            if reference.get("controller"):
                uid = reference.get("uid", "")
                owner = self.owners.get(uid) if uid else None
                if owner is None or owner.name != reference["name"] or owner.kind != reference["kind"]:
                    owner = self.owners[uid] = Owner(reference["kind"], reference["name"], uid)
                return owner
        return None

    def node(self, raw: Raw, meta: Raw) -> None:
        name = meta["name"]
        spec = _get(raw, "spec", dict, "spec", {})
        status = _get(raw, "status", dict, "status", {})
        allocatable = amounts(_get(status, "allocatable", dict, "status.allocatable", {}), "status.allocatable")
        allocatable.setdefault(PODS, USUAL_PODS)
        self.cluster.nodes[name] = Node(
            name=name,
            labels=_labels(meta),
            taints=tuple(
                Taint(taint["key"], taint.get("value") or "", taint["effect"])
                for taint in _get(spec, "taints", list, "spec.taints", [])
            ),
            unschedulable=_get(spec, "unschedulable", bool, "spec.unschedulable", False),
            ready=self.conditions(status).get("Ready", (True, None))[0],
            allocatable=allocatable,
            capacity=amounts(_get(status, "capacity", dict, "status.capacity", {}), "status.capacity"),
        )

    def pod(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        if not spec:
            raise InputError("is missing; give whole pods, as kubectl get pods -o json prints them", field="spec")
        if not _get(spec, "containers", list, "spec.containers", []):
            raise InputError("is missing or empty", field="spec.containers")
        status = _get(raw, "status", dict, "status", {})
        namespace = _get(meta, "namespace", str, "metadata.namespace", "default")
        phase = _get(status, "phase", str, "status.phase", "Pending")
        created = self.seen(_time(meta, "creationTimestamp", "metadata."))
        conditions = self.conditions(status)
        ready, ready_since = conditions.get("Ready", (False, None))
        scheduled, scheduled_since = conditions.get("PodScheduled", (False, None))
        claims = spec.get("resourceClaims")
        self.pods.append(
            Pod(
                namespace=namespace,
                name=meta["name"],
                uid=_get(meta, "uid", str, "metadata.uid", ""),
                labels=_labels(meta),
                annotations=_get(meta, "annotations", dict, "metadata.annotations", {}),
                owner=self.controller(meta) if "ownerReferences" in meta else None,
                node=_get(spec, "nodeName", str, "spec.nodeName", ""),
                nominated=_get(status, "nominatedNodeName", str, "status.nominatedNodeName", ""),
                phase=phase,
                terminating=meta.get("deletionTimestamp") is not None,
                gone_by=_time(meta, "deletionTimestamp", "metadata."),
                ready=ready,
                requests=effective_requests(spec, status),
                priority=_priority(spec),
                priority_class=_get(spec, "priorityClassName", str, "spec.priorityClassName", ""),
                placement=self.placement(raw) if _is_placed(spec) else UNCONSTRAINED,
                created=created,
                scheduled=scheduled_since if scheduled else None,
                started=self.seen(_time(status, "startTime", "status.")),
                ready_since=ready_since if ready else None,
                finished=self.finish(status) if phase in ("Succeeded", "Failed") else None,
                gated=bool(_get(spec, "schedulingGates", list, "spec.schedulingGates", [])),
                resource_claims=tuple(claim["name"] for claim in claims) if claims else (),
                local_storage=tuple(_local_storage(spec["volumes"])) if spec.get("volumes") else (),
                group=_group(spec) if "schedulingGroup" in spec else "",
                mark=self.mark(raw) if self.mark else None,
            )
        )

    def placement(self, raw: Raw) -> Placement:
        """Where the pod may run: one object for equal ones, the first of which is looked at closely."""
        placement = _placement(raw["spec"], raw["metadata"])
        known = self.placements.get(placement)
        if known is None:
            if found := fault(raw):
                raise found
            known = self.placements[placement] = placement
        return known

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
        current = (status.get("observedGeneration") or 0) >= (meta.get("generation") or 0)
        self.cluster.budgets.append(
            PodDisruptionBudget(
                namespace=_get(meta, "namespace", str, "metadata.namespace", "default"),
                name=meta["name"],
                selector=label_selector(spec.get("selector"), "spec.selector"),
                min_available=_share(spec, "minAvailable"),
                max_unavailable=_share(spec, "maxUnavailable"),
                unhealthy_policy=spec.get("unhealthyPodEvictionPolicy") or "IfHealthyBudget",
                disruptions_allowed=status.get("disruptionsAllowed") if current else None,
                current_healthy=status.get("currentHealthy") or 0,
                desired_healthy=status.get("desiredHealthy") or 0,
                expected_pods=status.get("expectedPods") or 0,
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
            retries=_retries(raw, spec) if raw["kind"] == "Job" else None,
        )

    def volume(self, raw: Raw, meta: Raw) -> None:
        spec = _get(raw, "spec", dict, "spec", {})
        required = (spec.get("nodeAffinity") or _NOTHING).get("required")
        self.cluster.volumes[meta["name"]] = Volume(
            name=meta["name"],
            labels=_labels(meta),
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
        self.cluster.namespaces[meta["name"]] = _labels(meta)


def _retries(raw: Raw, spec: Raw) -> int | None:
    """How many more failures a Job bears (``backoffLimit``, 6 by default); evictions count unless its policy ignores them."""
    policy = _get(spec, "podFailurePolicy", dict, "spec.podFailurePolicy", {})
    for rule in _get(policy, "rules", list, "spec.podFailurePolicy.rules", []):
        conditions = rule.get("onPodConditions") or ()
        if rule.get("action") == "Ignore" and any(each.get("type") == "DisruptionTarget" for each in conditions):
            return None
    failed = _get(_get(raw, "status", dict, "status", {}), "failed", int, "status.failed", 0)
    if spec.get("backoffLimitPerIndex") is not None:
        # How often each index failed is not told: only where none did may each be lost once.
        return None if _get(spec, "backoffLimitPerIndex", int, "spec.backoffLimitPerIndex", 0) > 0 and not failed else 0
    return max(0, _get(spec, "backoffLimit", int, "spec.backoffLimit", 6) - failed)


def _share(spec: Raw, key: str) -> int | str | None:
    """A number of pods, or a percentage of them."""
    value = spec.get(key)
    if isinstance(value, str):
        fits = _PERCENTAGE.fullmatch(value) is not None
    else:
        fits = value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
    if not fits:
        told = type(value).__name__ if isinstance(value, (dict, list)) else reprlib.repr(value)
        raise InputError(f"{told} is neither a number of pods nor a percentage such as 50%", field=f"spec.{key}")
    return value


def _local_storage(volumes: Iterable[Raw]) -> Iterator[str]:
    """Volumes on the node's disk. The claim of a generic ephemeral volume goes with its pod, so that it is like scratch."""
    for volume in volumes:
        scratch = volume.get("emptyDir")
        if scratch is not None:
            if not (scratch.get("medium") or "").startswith(_IN_MEMORY):
                yield f"emptyDir {volume['name']}"
        elif volume.get("hostPath") is not None:
            yield f"hostPath {volume['name']}"
        elif volume.get("ephemeral") is not None:
            yield f"ephemeral volume {volume['name']}"


def _priority(spec: Raw) -> int:
    value = _get(spec, "priority", int, "spec.priority", 0)
    if value not in _INT32:
        # A number of thousands of digits is not quoted.
        raise InputError("is out of range; the API has a number of 32 bits there", field="spec.priority")
    return value


def _group(spec: Raw) -> str:
    return _get(_get(spec, "schedulingGroup", dict, "spec.schedulingGroup", {}), "podGroupName", str, _GROUP_NAME, "")


@lru_cache(maxsize=4096)
def _toleration(key: str, operator: str, value: str, effect: str) -> Toleration:
    return Toleration(key, operator, value, effect)


def _is_placed(spec: Raw) -> bool:
    """Whether anything in a pod's spec limits where it may run."""
    return bool(_PLACING & spec.keys()) or any(
        "ports" in container for key in ("containers", "initContainers") for container in spec.get(key) or ()
    )


def _placement(spec: Raw, meta: Raw) -> Placement:
    affinity = spec.get("affinity") or _NOTHING
    node_affinity = (affinity.get("nodeAffinity") or _NOTHING).get("requiredDuringSchedulingIgnoredDuringExecution")
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    return Placement(
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
            if (constraint.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule"
        ),
        host_ports=_host_ports(spec),
        volume_claims=tuple(_claims(spec, meta)),
    )


def _claims(spec: Raw, meta: Raw) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield claim["claimName"]
        elif volume.get("ephemeral") is not None:
            # A generic ephemeral volume has a claim named after the pod and the volume.
            yield f"{meta['name']}-{volume['name']}"


def _pod_terms(affinity: Raw, kind: str, meta: Raw) -> tuple[AffinityTerm, ...]:
    terms = (affinity.get(kind) or _NOTHING).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    field = f"spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution"
    own = (meta.get("namespace") or "default",)
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
        topology_key=raw["topologyKey"],
        max_skew=raw["maxSkew"],
        min_domains=raw.get("minDomains") or 1,
        selector=selector,
        honor_affinity=(raw.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honor_taints=raw.get("nodeTaintsPolicy") == "Honor",
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
