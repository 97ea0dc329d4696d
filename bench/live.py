# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a live cluster page by page: time against ``json.loads`` of the same bytes, and memory by the number of pages."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import LIVE_ARGUMENTS, MEASURING, Live, connect

from .audit import seconds, spread

NODES, PODS = 2_000, 20_000
PAGE = 500
RUNS = 3


@contextmanager
def served(pods: int) -> Iterator[str]:
    """The address of a server with so many pods, a process of its own."""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; from bench.large import main; main()"]
    with subprocess.Popen([*command, str(pods), str(NODES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def connected(url: str) -> Live:
    plain: dict[str, Any] = {name: argument.get("default") for name, argument in LIVE_ARGUMENTS.items()}
    return connect(plain | {"host": url, "api_key": "a-token", "page_size": PAGE})


def bodies(url: str) -> list[bytes]:
    """Every page of pods and of nodes, as it comes."""
    found = []
    for path in ("pods", "nodes"):
        following = ""
        while following is not None:
            with urlopen(f"{url}/api/v1/{path}?limit={PAGE}" + (f"&continue={following}" if following else "")) as answer:
                found.append(answer.read())
            following = json.loads(found[-1])["metadata"].get("continue")
    return found


def parsed(pages: list[bytes]) -> None:
    for page in pages:
        json.loads(page)


def drained(documents: Iterator[Any]) -> None:
    for _page in documents:
        pass


def read(live: Live) -> None:
    live.read(MEASURING, drained)


def decoded(live: Live) -> None:
    live.read(MEASURING, lambda documents: decode(documents, source=live.name, live=True))


def audited(live: Live) -> None:
    live.read(MEASURING, lambda documents: audit(documents, AuditOptions(), source=live.name, live=True))


def memory(pods: int) -> tuple[float, float]:
    """MB that the cluster takes once it is read, and the most that one page took beyond what was held before it."""
    peaks = []

    def watched(documents: Iterator[Any]) -> Iterator[Any]:
        while True:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            if (page := next(documents, None)) is None:
                return
            yield page
            del page
            peaks.append(tracemalloc.get_traced_memory()[1] - before)

    with served(pods) as url:
        live = connected(url)
        epoch.cache_clear()
        gc.collect()
        tracemalloc.start()
        cluster = live.read(MEASURING, lambda documents: decode(watched(documents), live=True))
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert sum(map(len, cluster.bound.values())) == pods
    return held / 1e6, max(peaks) / 1e6


def page_memory(page: bytes) -> float:
    """MB of one page, its bytes and what json.loads makes of them."""
    gc.collect()
    tracemalloc.start()
    objects = json.loads(page)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert objects
    return (len(page) + taken) / 1e6


def section() -> list[str]:
    """The lines of the page, and each figure beside its goal."""
    with served(PODS) as url:
        live = connected(url)
        pages = bodies(url)
        runs = [
            [seconds(lambda: parsed(pages)), *(seconds(lambda work=work: work(live)) for work in (read, decoded, audited))]  # type: ignore[misc]
            for _run in range(RUNS)
        ]
    size = len(pages[0]) / PAGE / 1000
    one = page_memory(pages[0])
    beyond = {pods: memory(pods) for pods in (PODS // 4, PODS // 2, PODS)}
    rows = [
        f"| {pods:,} pods, {pods // PAGE} pages: the cluster / the page that took most, MB | {held:.1f} / {more:.1f} | |"
        for pods, (held, more) in beyond.items()
    ]
    growth = beyond[PODS][1] / beyond[PODS // 4][1]
    per_pod = 1e6 / PODS

    def row(name: str, column: int, goal: str = "") -> list[str]:
        return [
            f"| {name}, µs a pod | {spread([run[column] * per_pod for run in runs], 1)} | |",
            f"| {name} / `json.loads` | {spread([run[column] / run[0] for run in runs])} | {goal} |",
        ]

    return [
        "## Reading a live cluster",
        "",
        f"{NODES:,} nodes and {PODS:,} pods of {size:.1f} kB, served by another process in pages of {PAGE}; {RUNS} runs.",
        "Time is that of the reading process alone, nodes included on both sides: for `json.loads` only the parsing of bodies",
        "that lie ready, for reading the client and HTTP too. Memory is what Python's allocator counts; that of a page is taken",
        "from when it is asked for until its last object is decoded, and given back before the next is asked for.",
        "",
        "| figure | measured | goal |",
        "|---|---|---|",
        f"| `json.loads` of every page, µs a pod | {spread([run[0] * per_pod for run in runs], 1)} | |",
        *row("reading", 1),
        *row("reading and decoding", 2, "≤ 3"),
        *row("reading, decoding and audit", 3),
        f"| one page of {PAGE} pods: its bytes and what `json.loads` makes of them, MB | {one:.1f} | |",
        *rows,
        f"| the page that took most: of {PODS // PAGE} pages / of {PODS // 4 // PAGE} | {growth:.2f} | ≤ 1.05 |",
        "",
    ]
