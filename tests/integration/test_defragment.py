# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""25 nodes of 8 GPUs, no whole node free, under the default scheduler: the playbooks free as many as the proved optimum."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.modules import gpu_defrag_plan
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, Object
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.sampling import Sampler
from ansible_collections.gpuops.defrag.tests.integration.environment import ENVIRONMENT, PROGRAMS, ROOT
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

COLD_START = 4
WISH: Object = {"objective": {"kind": "free_nodes"}, "limits": {"per_node": 2, "interval_seconds": 1}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane(ROOT / "build/clusters/test-defragment")
    try:
        yield plane.start()
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """The fleet, a budget over each of its workloads, and two pods that wait for a whole node each."""
    api = plane.api
    fleet.load(api, fleet.scattered(fleet.Shape(cold_start=COLD_START, seed=22)))
    fleet.guard(api, fleet.workloads(api).values())
    huge = fleet.deployment("huge", "team-a", 2, 8, cold_start=COLD_START)
    api.create("/apis/apps/v1/namespaces/team-a/deployments", huge)
    fleet.wait_settled(api)
    return api


def play(playbook: str, plane: ControlPlane, *arguments: str, **variables: Any) -> str:
    given = WISH | {"kubeconfig": str(plane.kubeconfig), "progress_seconds": 2} | variables
    done = subprocess.run(
        [f"{PROGRAMS}/ansible-playbook", f"gpuops.defrag.{playbook}", *arguments, "-e", json.dumps(given)],
        cwd=ROOT,
        env=ENVIRONMENT | {"ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml", "ANSIBLE_SHOW_CUSTOM_STATS": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\n +", " ", done.stdout)


def evictions(api: Api) -> int:
    found = api.items("/apis/events.k8s.io/v1/events")
    return sum(event["reason"] == "Defragmenting" for event in found)


def test_as_many_whole_nodes_are_freed_as_can_be_with_no_more_evictions_than_planned(
    plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = run_module(gpu_defrag_plan, capsys, kubeconfig=str(plane.kubeconfig), solver="exact", **WISH)["plan"]
    assert plan["before"]["slots"]["8"] == 0
    assert plan["before"]["blocked_pods"] == 2
    # No plan can do more: what is allocated fills this many nodes to the last GPU.
    assert len(plan["freed_nodes"]) == 25 - ceil(plan["before"]["gpus_allocated"] / 8)

    told = play("reconcile", plane, "--check", "--diff")
    assert "would be carried out" in told
    assert evictions(api) == 0

    with Sampler(api.items) as seen:
        wait_until(lambda: seen.looks, "a first look")
        step = play("reconcile", plane, solver="exact")
        first = evictions(api)
        whole = play("defragment", plane, solver="exact")
        fleet.wait_settled(api)
    assert re.search(r"gpuops_defrag_[0-9a-f_]{36}", step)
    assert first == len(plan["waves"][0])
    assert not seen.violations, "a budget was below what it asks for"
    assert seen.gap < 2
    assert re.search(r"wave \d of \d; \d+ pods moved; \d of \d nodes freed; about \d min left", whole)
    assert "DefragmentationStray" not in {event["reason"] for event in api.items("/apis/events.k8s.io/v1/events")}
    assert evictions(api) <= plan["evictions"]
    bound = [each["spec"].get("nodeName") for each in fleet.pods(api)]
    # The two pods that waited run, each on one of the nodes that were freed.
    assert None not in bound
    assert all(map(fleet.is_ready, fleet.pods(api)))
    assert 25 - len(set(bound)) == len(plan["freed_nodes"]) - 2
    after = run_module(gpu_defrag_plan, capsys, kubeconfig=str(plane.kubeconfig), solver="exact", **WISH)["plan"]
    assert after["verdict"] != "Recommended"

    again = play("defragment", plane)
    assert "changed=0" in again
