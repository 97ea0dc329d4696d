# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    NODE_NAME,
    PRODUCT,
    REQUIRED,
    ZONE,
    Object,
    claim,
    node,
    pod,
    serving,
    uses,
    volume,
)

SOLVERS = ["heuristic", "exact"]
BARE = "it has no controller that would bring it back"


def one(name: str, on: str, gpus: int | None = 1, **more: Any) -> Object:
    return serving(name, on, gpus, owner=f"ReplicaSet/rs-{name}", **more)


def planned(objects: list[Object], **wish: Any) -> dict[str, Any]:
    return plan(objects, PlanOptions(**{"rules": Rules(movable_singletons=True), "solver": "heuristic", **wish}))


def names(told: Mapping[str, Any]) -> set[str]:
    return set(told)


def stays(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {skip["pod"]: (skip["reason"], skip["detail"]) for skip in found["skipped"]}


def kept(found: dict[str, Any]) -> dict[str, str]:
    return {each["node"]: each["reason"] for each in found["nodes_kept"]}


# Pods that may be evicted and have nowhere to go.

PRODUCTS = [node("a1", product="A100"), node("a2", product="A100"), node("t1", product="T4")]
FULL = [pod("k", 8, "a2"), pod("t", 4, "t1")]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("across", "spec", "told"),
    [
        (False, {}, "1 InsufficientGPU, 1 OtherProduct"),
        (False, {"nodeSelector": {PRODUCT: "A100"}}, "1 InsufficientGPU, 1 NodeSelector"),
        (True, {"nodeSelector": {PRODUCT: "A100"}}, "1 InsufficientGPU, 1 NodeSelector"),
    ],
    ids=["its product", "its selector, which holds whatever is wished", "its selector alone"],
)
def test_a_pod_that_no_node_takes_says_what_each_has_against_it(
    across: bool, spec: dict[str, Any], told: str, solver: str
) -> None:
    found = planned([*PRODUCTS, one("p", "a1", 4, **spec), *FULL], across_products=across, solver=solver)
    assert stays(found)["p"] == ("NoDestination", f"no node takes it: {told}")
    assert kept(found)["a1"] == f"default/p stays: no node takes it: {told}"
    assert found["message"] == f"nothing can be gained: 2 of 3 GPU pods must stay, no node takes 1 ({told})"


def test_where_another_product_will_do_there_is_a_place() -> None:
    found = planned([*PRODUCTS, one("p", "a1", 4), *FULL], across_products=True)
    assert (found["verdict"], names(stays(found))) == ("Recommended", {"k", "t"})


@pytest.mark.parametrize(
    ("closed", "name"),
    [
        ({"unschedulable": True}, "Cordoned"),
        ({"ready": "False"}, "NotReady"),
        ({"capacity": 9}, "UnhealthyGPU"),
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, "Taint"),
        ({"allocatable": {"cpu": "1"}}, "InsufficientCPU"),
        ({"allocatable": {"memory": "1Gi"}}, "InsufficientMemory"),
        ({"allocatable": {"pods": "1"}}, "TooManyPods"),
        ({}, "InsufficientResource"),
    ],
)
def test_every_refusal_has_its_name(closed: dict[str, Any], name: str) -> None:
    wanted = {"cpu": "2", "memory": "2Gi", **({"example.com/nic": "1"} if not closed else {})}
    objects = [node("n1", allocatable={"example.com/nic": "1"}), node("n2", **closed), pod("b", 2, "n2")]
    found = planned([*objects, one("a", "n1", 2, requests=wanted)])
    assert stays(found)["a"] == ("NoDestination", f"no node takes it: 1 {name}")


def test_refusals_are_told_by_how_many_nodes_have_them() -> None:
    tainted: dict[str, Any] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    objects = [node("a0", product="A"), *(node(f"a{i}", product="A") for i in (1, 2)), node("a3", product="A", **tainted)]
    objects += [*(node(f"b{i}", product="B") for i in (1, 2, 3)), *(pod(f"f{i}", 7, f"a{i}") for i in (1, 2))]
    found = planned([*objects, one("p", "a0", 2)])
    assert stays(found)["p"][1] == "no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint"


def test_the_only_node_says_that_there_is_no_other() -> None:
    assert stays(planned([node("n1"), one("a", "n1", 2)]))["a"] == ("NoDestination", "no node takes it: there is no other")


def test_what_other_pods_forbid_is_told_too() -> None:
    term = {"topologyKey": NODE_NAME, "labelSelector": {"matchLabels": {"app": "x"}}}
    apart: dict[str, Any] = {"labels": {"app": "x"}, "affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    objects = [node("n1"), node("n2"), one("x1", "n1", 2, **apart), one("x2", "n2", 2, **apart)]
    found = planned([*objects, pod("b", 2, "n2")])
    assert stays(found)["x1"][1] == stays(found)["x2"][1] == "no node takes it: 1 PodAntiAffinity"
    assert names(stays(planned([*objects, node("n3")]))) == set()


def test_room_that_a_preemption_keeps_is_no_place() -> None:
    objects = [node("n1"), node("n2"), one("a", "n1", 2), pod("b", 4, "n2")]
    assert names(stays(planned(objects))) == {"b"}
    nominated = pod("urgent", 4, priority=10, status={"nominatedNodeName": "n2"})
    found = planned([*objects, nominated])
    assert stays(found)["a"] == ("NoDestination", "no node takes it: 1 ReservedForNominatedPod")


def test_a_pod_that_could_move_but_need_not_is_not_told() -> None:
    objects = [node("n1"), node("n2"), node("n3"), one("a", "n1", 1), one("b", "n2", 2), pod("c", 7, "n3")]
    found = planned(objects, count=1)
    assert (found["verdict"], found["evictions"], names(stays(found))) == ("Recommended", 1, {"c"})


def test_it_is_told_of_the_nodes_as_they_are_after_the_plan() -> None:
    objects = [node("n1"), node("n2"), node("n3"), one("a", "n1", 2), pod("b", 6, "n2"), one("late", "n3", 2), pod("d", 5, "n3")]
    found = planned(objects, count=1, kind="free_nodes")
    # n2 had the room that late lacks until a took it; n1 has it now.
    assert (found["freed_nodes"], names(stays(found))) == (["n1"], {"b", "d"})
    objects[0] = node("n1", 2)
    assert names(stays(planned(objects, kind="free_nodes", count=1))) == {"b", "d"}
    objects[0] = node("n1", unschedulable=True)
    assert stays(planned(objects, kind="free_nodes", count=1))["late"][1] == "no node takes it: 1 Cordoned, 1 InsufficientGPU"


def test_a_plan_that_is_not_worth_it_is_told_of_as_if_it_were_not() -> None:
    objects = [node("n1", unschedulable=True), node("n2"), one("a", "n1", 2), pod("b", 6, "n2")]
    found = planned(objects, kind="free_nodes", min_nodes_freed=2)
    assert (found["verdict"], names(stays(found)), names(kept(found))) == ("BelowGoal", {"b"}, {"n2"})


def test_a_gang_of_which_one_has_nowhere_to_go_stays_whole_and_says_so() -> None:
    gang = [serving(f"w{i}", f"n{i}", i, owner="PyTorchJob/train") for i in (1, 2)]
    objects = [node("n1"), node("n2"), node("n3"), *gang, pod("b", 6, "n1"), pod("c", 6, "n2"), pod("d", 7, "n3")]
    found = planned(objects, rules=Rules(movable_singletons=True, movable_gangs=True))
    assert stays(found)["w2"] == ("NoDestination", "no node takes it: 2 InsufficientGPU")
    reason, detail = stays(found)["w1"]
    assert reason == "Gang"
    assert (
        detail == "PyTorchJob default/train moves whole or not at all, and default/w2 stays: no node takes it: 2 InsufficientGPU"
    )


# What holds nodes that are to be emptied.


def test_a_pod_without_gpus_that_holds_a_node_is_told_and_no_other_is_blamed() -> None:
    objects = [node("g1"), node("g2"), one("a", "g1", 2), pod("web", None, "g1"), pod("k", 4, "g2")]
    found = planned(objects, kind="free_nodes")
    assert stays(found) == {"k": ("BarePod", BARE), "web": ("BarePod", BARE)}
    assert [skip["gpus"] for skip in found["skipped"]] == [4, 0]
    assert kept(found) == {"g1": f"default/web stays: {BARE}", "g2": f"default/k stays: {BARE}"}
    assert found["message"] == "nothing can be gained: 2 of 3 pods must stay, moving the other gains nothing"
    assert "web" not in stays(planned(objects, kind="slots"))


def test_a_node_held_only_by_a_pod_without_gpus_is_not_taken_for_free() -> None:
    objects = [node("g1"), node("g2"), pod("web", None, "g1"), pod("full", 8, "g2")]
    found = planned(objects, kind="free_nodes")
    assert (found["verdict"], kept(found)) == ("Blocked", {"g1": f"default/web stays: {BARE}"})


def test_a_pod_without_gpus_that_has_nowhere_to_go_is_told_too() -> None:
    cores: dict[str, Any] = {"allocatable": {"cpu": "10"}}
    objects = [node("g1", **cores), node("g2", **cores), one("web", "g1", None, requests={"cpu": "5"})]
    found = planned([*objects, pod("k", 4, "g2", requests={"cpu": "8"})], kind="free_nodes")
    assert stays(found)["web"] == ("NoDestination", "no node takes it: 1 InsufficientCPU")
    assert kept(found)["g1"] == "default/web stays: no node takes it: 1 InsufficientCPU"


@pytest.mark.parametrize("kind", ["slots", "free_nodes"])
def test_daemons_hold_no_node_that_is_to_be_emptied(kind: str) -> None:
    daemon = serving("d", "n1", 2, owner="DaemonSet/d")
    found = planned([node("n1"), node("n2"), pod("x", 2, "n1"), daemon, pod("z", 7, "n2")], kind=kind)
    more = "" if kind == "free_nodes" else "; 1 more of its pods stay too"
    assert names(stays(found)) == {"d", "x", "z"}
    assert kept(found)["n1"] == (f"default/x stays: {BARE}" if kind == "free_nodes" else kept(found)["n1"])
    assert kept(found)["n1"].endswith(more)


def test_of_the_pods_that_hold_a_node_the_first_by_name_is_told_but_one_that_may_not_go_before_one_that_cannot() -> None:
    nodes, pods = [node("n1"), node("n2")], [pod("x", 1, "n1"), serving("y", "n1", 1, owner="DaemonSet/d"), pod("z", 5, "n2")]
    stuck = one("a", "n1", 4)
    for order in (pods, pods[::-1]):
        told = kept(planned([*nodes, *order, stuck]))
        assert told["n1"] == f"default/x stays: {BARE}; 2 more of its pods stay too"


# The sentence of a plan that is blocked.


@pytest.mark.parametrize(
    ("objects", "wish", "message"),
    [
        (
            [node("n1"), one("a", "n1"), node("n2"), pod("b", 6, "n2")],
            {"max_evictions": 0},
            "nothing can be gained within 0 evictions (max_evictions): what was found takes more",
        ),
        (
            [node("n1"), one("a", "n1"), node("n2"), pod("b", 6, "n2")],
            {"limits": Limits(total=0)},
            "nothing can be gained within 0 evictions (limits.total): what was found takes more",
        ),
        (
            [node("n1"), pod("a", 1, "n1"), node("n2"), pod("b", 6, "n2")],
            {"max_evictions": 5},
            "nothing can be gained: 2 of 2 GPU pods must stay",
        ),
        (
            [node("n1"), one("a", "n1", 3), node("n2"), one("b", "n2", 6)],
            {"slot_size": 6},
            "nothing can be gained: no node takes 2 of 2 GPU pods (InsufficientGPU)",
        ),
        (
            [*(node(f"n{i}", 3) for i in (1, 2)), *(one(f"p{i}", f"n{i}", 2) for i in (1, 2)), node("n3", 2)],
            {"slot_size": 2},
            "nothing can be gained: moving any of 2 GPU pods gains nothing",
        ),
    ],
)
def test_what_keeps_everything_where_it_is_is_what_is_blamed(objects: list[Object], wish: dict[str, Any], message: str) -> None:
    found = planned(objects, **wish)
    assert (found["verdict"], found["message"]) == ("Blocked", message)


# Blocked pods that get no room.

TWO = [node("n1"), node("n2"), one("a", "n1"), pod("k", 6, "n2")]


def lacks(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["pod"]: (each["reason"], each["detail"]) for each in found["unplaced"]}


def rooms(*guests: Object, objects: list[Object] | None = None, **wish: Any) -> dict[str, Any]:
    return planned([*(TWO if objects is None else objects), *guests], kind="blocked_pods", **wish)


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_is_evicted_for_a_pod_whose_devices_are_not_looked_at(solver: str) -> None:
    found = rooms(pod("guest", 8, resourceClaims=[{"name": "nic", "resourceClaimName": "x"}]), solver=solver)
    assert (found["verdict"], found["waves"], found["placed_pods"]) == ("Blocked", [], [])
    told = "it asks for devices by resource claim nic; where there are such is not looked at"
    assert lacks(found) == {"guest": ("ResourceClaim", told)}
    assert found["message"] == f"no moves make room for any of the 1 blocked pods: default/guest: {told}"


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], "VolumeUnknown"),
        ([claim("data", "pv")], "VolumeUnknown"),
        ([claim("other")], "NoRoom"),
        ([claim("data")], None),
        ([claim("data", "pv"), volume("pv")], None),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z9"})], None),
    ],
    ids=["no claim was read", "its volume was not", "it does not exist", "it is yet to be made", "it is known", "no zones"],
)
def test_nothing_is_evicted_for_a_pod_whose_volume_is_unknown(objects: list[Object], reason: str | None) -> None:
    found = rooms(pod("guest", 8, volumes=uses("data")), *objects)
    assert [each["reason"] for each in found["unplaced"]] == ([reason] if reason else [])
    assert bool(found["waves"]) == (reason is None)


def test_a_blocked_pod_for_which_no_moves_make_room_says_what_nodes_have_against_it() -> None:
    stuck = [
        node("n1"),
        node("n2"),
        pod("a", 4, "n1"),
        pod("b", 4, "n2"),
        node("n3", taints=[{"key": "k", "effect": "NoSchedule"}]),
    ]
    found = rooms(pod("guest", 8), objects=[*stuck, pod("c", 1, "n3")])
    ((reason, detail),) = lacks(found).values()
    assert (reason, found["verdict"]) == ("NoRoom", "Blocked")
    assert detail.endswith("; no moves make room for it: 2 InsufficientGPU, 1 Taint")
    assert found["message"].endswith(detail)


def test_of_several_blocked_pods_each_has_its_reason_and_the_urgent_come_first() -> None:
    claiming = pod("devices", 8, priority=5, resourceClaims=[{"name": "nic"}])
    found = rooms(claiming, pod("first", 8, priority=1), pod("second", 8), objects=[*TWO, node("n3"), one("b", "n3", 3)])
    assert [placed["pod"] for placed in found["placed_pods"]] == ["first"]
    assert {name: reason for name, (reason, _detail) in lacks(found).items()} == {"devices": "ResourceClaim", "second": "NoRoom"}
    assert list(lacks(found)) == ["devices", "second"]
    counted = rooms(
        claiming, pod("first", 8, priority=1), pod("second", 8), count=1, objects=[*TWO, node("n3"), one("b", "n3", 3)]
    )
    assert lacks(counted)["second"] == ("Count", "objective.count is 1, and others go first")


def test_room_that_takes_too_many_evictions_is_told_from_none() -> None:
    found = rooms(pod("guest", 8), max_evictions=0)
    told = "room for it takes more evictions than max_evictions 0 allows"
    assert (lacks(found), found["verdict"]) == ({"guest": ("MaxEvictions", told)}, "Blocked")


def test_room_in_a_plan_that_is_not_worth_it_is_told_from_none() -> None:
    found = rooms(pod("guest", 8), min_nodes_freed=2)
    assert (found["verdict"], lacks(found)["guest"][0]) == ("BelowGoal", "BelowGoal")


def test_only_a_plan_for_blocked_pods_tells_of_them() -> None:
    assert planned([*TWO, pod("guest", 8)])["unplaced"] == rooms(pod("guest", 8))["unplaced"] == []


def test_several_that_get_no_room_are_summed_up() -> None:
    guests = [pod(f"g{i}", 8, resourceClaims=[{"name": "nic"}]) for i in (1, 2)]
    assert rooms(*guests)["message"] == "no moves make room for any of the 2 blocked pods: 2 ResourceClaim"


def test_where_no_pod_is_blocked_it_is_not_asked_who_could_go_where() -> None:
    objects = [node("n1"), node("n2"), one("a", "n1", 3), pod("k", 6, "n2")]
    assert (rooms(objects=objects)["verdict"], names(stays(rooms(objects=objects)))) == ("NoFragmentation", {"k"})


# What is not looked at.


def test_that_attach_limits_are_not_looked_at_is_said_where_a_pod_that_moves_has_claims() -> None:
    objects = [node("n1"), node("n2"), one("a", "n1", volumes=uses("data")), pod("b", 6, "n2"), claim("data", "pv"), volume("pv")]
    note = "1 pod that moves has PersistentVolumeClaims: how many volumes their nodes can still attach was not looked at"
    assert note in planned(objects, limits=Limits())["notes"]
    assert note not in planned(objects, max_evictions=0)["notes"]
    assert not any("attach" in told for told in planned(TWO)["notes"])
