# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.modules import gpu_defrag_plan
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, node, pod, serving
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

LIMITS = Limits(per_node=1, per_namespace=5, per_workload=1)


def replicas(name: str, *homes: str, gpus: int = 1, **more: Any) -> list[Object]:
    owner = f"ReplicaSet/{name}"
    return [serving(f"{name}-{i}", home, gpus, owner=owner, **more) for i, home in enumerate(homes)]


OBJECTS = [
    *(node(name) for name in ("n1", "n2", "n3", "n4")),
    *replicas("llm", "n1", "n2", labels={"tier": "production"}),
    *replicas("embed", "n1", "n3"),
    *replicas("large", "n3", "n4", gpus=4),
    pod("bare", 3, "n2"),
]


def written(path: Path, content: Any) -> str:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(path)


def listed(*objects: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def expected(**wish: Any) -> dict[str, Any]:
    """The plan of the core for the same wish."""
    size = wish.get("slot_size", 8) if wish.get("kind", "slots") == "slots" else None
    options = PlanOptions(**{"audit": AuditOptions(slot_size=size), "limits": LIMITS, **wish})
    found: dict[str, Any] = json.loads(json.dumps(plan(OBJECTS, options)))
    return found


@pytest.fixture
def src(tmp_path: Path) -> str:
    return written(tmp_path / "cluster.json", listed(*OBJECTS))


def moved(found: dict[str, Any]) -> set[str]:
    return {move["pod"] for wave in found["plan"]["waves"] for move in wave}


@pytest.mark.parametrize("check", [False, True])
def test_it_returns_the_plan_and_changes_nothing(check: bool, src: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_module(gpu_defrag_plan, capsys, check=check, src=src, objective={"count": 1})
    assert (found["changed"], found["cluster"]) == (False, {"server": None, "uid": None})
    assert found["plan"] == expected(count=1)
    assert found["plan"]["verdict"] == "Recommended"


@pytest.mark.parametrize("solver", ["auto", "heuristic", "exact"])
def test_the_same_state_gives_the_same_bytes_in_any_order_and_form(
    solver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled = list(OBJECTS)
    random.Random(0).shuffle(shuffled)
    files = [
        written(tmp_path / "a.json", listed(*OBJECTS)),
        written(tmp_path / "b.json", listed(*shuffled)),
        written(tmp_path / "c.json.gz", gzip.compress(json.dumps(listed(*OBJECTS)).encode())),
        written(tmp_path / "d.yaml", yaml.safe_dump(listed(*shuffled)).encode()),
    ]
    told = {json.dumps(run_module(gpu_defrag_plan, capsys, src=file, solver=solver)["plan"]) for file in (*files, files[0])}
    assert len(told) == 1


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        ({}, {}),
        ({"objective": {"kind": "free_nodes", "count": 2}}, {"kind": "free_nodes", "count": 2}),
        ({"objective": {"slot_size": 4, "count": "max"}}, {"slot_size": 4}),
        ({"objective": {"kind": "blocked_pods"}}, {"kind": "blocked_pods"}),
        ({"max_evictions": 1}, {"max_evictions": 1}),
        ({"min_nodes_freed": 4}, {"min_nodes_freed": 4}),
        ({"limits": {"per_node": 2, "total": 1}}, {"limits": Limits(2, 5, 1, 1)}),
        ({"movable_singletons": True}, {"rules": Rules(movable_singletons=True)}),
        ({"priority_threshold": 0}, {"rules": Rules(priority_threshold=0)}),
        ({"min_pod_age": "15m"}, {"rules": Rules(min_pod_age=900)}),
        ({"pod_cost": {"default": "1m", "default/llm": 20}}, {"cold_start": {"default": 60.0, "default/llm": 20.0}}),
        ({"solver": "heuristic"}, {"solver": "heuristic"}),
    ],
    ids=lambda given: str(given) if given else "",
)
def test_options_reach_the_plan(
    given: dict[str, Any], wish: dict[str, Any], src: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_module(gpu_defrag_plan, capsys, src=src, **given)["plan"] == expected(**wish)


def test_what_protect_names_is_never_moved(src: str, capsys: pytest.CaptureFixture[str]) -> None:
    wish: dict[str, Any] = {"src": src, "objective": {"kind": "free_nodes"}}
    assert moved(run_module(gpu_defrag_plan, capsys, **wish)) & {"llm-0", "llm-1"}
    found = run_module(gpu_defrag_plan, capsys, **wish, protect=["metadata.labels.tier == 'production'"])
    assert not moved(found) & {"llm-0", "llm-1"}
    reasons = {skipped["pod"]: skipped["reason"] for skipped in found["plan"]["skipped"]}
    assert (reasons["llm-0"], reasons["llm-1"]) == ("ProtectExpression", "ProtectExpression")


def test_only_nodes_that_the_selector_names_give_and_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [node(name, labels={"pool": pool}) for name, pool in (("n1", "a"), ("n2", "b"), ("n3", "b"))]
    objects += [*replicas("x", "n1", "n2"), pod("base", 6, "n3")]
    src = written(tmp_path / "cluster.json", listed(*objects))
    (wave,) = run_module(gpu_defrag_plan, capsys, src=src, node_selector="pool=b")["plan"]["waves"]
    assert [(move["from"], move["to"]) for move in wave] == [("n2", "n3")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"objective": {"slot_size": 0}}, ["objective.slot_size", "is 0"]),
        ({"objective": {"count": "many"}}, ["objective.count", "'many'"]),
        ({"objective": {"count": -1}}, ["objective.count", "'-1'"]),
        ({"objective": {"count": 0}}, ["objective.count", "is 0"]),
        ({"objective": {"kind": "nodes"}}, ["kind", "nodes"]),
        ({"objective": {"size": 8}}, ["objective.size"]),
        ({"max_evictions": -1}, ["max_evictions", "is -1"]),
        ({"min_nodes_freed": -1}, ["min_nodes_freed", "is -1"]),
        ({"limits": {"per_node": 0}}, ["limits.per_node", "is 0"]),
        ({"min_pod_age": "soon"}, ["min_pod_age", "'soon'"]),
        ({"pod_cost": {"a/b": "dear"}}, ["pod_cost[a/b]", "'dear'"]),
        ({"protect": ["a ="]}, ["protect[0]", "a ="]),
        ({"resource_name": "gpu"}, ["resource_name"]),
        ({"node_selector": "a in b"}, ["node_selector"]),
        ({"now": "today"}, ["now", "'today'"]),
        ({"seed": -1}, ["seed", "is -1"]),
        ({"time_limit": -1}, ["time_limit", "is -1"]),
        ({"solver": "best"}, ["solver", "best"]),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_an_option_that_makes_no_sense_is_named(
    given: dict[str, Any], words: list[str], src: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_module(gpu_defrag_plan, capsys, code=1, src=src, **given)
    assert "Traceback" not in str(found)
    for word in words:
        assert word in found["msg"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"{", ["JSON"]),
        (listed({"kind": "Pod", "metadata": {"namespace": "a", "name": "b"}}), ["Pod a/b", "spec"]),
        (listed(node("n1"), pod("p", "two", "n1")), ["Pod default/p", "requests[nvidia.com/gpu]", "'two'"]),
        ({"items": []}, ["kind"]),
    ],
    ids=lambda given: "" if isinstance(given, bytes | dict) else str(given),
)
def test_bad_input_is_one_error_that_names_file_object_and_field(
    content: Any, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src = written(tmp_path / "cluster.json", content)
    found = run_module(gpu_defrag_plan, capsys, code=1, src=src)
    assert found["msg"].startswith(src)
    for word in words:
        assert word in found["msg"]


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = str(tmp_path / "none.json")
    assert run_module(gpu_defrag_plan, capsys, code=1, src=src)["msg"].startswith(f"{src}: there is no such file")


@pytest.mark.parametrize("content", [listed(), listed(node("cpu", None))], ids=["an empty cluster", "no GPU node"])
def test_where_there_is_no_gpu_nothing_is_planned_and_that_is_no_failure(
    content: Object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_module(gpu_defrag_plan, capsys, src=written(tmp_path / "c.json", content))["plan"]
    assert (found["verdict"], found["waves"], found["evictions"]) == ("NotApplicable", [], 0)


def test_examples_and_returned_values_are_documented(src: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(task["gpuops.defrag.gpu_defrag_plan"] for task in yaml.safe_load(gpu_defrag_plan.EXAMPLES) if "register" in task)
    documented = yaml.safe_load(gpu_defrag_plan.RETURN)["plan"]["contains"]
    assert set(run_module(gpu_defrag_plan, capsys, src=src, details=True)["plan"]) == set(documented)
