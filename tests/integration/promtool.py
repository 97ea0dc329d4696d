# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules tried out on series made of Kubernetes objects, by Prometheus' own promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpuops.defrag.tests.cluster import state_metrics
from ansible_collections.gpuops.defrag.tests.cluster.programs import PROMETHEUS, programs
from ansible_collections.gpuops.defrag.tests.cluster.state_metrics import Sample

Object = dict[str, Any]

TOLD = {
    "Node": state_metrics.of_node,
    "Pod": state_metrics.of_pod,
    "PodDisruptionBudget": state_metrics.of_budget,
    "ReplicaSet": state_metrics.of_replica_set,
    "Deployment": state_metrics.of_deployment,
    "CronJob": state_metrics.of_cron_job,
}
BEGINNING = "1970-01-01T00:00:00Z"


def complete(found: Object) -> Object:
    """An object with what the API server, the scheduler and the kubelet would have added, as far as metrics tell it."""
    metadata: Object = {"uid": f"uid-{found['metadata']['name']}", "creationTimestamp": BEGINNING, **found["metadata"]}
    if found["kind"] != "Pod":
        return {**found, "metadata": metadata}
    spec, status = dict(found["spec"]), dict(found["status"])
    for kind in ("containers", "initContainers"):
        spec[kind] = [{"image": "example/llm", **container} for container in spec.get(kind) or ()]
    told: Object = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BEGINNING}
    if not spec.get("nodeName"):
        reason = "SchedulingGated" if spec.get("schedulingGates") else "Unschedulable"
        told |= {"status": "False", "reason": reason}
    elif spec["initContainers"]:
        status["initContainerStatuses"] = [{"name": container["name"]} for container in spec["initContainers"]]
    conditions = [{"lastTransitionTime": BEGINNING, **condition} for condition in status.get("conditions") or ()]
    status["conditions"] = [told, *(each for each in conditions if each["type"] != "PodScheduled")]
    return {**found, "metadata": metadata, "spec": spec, "status": status}


def samples(objects: Iterable[Object]) -> Iterator[Sample]:
    """What kube-state-metrics would tell of the objects; of other kinds nothing."""
    for found in objects:
        if found["kind"] in TOLD:
            yield from TOLD[found["kind"]](complete(found))


@dataclass(frozen=True, slots=True)
class Series:
    """One input series.

    Attributes:
        name: With labels, as PromQL has it.
        values: As promtool writes them: ``1+0x60`` is 1 for an hour, ``_x10`` nothing for ten minutes.
    """

    name: str
    values: str


def selector(name: str, labels: Mapping[str, str]) -> str:
    """A series by name and labels; empty ones are as if they were not there."""
    return name + "{" + ", ".join(f"{label}={json.dumps(text)}" for label, text in sorted(labels.items()) if text) + "}"


def series(told: Iterable[Sample], values: str = "{value}x120", *, renamed: bool = False, **labels: str) -> list[Series]:
    """Series that have each sample's value for two hours, unless told otherwise, with labels of the scrape.

    Args:
        told: Samples.
        values: promtool's notation; ``{value}`` stands for the sample's.
        renamed: The scrape has a namespace, pod, container and node of its own, so that those of the sample are ``exported_…``.
        labels: Labels that the scrape adds.
    """
    own = {"namespace": "monitoring", "pod": "exporter-0", "container": "exporter", "node": "n1"} if renamed else {}
    found = []
    for name, given, value in told:
        kept = {(f"exported_{label}" if label in own else label): text for label, text in given.items()}
        found.append(Series(selector(name, {**own, **kept, **labels}), values.format(value=f"{value:g}+0")))
    return found


@dataclass(frozen=True, slots=True)
class Expect:
    """What a query comes to at some time: labels, without the name, and value of each series."""

    query: str
    found: Sequence[tuple[Mapping[str, str], float]]
    at: str = "10m"


def firing(alert: str, *labels: Mapping[str, str], at: str) -> Expect:
    """That an alert fires with these labels, each once, and no other; none at all if there are none."""
    named = ", ".join(sorted({label for each in labels for label in each}))
    query = f'max by ({named}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return Expect(query, [(each, 1) for each in labels], at)


def check(rules: Mapping[str, Any], given: Iterable[Series], expected: Iterable[Expect], folder: Path) -> None:
    """Have promtool try rules out.

    Raises:
        AssertionError: Something else comes out; it is promtool's own report.
    """
    promtool = programs(PROMETHEUS) / "promtool"
    (folder / "rules.yml").write_text(json.dumps(rules))
    tests = {
        "interval": "1m",
        "input_series": [{"series": each.name, "values": each.values} for each in given],
        "promql_expr_test": [
            {
                "expr": each.query,
                "eval_time": each.at,
                "exp_samples": [{"labels": selector("", labels), "value": value} for labels, value in each.found],
            }
            for each in expected
        ],
    }
    test = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "fuzzy_compare": True, "tests": [tests]}
    (folder / "test.yml").write_text(json.dumps(test))
    done = subprocess.run([promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
