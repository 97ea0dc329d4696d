# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real descheduler judges: it takes what is rendered, does with it what is meant, and what the lint says it does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.check import check
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.findings import ENDS, REFUSES
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.migrate import Fleet, migrate
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import OPT_IN, policy_settings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.versions import NEWEST, PLUGINS, parse_version
from ansible_collections.gpuops.defrag.plugins.module_utils._descheduler import policy_document
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import all_at_once
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.descheduler.test_lint import ROWS
from ansible_collections.gpuops.defrag.tests.unit.policies import ARTICLE, VERSIONS

ROOT = Path(__file__).resolve().parents[2]
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POOL = {"name": "a100", "node_selector": "gpus=8", "gpus_per_node": 8, "max_free": 2}
SIZES = (7, 8)
CLASSIFIED = re.compile(r'"Node has been classified" .*?category="(\w+)" node="([\w-]+)"')
EVICTED = re.compile(r'"Evicted pod".*? pod="default/([\w-]+)"')
EVICT = "descheduler.alpha.kubernetes.io/evict"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster with nodes of 7 and 8 GPUs, of which each number is in use on one of them."""
    plane = ControlPlane(ROOT / "build/clusters/test-descheduler-policy")
    try:
        api = plane.start().api
        uses = [(size, used) for size in SIZES for used in range(size + 1)]
        fleet.add_nodes(api, [fleet.node(f"gpu{size}-{used}", size, labels={"gpus": str(size)}) for size, used in uses])
        for size, used in uses:
            if used:
                api.create(PODS, using(f"gpu{size}-{used}", used))
        yield plane
    finally:
        plane.stop()


def using(node: str, gpus: int) -> dict[str, Any]:
    amounts = {fleet.GPU: str(gpus)}
    container = {"name": "main", "image": "example/llm", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"on-{node}"}, "spec": spec}


def run(plane: ControlPlane, folder: Path, policy: Any) -> tuple[int, str]:
    """One cycle of the descheduler: its exit status, and what it says.

    No dry run: of one, 0.36.0 copies the cluster, and begins before the copy is whole. Pods without owners are safe.
    """
    with NamedTemporaryFile("w", suffix=".yaml", dir=folder, delete=False) as file:
        file.write(policy if isinstance(policy, str) else json.dumps(policy))
    command = [
        programs() / "descheduler",
        f"--kubeconfig={plane.kubeconfig}",
        f"--policy-config-file={file.name}",
        "--descheduling-interval=0",
        # Many run side by side, and nobody asks them.
        "--secure-port=0",
        "--v=3",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def settings() -> Iterator[dict[str, Any]]:
    """Every combination of what makes another field or value, for every version."""
    for version, mode, protect, wishes in product(VERSIONS, ("planned", "native"), (None, True, False), (False, True)):
        more: dict[str, Any] = {}
        if wishes:
            more = {
                "plugins": list(OPT_IN),
                "allow_remove_duplicates": True,
                "namespaces_excluded": ["kube-system"],
                "priority_threshold": 1000,
                "min_pod_age": "15m",
            }
        yield {
            "descheduler_version": version,
            "mode": mode,
            "pools": [POOL],
            "protect_local_storage": protect,
            "protect_pvc": protect,
            **more,
        }


def test_the_descheduler_takes_every_policy_that_is_rendered(plane: ControlPlane, tmp_path: Path) -> None:
    # A policy for an older version holds nothing that the newest has not. What the older ones know is in versions.py.
    rendered = {json.dumps(render(policy_settings(given))) for given in settings()}
    assert len(rendered) >= 16
    refused: list[str] = []

    def judge(policy: str) -> None:
        status, said = run(plane, tmp_path, policy)
        if status or "skip" in said.lower() or "unable to" in said:
            refused.append(f"{policy}: {said}")

    all_at_once(judge, sorted(rendered))
    assert not refused


@pytest.mark.parametrize("known", [Fleet(), Fleet(8, "gpus=8")], ids=["plans", "packing"])
def test_the_descheduler_takes_what_the_article_is_migrated_to(plane: ControlPlane, tmp_path: Path, known: Fleet) -> None:
    made = migrate(policy_document(ARTICLE).content, parse_version(NEWEST), fleet=known)
    status, said = run(plane, tmp_path, made.policy)
    assert status == 0, said
    for plugin in ("RemovePodsViolatingInterPodAntiAffinity", "RemovePodsViolatingTopologySpreadConstraint"):
        assert plugin in said


def test_what_the_lint_says_the_descheduler_does_it_does(plane: ControlPlane, tmp_path: Path) -> None:
    wrong: list[str] = []

    def judge(row: tuple[str, Any, Any]) -> None:
        name, given, _expected = row
        found = check(policy_document(given), parse_version(NEWEST))
        # Without apiVersion nothing else of it is read.
        unread = any(finding.id == "MissingApiVersion" for finding in found)
        fatal = any(finding.message.endswith((REFUSES, ENDS)) for finding in found) and not unread
        status, said = run(plane, tmp_path, given)
        if status != int(fatal):
            wrong.append(f"{name}: ends with {status}, and found are {found}; {said[-500:]}")

    all_at_once(judge, ROWS)
    assert not wrong


@pytest.mark.parametrize(("size", "max_free"), [(size, free) for size in SIZES for free in range(1, size - 1)])
def test_in_native_mode_nodes_with_more_gpus_free_than_max_free_are_emptied(
    plane: ControlPlane, tmp_path: Path, size: int, max_free: int
) -> None:
    pool = {"name": "p", "node_selector": {"gpus": size}, "gpus_per_node": size, "max_free": max_free}
    status, said = run(plane, tmp_path, render(policy_settings({"mode": "native", "pools": [pool]})))
    assert status == 0, said
    classes = {node: category for category, node in CLASSIFIED.findall(said)}
    assert classes == {
        f"gpu{size}-{used}": "underutilized" if size - used > max_free else "overutilized" for used in range(size + 1)
    }


def test_in_planned_mode_exactly_the_labelled_pods_are_evicted(plane: ControlPlane, tmp_path: Path) -> None:
    api = plane.api
    made = fleet.deployment("web", "default", 4, 1)
    api.create(DEPLOYMENTS, made)
    wait_until(lambda: sum(map(fleet.is_ready, fleet.pods(api, "app=web"))) == 4, "4 pods Ready")
    names = sorted(pod["metadata"]["name"] for pod in fleet.pods(api, "app=web"))
    api.patch(f"{PODS}/{names[0]}", {"metadata": {"labels": {"gpuops.io/evict": "true"}}})
    api.patch(f"{PODS}/{names[1]}", {"metadata": {"labels": {"gpuops.io/evict": "false"}}})
    # Read by its presence, past every protection of the evictor, its label selector too.
    api.patch(f"{PODS}/{names[2]}", {"metadata": {"annotations": {EVICT: "false"}}})
    evicted: list[str] = []

    def held() -> bool:
        """Whether a total of 0, which is a pause, keeps what would be evicted. Nothing is evicted in its first second."""
        status, said = run(plane, tmp_path, render(policy_settings({"limits": {"per_node": 9, "total": 0}})))
        assert (status, EVICTED.findall(said)) == (0, [])
        return "maximum number of evicted pods per a descheduling cycle reached" in said

    def done() -> bool:
        status, said = run(plane, tmp_path, render(policy_settings({"limits": {"per_node": 9}})))
        assert status == 0, said
        evicted.extend(EVICTED.findall(said))
        return bool(evicted)

    try:
        wait_until(held, "a pod kept by the pause")
        wait_until(done, "a pod evicted")
        assert evicted == [names[0]]
        status, said = run(plane, tmp_path, render(policy_settings({"limits": {"per_node": 9}})))
        assert (status, EVICTED.findall(said)) == (0, [])
    finally:
        api.delete(f"{DEPLOYMENTS}/web")


def test_every_plugin_that_is_known_here_is_one_of_the_descheduler(plane: ControlPlane, tmp_path: Path) -> None:
    # A plugin that it did not have would be named by the error, in place of the arg that none of them has.
    for name in PLUGINS:
        profile = {"name": "p", "pluginConfig": [{"name": name, "args": {"gpuops": 1}}]}
        status, said = run(
            plane, tmp_path, {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
        )
        assert status == 1
        assert 'unknown field \\"gpuops\\"' in said
