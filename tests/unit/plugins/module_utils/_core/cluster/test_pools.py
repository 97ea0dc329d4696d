# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import (
    PRODUCT_LABELS,
    UNNAMED,
    Survey,
    pod_room,
    product,
    shared_replicas,
    survey,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import EVERYTHING, parse_selector
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, PRODUCT, Object, laid_out, node, packed, pod

STRATEGY, REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
GKE_STRATEGY, GKE_REPLICAS = "cloud.google.com/gke-gpu-sharing-strategy", "cloud.google.com/gke-max-shared-clients-per-gpu"


def surveyed(objects: Iterable[Object], selector: str = "", resource: str = GPU) -> Survey:
    return survey(laid_out(objects), resource, parse_selector(selector))


@pytest.mark.parametrize("label", PRODUCT_LABELS)
def test_a_product_is_what_any_of_the_vendors_labels_says(label: str) -> None:
    assert product({label: "MI300X", "other": "x"}) == "MI300X"


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, None),
        ({PRODUCT: ""}, None),
        ({PRODUCT: "A100", "cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "A100"),
        ({PRODUCT: "", "cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "nvidia-tesla-a100"),
    ],
)
def test_the_first_label_that_says_something_counts(labels: dict[str, str], found: str | None) -> None:
    assert product(labels) == found


@pytest.mark.parametrize(
    ("labels", "resource", "replicas"),
    [
        ({}, GPU, None),
        ({STRATEGY: "none", REPLICAS: "1"}, GPU, None),
        ({STRATEGY: "time-slicing", REPLICAS: "4"}, GPU, 4),
        ({STRATEGY: "mps", REPLICAS: "2"}, GPU, 2),
        ({STRATEGY: "time-slicing", REPLICAS: "1"}, GPU, None),
        ({STRATEGY: "time-slicing"}, GPU, None),
        ({STRATEGY: "time-slicing", REPLICAS: "many"}, GPU, None),
        ({STRATEGY: "time-slicing", REPLICAS: "9" * 5000}, GPU, None),
        ({REPLICAS: "4"}, GPU, None),
        ({GKE_STRATEGY: "time-sharing", GKE_REPLICAS: "2"}, GPU, 2),
        ({GKE_STRATEGY: "mps", GKE_REPLICAS: "2"}, GPU, 2),
        ({GKE_REPLICAS: "2"}, GPU, None),
        ({PRODUCT: "Tesla-T4-SHARED"}, GPU, 0),
        ({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4"}, GPU, 4),
        ({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4"}, "nvidia.com/gpu.shared", None),
    ],
)
def test_sharing_is_told_by_strategy_replicas_or_product(labels: dict[str, str], resource: str, replicas: int | None) -> None:
    assert shared_replicas(labels, resource) == replicas


def test_gpu_nodes_are_those_that_offer_gpus_or_did() -> None:
    nodes = [node("whole", 8), node("part", 7, capacity=8), node("none", 0, capacity=8), node("never", 0), node("cpu", None)]
    assert [(n.node.name, n.gpus, n.capacity) for n in surveyed(nodes).nodes] == [
        ("none", 0, 8),
        ("part", 7, 8),
        ("whole", 8, 8),
    ]


def test_nodes_are_sorted_by_pool_and_name() -> None:
    nodes = [node("b", product="T4"), node("d"), node("c", product="A100"), node("a", product="T4")]
    assert [(n.pool, n.node.name) for n in surveyed(nodes).nodes] == [(UNNAMED, "d"), ("A100", "c"), ("T4", "a"), ("T4", "b")]


def test_a_gpu_node_knows_what_is_taken_of_it_and_by_whom() -> None:
    objects = [*packed("8: 4+1"), pod("cpu", on="n1", requests={"cpu": "4"}), pod("typical", 2, "n1", requests={"cpu": "500m"})]
    (found,) = surveyed(objects).nodes
    assert (found.gpus, found.allocated, found.free) == (8, 7, 1)
    assert [p.name for p in found.pods] == ["p1-1", "p1-2", "typical"]
    assert found.demands == [(4, 0, 0), (1, 0, 0), (2, 500, 0)]


@pytest.mark.parametrize(
    ("gpus", "capacity", "held", "free", "healthy"),
    [
        (8, 8, 8, 0, True),
        (8, None, 3, 5, True),
        (7, 8, 3, 4, False),
        (0, 8, 4, 0, False),
        (2, 3, 3, 0, False),
        (2, 2, 3, 0, False),
        (8, 7, 0, 8, True),
    ],
)
def test_a_node_is_healthy_if_all_devices_work_and_no_more_are_held(
    gpus: int, capacity: int | None, held: int, free: int, healthy: bool
) -> None:
    (found,) = surveyed([node("n1", gpus, capacity=capacity), *([pod("p", held, "n1")] if held else [])]).nodes
    assert (found.free, found.healthy) == (free, healthy)


@pytest.mark.parametrize(
    ("row", "slot_size", "stranded"),
    [
        ("8: 4+1", 8, 3),
        ("8: 4+1", 2, 1),
        ("8: 4+1", 3, 0),
        ("8:", 8, 0),
        ("8: 8", 8, 0),
        ("4:", 8, 0),
        ("4: 1", 8, 3),
        ("2: 1", 8, 1),
    ],
)
def test_stranded_is_what_no_slot_uses_and_a_small_node_has_slots_of_its_own_size(
    row: str, slot_size: int, stranded: int
) -> None:
    (found,) = surveyed(packed(row)).nodes
    assert found.stranded(slot_size) == stranded


@pytest.mark.parametrize(
    ("raw", "usable"),
    [
        (node("n"), True),
        (node("n", unschedulable=True), False),
        (node("n", ready="False"), False),
        (node("n", ready="Unknown"), False),
        (node("n", taints=[{"key": "gpu", "effect": "NoSchedule"}]), True),
    ],
)
def test_a_node_that_is_cordoned_or_not_ready_takes_no_new_pods(raw: Object, usable: bool) -> None:
    assert [n.usable for n in surveyed([raw]).nodes] == [usable]


def test_other_gpu_resources_are_counted_by_node_and_what_is_no_gpu_is_not() -> None:
    more = {"nvidia.com/mig-1g.5gb": "7", "amd.com/gpu": "1", "rdma/hca": "1", "nvidia.com/gpu.shared": "0"}
    found = surveyed([node("a", allocatable=more), node("b", None, allocatable={"amd.com/gpu": "1"})])
    assert found.other_resources == {"nvidia.com/mig-1g.5gb": 1, "amd.com/gpu": 2}


def test_what_is_in_no_figure_is_kept_apart() -> None:
    objects = [
        node("measured", labels={"use": "y"}),
        node("other", labels={"use": "n"}),
        node("cpu", None, labels={"use": "n"}),
        node("shared", labels={"use": "y", STRATEGY: "mps", REPLICAS: "4"}),
        node("unlisted", None, labels={"use": "y"}),
        pod("p", 1, "unlisted"),
    ]
    found = surveyed(objects, "use=y")
    assert [n.node.name for n in found.nodes] == ["measured"]
    assert (found.shared, found.unlisted) == ([("shared", 4)], ["unlisted"])
    assert [n.name for n in found.elsewhere] == ["other", "shared"]


def test_without_a_selector_every_node_is_looked_at() -> None:
    assert [n.node.name for n in survey(laid_out(packed("8:", "4:")), GPU, EVERYTHING).nodes] == ["n1", "n2"]


@pytest.mark.parametrize(("places", "room"), [("3", 2), ("1", 0), ("0", 0)])
def test_room_for_pods_is_never_below_nothing(places: str, room: int) -> None:
    layout = laid_out([node("n1", allocatable={"pods": places}), pod("p", 1, "n1")])
    (found,) = survey(layout, GPU, EVERYTHING).nodes
    assert pod_room(found, layout) == room
