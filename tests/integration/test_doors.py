# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every door of the collection opens for someone who has only run `make setup`, from the repository root."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.filter.grafana_dashboard import grafana_dashboard
from ansible_collections.gpuops.defrag.plugins.filter.prometheus_rules import prometheus_rules
from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT

EXAMPLE = ROOT / "examples/gpu200-1.json.gz"


def ansible(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [f"{PROGRAMS}/{program}", *arguments], cwd=ROOT, env=ENVIRONMENT, text=True, capture_output=True, check=False, timeout=120
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def ad_hoc(module: str, arguments: str, *options: str) -> subprocess.CompletedProcess[str]:
    return ansible("ansible", "localhost", "-m", f"gpuops.defrag.{module}", "-a", arguments, *options)


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the module returned, from `localhost | SUCCESS => …`, which ansible.cfg makes YAML."""
    found = yaml.safe_load(done.stdout.partition("=>")[2])
    assert isinstance(found, dict), said(done)
    return found


def plugins(kind: str) -> list[str]:
    """The names of the plugins of a kind, whether documented in the code or in a file beside it."""
    return sorted({path.stem for path in (ROOT / f"plugins/{kind}").glob("*.*") if path.suffix in (".py", ".yml")})


def audit(report_dir: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return ansible("ansible-playbook", "gpuops.defrag.audit", "-e", f"src={EXAMPLE}", "-e", f"report_dir={report_dir}", *options)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tasks of a playbook run changed something, from its recap."""
    (count,) = re.findall(r"changed=(\d+)", done.stdout)
    return int(count)


def test_an_ad_hoc_call_measures_the_example() -> None:
    done = ad_hoc("gpu_fragmentation_info", f"src={EXAMPLE}")
    assert done.returncode == 0, said(done)
    assert result(done)["changed"] is False
    measured = result(done)["fragmentation"]
    assert (measured["gpus_total"], measured["gpus_allocated"], measured["gpus_free"]) == (200, 135, 65)


def test_the_same_call_twice_gives_the_same_bytes() -> None:
    first, second = (ad_hoc("gpu_fragmentation_info", f"src={EXAMPLE}") for run in ("first", "second"))
    assert first.stdout == second.stdout


def test_a_missing_file_is_one_clear_error_without_a_traceback() -> None:
    done = ad_hoc("gpu_fragmentation_info", "src=examples/no-such-file.json")
    assert done.returncode != 0
    assert "no-such-file.json" in said(done)
    assert "Traceback" not in said(done)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("modules", "filter") for name in plugins(kind)], ids=lambda value: value
)
def test_ansible_doc_explains_every_plugin_with_examples(kind: str, name: str) -> None:
    done = ansible("ansible-doc", "--type", kind.removesuffix("s"), "--json", f"gpuops.defrag.{name}")
    assert done.returncode == 0, said(done)
    described = json.loads(done.stdout)[f"gpuops.defrag.{name}"]
    assert described["doc"]["short_description"]
    assert f"gpuops.defrag.{name}" in described["examples"]
    assert described["return"]


def test_the_audit_writes_a_report_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first = audit(tmp_path)
    assert first.returncode == 0, said(first)
    assert changed(first) > 0
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {Path(name).suffix for name in written} >= {".html", ".json"}

    second = audit(tmp_path)
    assert second.returncode == 0, said(second)
    assert changed(second) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == written


def test_the_audit_in_check_mode_writes_nothing(tmp_path: Path) -> None:
    done = audit(tmp_path / "report", "--check")
    assert done.returncode == 0, said(done)
    assert not (tmp_path / "report").exists()


def test_a_snapshot_of_the_example_measures_the_same_and_is_written_once(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json.gz"
    first, second = (ad_hoc("gpu_snapshot", f"src={EXAMPLE} dest={snapshot}") for run in ("first", "second"))
    assert result(first)["changed"] is True
    assert result(second)["changed"] is False
    whole, kept = (result(ad_hoc("gpu_fragmentation_info", f"src={src}"))["fragmentation"] for src in (EXAMPLE, snapshot))
    assert kept == whole


def test_rules_and_dashboard_are_written_without_a_cluster_and_keep_their_templates(tmp_path: Path) -> None:
    files = {"monitoring_rules": "none", "monitoring_dashboard": "none", "monitoring_output": str(tmp_path / "rules")}
    playbook = tmp_path / "playbook.yml"
    roles = [{"role": "gpuops.defrag.monitoring", "vars": files}]
    playbook.write_text(json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "roles": roles}]))
    first, second = (ansible("ansible-playbook", str(playbook)) for run in ("first", "second"))
    assert first.returncode == 0, said(first)
    assert (changed(first), changed(second)) == (2, 0)
    rules = yaml.safe_load((tmp_path / "rules/gpuops-defrag.rules.yml").read_text())
    board = json.loads((tmp_path / "rules/gpuops-defrag.dashboard.json").read_text())
    assert rules == prometheus_rules(
        {"runbook_url": rules["groups"][1]["rules"][0]["annotations"]["runbook_url"].partition("#")[0]}
    )
    assert board == grafana_dashboard({})
