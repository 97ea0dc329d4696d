# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest

from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, REQUIRED, Object, laid_out, node, packed, pod, pod_of

REPELLING = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "rack", "labelSelector": {}}]}}


def test_what_is_used_is_the_sum_of_what_active_pods_request() -> None:
    layout = laid_out(
        [
            node("n1", 8),
            pod("a", 2, "n1", requests={"cpu": "500m"}),
            pod("b", 1, "n1", requests={"cpu": "1", "memory": "1Gi"}),
            pod("leaving", 1, "n1", metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"}),
            pod("done", 4, "n1", phase="Succeeded"),
            pod("waiting", 4),
        ]
    )
    assert layout.used == {"n1": {"pods": 3, GPU: 4, "cpu": 1500, "memory": 2**30}}
    assert [p.name for p in layout.pods["n1"]] == ["a", "b", "leaving"]


@pytest.mark.parametrize(
    ("row", "room"),
    [("8:", 8), ("8: 4+2", 2), ("8: 8", 0), ("2: 2+1", -1), ("0:", 0)],
)
def test_room_is_what_is_left_and_below_zero_where_more_is_taken_than_there_is(row: str, room: int) -> None:
    layout = laid_out(packed(row))
    assert layout.room(layout.cluster.nodes["n1"], GPU) == room


def test_a_node_has_no_room_for_what_it_does_not_offer() -> None:
    layout = laid_out([node("n1", None)])
    assert layout.room(layout.cluster.nodes["n1"], GPU) == 0


@pytest.mark.parametrize(
    ("pods", "repelling"),
    [
        ([pod("a", on="n1", affinity=REPELLING), pod("b", on="n1", affinity=REPELLING), pod("c", on="n1")], 2),
        ([pod("waiting", affinity=REPELLING), pod("done", on="n1", phase="Failed", affinity=REPELLING)], 0),
    ],
)
def test_pods_on_nodes_that_repel_others_are_counted(pods: list[Object], repelling: int) -> None:
    assert laid_out([node("n1"), *pods]).repelling == repelling


@pytest.mark.parametrize(
    ("allocatable", "fits"),
    [({}, True), ({"pods": "1"}, False), ({"cpu": "1"}, True), ({"cpu": "999m"}, False), ({GPU: "6"}, True), ({GPU: "5"}, False)],
)
def test_a_pod_fits_where_there_is_room_for_all_that_it_takes(allocatable: Object, fits: bool) -> None:
    layout = laid_out([node("n1", allocatable=allocatable), pod("held", 4, "n1"), pod("me", 2, requests={"cpu": "1"})])
    assert layout.fits(pod_of(layout, "me"), "n1") is fits


def test_a_pod_that_goes_and_comes_leaves_everything_as_it_was() -> None:
    layout = laid_out([*packed("8: 4", "8:"), pod("me", 2, "n1", requests={"cpu": "1"}, affinity=REPELLING)])
    before, moved = copy.deepcopy(layout.used), pod_of(layout, "me")
    layout.remove(moved, "n1")
    layout.add(moved, "n2")
    assert [[p.name for p in layout.pods[name]] for name in ("n1", "n2")] == [["p1-1"], ["me"]]
    assert layout.used["n2"] == {"pods": 1, GPU: 2, "cpu": 1000}
    assert (layout.room(layout.cluster.nodes["n1"], GPU), layout.repelling) == (4, 1)
    layout.remove(moved, "n2")
    assert layout.repelling == 0
    layout.add(moved, "n1")
    assert layout.used["n1"] == before["n1"]


def test_a_layout_can_change_while_its_cluster_stays() -> None:
    layout = laid_out(packed("8: 4"))
    layout.remove(pod_of(layout, "p1-1"), "n1")
    assert [p.name for p in layout.cluster.bound["n1"]] == ["p1-1"]
