# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook gpuops.defrag.audit, run as a user runs it: what it shows, what it writes, what it says it changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = os.environ.get("ANSIBLE_PROGRAMS", ".venv/bin")
ENVIRONMENT = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ} | {"LANG": "C.UTF-8"}
SENTENCE = "Each of the 65 free GPUs is stranded: no 8-GPU pod can use it."
SLOTS = "  4            8       8        33  [#########################!!!!!!!!!!!!!!!!!!!!!!!!!]"
REPORTS = {"audit.json", "audit.html", "audit-nodes.csv"}


def run(*arguments: str, result_format: str = "yaml", **variables: str) -> str:
    """Run the playbook on the example from the repository root; gives what it prints."""
    given = {"src": "examples/gpu200-1.json.gz"} | variables
    options = [option for name, value in given.items() for option in ("-e", json.dumps({name: value}))]
    done = subprocess.run(
        [f"{PROGRAMS}/ansible-playbook", "gpuops.defrag.audit", *options, *arguments],
        cwd=ROOT,
        env=ENVIRONMENT | {"ANSIBLE_CALLBACK_RESULT_FORMAT": result_format},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def changed(output: str) -> list[str]:
    """The tasks that say they changed something."""
    return re.findall(r"TASK \[([^]]*)\] \**\n(?:(?!TASK \[).*\n)*?changed: ", output)


@pytest.mark.parametrize(("result_format", "before", "after"), [("yaml", " " * 8, ""), ("json", ' *"', '",?')])
def test_the_table_can_be_read_however_results_are_shown(result_format: str, before: str, after: str) -> None:
    lines = run(result_format=result_format).partition("TASK [Show]")[2].partition("PLAY RECAP")[0].splitlines()
    assert [line for line in lines if re.fullmatch(f"{before}{re.escape(SLOTS)}{after}", line)]
    assert [line for line in lines if SENTENCE in line]
    assert max(map(len, lines)) <= 104


def test_check_mode_says_what_would_be_written_and_writes_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report"
    expected = run("--check", report_dir=str(report))
    assert not report.exists()
    assert changed(run(report_dir=str(report))) == changed(expected)
    assert len(changed(expected)) == 4
    assert {path.name for path in report.iterdir()} == REPORTS


def test_only_reports_whose_content_is_new_are_written_and_the_diff_shows_it(tmp_path: Path) -> None:
    run(report_dir=str(tmp_path), gpu_hour_price="3")
    output = run("--diff", report_dir=str(tmp_path), gpu_hour_price="4")
    assert changed(output) == ["Write the result", "Write the page"]
    assert '-        "gpu_hour_price": 3.0,' in output
    assert "<html" not in output
    assert json.loads((tmp_path / "audit.json").read_text())["cost"]["gpu_hour_price"] == 4.0


def test_options_reach_the_module_and_relative_paths_are_the_users(tmp_path: Path) -> None:
    options = {"sizes": "2,3", "slot_size": "4", "currency": "EUR", "fragmentation_size": "3", "min_gpu_nodes": "30"}
    run(report_dir=os.path.relpath(tmp_path, ROOT), **options, node_selector="nvidia.com/gpu.product in (G2, G3)")
    written = json.loads((tmp_path / "audit.json").read_text())
    assert list(written["slots"]) == ["2", "3"]
    assert (written["slot_size"], written["fragmentation_size"], written["cost"]["currency"]) == (4, 3, "EUR")
    assert [pool["name"] for pool in written["pools"]] == ["G2", "G3"]
    assert written["not_applicable_reasons"][0]["figures"]["min_gpu_nodes"] == 30
