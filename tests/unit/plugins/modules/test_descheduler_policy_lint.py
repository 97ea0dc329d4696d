# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.modules import descheduler_policy_lint
from ansible_collections.gpuops.defrag.tests.unit.builders import node, packed
from ansible_collections.gpuops.defrag.tests.unit.policies import ARTICLE, PACKING, VICTIMS, found, policy, profile
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

Capsys = pytest.CaptureFixture[str]
PLANNED = policy(profile(PodLifeTime=VICTIMS))


def ids(result: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in result["findings"]]


@pytest.mark.parametrize("check", [False, True])
def test_it_returns_the_findings_and_changes_nothing(check: bool, capsys: Capsys) -> None:
    result = run_module(descheduler_policy_lint, capsys, check=check, policy=ARTICLE, config_map_name="descheduler")
    assert result["changed"] is False
    assert result["ok"] is False
    told = [(each["id"], each["severity"], each["path"]) for each in result["findings"]]
    assert told == found(ARTICLE, name="descheduler")
    assert result["findings"][0].keys() == {"id", "severity", "path", "message", "fix"}
    assert (result["descheduler_version"], result["cluster"], result["notes"]) == ("0.36.0", None, [])


def test_a_policy_without_errors_is_ok_whatever_else_is_found(capsys: Capsys) -> None:
    result = run_module(descheduler_policy_lint, capsys, policy=policy(profile(HighNodeUtilization=PACKING)))
    assert result["ok"] is True
    assert ids(result) == ["NodeSelectorMissing", "SoftTaints"]


def test_a_mapping_its_text_and_a_file_are_the_same(tmp_path: Path, capsys: Capsys) -> None:
    text = json.dumps(PLANNED)
    (tmp_path / "policy.yaml").write_text(text)
    given: tuple[dict[str, Any], ...] = ({"policy": PLANNED}, {"policy": text}, {"policy_file": str(tmp_path / "policy.yaml")})
    for each in given:
        assert run_module(descheduler_policy_lint, capsys, **each)["findings"] == []


def test_the_version_counts(capsys: Capsys) -> None:
    result = run_module(descheduler_policy_lint, capsys, policy=PLANNED, descheduler_version="v0.33.0")
    assert ids(result)[:2] == ["FieldTooNew", "FieldTooNew"]
    assert result["descheduler_version"] == "0.33.0"


def test_a_snapshot_tells_more(tmp_path: Path, capsys: Capsys) -> None:
    src = tmp_path / "cluster.json"
    items = [*packed("8: 1", "8: 6"), node("cpu", None)]
    src.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    given = policy(profile(HighNodeUtilization=PACKING))
    result = run_module(descheduler_policy_lint, capsys, policy=given, src=str(src))
    assert ids(result) == ["NodesWithoutResource"]
    assert "cpu have no nvidia.com/gpu" in result["findings"][0]["message"]
    assert result["cluster"] == {"server": None, "uid": None}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "one of the following is required: policy, policy_file"),
        ({"policy": "a: 1", "policy_file": "/none"}, "mutually exclusive"),
        ({"policy": "a: ["}, "is not YAML"),
        ({"policy_file": "/none"}, "/none: there is no such file"),
        ({"policy": "", "descheduler_version": "latest"}, "descheduler_version: 'latest' is not a version"),
        ({"policy": "", "src": "/none"}, "/none: there is no such file"),
        ({"policy": "", "src": "/none", "live": True}, "src: is a file, and live asks for the cluster itself"),
    ],
)
def test_bad_input_is_one_error(arguments: dict[str, Any], words: str, capsys: Capsys) -> None:
    result = run_module(descheduler_policy_lint, capsys, code=1, **arguments)
    assert words in result["msg"]
    assert "Traceback" not in str(result)
