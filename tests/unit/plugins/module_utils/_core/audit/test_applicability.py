# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import parse_selector
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, measured, node, pod

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z
AN_HOUR_AGO = "2026-11-30T11:00:00Z"
A_MINUTE_AGO = "2026-11-30T11:59:00Z"


def cluster(nodes: int, *pods: Object) -> list[Object]:
    return [*(node(f"n{i}") for i in range(nodes)), *pods]


def finished(name: str, created: str, end: str) -> Object:
    states = [{"name": "main", "state": {"terminated": {"finishedAt": end}}}]
    return pod(name, 2, "gone", created=created, phase="Succeeded", status={"containerStatuses": states})


def reasons(objects: list[Object], **options: Any) -> list[str]:
    found = measured(objects, now=NOW, **options)
    assert found["applicable"] == (not found["not_applicable_reasons"])
    return [reason["reason"] for reason in found["not_applicable_reasons"]]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], ["NoGpuNodes"]),
        ([node("cpu", None)], ["NoGpuNodes"]),
        (cluster(9, pod("p", 2, "n0")), ["FewGpuNodes"]),
        (cluster(10, pod("p", 2, "n0")), []),
        (cluster(10), ["NoPods"]),
        ([{"kind": "PodList", "items": []}, *cluster(10)], []),
        ([node("n0", labels={"nvidia.com/gpu.product": "T4-SHARED"})], ["NoGpuNodes"]),
        (cluster(10, pod("p", 1, "n0"), pod("q", 1)), ["SingleGpuPodsOnly"]),
        (cluster(10, pod("p", 1, "n0"), pod("q", 2)), []),
        (cluster(10, pod("p", 2, "n0", created=A_MINUTE_AGO)), ["ShortLivedPods"]),
        (cluster(10, pod("p", 2, "n0", created=AN_HOUR_AGO)), []),
        (cluster(10, pod("p", 2, "n0", created=AN_HOUR_AGO), finished("f", AN_HOUR_AGO, "2026-11-30T11:01:00Z")), []),
        (
            cluster(
                10,
                pod("p", 2, "n0", created=AN_HOUR_AGO),
                finished("f", AN_HOUR_AGO, "2026-11-30T11:01:00Z"),
                finished("g", AN_HOUR_AGO, "2026-11-30T11:02:00Z"),
            ),
            ["ShortLivedPods"],
        ),
        (cluster(10, pod("p", 2, created=A_MINUTE_AGO)), []),
        (cluster(2, pod("p", 1, "n0", created=A_MINUTE_AGO)), ["FewGpuNodes", "SingleGpuPodsOnly", "ShortLivedPods"]),
    ],
    ids=[
        "empty", "no GPU node", "nine nodes", "ten nodes", "no pods read", "no pods there", "shared GPUs only",
        "single-GPU pods only",
        "one pod waits for two GPUs",
        "a minute old", "an hour old", "half of them short", "most of them short", "not begun yet", "all at once",
    ],
)  # fmt: skip
def test_a_cluster_that_does_not_suit_is_told_why(objects: list[Object], expected: list[str]) -> None:
    assert reasons(objects) == expected


def test_each_no_comes_with_its_figures() -> None:
    found = measured(cluster(2, pod("p", 1, "n0", created=A_MINUTE_AGO)), now=NOW)["not_applicable_reasons"]
    assert [reason["figures"] for reason in found] == [
        {"nodes": 2, "min_gpu_nodes": 10},
        {"pods": 1, "largest_request": 1},
        {"median_seconds": 60.0, "pods": 1, "min_pod_lifetime": 300},
    ]
    assert [reason["message"] for reason in found] == [
        "2 GPU nodes, fewer than 10: tidying by hand is quicker",
        "all 1 GPU pods take one GPU: a single free GPU always fits the next pod",
        "GPU pods live 60 s (median of 1), less than 300 s: holes close faster than pods can be moved",
    ]


SHARED = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "8"}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "the input holds no node; dump nodes and pods together"),
        ([pod("p", 1)], "the input holds no node; dump nodes and pods together"),
        (cluster(1), "nodes offer nvidia.com/gpu, but node_selector leaves them out, or their GPUs are shared"),
        (
            [node("x", 4, labels=SHARED)],
            "nodes offer nvidia.com/gpu, but node_selector leaves them out, or their GPUs are shared",
        ),
        (
            [node("dead", 0, capacity=8)],
            "nodes offer nvidia.com/gpu, but node_selector leaves them out, or their GPUs are shared",
        ),
        ([node("cpu", None)], "no node offers nvidia.com/gpu; if the cluster has GPUs, name their resource with resource_name"),
        (
            [node("cpu", None), node("cpu-2", 0)],
            "no node offers nvidia.com/gpu; if the cluster has GPUs, name their resource with resource_name",
        ),
    ],
)
def test_where_nothing_is_measured_it_is_said_why(objects: list[Object], message: str) -> None:
    found = measured(objects, selector=parse_selector("measured=yes"))["not_applicable_reasons"]
    assert found == [{"reason": "NoGpuNodes", "message": message, "figures": {"nodes": 0}}]


def test_one_node_without_a_pod_is_told_as_that() -> None:
    pods, nodes = measured(cluster(1))["not_applicable_reasons"]
    assert (pods["reason"], pods["figures"]) == ("NoPods", {"pods": 0})
    assert nodes["message"] == "1 GPU node, fewer than 10: tidying by hand is quicker"


def test_the_limits_are_options() -> None:
    objects = cluster(2, pod("p", 2, "n0", created=A_MINUTE_AGO))
    assert reasons(objects, min_gpu_nodes=2, min_pod_lifetime=60) == []
    assert reasons(objects, min_gpu_nodes=3, min_pod_lifetime=61) == ["FewGpuNodes", "ShortLivedPods"]


def test_without_any_time_ages_are_unknown_and_said_to_be() -> None:
    found = measured(cluster(10, pod("p", 2, "n0")))
    assert found["applicable"]
    assert "the input has no times: how long pods live is unknown" in found["notes"]


def test_pods_of_other_resources_do_not_count() -> None:
    short = pod("cpu", on="n0", requests={"cpu": "1"}, created=A_MINUTE_AGO)
    assert reasons(cluster(10, short, pod("p", 2, "n0", created=AN_HOUR_AGO))) == []
    assert GPU not in short["spec"]["containers"][0]["resources"]["requests"]
