# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command of the README and the guides, run in the order of its page, against a live cluster, as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.descheduler import copy_chart
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.integration.environment import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What begins like this is run by another test, or not at all, for the reason given.
ELSEWHERE = {
    "make test": "is what runs this",
    "ansible-galaxy collection install git+": "the stage galaxy installs the archive",
    "ansible-builder build": "needs a container engine; test_awx.py has the same file accepted",
    "ansible-playbook build/awx.yml": "needs a controller; tests/unit/extensions/test_awx.py reads the same file",
    "ansible-rulebook": "test_rulebook.py runs it",
    "ansible-playbook gpuops.defrag.defragment -e": "waits 5 minutes between waves; test_defragment.py runs it without",
    "ansible-playbook gpuops.defrag.audit -i build/clusters.yml": "test_fleet.py has clusters for it",
    "ansible-playbook gpuops.defrag.plan -i build/clusters.yml": "test_fleet.py has clusters for it",
    "ansible-playbook gpuops.defrag.deploy -i build/clusters.yml": "test_fleet.py has clusters for it",
    "ansible-playbook gpuops.defrag.reconcile -i build/clusters.yml": "test_fleet.py has clusters for it",
}
FILE = re.compile(r"^```yaml\n# (\S+\.ya?ml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```shell\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The chart's repository is out of reach here: helm is told of a copy of the chart.
HELM = """#!{python}
import os, sys
words = [word for word in sys.argv[1:] if not word.startswith("--repo=")]
if len(words) < len(sys.argv) - 1:
    # The release may have the same name; the chart comes after it.
    words[len(words) - 1 - words[::-1].index("descheduler")] = "{chart}"
os.execv("{helm}", ["{helm}", *words])
"""


def commands(page: Path) -> list[str]:
    """The commands of a page that are run here, each on one line."""
    blocks = "".join(SHELL.findall(page.read_text())).replace("\\\n", " ")
    return [line for line in blocks.splitlines() if line.strip() and not line.startswith(tuple(ELSEWHERE))]


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A fragmented cluster with the services that the guide names."""
    started = ControlPlane(ROOT / "build/clusters/test-documented")
    try:
        api = started.start().api
        fleet.add_nodes(api, [fleet.node(f"gpu-{number:02}", 8, product="A100") for number in range(10)])
        for namespace, name, replicas, gpus in (
            ("serving", "llm-70b", 3, 2),
            ("research", "long-run", 1, 1),
            ("web", "small", 8, 1),
        ):
            api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", fleet.deployment(name, namespace, replicas, gpus))
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "production"}, "value": 1000})
        wait_until(lambda: sum(map(fleet.is_ready, fleet.pods(api))) == 12, "12 pods Ready")
        yield started
    finally:
        started.stop()


@pytest.fixture
def place(tmp_path: Path, plane: ControlPlane) -> Path:
    """What a clone of the repository is after `make setup`, with a home whose kubeconfig leads to the cluster."""
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "build").mkdir()
    (tmp_path / "home/.kube").mkdir(parents=True)
    shutil.copy(plane.kubeconfig, tmp_path / "home/.kube/config")
    chart = copy_chart(tmp_path / "home/chart", "0.36.0")
    helm = tmp_path / "home/bin/helm"
    helm.parent.mkdir()
    helm.write_text(HELM.format(python=sys.executable, chart=chart, helm=programs() / "helm"))
    helm.chmod(0o755)
    return tmp_path


def run(place: Path, command: str) -> None:
    path = os.pathsep.join([str(place / "home/bin"), str(ROOT / ".venv/bin"), str(programs()), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(place / "home"), "LANG": "C.UTF-8"}
    done = subprocess.run(
        command, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_work_in_their_order(page: Path, place: Path) -> None:
    for name, content in FILE.findall(page.read_text()):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    (place / "cluster.json").write_text(json.dumps({"kind": "List", "items": []}))
    for command in commands(page):
        run(place, command)


def test_what_is_run_elsewhere_is_still_told() -> None:
    told = "\n".join(line for page in PAGES for line in "".join(SHELL.findall(page.read_text())).splitlines())
    assert [start for start in ELSEWHERE if not re.search(rf"^{re.escape(start)}", told, re.MULTILINE)] == []
