# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.heatmap import EVERY_NODE
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_map import MOST_CHANGED
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_page import MOVES, OPEN, plan_page
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import held
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.pages import (
    Page,
    assert_harmless,
    kinds,
    rows,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.plans import (
    PLANS,
    hostile,
    large,
    planned,
    simple,
)

CHANGED = re.compile(
    r'<li><span class="name" title="([^"]*)">[^<]*</span><span class="gpus">(.*?)</span>'
    r'<span aria-hidden="true">→</span><span class="gpus">(.*?)</span><span class="says dim">(.*?)</span></li>'
)


def changed(plan: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Nodes that the map shows before and after, in their order: both rows of cells, and what is said."""
    return {name: (before, after, said) for name, before, after, said in CHANGED.findall(plan_page(plan))}


def said(plan: dict[str, Any], section: str) -> str:
    """The text of a section, "" for what stands before the first; empty if there is none."""
    return " ".join(Page(plan_page(plan)).sections.get(section, []))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_page_is_well_formed_and_loads_nothing(plan: dict[str, Any]) -> None:
    assert_harmless(plan_page(plan))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_same_plan_gives_the_same_bytes(plan: dict[str, Any]) -> None:
    assert plan_page(plan).encode() == plan_page(plan).encode()


@pytest.mark.parametrize("plan", [*PLANS.values(), large(EVERY_NODE)], ids=[*PLANS, "as many nodes as are all drawn"])
def test_a_page_stays_small(plan: dict[str, Any]) -> None:
    assert len(plan_page(plan).encode()) < 3_000_000


def test_scripts_are_forbidden_should_one_ever_get_in() -> None:
    policies = [attrs["content"] for tag, attrs in Page(plan_page(hostile())).elements if "http-equiv" in attrs]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_a_name_is_text_and_never_markup() -> None:
    markup = plan_page(hostile(), title="<b>a & b</b>")
    assert "<script" not in markup
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot; onmouseover=&quot;alert(1)?[2J??" in markup
    assert "<title>&lt;b&gt;a &amp; b&lt;/b&gt;</title>" in markup


def test_totals_and_the_verdict_come_first() -> None:
    assert said(simple(), "").startswith(
        "GPU defragmentation plan GPU defragmentation plan 4 nodes · 32 GPUs · 23 allocated · 9 free · nvidia.com/gpu "
        "Worth carrying out: 2 evictions in 2 waves gain 1 slot of 8 GPUs. "
        "Asked for: as many slots of 8 GPUs as can be had. "
        "Evictions 2 2 waves; proved the fewest Freed nodes 1 reclaimable: 0 → 1 "
        "Stranded GPUs 9 → 1 11.1 % of the free ones afterwards Largest slot 4 → 8"
    )


@pytest.mark.parametrize(
    ("gained", "objective", "words"),
    [
        ({"1": 0, "4": 2, "8": 1}, ("slots", 8, 1), "+1 of 8 GPUs also +2 of 4 Pods"),
        ({"1": 0, "4": 2, "8": 1}, ("slots", 4, 1), "+2 of 4 GPUs also +1 of 8 Pods"),
        ({"1": 0, "4": 2, "8": 1}, ("free_nodes", 8, 1), "+1 of 8 GPUs also +2 of 4 Pods"),
        ({"1": 0, "4": 2}, ("slots", 8, 1), "+2 of 4 GPUs more room for such pods"),
        ({"1": -8}, ("blocked_pods", 8, 1), "-8 of 1 GPU the pods placed take that room"),
        ({"1": 0}, ("slots", 8, 1), "none of any size"),
    ],
)
def test_the_slots_asked_for_come_first(gained: dict[str, int], objective: tuple[str, int, int], words: str) -> None:
    assert f"Slots gained {words}" in said(simple(slots_gained=gained, objective=objective), "")


def test_slots_are_drawn_before_and_after() -> None:
    text = said(simple(), "Slots per size")
    assert "8-GPU pods, before 0 usable of 0 slots, 9 stranded" in text
    assert "8-GPU pods, after 1 usable of 1 slot (+1) , 1 stranded" in text


def test_a_changed_node_is_drawn_before_and_after() -> None:
    nodes = changed(simple())
    assert list(nodes) == ["gpu-0", "gpu-2", "gpu-1"]
    before, after, words = nodes["gpu-0"]
    assert (kinds(before), kinds(after)) == (Counter(held=5, s=3), Counter(f=8))
    assert words == "<b>freed</b>, 3 → 8 free"


def test_a_pod_that_moves_tells_where_from_and_where_to() -> None:
    nodes = changed(simple())
    assert '<b class="p4 moves" title="team/gpu-0-0: 4 GPUs, moves to gpu-1">' in nodes["gpu-0"][0]
    assert '<b class="p4 moves" title="team/gpu-0-0: 4 GPUs, comes from gpu-0">' in nodes["gpu-1"][1]
    assert '<b class="p4" title="team/gpu-1-0: 4 GPUs">' in nodes["gpu-1"][1]


def test_a_pod_that_gets_its_place_is_drawn_there() -> None:
    before, after, words = changed(PLANS["places without moves"])["gpu-1"]
    assert kinds(before) == Counter(f=8)
    assert '<b class="p8 moves" title="team/big: 8 GPUs, waited and gets its place">' in after
    assert words == "8 → 0 free"


def test_nodes_that_stay_as_they_are_are_folded_away() -> None:
    markup = plan_page(simple())
    assert "gpu-3" not in changed(simple())
    folded = re.findall(r"<details><summary>1 node stays as it is</summary>(.*?)</details>", markup, re.DOTALL)
    assert rows(folded[0]) == ["gpu-3"]


def test_free_gpus_of_a_node_to_be_emptied_are_of_use_once_it_is() -> None:
    before, after, _words = changed(PLANS["frees nodes"])["gpu-0"]
    assert (kinds(before)["s"], kinds(after)["f"]) == (3, 8)


@pytest.mark.parametrize("name", ["simple", "1,213 nodes", "MIG slices", "long names", "places a pod"])
def test_every_gpu_of_a_changed_node_has_its_cells(name: str) -> None:
    gpus = {node["node"]: node["gpus"] for node in PLANS[name]["details"]["nodes"]}
    for node, (before, after, _words) in changed(PLANS[name]).items():
        assert kinds(before).total() == kinds(after).total() == gpus[node]


@pytest.mark.parametrize(("nodes", "others"), [(EVERY_NODE, EVERY_NODE // 5), (EVERY_NODE + 5, 0)])
def test_above_some_size_only_what_changes_is_drawn(nodes: int, others: int) -> None:
    plan = large(nodes)
    assert len(changed(plan)) == MOST_CHANGED
    assert len(rows(plan_page(plan))) == MOST_CHANGED + others
    assert f"The first {MOST_CHANGED} of {nodes * 4 // 5:,} that change are shown." in said(plan, "Before and after")


def test_the_pool_that_changes_most_comes_first() -> None:
    other = [found for i in range(2) for found in held("2: 1", f"t4-{i}", product="T4")]
    plan = planned(["8: 4", "8: 4", "8: 8"], [("t4-0-0", "t4-1")], more=other)
    titles = re.findall(r"<h3>(.*?)</h3><p class=\"dim\">(.*?)</p>", plan_page(plan))
    assert titles == [("T4", "2 nodes, 2 of them change"), ("A100", "3 nodes, none of them changes")]


def test_moves_come_wave_by_wave_with_from_and_to() -> None:
    assert said(simple(), "Moves, wave by wave").endswith(
        "Wave 1: 1 pod, 4 GPUs Pod Owner GPUs From → to team/gpu-0-0 ReplicaSet/llm 4 gpu-0 → gpu-1 "
        "Wave 2: 1 pod, 1 GPU Pod Owner GPUs From → to team/gpu-0-1 ReplicaSet/llm 1 gpu-0 → gpu-2"
    )


def test_the_first_moves_are_open_and_a_long_list_says_how_much_of_it_is_left_out() -> None:
    markup = plan_page(PLANS["12,130 nodes"])
    waves = re.findall(r"<details( open)?><summary>Wave (\d+): ([\d,]+) pods", markup)
    assert waves == [(" open", "1", "300"), ("", "2", "300"), ("", "3", "300"), ("", "4", "300")]
    assert markup.count("<td>ReplicaSet/llm</td>") == MOVES
    assert f"… and {2426 * 3 - MOVES:,} more moves; the JSON result has them all." in markup
    assert OPEN <= 300


def test_what_stays_is_told_by_reason_and_pod() -> None:
    text = said(PLANS["blocked"], "What stays, and why")
    assert "NotReady not ready 1 2 SingleReplica the only replica of its workload 1 4" in text
    assert "SingleReplica: 1 pod Pod Node GPUs Why it stays team/gpu-0-0 gpu-0 4 ReplicaSet team/llm wants 1" in text


def test_pods_that_no_node_takes_are_told_with_what_nodes_have_against_them() -> None:
    text = said(PLANS["blocked for all reasons"], "What stays, and why")
    assert "Pods that the plan may not move, and pods that no other node takes." in text
    assert "NoDestination free to go, but no other node takes them 2 6" in text
    assert "team/gpu-0-0 gpu-0 4 no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint" in text
    assert "OtherProduct GPUs of another product, where it is not to go Taint a taint that it does not tolerate" in text
    assert "team/web gpu-0 0 it has no controller" in text


def test_blocked_pods_that_get_no_place_are_told_with_why() -> None:
    text = said(PLANS["blocked pods get no place"], "Blocked pods that get no place")
    assert "NoRoom for which no moves make room 1 8" in text
    assert "team/large 8 needs 8 GPUs; pool A100 has 2 free" in text
    assert "Taint a taint that it does not tolerate" in text
    assert "team/small 4 it asks for devices by resource claim nic" in text
    assert "Blocked pods" not in " ".join(Page(plan_page(simple())).sections)


def test_nodes_that_are_not_emptied_are_told_with_why() -> None:
    kept = [{"node": "n1", "reason": "it gains no slot"}, {"node": "n2", "reason": "it gains no slot"}]
    assert said(simple(nodes_kept=kept), "Nodes that are not emptied").endswith("Which it gains no slot. 2 n1 n2")


def test_placed_pods_freed_nodes_and_notes_are_told() -> None:
    assert said(PLANS["places a pod"], "Pods that get a place").endswith("team/big 8 gpu-0")
    assert said(simple(), "Freed nodes").endswith("gpu-0")
    assert said(simple(notes=["no budgets were read"]), "What is unknown").endswith("no budgets were read")


def test_the_inputs_are_told() -> None:
    text = said(simple(), "Figures, inputs and words")
    for words in ("FragRate 25.0 % 0.0 %", "Solver heuristic", "Plan p-0123456789abcdef", "Limits no limit in a wave"):
        assert words in text


@pytest.mark.parametrize(
    ("name", "first", "sections"),
    [
        ("nothing fragmented", "Nothing to do: 2 GPUs", ["Slots per size", "Nodes and their GPUs"]),
        ("below the goal", "Not worth it: the plan frees", ["Slots per size", "Nodes and their GPUs"]),
        ("blocked", "Blocked: nothing can be", ["Slots per size", "Nodes and their GPUs", "What stays, and why"]),
        ("all full", "Nothing to do: every node", ["Nodes and their GPUs"]),
        ("not applicable", "Not advised: the input holds no node", []),
        ("no details", "Worth carrying out", ["Slots per size", "Moves, wave by wave", "Freed nodes"]),
    ],
)
def test_a_page_says_why_and_has_no_empty_sections(name: str, first: str, sections: list[str]) -> None:
    assert first in said(PLANS[name], "")
    assert list(Page(plan_page(PLANS[name])).sections) == ["", *sections, "Figures, inputs and words"]


def test_without_moves_there_is_no_after() -> None:
    assert not changed(PLANS["blocked"])
    assert "→" not in plan_page(PLANS["blocked"])
    assert "2-GPU pods, now 1 usable of 1 slot, 0 stranded" in said(PLANS["blocked"], "Slots per size")
    assert "Now GPUs allocated 14 GPUs free 2" in said(PLANS["blocked"], "Figures, inputs and words")


def test_without_moves_the_nodes_are_open() -> None:
    assert "<details open><summary>2 nodes stay as they are</summary>" in plan_page(PLANS["blocked"])
