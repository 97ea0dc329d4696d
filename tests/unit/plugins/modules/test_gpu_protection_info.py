# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.modules import gpu_protection_info
from ansible_collections.gpuops.defrag.tests.unit.builders import node, serving, workload
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

OBJECTS = [
    node("n1"),
    workload("ReplicaSet", "llm", 3),
    *(serving(f"llm-{i}", labels={"app": "llm"}) for i in range(3)),
]


@pytest.fixture
def src(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return str(path)


@pytest.mark.parametrize("check", [False, True])
def test_it_proposes_and_changes_nothing(check: bool, src: str, capsys: pytest.CaptureFixture[str]) -> None:
    wished = [{"namespace": "default", "name": "llm", "min_available": "50%", "protect": True}]
    found = run_module(gpu_protection_info, capsys, check=check, src=src, services=wished)
    assert (found["changed"], found["ok"], found["cluster"]) == (False, True, {"server": None, "uid": None})
    assert [each["spec"]["minAvailable"] for each in found["budgets"]] == ["50%"]
    assert [each["name"] for each in found["annotate"]] == ["llm", "llm-0", "llm-1", "llm-2"]
    assert (found["remove"], len(found["notes"])) == ([], 3)
    assert found == run_module(gpu_protection_info, capsys, src=src, services=wished)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"discover_min_replicas": 0}, "discover_min_replicas: is 0"),
        ({"discover_max_unavailable": "0%"}, "discover_max_unavailable: 0% forbids every eviction"),
        ({"discover_max_unavailable": "some"}, "discover_max_unavailable: 'some' is neither"),
        ({"services": [{"namespace": "a"}]}, "services\\[0\\]: names neither"),
        ({"services": [{"name": "a"}]}, "missing required arguments: namespace"),
        ({"src": "/nowhere"}, "there is no such file"),
    ],
)
def test_bad_input_is_one_message(given: dict[str, Any], told: str, src: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_module(gpu_protection_info, capsys, code=1, **{"src": src, **given})
    assert re.search(told, found["msg"])
