# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""25 nodes of 8 GPUs that a real Prometheus scrapes, defragmented as fast as pods may be cold; then moments that are bad.

A cold start is 3 s here and stands for 3 minutes. What else a step takes does not grow with it, so that a wave that took t
seconds stands for t - 3 + 180: see docs/tune.md, "Measured".
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.law import may_be_cold
from ansible_collections.gpuops.defrag.plugins.modules import gpu_eviction_rate
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api
from ansible_collections.gpuops.defrag.tests.cluster.monitoring import Monitoring
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.sampling import Sampler
from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

COLD_START, STANDS_FOR = 3, 180
# Whole nodes are what is wished: GPUs count as stranded at their size.
LAW: dict[str, Any] = {"profile": "balanced", "bounds": {"raise_after": "3s"}, "slot_size": 8}
# Errors of the services, as they would tell Prometheus; none as long as a test says no more.
ERRORS = "test_errors"
GUARD = {"query": ERRORS, "above": 0.5}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane(ROOT / "build/clusters/test-tuned")
    try:
        yield plane.start()
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """The fleet, and a budget over each of its workloads."""
    api = plane.api
    fleet.load(api, fleet.scattered(fleet.Shape(cold_start=COLD_START, seed=22)))
    fleet.guard(api, fleet.workloads(api).values())
    return api


@pytest.fixture(scope="module")
def monitoring(plane: ControlPlane, api: Api) -> Iterator[Monitoring]:
    found = Monitoring(ROOT / "build/clusters/test-tuned-monitoring", plane, interval=2)
    try:
        yield found.start()
    finally:
        found.stop()


Given = dict[str, Any]


@pytest.fixture(scope="module")
def given(plane: ControlPlane, monitoring: Monitoring) -> Given:
    tell_errors(monitoring, 0)
    return LAW | {
        "kubeconfig": str(plane.kubeconfig),
        "prometheus_url": monitoring.url,
        "prometheus_timeout": 2,
        "guards": [GUARD],
    }


Tick = Callable[[], dict[str, Any]]


@pytest.fixture
def tick(given: Given, capsys: pytest.CaptureFixture[str]) -> Tick:
    """One decision."""
    return lambda: run_module(gpu_eviction_rate, capsys, **given)


def tell_errors(monitoring: Monitoring, value: float) -> None:
    (monitoring.textfiles / "errors.prom").write_text(f"{ERRORS} {value}\n")
    wait_until(lambda: [found for _labels, found in monitoring.query(ERRORS)] == [value], f"{value} errors told")


def rise(api: Api, tick: Tick) -> int:
    """Decide until as many pods may go as may be cold; gives how many these are."""
    most = may_be_cold(len(fleet.pods(api)), PROFILES["balanced"])
    wait_until(lambda: tick()["limits"]["total"] == most, f"{most} at a time")
    return most


def fragment_again(api: Api) -> None:
    """Some pods leave for good."""
    fleet.thin(api, 0.7, random.Random(1))


def reasons(decision: dict[str, Any]) -> set[str]:
    return {each["reason"] for each in decision["reasons"]}


def play(
    playbook: str, given: Given, *, code: int = 0, meanwhile: Callable[[str], None] = lambda _line: None, **more: Any
) -> str:
    """What a playbook tells. ``meanwhile`` hears of each line as it comes."""
    variables = given | {"objective": {"kind": "free_nodes"}, "limits": "tuned", "progress_seconds": 1} | more
    lines = []
    with subprocess.Popen(
        [f"{PROGRAMS}/ansible-playbook", f"gpuops.defrag.{playbook}", "-e", json.dumps(variables)],
        cwd=ROOT,
        env=ENVIRONMENT | {"ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout
        for line in running.stdout:
            lines.append(line)
            meanwhile(line)
    told = "".join(lines)
    assert running.returncode == code, told
    return re.sub(r"\n +", " ", told)


def test_it_takes_hardly_longer_than_the_bound_allows_and_nothing_is_colder_than_it_may_be(
    api: Api, given: Given, tick: Tick
) -> None:
    pods = fleet.pods(api)
    allocated = sum(int(pod["spec"]["containers"][0]["resources"]["requests"][fleet.GPU]) for pod in pods)
    # No plan can free more: what is allocated fills the others to the last GPU.
    possible = 25 - ceil(allocated / 8)
    most = rise(api, tick)
    with Sampler(api.items) as seen:
        wait_until(lambda: seen.looks, "a first look")
        began = time.monotonic()
        told = play("defragment", given)
    waves = [int(moved) for moved in re.findall(r"; (\d+) pods moved, \d+ landed", told) if moved != "0"]
    freed = 25 - len({pod["spec"]["nodeName"] for pod in fleet.pods(api)})
    took = seen.cold_until - began + len(waves) * (STANDS_FOR - COLD_START)
    least = sum(waves) * STANDS_FOR / most
    print(f"{freed} of {possible} nodes, waves {waves}, {took:.0f} s, least {least:.0f} s, ratio {took / least:.2f}")
    assert freed >= 0.9 * possible
    assert 0 < seen.coldest <= most
    assert not seen.violations, "a budget was below what it asks for"
    assert seen.gap < 2
    assert took <= 1.3 * least


def test_a_guard_that_fires_halves_the_rate_at_once_and_ends_in_a_pause(api: Api, monitoring: Monitoring, tick: Tick) -> None:
    fragment_again(api)
    most = rise(api, tick)
    tell_errors(monitoring, 1)
    first = tick()
    assert first["action"] in ("back_off", "pause")
    assert first["limits"]["total"] == most // 2
    assert first["reasons"][0] == {"reason": "GuardFires", "detail": f"{ERRORS}: 1 is above 0.5"}
    wait_until(lambda: tick()["action"] == "pause", "a pause")
    tell_errors(monitoring, 0)
    rise(api, tick)


def test_without_prometheus_it_goes_on_one_by_one_and_comes_back(api: Api, monitoring: Monitoring, tick: Tick) -> None:
    most = rise(api, tick)
    monitoring.kill("prometheus")
    first = tick()
    assert first["action"] == "back_off"
    assert first["limits"]["total"] == max(1, most // 2)
    assert all("cannot be reached" in each["detail"] for each in first["reasons"])
    monitoring.run("prometheus")
    rise(api, tick)


def test_replacements_that_do_not_get_ready_end_the_wave_and_stop_the_rate_until_they_are(
    plane: ControlPlane, api: Api, given: Given, tick: Tick
) -> None:
    most = rise(api, tick)
    # Nobody starts the pods that come.
    plane.kill("kwok")
    told = play("reconcile", given, code=2, ready_timeout="15s", cool_down="1s")
    assert f"{most} pods moved, 0 landed as planned, 0 elsewhere, {most} not Ready in time" in told
    first = tick()
    assert first["action"] == "pause"
    assert reasons(first) >= {"Unready", "PodsCold"}
    assert first["state"]["level"] == most // 2
    plane.run("kwok")
    fleet.wait_settled(api)
    rise(api, tick)


def test_while_nothing_may_go_a_run_waits_and_then_goes_on(api: Api, given: Given) -> None:
    def pause(value: str | None) -> None:
        api.patch("/api/v1/namespaces/kube-system", {"metadata": {"annotations": {"gpuops.io/pause": value}}})

    pause("launch")
    told = play(
        "defragment",
        given,
        meanwhile=lambda line: pause(None) if "pause: 0 pods" in line else None,
        max_steps=2,
        solver="heuristic",
    )
    moved = list(map(int, re.findall(r"; (\d+) pods moved, \d+ landed", told)))
    assert len(moved) == 2
    assert moved[0] == 0 < moved[1]
