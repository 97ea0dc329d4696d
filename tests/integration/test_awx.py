# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every job template, run by ansible-runner as AWX runs it: with the environment of its credential, and no kubeconfig."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from jinja2 import Template

from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api
from ansible_collections.gpuops.defrag.tests.cluster.descheduler import copy_chart
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
AWX = ROOT / "extensions/awx"
DATA = DataLoader().load_from_file(str(AWX / "controller.yml"))
TEMPLATES = {template["name"]: template for template in DATA["controller_templates"]}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
# Which of policies/rbac each credential has by the table of the page, and so here.
RIGHTS = {
    credential: tuple(re.findall(r"rbac/([\w-]+)\.yaml", rights))
    for credential, rights in re.findall(
        r"^\| `(gpuops \w+)` \| (\[reader\].*) \|$", (ROOT / "docs/awx.md").read_text(), re.MULTILINE
    )
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of two GPU nodes, with an account for each credential."""
    started = ControlPlane(ROOT / "build/clusters/test-awx")
    try:
        api = started.start().api
        fleet.add_nodes(api, [fleet.node(f"gpu-{number}", 8) for number in range(2)])
        for credential, documents in RIGHTS.items():
            grant(api, account(credential), documents)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_chart(tmp_path_factory.mktemp("charts"), "0.36.0")


def account(credential: str) -> str:
    return credential.replace(" ", "-")


def grant(api: Api, name: str, documents: tuple[str, ...]) -> None:
    """Make an account with the rights of these documents and no others."""
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    for document in documents:
        found = yaml.safe_load((ROOT / f"policies/rbac/{document}.yaml").read_text())
        for role in found.get("items", [found]):
            meta, kind = role["metadata"], role["kind"]
            where = f"{RBAC}/namespaces/{meta['namespace']}" if kind == "Role" else RBAC
            api.apply(f"{where}/{kind.lower()}s/{meta['name']}", role)
            binding = {
                "metadata": {"name": f"{name}-{meta['name']}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": meta["name"]},
                "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
            }
            api.create(f"{where}/{kind.lower()}bindings", binding)


def bearer(plane: ControlPlane, credential: str) -> dict[str, str]:
    """The variables that AWX's own credential type, OpenShift or Kubernetes API Bearer Token, gives a job."""
    made = plane.api.create(f"/api/v1/namespaces/default/serviceaccounts/{account(credential)}/token", {"spec": {}})
    return {
        "K8S_AUTH_HOST": plane.url,
        "K8S_AUTH_API_KEY": made["status"]["token"],
        "K8S_AUTH_VERIFY_SSL": "True",
        "K8S_AUTH_SSL_CA_CERT": str(plane.authority),
    }


def kubeconfig_file(folder: Path, plane: ControlPlane) -> dict[str, str]:
    """The variables that our credential type gives a job, by its injectors."""
    (kind,) = DATA["controller_credential_types"]
    file = folder / "kubeconfig-of-the-credential"
    content = Template(str(kind["injectors"]["file"]["template.kubeconfig"])).render(kubeconfig=plane.kubeconfig.read_text())
    file.write_text(content)
    tower = {"filename": {"kubeconfig": str(file)}}
    return {name: Template(str(value)).render(tower=tower) for name, value in kind["injectors"]["env"].items()}


def launch(folder: Path, template: str, environment: dict[str, str], host: dict[str, Any], **answers: Any) -> dict[str, Any]:
    """Run a job as AWX would; gives its stats, of which ``artifact_data`` is what it leaves for the next one of a workflow."""
    data = folder / template.replace(" ", "-")
    (data / "env").mkdir(parents=True)
    (data / "inventory").mkdir()
    (data / "project").symlink_to(AWX / "project")
    (data / "inventory/hosts.json").write_text(json.dumps({"all": {"hosts": {"eu": host}}}))
    survey = TEMPLATES[template].get("survey_spec", {}).get("spec", [])
    # What nobody answers has its default, an empty text too; an empty number is left out.
    unanswered = {each["variable"]: each["default"] for each in survey if each["default"] != "" or each["type"] == "text"}
    variables = TEMPLATES[template].get("extra_vars", {}) | unanswered | answers
    (data / "env/extravars").write_text(json.dumps(variables))
    (data / "env/envvars").write_text(json.dumps(environment | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".venv/collections")}))
    # Nothing of whoever runs the test: no home, and no kubeconfig in it.
    path = f"{programs()}:{BIN}:{os.environ['PATH']}"
    command = [BIN / "ansible-runner", "run", data, "-p", TEMPLATES[template]["playbook"], "--ident", "job"]
    done = subprocess.run(
        list(map(str, command)),
        env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(file.read_text()) for file in (data / "artifacts/job/job_events").glob("*.json")]
    (stats,) = (event["event_data"] for event in events if event["event"] == "playbook_on_stats")
    assert stats["ok"].keys() == {"eu"}
    return dict(stats)


def test_each_template_works_with_the_rights_of_its_credential_and_nothing_but_its_environment(
    tmp_path: Path, plane: ControlPlane, chart: Path
) -> None:
    uid = plane.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    key = uid.replace("-", "_")
    left: dict[str, Any] = {}
    for name, template in TEMPLATES.items():
        (credential,) = template["credentials"]
        answers = {"descheduler_chart_ref": str(chart)} if name == "gpuops deploy" else {}
        stats = launch(tmp_path, name, bearer(plane, credential), {"cluster_uid": uid}, **answers)
        left |= stats.get("artifact_data", {})
        if name == "gpuops deploy":
            assert plane.api.get("/apis/batch/v1/namespaces/kube-system/cronjobs/descheduler")
    assert not plane.api.items("/apis/batch/v1/namespaces/kube-system/cronjobs")
    assert left[f"gpuops_defrag_audit_{key}"]["name"] == "eu"
    assert left[f"gpuops_defrag_rate_{key}"]["limits"]["total"] >= 0
    assert left[f"gpuops_defrag_plan_{key}"]["verdict"] == left[f"gpuops_defrag_{key}"]["plan"]
    assert left[f"gpuops_defrag_rate_{key}"]["action"] in ("hold", "pause")
    assert left[f"gpuops_defrag_run_{key}"]["steps"] == 1


@pytest.mark.parametrize(("template", "answers"), [("gpuops tune", {}), ("gpuops reconcile", {"limits": "tuned"})])
def test_a_second_run_in_a_row_changes_nothing(
    tmp_path: Path, plane: ControlPlane, template: str, answers: dict[str, str]
) -> None:
    (credential,) = TEMPLATES[template]["credentials"]
    for number in (1, 2):
        (folder := tmp_path / str(number)).mkdir()
        stats = launch(folder, template, bearer(plane, credential), {}, **answers)
    assert stats["changed"] == {}


def test_a_credential_with_a_kubeconfig_serves_hosts_that_name_a_context(tmp_path: Path, plane: ControlPlane) -> None:
    stats = launch(tmp_path, "gpuops reconcile", kubeconfig_file(tmp_path, plane), {"context": plane.folder.name})
    assert len(stats["artifact_data"]) == 1


def builder(*arguments: str | Path, folder: Path) -> str:
    done = subprocess.run([BIN / "ansible-builder", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_execution_environment_is_one_that_ansible_builder_takes(tmp_path: Path) -> None:
    builder("create", "-f", AWX / "execution-environment.yml", "-c", tmp_path / "context", folder=tmp_path)
    wanted = yaml.safe_load((tmp_path / "context/_build/requirements.yml").read_text())
    assert [collection["name"] for collection in wanted["collections"]] == ["https://github.com/gpuops/defrag.git"]
    # Docker and podman have it by different names.
    (steps,) = (file.read_text() for file in (tmp_path / "context").glob("*ile"))
    # The builder's own default is a base image with a Python that is too old, and none has git.
    assert 'EE_BASE_IMAGE="quay.io/ansible/ansible-runner' not in steps
    assert 0 < steps.find("install -y git-core") < steps.find("ansible-galaxy collection install")


def test_what_the_collection_needs_there_is_found_by_its_metadata(tmp_path: Path) -> None:
    found = yaml.safe_load(builder("introspect", ROOT / ".venv/collections", folder=tmp_path))
    ours = {line.partition(" ")[0] for line in found["python"] if "gpuops.defrag" in line}
    # PyYAML is left out, as every image has it.
    assert ours == {"kubernetes>=24.2.0", "jmespath"}
