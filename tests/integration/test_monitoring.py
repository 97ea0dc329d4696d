# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus scrapes the real test cluster: the series are there as docs/monitoring.md and the rules take them for."""

from __future__ import annotations

import base64
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import Prometheus, UnansweredError
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.monitoring import Monitoring
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until

GPU = fleet.GPU
PODS = "/api/v1/namespaces/team-a/pods"


def pod(name: str, gpus: int, *, init: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of its own; ``init`` are fields of an init container that asks for as many GPUs."""
    amounts = {"requests": {GPU: str(gpus), "cpu": "1"}, "limits": {GPU: str(gpus)}}
    container = {"name": "main", "image": "example/llm", "resources": amounts}
    inits = [] if init is None else [container | {"name": "init", **init}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"containers": [container], "initContainers": inits, "terminationGracePeriodSeconds": 0} | spec,
    }


def job(name: str, gpus: int) -> dict[str, Any]:
    spec = pod(name, gpus)["spec"] | {"restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"test.gpuops.io/runs-for": "0s"}}, "spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    found = ControlPlane(tmp_path_factory.mktemp("planes") / "one").start()
    try:
        api = found.api
        fleet.add_nodes(api, [*(fleet.node(f"gpu-{i}", 4, product="A100") for i in range(3)), fleet.node("cpu-0", 0)])
        fleet.add_namespaces(api, ["team-a"])
        api.create("/apis/apps/v1/namespaces/team-a/deployments", fleet.deployment("llm", "team-a", 2, 1, cold_start=1))
        api.create("/apis/batch/v1/namespaces/team-a/jobs", job("batch", 1))
        for made in (
            pod("sidecar", 1, init={"restartPolicy": "Always"}, nodeName="gpu-0"),
            pod("init", 1, init={}, nodeName="gpu-0"),
            pod("large", 64),
            pod("gated", 1, schedulingGates=[{"name": "example.com/wait"}]),
        ):
            api.create(PODS, made)
        states = {"sidecar": "Running", "init": "Running", "large": "Pending", "gated": "Pending", "batch": "Succeeded"}

        def settled() -> bool:
            pods = {each["metadata"]["name"].split("-")[0]: each for each in fleet.pods(api)}
            ready = [each for each in pods.values() if fleet.is_ready(each)]
            return {name: pods[name]["status"]["phase"] for name in states if name in pods} == states and len(ready) == 3

        wait_until(settled, "all pods as they stay")
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def monitoring(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    found = Monitoring(tmp_path_factory.mktemp("planes") / "monitoring", plane, exporters=2, labels={"cluster": "one"})
    found.start()
    yield found
    found.stop()


def values(monitoring: Monitoring, expression: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Values by labels; of exporters that tell the same, one."""
    return {tuple(found[label] for label in labels): value for found, value in monitoring.query(expression)}


def test_every_target_tells_and_the_cluster_is_named(monitoring: Monitoring) -> None:
    jobs = Counter(found["job"] for found, value in monitoring.query('up{cluster="one"}') if value == 1)
    assert jobs == {"kube-state-metrics": 2, "apiserver": 1, "kube-scheduler": 1, "kube-scheduler-resources": 1}


def test_nodes_tell_what_they_offer_in_the_spelling_of_kube_state_metrics(monitoring: Monitoring) -> None:
    offered = values(monitoring, 'kube_node_status_allocatable{resource="nvidia_com_gpu"}', "node", "unit")
    assert offered == {(f"gpu-{i}", "integer"): 4 for i in range(3)}
    products = values(monitoring, 'kube_node_labels{label_nvidia_com_gpu_product!=""}', "label_nvidia_com_gpu_product")
    assert products == {("A100",): 1}


def test_pods_ask_also_when_they_wait_or_have_ended(monitoring: Monitoring) -> None:
    asked = monitoring.query('kube_pod_container_resource_requests{resource="nvidia_com_gpu",instance=~"localhost.*"}')
    where = {found["pod"].split("-")[0]: found.get("node", "") for found, _value in asked}
    assert where.keys() == {"llm", "batch", "sidecar", "init", "large", "gated"}
    # A finished pod keeps its node; one that waits has none.
    assert where["batch"].startswith("gpu-")
    assert where["large"] == where["gated"] == ""
    phases = values(monitoring, 'kube_pod_status_phase{pod=~"batch-.*"}', "phase")
    assert phases == {("Pending",): 0, ("Running",): 0, ("Succeeded",): 1, ("Failed",): 0, ("Unknown",): 0}


def test_sidecars_are_init_containers_that_always_restart(monitoring: Monitoring) -> None:
    asked = values(monitoring, 'kube_pod_init_container_resource_requests{resource="nvidia_com_gpu"}', "pod")
    assert asked == {("sidecar",): 1, ("init",): 1}
    assert values(monitoring, 'kube_pod_init_container_info{restart_policy="Always"}', "pod") == {("sidecar",): 1}


def test_the_scheduler_tells_effective_requests_in_its_own_spelling(monitoring: Monitoring) -> None:
    asked = values(monitoring, 'kube_pod_resource_request{resource="nvidia.com/gpu",pod!~"llm-.*"}', "pod")
    # The finished pod is left out, the sidecar counts beside the container, the init container does not.
    assert asked == {("sidecar",): 2, ("init",): 1, ("large",): 64, ("gated",): 1}
    (unit,) = {
        found.get("unit", "") for found, _value in monitoring.query('kube_pod_resource_request{resource="nvidia.com/gpu"}')
    }
    assert unit == ""


def test_a_gated_pod_is_called_unschedulable_too(monitoring: Monitoring) -> None:
    assert values(monitoring, "kube_pod_status_unschedulable", "pod") == {("large",): 1, ("gated",): 1}
    assert values(monitoring, 'kube_pod_status_reason{reason="SchedulingGated"}', "pod") == {("gated",): 1}


def test_two_exporters_double_every_sum(monitoring: Monitoring) -> None:
    ((_labels, gpus),) = monitoring.query('sum(kube_node_status_allocatable{resource="nvidia_com_gpu"})')
    assert gpus == 2 * 3 * 4


def test_cold_start_is_from_scheduled_to_ready(monitoring: Monitoring) -> None:
    took = values(monitoring, 'kube_pod_status_ready_time{pod=~"llm-.*"} - kube_pod_status_scheduled_time', "pod", "instance")
    # Times have whole seconds.
    assert len(took) == 4
    assert all(1 <= seconds < 30 for seconds in took.values())


def test_a_series_is_as_old_as_its_last_scrape_and_not_asked_for_when_older(monitoring: Monitoring) -> None:
    prometheus = Prometheus(monitoring.url)
    # It is scraped every ten seconds.
    (sample,) = prometheus.instant('up{job="apiserver"}').samples
    now = float(monitoring.ask("query", query="time()")["result"][0])
    assert now - 15 < sample.time < now
    assert prometheus.instant('up{job="apiserver"}', max_age=0.001).samples == []
    spread = prometheus.range("vector(1)", now - 2, now, 1)
    assert [each.time for each in spread.samples] == pytest.approx([now - 2, now - 1, now], abs=0.002)


def test_what_prometheus_itself_says_of_a_query_that_is_none(monitoring: Monitoring) -> None:
    prometheus = Prometheus(monitoring.url)
    with pytest.raises(UnansweredError, match=r"cannot read the query: .*parse error"):
        prometheus.instant("kube_node_info > 0 and < 2")
    with pytest.raises(UnansweredError, match=r"cannot evaluate the query: .*duplicate series"):
        prometheus.instant("kube_node_labels * on (instance) kube_node_labels")
    with pytest.raises(UnansweredError, match="comes to a matrix"):
        prometheus.instant("up[1m]")


# Of the password "test".
BCRYPT = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"


def test_a_prometheus_behind_tls_a_password_and_a_prefix(plane: ControlPlane, tmp_path: Path) -> None:
    authority, serving = str(plane.authority), plane.folder / "certificates" / "serving"
    tls = {"cert_file": f"{serving}.crt", "key_file": f"{serving}.key", "client_auth_type": "RequireAndVerifyClientCert"}
    trusts = ssl.create_default_context(cafile=authority)
    trusts.load_cert_chain(plane.admin.certificate, plane.admin.key)
    found = Monitoring(
        tmp_path / "secured",
        plane,
        prefix="/prometheus",
        web={"tls_server_config": tls | {"client_ca_file": authority}, "basic_auth_users": {"me": BCRYPT}},
        headers={"Authorization": "Basic " + base64.b64encode(b"me:test").decode()},
        trusts=trusts,
    )
    shown: dict[str, Any] = {
        "client_cert": str(plane.admin.certificate),
        "client_key": str(plane.admin.key),
        "ca_cert": authority,
    }
    try:
        found.start()
        assert Prometheus(found.url, username="me", password="test", **shown).instant("up").samples
        with pytest.raises(UnansweredError, match="wants other credentials"):
            Prometheus(found.url, username="me", password="guess", **shown).instant("up")
        with pytest.raises(UnansweredError, match="give prometheus_ca_cert"):
            Prometheus(found.url, username="me", password="test").instant("up")
        with pytest.raises(UnansweredError, match="cannot be reached"):
            Prometheus(found.url, username="me", password="test", ca_cert=authority, patience=0).instant("up")
        with pytest.raises(UnansweredError, match="no such address"):
            Prometheus(found.url.removesuffix("/prometheus"), username="me", password="test", **shown).instant("up")
    finally:
        found.stop()
