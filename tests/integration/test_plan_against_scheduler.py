# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real scheduler judges: it takes every move of a plan, and refuses what we refuse, for no other reasons than ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit, Refusal
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, Object, all_at_once
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    REQUIRED,
    ZONE,
    budget,
    claim,
    expression,
    laid_out,
    namespace,
    pod_of,
    uses,
    volume,
)

ROOT = Path(__file__).resolve().parents[2]
CORE, APPS = "/api/v1", "/apis/apps/v1"
NODES = f"{CORE}/nodes"
PODS = f"{CORE}/namespaces/default/pods"
DEPLOYMENTS = f"{APPS}/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READ = (
    *(f"{CORE}/{kind}" for kind in ("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims")),
    *(f"{APPS}/{kind}" for kind in ("replicasets", "deployments")),
    "/apis/policy/v1/poddisruptionbudgets",
)
CORDON = "node.kubernetes.io/unschedulable"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    plane = ControlPlane(ROOT / "build/clusters/test-plan-against-scheduler")
    try:
        yield plane.start().api
    finally:
        plane.stop()


def read(api: Api) -> list[Object]:
    """What a plan is made from."""
    return [api.get(path) for path in READ]


def taints(node: Object) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}


def open_only(api: Api, *names: str) -> None:
    """Cordon all nodes but these, and wait until the controllers have told so by taints too."""
    found = api.items(NODES)
    for closing in (True, False):
        for each in found:
            name, closed = each["metadata"]["name"], each["spec"].get("unschedulable", False)
            if closed != closing and closing == (name not in names):
                api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": closing}})

    def told() -> bool:
        tainted = {node["metadata"]["name"] for node in api.items(NODES) if (CORDON, "NoSchedule") in taints(node)}
        return tainted == {n["metadata"]["name"] for n in found} - set(names)

    wait_until(told, f"only {', '.join(names) or 'no node'} is open")


# A plan, carried out move by move.


def among(label: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": label}}}


DEDICATED = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
APART = [among("apart") | {"topologyKey": NODE_NAME}]
SPREAD = [among("spread") | {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
# GPUs of a pod, and what its spec has beside them.
WORKLOADS: dict[str, tuple[int, Object]] = {
    "plain": (2, {}),
    "alone": (1, {}),
    "guarded": (1, {}),
    "picky": (1, {"nodeSelector": {"disk": "nvme"}}),
    "apart": (2, {"affinity": {"podAntiAffinity": {REQUIRED: APART}}}),
    "spread": (1, {"topologySpreadConstraints": SPREAD}),
    "tolerant": (2, {"tolerations": [DEDICATED]}),
}
BUDGETED = ("guarded", "tolerant")
# Zones a and b take turns; g0 to g2 have the disk; g7 is dedicated. A plan that does not heed the selector, the taint,
# the anti-affinity, the spread or the budgets would go wrong here, each of them left out by itself.
LAYOUT = {
    "g0": "picky",
    "g1": "guarded plain",
    "g2": "alone guarded picky picky plain",
    "g3": "plain tolerant",
    "g4": "apart guarded spread",
    "g5": "apart plain spread spread",
    "g6": "apart spread",
    "g7": "tolerant tolerant",
}


@pytest.fixture
def fragmented(api: Api) -> Iterator[Api]:
    """The cluster of LAYOUT, put there by the scheduler: one node is open at a time."""
    fleet.add_nodes(
        api,
        [
            fleet.node(
                name,
                8,
                product=fleet.PRODUCTS[0],
                labels={ZONE: "ab"[number % 2]} | ({"disk": "nvme"} if number < 3 else {}),
                taints=[DEDICATED] if name == "g7" else (),
            )
            for number, name in enumerate(LAYOUT)
        ],
    )
    for name, (gpus, spec) in WORKLOADS.items():
        made = fleet.deployment(name, "default", 0, gpus)
        made["spec"]["template"]["spec"] |= spec
        api.create(DEPLOYMENTS, made)
    for name in BUDGETED:
        api.create(BUDGETS, {"apiVersion": "policy/v1"} | budget(name, {"app": name}, maxUnavailable=1))
    replicas: Counter[str] = Counter()
    for name, held in LAYOUT.items():
        open_only(api, name)
        for workload, more in Counter(held.split()).items():
            replicas[workload] += more
            api.patch(f"{DEPLOYMENTS}/{workload}", {"spec": {"replicas": replicas[workload]}})
        fleet.wait_settled(api)
    assert where(api) == {name: sorted(held.split()) for name, held in LAYOUT.items()}
    open_only(api, *LAYOUT)
    yield api
    for name in WORKLOADS:
        api.delete(f"{DEPLOYMENTS}/{name}")
    for name in BUDGETED:
        api.delete(f"{BUDGETS}/{name}")
    wait_until(lambda: not api.items(PODS), "Deployments gone")
    all_at_once(lambda name: api.delete(f"{NODES}/{name}"), LAYOUT)


def where(api: Api) -> dict[str, list[str]]:
    """The apps on each node."""
    found: dict[str, list[str]] = {}
    for pod in fleet.pods(api):
        found.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["labels"]["app"])
    return {name: sorted(apps) for name, apps in sorted(found.items())}


def owner(pod: Object) -> str:
    (found,) = pod["metadata"]["ownerReferences"]
    return f"{found['kind']}/{found['name']}"


def carry_out(api: Api, move: Object) -> str:
    """Evict the pod while only its destination is open; where the pod is bound that its owner puts in its place."""
    open_only(api, move["to"])
    known = {pod["metadata"]["uid"] for pod in fleet.pods(api)}
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": move["namespace"], "name": move["pod"]},
        "deleteOptions": {"preconditions": {"uid": move["uid"]}},
    }
    # A budget that does not allow it is answered by 429, which is raised.
    api.create(f"{CORE}/namespaces/{move['namespace']}/pods/{move['pod']}/eviction", eviction)
    new: list[Object] = []

    def bound() -> bool:
        new[:] = [pod for pod in fleet.pods(api) if pod["metadata"]["uid"] not in known and pod["spec"].get("nodeName")]
        return bool(new)

    wait_until(bound, f"{move['pod']} replaced")
    (replacement,) = new
    assert owner(replacement) == move["owner"]
    return str(replacement["spec"]["nodeName"])


def wait_whole(api: Api) -> None:
    """Wait until all replicas are Ready and the budgets know it, as it is before a wave."""
    fleet.wait_settled(api)

    def counted() -> bool:
        found = [each["status"] for each in api.items(BUDGETS)]
        # The Eviction API notes there what it lets go, until the controller has counted again.
        stale = any(status.get("disruptedPods") for status in found)
        return not stale and all(status["currentHealthy"] == status["expectedPods"] > 0 for status in found)

    wait_until(counted, "budgets counted")


def test_every_replacement_of_a_plan_is_bound_where_the_plan_says(fragmented: Api) -> None:
    api = fragmented
    made = plan(read(api), PlanOptions(kind="free_nodes"))
    moves = [move for wave in made["waves"] for move in wave]
    # Pods under every kind of constraint move, and the only replica stays.
    assert {move["pod"].split("-")[0] for move in moves} == WORKLOADS.keys() - {"alone"}

    for wave in made["waves"]:
        wait_whole(api)
        evicted = Counter(move["pod"].split("-")[0] for move in wave)
        assert all(evicted[each["metadata"]["name"]] <= each["status"]["disruptionsAllowed"] for each in api.items(BUDGETS))
        assert [carry_out(api, move) for move in wave] == [move["to"] for move in wave]
    wait_whole(api)
    open_only(api, *LAYOUT)

    freed = LAYOUT.keys() - where(api).keys()
    assert freed == set(made["freed_nodes"])
    # 31 of 64 GPUs are taken.
    assert len(freed) == 4
    now = audit([api.get(f"{CORE}/nodes"), api.get(f"{CORE}/pods")], AuditOptions())
    assert now["slots"] == made["after"]["slots"]
    assert now["slots"]["8"] == made["before"]["slots"]["8"] + made["slots_gained"]["8"] == len(freed)


# Pods that are tried on every node.


def pod(
    name: str,
    on: str = "",
    *,
    gpus: int = 0,
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A pod as the API takes it; further names are fields of its spec."""
    amounts = dict(requests or {}) | ({GPU: str(gpus)} if gpus else {})
    # Devices must have a limit.
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    main = {"name": "main", "image": "example/llm", "resources": {"requests": amounts, "limits": limits}, **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0} | ({"nodeName": on} if on else {}) | spec,
    }


def opens(port: int, protocol: str = "TCP", address: str | None = None) -> Object:
    opened = {"containerPort": 1, "hostPort": port, "protocol": protocol} | ({"hostIP": address} if address else {})
    return {"ports": [opened]}


def before_it(requests: Mapping[str, str], *, stays: bool) -> list[Object]:
    """An init container, or a sidecar."""
    first: Object = {"name": "first", "image": "example/init", "resources": {"requests": requests}}
    return [first | ({"restartPolicy": "Always"} if stays else {})]


def on_nodes(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def labelled(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [expression(key, operator, *values)]}


def named(operator: str, name: str) -> Object:
    return {"matchFields": [expression("metadata.name", operator, name)]}


def term(app: str, key: str = NODE_NAME, **more: Any) -> Object:
    return among(app) | {"topologyKey": key} | more


def near(*terms: Object) -> Object:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def over(app: str, skew: int, key: str = ZONE, **more: Any) -> Object:
    return among(app) | {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"} | more


BROKEN = {"key": "broken", "effect": "NoExecute"}
# Zone x has a1, a2, a3, zone y has b1, b2, b3, b4. b3 is full, c1 is not ready and in no zone.
ON = {
    "a1": fleet.node("a1", 8, labels={ZONE: "x", "age": "7"}),
    "a2": fleet.node(
        "a2", 8, labels={ZONE: "x", "age": "12", "disk": "nvme"}, taints=[{"key": "rather-not", "effect": "PreferNoSchedule"}]
    ),
    "a3": fleet.node("a3", 8, labels={ZONE: "x", "age": "new"}),
    "b1": fleet.node("b1", 8, labels={ZONE: "y"}, taints=[DEDICATED]),
    "b2": fleet.node("b2", 8, labels={ZONE: "y"}, taints=[BROKEN]),
    "b3": fleet.node("b3", 8, labels={ZONE: "y"}),
    "b4": fleet.node("b4", 8, labels={ZONE: "y"}),
    "c1": fleet.node("c1", 8),
}
for _name, _resource, _amount in (("a2", "example.com/fpga", "2"), ("b3", "pods", "1")):
    ON[_name]["status"]["allocatable"][_resource] = _amount
HELD = [
    pod("big", "a1", gpus=5, requests={"cpu": "90", "memory": "700Gi"}),
    pod("server", "a1", container={"ports": opens(8080)["ports"] + opens(9000, address="10.0.0.1")["ports"]}),
    pod("db", "a3", labels={"app": "db"}, volumes=uses("used"), affinity=apart(term("loner"))),
    pod("web", "b4", labels={"app": "web", "tier": "front"}, affinity=apart(term("hermit", ZONE))),
    pod("last", "b3"),
    pod("guest", "a2", labels={"app": "guest"}, namespace="team-x"),
    *(pod(f"crowd-{node}", node, labels={"app": "crowd", "version": "1"}) for node in ("a1", "a2")),
    *(pod(f"even-{node}", node, labels={"app": "even"}) for node in ("a3", "b4")),
]
# Each volume, bound to the claim of its name: its labels, where it can be reached, and how it is claimed.
VOLUMES: dict[str, tuple[dict[str, str], list[Object] | None, str]] = {
    "anywhere": ({}, None, "ReadWriteOnce"),
    "in-x": ({}, [labelled(ZONE, "In", "x")], "ReadWriteOnce"),
    "on-a2": ({}, [labelled(NODE_NAME, "In", "a2")], "ReadWriteOnce"),
    "labelled-y": ({ZONE: "y"}, None, "ReadWriteOnce"),
    "labelled-x-y": ({ZONE: "x__y"}, None, "ReadWriteOnce"),
    "used": ({}, None, "ReadWriteOncePod"),
    "unused": ({}, None, "ReadWriteOncePod"),
}
USUAL = "a1 a2 a3 b4"
CROWD, EVEN, FIRST = {"app": "crowd"}, {"app": "even"}, {"app": "first"}
# What is tried, the nodes that take it, and the pod.
PROBES: dict[str, tuple[str, Object]] = {
    "nothing asked for": (USUAL, pod("probe")),
    # NodeResourcesFit
    "GPUs that just fit": (USUAL, pod("probe", gpus=3)),
    "one GPU more": ("a2 a3 b4", pod("probe", gpus=4)),
    "more GPUs than any node has": ("", pod("probe", gpus=9)),
    "CPU that just fits": (USUAL, pod("probe", requests={"cpu": "6"})),
    "a thousandth more": ("a2 a3 b4", pod("probe", requests={"cpu": "6001m"})),
    "memory that just fits": (USUAL, pod("probe", requests={"memory": "68Gi"})),
    "a byte more": ("a2 a3 b4", pod("probe", requests={"memory": str(68 * 2**30 + 1)})),
    "another device": ("a2", pod("probe", requests={"example.com/fpga": "2"})),
    "one such device more": ("", pod("probe", requests={"example.com/fpga": "3"})),
    "disk that fits": (USUAL, pod("probe", requests={"ephemeral-storage": "1Ti"})),
    "more disk": ("", pod("probe", requests={"ephemeral-storage": "1025Gi"})),
    "an init container before it": (
        USUAL,
        pod("probe", requests={"cpu": "4"}, initContainers=before_it({"cpu": "5"}, stays=False)),
    ),
    "an init container larger than it": (
        "a2 a3 b4",
        pod("probe", requests={"cpu": "4"}, initContainers=before_it({"cpu": "7"}, stays=False)),
    ),
    "a sidecar beside it": (
        "a2 a3 b4",
        pod("probe", requests={"cpu": "4"}, initContainers=before_it({"cpu": "3"}, stays=True)),
    ),
    # NodeAffinity
    "selector": ("a2", pod("probe", nodeSelector={"disk": "nvme"})),
    "selector of two labels": ("", pod("probe", nodeSelector={"disk": "nvme", ZONE: "y"})),
    "In": ("b4", pod("probe", affinity=on_nodes(labelled(ZONE, "In", "y", "z")))),
    "NotIn": ("a1 a3 b4", pod("probe", affinity=on_nodes(labelled("disk", "NotIn", "nvme")))),
    "Exists": ("a2", pod("probe", affinity=on_nodes(labelled("disk", "Exists")))),
    "DoesNotExist": ("a1 a3 b4", pod("probe", affinity=on_nodes(labelled("disk", "DoesNotExist")))),
    "Gt": ("a2", pod("probe", affinity=on_nodes(labelled("age", "Gt", "7")))),
    "Lt": ("a1", pod("probe", affinity=on_nodes(labelled("age", "Lt", "12")))),
    "matchFields In": ("a3", pod("probe", affinity=on_nodes(named("In", "a3")))),
    "matchFields NotIn": ("a1 a2 b4", pod("probe", affinity=on_nodes(named("NotIn", "a3")))),
    "one term or the other": ("a2 a3", pod("probe", affinity=on_nodes(labelled("disk", "Exists"), named("In", "a3")))),
    "both halves of a term": ("", pod("probe", affinity=on_nodes(labelled(ZONE, "In", "y") | named("In", "a3")))),
    "a term without conditions": ("", pod("probe", affinity=on_nodes({}))),
    "selector and affinity": ("", pod("probe", nodeSelector={"disk": "nvme"}, affinity=on_nodes(named("In", "a3")))),
    # TaintToleration; that PreferNoSchedule refuses nobody is shown by a2
    "NoSchedule tolerated by value": (f"{USUAL} b1", pod("probe", tolerations=[DEDICATED])),
    "another value tolerated": (USUAL, pod("probe", tolerations=[DEDICATED | {"value": "serve"}])),
    "NoSchedule tolerated by key": (f"{USUAL} b1", pod("probe", tolerations=[{"key": "dedicated", "operator": "Exists"}])),
    "NoExecute tolerated": (f"{USUAL} b2", pod("probe", tolerations=[BROKEN | {"operator": "Exists"}])),
    "another effect tolerated": (
        USUAL,
        pod("probe", tolerations=[BROKEN | {"operator": "Exists", "effect": "NoSchedule"}]),
    ),
    # NodePorts
    "host port": ("a2 a3 b4", pod("probe", container=opens(8080))),
    "host port of another protocol": (USUAL, pod("probe", container=opens(8080, "UDP"))),
    "host port of one address": ("a2 a3 b4", pod("probe", container=opens(8080, address="127.0.0.1"))),
    "host port taken on this address": ("a2 a3 b4", pod("probe", container=opens(9000, address="10.0.0.1"))),
    "host port taken on another address": (USUAL, pod("probe", container=opens(9000, address="10.0.0.2"))),
    "host port taken on some address": ("a2 a3 b4", pod("probe", container=opens(9000))),
    "container port on the host's network": (
        "a2 a3 b4",
        pod("probe", container={"ports": [{"containerPort": 8080}]}, hostNetwork=True),
    ),
    # InterPodAffinity
    "near a pod on its node": ("a3", pod("probe", affinity=near(term("db")))),
    "near a pod in its zone": ("a1 a2 a3", pod("probe", affinity=near(term("db", ZONE)))),
    "near a pod of another namespace": ("", pod("probe", affinity=near(term("guest")))),
    "near a pod of a named namespace": ("a2", pod("probe", affinity=near(term("guest", namespaces=["team-x"])))),
    "near a pod of a selected namespace": (
        "a2",
        pod("probe", affinity=near(term("guest", namespaceSelector={"matchLabels": {"team": "x"}}))),
    ),
    "near a pod of any namespace": ("a1 a2 a3", pod("probe", affinity=near(term("guest", ZONE, namespaceSelector={})))),
    "near one pod for two terms": ("", pod("probe", affinity=near(term("db", ZONE), term("crowd", ZONE)))),
    "near the first of its kind": (USUAL, pod("probe", labels=FIRST, affinity=near(term("first")))),
    "near the first of its kind without the topology": ("", pod("probe", labels=FIRST, affinity=near(term("first", "rack")))),
    "near those of its version": (
        "",
        pod("probe", labels=CROWD | {"version": "2"}, affinity=near(term("crowd", matchLabelKeys=["version"]), term("even"))),
    ),
    "apart from a pod on its node": ("a1 a2 a3", pod("probe", affinity=apart(term("web")))),
    "apart from a pod in its zone": ("b4", pod("probe", affinity=apart(term("db", ZONE)))),
    "apart by a topology that no node has": (USUAL, pod("probe", affinity=apart(term("db", "rack")))),
    "repelled by a pod on its node": ("a1 a2 b4", pod("probe", labels={"app": "loner"})),
    "repelled by a pod in its zone": ("a1 a2 a3", pod("probe", labels={"app": "hermit"})),
    # PodTopologySpread
    "spread over zones": ("b4", pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1)])),
    "spread within a larger skew": (USUAL, pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 3)])),
    "spread over nodes": ("a3 b4", pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1, NODE_NAME)])),
    "spread over both": (
        "b4",
        pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1), over("crowd", 1, NODE_NAME)]),
    ),
    "spread that does not count itself": (USUAL, pod("probe", topologySpreadConstraints=[over("crowd", 2)])),
    "spread that need not be": (
        USUAL,
        pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1, whenUnsatisfiable="ScheduleAnyway")]),
    ),
    "spread over what no node has": ("", pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1, "rack")])),
    "spread of another version": (
        USUAL,
        pod("probe", labels=CROWD | {"version": "2"}, topologySpreadConstraints=[over("crowd", 1, matchLabelKeys=["version"])]),
    ),
    "spread over enough domains": (USUAL, pod("probe", labels=EVEN, topologySpreadConstraints=[over("even", 1, minDomains=2)])),
    "spread over too few domains": ("", pod("probe", labels=EVEN, topologySpreadConstraints=[over("even", 1, minDomains=3)])),
    "spread within the selected": (
        "a1 a2 a3",
        pod("probe", labels=CROWD, nodeSelector={ZONE: "x"}, topologySpreadConstraints=[over("crowd", 1)]),
    ),
    "spread beyond the selected": (
        "",
        pod(
            "probe",
            labels=CROWD,
            nodeSelector={ZONE: "x"},
            topologySpreadConstraints=[over("crowd", 1, nodeAffinityPolicy="Ignore")],
        ),
    ),
    # Cordoned nodes do not count, so that the zone of the one that is open is the only one.
    "spread within the untainted": (
        USUAL,
        pod("probe", labels=CROWD, topologySpreadConstraints=[over("crowd", 1, nodeTaintsPolicy="Honor")]),
    ),
    # VolumeBinding, VolumeZone, VolumeRestrictions
    "volume without a place": (USUAL, pod("probe", volumes=uses("anywhere"))),
    "volume of a zone": ("a1 a2 a3", pod("probe", volumes=uses("in-x"))),
    "volume of a node": ("a2", pod("probe", volumes=uses("on-a2"))),
    "volume labelled with a zone": ("b4", pod("probe", volumes=uses("labelled-y"))),
    "volume labelled with two zones": (USUAL, pod("probe", volumes=uses("labelled-x-y"))),
    "volumes of two zones": ("", pod("probe", volumes=uses("in-x", "labelled-y"))),
    "volume for one pod, in use": ("", pod("probe", volumes=uses("used"))),
    "volume for one pod, not in use": (USUAL, pod("probe", volumes=uses("unused"))),
    "volume that nobody made": ("", pod("probe", volumes=uses("gone"))),
}

# What the scheduler says, and what we call it.
SELECTION = {Refusal.NODE_SELECTOR, Refusal.NODE_AFFINITY}
SAID: dict[str, set[Refusal]] = {
    "node(s) had untolerated taint(s)": {Refusal.TAINT, Refusal.NOT_READY},
    "node(s) didn't match Pod's node affinity/selector": SELECTION,
    "node(s) didn't satisfy plugin(s) [NodeAffinity]": SELECTION,
    "node(s) didn't have free ports for the requested pod ports": {Refusal.HOST_PORT},
    f"Insufficient {GPU}": {Refusal.GPU},
    "Insufficient cpu": {Refusal.CPU},
    "Insufficient memory": {Refusal.MEMORY},
    "Insufficient example.com/fpga": {Refusal.RESOURCE},
    "Insufficient ephemeral-storage": {Refusal.RESOURCE},
    "Too many pods": {Refusal.PODS},
    'persistentvolumeclaim "gone" not found': {Refusal.VOLUME_MISSING},
    "node(s) didn't match PersistentVolume's node affinity": {Refusal.VOLUME_ZONE},
    "node(s) had no available volume zone": {Refusal.VOLUME_ZONE},
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod": {
        Refusal.VOLUME_IN_USE
    },
    "node(s) didn't match pod topology spread constraints": {Refusal.TOPOLOGY_SPREAD},
    "node(s) didn't match pod topology spread constraints (missing required label)": {Refusal.TOPOLOGY_SPREAD},
    "node(s) didn't match pod affinity rules": {Refusal.POD_AFFINITY},
    "node(s) didn't match pod anti-affinity rules": {Refusal.POD_ANTI_AFFINITY},
    "node(s) didn't satisfy existing pods anti-affinity rules": {Refusal.POD_ANTI_AFFINITY},
}
CLOSED = "node(s) were unschedulable"
# What it says before it looks at any node. It cannot have taken the open node for a closed one: the first probe shows
# that it knows by then which one is open.
AT_ONCE = {"node(s) didn't satisfy plugin(s) [NodeAffinity]", 'persistentvolumeclaim "gone" not found'}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one pod and one node, all other nodes being cordoned.

    Attributes:
        ours: Every reason of ours against it.
        bound: The node that the scheduler binds it to, or "".
        reasons: What the scheduler has against the open node.
    """

    ours: list[Refusal]
    bound: str
    reasons: list[str]


@pytest.fixture(scope="module")
def verdicts(api: Api) -> dict[tuple[str, str], Verdict]:
    """Of every probe and node. What it puts on the cluster for that stays until the plane stops."""
    fleet.add_namespaces(api, ["team-x"])
    api.patch(f"{CORE}/namespaces/team-x", {"metadata": namespace("team-x", team="x")["metadata"]})
    fleet.add_nodes(api, ON.values())
    api.patch(f"{NODES}/c1", {"metadata": {"labels": {"test.gpuops.io/unready": "true"}}})
    for name, (labels, terms, mode) in VOLUMES.items():
        made = volume(name, labels=labels, terms=terms)
        size = {"storage": "1Gi"}
        made["spec"] |= {"capacity": size, "accessModes": [mode], "hostPath": {"path": "/data"}}
        made["spec"]["claimRef"] = {"namespace": "default", "name": name}
        api.create(f"{CORE}/persistentvolumes", made)
        wanted = claim(name, name, modes=[mode])
        wanted["spec"] |= {"storageClassName": "", "resources": {"requests": size}}
        api.create(f"{CORE}/namespaces/default/persistentvolumeclaims", wanted)
    for held in HELD:
        api.create(f"{CORE}/namespaces/{held['metadata']['namespace']}/pods", held)
    claims = f"{CORE}/persistentvolumeclaims"
    wait_until(lambda: all(each["status"]["phase"] == "Bound" for each in api.items(claims)), "volumes bound")
    wait_until(lambda: all(map(fleet.is_ready, api.items(f"{CORE}/pods"))), "pods Ready")
    wait_until(lambda: ("node.kubernetes.io/not-ready", "NoSchedule") in taints(api.get(f"{NODES}/c1")), "c1 not Ready")
    found = {}
    for node in ON:
        open_only(api, node)
        state = read(api)
        for title, (_nodes, probe) in PROBES.items():
            found[title, node] = judge(api, state, probe, node)
    return found


def judge(api: Api, state: list[Object], probe: Object, node: str) -> Verdict:
    """Our verdict on the pod as the API server completed it, and the scheduler's; the pod goes again."""
    # A name of its own each time: kwok may still be busy with the pod of the last one.
    made = api.create(PODS, probe | {"metadata": probe["metadata"] | {"generateName": "probe-", "name": ""}})
    name = made["metadata"]["name"]
    layout = laid_out([*state, made])
    ours = Fit(pod_of(layout, name), layout, GPU).refusals(layout.cluster.nodes[node])
    bound, reasons = asked(api, name)
    api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    return Verdict(ours, bound, reasons)


def asked(api: Api, name: str) -> tuple[str, list[str]]:
    """The node that the scheduler binds the pod to; or what it has against the open one, once it knows which that is."""
    answer: tuple[str, list[str]] = "", []

    def given() -> bool:
        nonlocal answer
        found = api.get(f"{PODS}/{name}")
        (told,) = [c for c in found.get("status", {}).get("conditions", ()) if c["type"] == "PodScheduled"] or [{}]
        if told.get("reason") == "Unschedulable":
            counts = reasons_in(told["message"])
            answer = "", [reason for reason in counts if reason != CLOSED]
            return counts.get(CLOSED) == len(ON) - 1 or bool(AT_ONCE & counts.keys())
        answer = found["spec"].get("nodeName", ""), []
        return bool(answer[0])

    wait_until(given, "the scheduler's verdict", seconds=20)
    return answer


def reasons_in(message: str) -> dict[str, int]:
    """How many nodes have each reason; what is said of the pod counts for none."""
    told = re.match(r"0/\d+ nodes are available: (.*?)\.(?: |$)", message)
    assert told, message
    parts = [re.fullmatch(r"(?:(\d+) )?(.*)", part) for part in told[1].split(", ")]
    return {part[2]: int(part[1] or 0) for part in parts if part}


@pytest.mark.parametrize("title", PROBES)
def test_the_scheduler_takes_what_we_take_and_refuses_what_we_refuse(
    title: str, verdicts: dict[tuple[str, str], Verdict]
) -> None:
    found = {node: verdicts[title, node] for node in ON}
    assert {node for node in ON if found[node].bound == node} == set(PROBES[title][0].split())
    assert {node for node in ON if not found[node].ours} == set(PROBES[title][0].split())
    for node, verdict in found.items():
        assert bool(verdict.bound) != bool(verdict.reasons), (node, verdict)
        # The scheduler stops at the first plugin that refuses; ours are all the reasons there are.
        assert all(SAID[reason] & set(verdict.ours) for reason in verdict.reasons), (node, verdict)


def test_every_refusal_is_provoked_by_itself(verdicts: dict[tuple[str, str], Verdict]) -> None:
    alone = {verdict.ours[0] for verdict in verdicts.values() if len(verdict.ours) == 1}
    # Cordoned are all the other nodes, all the time; nominated nodes come of preemption; two refusals are the plan's own.
    assert alone == set(Refusal) - {Refusal.CORDONED, Refusal.NOMINATED, Refusal.UNHEALTHY, Refusal.OTHER_PRODUCT}
