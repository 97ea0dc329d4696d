# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.modules import gpu_fragmentation_info
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, measured, node, packed, pod
from ansible_collections.gpuops.defrag.tests.unit.running import run_module


def written(path: Path, content: Any) -> str:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(path)


def listed(*objects: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def test_it_returns_the_audit_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = packed("8: 4+2", "8: 1")
    src = written(tmp_path / "cluster.json", listed(*objects))
    for check in (False, True):
        result = run_module(gpu_fragmentation_info, capsys, check=check, src=src, gpu_hour_price=3, details=True)
        assert result["changed"] is False
        assert result["fragmentation"] == measured(objects, gpu_hour_price=3.0, details=True)


def test_the_same_file_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = written(tmp_path / "cluster.json.gz", gzip.compress(json.dumps(listed(*packed("8: 4+2", "8: 1"))).encode()))
    first, second = (json.dumps(run_module(gpu_fragmentation_info, capsys, src=src)["fragmentation"]) for _run in range(2))
    assert first == second


@pytest.mark.parametrize("content", [listed(), listed(node("cpu", None))], ids=["an empty cluster", "no GPU node"])
def test_where_there_is_no_gpu_the_answer_is_nothing_and_says_so(
    content: Object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_module(gpu_fragmentation_info, capsys, src=written(tmp_path / "c.json", content))["fragmentation"]
    assert (found["nodes"], found["gpus_free"], found["applicable"]) == (0, 0, False)
    assert [reason["reason"] for reason in found["not_applicable_reasons"]] == ["NoGpuNodes"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"\x00\x01", []),
        (b"{", ["JSON"]),
        (gzip.compress(b'{"kind": "List"}')[:-9], ["gz"]),
        (listed({"kind": "Pod", "metadata": {"namespace": "a", "name": "b"}}), ["Pod a/b", "spec"]),
        (listed(node("n1"), pod("lost", 1, "n2", namespace="a")), ["Pod a/lost", "spec.nodeName", "n2"]),
        (listed(node("n1"), node("n1")), ["Node n1", "twice"]),
        (listed(node("n1"), pod("p", "two", "n1")), ["Pod default/p", f"requests[{GPU}]", "'two'"]),
        (listed(node("n1", "-8")), ["Node n1", f"status.allocatable[{GPU}]", "negative"]),
        ([], ["list"]),
        ({"items": []}, ["kind"]),
    ],
    ids=lambda given: "" if isinstance(given, (bytes, dict)) else str(given),
)
def test_bad_input_is_one_error_that_names_file_object_and_field(
    content: Any, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src = written(tmp_path / "cluster.json", content)
    result = run_module(gpu_fragmentation_info, capsys, code=1, src=src)
    assert result["failed"] is True
    assert result["msg"].startswith(src)
    assert "Traceback" not in str(result)
    for word in words:
        assert word in result["msg"]


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = str(tmp_path / "none.json")
    assert run_module(gpu_fragmentation_info, capsys, code=1, src=src)["msg"].startswith(f"{src}: there is no such file")


def test_an_option_that_makes_no_sense_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = written(tmp_path / "cluster.json", listed())
    assert run_module(gpu_fragmentation_info, capsys, code=1, src=src, sizes=[0])["msg"].startswith("sizes[0]: is 0")
