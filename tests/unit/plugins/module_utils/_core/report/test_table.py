# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.table import audit_table
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import (
    FREE_HERE_AND_THERE,
    GPU,
    HOSTILE,
    PRODUCT,
    audited,
    held,
    hostile,
    large,
    long_names,
    node,
    pod,
)

CLUSTERS = {
    "no node": audited([]),
    "one full node": audited(["8: 8"]),
    "all GPUs broken": audited([], node("sick", 8, broken=8)),
    "3 nodes": audited(["8: 4+2+1", "8: 4+2", "8: 4+2+1"]),
    "25 nodes": audited(FREE_HERE_AND_THERE, pod("big", 8), gpu_hour_price=3.0),
    "1,213 nodes": large(1213),
    "no details": audited(FREE_HERE_AND_THERE, pod("big", 8), details=False),
    "MIG slices": audited(["56: 7+7+1"] * 3),
    "an absurd request": audited(["8: 1000000000"]),
    "an absurd node": audited(["1000000000000: 1"]),
    "long names": long_names(),
    "hostile names": hostile(),
    "large amounts": audited(["8: 4"] * 12, gpu_hour_price=987654.32, currency="Zimbabwean dollars"),
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_every_line_fits_and_is_plain(cluster: dict[str, Any]) -> None:
    table = audit_table(cluster)
    assert table.endswith("\n")
    for line in table.splitlines():
        assert len(line) <= 92
        assert line == line.rstrip()
        assert line.isprintable()
        assert line.isascii()


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_the_same_audit_gives_the_same_text(cluster: dict[str, Any]) -> None:
    assert audit_table(cluster) == audit_table(cluster)


def section(cluster: dict[str, Any], heading: str) -> list[str]:
    """The lines under the heading that starts so; none if there is no such section."""
    sections = [part.splitlines() for part in audit_table(cluster).split("\n\n")]
    return next((lines[1:] for lines in sections if lines[0].startswith(heading)), [])


def test_the_sentence_comes_first() -> None:
    first = audit_table(CLUSTERS["25 nodes"]).splitlines()[0]
    assert first.startswith("Each of the 70 free GPUs is stranded: no 8-GPU pod can use it. That costs")


def test_a_cluster_without_gpus_gets_no_empty_sections() -> None:
    assert audit_table(CLUSTERS["no node"]) == (
        "No node offers nvidia.com/gpu, so there is nothing to measure.\n"
        "\n"
        "WHY MOVING PODS IS NOT ADVISED\n"
        "  - the input holds no node; dump nodes and pods together (nodes 0)\n"
    )


def test_slots_are_told_by_size() -> None:
    assert section(audited(["8: 4+2", "8: 4+1"], slot_size=4), "SLOTS PER SIZE")[1:] == [
        f"  1            5       5         0  [{'#' * 50}]",
        f"  2            2       2         1  [{'#' * 40}{'!' * 10}]",
        f"  4            0       0         5  [{'!' * 50}]",
        f"  8            0       0         5  [{'!' * 50}]",
    ]


def test_slots_on_a_cordoned_node_are_no_use() -> None:
    cluster = audited(["8: 8"], *held("8: 4", "closed", cordoned=True), sizes=(4,))
    assert section(cluster, "SLOTS PER SIZE")[1:] == [f"  4            1       0         0  [{'-' * 50}]"]


def test_nodes_come_worst_first_with_a_sign_for_each_gpu() -> None:
    rows = section(audited(["8: 4+4", "8: 4+3", "8: 4+1"]), "NODES THAT STRAND MOST")[1:]
    assert [row.split()[:5] for row in rows] == [
        ["gpu-2", "[#####...]", "3", "3", "4+1"],
        ["gpu-1", "[#######.]", "1", "1", "4+3"],
    ]


def test_a_broken_gpu_has_its_own_sign() -> None:
    cluster = audited(["8: 8"], *held("8: 4+1", "sick", broken=2))
    (row,) = section(cluster, "NODES THAT STRAND MOST")[1:]
    assert row.split()[:2] == ["sick", "[#####.xx]"]
    assert section(cluster, "UNHEALTHY") == ["  - sick: 8 GPUs built in, 6 work, 5 requested"]


def test_at_most_ten_nodes_are_named() -> None:
    assert len(section(large(1213), "NODES THAT STRAND MOST")) == 11


def test_who_strands_what() -> None:
    heads, row = section(audited(["8: 4+1"] * 2), "WHO STRANDS WHAT")
    assert heads.split() == ["workload", "pods", "GPUs", "nodes", "stranded"]
    assert row.split()[:5] == ["team/ReplicaSet/llm", "4", "10", "2", "6.0"]


def test_a_blocked_pod_is_told_with_the_reasons_of_the_nodes() -> None:
    lines = section(audited(["8: 4"] * 2, pod("big", 8), *held("8:", "closed", cordoned=True)), "BLOCKED PODS (1)")
    assert lines == [
        "  team/big",
        "    needs 8 GPUs; pool A100 has 16 free, node closed has enough of them but refuses it:",
        "    Cordoned",
        "      2 nodes: too few GPUs free",
        "      1 node: cordoned, so closed to new pods",
        "      closed has the GPUs, but: cordoned, so closed to new pods",
    ]


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (pod("small", 1), "node gpu-0 takes it"),
        (pod("huge", 99), "no node that it may use has so many"),
        (pod("gated", 1, schedulingGates=[{"name": "later"}]), "its scheduling gates keep it back"),
        (pod("lost", 1, nodeSelector={PRODUCT: "none"}), "admits no GPU node"),
    ],
)
def test_other_pending_pods_are_told_apart(waiting: dict[str, Any], words: str) -> None:
    cluster = audited(["8: 4"], waiting)
    assert words in " ".join(section(cluster, "OTHER PENDING PODS (1)"))
    assert not section(cluster, "BLOCKED PODS")


def test_cost_is_told_with_how_it_was_computed() -> None:
    lines = section(audited(["8: 4+1"] * 10, gpu_hour_price=2.0), "GPUS")
    assert lines[-1] == "  cost of the stranded        43,800  USD a month: 30 GPUs at 2.00 USD an hour, 730 hours"


def test_one_price_is_not_told_where_products_have_their_own() -> None:
    cost = " ".join(section(audited(["8: 4+1"], gpu_hour_price=2.0, gpu_hour_prices={"A100": 4.0}), "GPUS")[-2:])
    assert "3 GPUs at their product's price" in cost
    assert "2.00" not in cost


def test_without_a_price_no_cost_is_told() -> None:
    assert "cost" not in audit_table(audited(["8: 4+1"] * 10))


def test_reasons_against_acting_come_right_after_the_headline() -> None:
    sections = audit_table(audited(["8: 1"] * 3)).split("\n\n")
    assert sections[1].splitlines() == [
        "WHY MOVING PODS IS NOT ADVISED",
        "  - 3 GPU nodes, fewer than 10: tidying by hand is quicker (min gpu nodes 10, nodes 3)",
        "  - all 3 GPU pods take one GPU: a single free GPU always fits the next pod (largest request",
        "    1, pods 3)",
    ]


def test_reclaimable_nodes_are_named() -> None:
    assert section(audited(["8: 8", "8:"]), "RECLAIMABLE NODES (1)") == ["  gpu-1"]


def test_pods_with_resource_claims_are_named() -> None:
    claiming = pod("claims", 1, on="gpu-0", resourceClaims=[{"name": "device", "resourceClaimName": "device"}])
    (line,) = section(audited(["8: 4"], claiming), "UNHEALTHY OR NOT COUNTED")
    assert line == "  - team/claims holds devices by resource claim (device): no figure shows them"


def test_what_is_unknown_is_told() -> None:
    notes = section(audited(["8: 4"]), "WHAT IS UNKNOWN OR LEFT OUT")
    assert notes == ["  - the input has no times: how long pods live is unknown"]


def test_without_details_what_only_they_tell_is_left_out() -> None:
    cluster = audited(["8: 4+1"], details=False)
    assert section(cluster, "POOLS (1)")
    assert not section(cluster, "NODES THAT STRAND MOST")
    assert not section(cluster, "WHO STRANDS WHAT")


def test_a_name_cannot_write_to_the_terminal() -> None:
    table = audit_table(hostile())
    assert "alert" in table
    assert not set("\x1b\u202e\ud800") & set(table)
    assert set("\x1b\u202e\ud800") < set(HOSTILE)


def test_a_fragmented_cluster_names_its_resource() -> None:
    assert f"200 on 25 nodes, {GPU}" in audit_table(CLUSTERS["25 nodes"])
