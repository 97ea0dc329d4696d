# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan import exact, search
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.module_utils._snapshot import read_objects
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    PRODUCT,
    REQUIRED,
    ZONE,
    Object,
    node,
    pod,
    serving,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan.clusters import at_random

SOLVERS = ["heuristic", "exact"]
EXAMPLES = Path(__file__).resolve().parents[6] / "examples"
# The fewest evictions for 1, 2, 3, … more slots of 8, proved by looking at final placements alone.
FEWEST = {
    "gpu200-1": [2, 5, 8, 11, 14, 18, 22, 26],
    "gpu200-2": [2, 5, 9, 13, 17, 21, 25],
    "gpu200-3": [3, 6, 9, 12, 15, 19, 23, 27],
    "mixed60-1": [2, 5, 8, 12, 16, 21, 26, 31, 36, 41, 46],
    "mixed60-2": [3, 6, 10, 14, 19, 24, 29, 34, 39, 44],
}
# By slot size, for each of these: the most slots that CP-SAT finds, the fewest evictions for them, and for half of them.
MOST = {
    2: ((5, 5, 2), (7, 7, 3), (6, 6, 3), (15, 15, 7), (12, 12, 6)),
    3: ((10, 10, 5), (6, 8, 3), (11, 11, 5), (15, 19, 7), (17, 22, 8)),
    4: ((8, 11, 4), (9, 9, 4), (8, 13, 5), (17, 25, 8), (17, 27, 9)),
    5: ((8, 13, 5), (11, 14, 5), (9, 14, 4), (15, 32, 12), (14, 31, 12)),
    6: ((9, 15, 4), (10, 19, 8), (10, 16, 5), (14, 37, 15), (14, 39, 15)),
    7: ((9, 21, 7), (8, 21, 9), (9, 22, 8), (12, 39, 15), (12, 43, 18)),
}


def one(name: str, on: str, gpus: int | None = 1, **more: Any) -> Object:
    """The only replica of a workload of its own."""
    return serving(name, on, gpus, owner=f"ReplicaSet/rs-{name}", **more)


def planned(objects: list[Object], **wish: Any) -> dict[str, Any]:
    return plan(objects, PlanOptions(**{"rules": Rules(movable_singletons=True), "solver": "heuristic", **wish}))


def gained(found: dict[str, Any]) -> int:
    """Slots of any size."""
    return int(found["message"].split("gain ")[1].split()[0])


def moves(found: dict[str, Any]) -> set[str]:
    return {f"{move['pod']}: {move['from']} > {move['to']}" for wave in found["waves"] for move in wave}


@pytest.fixture(scope="module", params=FEWEST)
def example(request: pytest.FixtureRequest) -> tuple[list[Object], list[int]]:
    return read_objects(str(EXAMPLES / f"{request.param}.json.gz")), FEWEST[request.param]


def test_the_heuristic_is_near_the_proved_optimum_of_every_count(example: tuple[list[Object], list[int]]) -> None:
    objects, fewest = example
    took = [planned(objects, count=count, across_products=True)["evictions"] for count in range(1, len(fewest) + 1)]
    assert all(best <= evictions <= best + 1 for best, evictions in zip(fewest, took, strict=True)), took
    assert sum(took) <= 1.02 * sum(fewest)


@pytest.mark.parametrize("size", MOST)
def test_the_heuristic_is_near_the_optimum_for_slots_of_every_size(size: int) -> None:
    for name, (slots, fewest, half) in zip(FEWEST, MOST[size], strict=True):
        objects = read_objects(str(EXAMPLES / f"{name}.json.gz"))
        most = planned(objects, slot_size=size, across_products=True)
        assert gained(most) >= 0.95 * slots, name
        assert most["evictions"] <= 1.05 * fewest, name
        some = planned(objects, slot_size=size, across_products=True, count=max(1, slots // 2))
        assert (gained(some), some["evictions"] <= 1.05 * half) == (max(1, slots // 2), True), name


def test_the_exact_solver_finds_the_proved_optimum(example: tuple[list[Object], list[int]]) -> None:
    objects, fewest = example
    for count in (2, 4):
        found = planned(objects, count=count, across_products=True, solver="exact")
        assert (found["evictions"], found["optimal"]) == (fewest[count - 1], True)


@pytest.mark.parametrize("solver", SOLVERS)
def test_most_is_as_much_as_is_proved_possible(solver: str) -> None:
    found = planned(read_objects(str(EXAMPLES / "gpu200-2.json.gz")), across_products=True, solver=solver)
    assert found["slots_gained"]["8"] == len(FEWEST["gpu200-2"])


@pytest.mark.parametrize("solver", ["auto", "heuristic"])
def test_the_same_state_in_any_order_gives_the_same_bytes(solver: str) -> None:
    objects = list(read_objects(str(EXAMPLES / "mixed60-1.json.gz")))
    (items,) = (document["items"] for document in objects)
    told = set()
    for seed in (None, None, 1, 2):
        shuffled = list(items)
        if seed is not None:
            random.Random(seed).shuffle(shuffled)
        told.add(json.dumps(planned(shuffled, count=2, solver=solver)))
    assert len(told) == 1


@pytest.mark.parametrize(
    "wish", [{"kind": "slots"}, {"kind": "slots", "slot_size": 2}, {"kind": "free_nodes"}, {"kind": "blocked_pods"}], ids=str
)
def test_any_cluster_in_any_order_gives_the_same_bytes(wish: dict[str, Any]) -> None:
    several: set[str] = set()
    some: set[str] = set()
    for seed in range(60):
        objects = at_random(seed)
        rules = Rules(movable_singletons=seed % 3 > 0, movable_gangs=seed % 2 > 0)
        given = {"rules": rules, "limits": Limits(total=3), "across_products": seed % 4 == 0, **wish}
        found = plan(objects, PlanOptions(**{"solver": "heuristic", **given}), details=True)
        for shuffle in range(3):
            shuffled = list(objects)
            random.Random(shuffle).shuffle(shuffled)
            again = plan(shuffled, PlanOptions(**{"solver": "heuristic", **given}), details=True)
            for key, value in found.items():
                assert json.dumps(again[key]) == json.dumps(value), (seed, key)
            assert list(again) == list(found)
        several.update(key for key, value in found.items() if isinstance(value, list) and len(value) > 1)
        some |= {key for key, value in found.items() if value}
    assert several >= {"skipped", "nodes_kept", "notes"}
    assert some >= {"waves", *({"unplaced", "placed_pods"} if wish["kind"] == "blocked_pods" else {"freed_nodes"})}


# Whole nodes.


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_node_is_freed_of_pods_without_gpus_too_and_daemons_do_not_hold_it(solver: str) -> None:
    objects = [node("n1"), node("n2"), one("gpu", "n1"), one("web", "n1", None, requests={"cpu": "1"}), pod("large", 7, "n2")]
    objects += [serving("dcgm", "n1", None, owner="DaemonSet/dcgm")]
    found = planned(objects, kind="free_nodes", solver=solver)
    assert moves(found) == {"gpu: n1 > n2", "web: n1 > n2"}
    assert found["freed_nodes"] == ["n1"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_node_that_is_free_already_is_not_spoiled_by_a_pod_without_gpus(solver: str) -> None:
    objects = [node("n1"), node("n2"), node("free"), one("a", "n1"), one("web", "n1", None), pod("b", 6, "n2")]
    assert moves(planned(objects, kind="free_nodes", solver=solver)) == {"a: n1 > n2", "web: n1 > n2"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_bare_pod_without_gpus_keeps_a_node_from_being_freed(solver: str) -> None:
    objects = [node("n1"), node("n2", 4), one("a", "n1"), pod("bare", None, "n1"), pod("b", 3, "n2")]
    assert planned(objects, kind="free_nodes", solver=solver)["waves"] == []


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
@pytest.mark.parametrize(
    "closed",
    [
        {"unschedulable": True},
        {"ready": "False"},
        {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"capacity": 9},
        {"allocatable": {"cpu": "1"}},
        {"allocatable": {"pods": "1"}},
        {"labels": {"is": "other"}},
    ],
    ids=["cordoned", "not ready", "tainted", "unhealthy", "no cores", "no room for pods", "not selected by the pod"],
)
def test_a_closed_node_never_receives(closed: dict[str, Any], kind: str, solver: str) -> None:
    wanting: dict[str, Any] = {"requests": {"cpu": "1"}, "nodeSelector": {"is": "mine"}}
    mine: dict[str, Any] = {"labels": {"is": "mine"}}
    objects = [
        node("n1", **mine),
        one("a", "n1", **wanting),
        node("n2", **(mine | closed)),
        pod("b", 6, "n2", requests={"cpu": "1"}),
    ]
    assert planned(objects, kind=kind, solver=solver)["waves"] == []
    objects[2] = node("n2", **mine)
    assert moves(planned(objects, kind=kind, solver=solver)) == {"a: n1 > n2"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_slot_on_a_closed_node_is_no_gain(solver: str) -> None:
    objects = [node("n1", unschedulable=True), one("a", "n1"), node("n2"), pod("b", 6, "n2")]
    assert planned(objects, kind="slots", solver=solver)["waves"] == []
    assert planned(objects, kind="free_nodes", solver=solver)["freed_nodes"] == ["n1"]


# Slots.


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_whole_slot_is_not_spoiled_to_gain_another(solver: str) -> None:
    objects = [node("n1"), one("a", "n1"), node("n2")]
    assert planned(objects, slot_size=8, solver=solver)["waves"] == []
    assert planned([*objects, node("n3"), pod("b", 7, "n3")], slot_size=8, solver=solver)["freed_nodes"] == ["n1"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pod_may_go_so_that_another_may_come(solver: str) -> None:
    objects = [node("n1"), node("n2", labels={"is": "x"}), node("n3"), one("a", "n1", 2, nodeSelector={"is": "x"})]
    objects += [pod("base", 7, "n2"), pod("rest", 7, "n3")]
    assert planned(objects, solver=solver)["waves"] == []
    objects[4:5] = [pod("base", 6, "n2"), one("way", "n2", 1)]
    found = planned(objects, solver=solver)
    assert [[move["pod"] for move in wave] for wave in found["waves"]] == [["way"], ["a"]]


# Products.


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("across", "spec", "expected"),
    [
        (False, {}, set()),
        (True, {}, {"a: n1 > n2"}),
        (True, {"nodeSelector": {PRODUCT: "A100"}}, set()),
    ],
    ids=["it stays on its product", "it may leave it", "it may not where it names it"],
)
def test_a_pod_leaves_its_product_only_where_that_is_wished(
    across: bool, spec: dict[str, Any], expected: set[str], solver: str
) -> None:
    objects = [node("n1", product="A100"), node("n2", product="H100"), one("a", "n1", **spec), pod("b", 6, "n2")]
    assert moves(planned(objects, across_products=across, solver=solver)) == expected


# Blocked pods.


def guest(gpus: int, name: str = "guest", **more: Any) -> Object:
    return pod(name, gpus, **more)


@pytest.mark.parametrize("solver", SOLVERS)
def test_room_is_made_where_the_blocked_pod_also_has_cores_and_memory(solver: str) -> None:
    objects = [node("n1", allocatable={"cpu": "2"}), node("n2"), node("n3", 2), one("a", "n1"), one("b", "n2"), one("c", "n2")]
    found = planned([*objects, guest(8, requests={"cpu": "4", "memory": "1Gi"})], kind="blocked_pods", solver=solver)
    assert moves(found) == {"b: n2 > n3", "c: n2 > n3"} or {text[:5] for text in moves(found)} == {"b: n2", "c: n2"}
    assert [(placed["pod"], placed["node"]) for placed in found["placed_pods"]] == [("guest", "n2")]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pod_without_gpus_makes_way_where_cores_are_what_is_lacking(solver: str) -> None:
    objects = [node("n1", allocatable={"cpu": "8"}), node("n2", 1), one("web", "n1", None, requests={"cpu": "6"})]
    objects += [pod("full", 1, "n2"), guest(4, requests={"cpu": "4"})]
    found = planned(objects, kind="blocked_pods", solver=solver)
    assert moves(found) == {"web: n1 > n2"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_slot_that_the_blocked_pod_cannot_use_may_be_spoiled(solver: str) -> None:
    objects = [node("n1", allocatable={"cpu": "3"}), one("a", "n1", 4), node("n2"), pod("b", 4, "n2"), one("c", "n2", 1)]
    found = planned([*objects, guest(4, requests={"cpu": "4"})], kind="blocked_pods", solver=solver)
    assert moves(found) == {"c: n2 > n1"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_with_several_blocked_pods_nothing_moves_twice_and_the_urgent_come_first(solver: str) -> None:
    objects = [*(node(name) for name in ("n1", "n2", "n3")), one("a", "n1", 4), one("b", "n2", 4), one("c", "n3", 4)]
    found = planned([*objects, guest(8, "later"), guest(8, "urgent", priority=10)], kind="blocked_pods", solver=solver)
    assert [placed["pod"] for placed in found["placed_pods"]] == ["urgent"]
    assert found["evictions"] == 1
    more = planned(
        [*objects, node("n4", 4), guest(8, "later"), guest(8, "urgent", priority=10)], kind="blocked_pods", solver=solver
    )
    assert [placed["pod"] for placed in more["placed_pods"]] == ["urgent", "later"]
    assert len({text.split(":")[0] for text in moves(more)}) == more["evictions"] == 2


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_evictions_allowed_are_those_for_all_blocked_pods_together(solver: str) -> None:
    objects = [*(node(name) for name in ("n1", "n2", "n3")), node("n4", 4), *(one(f"p{i}", f"n{i}", 4) for i in (1, 2, 3))]
    objects += [guest(8, "first"), guest(8, "second")]
    assert planned(objects, kind="blocked_pods", max_evictions=1, solver=solver)["evictions"] == 1
    assert planned(objects, kind="blocked_pods", max_evictions=2, solver=solver)["evictions"] == 2


# What is wished, and verdicts.


LIGHT = [*(node(f"n{i}") for i in range(1, 5)), *(one(f"p{i}{j}", f"n{i}") for i in range(1, 5) for j in range(2))]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("most", "evictions", "freed"), [(0, 0, 0), (1, 0, 0), (2, 2, 1), (3, 2, 1), (5, 4, 2), (None, 6, 3)])
def test_less_is_aimed_at_where_more_would_evict_too_many(most: int | None, evictions: int, freed: int, solver: str) -> None:
    found = planned(LIGHT, kind="free_nodes", max_evictions=most, solver=solver)
    assert (found["evictions"], len(found["freed_nodes"])) == (evictions, freed)


@pytest.mark.parametrize("solver", SOLVERS)
def test_less_is_aimed_at_where_what_was_wished_would_evict_too_many(solver: str) -> None:
    found = planned(LIGHT, kind="free_nodes", count=3, max_evictions=5, solver=solver)
    assert (found["evictions"], len(found["freed_nodes"]), found["optimal"]) == (4, 2, True)
    assert found["message"].endswith("3 were wished, no more were found")


@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
def test_a_plan_that_frees_too_few_nodes_moves_nothing_and_says_so(kind: str) -> None:
    found = planned(LIGHT, kind=kind, min_nodes_freed=4)
    assert (found["verdict"], found["evictions"], found["waves"], found["freed_nodes"]) == ("BelowGoal", 0, [], [])
    assert found["after"] == found["before"]
    assert "fewer than the 4" in found["message"]
    assert planned(LIGHT, kind=kind, min_nodes_freed=3)["verdict"] == "Recommended"


@pytest.mark.parametrize(
    ("objects", "wish", "verdict", "words"),
    [
        ([], {}, "NotApplicable", "no node"),
        ([node("n1"), pod("web", None, "n1")], {}, "NotApplicable", "asks for GPUs"),
        ([node("n1"), one("a", "n1", 8)], {}, "NoFragmentation", "0 GPUs lie outside slots of 8"),
        ([node("n1"), one("a", "n1", 8), node("n2")], {"kind": "free_nodes"}, "NoFragmentation", "every node is full or empty"),
        ([node("n1"), one("a", "n1")], {"kind": "blocked_pods"}, "NoFragmentation", "no pod is blocked"),
        ([node("n1"), one("a", "n1"), node("n2"), one("b", "n2", 6)], {"max_evictions": 0}, "Blocked", "max_evictions"),
        ([node("n1"), pod("a", 1, "n1"), node("n2"), pod("b", 6, "n2")], {}, "Blocked", "2 of 2 GPU pods must stay"),
        (
            [node("n1"), one("a", "n1", 3), node("n2"), one("b", "n2", 6)],
            {"slot_size": 6},
            "Blocked",
            "no node takes 2 of 2 GPU pods",
        ),
        ([node("n1"), pod("a", 1, "n1"), guest(8)], {"kind": "blocked_pods"}, "NoFragmentation", "no pod is blocked"),
        (
            [node("n1"), pod("a", 4, "n1"), node("n2"), pod("b", 4, "n2"), guest(8)],
            {"kind": "blocked_pods"},
            "Blocked",
            "any of the 1 blocked pods",
        ),
    ],
)
def test_a_plan_without_moves_says_why(objects: list[Object], wish: dict[str, Any], verdict: str, words: str) -> None:
    found = planned(objects, **wish)
    assert (found["verdict"], found["waves"], found["evictions"]) == (verdict, [], 0)
    assert words in found["message"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_of_plans_that_gain_the_same_the_one_is_taken_whose_pods_start_soonest(solver: str) -> None:
    objects = [node("n1"), node("n2"), node("n3"), one("slow", "n1"), one("quick", "n2"), pod("base", 7, "n3")]
    found = planned(objects, count=1, cold_start={"default/rs-slow": 600.0, "default/rs-quick": 20.0}, solver=solver)
    assert (moves(found), found["cost_seconds"]) == ({"quick: n2 > n3"}, 20.0)
    assert planned(objects, count=1, cold_start={"default": 30.0}, solver=solver)["cost_seconds"] == 30.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_of_plans_that_gain_the_same_the_one_is_taken_that_moves_the_least_important(solver: str) -> None:
    objects = [node("n1"), node("n2"), node("n3"), one("vip", "n1", priority=1000), one("plain", "n2"), pod("base", 7, "n3")]
    assert moves(planned(objects, count=1, solver=solver)) == {"plain: n2 > n3"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_pods_that_cost_nothing_are_not_moved_for_nothing(solver: str) -> None:
    objects = [node("n1"), node("n2"), one("a", "n1"), one("b", "n2", 4), node("n3"), one("c", "n3", 2), one("d", "n3", 2)]
    assert planned(objects, count=1, cold_start={"default": 0.0}, solver=solver)["evictions"] == 1


# Gangs.


def member(name: str, on: str, gpus: int = 1) -> Object:
    return serving(name, on, gpus, owner="PyTorchJob/train", metadata={"labels": {"training.kubeflow.org/job-name": "train"}})


@pytest.mark.parametrize("solver", SOLVERS)
def test_of_a_gang_all_members_move_or_none(solver: str) -> None:
    rules = Rules(movable_singletons=True, movable_gangs=True)
    both = [node("n1"), member("w1", "n1"), member("w2", "n1"), node("n2"), pod("base", 6, "n2")]
    assert moves(planned(both, rules=rules, solver=solver)) == {"w1: n1 > n2", "w2: n1 > n2"}
    apart = [node("n1"), member("w1", "n1"), node("n2"), pod("base", 6, "n2"), node("n3", 4), member("w2", "n3", 4)]
    assert planned(apart, rules=rules, solver=solver)["waves"] == []
    assert planned(both, solver=solver)["waves"] == []


GANGS = Rules(movable_singletons=True, movable_gangs=True)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_member_that_nobody_needs_away_goes_along_even_one_without_gpus(solver: str) -> None:
    launcher = serving("launcher", "n3", None, owner="PyTorchJob/train")
    objects = [node("n1"), member("w1", "n1"), node("n2"), pod("base", 6, "n2"), node("n3"), pod("full", 8, "n3"), launcher]
    found = planned(objects, rules=GANGS, count=1, solver=solver)
    assert len(found["waves"]) == 1
    assert {(m["pod"], m["from"], m["to"]) for m in found["waves"][0]} >= {("w1", "n1", "n2")}
    assert sorted(m["pod"] for m in found["waves"][0]) == ["launcher", "w1"]
    assert found["slots_gained"]["8"] == 1
    assert planned(objects, rules=GANGS, count=1, max_evictions=1, solver=solver)["verdict"] == "Blocked"


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_gang_goes_in_one_wave_however_many_pods_its_workload_may_lose(solver: str) -> None:
    objects = [node("n1"), member("w1", "n1"), member("w2", "n1"), node("n2"), pod("base", 6, "n2")]
    waves = planned(objects, rules=GANGS, limits=Limits(per_workload=1), solver=solver)["waves"]
    assert [[m["pod"] for m in wave] for wave in waves] == [["w1", "w2"]]


@pytest.mark.parametrize("limits", [Limits(per_node=1), Limits(per_namespace=1), Limits(total=1)])
def test_a_gang_that_the_limits_do_not_let_go_at_once_stays_and_says_which(limits: Limits) -> None:
    objects = [node("n1"), member("w1", "n1"), member("w2", "n1"), node("n2"), pod("base", 6, "n2")]
    found = planned(objects, rules=GANGS, limits=limits)
    name = next(name for name in ("per_node", "per_namespace", "total") if getattr(limits, name))
    assert found["verdict"] == "Blocked"
    assert {skip["reason"] for skip in found["skipped"] if skip["pod"] != "base"} == {"Gang"}
    assert f"limits.{name} 1 does not let its 2 pods go in one wave" in found["skipped"][-1]["detail"]


def test_gangs_move_whole_or_not_at_all_in_random_clusters() -> None:
    moved = 0
    for seed in range(150):
        draw = random.Random(seed)
        objects = [node(f"n{number}") for number in range(6)]
        free = dict.fromkeys((f"n{number}" for number in range(6)), 8)
        for number in range(14):
            on, gpus = draw.choice(sorted(free)), draw.choice((1, 1, 2, 4))
            if free[on] < gpus:
                continue
            free[on] -= gpus
            gang = draw.choice((None, "a", "b", "c"))
            objects.append(
                serving(f"p{number:02}", on, gpus, owner=f"PyTorchJob/{gang}" if gang else f"ReplicaSet/r{number}"),
            )
        members: dict[str, set[Any]] = {}
        for each in objects:
            for owner in each["metadata"].get("ownerReferences", ()):
                if owner["kind"] == "PyTorchJob":
                    members.setdefault(owner["name"], set()).add(each["metadata"]["name"])
        found = planned(objects, rules=GANGS, slot_size=draw.choice((4, 8)), kind=draw.choice(("slots", "free_nodes")))
        waves: list[set[Any]] = [{m["pod"] for m in wave} for wave in found["waves"]]
        for mates in members.values():
            touched = [wave & mates for wave in waves if wave & mates]
            assert touched in ([], [mates]), seed
            moved += bool(touched)
    assert moved > 30


# Rules between pods.


def apart_from(app: str, key: str = NODE_NAME) -> Any:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def evenly(app: str, key: str) -> Any:
    labels = {"matchLabels": {"app": app}}
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
    return {"topologySpreadConstraints": [rule]}


def of_app(app: str, name: str, on: str, gpus: int = 1, **more: Any) -> Object:
    return serving(name, on, gpus, owner=f"ReplicaSet/{app}", labels={"app": app}, **more)


CONTAINER = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {GPU: "1"}}}
PORT: Any = {"containers": [CONTAINER]}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rule", [apart_from("llm"), evenly("llm", NODE_NAME), PORT], ids=["apart", "evenly", "port"])
@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
def test_replicas_that_keep_apart_are_spread_over_the_nodes_that_take_them(solver: str, rule: Any, kind: str) -> None:
    replicas = [of_app("llm", name, on, **rule) for name, on in (("a", "n1"), ("b", "n2"))]
    gaps = [pod("c", 6, "n3"), pod("d", 6, "n4")]
    found = planned([*(node(f"n{n}") for n in range(1, 5)), *replicas, *gaps], kind=kind, solver=solver)
    assert found["verdict"] == "Recommended"
    assert {move["from"] for wave in found["waves"] for move in wave} == {"n1", "n2"}
    assert {move["to"] for wave in found["waves"] for move in wave} == {"n3", "n4"}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rule", [apart_from("llm", ZONE), evenly("llm", ZONE)], ids=["apart", "evenly"])
def test_a_replica_moves_within_its_zone_where_the_other_zone_is_closed_to_it(solver: str, rule: Any) -> None:
    zones = [node(f"a{n:02}", labels={ZONE: "a"}) for n in range(30)] + [node(f"b{n}", labels={ZONE: "b"}) for n in range(2)]
    gaps = [pod(f"full{n:02}", 7, f"a{n:02}") for n in range(1, 30)] + [pod("gap", 7, "b1"), pod("full", 7, "a00")]
    replicas = [of_app("llm", "a", "a00", **rule), of_app("llm", "b", "b0", **rule)]
    found = planned([*zones, *gaps, *replicas], solver=solver)
    assert moves(found) == {"b: b0 > b1"}


def test_where_other_pods_forbid_plan_after_plan_it_aims_at_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ROUNDS", 1)
    both = [of_app("x", "x1", "n1", 2, **apart_from("y")), of_app("y", "y1", "n2", 2)]
    objects = [*(node(f"n{n}") for n in range(1, 5)), *both, pod("a", 4, "n3"), pod("b", 4, "n4")]
    found = planned(objects, rules=Rules(movable_singletons=True))
    assert "1 plans had a move that other pods forbid; the plan aims at less" in found["notes"]
    assert (found["verdict"], found["slots_gained"]["8"]) == ("Recommended", 1)
    monkeypatch.undo()
    assert planned(objects)["slots_gained"]["8"] == 2


# Pods without GPUs.


def small(name: str, on: str, cpu: str) -> Object:
    return serving(name, on, None, owner=f"ReplicaSet/{name}", requests={"cpu": cpu})


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pod_without_gpus_may_go_to_a_node_without(solver: str) -> None:
    plain = node("c1", 0, allocatable={"cpu": "64", "pods": "50"})
    objects = [node("g1"), node("g2"), plain, small("web", "g1", "1"), pod("full", 8, "g2", requests={"cpu": "96"})]
    found = planned(objects, kind="free_nodes", count=1, solver=solver)
    assert (moves(found), found["freed_nodes"]) == ({"web: g1 > c1"}, ["g1"])
    closed = node("c1", 0, allocatable={"cpu": "64", "pods": "50"}, unschedulable=True)
    assert planned([closed, *(o for o in objects if o is not plain)], kind="free_nodes", solver=solver)["waves"] == []


def test_a_pod_without_gpus_makes_way_for_one_with() -> None:
    offered = {"cpu": "8", "pods": "50"}
    nodes = [node(name, allocatable=offered) for name in ("n1", "n2", "n3", "n4")]
    a = serving("a", "n1", 1, owner="ReplicaSet/a", requests={"cpu": "6"})
    others = [pod("b", 7, "n2"), small("web", "n2", "4"), pod("c", 8, "n3"), pod("d", 8, "n4")]
    found = planned([*nodes, a, *others], count=1, solver="exact")
    assert (found["evictions"], found["lower_bound"]) == (2, 2)
    assert {"a: n1 > n2"} < moves(found)


# Several blocked pods.


def among(*names: str) -> Any:
    wanted = {"key": NODE_NAME, "operator": "In", "values": list(names)}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}}


def test_room_for_blocked_pods_is_looked_for_jointly() -> None:
    only: Any = {"nodeSelector": {NODE_NAME: "n1"}}
    objects = [
        *(node(name) for name in ("n1", "n2", "n3", "n4")),
        one("s", "n1"),
        one("t", "n2"),
        one("u", "n2"),
        pod("gap", 5, "n3"),
        pod("full", 8, "n4"),
        pod("a", 8),
        pod("b", 8, **only),
    ]
    found = planned(objects, kind="blocked_pods", solver="exact")
    assert {placed["pod"]: placed["node"] for placed in found["placed_pods"]} == {"a": "n2", "b": "n1"}
    assert (found["evictions"], found["lower_bound"], found["optimal"]) == (3, 3, True)
    assert not planned(objects, kind="blocked_pods", solver="heuristic")["optimal"]


def test_the_bound_for_several_blocked_pods_is_one_of_the_cluster_as_it_is() -> None:
    apart: Any = {"nodeSelector": {NODE_NAME: "n4"}}
    objects = [
        *(node(name, 4) for name in ("n1", "n2", "n3")),
        node("n4"),
        pod("gap", 3, "n4"),
        *(one(f"{name}-{on}", on, **apart) for name, on in (("s", "n1"), ("t", "n2"), ("u", "n3"), ("v", "n3"), ("w", "n3"))),
        pod("a", 4, affinity=among("n1", "n2")),
        pod("b", 4, affinity=among("n1", "n3")),
    ]
    quick = planned(objects, kind="blocked_pods", solver="heuristic")
    best = planned(objects, kind="blocked_pods", solver="exact")
    assert (best["evictions"], best["lower_bound"], best["optimal"]) == (2, 2, True)
    assert quick["evictions"] == 4  # a took the place that was meant for b
    assert (quick["lower_bound"], quick["optimal"]) == (1, False)


@pytest.mark.parametrize("solver", SOLVERS)
def test_within_few_evictions_one_dear_pod_is_moved_where_two_cheap_ones_would_be_too_many(solver: str) -> None:
    objects = [node("n1"), one("dear", "n1"), node("n2"), one("x", "n2"), one("y", "n2"), node("n3"), pod("gap", 5, "n3")]
    costs = {"default/rs-dear": 600.0, "default": 60.0}
    found = planned(objects, count=1, cold_start=costs, max_evictions=1, solver=solver)
    assert moves(found) == {"dear: n1 > n3"}


# What a plan must not count on.


def near(app: str, key: str = NODE_NAME) -> Any:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_is_evicted_for_a_pod_that_is_not_let_in_all_the_same(solver: str) -> None:
    zones = [node("n0", labels={ZONE: "a"}), node("n1", labels={ZONE: "b"})]
    objects = [*zones, of_app("y", "y", "n0"), pod("x", 4, "n1"), pod("q", 8, **near("y", ZONE))]
    found = planned(objects, kind="blocked_pods", solver=solver)
    assert (found["verdict"], found["waves"], found["placed_pods"]) == ("Blocked", [], [])


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_move_counts_on_a_blocked_pod_that_may_not_have_got_in_yet(solver: str) -> None:
    objects = [
        *(node(f"n{number}", labels={ZONE: zone}) for number, zone in enumerate("aabba")),
        of_app("s", "s0", "n0", 4),
        pod("s1", 4, "n1"),
        pod("b2", 6, "n2"),
        of_app("m", "m", "n2", **near("q0", ZONE)),
        pod("b3", 8, "n3"),
        pod("b4", 7, "n4"),
        pod("q0", 8, labels={"app": "q0"}, priority=10),
        pod("q1", 2, nodeSelector={ZONE: "b"}, priority=1),
    ]
    found = planned(objects, kind="blocked_pods", solver=solver)
    assert (moves(found), [placed["pod"] for placed in found["placed_pods"]]) == ({"s0: n0 > n1"}, ["q0"])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pod_that_is_let_in_beside_another_does_not_go_in_the_wave_in_which_that_leaves(solver: str) -> None:
    objects = [
        *(node(f"n{number}") for number in range(4)),
        of_app("lead", "a", "n1", 4),
        of_app("b", "b", "n0", **near("lead")),
        *(pod(name, gpus, on) for name, gpus, on in (("x1", 1, "n0"), ("x2", 4, "n2"), ("x3", 8, "n3"))),
    ]
    waves = planned(objects, slot_size=7, solver=solver)["waves"]
    assert [[move["pod"] for move in wave] for wave in waves] == [["b"], ["a"]]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "target",
    [node("n2", product="B"), node("n2", 7, capacity=8, product="A"), node("n2", product="A", unschedulable=True)],
    ids=["another product", "broken GPUs", "cordoned"],
)
def test_a_member_that_goes_along_goes_only_where_any_pod_may(solver: str, target: Object) -> None:
    anywhere: Any = {"tolerations": [{"operator": "Exists"}]}
    objects = [
        *(node(name, product="A") for name in ("n0", "n1", "n3")),
        target,
        serving("a", "n0", 1, owner="PyTorchJob/g", **anywhere),
        serving("b", "n1", 2, owner="PyTorchJob/g", **anywhere),
        *(pod(name, gpus, on) for name, gpus, on in (("x1", 6, "n1"), ("x2", 2, "n2"), ("x3", 7, "n3"))),
    ]
    assert planned(objects, rules=GANGS, kind="free_nodes", solver=solver)["waves"] == []


@pytest.mark.parametrize("count", [1, None])
@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
def test_the_exact_solver_finds_places_for_a_whole_gang(kind: str, count: int | None) -> None:
    objects = [
        *(node(f"n{number}") for number in range(4)),
        serving("a", "n0", 4, owner="PyTorchJob/g"),
        serving("b", "n1", 1, owner="PyTorchJob/g"),
        *(pod(name, gpus, on) for name, gpus, on in (("x2", 4, "n2"), ("x3", 8, "n3"))),
    ]
    for solver in ("auto", "exact"):
        found = planned(objects, rules=GANGS, kind=kind, count=count, solver=solver)
        assert moves(found) == {"a: n0 > n2", "b: n1 > n0"}
        assert found["optimal"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_gang_whose_members_disturb_each_other_in_flight_stays(solver: str) -> None:
    gang: Any = {"owner": "PyTorchJob/g"}
    objects = [
        *(node(f"n{number}") for number in range(4)),
        serving("a", "n0", 4, labels={"app": "lead"}, **gang),
        serving("b", "n1", 1, **gang, **near("lead")),
        *(pod(name, gpus, on) for name, gpus, on in (("x1", 1, "n1"), ("x2", 4, "n2"), ("x3", 8, "n3"))),
    ]
    assert planned(objects, rules=GANGS, slot_size=7, solver=solver)["verdict"] == "Blocked"


# Options.


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"slot_size": 0}, "objective.slot_size"),
        ({"slot_size": 1_000_001}, "objective.slot_size"),
        ({"slot_size": 10**5000}, "objective.slot_size"),
        ({"count": 0}, "objective.count"),
        ({"max_evictions": -1}, "max_evictions"),
        ({"min_nodes_freed": -1}, "min_nodes_freed"),
        ({"time_limit": -0.5}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_by_name(wish: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        PlanOptions(**wish)
    assert refused.value.field == field


def test_without_ortools_auto_plans_all_the_same_and_exact_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "available", lambda: False)
    assert planned(LIGHT, kind="free_nodes", solver="auto")["solver"] == "heuristic"
    with pytest.raises(InputError, match="ortools") as refused:
        PlanOptions(solver="exact")
    assert refused.value.field == "solver"
