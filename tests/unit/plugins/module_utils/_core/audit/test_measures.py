# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import parse_selector
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, PRODUCT, REQUIRED, Object, measured, node, packed, pod

EXAMPLES = Path(__file__).parents[6] / "examples"
KEYS = ("gpus_total", "gpus_allocated", "gpus_free", "slots", "slots_usable", "stranded", "stranded_gpus")


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """A few nodes of two products with pods that have GPUs, CPU and memory of their own, and some that wait."""
    objects: list[Object] = []
    objects.append(pod("web", on="n0", requests={"cpu": "1"}))
    for index in range(draw(st.integers(1, 5))):
        gpus = draw(st.sampled_from([1, 2, 4, 8]))
        name = f"n{index}"
        cordoned = draw(st.booleans())
        objects.append(node(name, gpus, product=draw(st.sampled_from(["A100", "T4"])), unschedulable=cordoned))
        for number, size in enumerate(draw(st.lists(st.sampled_from([0, 1, 1, 2, 4]), max_size=6))):
            if size <= gpus:
                gpus -= size
                cpu = draw(st.integers(0, 30))
                requests = {"cpu": str(cpu), "memory": f"{draw(st.integers(0, 200))}Gi"}
                objects.append(pod(f"p{index}-{number}", size, name, requests=requests))
    objects += [pod(f"w{i}", size) for i, size in enumerate(draw(st.lists(st.sampled_from([1, 2, 8]), max_size=3)))]
    return objects


@given(clusters())
def test_the_figures_agree_with_one_another(objects: list[Object]) -> None:
    found = measured(objects)
    assert found["gpus_free"] == sum(found["node_free"].values())
    assert found["gpus_allocated"] + found["gpus_free"] == found["gpus_total"]
    assert found["largest_slot"] == max(found["node_free"].values())
    for size in ("1", "2", "4", "8"):
        assert found["slots"][size] == sum(free // int(size) for free in found["node_free"].values())
        assert found["stranded"][size] == found["gpus_free"] - int(size) * found["slots"][size]
        assert 0 <= found["slots_usable"][size] <= found["slots"][size]
    assert found["frag_rate"]["fewest"] <= found["frag_rate"]["occupied"] <= found["nodes"]
    assert 0 <= found["frag_rate"]["value"] <= 1
    assert 0 <= found["demand_weighted"]["gpus"] <= found["gpus_free"]
    assert 0 <= found["schedulable_utilization"] <= found["utilization"] <= 1


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(objects: list[Object], order: random.Random) -> None:
    shuffled = order.sample(objects, len(objects))
    assert json.dumps(measured(shuffled, details=True)) == json.dumps(measured(objects, details=True))


@given(clusters())
def test_the_whole_is_the_sum_of_its_pools(objects: list[Object]) -> None:
    found = measured(objects)
    for key in KEYS:
        parts = [pool[key] for pool in found["pools"]]
        whole = found[key]
        if isinstance(whole, dict):
            assert whole == {size: sum(part[size] for part in parts) for size in whole}
        else:
            assert whole == sum(parts)
    assert found["frag_rate"]["fewest"] == sum(pool["frag_rate"]["fewest"] for pool in found["pools"])


@given(clusters())
def test_a_finished_pod_holds_nothing(objects: list[Object]) -> None:
    done = pod("done", 8, "n0", phase="Succeeded")
    with_it, without = (measured(given, details=True) for given in ([*objects, done], objects))
    # What has finished still tells how long pods live and how large they are.
    assert with_it.pop("not_applicable_reasons") is not without.pop("not_applicable_reasons")
    assert with_it == without


@pytest.mark.parametrize(
    ("example", "nodes", "gpus", "pods", "allocated", "whole"),
    [
        ("gpu200-1", 25, 200, 117, 135, 0),
        ("gpu200-2", 25, 200, 115, 140, 0),
        ("gpu200-3", 25, 200, 120, 136, 0),
        ("mixed60-1", 60, 317, 227, 227, 0),
        ("mixed60-2", 60, 309, 208, 225, 0),
        ("openb-1213", 1213, 6212, 3081, 3153, 7),
    ],
)
def test_the_examples_are_what_their_page_says(
    example: str, nodes: int, gpus: int, pods: int, allocated: int, whole: int
) -> None:
    document = json.loads(gzip.decompress((EXAMPLES / f"{example}.json.gz").read_bytes()))
    found = measured([document])
    figures = (found["nodes"], found["gpus_total"], found["gpu_pods"], found["gpus_allocated"], found["slots"]["8"])
    assert figures == (nodes, gpus, pods, allocated, whole)


@pytest.mark.parametrize(
    ("pods", "usable"),
    [
        ([], 4),
        ([pod("p", 2, "n1", requests={"cpu": "40"})], 1),
        ([pod("p", 1, "n1", requests={"cpu": "30"})], 1),
        ([pod("p", 4, "n1", requests={"cpu": "90"})], 2),
        ([pod("p", 2, "n1", requests={"memory": "250Gi"})], 2),
    ],
    ids=["nothing known", "a typical pair takes 40 cores", "twice a single's 30", "larger pods tell nothing", "memory decides"],
)
def test_usable_slots_have_room_for_a_typical_pod(pods: list[Object], usable: int) -> None:
    assert measured([node("n1"), *pods])["slots_usable"]["2"] == usable


def test_a_size_that_nobody_asks_for_is_the_nearest_smaller_one_scaled_up() -> None:
    pods = [pod("one", 1, "n1", requests={"cpu": "10"}), pod("two", 2, "n1", requests={"cpu": "30"})]
    found = measured([node("n1"), *pods, node("n2")])
    # Four GPUs want 60 cores, eight 120: 56 are left on n1, 96 on n2.
    assert (found["slots_usable"]["4"], found["slots_usable"]["8"]) == (1, 0)


CORES, MEMORY = {"cpu": "60"}, {"memory": "500Gi"}


@pytest.mark.parametrize(
    ("objects", "fewest"),
    [
        (packed("8: 1", "8: 1"), 1),
        ([node("n1"), pod("p", 1, "n1", requests=CORES), node("n2"), pod("q", 1, "n2", requests=CORES)], 2),
        ([node("n1"), pod("p", 1, "n1", requests=MEMORY), node("n2"), pod("q", 1, "n2", requests=MEMORY)], 2),
        (packed("8: 1", "8: 1", allocatable={"pods": "1"}), 2),
        (packed("8: 1", "8: 1", allocatable={"pods": "2"}), 1),
        ([*packed("8: 1", "8: 1", allocatable={"pods": "2"}), *(pod(f"d-{n}", on=n) for n in ("n1", "n2"))], 2),
        (
            [
                *(raw for n in ("n1", "n2") for raw in (node(n), pod(f"cpu-{n}", on=n, requests=CORES))),
                *(pod(f"gpu-{n}", 1, n, requests={"cpu": "30"}) for n in ("n1", "n2")),
            ],
            2,
        ),
        ([*packed("1: 1", "1: 1"), node("closed", 8, unschedulable=True)], 2),
        ([*packed("1: 1", "1: 1"), node("open", 8)], 1),
        ([*packed("8: 4"), node("closed", 8, unschedulable=True), pod("p", 4, "closed")], 1),
        (
            [
                raw
                for n in ("n1", "n2")
                for raw in (node(n, allocatable={"cpu": "10"}), pod(f"over-{n}", 1, n, requests={"cpu": "20"}))
            ],
            2,
        ),
        ([*packed("8: 1"), node("sick", 7, capacity=8), pod("p", 1, "sick")], 2),
    ],
    ids=[
        "GPUs alone",
        "too little CPU",
        "too little memory",
        "one place for a pod",
        "two places for pods",
        "one of the places is another's",
        "CPU that other pods hold",
        "a closed node takes nothing",
        "an open one does",
        "a closed node's pod may leave it",
        "more is held than there is",
        "an unhealthy node keeps its pods",
    ],
)
def test_the_fewest_nodes_have_room_for_all_that_pods_take(objects: list[Object], fewest: int) -> None:
    found = measured(objects)["frag_rate"]
    assert (found["fewest"], found["exact"], found["occupied"]) == (fewest, True, 2)


def test_a_typical_pod_is_the_median_one() -> None:
    pods = [pod(f"p{i}", 1, "n1", requests={"cpu": cpu}) for i, cpu in enumerate(["1", "10", "80"])]
    assert measured([node("n1"), *pods])["slots_usable"]["1"] == 0
    assert measured([node("n1"), *pods[:2]])["slots_usable"]["1"] == 6


@pytest.mark.parametrize(
    "closed", [{"unschedulable": True}, {"ready": "False"}, {"ready": "Unknown"}, {"allocatable": {"pods": "0"}}], ids=str
)
def test_a_closed_node_has_slots_but_none_usable(closed: dict[str, Any]) -> None:
    found = measured([node("n1", **closed)])
    assert (found["slots"]["8"], found["slots_usable"]["8"]) == (1, 0)


def test_demand_weighted_counts_what_the_own_mix_cannot_use() -> None:
    # Half of the pods want 1 GPU, half 4: the three free GPUs of n1 are lost to the latter.
    found = measured(packed("8: 4+1", "8: 4+1+2+1"), sizes=(1, 2, 4))["demand_weighted"]
    assert found["mix"] == [
        {"gpus": 1, "pods": 3, "share": 0.5},
        {"gpus": 2, "pods": 1, "share": 1 / 6},
        {"gpus": 4, "pods": 2, "share": 1 / 3},
    ]
    assert (found["gpus"], found["share"]) == (1.0, 1 / 3)


@pytest.mark.parametrize(
    ("options", "priced"),
    [
        ({}, (None, None)),
        ({"gpu_hour_price": 2.0}, (10.0, 7300.0)),
        ({"gpu_hour_price": 2.0, "gpu_hour_prices": {"T4": 0.5}}, (8.5, 6205.0)),
        ({"gpu_hour_prices": {"T4": 0.5}}, (None, None)),
        ({"gpu_hour_prices": {"T4": 0.5, "A100": 1}}, (4.5, 3285.0)),
    ],
    ids=["no price", "one price", "one of its own", "one is missing", "each its own"],
)
def test_stranded_gpus_have_the_price_of_their_product(
    options: dict[str, Any], priced: tuple[float | None, float | None]
) -> None:
    objects = [node("a", product="A100"), pod("p", 4, "a"), node("t", 2, product="T4"), pod("q", 1, "t"), pod("w", 8)]
    cost = measured(objects, **options)["cost"]
    assert (cost["slot_size"], cost["stranded_gpus"]) == (8, 5)
    assert (cost["per_hour"], cost["per_month"]) == priced


@pytest.mark.parametrize(
    ("objects", "options", "size"),
    [
        ([node("n1")], {}, 8),
        ([node("n1"), pod("p", 2, "n1"), pod("w", 4)], {}, 4),
        ([node("n1"), pod("p", 2, "n1"), pod("w", 64)], {}, 2),
        ([node("n1"), pod("p", 2, "n1")], {"slot_size": 8}, 8),
    ],
    ids=["no pods", "the largest request", "one that no node could hold", "as told"],
)
def test_stranded_gpus_are_priced_at_the_largest_size_asked_for(
    objects: list[Object], options: dict[str, Any], size: int
) -> None:
    assert measured(objects, **options)["slot_size"] == size


@pytest.mark.parametrize(
    ("held", "reclaimable"),
    [
        ([], ["n1"]),
        ([pod("agent", on="n1", owner="DaemonSet/agent")], ["n1"]),
        ([pod("static", on="n1", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})], ["n1"]),
        ([pod("static", on="n1", owner="Node/n1")], ["n1"]),
        ([pod("done", 8, "n1", phase="Failed")], ["n1"]),
        ([pod("web", on="n1", owner="ReplicaSet/web")], []),
        ([pod("bare", 1, "n1")], []),
    ],
    ids=["nothing", "a DaemonSet's pod", "a mirror pod", "a static pod's owner", "a failed pod", "a CPU pod", "a GPU pod"],
)
def test_a_node_is_reclaimable_if_nothing_would_miss_it(held: list[Object], reclaimable: list[str]) -> None:
    found = measured([{"kind": "PodList", "items": held}, node("n1")])
    assert found["reclaimable_nodes"] == reclaimable
    assert found["pools"][0]["reclaimable_nodes"] == reclaimable


def test_mig_slices_are_a_resource_of_their_own() -> None:
    mig = "nvidia.com/mig-1g.5gb"
    objects = [
        node("n1", 4, allocatable={mig: "7"}),
        pod("whole", 2, "n1"),
        pod("slice", None, "n1", requests={mig: "3"}),
    ]
    assert measured(objects)["node_free"] == {"n1": 2}
    assert measured(objects, resource=mig)["node_free"] == {"n1": 4}
    assert measured(objects)["notes"][1:] == [f"1 node also offers {mig}; measure it with resource_name"]


@pytest.mark.parametrize(
    ("labels", "replicas"),
    [
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}, 4),
        ({"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "10"}, 10),
        ({PRODUCT: "Tesla-T4-SHARED"}, 0),
        ({"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1"}, None),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "1"}, None),
    ],
    ids=["time-sliced", "MPS", "by product", "not shared", "one replica"],
)
def test_shared_gpus_are_kept_out_of_all_figures(labels: dict[str, str], replicas: int | None) -> None:
    found = measured([node("n1"), node("t", 4, labels=labels), pod("p", 1, "t")])
    assert found["nodes"] == (2 if replicas is None else 1)
    assert [(shared["node"], shared["replicas"]) for shared in found["shared_nodes"]] == (
        [] if replicas is None else [("t", replicas)]
    )
    assert any("shared" in note for note in found["notes"]) == (replicas is not None)


def test_a_resource_that_is_called_shared_is_measured_as_it_is() -> None:
    shared = "nvidia.com/gpu.shared"
    labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    assert measured([node("t", None, allocatable={shared: "8"}, labels=labels)], resource=shared)["gpus_total"] == 8


def test_pods_with_resource_claims_are_named_and_noted() -> None:
    found = measured([node("n1"), pod("dra", 1, "n1", resourceClaims=[{"name": "gpu"}])])
    assert found["resource_claim_pods"] == [{"namespace": "default", "pod": "dra", "node": "n1", "claims": ["gpu"]}]
    assert any("ResourceClaims" in note for note in found["notes"])


def test_gpus_that_a_node_does_not_list_are_unmeasured() -> None:
    found = measured([node("n1"), node("dra", None), pod("p", 4, "dra")])
    assert (found["nodes"], found["gpus_allocated"]) == (1, 0)
    assert any(note.startswith("dra: pods request") for note in found["notes"])


def test_a_node_selector_limits_the_audit() -> None:
    objects = [node("a", labels={"pool": "x"}), node("b", labels={"pool": "y"}), pod("p", 1, "b")]
    assert measured(objects, selector=parse_selector("pool=x"))["node_free"] == {"a": 8}


def test_who_strands_what_shares_a_node_s_stranded_gpus_by_what_is_held() -> None:
    objects = [
        node("n1"),
        pod("a-0", 3, "n1", owner="ReplicaSet/a"),
        pod("b-0", 1, "n1", owner="ReplicaSet/b"),
        node("n2"),
        pod("a-1", 6, "n2", owner="ReplicaSet/a"),
        node("n3"),
        pod("bare", 8, "n3"),
    ]
    assert measured(objects, details=True)["details"]["stranded_by"] == [
        {"namespace": "default", "owner": "ReplicaSet/a", "pods": 2, "gpus": 9, "nodes": 2, "stranded": 5.0},
        {"namespace": "default", "owner": "ReplicaSet/b", "pods": 1, "gpus": 1, "nodes": 1, "stranded": 1.0},
    ]


@pytest.mark.parametrize(
    ("objects", "state"),
    [
        ([node("n1")], "Empty"),
        ([node("n1"), pod("p", 3, "n1")], "Partial"),
        ([node("n1"), pod("p", 8, "n1")], "Full"),
        ([node("n1", unschedulable=True)], "Cordoned"),
        ([node("n1", unschedulable=True, ready="False")], "NotReady"),
        ([node("n1", 7, capacity=8, ready="False")], "Unhealthy"),
        ([node("n1", 2), pod("p", 1, "n1"), pod("q", 2, "n1")], "Unhealthy"),
    ],
    ids=["nothing on it", "some free", "none free", "cordoned", "not ready", "a broken device", "more held than there is"],
)
def test_a_node_is_in_one_state(objects: list[Object], state: str) -> None:
    assert [n["state"] for n in measured(objects, details=True)["details"]["nodes"]] == [state]


def test_a_terminating_pod_still_holds_its_gpus_and_is_marked() -> None:
    leaving = pod("leaving", 2, "n1", metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"})
    found = measured([node("n1"), leaving], details=True)
    assert found["node_free"] == {"n1": 6}
    assert [h["terminating"] for h in found["details"]["nodes"][0]["holders"]] == [True]
    assert GPU in leaving["spec"]["containers"][0]["resources"]["requests"]


def test_without_any_pod_read_nothing_is_called_reclaimable() -> None:
    found = measured([node("n1")])
    assert found["reclaimable_nodes"] == []
    assert found["notes"][0].startswith("the input holds no pod")


def test_a_node_that_a_pod_is_nominated_to_is_not_reclaimable() -> None:
    assert measured([node("n1"), pod("p", 8, status={"nominatedNodeName": "n1"})])["reclaimable_nodes"] == []


def test_utilization_counts_no_gpu_that_is_gone() -> None:
    found = measured([node("n1", 0, capacity=8), pod("p", 8, "n1"), node("n2"), pod("q", 4, "n2")])
    assert (found["gpus_allocated"], found["utilization"], found["schedulable_utilization"]) == (12, 0.5, 0.0)
    assert any(note.startswith("n1: pods hold more GPUs") for note in found["notes"])


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}},
        {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
        {"containers": [{"name": "m", "resources": {"requests": {GPU: "1"}}, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    ],
    ids=["anti-affinity", "pinned", "host port"],
)
def test_frag_rate_is_not_called_proved_where_pods_have_rules_of_placement(rules: dict[str, Any]) -> None:
    objects = [node("n1"), pod("p", 1, "n1", **rules), node("n2"), pod("q", 1, "n2")]
    assert measured(objects)["frag_rate"] == {"value": 0.5, "exact": False, "occupied": 2, "fewest": 1}


def test_tolerations_and_selectors_that_the_whole_pool_meets_are_no_such_rules() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    rules: dict[str, Any] = {"tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {PRODUCT: "A100"}}
    nodes = [node(name, product="A100", taints=[taint]) for name in ("n1", "n2")]
    assert measured([*nodes, pod("p", 1, "n1", **rules), pod("q", 1, "n2", **rules)])["frag_rate"]["exact"]


@pytest.mark.parametrize(
    ("prices", "words"),
    [({"T4": 1}, "no price for A100"), ({"T4": 1, "A100": 1, "A10": 1}, "gpu_hour_prices names A10, which no pool is")],
)
def test_a_price_that_is_missing_or_for_nothing_is_noted(prices: dict[str, float], words: str) -> None:
    objects = [node("a", product="A100"), pod("p", 1, "a"), node("t", product="T4")]
    notes = measured(objects, gpu_hour_prices=prices, slot_size=8)["notes"]
    assert any(note.startswith(words) for note in notes)


def test_mig_slices_under_the_plain_name_are_noted() -> None:
    labels = {"nvidia.com/mig.strategy": "single"}
    assert any("MIG slices" in note for note in measured([node("n1", 56, labels=labels)])["notes"])


def test_pods_with_claims_are_named_wherever_they_are() -> None:
    claims = [{"name": "gpu"}]
    objects = [node("dra", None), pod("bound", on="dra", resourceClaims=claims), pod("waiting", resourceClaims=claims)]
    assert [(p["pod"], p["node"]) for p in measured(objects)["resource_claim_pods"]] == [("bound", "dra"), ("waiting", None)]
