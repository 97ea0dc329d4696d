# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a run did, in Prometheus' text format: for node_exporter's textfile collector or a Pushgateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Sample = tuple[str, Mapping[str, str], float]

HELP = {
    "gpuops_run_timestamp_seconds": "When the last run ended.",
    "gpuops_run_info": "How the last run ended.",
    "gpuops_run_pods": "Pods of the last run by what became of them.",
    "gpuops_run_freed_nodes": "Nodes that the plan of the last run was to free, and those that are free.",
    "gpuops_run_slots_gained": "Slots by size that the plan of the last run was to gain, and those gained.",
    "gpuops_tune_info": "What the last tick of the tuner did.",
    "gpuops_tune_limit": "Limits that the last tick of the tuner set.",
}


def run_metrics(result: Mapping[str, Any], *, now: float, labels: Mapping[str, str] | None = None) -> str:
    """What gpu_defrag, or gpu_eviction_rate, returned.

    Args:
        result: Of a module; what it has not is not told, and never told as 0.
        now: Seconds since 1970 at which it ended.
        labels: Labels of every series, such as the cluster.

    Raises:
        KeyError: It is the result of neither.
    """
    told = [*_run(result, now)] if "verdict" in result else [*_tick(result)]
    return exposition([(name, {**(labels or {}), **own}, value) for name, own, value in told])


def _run(result: Mapping[str, Any], now: float) -> Iterator[Sample]:
    yield "gpuops_run_timestamp_seconds", {}, now
    yield "gpuops_run_info", {"verdict": result["verdict"]}, 1
    for outcome, key in (("evicted", "evicted"), ("landed", "landed"), ("stray", "strays"), ("unready", "unready")):
        if key in result:
            yield "gpuops_run_pods", {"outcome": outcome}, len(result[key])
    for of in ("planned", "realized"):
        found = result.get(of) or {}
        if "freed_nodes" in found:
            yield "gpuops_run_freed_nodes", {"of": of}, len(found["freed_nodes"])
        for size, slots in sorted((found.get("slots_gained") or {}).items()):
            yield "gpuops_run_slots_gained", {"of": of, "size": str(size)}, slots


def _tick(result: Mapping[str, Any]) -> Iterator[Sample]:
    yield "gpuops_tune_info", {"action": result["action"]}, 1
    for limit, value in sorted(result["limits"].items()):
        if value is not None:
            yield "gpuops_tune_limit", {"limit": limit}, value


def exposition(samples: list[Sample]) -> str:
    """Samples as text: the series of a name together, in the order of HELP."""
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    lines = []
    for name, text in HELP.items():
        series = [(labels, value) for found, labels, value in samples if found == name]
        if series:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        for labels, value in series:
            told = ",".join(f'{label}="{str(each).translate(escaped)}"' for label, each in labels.items())
            lines.append(f"{name}{{{told}}} {value:.15g}" if told else f"{name} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)
