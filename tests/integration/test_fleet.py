# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory whose hosts are clusters: every playbook runs over it, and none of them disturbs another."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.descheduler import copy_chart
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.integration.environment import CLUSTERS, ENVIRONMENT, PROGRAMS, ROOT

PLAYBOOKS = ("audit", "plan", "deploy", "tune", "reconcile", "defragment", "uninstall")
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
Hosts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def planes() -> Iterator[dict[str, ControlPlane]]:
    """Two clusters of two GPU nodes each."""
    started = {name: ControlPlane(CLUSTERS / f"test-fleet-{name}") for name in ("eu", "us")}
    try:
        for plane in started.values():
            fleet.add_nodes(plane.start().api, [fleet.node(f"gpu-{number}", 8) for number in range(2)])
        yield started
    finally:
        for plane in started.values():
            plane.stop()


@pytest.fixture(scope="module")
def hosts(planes: dict[str, ControlPlane]) -> Hosts:
    """One cluster by a kubeconfig and its uid, one by an address and a token, and one that does not answer."""
    eu, us = planes["eu"], planes["us"]
    uid = eu.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    named = {"metadata": {"name": "automation"}}
    us.api.create("/api/v1/namespaces/default/serviceaccounts", named)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "automation"}
    us.api.create(f"{RIGHTS}/clusterrolebindings", named | {"roleRef": role, "subjects": [account]})
    made = us.api.create("/api/v1/namespaces/default/serviceaccounts/automation/token", {"spec": {}})
    return {
        "away": {"kubeconfig": by_token("https://127.0.0.1:1", str(us.authority), "none")},
        "eu": {"kubeconfig": str(eu.kubeconfig), "cluster_uid": uid},
        "us": {"kubeconfig": by_token(us.url, str(us.authority), made["status"]["token"])},
    }


def by_token(server: str, authority: str, token: str) -> dict[str, Any]:
    """A kubeconfig as docs/fleet.md writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }


def run(folder: Path, playbook: str, hosts: Hosts, **variables: Any) -> tuple[str, dict[str, bool]]:
    """Run a playbook over the hosts: what it says, and of each host whether it failed."""
    inventory = folder / "clusters.yml"
    inventory.write_text(json.dumps({"clusters": {"hosts": hosts}}))
    given = {f"{playbook}_hosts": "clusters", "helm_binary": str(programs() / "helm"), "request_timeout": 5} | variables
    command = [f"{PROGRAMS}/ansible-playbook", f"gpuops.defrag.{playbook}", "-i", str(inventory), "-e", json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)
    recap = dict(re.findall(r"^(\w+) +: .*failed=(\d)", done.stdout, re.MULTILINE))
    assert recap, done.stdout + done.stderr
    return done.stdout, {name: failed != "0" for name, failed in recap.items()}


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_cluster_that_does_not_answer_leaves_the_others_alone(tmp_path: Path, hosts: Hosts, playbook: str) -> None:
    chart = copy_chart(tmp_path, "0.36.0") if playbook == "deploy" else "descheduler"
    # Ansible ends a run where all of a batch have failed; what only reads goes on with the next one.
    batches = {f"{playbook}_serial": 1} if playbook in ("audit", "plan") else {}
    said, failed = run(tmp_path, playbook, hosts, descheduler_chart_ref=str(chart), **batches)
    assert failed == {"eu": False, "us": False, "away": True}, said


@pytest.mark.parametrize(("playbook", "serial"), [("audit", 1), ("deploy", None)], ids=["one after the other", "together"])
def test_two_hosts_of_one_cluster_are_refused_and_the_others_go_on(
    tmp_path: Path, hosts: Hosts, playbook: str, serial: int | None
) -> None:
    both = {"us": hosts["us"], "eu": hosts["eu"], "twin": {"kubeconfig": hosts["eu"]["kubeconfig"]}}
    more = {} if serial is None else {f"{playbook}_serial": serial}
    chart = copy_chart(tmp_path, "0.36.0") if playbook == "deploy" else "descheduler"
    said, failed = run(tmp_path, playbook, both, descheduler_chart_ref=str(chart), **more)
    # Who comes first of the two cannot know of the other.
    assert failed == {"us": False, "eu": serial is None, "twin": True}, said
    assert re.search(r"Hosts of the play reach the same cluster:\s+eu,\s+twin", said)


def test_the_audit_ends_with_all_clusters_and_says_where_to_start(tmp_path: Path) -> None:
    dumps = {"small": "gpu200-2", "large": "gpu200-1"}
    hosts: Hosts = {"gone": {"src": "examples/none.json"}}
    hosts |= {name: {"src": f"examples/{dump}.json.gz"} for name, dump in dumps.items()}
    report = tmp_path / "report"
    given = {"report_dir": str(report), "gpu_hour_price": 3}
    said, failed = run(tmp_path, "audit", hosts, **given)
    assert failed == {"small": False, "large": False, "gone": True}
    found = json.loads((report / "fleet.json").read_text())
    own = {name: json.loads((report / name / "audit.json").read_text())["stranded_gpus"] for name in dumps}
    first, second = found["clusters"]
    assert {cluster["name"]: cluster["stranded_gpus"] for cluster in (first, second)} == own
    assert found["start"] == first["name"] == max(own, key=lambda name: own[name])
    assert [each["name"] for each in found["unknown"]] == ["gone"]
    assert "none.json" in found["unknown"][0]["reason"]
    assert f"Start with {first['name']}" in " ".join(said.partition("TASK [Show where to start]")[2].split())
    assert f"Start with {first['name']}" in (report / "fleet.html").read_text()

    before = {path: path.read_bytes() for path in report.rglob("*.*")}
    again, failed = run(tmp_path, "audit", hosts, audit_serial=1, **given)
    assert failed == {"small": False, "large": False, "gone": True}
    assert not re.findall(r"changed=[1-9]", again)
    assert {path: path.read_bytes() for path in report.rglob("*.*")} == before
