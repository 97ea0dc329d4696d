# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster in which every field that decoding reads is used at least once."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    PRODUCT,
    REQUIRED,
    ZONE,
    Object,
    claim,
    container,
    expression,
    namespace,
    node,
    pod,
    uses,
    volume,
)

TIME = "2026-11-30T12:00:00Z"
SELECTOR = {
    "matchLabels": {"app": "llm"},
    "matchExpressions": [expression("tier", "In", "a", "b"), expression("old", "DoesNotExist")],
}
POD_TERM = {
    "topologyKey": ZONE,
    "labelSelector": SELECTOR,
    "namespaces": ["default"],
    "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [expression("team", "In", "a")]},
}
OTHERS = {"matchLabels": {"app": "other"}, "matchExpressions": [expression("app", "In", "other")]}
AFFINITY = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [expression("generation", "Gt", "3"), expression(PRODUCT, "In", "A100", "H100")],
                    "matchFields": [expression("metadata.name", "NotIn", "n9")],
                }
            ]
        }
    },
    "podAffinity": {REQUIRED: [POD_TERM]},
    "podAntiAffinity": {REQUIRED: [POD_TERM | {"topologyKey": NODE_NAME, "labelSelector": OTHERS}]},
}
SPREAD = {
    "topologyKey": ZONE,
    "maxSkew": 1,
    "minDomains": 2,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTOR,
    "matchLabelKeys": ["app"],
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
}
RESOURCES = {"requests": {"cpu": "4"}, "limits": {"memory": "20Gi"}}
CONTAINER_STATUS = {
    "resources": RESOURCES,
    "allocatedResources": {"cpu": "4"},
    "state": {"terminated": {"finishedAt": TIME}},
}
STATUS = {
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": TIME, "lastHeartbeatTime": TIME},
        {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
    ],
    "containerStatuses": [{"name": "main"} | CONTAINER_STATUS],
    "initContainerStatuses": [{"name": "side"} | CONTAINER_STATUS],
    "resources": RESOURCES,
    "allocatedResources": {"cpu": "6"},
}


def replica(name: str, gpus: int, on: str = "", **more: Any) -> Object:
    """A pod with everything that a pod can have."""
    ports = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}]
    resources = {"requests": {"cpu": "4", GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return pod(
        name,
        on=on,
        labels={"app": "llm", "tier": "a"},
        owner="ReplicaSet/llm",
        created=TIME,
        metadata={"uid": f"uid-{name}", "annotations": {"note": "b"}, "deletionTimestamp": None},
        containers=[{"name": "main", "restartPolicy": "Always", "resources": resources, "ports": ports}],
        initContainers=[
            container("side", requests={"cpu": "1"}, limits={"memory": "1Gi"}, restartPolicy="Always", ports=ports),
            container("init", requests={GPU: "1"}),
        ],
        priority=5,
        nodeSelector={"pool": "x"},
        affinity=AFFINITY,
        topologySpreadConstraints=[SPREAD],
        tolerations=[{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, {"operator": "Exists"}],
        volumes=[
            *uses("data"),
            {"name": "scratch", "ephemeral": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "disk", "hostPath": {"path": "/data"}},
        ],
        priorityClassName="high",
        schedulingGroup={"podGroupName": "llm"},
        hostNetwork=True,
        overhead={"cpu": "250m"},
        resources={"requests": {"cpu": "6"}, "limits": {"memory": "20Gi"}},
        resourceClaims=[{"name": "gpu"}],
        status=STATUS,
        **more,
    )


def everything() -> list[Object]:
    """The documents: a list of a kind, and a list of all sorts."""
    labels = {"pool": "x", "generation": "8", ZONE: "z1"}
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    shared = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "llm", "namespace": "default", "generation": 1},
        "spec": {"selector": SELECTOR, "minAvailable": 1, "maxUnavailable": None, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 1,
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
        },
    }
    deployment = {"kind": "Deployment", "metadata": {"name": "llm", "namespace": "default", "uid": "d"}, "spec": {"replicas": 3}}
    replica_set = {
        "kind": "ReplicaSet",
        "metadata": {
            "name": "llm",
            "namespace": "default",
            "uid": "uid-llm",
            "ownerReferences": [{"kind": "Deployment", "name": "llm", "uid": "d", "controller": True}],
        },
        "spec": {"replicas": 3},
    }
    nodes = [
        node("n1", 8, product="A100", labels=labels, taints=[taint], ready="True"),
        node("n2", 8, product="A100", labels=labels | {ZONE: "z2"}, ready="True"),
        node("n3", 7, capacity=8, product="A100", labels=labels, unschedulable=True, ready="Unknown"),
        node("n4", 4, product="T4-SHARED", labels=labels | shared),
        node("n5", None, labels=labels),
        node("n6", 8, labels=labels, allocatable={"amd.com/gpu": "2"}),
    ]
    failed = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": TIME}]}
    others = [
        replica("bound-1", 4, "n1"),
        replica("bound-2", 2, "n2"),
        replica("waiting", 8),
        replica("gated", 2, schedulingGates=[{"name": "quota"}]),
        replica("done", 1, phase="Succeeded"),
        pod("failed", 1, phase="Failed", created=TIME, status=failed),
        pod("nominated", 2, priority=7, status={"nominatedNodeName": "n2"}),
        pod("plain", 1),
        pod("unlisted", 1, "n5"),
        pod("daemon", 1, "n6", owner="DaemonSet/dcgm"),
        claim("data", "pv"),
        volume("pv", labels={ZONE: "z1__z2"}, terms=[{"matchExpressions": [expression(ZONE, "In", "z1", "z2")]}]),
        namespace("default", team="a"),
        budget,
        deployment,
        replica_set,
        {"kind": "Job", "metadata": {"name": "llm", "namespace": "default"}, "spec": {"parallelism": 3}},
        {"kind": "Secret", "metadata": {"name": "unread"}, "data": {"a": "b"}},
    ]
    return [
        {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": nodes},
        {"kind": "List", "apiVersion": "v1", "items": others},
    ]
