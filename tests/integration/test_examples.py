# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EXAMPLES of every module and filter, run as they stand: copied out of ansible-doc, they work."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, ROOT

MODULES = sorted(file.stem for file in (ROOT / "plugins/modules").glob("[!_]*.py"))
FILTERS = sorted(file.stem for file in (ROOT / "plugins/filter").glob("*.yml"))


def examples(name: str) -> list[dict[str, Any]]:
    """The tasks of a plugin's EXAMPLES, but for those that need a live cluster or a Prometheus: molecule has them."""
    if name in MODULES:
        text = import_module(f"ansible_collections.gpuops.defrag.plugins.modules.{name}").EXAMPLES
    else:
        text = yaml.safe_load((ROOT / f"plugins/filter/{name}.yml").read_text())["EXAMPLES"]
    tasks: list[dict[str, Any]] = yaml.safe_load(text)
    return [task for task in tasks if "kubeconfig" not in str(task) and "prometheus_url" not in str(task)]


def status() -> str:
    """What git sees changed among the files that examples read."""
    return subprocess.run(
        ["git", "status", "--porcelain", "examples"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("name", [*MODULES, *FILTERS])
def test_every_task_of_the_examples_succeeds_and_writes_below_build_alone(tmp_path: Path, name: str) -> None:
    # Relative paths of a playbook start from its folder. This one looks like the root and is not littered when one fails.
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "build").mkdir()
    playbook = tmp_path / "playbook.yml"
    tasks = examples(name)
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    before = status()

    command = [".venv/bin/ansible-playbook", str(playbook)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.findall(r"\b(ok|failed|skipped|ignored)=(\d+)", done.stdout) == [
        ("ok", str(len(tasks))),
        ("failed", "0"),
        ("skipped", "0"),
        ("ignored", "0"),
    ], said
    assert "WARNING" not in said, said
    assert {path.name for path in tmp_path.iterdir()} == {"build", "examples", "playbook.yml"}
    assert status() == before
