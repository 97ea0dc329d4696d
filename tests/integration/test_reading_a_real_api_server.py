# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists read from a real API server, page by page, while its memory and its life end on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _kubernetes
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import LIVE_ARGUMENTS, MEASURING, connect
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import all_at_once
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
PODS = "/api/v1/namespaces/default/pods"
NODES, BOUND = 5, 10


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of which only etcd and the API server still live, so that nothing changes by itself."""
    found = ControlPlane(ROOT / "build/clusters/test-reading")
    try:
        found.start()
        for part in ("kwok", "scheduler", "controllers"):
            found.kill(part)
        api = found.api
        all_at_once(lambda i: api.create("/api/v1/nodes", fleet.node(f"n{i}", 8)), range(NODES))
        all_at_once(lambda i: api.create(PODS, a_pod(f"p{i}", f"n{i % NODES}")), range(BOUND))
        for name, phase in (("done", "Succeeded"), ("failed", "Failed")):
            api.create(PODS, a_pod(name, "n0"))
            api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})
        yield found
    finally:
        found.stop()


def a_pod(name: str, on: str) -> Object:
    container = {"name": "main", "image": "example/llm", "resources": {"limits": {fleet.GPU: "2"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": on, "containers": [container]}}


def options(plane: ControlPlane, **given: Any) -> Object:
    plain: Object = {name: argument.get("default") for name, argument in LIVE_ARGUMENTS.items()}
    return plain | {"kubeconfig": str(plane.kubeconfig), "page_size": 3, "request_timeout": 30} | given


def read(plane: ControlPlane, event: Callable[[], object] | None = None, **given: Any) -> tuple[list[Object], int]:
    """The items of all lists, and how often they were begun. The event comes after the first page of pods, once."""
    begun = 0

    def build(pages: Iterator[Object]) -> list[Object]:
        nonlocal begun
        begun += 1
        found: list[Object] = []
        for page in pages:
            found += page["items"]
            if event and begun == 1 and page["kind"] == "PodList" and found[-1]["metadata"]["name"] == "p2":
                event()
        return found

    return connect(options(plane, **given)).read(MEASURING, build), begun


def names(items: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def test_real_pages_put_together_are_the_lists_in_one_piece(plane: ControlPlane) -> None:
    paged = read(plane)[0]
    whole = read(plane, page_size=500)[0]
    assert paged == whole
    pods = [pod for pod in plane.api.items("/api/v1/pods") if pod["metadata"]["name"] not in ("done", "failed")]
    assert whole == [*plane.api.items("/api/v1/namespaces"), *pods, *plane.api.items("/api/v1/nodes")]


def test_finished_pods_are_left_out_by_the_server(plane: ControlPlane) -> None:
    found = names(read(plane)[0])
    assert {f"p{i}" for i in range(BOUND)} <= set(found)
    assert not {"done", "failed"} & set(found)


def test_what_the_server_has_at_hand_is_the_same_where_nothing_changes(plane: ControlPlane) -> None:
    newest = plane.api.get("/api/v1/nodes?limit=1")["metadata"]["resourceVersion"]
    expected = read(plane)[0]
    assert read(plane, resource_version="0")[0] == read(plane, resource_version=newest)[0] == expected


def test_the_uid_of_kube_system_is_the_cluster(plane: ControlPlane) -> None:
    uid = plane.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert connect(options(plane, cluster_uid=uid)).identity == {"server": plane.url, "uid": uid}
    with pytest.raises(InputError, match=f"^{plane.url}: is the cluster {uid}, not another as cluster_uid says$"):
        connect(options(plane, cluster_uid="another"))


def test_a_server_whose_certificate_is_not_trusted_is_not_talked_to(plane: ControlPlane) -> None:
    given = {"host": plane.url, "client_cert": str(plane.admin.certificate), "client_key": str(plane.admin.key)}
    with pytest.raises(InputError, match=r"certificate verify failed.*; give ca_cert, or check host$"):
        connect(options(plane, kubeconfig=None, **given))
    assert connect(options(plane, kubeconfig=None, ca_cert=str(plane.authority), **given)).uid


def test_a_list_that_the_server_has_forgotten_is_read_again(plane: ControlPlane) -> None:
    def forget() -> None:
        # What is kept of the past is kept in etcd and, for some seconds, in the API server itself.
        plane.api.patch("/api/v1/nodes/n0", {"metadata": {"labels": {"touched": "yes"}}})
        newest = plane.api.get("/api/v1/nodes/n0")["metadata"]["resourceVersion"]
        body = json.dumps({"revision": newest, "physical": True}).encode()
        urlopen(Request(f"http://127.0.0.1:{plane.state['ports']['etcd']}/v3/kv/compaction", body), timeout=10).close()
        plane.kill("api")
        plane.run("api")
        # That it is away is another test.
        wait_until(plane.api.answers, "API server ready")

    found, begun = read(plane, forget)
    assert begun == 2
    assert found == read(plane)[0]
    assert [item for item in found if item["metadata"].get("labels", {}).get("touched")]


def test_an_api_server_that_dies_and_comes_back_is_waited_for(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            plane.run("api")
            wait_until(plane.api.answers, "API server ready")

    expected = read(plane)[0]
    monkeypatch.setattr(_kubernetes, "time", SimpleNamespace(sleep=wait))
    found, begun = read(plane, lambda: plane.kill("api"))
    assert waited == [0.5, 1.0, 2.0]
    assert begun == 1
    assert found == expected


def test_an_api_server_that_stays_away_is_one_clear_error(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kubernetes, "FIRST_WAIT", 0.01)
    try:
        with pytest.raises(InputError, match=rf"^{plane.url}: GET /api/v1/pods fails 5 times: .*Connection refused; check"):
            read(plane, lambda: plane.kill("api"))
    finally:
        plane.run("api")
        wait_until(plane.api.answers, "API server ready")
