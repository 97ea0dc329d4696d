# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a cluster can tell of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.check import check
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.findings import IDS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint import Document
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint_cluster import see, some
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, budget, node, pod
from ansible_collections.gpuops.defrag.tests.unit.policies import EVICTOR, PACKING, VICTIMS, Told, found, policy, profile

ERROR, WARNING, INFO = "error", "warning", "info"
EVICT, ARGS = "profiles[0].pluginConfig[0].args", "profiles[0].pluginConfig[1].args"
THRESHOLD = f"{ARGS}.thresholds['nvidia.com/gpu']"
KEY = "descheduler.alpha.kubernetes.io/evict"
A100 = {"gpu": "a100"}
SOFT = {"key": "gpuops.io/defrag", "value": "", "effect": "PreferNoSchedule"}
SHM = {"name": "shm", "emptyDir": {"medium": "Memory"}}

# 68.75 % of 8 is 5.5: n1 is to be emptied, n2 takes.
NODES = [node("n1", labels=A100, ready="True"), node("n2", labels=A100, ready="True")]
PODS = [pod("small", 2, "n1"), pod("large", 6, "n2")]
FLEET = [*NODES, *PODS]
CPU = node("cpu", None, ready="True")


def packing(selector: str = "gpu=a100", *, evictor: Object | None = None, **args: Any) -> Object:
    return policy(profile(evictor=evictor, HighNodeUtilization={**PACKING, **args}), nodeSelector=selector)


def planned(**evictor: Any) -> Object:
    return policy(profile(evictor={**EVICTOR, **evictor}, PodLifeTime=VICTIMS))


def annotated(value: str) -> Object:
    return pod("guarded", 1, "n2", metadata={"annotations": {KEY: value}})


Row = tuple[str, Object, list[Object], list[Told]]
ROWS: list[Row] = [
    ("all is well", packing(), FLEET, []),
    ("all is well in planned mode", planned(), FLEET, []),
    (
        "a policy that does nothing is not judged by a cluster",
        policy({"name": "p"}),
        [],
        [("NothingEnabled", ERROR, "profiles[0].plugins")],
    ),
    (
        "no node is selected",
        packing("gpu=h100"),
        FLEET,
        [("NodesTooFew", ERROR, "nodeSelector"), ("ResourceNowhere", ERROR, THRESHOLD), ("NoSource", INFO, f"{ARGS}.thresholds")],
    ),
    ("one node is not enough", planned(), [NODES[0], node("n3", ready="False")], [("NodesTooFew", ERROR, "nodeSelector")]),
    ("nodes without GPUs would be emptied first", packing(""), [*FLEET, CPU], [("NodesWithoutResource", ERROR, THRESHOLD)]),
    (
        "nodes of another GPU would be emptied first",
        packing(""),
        [*FLEET, node("amd", None, allocatable={"amd.com/gpu": "8"})],
        [("NodesWithoutResource", ERROR, THRESHOLD)],
    ),
    (
        "a resource that is nowhere",
        packing(thresholds={"amd.com/gpu": 70}),
        FLEET,
        [("ResourceNowhere", ERROR, f"{ARGS}.thresholds['amd.com/gpu']"), ("NoDestination", WARNING, f"{ARGS}.thresholds")],
    ),
    ("nodes of two sizes", packing(), [*FLEET, node("n4", 4, labels=A100)], [("NodeSizes", WARNING, THRESHOLD)]),
    (
        "all nodes are to be emptied",
        packing(thresholds={"nvidia.com/gpu": 75}),
        FLEET,
        [("NoDestination", WARNING, f"{ARGS}.thresholds")],
    ),
    (
        "a cordoned node takes nothing",
        packing(),
        [NODES[0], node("n2", labels=A100, unschedulable=True), *PODS],
        [("NoDestination", WARNING, f"{ARGS}.thresholds")],
    ),
    ("no node is to be emptied", packing(thresholds={"nvidia.com/gpu": 24}), FLEET, [("NoSource", INFO, f"{ARGS}.thresholds")]),
    (
        "soft taints on the nodes that take",
        packing(),
        [NODES[0], node("n2", labels=A100, taints=[SOFT]), *PODS],
        [("SoftTaints", WARNING, ARGS)],
    ),
    ("soft taints on those that are emptied", packing(), [node("n1", labels=A100, taints=[SOFT]), NODES[1], *PODS], []),
    ("evict: false, where any pod may go", packing(), [*FLEET, annotated("false")], [("EvictAnnotation", ERROR, "")]),
    ("evict: true, as it is meant", packing(), [*FLEET, annotated("true")], []),
    ("evict: false, where plans choose", planned(), [*FLEET, annotated("false")], [("EvictAnnotation", WARNING, "")]),
    (
        "two budgets over a pod",
        planned(),
        [*FLEET, pod("llm", 1, "n1", labels={"app": "llm"}), *(budget(name, {"app": "llm"}, maxUnavailable=1) for name in "ab")],
        [("SeveralBudgets", WARNING, "")],
    ),
    (
        "two budgets, each over its own",
        planned(),
        [
            *FLEET,
            pod("llm", 1, "n1", labels={"app": "llm"}),
            *(budget(name, {"app": name}, maxUnavailable=1) for name in ("llm", "web")),
        ],
        [],
    ),
    (
        "pods with /dev/shm stay",
        packing(evictor={**EVICTOR, "podProtections": {"extraEnabled": ["PodsWithPVC"]}}),
        [*FLEET, pod("vllm", 1, "n2", volumes=[SHM]), pod("web", None, "n2", volumes=[SHM])],
        [("LocalStorageProtected", WARNING, EVICT)],
    ),
    ("nobody has local storage", packing(evictor={**EVICTOR, "podProtections": {"extraEnabled": ["PodsWithPVC"]}}), FLEET, []),
    (
        "a class that is not there",
        planned(priorityThreshold={"name": "production"}),
        [*FLEET, {"kind": "PriorityClass", "metadata": {"name": "batch"}}],
        [("PriorityClassMissing", ERROR, f"{EVICT}.priorityThreshold.name")],
    ),
    (
        "a class that is there",
        planned(priorityThreshold={"name": "production"}),
        [*FLEET, {"kind": "PriorityClassList", "items": [{"metadata": {"name": "production"}}]}],
        [],
    ),
    (
        "there are no classes",
        planned(priorityThreshold={"name": "production"}),
        [*FLEET, {"kind": "PriorityClassList", "items": []}],
        [("PriorityClassMissing", ERROR, f"{EVICT}.priorityThreshold.name")],
    ),
    ("classes were not read", planned(priorityThreshold={"name": "production"}), FLEET, []),
    (
        "a selector that selects nothing",
        planned(labelSelector={"matchLabels": {"app": "llm"}}),
        FLEET,
        [("SelectsNothing", WARNING, f"{EVICT}.labelSelector")],
    ),
    ("a selector of victims, of which there are none now", planned(labelSelector=VICTIMS["labelSelector"]), FLEET, []),
]


@pytest.mark.parametrize(("given", "objects", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_exactly_this_is_found(given: Object, objects: list[Object], expected: list[Told]) -> None:
    assert sorted(found(given, seen=see(objects))) == sorted(expected)


def test_every_id_of_a_cluster_is_in_a_row() -> None:
    shown = {each[0] for row in ROWS for each in row[3]}
    assert shown <= IDS.keys()
    assert len(shown) == 13


def test_pods_are_counted_and_some_are_named() -> None:
    mistaken = [pod(f"p{number}", 1, "n1", metadata={"annotations": {KEY: "no"}}) for number in range(5)]
    (finding,) = check(Document(planned()), (0, 36, 0), seen=see([*NODES, *mistaken]))
    assert finding.message.startswith('default/p0 ("no"), default/p1 ("no"), default/p2 ("no") and 2 more have the annotation')


@pytest.mark.parametrize(
    ("names", "told"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), (list("abcd"), "a, b, c and 1 more")],
)
def test_few_names_are_told(names: list[str], told: str) -> None:
    assert some(names) == told
