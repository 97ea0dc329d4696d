# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kube-scheduler: it takes what is rendered, agrees on what it means, packs with it, and lets soft taints steer."""

from __future__ import annotations

import copy
import json
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.configuration import score_weights
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.packing import packing_profiles, packs
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.render import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.settings import settings_of
from ansible_collections.gpuops.defrag.tests.cluster import fleet, processes
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, Object
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane, free_ports
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU

ROOT = Path(__file__).resolve().parents[2]
V1 = "kubescheduler.config.k8s.io/v1"
NODES = 10
REPLICAS = 24
FEWEST = 3
PATH = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    started = ControlPlane(ROOT / "build/clusters/test-scheduler")
    try:
        started.start()
        fleet.add_nodes(started.api, [fleet.node(f"g{number}", 8) for number in range(NODES)])
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def token(plane: ControlPlane) -> str:
    """Of an account that may read /configz and nothing else."""
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "looker"}
    rights, named = "/apis/rbac.authorization.k8s.io/v1", {"metadata": {"name": "looker"}}
    plane.api.create("/api/v1/namespaces/default/serviceaccounts", named)
    plane.api.create(f"{rights}/clusterroles", named | {"rules": [{"nonResourceURLs": ["/configz"], "verbs": ["get"]}]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looker"}
    plane.api.create(f"{rights}/clusterrolebindings", named | {"roleRef": role, "subjects": [account]})
    made = plane.api.create("/api/v1/namespaces/default/serviceaccounts/looker/token", {"spec": {}})
    return str(made["status"]["token"])


@pytest.fixture
def clear(plane: ControlPlane) -> Iterator[Api]:
    """A cluster without pods and taints, again after the test."""
    api = plane.api
    yield api
    for each in api.items(PATH):
        api.delete(f"{PATH}/{each['metadata']['name']}")
    wait_until(lambda: not api.items("/api/v1/namespaces/default/pods"), "pods gone")
    for number in range(NODES):
        api.patch(f"/api/v1/nodes/g{number}", {"spec": {"taints": None}})


def client(plane: ControlPlane) -> Object:
    return {"kubeconfig": str(plane.folder / "scheduler.kubeconfig"), "qps": 500, "burst": 1000}


def schedule(plane: ControlPlane, configuration: Mapping[str, Any], token: str) -> Object:
    """Start the scheduler with it; what it says at /configz."""
    file = plane.folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump({**configuration, "clientConnection": client(plane)}))
    plane.schedule_by(file)
    asked = Request(f"{plane.scheduler_url}/configz", headers={"Authorization": f"Bearer {token}"})
    # It serves a certificate of its own making.
    with urlopen(asked, context=ssl._create_unverified_context()) as answer:
        told: Object = json.loads(answer.read())
    return told


def fill(api: Api, replicas: int = REPLICAS, *, name: str = "llm", scheduler: str | None = None, **more: Any) -> Counter[str]:
    """How many GPUs of each node the replicas of 1 GPU take, placed one after the other."""
    made = fleet.deployment(name, "default", replicas, 1)
    made["spec"]["template"]["spec"] |= ({"schedulerName": scheduler} if scheduler else {}) | more
    api.create(PATH, made)
    fleet.wait_settled(api)
    return Counter(pod["spec"]["nodeName"] for pod in fleet.pods(api, f"app={name}"))


# What people write who want packing: the strategy, and nothing about what works against it.
STRATEGY = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}
BARE = {
    "apiVersion": V1,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": STRATEGY}}]}],
}
SECOND_WITH_QUEUE = {
    "profiles": [{"plugins": {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}}}]
}
OWN_LIST = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
BASE_OF_AN_OPERATOR: Object = {
    "parallelism": 8,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 4}], "disabled": [{"name": "ImageLocality"}]},
                "score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]},
            },
            "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [OWN_LIST]}}],
        },
        {"schedulerName": "batch"},
    ],
}


def weighing(configuration: Object, weight: int) -> Object:
    """The same with another weight of packing."""
    made = copy.deepcopy(configuration)
    made["profiles"][0]["plugins"]["score"]["enabled"][0]["weight"] = weight
    return made


SETTINGS: list[tuple[str, Object]] = [
    ("a second profile", {}),
    ("the default profile", {"profile": "default"}),
    ("a scheduler of its own", {"profile": "alone"}),
    ("another name", {"profile_name": "fill.gpu-nodes"}),
    ("MIG slices beside GPUs", {"resource_weights": {"nvidia.com/mig-1g.5gb": 100, "cpu": 1, GPU: 50}}),
    ("the largest weights", {"fit_weight": 100, "balanced_allocation_weight": 100, "profile": "default"}),
    ("the smallest weights", {"fit_weight": 1, "percentage_of_nodes_to_score": 0}),
    ("with default spreading", {"fit_weight": 17, "default_spreading": True}),
    ("beside a profile that sorts the queue", {"base": SECOND_WITH_QUEUE}),
    ("on what an operator has", {"base": BASE_OF_AN_OPERATOR, "profile": "default", "fit_weight": 20}),
    ("beside what an operator has", {"base": BASE_OF_AN_OPERATOR, "balanced_allocation_weight": 2}),
    ("on what was rendered before", {"base": render(settings_of({})), "balanced_allocation_weight": 3, "fit_weight": 7}),
]


@pytest.mark.parametrize("given", [row[1] for row in SETTINGS], ids=[row[0] for row in SETTINGS])
def test_the_scheduler_takes_what_is_rendered_and_agrees_on_what_it_means(
    given: Object, plane: ControlPlane, tmp_path: Path
) -> None:
    settings = settings_of(given)
    made = render(settings)
    assert render(settings_of(given | {"base": made})) == made
    file, written = tmp_path / "scheduler.yaml", tmp_path / "written.yaml"
    file.write_text(yaml.safe_dump(made | {"clientConnection": client(plane)}))
    command: list[str | Path] = [
        programs() / "kube-scheduler",
        f"--config={file}",
        f"--write-config-to={written}",
        f"--cert-dir={tmp_path}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    merged = yaml.safe_load(written.read_text())
    # With all defaults filled in, every profile counts as we count it, and packs or not for the same reasons.
    assert [score_weights(each, "") for each in merged["profiles"]] == [score_weights(each, "") for each in made["profiles"]]
    assert packs(merged, settings.resource_name) == packs(made, settings.resource_name)
    assert packing_profiles(packs(merged, settings.resource_name)) == [settings.name]


SPREADING = render(settings_of({"profile": "default", "default_spreading": True, "fit_weight": 17}))
MEASURED: list[tuple[str, Mapping[str, Any], bool]] = [
    ("Kubernetes' defaults spread", {"apiVersion": V1, "kind": "KubeSchedulerConfiguration"}, False),
    ("MostAllocated alone spreads as much", BARE, False),
    ("the rendered profile packs", render(settings_of({"profile": "default"})), True),
    ("packing outweighs default spreading", SPREADING, True),
    ("default spreading outweighs packing", weighing(SPREADING, 5), False),
]


@pytest.mark.parametrize(("configuration", "packing"), [row[1:] for row in MEASURED], ids=[row[0] for row in MEASURED])
def test_a_verdict_comes_true(
    configuration: Mapping[str, Any], packing: bool, plane: ControlPlane, clear: Api, token: str
) -> None:
    told = schedule(plane, configuration, token)
    found = fill(clear)
    print("replicas by node:", sorted(found.values(), reverse=True))
    assert len(found) == (FEWEST if packing else NODES)
    for each in (told, configuration):
        assert packing_profiles(packs(each, GPU)) == (["default-scheduler"] if packing else [])


def test_only_pods_that_name_the_second_profile_are_packed(plane: ControlPlane, clear: Api, token: str) -> None:
    schedule(plane, render(settings_of({})), token)
    assert len(fill(clear, name="packed", scheduler="gpu-packing")) == FEWEST
    assert len(fill(clear, name="plain")) == NODES - FEWEST


def test_beside_a_scheduler_out_of_reach_one_of_its_own_packs(plane: ControlPlane, clear: Api) -> None:
    plane.schedule_by(None)
    file = plane.folder / "alone.yaml"
    file.write_text(yaml.safe_dump(render(settings_of({"profile": "alone", "base": {"clientConnection": client(plane)}}))))
    (port,) = free_ports(1)
    command: list[str | Path] = [
        programs() / "kube-scheduler",
        f"--config={file}",
        f"--secure-port={port}",
        f"--cert-dir={plane.folder}",
    ]
    started = processes.start(command, plane.folder / "logs/alone.log")
    try:
        assert len(fill(clear, name="packed", scheduler="gpu-packing")) == FEWEST
        assert len(fill(clear, name="plain")) == NODES - FEWEST
    finally:
        processes.stop([started])
    # Each leads by a lease of its own.
    assert clear.answers("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpu-packing")


@pytest.mark.parametrize("fit_weight", [1, 10, 100])
def test_soft_taints_steer_past_packing(fit_weight: int, plane: ControlPlane, clear: Api, token: str) -> None:
    schedule(plane, render(settings_of({"profile": "default", "fit_weight": fit_weight})), token)
    (fullest,) = fill(clear, 7)
    meant = next(f"g{number}" for number in range(NODES) if f"g{number}" != fullest)
    soft = {"key": "gpuops.io/defrag", "effect": "PreferNoSchedule"}
    for number in range(NODES):
        if f"g{number}" != meant:
            clear.patch(f"/api/v1/nodes/g{number}", {"spec": {"taints": [soft]}})
    assert fill(clear, 1, name="steered") == {meant: 1}
