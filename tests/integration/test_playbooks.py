# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that report, run as a user runs them: what they show, what they write, what they say they changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT
from ansible_collections.gpuops.defrag.tests.unit.prometheus_server import PrometheusServer, Says

SHOWN = {
    "audit": (
        "Each of the 65 free GPUs is stranded: no 8-GPU pod can use it.",
        "  4            8       8        33  [#########################!!!!!!!!!!!!!!!!!!!!!!!!!]",
    ),
    "plan": (
        "Worth carrying out: 22 evictions in 4 waves gain 7 slots of 8 GPUs.",
        "  8            0       7        +7  [+++++++++++++++++++++++++++++++++++++++++++.......]",
    ),
}
REPORTS = {"audit": {"audit.json", "audit.html", "audit-nodes.csv"}, "plan": {"plan.json", "plan.html"}}
PLAYBOOKS = list(REPORTS)


def run(playbook: str, *arguments: str, result_format: str = "yaml", **variables: Any) -> str:
    """Run a playbook on the example from the repository root; gives what it prints."""
    # Not the exact solver, which is not installed everywhere.
    given = {"src": "examples/gpu200-1.json.gz", "movable_singletons": True, "solver": "heuristic"} | variables
    options = [option for name, value in given.items() for option in ("-e", json.dumps({name: value}))]
    done = subprocess.run(
        [f"{PROGRAMS}/ansible-playbook", f"gpuops.defrag.{playbook}", *options, *arguments],
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


@pytest.mark.parametrize("playbook", PLAYBOOKS)
@pytest.mark.parametrize(("result_format", "before", "after"), [("yaml", " " * 8, ""), ("json", ' *"', '",?')])
def test_the_table_can_be_read_however_results_are_shown(result_format: str, before: str, after: str, playbook: str) -> None:
    lines = run(playbook, result_format=result_format).partition("TASK [Show]")[2].partition("\nTASK [")[0].splitlines()
    sentence, row = SHOWN[playbook]
    assert [line for line in lines if re.fullmatch(f"{before}{re.escape(row)}{after}", line)]
    assert [line for line in lines if sentence in line]
    assert max(map(len, lines)) <= 104


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_check_mode_says_what_would_be_written_and_writes_nothing(tmp_path: Path, playbook: str) -> None:
    report = tmp_path / "report"
    expected = run(playbook, "--check", report_dir=str(report))
    assert not report.exists()
    assert changed(run(playbook, report_dir=str(report))) == changed(expected)
    assert len(changed(expected)) == 1 + len(REPORTS[playbook])
    assert {path.name for path in report.iterdir()} == REPORTS[playbook]


@pytest.mark.parametrize(
    ("playbook", "first", "then", "line"),
    [
        ("audit", {"gpu_hour_price": "3"}, {"gpu_hour_price": "4"}, '-        "gpu_hour_price": 3.0,'),
        ("plan", {"objective": {"count": 3}}, {"objective": {"count": 2}}, '-        "count": 3,'),
    ],
)
def test_only_reports_whose_content_is_new_are_written_and_the_diff_shows_it(
    tmp_path: Path, playbook: str, first: dict[str, Any], then: dict[str, Any], line: str
) -> None:
    run(playbook, report_dir=str(tmp_path), **first)
    assert changed(run(playbook, report_dir=str(tmp_path), **first)) == []
    output = run(playbook, "--diff", report_dir=str(tmp_path), **then)
    assert changed(output) == ["Write the result", "Write the page"]
    assert line in output
    assert "<html" not in output


def test_options_of_an_audit_reach_the_module_and_relative_paths_are_the_users(tmp_path: Path) -> None:
    options = {"sizes": "2,3", "slot_size": "4", "currency": "EUR", "fragmentation_size": "3", "min_gpu_nodes": "30"}
    selector = "nvidia.com/gpu.product in (G2, G3)"
    run("audit", report_dir=os.path.relpath(tmp_path, ROOT), node_selector=selector, gpu_hour_price="4", **options)
    written = json.loads((tmp_path / "audit.json").read_text())
    assert list(written["slots"]) == ["2", "3"]
    assert (written["slot_size"], written["fragmentation_size"], written["cost"]["currency"]) == (4, 3, "EUR")
    assert written["cost"]["gpu_hour_price"] == 4.0
    assert [pool["name"] for pool in written["pools"]] == ["G2", "G3"]
    assert written["not_applicable_reasons"][0]["figures"]["min_gpu_nodes"] == 30


def test_options_of_a_plan_reach_the_module_and_relative_paths_are_the_users(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "objective": {"kind": "free_nodes", "count": 1},
        "limits": {"per_namespace": 2, "total": 4},
        "max_evictions": 9,
        "movable_singletons": False,
        "protect": ["metadata.namespace == 'team-1'"],
        "pod_cost": {"default": "1m"},
    }
    run("plan", report_dir=os.path.relpath(tmp_path, ROOT), node_selector={"nvidia.com/gpu.product": "G2"}, **options)
    written = json.loads((tmp_path / "plan.json").read_text())
    assert (written["objective"]["kind"], written["objective"]["count"]) == ("free_nodes", 1)
    assert (written["limits"]["per_node"], written["limits"]["per_namespace"], written["limits"]["total"]) == (1, 2, 4)
    assert {pod["reason"] for pod in written["skipped"]} == {"ProtectExpression", "SingleReplica"}
    assert {node["pool"] for node in written["details"]["nodes"]} == {"G2"}
    assert 0 < written["evictions"] <= 9
    assert written["cost_seconds"] == 60 * written["evictions"]


WHOSE = {"cluster": {"uid": "u-1"}}
STEP = {"verdict": "Recommended", "evicted": [{}], "landed": [{}], "strays": [], "unready": [], **WHOSE}
RATE = {"action": "pause", "limits": {"per_node": 1, "total": 0}, **WHOSE}
RUN_TOLD = ("gpuops_defrag", "gpuops.prom", 'gpuops_run_pods{cluster="east",outcome="evicted"} 1\n')
RATE_TOLD = ("gpuops_defrag_tune", "gpuops-tune.prom", 'gpuops_tune_info{cluster="east",action="pause"} 1\n')


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"step": STEP, "rate": {"skipped": True}}, [RUN_TOLD]),
        ({"rate": RATE}, [RATE_TOLD]),
        ({"step": STEP, "rate": RATE}, [RUN_TOLD, RATE_TOLD]),
    ],
    ids=["a run", "a tick of the tuner", "a run at a tuned rate"],
)
def test_what_a_run_and_the_tuner_did_is_told_where_it_is_wanted_each_in_its_place(
    there: dict[str, Any], expected: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": there}
    play["tasks"] = [{"name": "Tell", "ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/tell_metrics.yml")}]
    playbook, folder = tmp_path / "playbook.yml", tmp_path / "textfiles"
    folder.mkdir()
    playbook.write_text(json.dumps([play]))
    with PrometheusServer(Says(202)) as gateway:
        where = {"metrics_file": str(folder / "gpuops.prom"), "pushgateway_url": gateway.url}
        command = [
            f"{PROGRAMS}/ansible-playbook",
            str(playbook),
            "-e",
            json.dumps(where | {"metrics_labels": {"cluster": "east"}}),
        ]
        done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed(done.stdout) == []
    assert {path.name for path in folder.iterdir()} == {file for _job, file, _line in expected}
    assert [each.method for each in gateway.asked] == ["PUT"] * len(expected)
    for asked, (job, file, line) in zip(gateway.asked, expected, strict=True):
        assert asked.path == f"/metrics/job/{job}/instance/u-1"
        assert line in asked.body
        assert line in (folder / file).read_text()
