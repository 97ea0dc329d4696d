# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves on a real control plane, whose scheduler spreads: all lands as planned, and whatever goes wrong, nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live import actions, lease
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.waiting import POLL
from ansible_collections.gpuops.defrag.plugins.modules import gpu_defrag, gpu_defrag_plan
from ansible_collections.gpuops.defrag.tests.cluster import fleet
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, ApiError, Object, all_at_once
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs
from ansible_collections.gpuops.defrag.tests.unit.builders import budget, pod
from ansible_collections.gpuops.defrag.tests.unit.running import SOON, run_module

ROOT = Path(__file__).resolve().parents[2]
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
SETS, DEPLOYMENTS = "/apis/apps/v1/namespaces/default/replicasets", "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpuops-defrag"
STATE = "/api/v1/namespaces/kube-system/configmaps/gpuops-defrag"
TAINT, EVICT, MARK = "gpuops.io/defrag", "gpuops.io/evict", "gpuops.io/reclaimable"
COST = "controller.kubernetes.io/pod-deletion-cost"
# Workload by workload: GPUs of a pod, and where its pods are. Three of the six nodes can be emptied.
LAYOUT = {"big": (4, "n0 n1"), "mid": (2, "n2 n3 n4"), "low": (1, "n1 n5 n3")}
NEEDED = {"big": 1, "mid": 2, "low": 2}
WISH: Object = {"objective": {"kind": "free_nodes"}, "limits": {"per_node": 2, "interval_seconds": 1}, "solver": "heuristic"}
COLD_START = 2
BEFORE = {f"{app}-{home}" for app, (_size, homes) in LAYOUT.items() for home in homes.split()}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane(ROOT / "build/clusters/test-carry-out")
    try:
        yield plane.start()
    finally:
        plane.stop()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", SOON)


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """The cluster of LAYOUT, each pod where it says, guarded by budgets."""
    api = plane.api
    held = [
        pod(f"{app}-{home}", size, home, owner=f"ReplicaSet/{app}", labels={"app": app}, requests={"cpu": "1"})
        for app, (size, homes) in LAYOUT.items()
        for home in homes.split()
    ]
    for each in held:
        amounts = each["spec"]["containers"][0]["resources"]["requests"]
        each["spec"]["containers"][0] |= {"image": "example/llm", "resources": {"requests": amounts, "limits": amounts}}
    fleet.load(api, [*(fleet.node(f"n{number}", 8) for number in range(6)), *held], cold_start=COLD_START)
    for app, needed in NEEDED.items():
        api.create(BUDGETS, {"apiVersion": "policy/v1"} | budget(app, {"app": app}, minAvailable=needed))
    wait_counted(api)
    yield api
    at_once = {"gracePeriodSeconds": 0}
    for kind in (DEPLOYMENTS, SETS, BUDGETS, PODS):
        all_at_once(lambda each, kind=kind: forget(api, f"{kind}/{each['metadata']['name']}", at_once), api.items(kind))  # type: ignore[misc]
    wait_until(lambda: not api.items(PODS), "pods gone")
    all_at_once(lambda each: forget(api, f"{NODES}/{each['metadata']['name']}"), api.items(NODES))
    for path in (LEASE, STATE):
        forget(api, path)


def forget(api: Api, path: str, body: Any = None) -> None:
    try:
        api.delete(path, body)
    except ApiError as error:
        if error.status != 404:
            raise


def wait_counted(api: Api) -> None:
    """Wait until the disruption controller has counted all pods as healthy.

    An eviction that is cut off half-way is held against the budget for two minutes, though its pod stays: not waited for.
    """
    stay = {pod["metadata"]["name"] for pod in fleet.pods(api) if not pod["metadata"].get("deletionTimestamp")}
    for each in api.items(BUDGETS):
        if held := each.get("status", {}).get("disruptedPods", {}).keys() & stay:
            gone = {"status": {"disruptedPods": dict.fromkeys(held)}}
            api.patch(f"{BUDGETS}/{each['metadata']['name']}/status", gone)

    def counted() -> bool:
        found = [each.get("status", {}) for each in api.items(BUDGETS)]
        return all(
            status.get("currentHealthy") == status.get("expectedPods") != 0 and not status.get("disruptedPods")
            for status in found
        )

    wait_until(counted, "budgets counted", seconds=150)


def made(plane: ControlPlane, capsys: pytest.CaptureFixture[str], **wish: Any) -> Object:
    wait_counted(plane.api)
    given = WISH | {"kubeconfig": str(plane.kubeconfig)} | wish
    found: Object = run_module(gpu_defrag_plan, capsys, **given)["plan"]
    return found


def carry_out(plane: ControlPlane, capsys: pytest.CaptureFixture[str], plan: Object, **given: Any) -> Object:
    return run_module(gpu_defrag, capsys, plan=plan, **({"kubeconfig": str(plane.kubeconfig)} | given))


def finish(plane: ControlPlane, capsys: pytest.CaptureFixture[str], wish: Object | None = None, **given: Any) -> list[Object]:
    """Plan and carry out waves until there is nothing more to do."""
    found: list[Object] = []
    while not found or found[-1]["verdict"] in ("Recommended", "TooSoon"):
        assert len(found) < 15
        found.append(carry_out(plane, capsys, made(plane, capsys, **(wish or {})), **given))
    return found


@contextmanager
def started(plane: ControlPlane, plan: Object, *, lasting: int = SOON, **given: Any) -> Iterator[subprocess.Popen[str]]:
    """The module as a process of its own, whose Lease runs out after so many seconds."""
    arguments = json.dumps({"plan": plan, "kubeconfig": str(plane.kubeconfig), **given})
    run = "ansible_collections.gpuops.defrag.tests.unit.running"
    command = [sys.executable, "-m", run, "gpu_defrag", arguments, str(lasting)]
    path = {"PYTHONPATH": str(ROOT / ".venv/collections"), "PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    with subprocess.Popen(command, env=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def result(process: subprocess.Popen[str]) -> Object:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    found: Object = json.loads(out)
    return found


class Watcher(threading.Thread):
    """Counts Ready pods by app, again and again, and keeps the least."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self.api, self.least, self.looks, self.over = api, dict[str, int](), 0, threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            found = [
                each for each in self.api.items(PODS) if fleet.is_ready(each) and "app" in each["metadata"].get("labels", {})
            ]
            for app in {each["metadata"]["labels"]["app"] for each in found} | self.least.keys():
                number = sum(each["metadata"]["labels"]["app"] == app for each in found)
                self.least[app] = min(number, self.least.get(app, number))
            self.looks += 1
            self.over.wait(0.05)


@pytest.fixture
def watched(api: Api) -> Iterator[Watcher]:
    watcher = Watcher(api)
    watcher.start()
    yield watcher
    watcher.over.set()
    watcher.join()


def occupied(api: Api) -> set[str]:
    return {each["spec"].get("nodeName", "") for each in fleet.pods(api)}


def tainted(api: Api) -> list[str]:
    return [n["metadata"]["name"] for n in api.items(NODES) for t in n["spec"].get("taints", ()) if t["key"] == TAINT]


def check_clean(api: Api) -> None:
    """Nothing of ours is left but marks of empty nodes, and all pods are there and Ready."""
    assert tainted(api) == []
    assert not [
        p for p in api.items(PODS) if EVICT in p["metadata"].get("labels", {}) or COST in p["metadata"].get("annotations", {})
    ]
    assert not api.get(LEASE)["spec"].get("holderIdentity")
    assert json.loads(api.get(STATE)["data"]["state.json"])["run"] is None

    def whole() -> bool:
        ready = [each for each in fleet.pods(api) if fleet.is_ready(each)]
        wanted = sum(each["spec"]["replicas"] for each in api.items(SETS))
        return bool(len(ready) == len(fleet.pods(api)) == wanted)

    wait_until(whole, "all pods Ready")


def test_nodes_are_freed_as_planned_and_a_second_run_changes_nothing(
    plane: ControlPlane, api: Api, watched: Watcher, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    assert len(plan["freed_nodes"]) == 3
    told = run_module(gpu_defrag, capsys, check=True, diff=True, plan=plan, kubeconfig=str(plane.kubeconfig))
    assert (told["changed"], told["wave"], len(told["evicted"])) == (True, 1, len(plan["waves"][0]))
    assert TAINT in str(told["diff"])
    assert not api.answers(STATE)
    assert tainted(api) == []
    done: list[Object] = []
    while not done or not done[-1]["done"]:
        done.append(carry_out(plane, capsys, plan))
        if done[-1]["verdict"] == "TooSoon":
            done.pop()
        else:
            assert done[-1]["verdict"] == "Recommended", done[-1]
    assert sum(len(each["landed"]) for each in done) == plan["evictions"]
    assert not [stray for each in done for stray in each["strays"]]
    assert done[-1]["realized"]["freed_nodes"] == plan["freed_nodes"]
    assert occupied(api) == {f"n{number}" for number in range(6)} - set(plan["freed_nodes"])
    marked = {n["metadata"]["name"] for n in api.items(NODES) if n["metadata"]["labels"].get(MARK) == "true"}
    assert marked == set(plan["freed_nodes"])
    assert watched.looks > 20
    assert all(watched.least[app] >= needed for app, needed in NEEDED.items())
    reasons = {event["reason"] for event in api.items("/apis/events.k8s.io/v1/namespaces/default/events")}
    assert {"Defragmenting", "Defragmented", "Reclaimable"} <= reasons
    again = carry_out(plane, capsys, plan)
    assert (again["changed"], again["done"], again["nodes_written"]) == (False, True, 0)
    after = carry_out(plane, capsys, made(plane, capsys))
    assert (after["changed"], after["verdict"]) == (False, "Blocked")
    check_clean(api)


# Killed.

STAGES: dict[str, Callable[[Api], bool]] = {
    "with the Lease": lambda api: api.answers(LEASE),
    "while steering": lambda api: bool(tainted(api)),
    "with moves noted": lambda api: api.answers(STATE) and '"flights":[{' in api.get(STATE)["data"]["state.json"],
    "after an eviction": lambda api: len({p["metadata"]["name"] for p in fleet.pods(api)} & BEFORE) < len(BEFORE),
    "while pods start": lambda api: any(p["spec"].get("nodeName") and not fleet.is_ready(p) for p in fleet.pods(api)),
}


@pytest.mark.parametrize("stage", STAGES)
def test_killed_and_started_again(
    stage: str, plane: ControlPlane, api: Api, watched: Watcher, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    with started(plane, plan) as process:
        wait_until(lambda: STAGES[stage](api), stage, alive=lambda: process.poll() is None)
        process.kill()
        process.wait()

    def over() -> bool:
        return str(carry_out(plane, capsys, plan)["verdict"]) != "Locked"

    wait_until(over, "the Lease has run out")
    finish(plane, capsys)
    check_clean(api)
    assert len(occupied(api)) == 3
    assert all(watched.least[app] >= needed for app, needed in NEEDED.items())


def test_ended_politely_it_cleans_up_itself(plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    with started(plane, made(plane, capsys)) as process:
        wait_until(lambda: tainted(api), "steering", alive=lambda: process.poll() is None)
        process.terminate()
        process.wait()
    assert tainted(api) == []
    assert not api.get(LEASE)["spec"].get("holderIdentity")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda by: by.name)
def test_a_wave_does_not_outlive_its_playbook(by: signal.Signals, plane: ControlPlane, api: Api) -> None:
    wait_counted(api)
    given = json.dumps(WISH | {"kubeconfig": str(plane.kubeconfig), "progress_seconds": 1})
    # What is started in the background may have been told to ignore SIGINT.
    heeding = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    program = f"{ROOT}/.venv/bin/ansible-playbook"
    command = [sys.executable, "-c", heeding, program, "gpuops.defrag.reconcile", "-e", given]
    # Nobody binds the pods that come: however slow the machine is, the wave is not over before the signal is heeded.
    plane.kill("scheduler")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: STAGES["after an eviction"](api), "an eviction", alive=lambda: process.poll() is None)
            process.send_signal(by)
            process.wait(10)
        finally:
            process.kill()
            plane.run("scheduler")
    wait_until(lambda: not api.get(LEASE)["spec"].get("holderIdentity"), "the Lease is given back", seconds=10)
    assert tainted(api) == []
    assert json.loads(api.get(STATE)["data"]["state.json"])["run"]["flights"]
    moved = len(BEFORE - {pod["metadata"]["name"] for pod in fleet.pods(api)})
    assert 0 < moved < 4


def test_of_two_runs_at_once_one_is_locked_out(plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    plan = made(plane, capsys)
    with started(plane, plan, lasting=30) as process:
        wait_until(lambda: api.answers(LEASE), "the Lease is held", alive=lambda: process.poll() is None)
        second = carry_out(plane, capsys, plan)
        assert (second["verdict"], second["changed"]) == ("Locked", False)
        first = result(process)
    assert first["verdict"] == "Recommended"
    check_clean(api)


def test_the_api_server_may_be_restarted_in_the_middle(plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    plan = made(plane, capsys)
    # Nothing comes for the pod that leaves first before the server is there again: it is between two steps that it is away.
    plane.kill("controllers")
    with started(plane, plan) as process:
        wait_until(lambda: STAGES["after an eviction"](api), "an eviction", alive=lambda: process.poll() is None)
        plane.kill("api")
        # Longer than the run waits between two looks, so that it meets nobody at one of them.
        time.sleep(2 * POLL)
        plane.run("api")
        wait_until(api.answers, "API server ready again")
        plane.run("controllers")
        found = result(process)
    # The Lease may have run out meanwhile, but nobody else took it.
    assert found["verdict"] == "Recommended", found["reasons"]
    assert not found["strays"]
    check_clean(api)


# The cluster has changed since the plan was made.


def fill(api: Api, plan: Object) -> None:
    for number, node in enumerate({move["to"] for wave in plan["waves"] for move in wave}):
        amounts = {"cpu": "1", fleet.GPU: "2"}
        container = {"name": "main", "image": "example/llm", "resources": {"requests": amounts, "limits": amounts}}
        spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
        for copy in range(4):
            name = f"filler-{number}-{copy}"
            try:
                api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
            except ApiError:
                break


def cordon(api: Api, plan: Object) -> None:
    for move in plan["waves"][0]:
        api.patch(f"{NODES}/{move['to']}", {"spec": {"unschedulable": True}})


def remove(api: Api, plan: Object) -> None:
    gone = plan["waves"][0][0]["to"]
    api.delete(f"{NODES}/{gone}")


def forbid(api: Api, plan: Object) -> None:
    for app in NEEDED:
        api.patch(f"{BUDGETS}/{app}", {"spec": {"minAvailable": "100%"}})
    wait_until(lambda: not any(each["status"]["disruptionsAllowed"] for each in api.items(BUDGETS)), "budgets of 0")


def age(api: Api, plan: Object) -> None:
    plan["as_of"] = "2020-01-01T00:00:00Z"


def restart(api: Api, plan: Object) -> None:
    gone = {move["pod"] for move in plan["waves"][0]}
    for name in gone:
        api.delete(f"{PODS}/{name}")

    def replaced() -> bool:
        found = fleet.pods(api)
        names = {pod["metadata"]["name"] for pod in found}
        return len(found) == len(BEFORE) and not gone & names and all(map(fleet.is_ready, found))

    wait_until(replaced, "other pods in their place")


CHANGES: dict[str, tuple[str, Callable[[Api, Object], None]]] = {
    "a destination filled": ("NoRoom", fill),
    "a destination cordoned": ("DestinationClosed", cordon),
    "a destination gone": ("DestinationGone", remove),
    "a budget that turned to 0": ("BudgetExhausted", forbid),
    "a plan from long ago": ("TooOld", age),
    "pods that were restarted": ("PodGone", restart),
}


@pytest.mark.parametrize(("reason", "change"), CHANGES.values(), ids=CHANGES)
def test_a_plan_that_no_longer_holds_is_stale_and_nothing_is_evicted(
    reason: str, change: Callable[[Api, Object], None], plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    change(api, plan)
    before = {each["metadata"]["uid"] for each in fleet.pods(api)}
    found = carry_out(plane, capsys, plan)
    assert (found["verdict"], found["evicted"]) == ("StalePlan", [])
    assert reason in {each["reason"] for each in found["reasons"]}
    assert {each["metadata"]["uid"] for each in fleet.pods(api)} == before
    assert tainted(api) == []


# What goes wrong while it is at work.


def test_an_eviction_that_stays_forbidden_is_given_up(
    plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made(plane, capsys)
    read = actions.LiveActions.read

    def late(live: Any) -> Any:
        found = read(live)
        forbid(api, plan)
        return found

    monkeypatch.setattr(actions.LiveActions, "read", late)
    found = carry_out(plane, capsys, plan, evict_timeout="3s")
    assert (found["verdict"], found["evicted"]) == ("BudgetExhausted", [])
    assert "disruption budget" in found["reasons"][0]["detail"]
    check_clean(api)


def test_a_pod_that_never_gets_ready_ends_the_run_and_its_workload_is_left_alone(
    plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    broken = {"test.gpuops.io/unready": "true"}
    for app in LAYOUT:
        api.patch(f"{SETS}/{app}", {"spec": {"template": {"metadata": {"annotations": broken}}}})
    found = carry_out(plane, capsys, plan, ready_timeout="5s")
    assert found["verdict"] == "NotReady"
    assert {each["status"] for each in found["unready"]} == {"TimedOut"}
    assert tainted(api) == []
    unready = {each["owner"] for each in found["unready"]}
    for each in fleet.pods(api):
        api.patch(f"{PODS}/{each['metadata']['name']}", {"metadata": {"annotations": {"test.gpuops.io/unready": None}}})
    wait_until(lambda: all(map(fleet.is_ready, fleet.pods(api))), "Ready at last")
    again = made(plane, capsys)
    assert not unready & {move["owner"] for wave in again["waves"] for move in wave}
    assert "CoolingDown" in {each["reason"] for each in again["skipped"]}


def test_a_descheduler_that_evicts_nothing_is_given_up(plane: ControlPlane, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    found = carry_out(plane, capsys, made(plane, capsys), actuator="descheduler", evict_timeout="3s")
    assert (found["verdict"], found["evicted"]) == ("NotEvicted", [])
    check_clean(api)


POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "gpuops-planned",
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": {"labelSelector": {"matchLabels": {EVICT: "true"}}}},
                {
                    "name": "PodLifeTime",
                    "args": {"maxPodLifeTimeSeconds": 1, "labelSelector": {"matchLabels": {EVICT: "true"}}},
                },
            ],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }
    ],
}


def test_the_real_descheduler_evicts_what_is_labelled(
    plane: ControlPlane, api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    command = [programs() / "descheduler", "--policy-config-file", policy, "--kubeconfig", plane.kubeconfig, "--secure-port=0"]
    command += ["--descheduling-interval=1s"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(list(map(str, command)), stdout=log, stderr=log) as process:
        try:
            found = carry_out(plane, capsys, plan, actuator="descheduler", evict_timeout="30s")
        finally:
            process.kill()
    assert found["verdict"] == "Recommended", (found, (tmp_path / "log").read_text()[-2000:])
    assert {each["by"] for each in found["evicted"]} == {"descheduler"}
    assert len(found["landed"]) == len(plan["waves"][0])
    check_clean(api)


def test_a_scheduler_that_ignores_soft_taints_is_noticed(
    plane: ControlPlane, api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys)
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.folder / "scheduler.kubeconfig")},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": [{"name": "TaintToleration"}]}}},
        ],
    }
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(configuration))
    plane.schedule_by(path)
    try:
        found = carry_out(plane, capsys, plan)
    finally:
        plane.schedule_by(None)
    assert found["verdict"] == "Strays"
    assert found["strays"]
    check_clean(api)


# Make before break.


@pytest.fixture
def solo(api: Api) -> str:
    """A Deployment of one replica on a node of its own, with a budget that lets nothing be evicted; the node."""
    others = [each["metadata"]["name"] for each in api.items(NODES)]
    fleet.add_nodes(api, [fleet.node("n6", 8)])
    for closed in (True, False):
        for name in others:
            api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": closed}})
        if closed:
            api.create(DEPLOYMENTS, fleet.deployment("solo", "default", 1, 1, cold_start=COLD_START))
            wait_until(lambda: "n6" in occupied(api) and all(map(fleet.is_ready, fleet.pods(api))), "solo is Ready on n6")
    api.create(BUDGETS, {"apiVersion": "policy/v1"} | budget("solo", {"app": "solo"}, minAvailable=1))
    wait_until(lambda: not any(tainted(api)) and not closed_nodes(api), "nodes open again")
    return "n6"


def closed_nodes(api: Api) -> list[str]:
    return [n["metadata"]["name"] for n in api.items(NODES) if n["spec"].get("unschedulable") or n["spec"].get("taints")]


SURGE: Object = {"make_before_break": ["default/solo"]}


def test_the_only_replica_moves_and_is_never_away(
    plane: ControlPlane, api: Api, solo: str, watched: Watcher, capsys: pytest.CaptureFixture[str]
) -> None:
    assert solo not in made(plane, capsys)["freed_nodes"]
    found = finish(plane, capsys, SURGE)
    assert {each["by"] for step in found for each in step["evicted"] if each["pod"].startswith("solo")} == {"surge"}
    assert solo not in occupied(api)
    assert watched.least["solo"] == 1
    assert watched.looks > 20
    assert api.get(f"{DEPLOYMENTS}/solo")["spec"]["replicas"] == 1
    check_clean(api)


def test_killed_with_a_replica_more_it_is_given_back(
    plane: ControlPlane, api: Api, solo: str, watched: Watcher, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = made(plane, capsys, **SURGE)
    plan["waves"] = [[move] for wave in plan["waves"] for move in wave if move["pod"].startswith("solo")]
    with started(plane, plan) as process:
        more = f"{DEPLOYMENTS}/solo"
        wait_until(lambda: api.get(more)["spec"]["replicas"] == 2, "one more", alive=lambda: process.poll() is None)
        process.kill()
        process.wait()
    wait_until(lambda: carry_out(plane, capsys, plan)["verdict"] != "Locked", "the Lease has run out")
    assert api.get(more)["spec"]["replicas"] == 1
    wait_until(lambda: len([p for p in fleet.pods(api) if p["metadata"]["labels"]["app"] == "solo"]) == 1, "one solo")
    assert watched.least["solo"] == 1
    assert solo not in occupied(api)
    check_clean(api)


def test_what_an_autoscaler_scales_is_refused(
    plane: ControlPlane, api: Api, solo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "solo"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1}
    api.create(
        scaler, {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "solo"}, "spec": spec}
    )
    plan = made(plane, capsys, **SURGE)
    plan["waves"] = [[move] for wave in plan["waves"] for move in wave if move["pod"].startswith("solo")]
    found = carry_out(plane, capsys, plan)
    api.delete(f"{scaler}/solo")
    assert (found["verdict"], found["reasons"][0]["reason"]) == ("StalePlan", "MakeBeforeBreakRefused")
    assert solo in occupied(api)
    check_clean(api)


# Rights.


def token(api: Api, *files: str) -> str:
    """A token of an account with the rights of these files and no others."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    if not api.answers(f"{accounts}/operator"):
        api.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}})
    group = "/apis/rbac.authorization.k8s.io/v1"
    for file in files:
        found = yaml.safe_load((ROOT / "policies/rbac" / file).read_text())
        for each in found.get("items", [found]):
            name, space = each["metadata"]["name"], each["metadata"].get("namespace")
            kind = f"{group}/namespaces/{space}/" if space else f"{group}/"
            plural = f"{each['kind'].lower()}s"
            api.apply(f"{kind}{plural}/{name}", each)
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": f"{each['kind']}Binding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": each["kind"], "name": name},
                "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "operator"}],
            }
            api.apply(f"{kind}{each['kind'].lower()}bindings/{name}", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(api.create(f"{accounts}/operator/token", request)["status"]["token"])


def test_the_rights_of_the_operator_are_enough_and_those_of_the_reader_are_not(
    plane: ControlPlane, api: Api, solo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reach: Object = {"kubeconfig": None, "host": plane.url, "ca_cert": str(plane.authority)}
    reader = reach | {"api_key": token(api, "reader.yaml")}
    plan = made(plane, capsys, **SURGE, **reader)
    refused = run_module(gpu_defrag, capsys, code=1, plan=plan, **reader)
    assert "leases" in refused["msg"]
    assert "policies/rbac/operator.yaml" in refused["msg"]
    operator = reach | {"api_key": token(api, "reader.yaml", "operator.yaml")}
    found: list[Object] = []
    while not found or found[-1]["verdict"] in ("Recommended", "TooSoon"):
        found.append(carry_out(plane, capsys, made(plane, capsys, **SURGE, **operator), **operator))
    assert "surge" in {each["by"] for step in found for each in step["evicted"]}
    assert len(occupied(api)) == 3
    check_clean(api)
