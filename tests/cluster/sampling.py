# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a namespace's pods and budgets again and again while something else goes on, and tells the worst that it saw."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import urllib3
from kubernetes import client as kubernetes
from kubernetes import config
from kubernetes.dynamic import DynamicClient

from .api import ApiError, Object
from .fleet import GPU, is_ready

PERIOD = 0.2
# Seconds without an answer after which the cluster is taken to be gone.
PATIENCE = 20.0


class Samples:
    """What was seen so far. A pod counts for its ``app`` as the disruption controller counts it: Ready, and not on its way out.

    Attributes:
        looks: How often.
        least: Of each app the least Ready pods.
        latest: Of each app the Ready pods at the last look.
        violations: Budgets below what they ask for, at most once a look, by their own status or by counting pods.
        uids: Every pod that was ever there.
        gap: The longest time between two looks, in seconds.
        coldest: The most GPU pods that were cold at a look: on a node, not on their way out and not Ready.
        cold_until: When one was last.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.least: dict[str, int] = {}
        self.latest: dict[str, int] = {}
        self.violations: list[Object] = []
        self.uids: set[str] = set()
        self.gap = 0.0
        self.coldest = 0
        self.cold_until = 0.0
        self._last = 0.0

    def add(self, pods: list[Object], budgets: list[Object], now: float) -> None:
        """One look."""
        self.gap = max(self.gap, now - self._last if self.looks else 0.0)
        self._last = now
        self.looks += 1
        self.uids |= {pod["metadata"]["uid"] for pod in pods}
        staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        ready = [pod for pod in staying if is_ready(pod)]
        cold = sum(_asks_for_gpus(pod) and bool(pod["spec"].get("nodeName")) and not is_ready(pod) for pod in staying)
        self.coldest = max(self.coldest, cold)
        self.cold_until = now if cold else self.cold_until
        self.latest = dict(Counter(pod["metadata"].get("labels", {}).get("app", "") for pod in ready))
        # An app is counted from when it was whole: an app that never was Ready is not one that fell.
        for app in self.least.keys() | self.latest.keys():
            self.least[app] = min(self.latest.get(app, 0), self.least.get(app, self.latest.get(app, 0)))
        for budget in budgets:
            status = budget.get("status", {})
            wanted = status.get("desiredHealthy", 0)
            labels: Mapping[str, str] = budget["spec"]["selector"]["matchLabels"]
            counted = sum(labels.items() <= pod["metadata"].get("labels", {}).items() for pod in ready)
            if min(counted, status.get("currentHealthy", 0)) < wanted:
                found = {"budget": budget["metadata"]["name"], "wanted": wanted, "counted": counted}
                self.violations.append(found | {"told": status.get("currentHealthy", 0), "at": round(now, 1)})

    def told(self) -> Object:
        """All of it, as plain data."""
        return {
            "looks": self.looks,
            "longest_gap": round(self.gap, 2),
            "least": self.least,
            "latest": self.latest,
            "pods": len(self.uids),
            "coldest": self.coldest,
            "violations": self.violations,
        }


def _asks_for_gpus(pod: Object) -> bool:
    return any(GPU in each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])


class Sampler(threading.Thread):
    """Samples until it is told to end, or the cluster has gone: ``with Sampler(api.items) as samples: …``."""

    def __init__(self, items: Callable[[str], list[Object]], namespace: str = "") -> None:
        super().__init__(daemon=True)
        within = f"/namespaces/{namespace}" if namespace else ""
        self.items, self.paths = items, (f"/apis/policy/v1{within}/poddisruptionbudgets", f"/api/v1{within}/pods")
        self.samples, self.over = Samples(), threading.Event()

    def __enter__(self) -> Samples:
        self.start()
        return self.samples

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        answered = time.monotonic()
        while not self.over.is_set() and time.monotonic() - answered < PATIENCE:
            try:
                budgets, pods = map(self.items, self.paths)
            except (ApiError, kubernetes.ApiException, urllib3.exceptions.HTTPError):
                pass
            else:
                answered = time.monotonic()
                self.samples.add(pods, budgets, answered)
            self.over.wait(PERIOD)


def reader(kubeconfig: Path) -> Callable[[str], list[Object]]:
    """Lists of whatever cluster the kubeconfig leads to, by whatever it says who one is."""
    client = DynamicClient(config.new_client_from_config(str(kubeconfig)))

    def items(path: str) -> list[Object]:
        answer = client.request("GET", path, serialize=False, _request_timeout=10)
        return list(json.loads(answer.data)["items"])

    return items


def sample(kubeconfig: Path, namespace: str, report: Path) -> Samples:
    """Sample until the file ``report.stop`` is there; then write the report, so that its being there means that it is whole."""
    stop = report.with_suffix(".stop")
    sampler = Sampler(reader(kubeconfig), namespace)
    with sampler as samples:
        while sampler.is_alive() and not stop.exists():
            sampler.join(PERIOD)
    written = report.with_suffix(".part")
    written.write_text(json.dumps(samples.told(), indent=1))
    written.rename(report)
    return samples
