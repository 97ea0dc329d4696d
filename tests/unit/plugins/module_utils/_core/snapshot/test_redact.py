# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import parse_selector
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.names import Hasher
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.redact import (
    hash_names,
    reduce,
    select_nodes,
)

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
KEY = "a long random text"
TIME = "2026-11-30T12:00:00Z"

# In the objects below, SECRET is text that no snapshot may hold and NAME text that no hashed one may hold.
REQUIREMENT = {"key": "NAME/key", "operator": "In", "values": ["NAME-1", "NAME-2"]}
SELECTOR = {"matchLabels": {"NAME/key": "NAME-value"}, "matchExpressions": [REQUIREMENT]}
TERM = {
    "matchExpressions": [REQUIREMENT],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["NAME-node"]}],
}
POD_TERM = {
    "labelSelector": SELECTOR,
    "namespaceSelector": SELECTOR,
    "namespaces": ["NAME-ns"],
    "topologyKey": "NAME/key",
    "matchLabelKeys": ["NAME/key"],
    "mismatchLabelKeys": ["NAME/key"],
}
POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": POD_TERM}],
}
RESOURCES = {
    "requests": {"cpu": "500m", GPU: "1"},
    "limits": {GPU: "1"},
    "claims": [{"name": "NAME-claim", "request": "NAME-request"}],
}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "SomeReason",
    "lastHeartbeatTime": TIME,
    "lastTransitionTime": TIME,
}


def metadata(**more: Any) -> Object:
    return {
        "name": "NAME-object",
        "namespace": "NAME-ns",
        "uid": "NAME-uid",
        "generation": 3,
        "creationTimestamp": TIME,
        "labels": {"NAME/key": "NAME-value"},
        "annotations": {
            "gpuops.io/note": "NAME-note",
            "descheduler.alpha.kubernetes.io/evict": "false",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "NAME-perhaps",
            "karpenter.sh/do-not-disrupt": "true",
            "controller.kubernetes.io/pod-deletion-cost": "-100",
            "kubernetes.io/config.mirror": "NAME-mirror",
            "kubernetes.io/config.source": "file",
            "scheduling.k8s.io/group-name": "NAME-group",
            "scheduling.volcano.sh/queue-name": "NAME-queue",
            "pod-group.scheduling.sigs.k8s.io/name": "NAME-group",
            "scheduling.x-k8s.io/pod-group": "NAME-group",
        },
        "ownerReferences": [
            {"apiVersion": "NAME.example/v1", "kind": "Trainer", "name": "NAME-owner", "uid": "NAME-uid", "controller": True}
        ],
        **more,
    }


def an_object(kind: str, api_version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata(), **fields}


def container(**more: Any) -> Object:
    return {
        "name": "NAME-container",
        "resources": RESOURCES,
        "restartPolicy": "Always",
        "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "NAME-ip", "protocol": "TCP"}],
        **more,
    }


def container_status(**state: Any) -> Object:
    return {
        "name": "NAME-container",
        "ready": True,
        "restartCount": 2,
        "resources": RESOURCES,
        "allocatedResources": {GPU: "1"},
        "state": state,
    }


NODE = an_object(
    "Node",
    spec={
        "unschedulable": True,
        "taints": [{"key": "NAME/key", "value": "NAME-value", "effect": "NoSchedule", "timeAdded": TIME}],
    },
    status={
        "allocatable": {"cpu": "96", GPU: "8"},
        "capacity": {"cpu": "96", GPU: "8"},
        "conditions": [CONDITION],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    },
)
POD = an_object(
    "Pod",
    metadata=metadata(deletionTimestamp=TIME, deletionGracePeriodSeconds=30),
    spec={
        "nodeName": "NAME-node",
        "nodeSelector": {"NAME/key": "NAME-value"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}],
            },
            "podAffinity": POD_AFFINITY,
            "podAntiAffinity": POD_AFFINITY,
        },
        "tolerations": [
            {"key": "NAME/key", "operator": "Equal", "value": "NAME-value", "effect": "NoExecute", "tolerationSeconds": 300}
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "minDomains": 2,
                "topologyKey": "NAME/key",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "matchLabelKeys": ["NAME/key"],
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
            }
        ],
        "schedulerName": "NAME-scheduler",
        "schedulingGates": [{"name": "NAME/gate"}],
        "priorityClassName": "NAME-class",
        "schedulingGroup": {"podGroupName": "NAME-group"},
        "priority": 1000,
        "preemptionPolicy": "Never",
        "resourceClaims": [
            {"name": "NAME-claim", "resourceClaimName": "NAME-claim-1", "resourceClaimTemplateName": "NAME-template"}
        ],
        "overhead": {"cpu": "10m"},
        "resources": RESOURCES,
        "hostNetwork": True,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "initContainers": [container()],
        "containers": [container()],
        "volumes": [
            {"name": "NAME-data", "persistentVolumeClaim": {"claimName": "NAME-pvc"}},
            {"name": "NAME-scratch", "ephemeral": {}},
            {"name": "NAME-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "NAME-tmp", "emptyDir": {}},
            {"name": "NAME-host", "hostPath": {}},
        ],
    },
    status={
        "phase": "Running",
        "reason": "Evicted",
        "startTime": TIME,
        "nominatedNodeName": "NAME-node",
        "conditions": [CONDITION],
        "containerStatuses": [
            container_status(running={"startedAt": TIME}),
            container_status(terminated={"startedAt": TIME, "finishedAt": TIME, "exitCode": 1}),
            container_status(waiting={"reason": "CrashLoopBackOff"}),
        ],
        "initContainerStatuses": [container_status()],
        "resources": RESOURCES,
        "allocatedResources": {GPU: "1"},
        "resourceClaimStatuses": [{"name": "NAME-claim", "resourceClaimName": "NAME-claim-1"}],
    },
)
REPLICAS: Object = {
    "spec": {"replicas": 3, "selector": SELECTOR},
    "status": {
        "observedGeneration": 3,
        "replicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "updatedReplicas": 3,
        "unavailableReplicas": 1,
    },
}
# Every field that is kept, and no other.
KEPT: list[Object] = [
    NODE,
    POD,
    an_object(
        "PodDisruptionBudget",
        "policy/v1",
        spec={"selector": SELECTOR, "minAvailable": 2, "maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        status={
            "observedGeneration": 3,
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
            "disruptedPods": {"NAME-pod": TIME},
            "conditions": [CONDITION],
        },
    ),
    an_object("ReplicaSet", "apps/v1", **REPLICAS),
    an_object("Deployment", "apps/v1", **REPLICAS),
    an_object("StatefulSet", "apps/v1", **REPLICAS),
    an_object("ReplicationController", spec={"replicas": 3, "selector": {"NAME/key": "NAME-value"}}, status={"replicas": 3}),
    an_object(
        "DaemonSet",
        "apps/v1",
        spec={"selector": SELECTOR},
        status={"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 3, "numberAvailable": 3},
    ),
    an_object(
        "Job",
        "batch/v1",
        spec={
            "selector": SELECTOR,
            "parallelism": 2,
            "completions": 4,
            "completionMode": "Indexed",
            "suspend": False,
        },
        status={"active": 2, "ready": 2, "succeeded": 1, "failed": 0, "startTime": TIME, "completionTime": TIME},
    ),
    an_object("Namespace", status={"phase": "Active"}),
    an_object(
        "PersistentVolume",
        spec={
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "NAME-storage",
            "claimRef": {"namespace": "NAME-ns", "name": "NAME-pvc", "uid": "NAME-uid"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}},
        },
        status={"phase": "Bound"},
    ),
    an_object(
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "NAME-storage",
            "volumeName": "NAME-pv",
            "resources": {"requests": {"storage": "1Ti"}},
        },
        status={"phase": "Bound"},
    ),
    an_object(
        "StorageClass",
        "storage.k8s.io/v1",
        provisioner="NAME.csi.example",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "NAME/key", "values": ["NAME-1"]}]}],
    ),
    an_object("PriorityClass", "scheduling.k8s.io/v1", value=1000, globalDefault=False, preemptionPolicy="PreemptLowerPriority"),
    an_object(
        "HorizontalPodAutoscaler",
        "autoscaling/v2",
        spec={
            "scaleTargetRef": {"apiVersion": "NAME.example/v1", "kind": "Trainer", "name": "NAME-owner"},
            "minReplicas": 1,
            "maxReplicas": 9,
        },
        status={"currentReplicas": 2, "desiredReplicas": 3},
    ),
    an_object("PodGroup", "scheduling.x-k8s.io/v1alpha1"),
    an_object("JobSet", "jobset.x-k8s.io/v1alpha2"),
    an_object("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
    an_object("PyTorchJob", "kubeflow.org/v1"),
    an_object("TrainJob", "trainer.kubeflow.org/v1alpha1"),
    an_object("RayCluster", "ray.io/v1"),
    an_object("RayJob", "ray.io/v1"),
]

TEMPLATE = {"metadata": {"labels": {"SECRET": "SECRET"}}, "spec": {"containers": [{"image": "SECRET"}]}}
PROBE = {"exec": {"command": ["SECRET"]}, "httpGet": {"host": "SECRET", "httpHeaders": [{"name": "SECRET"}]}}
SECRET_CONTAINER = {
    "image": "SECRET/image",
    "command": ["SECRET"],
    "args": ["--token=SECRET"],
    "workingDir": "SECRET",
    "env": [
        {"name": "SECRET", "value": "SECRET"},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "SECRET", "key": "SECRET"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "SECRET", "key": "SECRET"}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['SECRET']"}}},
    ],
    "envFrom": [{"secretRef": {"name": "SECRET"}, "prefix": "SECRET"}, {"configMapRef": {"name": "SECRET"}}],
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "lifecycle": {"postStart": PROBE, "preStop": PROBE},
    "volumeMounts": [{"name": "SECRET", "mountPath": "SECRET", "subPath": "SECRET"}],
    "volumeDevices": [{"name": "SECRET", "devicePath": "SECRET"}],
    "terminationMessagePath": "SECRET",
    "securityContext": {"seLinuxOptions": {"user": "SECRET"}},
}
# Where in any of the objects above secrets may stand besides: path, and what a real object may have there.
SECRETS: list[tuple[str, Any]] = [
    ("metadata", {"managedFields": [{"manager": "SECRET"}], "selfLink": "SECRET", "finalizers": ["SECRET"]}),
    ("metadata", {"generateName": "SECRET-", "resourceVersion": "SECRET"}),
    ("metadata.annotations", {"kubectl.kubernetes.io/last-applied-configuration": '{"SECRET": 1}', "SECRET": "SECRET"}),
    ("metadata.annotations", {"not-gpuops.io/SECRET": "a", "kubernetes.io/SECRET": "a", "karpenter.sh/SECRET": "a"}),
    ("metadata.ownerReferences.*", {"SECRET": "SECRET", "blockOwnerDeletion": True}),
    ("spec", {"template": TEMPLATE, "serviceAccountName": "SECRET", "serviceAccount": "SECRET", "hostname": "SECRET"}),
    ("spec", {"imagePullSecrets": [{"name": "SECRET"}], "subdomain": "SECRET", "dnsConfig": {"searches": ["SECRET"]}}),
    ("spec", {"hostAliases": [{"ip": "SECRET", "hostnames": ["SECRET"]}], "securityContext": {"user": "SECRET"}}),
    ("spec", {"ephemeralContainers": [SECRET_CONTAINER], "readinessGates": [{"conditionType": "SECRET"}]}),
    ("spec", {"runtimeClassName": "SECRET", "volumeClaimTemplates": [TEMPLATE], "serviceName": "SECRET"}),
    ("spec", {"providerID": "SECRET", "podCIDR": "SECRET", "externalID": "SECRET", "configSource": {"SECRET": "SECRET"}}),
    ("spec", {"csi": {"volumeHandle": "SECRET"}, "nfs": {"server": "SECRET"}, "mountOptions": ["SECRET"]}),
    ("spec", {"dataSource": {"name": "SECRET"}, "metrics": [{"SECRET": "SECRET"}], "behavior": {"SECRET": "SECRET"}}),
    ("spec.containers.*", SECRET_CONTAINER),
    ("spec.initContainers.*", SECRET_CONTAINER),
    ("spec.containers.*.ports.*", {"name": "SECRET"}),
    ("spec.volumes.*.hostPath", {"path": "/SECRET", "type": "SECRET"}),
    ("spec.volumes.*.ephemeral", {"volumeClaimTemplate": TEMPLATE}),
    ("spec.affinity", {"SECRET": "SECRET"}),
    ("status", {"message": "SECRET", "hostIP": "SECRET", "podIP": "SECRET", "podIPs": [{"ip": "SECRET"}]}),
    ("status", {"addresses": [{"type": "Hostname", "address": "SECRET"}], "images": [{"names": ["SECRET"]}]}),
    ("status", {"volumesInUse": ["SECRET"], "volumesAttached": [{"name": "SECRET"}], "config": {"SECRET": "SECRET"}}),
    ("status", {"ephemeralContainerStatuses": [{"image": "SECRET"}], "currentMetrics": [{"SECRET": "SECRET"}]}),
    ("status.nodeInfo", {"machineID": "SECRET", "systemUUID": "SECRET", "bootID": "SECRET", "osImage": "SECRET"}),
    ("status.conditions.*", {"message": "SECRET"}),
    ("status.containerStatuses.*", {"image": "SECRET", "imageID": "SECRET", "containerID": "SECRET"}),
    ("status.containerStatuses.*", {"lastState": {"terminated": {"message": "SECRET"}}, "user": {"SECRET": "SECRET"}}),
    ("status.containerStatuses.*.state.waiting", {"message": "SECRET"}),
    ("status.containerStatuses.*.state.terminated", {"message": "SECRET", "containerID": "SECRET", "reason": "SECRET"}),
]
SECRET_VOLUMES = [
    {"name": "SECRET", "secret": {"secretName": "SECRET"}},
    {"name": "SECRET", "configMap": {"name": "SECRET"}},
    {"name": "SECRET", "projected": {"sources": [{"secret": {"name": "SECRET"}}, {"configMap": {"name": "SECRET"}}]}},
    {"name": "SECRET", "csi": {"driver": "SECRET", "volumeAttributes": {"SECRET": "SECRET"}}},
    {"name": "SECRET", "nfs": {"server": "SECRET", "path": "SECRET"}},
    {"name": "SECRET", "downwardAPI": {"items": [{"path": "SECRET"}]}},
]
SECRET_KINDS: list[Object] = [
    an_object("Secret", data={"SECRET": "SECRET"}),
    an_object("ConfigMap", data={"SECRET": "SECRET"}),
    an_object("Event", message="SECRET", involvedObject={"name": "SECRET"}),
    an_object("ServiceAccount", secrets=[{"name": "SECRET"}]),
    an_object("CronJob", "batch/v1", spec={"jobTemplate": TEMPLATE}),
]


def places(value: Any, path: list[str]) -> Iterator[Object]:
    """The mappings in a value that a path leads to."""
    if isinstance(value, dict) and not path:
        yield value
    elif isinstance(value, list) and path[:1] == ["*"]:
        for item in value:
            yield from places(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from places(value[path[0]], path[1:])


def with_secrets(objects: list[Object]) -> list[Object]:
    objects = copy.deepcopy(objects)
    for path, secret in SECRETS:
        found = [place for item in objects for place in places(item, path.split("."))]
        assert found, f"no object has {path}"
        for place in found:
            place |= copy.deepcopy(secret)
    for item in objects:
        if item["kind"] == "Pod":
            item["spec"]["volumes"] += SECRET_VOLUMES
        item["description"] = item["parameters"] = "SECRET"
    return objects + SECRET_KINDS


def test_what_is_kept_is_kept_whole() -> None:
    assert reduce(KEPT) == KEPT


def test_no_secret_stays_wherever_it_stands() -> None:
    reduced = reduce(with_secrets(KEPT))
    assert reduced == KEPT
    assert "SECRET" not in json.dumps(reduced)


def test_no_name_stays_when_names_are_hashed() -> None:
    hashed = json.dumps(hash_names(with_secrets(KEPT), KEY))
    assert "SECRET" not in hashed
    assert "NAME" not in hashed


def test_reducing_again_changes_nothing() -> None:
    assert reduce(reduce(KEPT)) == reduce(KEPT)


def test_the_order_of_names_is_lost_when_they_are_hashed() -> None:
    hashed = hash_names(KEPT, KEY)
    assert hashed == hash_names(reversed(KEPT), KEY)
    identities = [(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]) for o in hashed]
    assert identities == sorted(identities)


def test_input_is_left_as_it_was() -> None:
    before = copy.deepcopy(KEPT)
    hash_names(KEPT, KEY)
    assert before == KEPT


def test_null_is_as_good_as_absent_and_an_empty_selector_is_not() -> None:
    pod = an_object("Pod", metadata={"name": "p"}, spec={"affinity": None, "containers": [{"name": "c", "resources": {}}]})
    budget = an_object("PodDisruptionBudget", "policy/v1", metadata={"name": "b", "uid": None}, spec={"selector": {}})
    assert reduce([pod, budget]) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": pod["spec"]["containers"]}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {}}},
    ]


MISSHAPEN = [
    ({"spec": []}, "spec: is list, the API has a mapping there"),
    ({"spec": {"containers": {}}}, "spec.containers: is dict, the API has a list there"),
    ({"spec": {"containers": [{"name": 5}]}}, "spec.containers[0].name: is int, the API has text there"),
    ({"spec": {"priority": [5]}}, "spec.priority: is list, the API has a single value there"),
    ({"spec": {"nodeSelector": {"gpu": True}}}, "spec.nodeSelector: is bool, the API has text there"),
    ({"spec": {"tolerations": ["all"]}}, "spec.tolerations[0]: is str, the API has a mapping there"),
    (
        {"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}, {"namespaces": "a"}]}}}},
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].namespaces: "
        "is str, the API has a list there",
    ),
    ({"metadata": {"name": "p", "labels": ["a"]}}, "metadata.labels: is list, the API has a mapping there"),
]


@pytest.mark.parametrize(("fields", "problem"), MISSHAPEN)
def test_what_is_not_of_the_apis_shape_is_refused_by_object_and_field(fields: Object, problem: str) -> None:
    pod = {"kind": "Pod", "metadata": {"namespace": "a", "name": "p"}} | fields
    name = "Pod a/p" if "namespace" in pod["metadata"] else "Pod p"
    for attempt in (reduce, partial(hash_names, key=KEY)):
        with pytest.raises(InputError) as refusal:
            attempt([pod])
        assert str(refusal.value) == f"{name}: {problem}"


def test_an_object_without_a_name_is_called_that_in_errors() -> None:
    with pytest.raises(InputError, match=r"^Node \(no name\): metadata: is list, the API has a mapping there$"):
        reduce([{"kind": "Node", "metadata": []}])


TOKEN = r"h-[0-9a-f]{12}"


def test_a_token_is_a_valid_name_and_stands_for_one_text_under_one_key() -> None:
    hasher = Hasher(KEY)
    tokens = {text: hasher.name(text) for text in ("node-1", "node-2", "a/b", "ä")}
    assert all(re.fullmatch(TOKEN, token) for token in tokens.values())
    assert len(set(tokens.values())) == len(tokens)
    assert {text: Hasher(KEY).name(text) for text in reversed(tokens)} == tokens
    assert not set(map(Hasher("another").name, tokens)) & set(tokens.values())


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InputError, match=r"^hash_key: is empty; give a long random text and keep it secret$"):
        hash_names([], "")


def test_two_names_with_one_token_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmac.digest", lambda *args: b"same for all")
    hasher = Hasher(KEY)
    assert hasher.name("a") == hasher.name("a")
    with pytest.raises(InputError, match=r"^two names get one token under this hash_key; choose another one$"):
        hasher.name("b")


@pytest.mark.parametrize("word", ["", "true", "kube-system", "default", "system-node-critical", "default-scheduler"])
def test_words_of_every_cluster_stay(word: str) -> None:
    assert Hasher(KEY).name(word) == word


KEYS = [
    ("kubernetes.io/hostname", "kubernetes.io/hostname"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("nvidia.com/gpu.product", "nvidia.com/gpu.product"),
    ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/queue-name"),
    ("cloud.google.com/gke-accelerator", "cloud.google.com/gke-accelerator"),
    ("pod-template-hash", "pod-template-hash"),
    ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/control-plane"),
    ("node-role.kubernetes.io/payments", f"node-role.kubernetes.io/{TOKEN}"),
    ("node-restriction.kubernetes.io/payments", f"node-restriction.kubernetes.io/{TOKEN}"),
    ("app", TOKEN),
    ("payments.example/tier", TOKEN),
    ("notkubernetes.io/x", TOKEN),
    ("nvidia.com.example/x", TOKEN),
]


@pytest.mark.parametrize(("key", "expected"), KEYS)
def test_only_keys_of_known_domains_stay(key: str, expected: str) -> None:
    assert re.fullmatch(expected, Hasher(KEY).key(key))


VALUES = [
    ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
    ("nvidia.com/gpu.count", "8", "8"),
    ("nvidia.com/gpu.sharing-strategy", "time-slicing", "time-slicing"),
    ("nvidia.com/mig-1g.5gb.count", "7", "7"),
    ("amd.com/gpu.product-name", "AMD_Instinct_MI300X", "AMD_Instinct_MI300X"),
    ("nvidia.com/gpu.clique", "cluster.7", TOKEN),
    ("kubernetes.io/arch", "amd64", "amd64"),
    ("kubernetes.io/metadata.name", "payments", TOKEN),
    ("compared", "7", "7"),
    ("compared", "seven", TOKEN),
    ("rank", "7", TOKEN),
    ("topology.kubernetes.io/zone", "a", TOKEN),
    ("topology.kubernetes.io/zone", "a__b", f"{TOKEN}__{TOKEN}"),
    ("rank", "a__b", TOKEN),
]


@pytest.mark.parametrize(("key", "value", "expected"), VALUES)
def test_values_stay_where_they_describe_a_gpu_or_are_compared(key: str, value: str, expected: str) -> None:
    assert re.fullmatch(expected, Hasher(KEY, compared=["compared"]).value(key, value))


ANNOTATIONS = [("true", "true"), ("False", "False"), ("-100", "-100"), ("0.5", "0.5"), ("3m30s", "3m30s"), ("", "")]


@pytest.mark.parametrize(("value", "expected"), [*ANNOTATIONS, ("llm", TOKEN), ("3 minutes", TOKEN)])
def test_annotation_values_stay_if_they_are_booleans_numbers_or_durations(value: str, expected: str) -> None:
    assert re.fullmatch(expected, Hasher(KEY).annotation(value))


@pytest.mark.parametrize(
    ("word", "expected"), [("PodScheduled", "PodScheduled"), ("OOMKilled", "OOMKilled"), ("acme.example/llm-0", TOKEN)]
)
def test_reasons_and_condition_types_stay_if_they_are_the_apis(word: str, expected: str) -> None:
    assert re.fullmatch(expected, Hasher(KEY).word(word))


# Small clusters in which everything that places a pod occurs, and often matches.
LABEL_KEYS = ["team", "rank", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "node-role.kubernetes.io/llm"]
LABEL_VALUES = ["", "a", "b", "n0", "n1", "3", "12", "true"]
KEY_NAMES, VALUE_NAMES = st.sampled_from(LABEL_KEYS), st.sampled_from(LABEL_VALUES)
NAMESPACES = st.sampled_from(["a", "b", "kube-system"])
LABELS = st.dictionaries(KEY_NAMES, VALUE_NAMES, max_size=3)


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Mappings with any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def listed(one: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(one, min_size=least, max_size=2)


def requirements(*numeric: str) -> st.SearchStrategy[Object]:
    def requirement(operator: str, key: str, values: list[str], number: int) -> Object:
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": [str(number)] if operator in numeric else values}

    operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", *numeric])
    return st.builds(requirement, operators, KEY_NAMES, listed(VALUE_NAMES, 1), st.integers(-1, 12))


NODE_NAMES = st.sampled_from(["n0", "n1", "n2"])
LABEL_SELECTORS = maybe(matchLabels=LABELS, matchExpressions=listed(requirements()))
FIELDS = st.fixed_dictionaries(
    {"key": st.just("metadata.name"), "operator": st.sampled_from(["In", "NotIn"]), "values": listed(NODE_NAMES, 1)}
)
NODE_TERMS = st.fixed_dictionaries(
    {"nodeSelectorTerms": listed(maybe(matchExpressions=listed(requirements("Gt", "Lt")), matchFields=listed(FIELDS)), 1)}
)
POD_TERMS = st.fixed_dictionaries(
    {"topologyKey": KEY_NAMES, "labelSelector": LABEL_SELECTORS},
    optional={"namespaces": listed(NAMESPACES), "namespaceSelector": LABEL_SELECTORS},
)
SPREADS = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 2),
        "topologyKey": KEY_NAMES,
        "whenUnsatisfiable": st.just("DoNotSchedule"),
        "labelSelector": LABEL_SELECTORS,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "matchLabelKeys": listed(KEY_NAMES),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
    },
)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.fixed_dictionaries({"key": KEY_NAMES, "effect": EFFECTS}, optional={"value": VALUE_NAMES})
TOLERATIONS = maybe(key=KEY_NAMES, operator=st.sampled_from(["Equal", "Exists"]), value=VALUE_NAMES, effect=EFFECTS)
VOLUMES = st.sampled_from(
    [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "token", "secret": {"secretName": "token"}},
    ]
)
CONTAINERS = st.builds(
    lambda gpus, cpu, port: {
        "name": "main",
        "image": "x",
        "resources": {"requests": {"cpu": cpu, GPU: str(gpus)}},
        "ports": [{"containerPort": 80, "hostPort": port}] if port else [],
    },
    st.integers(0, 4),
    st.sampled_from(["500m", "4"]),
    st.sampled_from([0, 0, 80]),
)


def gpu_node(index: int) -> st.SearchStrategy[Object]:
    def build(labels: Object, product: str, taints: list[Object], gpus: int, cordoned: bool) -> Object:
        name = f"n{index}"
        amounts = {"cpu": "8", GPU: str(gpus), "pods": "10"}
        labels = labels | {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    return st.builds(
        build, LABELS, st.sampled_from(["A100", "T4"]), listed(TAINTS), st.integers(0, 8), st.sampled_from([False, False, True])
    )


def gpu_pod(index: int) -> st.SearchStrategy[Object]:
    def build(namespace: str, labels: Object, spec: Object, created: int) -> Object:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{index % 2}", "uid": "u", "controller": True}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"p{index}",
                "namespace": namespace,
                "labels": labels,
                "creationTimestamp": f"2026-11-30T12:{created:02}:00Z",
                "ownerReferences": [owner],
            },
            "spec": spec,
            "status": {"phase": "Running" if spec.get("nodeName") else "Pending"},
        }

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = st.fixed_dictionaries(
        {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
        optional={
            "nodeName": st.sampled_from(["n0", "n1"]),
            "nodeSelector": LABELS,
            "tolerations": listed(TOLERATIONS),
            "topologySpreadConstraints": listed(SPREADS),
            "volumes": listed(VOLUMES),
            "affinity": maybe(
                nodeAffinity=st.fixed_dictionaries({required: NODE_TERMS}),
                podAffinity=st.fixed_dictionaries({required: listed(POD_TERMS)}),
                podAntiAffinity=st.fixed_dictionaries({required: listed(POD_TERMS)}),
            ),
        },
    )
    return st.builds(build, NAMESPACES, LABELS, spec, st.integers(0, 59))


def claimed_volumes() -> st.SearchStrategy[list[Object]]:
    """A claim `data`, and the one of p0's ephemeral volume, with volumes somewhere."""

    def build(namespace: str, zone: str, terms: Object) -> list[Object]:
        return [
            item
            for name in ("data", "p0-scratch")
            for item in (
                {
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"namespace": namespace, "name": name},
                    "spec": {"volumeName": f"pv-{name}"},
                },
                {
                    "kind": "PersistentVolume",
                    "metadata": {"name": f"pv-{name}", "labels": {"topology.kubernetes.io/zone": zone}},
                    "spec": {"nodeAffinity": {"required": terms}},
                },
            )
        ]

    return st.builds(build, NAMESPACES, st.sampled_from(["a", "b", "a__b"]), NODE_TERMS)


def others() -> st.SearchStrategy[list[Object]]:
    namespaces = st.builds(
        lambda labels: [
            {"kind": "Namespace", "metadata": {"name": "a", "labels": labels | {"kubernetes.io/metadata.name": "a"}}}
        ],
        LABELS,
    )
    budgets = st.builds(
        lambda selector: [
            {"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "a"}, "spec": {"selector": selector}}
        ],
        LABEL_SELECTORS,
    )
    return st.builds(lambda *parts: [item for part in parts for item in part], claimed_volumes(), namespaces, budgets)


CLUSTERS = st.builds(
    lambda nodes, pods, rest: [*nodes, *pods, *rest],
    st.tuples(*map(gpu_node, range(3))),
    st.tuples(*map(gpu_pod, range(5))),
    others(),
)
WHOLE_CLUSTERS = settings(deadline=None)


def refusals(objects: list[Object], token: Any) -> dict[tuple[str, str, str], list[str]]:
    """Why each pod may not be on each node, under the tokens of their names."""
    cluster = decode(objects)
    layout = Layout(cluster)
    pods = [*cluster.pending, *(pod for pods in cluster.bound.values() for pod in pods)]
    return {
        (token(pod.namespace), token(pod.name), token(name)): [str(reason) for reason in fit.refusals(node)]
        for pod in pods
        for fit in [Fit(pod, layout, GPU)]
        for name, node in cluster.nodes.items()
    }


def covered(objects: list[Object], token: Any) -> set[tuple[str, str]]:
    """Which budget covers which pod."""
    cluster = decode(objects)
    return {
        (token(budget.name), token(pod.name))
        for budget in cluster.budgets
        for pod in [*cluster.pending, *(pod for pods in cluster.bound.values() for pod in pods)]
        if budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
    }


@WHOLE_CLUSTERS
@given(CLUSTERS)
def test_a_reduced_cluster_measures_exactly_like_the_full_one(objects: list[Object]) -> None:
    full, reduced = (audit(given, AuditOptions(), details=True) for given in (objects, reduce(objects)))
    assert json.dumps(full, sort_keys=True) == json.dumps(reduced, sort_keys=True)


@WHOLE_CLUSTERS
@given(CLUSTERS)
def test_every_node_refuses_every_pod_for_the_same_reasons_when_names_are_hashed(objects: list[Object]) -> None:
    hashed, token = hash_names(objects, KEY), Hasher(KEY).name
    assert refusals(hashed, str) == refusals(objects, token)
    assert covered(hashed, str) == covered(objects, token)


@WHOLE_CLUSTERS
@given(CLUSTERS)
def test_a_hashed_cluster_has_the_same_figures_under_other_names(objects: list[Object]) -> None:
    plain, hashed = (audit(given, AuditOptions(), details=True) for given in (objects, hash_names(objects, KEY)))
    token = Hasher(KEY).name
    figures = ("nodes", "gpus_allocated", "gpus_free", "slots", "slots_usable", "stranded", "frag_rate", "fragmentation_rate")
    more = ("not_applicable_reasons", "cost", "gpu_pods", "largest_slot")
    for figure in (*figures, *more):
        assert hashed[figure] == plain[figure]
    assert hashed["demand_weighted"]["gpus"] == plain["demand_weighted"]["gpus"]
    assert [pool["name"] for pool in hashed["pools"]] == [pool["name"] for pool in plain["pools"]]
    assert hashed["node_free"] == {token(node): free for node, free in plain["node_free"].items()}
    states = [
        {token(p["pod"]): p["state"] for p in plain["pending_pods"]},
        {p["pod"]: p["state"] for p in hashed["pending_pods"]},
    ]
    assert states[0] == states[1]


def test_numbers_that_are_compared_stay_in_labels_requirements_taints_and_volumes() -> None:
    compare = {"key": "rank", "operator": "Gt", "values": ["3"]}
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"rank": "7", "row": "7"}}}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [compare]}]}}},
    }
    hashed = json.dumps(hash_names([node, volume], KEY))
    assert '"7"' in hashed
    assert '["3"]' in hashed
    assert hashed.count('"7"') == 1


def test_the_claim_of_an_ephemeral_volume_is_found_again_though_names_overlap() -> None:
    def pod(name: str) -> Object:
        volumes = [{"name": "b", "ephemeral": {}}]
        return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{}], "volumes": volumes}}

    pods = [pod("a-b"), pod("a")]
    claims: list[Object] = [{"kind": "PersistentVolumeClaim", "metadata": {"name": name}} for name in ("a-b-b", "a-b")]
    cluster = decode(hash_names([*pods, *claims], KEY))
    wanted = {(p.namespace, claim) for p in cluster.pending for claim in p.placement.volume_claims}
    assert wanted == set(cluster.volume_claims)


def test_selected_nodes_keep_their_pods_and_those_that_wait() -> None:
    def node(name: str, **labels: str) -> Object:
        return {"kind": "Node", "metadata": {"name": name, "labels": labels}}

    def pod(name: str, **spec: str) -> Object:
        return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}

    space: Object = {"kind": "Namespace", "metadata": {"name": "n1"}}
    bare: Object = {"kind": "Node", "metadata": {"name": "n3"}}
    objects = [node("n1", pool="a"), node("n2", pool="b"), bare, pod("p1", nodeName="n1"), pod("p2", nodeName="n2"), space]
    waiting = pod("p3")
    assert select_nodes([*objects, waiting], parse_selector("pool=a")) == [objects[0], objects[3], space, waiting]
    assert select_nodes([*objects, waiting], parse_selector("")) == [*objects, waiting]


def test_a_namesake_of_another_api_group_is_dropped() -> None:
    assert reduce([{"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "n"}}]) == []
