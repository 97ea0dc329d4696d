# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test cluster is what tests take it for: a real control plane whose nodes, pods and placement can be told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planes")


@pytest.fixture
def plane(folder: Path) -> Iterator[ControlPlane]:
    found = ControlPlane(folder / "one")
    found.start()
    yield found
    found.stop()


def audited(plane: ControlPlane) -> dict[str, Any]:
    return audit([plane.api.get("/api/v1/nodes"), plane.api.get("/api/v1/pods")], AuditOptions())


def seconds(pod: dict[str, Any], first: str, second: str) -> float:
    """From one condition's last change to another's, in seconds."""
    when = {c["type"]: datetime.fromisoformat(c["lastTransitionTime"]) for c in pod["status"]["conditions"]}
    return (when[second] - when[first]).total_seconds()


def test_pods_are_placed_by_the_scheduler_and_some_leave_again(plane: ControlPlane) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"}
    shape = fleet.Shape(
        nodes=6, gpus=4, products=("A100", "T4"), labels={"pool": "x"}, taints=(taint,), cpu_nodes=1, cold_start=2
    )
    fleet.populate(plane.api, shape)

    found = audited(plane)
    assert (found["nodes"], found["gpus_total"]) == (6, 24)
    assert {pool["name"]: pool["nodes"] for pool in found["pools"]} == {"A100": 3, "T4": 3}
    assert 0 < found["gpus_free"] < 24
    nodes = plane.api.items("/api/v1/nodes?labelSelector=pool%3Dx")
    assert {t["key"] for node in nodes for t in node["spec"]["taints"]} == {"nvidia.com/gpu"}
    pods = fleet.pods(plane.api)
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"] for node in nodes}
    assert {e["reportingComponent"] for e in plane.api.items("/api/v1/events") if e["reason"] == "Scheduled"} == {
        "default-scheduler"
    }
    # Times have whole seconds.
    assert all(seconds(pod, "PodScheduled", "Ready") >= 1 for pod in pods)

    name = f"/api/v1/namespaces/{pods[0]['metadata']['namespace']}/pods/{pods[0]['metadata']['name']}"
    for path in ("/api/v1/nodes/gpu-000", name):
        for value, ready in (("true", False), (None, True)):
            told = {"annotations" if "pods" in path else "labels": {"test.gpuops.io/unready": value}}
            plane.api.patch(path, {"metadata": told})
            wait_until(lambda path=path, ready=ready: fleet.is_ready(plane.api.get(path)) is ready, f"{path} ready: {ready}")  # type: ignore[misc]


def test_a_snapshot_is_loaded_as_it_is_with_owners_that_replace_what_goes(plane: ControlPlane) -> None:
    snapshot = json.loads(gzip.decompress((EXAMPLES / "gpu200-1.json.gz").read_bytes()))
    fleet.load(plane.api, snapshot["items"])

    assert audited(plane)["node_free"] == audit([snapshot], AuditOptions())["node_free"]
    before = fleet.pods(plane.api)
    gone = before[0]["metadata"]
    plane.api.delete(f"/api/v1/namespaces/{gone['namespace']}/pods/{gone['name']}")

    def replaced() -> bool:
        now = fleet.pods(plane.api)
        return len(now) == len(before) and all(pod["metadata"]["uid"] != gone["uid"] and fleet.is_ready(pod) for pod in now)

    wait_until(replaced, "the ReplicaSet replaced its pod")


def test_planes_run_side_by_side_and_leave_nothing_behind(folder: Path) -> None:
    planes = [ControlPlane(folder / name).start() for name in ("two", "three")]
    try:
        uids = {plane.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"] for plane in planes}
        assert len(uids) == 2
        # Another process knows a plane by its folder.
        assert all(ControlPlane(plane.folder).running for plane in planes)
    finally:
        for plane in planes:
            ControlPlane(plane.folder).stop()
    assert not any(plane.running for plane in planes)
    assert not any(plane.api.answers() for plane in planes)
