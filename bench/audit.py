# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit core: time and memory on openb-1213, and on ten copies of it."""

from __future__ import annotations

import gc
import gzip
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions

RUNS = 15
COPIES = 10


def copies(state: dict[str, Any], times: int) -> str:
    """The text of a cluster that is so many copies of one: nodes, pods and owners of a copy have its number."""

    def renamed(item: dict[str, Any], copy: int) -> dict[str, Any]:
        twin: dict[str, Any] = json.loads(json.dumps(item))
        twin["metadata"]["name"] += f"-{copy}"
        if twin["kind"] == "Pod":
            twin["metadata"]["uid"] += f"-{copy}"
            twin["spec"]["nodeName"] += f"-{copy}"
            for owner in twin["metadata"]["ownerReferences"]:
                owner["name"] += f"-{copy}"
                owner["uid"] += f"-{copy}"
        else:
            twin["metadata"]["labels"]["kubernetes.io/hostname"] += f"-{copy}"
        return twin

    items = [renamed(item, copy) for copy in range(times) for item in state["items"]]
    return json.dumps({**state, "items": items})


def measured(document: Any) -> dict[str, Any]:
    return audit([document], AuditOptions(gpu_hour_price=3.0))


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds: others on the machine count less than on the wall clock."""
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def in_turns(text: str) -> Iterator[tuple[float, float]]:
    """Seconds of json.loads and of the audit of what it gave, run by run."""
    for _run in range(RUNS):
        reading = seconds(lambda: json.loads(text))
        document = json.loads(text)
        yield reading, seconds(lambda document=document: measured(document))  # type: ignore[misc]


def memory(text: str) -> tuple[int, int]:
    """Bytes of the parsed JSON, and at the peak of parsing and auditing it."""
    gc.collect()
    tracemalloc.start()
    document = json.loads(text)
    parsed = tracemalloc.get_traced_memory()[0]
    measured(document)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return parsed, peak


def section(examples: Path) -> list[str]:
    """The lines of the page, and each figure beside its goal."""
    with gzip.open(examples / "openb-1213.json.gz", "rt", encoding="utf-8") as file:
        one = file.read()
    many = copies(json.loads(one), COPIES)
    once = list(in_turns(one))
    tenfold = list(in_turns(many))
    parsed, peak = memory(one)
    growth = [later[1] / earlier[1] for earlier, later in zip(once, tenfold, strict=True)]
    result = measured(json.loads(one))
    bytes_used = f"{peak / parsed:.2f} ({peak / 1e6:.1f} / {parsed / 1e6:.1f} MB)"
    return [
        "## Audit",
        "",
        f"openb-1213: {result['nodes']} GPU nodes, {result['gpu_pods']} GPU pods, {len(one) / 1e6:.1f} MB of JSON; "
        f"{RUNS} runs. The audit takes parsed JSON to the finished result.",
        "",
        "| figure | measured | goal |",
        "|---|---|---|",
        f"| `json.loads`, ms | {spread([run[0] * 1000 for run in once], 1)} | |",
        f"| audit, ms | {spread([run[1] * 1000 for run in once], 1)} | |",
        f"| audit / `json.loads` | {spread([work / read for read, work in once])} | ≤ 5 |",
        f"| peak memory of parsing and audit / parsed JSON | {bytes_used} | ≤ 4 |",
        f"| audit of {COPIES} copies / audit of one | {spread(growth)} | ≤ 12 |",
        f"| audit of {COPIES} copies / `json.loads` of them | {spread([work / read for read, work in tenfold])} | |",
        "",
    ]
