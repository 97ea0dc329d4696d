# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is rendered: policies/ is what the roles make today, and the real API server takes it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES
from ansible_collections.gpuops.defrag.tests.cluster.descheduler import copy_chart, run_installed
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT

PACKS = ROOT / "policies"
PLAYBOOK = f"{PROGRAMS}/ansible-playbook"
# As much of the Prometheus operator as the API server has to know.
PROMETHEUS_RULES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "prometheusrules.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "PrometheusRule", "plural": "prometheusrules", "singular": "prometheusrule"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
OVERLAY = """\
resources: [../balanced]
patches:
  - target: {kind: CronJob, name: descheduler}
    patch: '[{"op": "replace", "path": "/spec/schedule", "value": "0 * * * *"}]'
"""


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The descheduler's chart, labelled as the version that it is."""
    return copy_chart(tmp_path_factory.mktemp("charts"), "0.36.0")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    started = ControlPlane(ROOT / "build/clusters/test-render")
    try:
        yield started.start()
    finally:
        started.stop()


def render(folder: Path, chart: Path, *options: str, **variables: Any) -> str:
    """Run the playbook, without any way to a cluster; gives what it says."""
    given = {"render_dir": str(folder), "descheduler_chart_ref": str(chart), "helm_binary": str(programs() / "helm")} | variables
    done = subprocess.run(
        [PLAYBOOK, "gpuops.defrag.render", "-e", json.dumps(given), *options],
        cwd=ROOT,
        env=ENVIRONMENT | {"K8S_AUTH_HOST": "https://127.0.0.1:1", "KUBECONFIG": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def changed(said: str) -> int:
    """How many tasks changed something."""
    (count,) = re.findall(r"changed=(\d+)", said)
    return int(count)


def kubectl(*arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [programs() / "kubectl", *arguments], capture_output=True, text=True, input=given, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def policy(profile: str) -> Any:
    text = (PACKS / profile / "gpu_policy/configmap-kube-system-descheduler.yaml").read_text()
    return yaml.safe_load(yaml.safe_load(text)["data"]["policy.yaml"])


def test_the_packs_are_what_the_roles_make_today(chart: Path) -> None:
    assert changed(render(PACKS, chart, "--check")) == 0, "make packs writes policies/ again"


def test_each_profile_has_its_limits() -> None:
    for profile, bounds in PROFILES.items():
        found = policy(profile)
        assert found["maxNoOfPodsToEvictPerNode"] == bounds.per_node
        assert found["maxNoOfPodsToEvictPerNamespace"] == bounds.per_namespace
        assert found["maxNoOfPodsToEvictTotal"] == bounds.total


def taken(plane: ControlPlane, folder: Path) -> set[str]:
    """What the API server would take of a folder, as kustomize builds it: all of it, or it fails."""
    built = kubectl("kustomize", str(folder))
    told = kubectl(f"--kubeconfig={plane.kubeconfig}", "apply", "--server-side", "--dry-run=server", "-f", "-", given=built)
    found = set(re.findall(r"^(\S+) serverside-applied", told, re.MULTILINE))
    assert len(found) == len(list(yaml.safe_load_all(built)))
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_the_api_server_would_take_each_pack_as_kustomize_builds_it(plane: ControlPlane, profile: str) -> None:
    assert {"cronjob.batch/descheduler", "configmap/descheduler", "serviceaccount/descheduler"} < taken(plane, PACKS / profile)


def test_it_would_take_monitoring_where_there_is_a_prometheus_operator(plane: ControlPlane) -> None:
    kube = f"--kubeconfig={plane.kubeconfig}"
    kubectl(kube, "apply", "-f", "-", given=json.dumps(PROMETHEUS_RULES))
    kubectl(kube, "create", "namespace", "monitoring")
    kubectl(kube, "wait", "--for=condition=Established", "crd/prometheusrules.monitoring.coreos.com")
    for profile in PROFILES:
        assert taken(plane, PACKS / profile / "monitoring") == {
            "configmap/gpuops-defrag-dashboard",
            "prometheusrule.monitoring.coreos.com/gpuops-defrag",
        }


def test_the_descheduler_runs_as_a_pack_installs_it(plane: ControlPlane) -> None:
    kubectl(f"--kubeconfig={plane.kubeconfig}", "apply", "--server-side", "-k", str(PACKS / "conservative"))
    cycle = run_installed(plane.kubeconfig, "kube-system", "descheduler")
    assert (cycle.code, cycle.evicted) == (0, []), cycle.log


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("tool", ["argocd", "flux"])
def test_what_delivers_a_pack_is_built_too_and_names_folders_that_are_there(profile: str, tool: str) -> None:
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(PACKS / profile / tool))))
    paths = [spec["path"] for spec in (each.get("spec", {}) for each in objects) if "path" in spec]
    paths += [each["spec"]["source"]["path"] for each in objects if each["kind"] == "Application"]
    assert paths
    assert [path for path in paths if not (ROOT / path / "kustomization.yaml").is_file()] == []


def test_what_is_the_users_stays_and_what_is_not_made_any_more_goes(tmp_path: Path, chart: Path) -> None:
    one: dict[str, Any] = {"profiles": ["balanced"]}
    shutil.copytree(PACKS / "balanced", tmp_path / "balanced")
    (tmp_path / "production").mkdir()
    (tmp_path / "production/kustomization.yaml").write_text(OVERLAY)
    # By its first line a file is ours, not by any other.
    (tmp_path / "balanced/notes.yaml").write_text("# Why not what it says below\n# Made by gpuops.defrag; …\nmine: true\n")
    before = files(tmp_path)

    assert changed(render(tmp_path, chart, **one, protection_priority_class={"name": "serving"})) == 1
    found = files(tmp_path)
    assert found.keys() - before.keys() == {"balanced/protection/priorityclass-serving.yaml"}
    assert {name for name in before if found[name] != before[name]} == {"balanced/protection/kustomization.yaml"}
    assert "0 * * * *" in kubectl("kustomize", str(tmp_path / "production"))

    assert changed(render(tmp_path, chart, **one)) == 2
    assert files(tmp_path) == before


def test_a_dump_gives_budgets_a_deployment_gets_the_policys_checksum_and_nothing_is_asked_of_a_cluster(
    tmp_path: Path, chart: Path
) -> None:
    shutil.copytree(PACKS / "aggressive", tmp_path / "aggressive")
    render(
        tmp_path,
        chart,
        profiles=["aggressive"],
        src="examples/gpu200-1.json.gz",
        protection_discover=True,
        descheduler_kind="Deployment",
        gpu_policy_tuned_in_place=True,
        scheduler_config_map="packing-scheduler",
    )
    parts = yaml.safe_load((tmp_path / "aggressive/kustomization.yaml").read_text())["resources"]
    assert parts == ["protection", "gpu_policy", "descheduler", "scheduler"]
    built = {(each["kind"], each["metadata"]["name"]): each for each in _built(tmp_path / "aggressive")}
    assert [name for kind, name in built if kind == "PodDisruptionBudget"]
    config = built["ConfigMap", "descheduler"]["metadata"]["annotations"]
    template = built["Deployment", "descheduler"]["spec"]["template"]["metadata"]["annotations"]
    assert template["gpuops.io/policy-sha256"] == config["gpuops.io/policy-sha256"]
    assert config["kustomize.toolkit.fluxcd.io/ssa"] == "IfNotPresent"
    application, _monitoring = _built(tmp_path / "aggressive/argocd")
    assert [each["kind"] for each in application["spec"]["ignoreDifferences"]] == ["ConfigMap", "Deployment"]


def _built(folder: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kubectl("kustomize", str(folder))))
