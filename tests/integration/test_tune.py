# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rate of a live cluster: told to the descheduler or written to files, with what AWX gives a job and no kubeconfig."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import policy_settings
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, Object
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT

MAPS = "/api/v1/namespaces/kube-system/configmaps"
CRON = "/apis/batch/v1/namespaces/kube-system/cronjobs"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
LABELS = {"app.kubernetes.io/managed-by": "gpuops.defrag"}
SETTINGS = {"priority_threshold": 1000, "namespaces_excluded": ["team-a"]}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane(ROOT / "build/clusters/test-tune")
    try:
        yield plane.start()
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """The fleet, and two pods that wait for a whole node each."""
    api = plane.api
    fleet.load(api, fleet.scattered(fleet.Shape(cold_start=1, seed=22)))
    api.create("/apis/apps/v1/namespaces/team-a/deployments", fleet.deployment("huge", "team-a", 2, 8, cold_start=1))
    fleet.wait_settled(api)
    return api


@pytest.fixture(scope="module")
def job(plane: ControlPlane, api: Api) -> dict[str, str]:
    """What AWX gives a job: by the environment an account, which has the rights of three documents and no more."""
    account = "/api/v1/namespaces/kube-system/serviceaccounts"
    meta = {"name": "awx", "namespace": "kube-system"}
    api.create(account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    subjects = [{"kind": "ServiceAccount", **meta}]
    documents = [yaml.safe_load((ROOT / f"policies/rbac/{name}.yaml").read_text()) for name in ("reader", "operator", "tuner")]
    for role in [role for document in documents for role in document.get("items", [document])]:
        kind, name = role["kind"], role["metadata"]["name"]
        where = RIGHTS if kind == "ClusterRole" else f"{RIGHTS}/namespaces/kube-system"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        api.create(f"{where}/{kind.lower()}s", role)
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        api.create(
            f"{where}/{kind.lower()}bindings",
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": f"{kind}Binding", **binding},
        )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.call("POST", f"{account}/awx/token", request)["status"]["token"]
    return {"K8S_AUTH_HOST": plane.url, "K8S_AUTH_API_KEY": token, "K8S_AUTH_SSL_CA_CERT": str(plane.authority)}


def play(playbook: str, credentials: dict[str, str], *arguments: str, code: int = 0, **variables: Any) -> str:
    done = subprocess.run(
        [f"{PROGRAMS}/ansible-playbook", f"gpuops.defrag.{playbook}", *arguments, "-e", json.dumps(variables)],
        cwd=ROOT,
        env=ENVIRONMENT | credentials | {"ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml", "ANSIBLE_SHOW_CUSTOM_STATS": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return re.sub(r"\n +", " ", done.stdout + done.stderr)


def level(api: Api) -> int:
    found: int = json.loads(api.get(f"{MAPS}/gpuops-defrag")["data"]["rate.json"])["level"]
    return found


def policy(api: Api) -> Object:
    found: Object = yaml.safe_load(api.get(f"{MAPS}/descheduler")["data"]["policy.yaml"])
    return found


def test_with_no_more_than_a_job_is_given_it_decides_and_a_second_run_changes_nothing(
    api: Api, job: dict[str, str], tmp_path: Path
) -> None:
    foreseen = play("tune", job, "--check", "--diff")
    assert "changed=1 " in foreseen
    assert not [each for each in api.items(MAPS) if each["metadata"]["name"] == "gpuops-defrag"]
    first = play("tune", job)
    assert "changed=1 " in first
    assert "no descheduler has to be told" in first
    assert re.search(r"gpuops_defrag_rate_[0-9a-f_]{36}", first)
    assert "hold: 1 pods every 300 s" in first
    assert level(api) == 1
    assert "changed=0 " in play("tune", job, metrics_file=str(tmp_path / "gpuops.prom"))
    assert 'gpuops_tune_info{action="hold"} 1\n' in (tmp_path / "gpuops-tune.prom").read_text()


def test_readings_that_agree_raise_it_and_reconcile_moves_as_many_at_a_time(api: Api, job: dict[str, str]) -> None:
    given: dict[str, Any] = {"profile": "aggressive", "bounds": {"raise_after": "1s"}}
    while level(api) < 4:
        assert "ok=" in play("tune", job, **given)
    told = play("reconcile", job, objective={"kind": "free_nodes"}, limits="tuned", progress_seconds=1, **given)
    moved = int(re.findall(r"; (\d+) pods moved", told)[0])
    assert 1 < moved <= level(api)
    assert re.search(r"rate: (raise|hold)", told)


def test_a_pause_moves_nothing_and_says_who_asks(api: Api, job: dict[str, str]) -> None:
    system = "/api/v1/namespaces/kube-system"
    api.patch(system, {"metadata": {"annotations": {"gpuops.io/pause": "launch"}}})
    try:
        told = play("reconcile", job, objective={"kind": "free_nodes"}, limits="tuned", bounds={"raise_after": "1h"})
    finally:
        api.patch(system, {"metadata": {"annotations": {"gpuops.io/pause": None}}})
    assert "pause: 0 pods" in told
    assert 'gpuops.io/pause: "launch"' in told
    assert "0 pods moved" in told


def test_the_descheduler_gets_the_limits_and_keeps_the_rest_of_its_policy(api: Api, job: dict[str, str]) -> None:
    text = yaml.safe_dump(render(policy_settings(SETTINGS)), sort_keys=False)
    meta = {"name": "descheduler", "namespace": "kube-system", "labels": LABELS}
    api.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"policy.yaml": text}})
    before = policy(api)
    given: dict[str, Any] = {"bounds": {"raise_after": "1h"}}
    play("tune", job, **given)
    assert "changed=0 " in play("tune", job, **given)
    after = policy(api)
    assert after["maxNoOfPodsToEvictTotal"] == level(api) != before["maxNoOfPodsToEvictTotal"]
    limits = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")
    assert {key: value for key, value in after.items() if key not in limits} == {
        key: value for key, value in before.items() if key not in limits
    }


def test_the_descheduler_runs_as_often_as_the_limits_are_for_unless_its_user_says_how_often(
    api: Api, job: dict[str, str]
) -> None:
    container = {"name": "descheduler", "image": "example/descheduler"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"schedule": "*/5 * * * *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}
    cron = api.create(CRON, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "descheduler"}, "spec": spec})
    given: dict[str, Any] = {"bounds": {"raise_after": "1h"}}
    play("tune", job, interval="5m", **given)
    assert api.get(f"{CRON}/descheduler")["spec"] == cron["spec"]
    play("tune", job, "--check", **given)
    assert api.get(f"{CRON}/descheduler")["spec"] == cron["spec"]
    told = play("tune", job, **given)
    (seconds,) = re.findall(r"\d+ pods every (\d+) s", told)
    assert int(seconds) < 300
    # Pods start within seconds here, so that it is the hour that keeps cycles apart.
    assert api.get(f"{CRON}/descheduler")["spec"] == cron["spec"] | {"schedule": f"*/{-(-int(seconds) // 60)} * * * *"}
    assert "changed=0 " in play("tune", job, **given)
    api.patch(f"{CRON}/descheduler", {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "gpu"}}, "spec": spec})
    assert "pods every 300 s" in play("tune", job, **given)
    assert api.get(f"{CRON}/descheduler")["spec"] == cron["spec"]


def test_a_policy_that_a_tool_keeps_is_not_written_to(api: Api, job: dict[str, str]) -> None:
    api.patch(f"{MAPS}/descheduler", {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "a:/ConfigMap:b"}}})
    before = policy(api)
    given: dict[str, Any] = {"profile": "aggressive", "bounds": {"raise_after": "1s"}}
    assert "is kept by Argo CD" in play("tune", job, code=2, **given)
    assert policy(api) == before


@pytest.mark.parametrize("data", [{"policy.yaml": "a: [b"}, {"policy.yaml": "hello"}, {"other": ""}], ids=str)
def test_a_policy_that_cannot_be_read_is_named_and_left_as_it_is(api: Api, job: dict[str, str], data: dict[str, str]) -> None:
    api.call("DELETE", f"{MAPS}/descheduler")
    meta = {"name": "descheduler", "namespace": "kube-system", "labels": LABELS}
    api.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    told = play("tune", job, code=2)
    assert "ConfigMap kube-system/descheduler: policy.yaml is missing or no policy of the descheduler" in told
    assert api.get(f"{MAPS}/descheduler")["data"] == data


def test_files_are_written_for_a_repository_and_again_only_if_something_is_new(
    api: Api, job: dict[str, str], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"values_dir": str(tmp_path / "a"), "bounds": {"raise_after": "1h"}}
    play("tune", job, "--check", **given)
    assert not (tmp_path / "a").exists()
    play("tune", job, **given)
    files = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert "changed=0 " in play("tune", job, **given)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == files
    values = yaml.safe_load(files["descheduler-values.yaml"])
    assert values["deschedulerPolicy"]["maxNoOfPodsToEvictTotal"] == level(api)
    assert re.fullmatch(r"\*/\d+ \* \* \* \*", values["schedule"])
    assert yaml.safe_load(files["limits.yml"])["gpu_policy_limits"]["total"] == level(api)
