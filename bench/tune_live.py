# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Defragmenting a live cluster at the rate that it can bear, beside the fixed conservative one: ``make bench-tune-live``.

Each begins on a control plane of its own, scraped by a Prometheus, with the same pods on the same nodes and a budget over every
workload that may lose a pod. It takes half an hour, as in one run nothing is compressed.
"""

from __future__ import annotations

import re
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The collection under the name that Ansible gives it; make setup links the repository there.
sys.path.insert(0, str(ROOT / ".venv/collections"))

from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import CONSERVATIVE, PROFILES  # noqa: E402
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.law import may_be_cold  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster import fleet  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.api import Object  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.monitoring import Monitoring  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.plane import ControlPlane  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.processes import wait_until  # noqa: E402
from ansible_collections.gpuops.defrag.tests.cluster.sampling import Sampler  # noqa: E402

from .defragment import COLD_START, GPUS, run, started  # noqa: E402

STARTS = (1, 2)
NODES = 25
STANDS_FOR = 180
INTERVAL = 300
PROFILE = "balanced"
FIXED = PROFILES[CONSERVATIVE]

PAGE = f"""# The rate, on a real cluster

Written by `make bench-tune-live`: a real control plane with Kubernetes' default scheduler, kwok for kubelets, and a real
Prometheus that scrapes it. There are {NODES} nodes of {GPUS} GPUs, and none is free; a budget (`maxUnavailable: 1`) is over each
workload of two and more pods. All rows of a start begin with the same pods on the same nodes. `gpuops.defrag.defragment` runs
with `limits: tuned`, `profile: {PROFILE}` and `slot_size: {GPUS}`, after `gpuops.defrag.tune` has decided for a while; and at the
fixed conservative rate, which is {FIXED.per_node} pod of a node, {FIXED.per_namespace} of a namespace, {FIXED.per_workload} of a
workload and {FIXED.total} in all every 5 minutes.

A cold start is {COLD_START} s and stands for {STANDS_FOR}. What else a step takes, to read, decide, plan and evict, takes the
controller as long however slowly pods start, and a wave waits for one cold start, as its pods start side by side. So *minutes*
are the *seconds* that were measured, from the start of the playbook until the last pod was Ready, and {STANDS_FOR - COLD_START}
more for each wave; at the fixed rate a wave begins every {INTERVAL} s. The last row of the first start is counted by no such
sum: there nothing is compressed, and pods take {STANDS_FOR} s.

*Least* is evictions × cold start / pods that may be cold; it knows no whole waves, of which the last takes as long as any. *Nodes
freed* stand beside the most that any plan could free, as what is allocated fills the others to the last GPU. *Cold at most* and
*broken* budgets are from looks at all pods, five a second. A run that ends because a pod has landed elsewhere than planned
(*strays*) is begun again at once.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one way.

    Attributes:
        freed: Nodes without a pod at the end.
        waves: Pods that each of them moved.
        strays: Runs that ended because one landed elsewhere than planned.
        seconds: From the start until the last pod was Ready.
        coldest: The most GPU pods that were cold at a look.
        may: GPU pods that may be cold.
        violations: Looks at which a budget was below what it asks for.
        cold_start: Seconds of one.
    """

    freed: int
    waves: tuple[int, ...]
    strays: int
    seconds: float
    coldest: int
    may: int
    violations: int
    cold_start: float

    def row(self, name: str, possible: int, *, fixed: bool = False) -> str:
        whole = self.seconds + len(self.waves) * (STANDS_FOR - self.cold_start)
        if fixed:
            whole = INTERVAL * (len(self.waves) - 1) + whole / len(self.waves)
        least = sum(self.waves) * STANDS_FOR / self.may
        counted = f"{self.freed} of {possible} | {sum(self.waves)} | {', '.join(map(str, self.waves))} | {self.seconds:.0f}"
        times = f"{whole / 60:.1f} | {least / 60:.1f} | {whole / least:.2f}"
        return f"| {name} | {counted} | {times} | {self.coldest} of {self.may} | {self.violations} | {self.strays} |"


def start(seed: int) -> list[Object]:
    """Nodes and pods of a fleet as a scheduler that spreads has left them."""
    plane = ControlPlane(ROOT / "build/clusters/bench-start")
    try:
        api = plane.start().api
        fleet.populate(api, fleet.Shape(cpu_nodes=0, seed=seed))
        nodes = [{"kind": "Node"} | each for each in api.items("/api/v1/nodes")]
        return nodes + [{"kind": "Pod"} | each for each in fleet.pods(api)]
    finally:
        plane.stop()


def once(name: str, state: list[Object], *, tuned: bool, cold_start: float = COLD_START) -> Outcome:
    """Defragment a state to the end, on a cluster of that name."""
    with started(name, state, cold_start=cold_start, waits=False) as (plane, pods):
        monitoring = Monitoring(ROOT / f"build/clusters/{name}-monitoring", plane)
        try:
            monitoring.start()
            may = may_be_cold(pods, PROFILES[PROFILE] if tuned else FIXED)
            given = {"kubeconfig": str(plane.kubeconfig), "objective": {"kind": "free_nodes"}, "progress_seconds": 1}
            if tuned:
                # Decisions follow each other as soon as they can; how slowly a rate rises is not what is measured.
                given |= {
                    "limits": "tuned",
                    "profile": PROFILE,
                    "bounds": {"raise_after": "3s"},
                    "slot_size": GPUS,
                    "prometheus_url": monitoring.url,
                }
                while f": {may} pods every" not in run("tune", given):
                    pass
            else:
                names = ("per_node", "per_namespace", "per_workload", "total")
                given |= {"limits": {name: getattr(FIXED, name) for name in names} | {"interval_seconds": 1}}
            with Sampler(plane.api.items) as seen:
                wait_until(lambda: seen.looks, "a first look")
                began = time.monotonic()
                told, strays = defragmented(given)
        finally:
            monitoring.stop()
        used = {pod["spec"]["nodeName"] for pod in fleet.pods(plane.api)}
    moved = tuple(int(each) for each in re.findall(r"; (\d+) pods moved, \d+ landed", told) if each != "0")
    took = seen.cold_until - began
    return Outcome(NODES - len(used), moved, strays, took, seen.coldest, may, len(seen.violations), cold_start)


def defragmented(given: Object) -> tuple[str, int]:
    """What the playbook tells until it is done; one that a stray has ended is run again, and how often that was."""
    told, strays = "", 0
    while True:
        try:
            return told + run("defragment", given), strays
        except RuntimeError as error:
            if "Strays: " not in str(error):
                raise
            told, strays = told + str(error), strays + 1


def section(seed: int, state: list[Object], whole: Future[Outcome] | None) -> list[str]:
    """The lines of one start; ``whole`` is the run in which nothing is compressed."""
    pods = [each for each in state if each["kind"] == "Pod"]
    allocated = sum(int(pod["spec"]["containers"][0]["resources"]["requests"][fleet.GPU]) for pod in pods)
    possible = NODES - ceil(allocated / GPUS)
    name = f"`tuned`, `{PROFILE}`"
    rows = [
        once("bench-tune", state, tuned=True).row(name, possible),
        once("bench-tune", state, tuned=False).row("fixed, conservative", possible, fixed=True),
    ]
    if whole:
        rows.append(whole.result().row(f"{name}, not compressed", possible))
    return [
        f"## Start {seed}",
        "",
        f"{len(pods)} GPU pods, {allocated} GPUs allocated.",
        "",
        "| limits | nodes freed | evictions | waves | seconds | minutes | least | ratio | cold at most | broken | strays |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def main() -> None:
    states = {seed: start(seed) for seed in STARTS}
    # It waits nearly all the time, so that the others run beside it.
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(once, "bench-tune-whole", states[STARTS[0]], tuned=True, cold_start=STANDS_FOR)
        sections = [section(seed, state, None if index else whole) for index, (seed, state) in enumerate(states.items())]
    page = "\n".join([PAGE, *(line for lines in sections for line in lines)])
    (ROOT / "docs/bench-tune-live.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
