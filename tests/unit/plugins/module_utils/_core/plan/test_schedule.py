# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import EVERYTHING
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules, staying
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.moves import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Goal, Problem, formulate
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits, PodMove, in_waves, ordered
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    REQUIRED,
    ZONE,
    Object,
    budget,
    laid_out,
    node,
    pod_of,
    serving,
)
from ansible_collections.gpuops.defrag.tests.unit.scheduler import World, name_of

Named = list[list[str]]


def always() -> Callable[[Pod], bool]:
    return lambda _pod: True


def waves(objects: list[Object], moves: list[str], limits: Limits, begin: Callable[[], Callable[[Pod], bool]] = always) -> Named:
    """Moves written as ``"pod>node"``, in waves."""
    layout = laid_out(objects)
    steps = []
    for text in moves:
        name, target = text.split(">")
        pod = pod_of(layout, name)
        steps.append(PodMove(pod, 0, pod.node, target))
    made = in_waves(layout.cluster, GPU, steps, limits, begin)
    assert made is not None
    return [[f"{move.pod.name}>{move.target}" for move in wave] for wave in made]


def of(workload: str, name: str, on: str, gpus: int = 1, **more: Any) -> Object:
    return serving(name, on, gpus, owner=f"ReplicaSet/{workload}", labels={"app": workload}, **more)


def alone(name: str, on: str, gpus: int = 1, **more: Any) -> Object:
    return of(f"rs-{name}", name, on, gpus, **more)


FIVE = [
    *(node(name) for name in ("n1", "n2", "n3")),
    of("x", "a", "n1"),
    of("x", "b", "n1"),
    of("y", "c", "n2", namespace="other"),
    of("y", "d", "n2"),
    of("z", "e", "n2", 4),
]
ALL = ["a>n3", "b>n3", "c>n3", "d>n3", "e>n3"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), [["e>n3", "a>n3", "b>n3", "d>n3", "c>n3"]]),
        (Limits(total=2), [["a>n3", "b>n3"], ["d>n3", "c>n3"], ["e>n3"]]),
        (Limits(per_node=1), [["a>n3", "c>n3"], ["b>n3", "d>n3"], ["e>n3"]]),
        (Limits(per_workload=1), [["e>n3", "a>n3", "d>n3", "c>n3"], ["b>n3"]]),
        (Limits(per_namespace=1), [["a>n3", "c>n3"], ["b>n3"], ["d>n3"], ["e>n3"]]),
        (Limits(per_node=2, per_namespace=2, total=3), [["a>n3", "b>n3", "c>n3"], ["e>n3", "d>n3"]]),
    ],
    ids=["none", "total", "per node", "per workload", "per namespace", "all of them"],
)
def test_a_wave_keeps_every_limit_and_goes_by_size(limits: Limits, expected: Named) -> None:
    made = waves(FIVE, ALL, limits)
    assert sorted(move for wave in made for move in wave) == sorted(ALL)
    assert made == expected


def test_what_leaves_in_a_wave_makes_room_only_for_the_next() -> None:
    objects = [node("n1", 2), node("n2", 2), node("n3", 2), alone("a", "n1", 2), alone("b", "n2", 2)]
    assert waves(objects, ["b>n3", "a>n2"], Limits()) == [["b>n3"], ["a>n2"]]


def test_a_move_that_waits_is_not_overtaken_into_its_room() -> None:
    objects = [node("p", 3), node("x", 4), node("z"), node("r", 2)]
    objects += [alone("first", "p"), alone("second", "p", 2), alone("third", "x", 2), alone("last", "r", 2)]
    moves = ["first>z", "second>x", "third>p", "last>x"]
    assert waves(objects, moves, Limits(per_node=1)) == [["first>z"], ["second>x"], ["third>p"], ["last>x"]]


def apart(workload: str, key: str = NODE_NAME) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": workload}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def test_a_replica_does_not_come_to_a_node_in_the_wave_in_which_its_sibling_leaves_it() -> None:
    objects = [node("n1"), node("n2"), node("n3"), *(of("x", name, on, **apart("x")) for name, on in (("b", "n1"), ("a", "n2")))]
    assert waves(objects, ["b>n3", "a>n1"], Limits()) == [["b>n3"], ["a>n1"]]


def test_where_one_that_overtook_would_be_missed_the_moves_keep_their_order() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "rs-friend"}}}
    near: dict[str, Any] = {"affinity": {"podAffinity": {REQUIRED: [term]}}}
    objects = [node(name, labels={ZONE: zone}) for name, zone in (("n1", "z1"), ("n2", "z2"), ("n3", "z2"), ("n4", "z3"))]
    objects += [alone("other", "n1"), alone("follower", "n1", **near), alone("friend", "n2")]
    moves = ["other>n4", "follower>n3", "friend>n4"]
    # Nor may the friend leave in the same wave: gone first, it would be missed as well.
    assert waves(objects, moves, Limits(per_node=1)) == [["other>n4"], ["follower>n3"], ["friend>n4"]]


def test_every_wave_asks_the_budgets_anew() -> None:
    selected = {"app": "x"}
    objects = [node("n1"), node("n2"), *(of("x", name, "n1") for name in "abc"), budget("x", selected, allowed=2)]
    begin = staying(laid_out(objects), Rules(movable_singletons=True)).begin
    assert waves(objects, ["a>n2", "b>n2", "c>n2"], Limits(), begin) == [["a>n2", "b>n2"], ["c>n2"]]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("per_node", "per_namespace", "per_workload", "interval_seconds") for value in (0, -1)]
    + [("total", -1)],
)
def test_a_limit_under_which_nothing_moves_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InputError, match=f"is {value}") as refused:
        Limits(**{name: value})
    assert refused.value.field == f"limits.{name}"


def problem_of(*objects: Object) -> Problem:
    layout = Layout(decode(objects))
    nodes = survey(layout, GPU, EVERYTHING).nodes
    return formulate(layout, nodes, GPU, Goal(8, None), stays=(), across_products=True, costs={})


def test_moves_come_in_an_order_in_which_each_has_room() -> None:
    problem = problem_of(node("n1", 2), node("n2", 2), node("n3", 2), alone("a", "n1", 2), alone("b", "n2", 2))
    (kind,) = range(len(problem.kinds))
    order = ordered(problem, [Move(kind, 0, 1), Move(kind, 1, 2)])
    assert order is not None
    assert [(step.pod.name, step.source, step.target) for step in order] == [("b", "n2", "n3"), ("a", "n1", "n2")]


def test_moves_that_wait_for_one_another_have_no_order() -> None:
    problem = problem_of(node("n1", 2), node("n2", 2), alone("a", "n1", 2), alone("b", "n2", 2))
    assert ordered(problem, [Move(0, 0, 1), Move(0, 1, 0)]) is None


def test_of_pods_that_are_alike_the_first_by_name_goes() -> None:
    problem = problem_of(node("n1"), node("n2"), alone("b", "n1"), alone("a", "n1"), alone("c", "n1"))
    order = ordered(problem, [Move(0, 0, 1), Move(0, 0, 1)])
    assert order is not None
    assert [step.pod.name for step in order] == ["a", "b"]


NAMESPACES = {"default": {"kubernetes.io/metadata.name": "default"}}


def social(seed: int) -> tuple[list[Object], list[Object]]:
    """Nodes in three zones, and replicas that keep apart, together or spread, put where the scheduler could have."""
    chance = random.Random(seed)
    nodes = [node(f"n{i}", labels={ZONE: f"z{i % 3}"}) for i in range(chance.randint(3, 7))]
    free = {name_of(one): 8 for one in nodes}
    pods: list[Object] = []
    for number in range(chance.randint(3, 7)):
        app, key, gpus = f"w{number}", chance.choice((NODE_NAME, NODE_NAME, ZONE)), chance.choice((1, 1, 2, 3, 4))
        selector = {"labelSelector": {"matchLabels": {"app": app}}}
        spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": key, **selector}
        together = {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **selector}]}}
        rules = chance.choice(({}, apart(app, key), {"topologySpreadConstraints": [spread]}, {"affinity": together}))
        for replica in range(chance.randint(2, 4)):
            new = of(app, f"{app}-{replica}", "?", gpus, **rules)
            world = World(new, nodes, pods, NAMESPACES)
            taking = [one for one in nodes if free[name_of(one)] >= gpus and not world.refusals(one)]
            if taking:
                target = name_of(max(taking, key=lambda one: free[name_of(one)] + 3 * chance.random()))
                new["spec"]["nodeName"], free[target] = target, free[target] - gpus
                pods.append(new)
    return nodes, pods


def test_at_every_step_of_every_wave_the_scheduler_would_do_what_the_plan_says() -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(60):
        nodes, pods = social(seed)
        chance = random.Random(seed)
        limits = Limits(per_node=chance.choice((None, 1)), per_workload=chance.choice((None, 1)), total=chance.choice((None, 3)))
        wish = PlanOptions(
            kind=chance.choice(("slots", "free_nodes")),
            solver=chance.choice(("heuristic", "exact")),
            limits=limits,
            rules=Rules(movable_singletons=True),
        )
        found = plan([*nodes, *pods], wish)
        verdicts[found["verdict"]] += 1
        named = {name_of(one): one for one in (*nodes, *pods)}
        for move in (move for wave in found["waves"] for move in wave):
            moved = named[move["pod"]]
            others = [one for one in pods if one is not moved]
            assert World(moved, nodes, others, NAMESPACES).refusals(named[move["to"]]) == set(), (seed, move)
            moved["spec"]["nodeName"] = move["to"]
    assert verdicts["Recommended"] > 20
