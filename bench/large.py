# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A large cluster, its objects as whole as an API server tells them. As a program it serves them page by page."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ansible_collections.gpuops.defrag.tests.integration.api_server import ApiServer

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
START = datetime(2026, 11, 1, tzinfo=UTC)


def _uid(choose: random.Random) -> str:
    return str(UUID(int=choose.getrandbits(128), version=4))


def _time(choose: random.Random) -> datetime:
    return START + timedelta(seconds=choose.randrange(29 * 86400))


def _text(moment: datetime, seconds: int = 0) -> str:
    return (moment + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, since: str) -> Object:
    return {"type": kind, "observedGeneration": 1, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}


def nodes(count: int) -> Iterator[Object]:
    """GPU nodes with what labels, conditions, images and managed fields they have on a real cluster."""
    choose = random.Random(1)
    for number in range(count):
        name, made = f"gpu-{number:05}", _time(choose)
        zone = f"region-1{'abc'[number % 3]}"
        amounts = {"cpu": "95690m", "memory": "1008Gi", "pods": "110", "ephemeral-storage": "1888541258751", GPU: "8"}
        labels = {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "gpu.8x",
            "topology.kubernetes.io/region": "region-1",
            "topology.kubernetes.io/zone": zone,
            "nvidia.com/gpu.product": PRODUCTS[number % 4 == 0],
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.present": "true",
            **{f"feature.node.kubernetes.io/cpu-cpuid.AVX512{part}": "true" for part in ("BW", "CD", "DQ", "F", "VL", "VNNI")},
            **{f"nvidia.com/gpu.{part}": "1" for part in ("family", "memory", "replicas", "machine", "compute.major")},
        }
        beat = _text(START + timedelta(days=29), number % 300)
        conditions = [
            {
                **_condition(kind, _text(made)),
                "status": status,
                "lastHeartbeatTime": beat,
                "reason": f"Kubelet{kind}",
                "message": kind,
            }
            for kind, status in (
                ("MemoryPressure", "False"),
                ("DiskPressure", "False"),
                ("PIDPressure", "False"),
                ("Ready", "True"),
            )
        ]
        images = [
            {"names": [f"registry.example/llm/{image}@sha256:{choose.getrandbits(256):064x}"], "sizeBytes": 9_000_000_000 + image}
            for image in range(15)
        ]
        yield {
            "metadata": {
                "name": name,
                "uid": _uid(choose),
                "resourceVersion": str(choose.randrange(10**9)),
                "creationTimestamp": _text(made),
                "labels": labels,
                "annotations": {
                    "node.alpha.kubernetes.io/ttl": "0",
                    "csi.volume.kubernetes.io/nodeid": f'{{"csi.example":"{name}"}}',
                },
                "managedFields": [_managed("kubelet", _text(made), {f"f:{label}": {} for label in labels})],
            },
            "spec": {"podCIDR": f"10.{number // 256}.{number % 256}.0/24", "providerID": f"example:///{zone}/i-{number:017x}"},
            "status": {
                "capacity": amounts | {"cpu": "96"},
                "allocatable": amounts,
                "conditions": conditions,
                "addresses": [{"type": "InternalIP", "address": f"10.128.{number // 256}.{number % 256}"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Ubuntu 24.04 LTS", "architecture": "amd64"},
                "images": images,
            },
        }


def pods(count: int, on: int) -> Iterator[Object]:
    """Pods of Deployments, bound to so many nodes in turn, each with 0, 1 or 2 GPUs."""
    choose = random.Random(2)
    for number in range(count):
        yield _pod(number, on, choose)


def _managed(manager: str, since: str, fields: Object, subresource: str | None = None) -> Object:
    entry: Object = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": since, "fieldsType": "FieldsV1"}
    return entry | {"fieldsV1": fields} | ({"subresource": subresource} if subresource else {})


def _pod(number: int, on: int, choose: random.Random) -> Object:
    made = _time(choose)
    app = f"llm-{number // 8:05}"
    hashed = f"{choose.getrandbits(40):010x}"
    name = f"{app}-{hashed}-{choose.getrandbits(20):05x}"
    gpus = (0, 1, 1, 2)[number // on % 4]
    amounts = {"cpu": str(4 + 4 * gpus), "memory": f"{16 + 48 * gpus}Gi"} | ({GPU: str(gpus)} if gpus else {})
    container = f"containerd://{choose.getrandbits(256):064x}"
    image = f"registry.example/llm/serve@sha256:{choose.getrandbits(256):064x}"
    environment: list[Object] = [
        {"name": f"SERVE_{part}", "value": f"{part.lower()}-{number % 97}"} for part in ("MODEL", "TENSOR", "CACHE", "LOG")
    ]
    environment.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}})
    token = {
        "name": f"kube-api-access-{choose.getrandbits(25):05x}",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {
                    "downwardAPI": {
                        "items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }
    owned: Object = {".": {}, f'k:{{"uid":"{_uid(choose)}"}}': {}}
    labelled: Object = {".": {}, "f:app": {}, "f:pod-template-hash": {}}
    template: Object = {
        "f:metadata": {"f:generateName": {}, "f:labels": labelled, "f:ownerReferences": owned},
        "f:spec": {
            "f:containers": {
                'k:{"name":"serve"}': {
                    ".": {},
                    "f:env": {f'k:{{"name":"{e["name"]}"}}': {".": {}, "f:name": {}, "f:value": {}} for e in environment},
                    "f:image": {},
                    "f:imagePullPolicy": {},
                    "f:name": {},
                    "f:ports": {".": {}, 'k:{"containerPort":8000,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                    "f:resources": {".": {}, "f:limits": {".": {}, "f:nvidia.com/gpu": {}}, "f:requests": {".": {}, "f:cpu": {}}},
                    "f:volumeMounts": {".": {}, 'k:{"mountPath":"/dev/shm"}': {".": {}, "f:mountPath": {}, "f:name": {}}},
                }
            },
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        },
    }
    reported: Object = {
        "f:status": {"f:conditions": {f'k:{{"type":"{kind}"}}': {".": {}, "f:status": {}} for kind in ("Ready", "Initialized")}}
    }
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3}
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-{hashed}-",
            "namespace": f"team-{number // 8 % 40:02}",
            "uid": _uid(choose),
            "resourceVersion": str(choose.randrange(10**9)),
            "generation": 1,
            "creationTimestamp": _text(made),
            "labels": {"app": app, "pod-template-hash": hashed},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{hashed}",
                    "uid": _uid(choose),
                    "controller": True,
                }
            ],
            "managedFields": [
                _managed("kube-controller-manager", _text(made), template),
                _managed("kubelet", _text(made, 95), reported, "status"),
            ],
        },
        "spec": {
            "volumes": [token, {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
            "containers": [
                {
                    "name": "serve",
                    "image": image,
                    "args": ["--port=8000", f"--tensor-parallel-size={max(gpus, 1)}"],
                    "ports": [{"containerPort": 8000, "protocol": "TCP"}],
                    "env": environment,
                    "resources": {"limits": amounts, "requests": amounts},
                    "volumeMounts": [
                        {"name": "shm", "mountPath": "/dev/shm"},
                        {"name": token["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                    ],
                    "readinessProbe": probe,
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "nodeName": f"gpu-{number % on:05}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
                *(
                    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                    for state in ("not-ready", "unreachable")
                ),
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "observedGeneration": 1,
            "phase": "Running",
            "conditions": [
                _condition("PodReadyToStartContainers", _text(made, 4)),
                _condition("Initialized", _text(made, 1)),
                _condition("Ready", _text(made, 95)),
                _condition("ContainersReady", _text(made, 95)),
                _condition("PodScheduled", _text(made)),
            ],
            "hostIP": f"10.128.{number % on // 256}.{number % on % 256}",
            "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
            "startTime": _text(made, 1),
            "containerStatuses": [
                {
                    "name": "serve",
                    "state": {"running": {"startedAt": _text(made, 35)}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": image,
                    "imageID": image,
                    "containerID": container,
                    "started": True,
                    "resources": {"limits": amounts, "requests": amounts},
                    "allocatedResources": amounts,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


def main() -> None:
    """Serve so many pods on so many nodes, say where, and end with standard input."""
    count, on = map(int, sys.argv[1:])
    with ApiServer({"/api/v1/pods": pods(count, on), "/api/v1/nodes": nodes(on)}) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
