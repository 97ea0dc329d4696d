# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import parse_selector
from ansible_collections.gpuops.defrag.plugins.modules import gpu_fragmentation_info
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, PRODUCT, Object, measured, node, packed, pod
from ansible_collections.gpuops.defrag.tests.unit.everything import everything

MEASURES = {
    *("nodes", "gpus_total", "gpus_allocated", "gpus_free", "gpus_unhealthy", "utilization", "schedulable_utilization"),
    *(
        "slots",
        "slots_usable",
        "stranded",
        "fragmentation_rate",
        "frag_rate",
        "largest_slot",
        "stranded_gpus",
        "reclaimable_nodes",
    ),
}
# A cluster in which every part of the result has something to say, and the options that make it do so.
TAINT = {"key": "gpu", "effect": "NoSchedule"}
FULL: list[Object] = [
    *everything(),
    node("tainted", 8, taints=[TAINT]),
    pod("blocked", 7, requests={"cpu": "1000"}),
    pod("bare", 3, "tainted"),
]
TYPES: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict}
OPTIONS: dict[str, Any] = {"gpu_hour_price": 3.0, "details": True}


def documented(contains: dict[str, Any], sample: Any, path: str = "") -> list[str]:
    """Keys that the documentation and a result do not have in common, all the way down."""
    if isinstance(sample, list):
        return documented(contains, sample[0], path) if sample else []
    odd = [f"{path}{key}" for key in contains.keys() ^ sample.keys()]
    for key in contains.keys() & sample.keys():
        if "contains" in contains[key]:
            odd += documented(contains[key]["contains"], sample[key], f"{path}{key}.")
    return odd


def test_every_key_is_documented_and_nothing_else_is() -> None:
    returned = yaml.safe_load(gpu_fragmentation_info.RETURN)["fragmentation"]["contains"]
    pool = returned["pools"].pop("contains")
    found = measured(FULL, **OPTIONS)
    for key in ("blocked_pods", "pending_pods", "not_applicable_reasons", "pools"):
        assert found[key], f"the cluster of this test has no {key}"
    assert documented(returned, found) == []
    assert {"name", "product", *MEASURES} == set(found["pools"][0])
    assert set(pool) == {"name", "product"}


def typed(contains: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Keys whose value is not of the type that the documentation tells; null is for what is not known."""
    return [key for key, told in contains.items() if result[key] is not None and not isinstance(result[key], TYPES[told["type"]])]


def test_every_value_has_the_type_that_is_documented() -> None:
    returned = yaml.safe_load(gpu_fragmentation_info.RETURN)["fragmentation"]["contains"]
    found = measured(FULL, **OPTIONS)
    assert typed(returned, found) == []
    for key in ("frag_rate", "demand_weighted", "cost"):
        assert typed(returned[key]["contains"], found[key]) == []
    for key in ("blocked_pods", "pending_pods", "not_applicable_reasons", "pools"):
        assert typed(returned[key]["contains"], found[key][0]) == []


def test_samples_have_the_keys_of_a_result() -> None:
    returned = yaml.safe_load(gpu_fragmentation_info.RETURN)["fragmentation"]["contains"]
    found = measured(FULL, **OPTIONS)
    for key in ("unhealthy_nodes", "shared_nodes", "resource_claim_pods"):
        assert set(returned[key]["sample"][0]) == set(found[key][0]), key
    for key in ("nodes", "stranded_by"):
        assert set(returned["details"]["contains"][key]["sample"][0]) == set(found["details"][key][0]), key
    assert set(returned["demand_weighted"]["contains"]["mix"]["sample"][0]) == set(found["demand_weighted"]["mix"][0])
    assert set(returned["blocked_pods"]["contains"]["nodes"]["sample"][0]) == set(found["blocked_pods"][0]["nodes"][0])


def test_a_result_is_plain_json_and_reads_back_the_same() -> None:
    found = measured(FULL, **OPTIONS)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_order_of_everything_changes_no_byte() -> None:
    expected = json.dumps(measured(FULL, **OPTIONS))
    objects = [raw for document in FULL for raw in document.get("items", [document])]
    for seed in range(20):
        assert json.dumps(measured(random.Random(seed).sample(objects, len(objects)), **OPTIONS)) == expected


def test_details_come_only_when_asked_for_and_change_nothing_else() -> None:
    brief, full = measured(FULL), measured(FULL, details=True)
    assert "details" not in brief
    assert full.pop("details")
    assert full == brief


def test_sizes_are_text_in_the_order_given() -> None:
    found = measured(packed("8: 1"), sizes=(1, 3, 8))
    assert [list(found[key]) for key in ("slots", "slots_usable", "stranded")] == [["1", "3", "8"]] * 3
    assert found["slots"] == {"1": 7, "3": 2, "8": 0}


def test_without_nodes_everything_is_nothing() -> None:
    found = measured([], **OPTIONS)
    assert (found["utilization"], found["fragmentation_rate"], found["largest_slot"], found["slot_size"]) == (0.0, 0.0, 0, 8)
    assert found["frag_rate"] == {"value": 0.0, "exact": True, "occupied": 0, "fewest": 0}
    assert found["demand_weighted"] == {"gpus": 0, "share": 0.0, "mix": []}
    assert (found["cost"]["per_hour"], found["cost"]["per_year"]) == (0.0, 0.0)
    assert (found["pools"], found["node_free"], found["notes"]) == ([], {}, [])
    assert found["details"] == {"nodes": [], "stranded_by": []}


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({}, (None, None, None, None)),
        ({"gpu_hour_price": 3.0}, (3.0, 9.0, 6570.0, 78840.0)),
        ({"gpu_hour_price": 0.12345}, (0.12345, 0.37, 270.36, 3244.27)),
        ({"gpu_hour_price": 0.0}, (0.0, 0.0, 0.0, 0.0)),
        ({"gpu_hour_prices": {"A": 2.0}}, (None, 6.0, 4380.0, 52560.0)),
        ({"gpu_hour_prices": {"B": 2.0}}, (None, None, None, None)),
    ],
)
def test_cost_is_told_by_hour_month_and_year_where_all_that_is_stranded_has_a_price(
    prices: dict[str, Any], cost: tuple[float | None, ...]
) -> None:
    objects = [node("a", product="A"), pod("p", 5, "a"), node("b", product="B"), pod("q", 8, "b")]
    found = measured(objects, currency="EUR", **prices)["cost"]
    assert tuple(found[key] for key in ("gpu_hour_price", "per_hour", "per_month", "per_year")) == cost
    assert (found["currency"], found["stranded_gpus"], found["hours_per_month"]) == ("EUR", 3, 730)


def test_demand_weighted_gpus_are_told_to_six_digits() -> None:
    # Of three pods one wants 5 GPUs, for which the one free GPU is of no use.
    assert measured(packed("8: 5+1+1"))["demand_weighted"]["gpus"] == 0.333333


def test_a_pool_without_a_product_says_so() -> None:
    pools = measured([node("a"), node("b", product="A100")])["pools"]
    assert [(pool["name"], pool["product"]) for pool in pools] == [("(no product label)", None), ("A100", "A100")]


def test_an_unhealthy_node_is_told_with_its_figures() -> None:
    found = measured([node("b", 7, capacity=8), pod("p", 3, "b"), node("a", 2), pod("q", 3, "a"), node("c")])
    assert found["unhealthy_nodes"] == [
        {"node": "a", "capacity": 2, "allocatable": 2, "allocated": 3, "message": "2 GPUs built in, 2 work, 3 requested"},
        {"node": "b", "capacity": 8, "allocatable": 7, "allocated": 3, "message": "8 GPUs built in, 7 work, 3 requested"},
    ]
    assert found["gpus_unhealthy"] == 1


def test_a_blocked_pod_is_told_in_full() -> None:
    objects = [*packed("8: 6"), node("n2", allocatable={"cpu": "1"}), pod("big", 4, namespace="ml", requests={"cpu": "8"})]
    assert measured(objects)["blocked_pods"] == [
        {
            "namespace": "ml",
            "pod": "big",
            "gpus": 4,
            "pools": ["(no product label)"],
            "pool_free": 10,
            "largest_slot": 8,
            "cause": ["InsufficientCPU"],
            "refusals": {"InsufficientGPU": 1, "InsufficientCPU": 1},
            "nodes": [{"node": "n2", "reasons": ["InsufficientCPU"]}],
            "message": (
                "needs 4 GPUs; pool (no product label) has 10 free, node n2 has enough of them but refuses it: InsufficientCPU"
            ),
        }
    ]


def test_holders_are_told_largest_first_and_a_bare_pod_has_no_owner() -> None:
    objects = [node("n1"), pod("z", 1, "n1"), pod("a", 1, "n1", owner="Job/j"), pod("m", 4, "n1"), pod("cpu", on="n1")]
    (found,) = measured(objects, details=True)["details"]["nodes"]
    assert [(h["pod"], h["owner"], h["gpus"]) for h in found["holders"]] == [("m", None, 4), ("a", "Job/j", 1), ("z", None, 1)]
    assert (found["gpus"], found["allocated"], found["free"], found["stranded"], found["state"]) == (8, 6, 2, 2, "Partial")


def test_who_strands_what_names_bare_pods_and_adds_up() -> None:
    objects = packed("8: 3+2+1", "8: 5", "4: 3")
    found = measured(objects, details=True, slot_size=8)
    table = found["details"]["stranded_by"]
    assert [(row["owner"], row["stranded"]) for row in table] == [
        ("Pod/p2-1", 3.0),
        ("Pod/p1-1", 1.0),
        ("Pod/p3-1", 1.0),
        ("Pod/p1-2", 0.67),
        ("Pod/p1-3", 0.33),
    ]
    assert sum(row["stranded"] for row in table) == found["stranded_gpus"] == 6


NAMESPACED = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}]}}  # noqa: E501  # fmt: skip
IN_ITS_OWN = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
MOUNTED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}}
VOLUME = {"kind": "PersistentVolume", "metadata": {"name": "pv"}}
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "default"}}


@pytest.mark.parametrize(
    ("objects", "note"),
    [
        ([pod("p", 1, volumes=MOUNTED)], "the input has no PersistentVolumeClaims and no PersistentVolumes: whether volumes"),
        ([pod("p", 1, volumes=MOUNTED), CLAIM], "the input has no PersistentVolumes: whether volumes"),
        ([pod("p", 1, volumes=MOUNTED), VOLUME], "the input has no PersistentVolumeClaims: whether volumes"),
        ([pod("p", 1, volumes=MOUNTED), CLAIM, VOLUME], None),
        ([pod("p", volumes=MOUNTED)], None),
        ([pod("p", 1, affinity=NAMESPACED)], "the input has no Namespaces: whom the affinities"),
        ([pod("p", 1, affinity=NAMESPACED), NAMESPACE], None),
        ([pod("p", 1, affinity=IN_ITS_OWN)], None),
        ([pod("p", affinity=NAMESPACED)], None),
        ([node("amd", None, allocatable={"amd.com/gpu": "8"})], "1 node also offers amd.com/gpu; measure it with"),
        (
            [node(name, None, allocatable={"amd.com/gpu": "8"}) for name in ("a", "b")],
            "2 nodes also offer amd.com/gpu; measure it with",
        ),
        (
            [raw for name in "edcba" for raw in (node(name, None), pod(f"on-{name}", 1, name))],
            f"a, b, c and 2 more: pods request {GPU} that the node does not list",
        ),
        (
            [pod(name, 1, status={"nominatedNodeName": "gone"}) for name in "cab"],
            "default/a, default/b, default/c: nominated to a node that is not in the input",
        ),
        ([node("over", 2), pod("p", 3, "over")], "over: pods hold more GPUs than the node offers"),
        ([node("mig", 7, labels={"nvidia.com/mig.strategy": "single"})], f"mig: their {GPU} are MIG slices"),
        ([pod("p", 1, "n1", resourceClaims=[{"name": "a"}])], "1 pod has ResourceClaims"),
        ([pod(name, 1, "n1", resourceClaims=[{"name": "a"}]) for name in "ab"], "2 pods have ResourceClaims"),
        ([node("t", 4, labels={PRODUCT: "T4-SHARED"})], f"t: GPUs are shared and left out: one of their {GPU}"),
    ],
)
def test_what_is_not_known_or_left_out_is_noted(objects: list[Object], note: str | None) -> None:
    timed = pod("timed", on="n1", created="2026-11-30T12:00:00Z")
    notes = measured([node("n1"), timed, *objects])["notes"]
    assert len(notes) == (0 if note is None else 1)
    assert all(text.startswith(note or "") for text in notes)


def test_every_value_is_of_a_plain_type() -> None:
    def types(value: Any) -> set[type]:
        members = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
        return {type(value)}.union(*(types(member) for member in members))

    objects = [*packed("8: 6", "8: 6"), pod("blocked", 4), node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert types(measured(objects, details=True)) <= {dict, list, str, int, float, bool, type(None)}


@pytest.mark.parametrize(
    ("held", "prices", "note"),
    [
        (5, {"A": 2.0}, "no price for (no product label): what is stranded cannot be priced as a whole"),
        (8, {"A": 2.0}, None),
        (5, {"A": 2.0, "(no product label)": 1.0}, None),
        (5, {}, None),
        (8, {"A": 2.0, "H100": 1.0, "B": 3.0}, "gpu_hour_prices names B, H100, which no pool is; pools: (no product label), A"),
    ],
    ids=["some have none", "nothing of that kind is stranded", "all have one", "no money asked for", "prices of nothing"],
)
def test_what_keeps_prices_from_being_used_is_noted(held: int, prices: dict[str, float], note: str | None) -> None:
    objects = [node("a", product="A"), node("n1"), pod("p", held, "n1", created="2026-11-30T12:00:00Z")]
    notes = measured(objects, gpu_hour_prices=prices, slot_size=8)["notes"]
    assert [text[: len(note or "")] for text in notes] == ([] if note is None else [note])


def test_pods_on_nodes_that_came_or_went_meanwhile_are_left_out_and_noted() -> None:
    objects = [node("n1"), pod("here", 1, "n1", created="2026-11-30T12:00:00Z"), pod("b", 4, "n2"), pod("a", 4, "n3")]
    found = measured(objects, live=True)
    assert found["gpus_allocated"] == 1
    assert found["notes"] == ["default/a, default/b: left out, being on nodes that came or went while the cluster was read"]


def test_a_dump_without_pods_is_not_taken_for_a_free_cluster() -> None:
    found = measured([node("n1")])
    assert found["notes"][0].startswith("the input holds no pod: if there are any, what is free is unknown")
    assert found["reclaimable_nodes"] == []
    listed = measured([node("n1"), {"kind": "PodList", "items": []}])
    assert listed["reclaimable_nodes"] == ["n1"]


def test_pending_pods_beside_a_node_selector_are_told_of_with_care() -> None:
    objects = [*packed("8: 8", labels={"use": "y"}), pod("p", 1, created="2026-11-30T12:00:00Z")]
    found = measured(objects, selector=parse_selector("use=y"))
    assert found["notes"] == ["what is said of pending pods holds for the nodes of node_selector alone"]
