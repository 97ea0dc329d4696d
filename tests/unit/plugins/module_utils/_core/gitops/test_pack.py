# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests become files that kustomize, Argo CD and Flux take, the same every time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Template

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.gitops.pack import (
    HEADER,
    TUNER,
    Chart,
    Repository,
    chart_address,
    pack,
)

ROLE = Path(__file__).resolve().parents[6] / "roles/gpu_policy"
HERE = Repository("https://git.example.com/fleet.git", "main", "gpu/balanced")
CHART = Chart("descheduler", "https://charts.example.com", "0.36.0", "desched", "kube-system", {"deschedulerPolicy": None})


def made(kind: str, name: str, namespace: str = "", group: str = "v1") -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name} | ({"namespace": namespace} if namespace else {})}


PARTS = {
    "protection": [
        made("PriorityClass", "serving"),
        made("PodDisruptionBudget", "llm", "b"),
        made("PodDisruptionBudget", "llm", "a"),
    ],
    "gpu_policy": [made("ConfigMap", "desched", "kube-system")],
    "descheduler": [made("Deployment", "desched", "kube-system", "apps/v1"), made("ClusterRole", "system:desched")],
    "scheduler": [],
}


def packed(parts: Mapping[str, Any] | None = None, chart: Chart | None = CHART) -> dict[str, Any]:
    """The files of a pack, read again."""
    files = pack(PARTS if parts is None else parts, chart, HERE, json.dumps)
    assert all(text.startswith(HEADER) for text in files.values())
    return {path: json.loads(text.removeprefix(HEADER)) for path, text in files.items()}


def test_a_part_is_a_folder_with_a_file_for_each_object_and_their_list() -> None:
    files = packed()
    assert list(files) == sorted(files)
    assert [path for path in files if path.startswith("protection/")] == [
        "protection/kustomization.yaml",
        "protection/poddisruptionbudget-a-llm.yaml",
        "protection/poddisruptionbudget-b-llm.yaml",
        "protection/priorityclass-serving.yaml",
    ]
    for folder in ("protection", "gpu_policy", "descheduler", "argocd", "flux"):
        beside = {path.partition("/")[2] for path in files if path.startswith(f"{folder}/")}
        listed = files[f"{folder}/kustomization.yaml"]["resources"]
        assert listed == sorted(beside - {"kustomization.yaml", "values.yaml"})
    assert "descheduler/clusterrole-system-desched.yaml" in files


def test_parts_are_applied_in_their_order_and_one_without_objects_is_left_out() -> None:
    files = packed()
    assert files["kustomization.yaml"]["resources"] == ["protection", "gpu_policy", "descheduler"]
    assert not [path for path in files if path.startswith("scheduler/")]


def test_objects_of_one_name_are_refused_by_that_name() -> None:
    with pytest.raises(InputError, match="configmap-kube-system-desched: gpu_policy: is there twice"):
        packed({"gpu_policy": PARTS["gpu_policy"] * 2})


def test_argo_cd_leaves_alone_what_tuning_has_written_and_nothing_else() -> None:
    spec = packed()["argocd/application-argocd-gpuops-defrag.yaml"]["spec"]
    assert spec["source"] == {"repoURL": HERE.url, "targetRevision": "main", "path": "gpu/balanced"}
    assert [(each["group"], each["kind"], each["name"]) for each in spec["ignoreDifferences"]] == [
        ("", "ConfigMap", "desched"),
        ("apps", "Deployment", "desched"),
    ]
    assert {tuple(each["managedFieldsManagers"]) for each in spec["ignoreDifferences"]} == {(TUNER,)}
    assert "RespectIgnoreDifferences=true" in spec["syncPolicy"]["syncOptions"]


def test_what_was_deployed_before_argo_cd_came_is_not_ignored() -> None:
    managers = yaml.safe_load((ROLE / "vars/main.yml").read_text())["_gpu_policy_manager"]
    for tool, manager in (("Argo CD", TUNER), ("", "gpuops.defrag")):
        assert Template(managers).render(_gpu_policy_keeper={"tool": tool}) == manager
    written = "".join(file.read_text() for file in (ROLE / "tasks").glob("*.yml"))
    assert re.findall(r"field_manager: (.*)", written) == ['"{{ _gpu_policy_manager }}"'] * 3


def test_flux_applies_each_part_after_the_one_before_and_the_chart_by_a_release() -> None:
    files = packed()
    flux = {each["kind"]: each for path, each in files.items() if path.startswith("flux/")}
    policy = files["flux/kustomization-flux-system-gpuops-defrag-gpu-policy.yaml"]["spec"]
    assert (policy["path"], policy["dependsOn"]) == ("./gpu/balanced/gpu_policy", [{"name": "gpuops-defrag-protection"}])
    assert not [path for path in files if path.startswith("flux/kustomization-") and "descheduler" in path]
    release = flux["HelmRelease"]["spec"]
    assert release["chart"]["spec"]["version"] == "0.36.0"
    assert (release["releaseName"], release["targetNamespace"]) == ("desched", "kube-system")
    (values,) = release["valuesFrom"]
    assert values["name"] == flux["ConfigMap"]["metadata"]["name"]
    # A null keeps the chart's own policy away.
    assert json.loads(flux["ConfigMap"]["data"]["values.yaml"]) == files["descheduler/values.yaml"] == {"deschedulerPolicy": None}
    assert flux["HelmRepository"]["spec"] == {"interval": "1h", "url": "https://charts.example.com"}


def test_flux_is_told_of_a_registry_and_gets_the_rights_that_the_chart_lacks() -> None:
    files = packed(chart=replace(CHART, repository="oci://registry.example.com/charts", rights=[made("ClusterRole", "more")]))
    assert files["flux/helmrepository-flux-system-gpuops-defrag.yaml"]["spec"]["type"] == "oci"
    assert "clusterrole-more.yaml" in files["flux/kustomization.yaml"]["resources"]


def test_without_a_chart_flux_applies_the_descheduler_like_the_other_parts() -> None:
    files = packed(chart=None)
    assert "flux/kustomization-flux-system-gpuops-defrag-descheduler.yaml" in files
    assert not [path for path in files if "helm" in path or path.endswith("values.yaml")]


@pytest.mark.parametrize(
    ("ref", "address"),
    [
        ("descheduler", ("descheduler", "https://charts.example.com")),
        ("oci://registry.example.com/charts/desched", ("desched", "oci://registry.example.com/charts")),
        ("/srv/charts/descheduler-0.36.0.tgz", ("descheduler", "https://charts.example.com")),
    ],
)
def test_a_chart_is_where_a_cluster_can_have_it_from(ref: str, address: tuple[str, str]) -> None:
    assert chart_address(ref, "https://charts.example.com") == address


def test_monitoring_is_delivered_by_itself() -> None:
    rule = made("PrometheusRule", "gpu", "monitoring", "monitoring.coreos.com/v1")
    files = packed({**PARTS, "monitoring": [rule]})
    assert "monitoring" not in files["kustomization.yaml"]["resources"]
    application = files["argocd/application-argocd-gpuops-defrag-monitoring.yaml"]["spec"]
    assert application["source"]["path"] == "gpu/balanced/monitoring"
    assert "ignoreDifferences" not in application
    flux = files["flux/kustomization-flux-system-gpuops-defrag-monitoring.yaml"]["spec"]
    assert flux["path"] == "./gpu/balanced/monitoring"
    assert "dependsOn" not in flux
