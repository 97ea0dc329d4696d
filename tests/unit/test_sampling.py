# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What watches over services while something goes on does see that one falls."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.tests.cluster.fleet import GPU
from ansible_collections.gpuops.defrag.tests.cluster.sampling import Samples


def pod(name: str, *, ready: bool = True, leaving: bool = False, gpus: int = 1, node: str | None = "a") -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": name, "labels": {"app": "chat"}} | ({"deletionTimestamp": "now"} if leaving else {})
    requests = {GPU: str(gpus)} if gpus else {"cpu": "1"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]} | ({"nodeName": node} if node else {})
    return {"metadata": meta, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def budget(healthy: int, wanted: int = 2) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "chat"}}
    status = {"currentHealthy": healthy, "desiredHealthy": wanted}
    return {"metadata": {"name": "chat"}, "spec": {"selector": selector}, "status": status}


@pytest.mark.parametrize(
    ("pods", "told", "broken", "least"),
    [
        pytest.param([pod("a"), pod("b")], 2, 0, 2, id="enough are Ready"),
        pytest.param([pod("a"), pod("b", ready=False)], 2, 1, 1, id="a pod is not Ready, and the budget has not noticed"),
        pytest.param([pod("a"), pod("b", leaving=True)], 2, 1, 1, id="a pod is on its way out"),
        pytest.param([pod("a"), pod("b")], 1, 1, 2, id="the budget knows of one that is no longer there"),
        pytest.param([], 0, 1, 0, id="all are gone"),
    ],
)
def test_a_budget_that_is_broken_is_seen(pods: list[dict[str, Any]], told: int, broken: int, least: int) -> None:
    samples = Samples()
    samples.add([pod("a"), pod("b")], [budget(2)], 1.0)
    samples.add(pods, [budget(told)], 1.5)
    samples.add([pod("c"), pod("d")], [budget(2)], 1.75)
    found = samples.told()
    assert (len(found["violations"]), found["least"]["chat"], found["latest"]["chat"]) == (broken, least, 2)
    assert (found["looks"], found["longest_gap"], found["pods"]) == (3, 0.5, 4)


def test_gpu_pods_that_are_cold_are_counted() -> None:
    samples = Samples()
    cold = [pod("a", ready=False), pod("b", ready=False)]
    others = [pod("c"), pod("d", ready=False, leaving=True), pod("e", ready=False, gpus=0), pod("f", ready=False, node=None)]
    samples.add([*cold, *others], [], 1.0)
    samples.add([cold[0], *others], [], 2.0)
    samples.add(others, [], 3.0)
    assert (samples.coldest, samples.cold_until) == (2, 2.0)
