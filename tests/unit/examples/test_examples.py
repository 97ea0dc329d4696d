# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import objects
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.render import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.settings import settings_of
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.names import Hasher
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.redact import hash_names, reduce
from ansible_collections.gpuops.defrag.plugins.module_utils._snapshot import read_objects

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ROW = re.compile(r"\| `(.+?)` \| (\d+) of (?:1 to )?\d GPUs \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|")
TOLD = {row[1]: tuple(map(int, row.groups()[1:])) for row in ROW.finditer((EXAMPLES / "README.md").read_text())}


def read(name: str) -> list[dict[str, Any]]:
    return [dict(item) for item in objects(read_objects(str(EXAMPLES / name)))]


def test_the_readme_tells_of_every_example() -> None:
    assert {*TOLD, "scheduler.yaml"} == {file.name for file in EXAMPLES.iterdir()} - {"README.md"}
    assert "`scheduler.yaml`" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("name", TOLD)
def test_an_example_is_as_the_readme_says_and_measures_the_same_reduced_and_hashed(name: str) -> None:
    found = read(name)
    full, reduced, hashed = (
        audit(items, AuditOptions(), details=True) for items in (found, reduce(found), hash_names(found, "key"))
    )
    pods = sum(item["kind"] == "Pod" for item in found)
    figures = (full["nodes"], full["gpus_total"], pods, full["gpus_allocated"], full["slots"]["8"])
    assert figures == TOLD[name]

    assert json.dumps(reduced, sort_keys=True) == json.dumps(full, sort_keys=True)
    token = Hasher("key").name
    assert hashed["node_free"] == {token(node): free for node, free in full["node_free"].items()}
    for figure in ("slots", "slots_usable", "stranded", "fragmentation_rate", "frag_rate", "cost"):
        assert hashed[figure] == full[figure]


def test_the_pods_of_blocked_yaml_wait_for_the_reasons_it_gives() -> None:
    found = audit(read("blocked.yaml"), AuditOptions())
    assert {pod["pod"]: pod["cause"] for pod in found["blocked_pods"]} == {
        "train-1": ["InsufficientGPU"],
        "preprocess-1": ["InsufficientCPU", "Taint"],
        "medium-1": ["Taint"],
    }
    assert [pod["node"] for pod in found["pending_pods"] if pod["pod"] == "small-1"] == ["gpu-1"]


def test_the_scheduler_is_as_the_filter_renders_it() -> None:
    assert yaml.safe_load((EXAMPLES / "scheduler.yaml").read_text()) == render(settings_of({}))
