# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning: evictions against the fewest that are proved, and time and memory on openb-1213."""

from __future__ import annotations

import gc
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan import test_brute_force as tiny
from bench.audit import COPIES, copies, seconds, spread

# The fewest evictions for 1, 2, 3 … more slots of 8, proved elsewhere by CP-SAT on a model of single pods.
PROVED = {
    "gpu200-1": (2, 5, 8, 11, 14, 18, 22, 26),
    "gpu200-2": (2, 5, 9, 13, 17, 21, 25),
    "gpu200-3": (3, 6, 9, 12, 15, 19, 23, 27),
    "mixed60-1": (2, 5, 8, 12, 16, 21, 26, 31, 36, 41, 46),
    "mixed60-2": (3, 6, 10, 14, 19, 24, 29, 34, 39, 44),
}
COUNT = 100
RUNS = 7
CLUSTERS = 1000
GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE, ZONES = "kubernetes.io/hostname", "topology.kubernetes.io/zone", 3
# Rules of every pod about the pods of its own workload, given what selects these.
SOCIAL: dict[str, Callable[[Any], dict[str, Any]]] = {
    "no two of a workload on a host": lambda app: {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, **app}]}}},
    "workloads spread over hosts": lambda app: {
        "topologySpreadConstraints": [{"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **app}]
    },
    "each workload in one zone": lambda app: {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **app}]}}},
}


def planned(document: Any, count: int, solver: str) -> dict[str, Any]:
    """The plan for so many more slots of 8, pods moving freely."""
    rules = Rules(movable_singletons=True)
    return plan([document], PlanOptions(count=count, solver=solver, across_products=True, rules=rules))


def read(examples: Path, name: str) -> str:
    """The text of an example."""
    with gzip.open(examples / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return file.read()


def social(text: str, rules: Callable[[Any], dict[str, Any]]) -> Any:
    """The cluster with such rules on every pod, its nodes in zones by turns."""
    document = json.loads(text)
    for number, item in enumerate(document["items"]):
        if item["kind"] == "Node":
            item["metadata"]["labels"][ZONE] = f"zone-{number % ZONES}"
        else:
            item["spec"] |= rules({"labelSelector": {"matchLabels": item["metadata"]["labels"]}})
    return document


def with_rules(text: str) -> Iterator[str]:
    """A row for each rule that pods may have about one another: planning against reading."""
    for name, rules in SOCIAL.items():
        ratio = []
        for _run in range(RUNS):
            reading, document = seconds(lambda: json.loads(text)), social(text, rules)
            spent = seconds(lambda document=document: planned(document, COUNT, "heuristic"))  # type: ignore[misc]
            ratio.append(spent / reading)
        yield f"| {name}: plan / `json.loads` | {spread(ratio)} | ≤ 100 |"


def emptier(document: Any, found: dict[str, Any]) -> int:
    """Moves whose receiver ends with a smaller share of its GPUs taken than the source began with."""
    items = document["items"]
    gpus = {i["metadata"]["name"]: int(i["status"]["allocatable"][GPU]) for i in items if i["kind"] == "Node"}
    taken = dict.fromkeys(gpus, 0)
    for spec in (item["spec"] for item in items if item["kind"] == "Pod" and item["spec"].get("nodeName")):
        taken[spec["nodeName"]] += sum(int(container["resources"]["requests"].get(GPU, 0)) for container in spec["containers"])
    moves, ends = [move for wave in found["waves"] for move in wave], dict(taken)
    for move in moves:
        ends[move["from"]] -= move["gpus"]
        ends[move["to"]] += move["gpus"]
    return sum(ends[m["to"]] * gpus[m["from"]] < taken[m["from"]] * gpus[m["to"]] for m in moves)


WISHES: tuple[tuple[str, dict[str, Any], tiny.Score], ...] = (
    *((f"a slot of {size}", {"kind": "slots", "slot_size": size, "count": 1}, tiny.Slots(size)) for size in (2, 3, 4, 5, 8)),
    ("two slots of 4", {"kind": "slots", "slot_size": 4, "count": 2}, tiny.Slots(4)),
    ("a node", {"kind": "free_nodes", "count": 1}, tiny.EmptyNodes()),
    ("two nodes", {"kind": "free_nodes", "count": 2}, tiny.EmptyNodes()),
)


def gaps() -> Iterator[str]:
    """A row for each wish: what the heuristic takes in tiny clusters at random, against brute force."""
    for name, wish, score in WISHES:
        plans = fewest = more = missed = 0
        for seed in range(CLUSTERS):
            cluster = tiny.Tiny.at_random(seed, cpu_pods=True)
            best = tiny.fewest(cluster, score, wish["count"]) if any(gpus for gpus, _cores in cluster.pods) else None
            if best is None:
                continue
            found = tiny.planned(cluster, "heuristic", wish)
            if score(cluster, tiny.played(cluster, found)) - score(cluster, cluster.at) < wish["count"]:
                missed += 1
            else:
                plans, fewest, more = plans + 1, fewest + best, more + found["evictions"] - best
        yield f"| {name} | {plans + missed} | {missed} | {fewest} | {more} |"


def optimality(examples: Path) -> Iterator[str]:
    """A row for each state: what each solver takes for every count, and how long for all of them."""
    for name, fewest in PROVED.items():
        document = json.loads(read(examples, name))
        row = [name, " ".join(map(str, fewest))]
        for solver in ("heuristic", "exact"):
            began = time.process_time()
            found = [planned(document, count, solver) for count in range(1, len(fewest) + 1)]
            spent = time.process_time() - began
            evictions = [each["evictions"] for each in found]
            told = "the same" if tuple(evictions) == fewest else " ".join(map(str, evictions))
            proved = sum(each["optimal"] for each in found)
            row += [f"{told}, {proved} of {len(fewest)} proved", f"{spent:.1f}"]
        row.append(f"{emptier(document, found[-1])} of {evictions[-1]}")
        yield f"| {' | '.join(row)} |"


def peak(text: str) -> int:
    """Bytes at the peak of parsing and planning."""
    gc.collect()
    tracemalloc.start()
    planned(json.loads(text), COUNT, "heuristic")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def section(examples: Path) -> list[str]:
    """The lines of the page, and each figure beside its goal."""
    one = read(examples, "openb-1213")
    many = copies(json.loads(one), COPIES)
    reading, once, tenfold = [], [], []
    for _run in range(RUNS):
        reading.append(seconds(lambda: json.loads(one)))
        document, tenth = json.loads(one), json.loads(many)
        once.append(seconds(lambda document=document: planned(document, COUNT, "heuristic")))  # type: ignore[misc]
        tenfold.append(seconds(lambda tenth=tenth: planned(tenth, COUNT * COPIES, "heuristic")))  # type: ignore[misc]
    found = planned(json.loads(one), COUNT, "heuristic")
    ratio = [work / read_ for work, read_ in zip(once, reading, strict=True)]
    growth = [later / earlier for earlier, later in zip(once, tenfold, strict=True)]
    evictions = f"{found['evictions']} / {found['lower_bound']}, {found['evictions'] / found['lower_bound'] - 1:.1%} above"
    return [
        "## Plan",
        "",
        "Slots of 8 for every count up to the most, pods moving freely within CPU, memory, GPU and node affinity: evictions, and",
        "CPU seconds for all counts together. *Emptier*: moves of the largest plan whose receiver ends with a smaller share of",
        "its GPUs taken than the source began with.",
        "",
        "| state | fewest (proved) | heuristic | s | exact | s | emptier |",
        "|---|---|---|---|---|---|---|",
        *optimality(examples),
        "",
        f"The heuristic alone in {CLUSTERS} clusters at random of up to 5 nodes and 8 pods, against brute force over every",
        "placement:",
        "",
        "| wish | clusters where it can be had | not found | fewest evictions | more than the fewest |",
        "|---|---|---|---|---|",
        *gaps(),
        "",
        f"openb-1213, {COUNT} more slots, the heuristic alone ({RUNS} runs):",
        "",
        "| figure | measured | goal |",
        "|---|---|---|",
        f"| evictions / the plan's own lower bound | {evictions} | ≤ 5 % above |",
        f"| plan / `json.loads` | {spread(ratio)} | ≤ 100 |",
        *with_rules(one),
        f"| {COUNT * COPIES} slots on {COPIES} copies / {COUNT} on one | {spread(growth)} | ≤ 15 |",
        f"| peak memory of parsing and planning | {peak(one) / 1e6:.0f} MB | ≤ 400 MB |",
        "",
    ]
