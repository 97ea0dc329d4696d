# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What watches over services while something goes on does see that one falls."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.tests.cluster.sampling import Samples


def pod(name: str, *, ready: bool = True, leaving: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": name, "labels": {"app": "chat"}} | ({"deletionTimestamp": "now"} if leaving else {})
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


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
