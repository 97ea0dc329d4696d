# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.heatmap import EVERY_NODE, WORST
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.page import audit_page
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import (
    FREE_HERE_AND_THERE,
    PRODUCT,
    audited,
    held,
    hostile,
    large,
    long_names,
    node,
    pod,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.pages import (
    Page,
    assert_harmless,
    cells,
    rows,
)

CLUSTERS = {
    "no node": audited([]),
    "one full node": audited(["8: 8"]),
    "all GPUs broken": audited([], node("sick", 8, broken=8)),
    "3 nodes": audited(["8: 4+2+1", "8: 4+2", "8: 4+2+1"]),
    "25 nodes": audited(FREE_HERE_AND_THERE, pod("big", 8), gpu_hour_price=3.0),
    "1,213 nodes": large(1213),
    "12,130 nodes": large(12130),
    "no details": audited(FREE_HERE_AND_THERE, pod("big", 8), details=False),
    "MIG slices": audited(["56: 7+7+1"] * 9),
    "an absurd request": audited(["8: 1000000000"]),
    "long names": long_names(),
    "hostile names": hostile(),
}


def said(cluster: dict[str, Any], section: str) -> str:
    """The text of a section, "" for what stands before the first; empty if there is none."""
    return " ".join(Page(audit_page(cluster)).sections.get(section, []))


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_page_is_well_formed_and_loads_nothing(cluster: dict[str, Any]) -> None:
    assert_harmless(audit_page(cluster))


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_the_same_audit_gives_the_same_bytes(cluster: dict[str, Any]) -> None:
    assert audit_page(cluster).encode() == audit_page(cluster).encode()


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_page_stays_small(cluster: dict[str, Any]) -> None:
    assert len(audit_page(cluster).encode()) < 3_000_000


def test_scripts_are_forbidden_should_one_ever_get_in() -> None:
    policies = [attrs["content"] for tag, attrs in Page(audit_page(hostile())).elements if "http-equiv" in attrs]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_a_name_is_text_and_never_markup() -> None:
    markup = audit_page(hostile(), title="<b>a & b</b>")
    assert "<script" not in markup
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot; onmouseover=&quot;alert(1)?[2J??" in markup
    assert "<title>&lt;b&gt;a &amp; b&lt;/b&gt;</title>" in markup


@pytest.mark.parametrize("name", ["25 nodes", "1,213 nodes", "MIG slices", "3 nodes", "long names"])
def test_every_gpu_has_its_cell(name: str) -> None:
    cluster = CLUSTERS[name]
    nodes = cluster["details"]["nodes"]
    found = cells(audit_page(cluster))
    assert found.total() == sum(node["gpus"] for node in nodes)
    assert found["held"] == sum(node["allocated"] for node in nodes)


def test_a_free_gpu_is_drawn_as_part_of_a_slot_or_as_stranded() -> None:
    cluster = audited(["8: 1", "8: 4+1", "2: 1"], slot_size=4)
    assert cells(audit_page(cluster)) == {"held": 7, "f": 4, "s": 3 + 3 + 1}
    assert cluster["cost"]["stranded_gpus"] == 3 + 3 + 1


@pytest.mark.parametrize(
    ("sick", "drawn"),
    [
        (held("8: 4+1", "sick", broken=2), {"held": 5, "s": 1, "u": 2}),
        (held("8: 4+4", "sick", broken=2), {"held": 8}),
        (held("8:", "sick", broken=8), {"u": 8}),
    ],
)
def test_a_broken_gpu_is_drawn_as_such_unless_a_pod_holds_it(sick: list[dict[str, Any]], drawn: dict[str, int]) -> None:
    assert cells(audit_page(audited([], *sick))) == drawn


def test_a_pod_hangs_together_and_tells_its_name_and_size() -> None:
    markup = audit_page(audited(["8: 4+1"]))
    assert '<b class="p4" title="team/gpu-0-0: 4 GPUs, of ReplicaSet/llm"><i>4</i><i></i><i></i><i></i></b>' in markup
    assert '<b title="team/gpu-0-1: 1 GPU, of ReplicaSet/llm"><i>1</i></b>' in markup


def test_the_worst_node_and_the_worst_pool_come_first() -> None:
    cluster = audited(["8: 4+4", "8: 4+2", "8: 4+1"], *held("8: 1", "t4", product="T4"), slot_size=8)
    assert rows(audit_page(cluster)) == ["t4", "gpu-2", "gpu-1", "gpu-0"]


@pytest.mark.parametrize("state", [{"cordoned": True}, {"broken": 1}])
def test_a_node_that_takes_no_pods_or_not_all_says_so(state: dict[str, Any]) -> None:
    assert "".join(state).replace("broken", "unhealthy") in audit_page(audited([], *held("8: 4", "odd", **state)))


@pytest.mark.parametrize(("nodes", "drawn"), [(EVERY_NODE, EVERY_NODE), (EVERY_NODE + 1, WORST)])
def test_above_some_size_only_the_worst_nodes_are_drawn(nodes: int, drawn: int) -> None:
    assert len(rows(audit_page(large(nodes)))) == drawn


def test_a_histogram_counts_every_node_by_its_free_gpus() -> None:
    counts = re.findall(r"<li>([\d,]*)(?:<i[^>]*></i>)*<b>([\d-]+)</b></li>", audit_page(large(2000)))
    found = {free: int(nodes.replace(",", "") or 0) for nodes, free in counts}
    assert found == {"0": 400, "1": 400, "2": 400, "3": 0, "4": 400, "5": 0, "6": 0, "7": 400}


def test_a_histogram_of_many_devices_joins_columns() -> None:
    assert "<b>36-38</b></li><li>9<i" in audit_page(CLUSTERS["MIG slices"])
    assert "<b>39-41</b>" in audit_page(CLUSTERS["MIG slices"])


def test_totals_and_the_sentence_come_first() -> None:
    text = said(CLUSTERS["25 nodes"], "")
    assert text.startswith(
        "GPU fragmentation audit GPU fragmentation audit 25 nodes · 200 GPUs · 130 allocated · 70 free · nvidia.com/gpu "
        "Each of the 70 free GPUs is stranded: no 8-GPU pod can use it. That costs 153,300 USD a month."
    )


def test_slots_are_told_by_size() -> None:
    text = said(audited(["8: 4+2", "8: 4+1"], slot_size=4), "Slots per size")
    assert "2-GPU pods 2 usable of 2 slots, 1 stranded 4-GPU pods 0 usable of 0 slots, 5 stranded" in text


def test_smaller_nodes_are_explained_where_they_make_a_difference() -> None:
    words = "judges them by their own size"
    assert words in said(audited(["8: 4"] * 3 + ["2:"], slot_size=8), "Slots per size")
    assert words not in said(audited(["8: 4"] * 3, slot_size=8), "Slots per size")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Unknown: no price was given, or not for every product."),
        ({"gpu_hour_prices": {"T4": 1.0}}, "Unknown: no price was given, or not for every product."),
        (
            {"gpu_hour_price": 2.0},
            "An hour 30 stranded GPUs × 2.00 USD = 60.00 USD A month × 730 hours = 43,800 USD A year 525,600 USD",
        ),
        ({"gpu_hour_prices": {"A100": 4.0}}, "An hour 30 stranded GPUs × the price of each product = 120.00 USD"),
        ({"gpu_hour_price": 2.0, "gpu_hour_prices": {"A100": 4.0}}, "× the price of each product = 120.00 USD"),
    ],
)
def test_cost_is_told_with_how_it_was_computed(options: dict[str, Any], words: str) -> None:
    assert words in said(audited(["8: 4+1"] * 10, **options), "What it costs")


@pytest.mark.parametrize(
    ("layouts", "words"),
    [
        (["8: 4+1"] * 10, "Yes: none of the reasons against it holds here."),
        (["8: 4+1"] * 3, "3 GPU nodes, fewer than 10: tidying by hand is quicker (min gpu nodes 10, nodes 3)"),
        (["8: 1"] * 12, "all 12 GPU pods take one GPU"),
    ],
)
def test_whether_to_act_is_told_with_its_figures(layouts: list[str], words: str) -> None:
    assert words in said(audited(layouts), "Is it worth acting?")


def test_who_strands_what() -> None:
    assert "team/ReplicaSet/llm 4 10 2 6.0" in said(audited(["8: 4+1"] * 2), "Who strands what")


@pytest.mark.parametrize(
    ("layouts", "advised"),
    [
        (["8: 2+1"] * 10, True),  # 30 GPUs on 10 nodes would do with 4
        (["8: 2+1"] * 9, False),  # not advised on so few
        (["8: 5"] * 10, False),  # no node can be emptied
    ],
)
def test_moving_workloads_is_said_to_help_only_where_it_does(layouts: list[str], advised: bool) -> None:
    text = said(audited(layouts), "Who strands what")
    assert text.startswith("Who strands what A node's stranded GPUs")
    assert ("Moving these workloads gives most back." in text) is advised


def test_what_the_clusters_own_mix_cannot_use_stands_beside_what_is_stranded() -> None:
    text = said(audited(["8: 1+1+1"] * 10, pod("big", 8)), "")
    assert "Stranded GPUs 50 100.0 % of the free ones, at size 8 Demand-weighted 1.6 free GPUs (3.2 %)" in text


def test_blocked_pods_are_told_with_reasons_counted_over_all_of_them() -> None:
    closed = held("8:", "closed", cordoned=True)
    text = said(audited(["8: 4"] * 2, pod("big", 8), pod("bigger", 8), *closed), "Blocked pods")
    assert "InsufficientGPU too few GPUs free 2 4 Cordoned cordoned, so closed to new pods 2 2" in text
    assert "team/big needs 8 GPUs; pool A100 has 16 free, node closed has enough of them but refuses it: Cordoned" in text
    assert "2 nodes : too few GPUs free 1 node : cordoned" in text
    assert "closed has the GPUs, but: cordoned, so closed to new pods" in text


def test_other_pending_pods_are_told_with_their_state() -> None:
    lost = pod("lost", 1, nodeSelector={PRODUCT: "none"})
    assert "team/lost 1 NoPool needs 1 GPU; its node selector or affinity admits no GPU node" in said(
        audited(["8: 4"], lost), "Other pending pods"
    )


def test_a_long_list_says_how_much_of_it_is_left_out() -> None:
    waiting = [pod(f"big-{i:03}", 8) for i in range(60)]
    assert "… and 10 more blocked pods; the JSON result has them all." in said(audited(["8: 4"] * 2, *waiting), "Blocked pods")


def test_what_is_unknown_left_out_or_broken_is_told() -> None:
    claiming = pod("claims", 1, on="gpu-0", resourceClaims=[{"name": "device", "resourceClaimName": "device"}])
    cluster = audited(["8: 4"], claiming, *held("8: 4", "sick", broken=1))
    assert "the input has no times" in said(cluster, "What is unknown")
    assert "sick 8 GPUs built in, 7 work, 4 requested" in said(cluster, "Unhealthy or not counted")
    assert "team/claims holds devices by resource claim (device)" in said(cluster, "Unhealthy or not counted")


def test_reclaimable_nodes_are_named() -> None:
    assert "gpu-1" in said(audited(["8: 8", "8:"]), "Reclaimable nodes")


def test_the_inputs_are_told() -> None:
    text = said(audited(["8: 4+1"], fragmentation_size=3, sizes=(2, 16), gpu_hour_price=2.5), "Inputs and words")
    for words in (
        "GPU resource nvidia.com/gpu",
        "Fragmentation size 3",
        "sizes 2, 16",
        "hour 2.50 USD",
        "2: 1 × 1 GPU, 1 × 4 GPU",
    ):
        assert words in text


def test_without_details_there_is_no_map() -> None:
    cluster = CLUSTERS["no details"]
    assert said(cluster, "Pools")
    assert not said(cluster, "Nodes and their GPUs")
    assert not said(cluster, "Who strands what")


def test_an_empty_cluster_has_a_page_without_empty_sections() -> None:
    assert list(Page(audit_page(CLUSTERS["no node"])).sections) == [
        "",
        "Is it worth acting?",
        "Inputs and words",
    ]
