# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands on a test cluster: GPU nodes, and pods that the real scheduler places before some of them leave again."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .api import Api, ApiError, Object, all_at_once
from .processes import wait_until

GPU = "nvidia.com/gpu"
PRODUCTS = ("NVIDIA-A100-SXM4-80GB",)
APPS = "/apis/apps/v1"
NAMESPACES = ("team-a", "team-b", "team-c", "team-d", "team-e")


@dataclass(frozen=True, slots=True)
class Shape:
    """What to put on a cluster; the same shape asks for the same nodes and workloads.

    Attributes:
        nodes: GPU nodes.
        gpus: GPUs on each.
        products: Product labels, dealt out in turn.
        labels: Labels of every GPU node.
        taints: Taints of every GPU node.
        cpu_nodes: Nodes without GPUs.
        fill: Share of the GPUs that pods ask for at first.
        keep: Share of these pods that stay when the others have left; one on every node does.
        sizes: How often pods of each size are asked for: {GPUs: weight}.
        cold_start: Seconds from started to Ready.
        seed: Of the choices made.
    """

    nodes: int = 25
    gpus: int = 8
    products: tuple[str, ...] = PRODUCTS
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    cpu_nodes: int = 2
    fill: float = 0.95
    keep: float = 0.68
    sizes: Mapping[int, int] | None = None
    cold_start: float = 0.0
    seed: int = 1


def node(
    name: str, gpus: int, *, product: str | None = None, labels: Mapping[str, str] | None = None, taints: Iterable[Object] = ()
) -> Object:
    """A node with so many GPUs and 96 cores, 768Gi and 110 pods."""
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", "ephemeral-storage": "1Ti"} | ({GPU: str(gpus)} if gpus else {})
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"} | dict(labels or {})
    if product:
        own |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def deployment(
    name: str, namespace: str, replicas: int, gpus: int, *, cold_start: float = 0, annotations: Mapping[str, str] | None = None
) -> Object:
    """A Deployment of pods with so many GPUs, 8 cores and 64Gi for each of these."""
    amounts = {"cpu": str(max(1, 8 * gpus)), "memory": f"{max(1, 64 * gpus)}Gi"} | ({GPU: str(gpus)} if gpus else {})
    own = dict(annotations or {}) | ({"test.gpuops.io/cold-start": f"{cold_start:g}s"} if cold_start else {})
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "example/llm",
        "resources": {"requests": amounts, "limits": {GPU: str(gpus)} if gpus else {}},
    }
    template = {
        "metadata": {"labels": labels, "annotations": own},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def add_nodes(api: Api, nodes: Iterable[Object]) -> None:
    """Create nodes and wait until every one is Ready and open."""
    wanted = list(nodes)
    all_at_once(lambda each: api.create("/api/v1/nodes", each), wanted)
    names = {each["metadata"]["name"] for each in wanted}

    def ready() -> bool:
        found = [n for n in api.items("/api/v1/nodes") if n["metadata"]["name"] in names]
        # The controllers add, and take away again, a taint for a node that is not ready.
        closed = [n for n in found for t in n["spec"].get("taints", ()) if t["key"] == "node.kubernetes.io/not-ready"]
        return len(found) == len(names) and not closed and all(is_ready(n) for n in found)

    wait_until(ready, f"{len(names)} nodes Ready")


def is_ready(thing: Object) -> bool:
    """Whether a node's or pod's Ready condition is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in thing.get("status", {}).get("conditions", ()))


def add_namespaces(api: Api, names: Iterable[str]) -> None:
    """Create the namespaces that are missing, each with its service account."""
    for name in sorted(set(names)):
        try:
            api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiError as error:
            if error.status != 409:
                raise
    for name in sorted(set(names)):
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda path=path: api.answers(path), f"service account of {name}")  # type: ignore[misc]


def populate(api: Api, shape: Shape) -> None:
    """Nodes, then Deployments that the scheduler places, then fewer replicas of each: holes remain here and there."""
    choose = random.Random(shape.seed)
    add_nodes(api, [*_gpu_nodes(shape), *(node(f"cpu-{i:03}", 0) for i in range(shape.cpu_nodes))])
    add_namespaces(api, NAMESPACES)
    wanted = _workloads(shape, choose)
    all_at_once(lambda each: api.create(f"{APPS}/namespaces/{each['metadata']['namespace']}/deployments", each), wanted)
    wait_settled(api)
    thin(api, shape.keep, choose)


def scattered(shape: Shape) -> list[Object]:
    """A snapshot of what `populate` may come to, the same for the same shape: GPU nodes, and pods of ReplicaSets, for `load`.

    The default scheduler takes any of the nodes that it finds equally good, so that no seed settles what it does.
    """
    choose = random.Random(shape.seed)
    nodes = _gpu_nodes(shape)
    free = {each["metadata"]["name"]: shape.gpus for each in nodes}
    standing: list[Object] = []
    for each in _workloads(shape, choose):
        gpus = int(each["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][GPU])
        for number in range(each["spec"]["replicas"]):
            # The emptiest, as a scheduler that spreads has it.
            target = max(free, key=lambda name: (free[name], choose.random()))
            if free[target] >= gpus:
                free[target] -= gpus
                standing.append(_member(each, number, target))
    leaving = {pod["metadata"]["name"] for pod in _leaving(standing, shape.keep, choose)}
    return nodes + [pod for pod in standing if pod["metadata"]["name"] not in leaving]


def _member(workload: Object, number: int, target: str) -> Object:
    """A pod of the workload, on that node, as a snapshot has it."""
    name, template = workload["metadata"]["name"], workload["spec"]["template"]
    meta = {"name": f"{name}-{number}", "namespace": workload["metadata"]["namespace"], **template["metadata"]}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
    spec = template["spec"] | {"nodeName": target}
    return {"kind": "Pod", "metadata": meta | {"ownerReferences": [owner]}, "spec": spec, "status": {"phase": "Running"}}


def _gpu_nodes(shape: Shape) -> list[Object]:
    products = shape.products or (None,)
    return [
        node(f"gpu-{i:03}", shape.gpus, product=products[i % len(products)], labels=shape.labels, taints=shape.taints)
        for i in range(shape.nodes)
    ]


def _workloads(shape: Shape, choose: random.Random) -> list[Object]:
    sizes = {size: weight for size, weight in (shape.sizes or {1: 60, 2: 25, 4: 15}).items() if size <= shape.gpus}
    left = int(shape.nodes * shape.gpus * shape.fill)
    tolerations = [{"key": taint["key"], "operator": "Exists"} for taint in shape.taints]
    found: list[Object] = []
    while left > 0:
        (size,) = choose.choices(list(sizes), weights=list(sizes.values()))
        replicas = min(choose.randint(2, 6), left // size)
        if not replicas:
            size, replicas = 1, left
        name = f"llm-{len(found):03}"
        made = deployment(name, choose.choice(NAMESPACES), replicas, size, cold_start=shape.cold_start)
        made["spec"]["template"]["spec"]["tolerations"] = tolerations
        found.append(made)
        left -= size * replicas
    return found


def pods(api: Api, selector: str = "") -> list[Object]:
    """All pods that are not on their way out."""
    found = api.items(f"/api/v1/pods?labelSelector={selector}")
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def workloads(api: Api) -> dict[str, Object]:
    """Deployments, and ReplicaSets without one, by their paths."""
    return {
        f"{APPS}/namespaces/{each['metadata']['namespace']}/{kind}/{each['metadata']['name']}": each
        for kind in ("deployments", "replicasets")
        for each in api.items(f"{APPS}/{kind}")
        if not each["metadata"].get("ownerReferences")
    }


def wait_settled(api: Api, *, seconds: float = 120) -> None:
    """Wait until every workload has the replicas it wants, each bound and Ready or called unschedulable."""

    def settled() -> bool:
        wanted = sum(each["spec"]["replicas"] for each in workloads(api).values())
        found = [pod for pod in api.items("/api/v1/pods") if pod["status"].get("phase") in ("Pending", "Running")]
        placed = [pod for pod in found if is_ready(pod) or _unschedulable(pod)]
        return len(found) == len(placed) and len(placed) == int(wanted)

    wait_until(settled, "workloads settled", seconds=seconds)


def _unschedulable(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


def thin(api: Api, keep: float, choose: random.Random) -> None:
    """Let some pods go for good, and no node become empty: holes are what a test wants, wherever the scheduler put the pods.

    Those chosen are the cheapest to delete when their workloads are scaled down.
    """
    # By where they are, as their names are any.
    standing = sorted(pods(api), key=lambda pod: (*_workload_of(pod), pod["spec"].get("nodeName", "")))
    leaving = _leaving(standing, keep, choose)

    def mark(pod: Object) -> None:
        where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        api.patch(where, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}})

    all_at_once(mark, leaving)
    fewer = Counter(map(_workload_of, leaving))

    def shrink(entry: tuple[str, Object]) -> None:
        path, workload = entry
        if gone := fewer[workload["metadata"]["namespace"], workload["metadata"]["name"]]:
            api.patch(path, {"spec": {"replicas": workload["spec"]["replicas"] - gone}})

    all_at_once(shrink, workloads(api).items())
    wait_settled(api)


def _workload_of(pod: Object) -> tuple[str, str]:
    """Namespace and name: what stands here has its workload's name for a label."""
    return pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]


def _leaving(standing: list[Object], keep: float, choose: random.Random) -> list[Object]:
    """Which of the pods shall go so that this share stays, and on every node one."""
    mixed = choose.sample(standing, len(standing))
    last = {pod["spec"].get("nodeName"): pod["metadata"]["name"] for pod in mixed}
    others = [pod for pod in mixed if last[pod["spec"].get("nodeName")] != pod["metadata"]["name"]]
    return others[: round(len(standing) * (1 - keep))]


def guard(api: Api, workloads: Iterable[Object]) -> None:
    """A budget (``maxUnavailable: 1``) over each workload of two and more pods, counted by the time this is over."""

    def add(each: Object) -> None:
        meta = {"name": each["metadata"]["name"], "namespace": each["metadata"]["namespace"]}
        path = f"/apis/policy/v1/namespaces/{meta['namespace']}/poddisruptionbudgets"
        spec = {"selector": each["spec"]["selector"], "maxUnavailable": 1}
        api.create(path, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})

    def counted() -> bool:
        found = api.items("/apis/policy/v1/poddisruptionbudgets")
        return all(each.get("status", {}).get("disruptionsAllowed") == 1 for each in found)

    all_at_once(add, [each for each in workloads if each["spec"]["replicas"] > 1])
    wait_until(counted, "budgets counted")


def load(api: Api, snapshot: Iterable[Object], *, cold_start: float = 0) -> None:
    """Put a snapshot's state on an empty cluster: its nodes, and its pods bound where they are, owned by ReplicaSets.

    A pod's placement is the snapshot's; the ReplicaSets adopt the pods and replace those that go, by the scheduler.
    """
    items = list(snapshot)
    nodes = [copy.deepcopy(item) for item in items if item["kind"] == "Node"]
    held = [item for item in items if item["kind"] == "Pod" and item["status"].get("phase") not in ("Succeeded", "Failed")]
    for each in nodes:
        each["apiVersion"] = "v1"
        # What a server has given it belongs to where it was.
        each["metadata"] = {key: value for key, value in each["metadata"].items() if key in ("name", "labels", "annotations")}
        each["status"].pop("conditions", None)
    add_nodes(api, nodes)
    add_namespaces(api, (pod["metadata"]["namespace"] for pod in held))
    made = [_pod(pod, cold_start) for pod in held]
    all_at_once(lambda pod: api.create(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod), made)

    def name(pod: Object) -> tuple[str, str]:
        return pod["metadata"]["namespace"], pod["metadata"]["name"]

    names = set(map(name, made))

    def ready() -> bool:
        return {name(pod) for pod in api.items("/api/v1/pods") if is_ready(pod)} == names

    # Before there are ReplicaSets: one whose controller has not heard of its pods yet would make others.
    wait_until(ready, f"{len(made)} pods of the snapshot Ready", seconds=300 + cold_start)
    sets: dict[tuple[str, str], list[Object]] = {}
    for pod in made:
        if pod["metadata"]["labels"].get(OWNER):
            sets.setdefault((pod["metadata"]["namespace"], pod["metadata"]["labels"][OWNER]), []).append(pod)
    all_at_once(lambda entry: api.create(f"{APPS}/namespaces/{entry[0][0]}/replicasets", _replica_set(*entry)), sets.items())

    owned = {name(pod) for members in sets.values() for pod in members}

    def adopted() -> bool:
        found = {name(pod): pod for pod in api.items("/api/v1/pods")}
        return found.keys() == names and owned == {key for key, pod in found.items() if pod["metadata"].get("ownerReferences")}

    wait_until(adopted, f"{len(owned)} pods of the snapshot taken over by their ReplicaSets")


OWNER = "test.gpuops.io/replica-set"


def _pod(pod: Object, cold_start: float) -> Object:
    """The pod as one may create it: what it asks for, where it is, and whose it is as a label."""
    meta = pod["metadata"]
    owner = next((o["name"] for o in meta.get("ownerReferences", ()) if o.get("controller")), "")
    spec = {key: value for key, value in pod["spec"].items() if key not in ("priority", "serviceAccountName", "volumes")}
    # Without volumes there is nothing to mount.
    spec["containers"] = [{key: value for key, value in each.items() if key != "volumeMounts"} for each in spec["containers"]]
    spec["terminationGracePeriodSeconds"] = 0
    annotations = dict(meta.get("annotations", {})) | ({"test.gpuops.io/cold-start": f"{cold_start:g}s"} if cold_start else {})
    labels = dict(meta.get("labels", {})) | ({OWNER: owner} if owner else {})
    own = {"name": meta["name"], "namespace": meta["namespace"], "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec}


def _replica_set(key: tuple[str, str], members: list[Object]) -> Object:
    namespace, name = key
    spec = {field: value for field, value in members[0]["spec"].items() if field != "nodeName"}
    meta = {"labels": members[0]["metadata"]["labels"], "annotations": members[0]["metadata"]["annotations"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": len(members),
            "selector": {"matchLabels": {OWNER: name}},
            "template": {"metadata": meta, "spec": spec},
        },
    }
