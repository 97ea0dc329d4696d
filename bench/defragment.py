# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Defragmenting a live cluster, by the playbook and by upstream's HighNodeUtilization: ``make bench-defragment``.

Each begins on a control plane of its own, with the same pods on the same nodes, a budget over every workload that may lose a
pod, and a pod that waits for a whole node. The scheduler is Kubernetes' own with its defaults. It takes minutes.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The collection under the name that Ansible gives it; make setup links the repository there.
sys.path.insert(0, str(ROOT / ".venv/collections"))

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import policy_settings  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster import fleet  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.api import Api, Object  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.programs import programs  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.sampling import Sampler  # noqa: E402

STATES = ("gpu200-1", "gpu200-2", "gpu200-3")
LARGE = "openb-1213"
WAVES = 3
COLD_START = 3
CYCLES = 16
GPUS = 8
MAX_FREE = 2
# For both alike; the descheduler's cycles follow each other as soon as all pods have settled.
LIMITS = {"per_node": 1, "per_namespace": 10, "total": 10}
SETS = "/apis/apps/v1/replicasets"
POOL = "nvidia.com/gpu.count"

PAGE = f"""# Beside upstream

Written by `make bench-defragment` on Python {platform.python_version()}, {platform.machine()}: a real control plane with
Kubernetes' default scheduler, which spreads, and kwok for kubelets. There are 25 nodes of {GPUS} GPUs, and none is free; a pod is
Ready {COLD_START} seconds after it started. A budget (`maxUnavailable: 1`) is over each workload of two and more pods, and one
pod waits for {GPUS} GPUs. Both begin with the same pods on the same nodes, and may evict {LIMITS["per_node"]} pod of a node,
{LIMITS["per_namespace"]} of a namespace and {LIMITS["total"]} in all at a time, the playbook 1 of a workload too.

`HighNodeUtilization` is run by the real descheduler 0.36 with the policy that the filter renders in native mode
(`max_free: {MAX_FREE}`, `nodeFit`), the next cycle as soon as all pods have settled. The playbook plans, and ends by itself.
Seconds are until all pods have settled, planning included; with a wave or cycle every five minutes their number counts.
"Budgets broken" are looks, five a second, at which one was below what it asks for.
"""

LARGE_PAGE = """## {name}: {nodes} nodes, {pods} pods

Waves towards 100 more slots of 8 GPUs, at most 20 evictions each, by `gpuops.defrag.reconcile`, which plans anew each time.
A node is written when a taint is put on it or taken off it, and when it is marked as one that could be given back: the module
counts each. Of so many nodes the scheduler compares 497, and 889 have a GPU free.

| wave | evictions | landed as planned | elsewhere | writes to nodes | of these marks | seconds |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one way.

    Attributes:
        rounds: Waves, or cycles.
        evictions: Pods that went, each of which another replaced.
        free: Nodes without a pod at the end.
        served: Whether the pod that waited runs.
        seconds: From the start until all pods had settled.
        violations: Looks at which a budget was below what it asks for.
        by_round: Evictions of each round, where they are told apart.
    """

    rounds: int
    evictions: int
    free: int
    served: bool
    seconds: float
    violations: int
    by_round: tuple[int, ...] = ()

    def row(self, name: str) -> str:
        waiting = "runs" if self.served else "waits"
        return f"| {name} | {self.rounds} | {self.evictions} | {self.free} | {waiting} | {self.violations} | {self.seconds:.0f} |"


@contextmanager
def started(
    name: str, state: list[Object], *, cold_start: float = COLD_START, waits: bool = True
) -> Iterator[tuple[ControlPlane, int]]:
    """A cluster with the state, whose pods take so many seconds to get Ready, and how many pods it has; one waits unless told."""
    plane = ControlPlane(ROOT / "build/clusters" / name)
    try:
        api = plane.start().api
        nodes = [each["metadata"].setdefault("labels", {}) for each in state if each["kind"] == "Node"]
        for labels in nodes:
            labels[POOL] = str(GPUS)
        fleet.load(api, state, cold_start=cold_start)
        fleet.guard(api, api.items(SETS))
        if waits:
            add_waiting(api, cold_start)
        fleet.wait_settled(api)
        yield plane, len(api.items("/api/v1/pods"))
    finally:
        plane.stop()


def add_waiting(api: Api, cold_start: float) -> None:
    """A pod that no node has room for."""
    waiting = fleet.deployment("huge", "default", 1, GPUS, cold_start=cold_start)
    (container,) = waiting["spec"]["template"]["spec"]["containers"]
    # GPUs are what it waits for: these nodes have less memory for each than those of fleet.py.
    container["resources"]["requests"] |= {"cpu": "8", "memory": "64Gi"}
    api.create("/apis/apps/v1/namespaces/default/deployments", waiting)
    wait_until(lambda: len(api.items("/api/v1/namespaces/default/pods")) == 1, "a pod that waits")


def judged(plane: ControlPlane, rounds: int, began: float, pods: int, seen: Any, by_round: tuple[int, ...] = ()) -> Outcome:
    api = plane.api
    standing = api.items("/api/v1/pods")
    (huge,) = [pod for pod in standing if pod["metadata"]["namespace"] == "default"]
    used = {pod["spec"].get("nodeName") for pod in standing} - {None}
    free = len(api.items("/api/v1/nodes")) - len(used)
    took = time.monotonic() - began
    return Outcome(rounds, len(seen.uids) - pods, free, fleet.is_ready(huge), took, len(seen.violations), by_round)


def run(playbook: str, given: Object) -> str:
    """What a playbook prints, each message in one line."""
    command = [ROOT / ".venv/bin/ansible-playbook", f"gpuops.defrag.{playbook}", "-e", json.dumps(given)]
    environment = os.environ | {"ANSIBLE_SHOW_CUSTOM_STATS": "true", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return re.sub(r"\n +", " ", done.stdout)


def by_playbook(state: list[Object]) -> Outcome:
    """gpuops.defrag.defragment until it is done."""
    with started("bench-playbook", state) as running, Sampler(running[0].api.items) as seen:
        plane, pods = running
        wait_until(lambda: seen.looks, "a first look")
        limits = LIMITS | {"interval_seconds": 1}
        given = {
            "kubeconfig": str(plane.kubeconfig),
            "objective": {"kind": "free_nodes"},
            "limits": limits,
            "progress_seconds": 1,
        }
        began = time.monotonic()
        told = run("defragment", given)
        fleet.wait_settled(plane.api)
        moved = tuple(map(int, re.findall(r"; (\d+) pods moved, \d+ landed", told)))
        return judged(plane, sum(map(bool, moved)), began, pods, seen, tuple(filter(None, moved)))


def by_descheduler(state: list[Object], cycles: int) -> Outcome:
    """HighNodeUtilization, cycle after cycle."""
    pool = {"name": "bench", "node_selector": {POOL: str(GPUS)}, "gpus_per_node": GPUS, "max_free": MAX_FREE}
    policy = render(policy_settings({"mode": "native", "limits": LIMITS, "pools": [pool]}))
    with started("bench-descheduler", state) as running, Sampler(running[0].api.items) as seen:
        plane, pods = running
        wait_until(lambda: seen.looks, "a first look")
        file = plane.folder / "policy.yaml"
        file.write_text(json.dumps(policy))
        command = [
            programs() / "descheduler",
            f"--kubeconfig={plane.kubeconfig}",
            f"--policy-config-file={file}",
            "--descheduling-interval=0",
            "--secure-port=0",
            "--v=3",
        ]
        began, by_cycle = time.monotonic(), []
        for _cycle in range(cycles):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
            if done.returncode:
                raise RuntimeError(done.stdout + done.stderr)
            by_cycle.append(len(re.findall('"Evicted pod"', done.stdout + done.stderr)))
            fleet.wait_settled(plane.api)
        return judged(plane, cycles, began, pods, seen, tuple(by_cycle))


def large(state: list[Object]) -> str:
    """Waves on a cluster of many nodes, and how many of these each of them writes to."""
    plane = ControlPlane(ROOT / "build/clusters/bench-large")
    limits = {"per_node": 2, "per_namespace": 20, "total": 20, "interval_seconds": 1}
    given = {"objective": {"kind": "slots", "slot_size": GPUS, "count": 100}, "limits": limits}
    rows = []
    try:
        api = plane.start().api
        fleet.load(api, state, cold_start=COLD_START)
        for wave in range(1, WAVES + 1):
            began = time.monotonic()
            step = run("reconcile", given | {"kubeconfig": str(plane.kubeconfig)})
            took = time.monotonic() - began
            (told,) = json.loads(step[step.rindex("CUSTOM STATS") :].partition("RUN: ")[2]).values()
            marks = sum(map(len, told["reclaimable"].values()))
            numbers = (told["evicted"], told["landed"], told["strays"], told["nodes_written"], marks)
            rows.append(f"| {wave} | {' | '.join(map(str, numbers))} | {took:.0f} |\n")
        found = (len(api.items("/api/v1/nodes")), len(api.items("/api/v1/pods")))
    finally:
        plane.stop()
    return LARGE_PAGE.format(name=LARGE, nodes=found[0], pods=found[1]) + "".join(rows)


def items(name: str) -> list[Object]:
    with gzip.open(ROOT / "examples" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return list(json.load(file)["items"])


def main() -> None:
    page = [PAGE]
    for name in STATES:
        ours = by_playbook(items(name))
        theirs = by_descheduler(items(name), max(CYCLES, ours.rounds))
        page += [
            f"## {name}",
            "",
            "| | waves or cycles | evictions | other nodes free | pod of 8 GPUs | budgets broken | seconds |",
            "|---|---|---|---|---|---|---|",
            ours.row("`gpuops.defrag.defragment`"),
            theirs.row("`HighNodeUtilization`"),
            "",
            f"Evictions wave by wave: {', '.join(map(str, ours.by_round))}.",
            f"Cycle by cycle: {', '.join(map(str, theirs.by_round))}.",
            "",
        ]
    page_text = "\n".join([*page, large(items(LARGE))])
    (ROOT / "docs/bench-defragment.md").write_text(page_text, encoding="utf-8")
    print(page_text)


if __name__ == "__main__":
    main()
