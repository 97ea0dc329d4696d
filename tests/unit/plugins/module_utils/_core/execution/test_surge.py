# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution import surge
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.workloads import wished
from ansible_collections.gpuops.defrag.tests.unit.builders import Object


def deployment(wanted: int | None = 3, *, generation: int = 1, **status: int) -> Object:
    counts = {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "observedGeneration": 1} | status
    spec = {} if wanted is None else {"replicas": wanted}
    return {"metadata": {"namespace": "ns", "name": "llm", "generation": generation}, "spec": spec, "status": counts}


REFUSALS: dict[str, tuple[Object | None, set[tuple[str, str]], str | None]] = {
    "nothing stands against it": (deployment(), {("Deployment", "other"), ("StatefulSet", "llm")}, None),
    "it is not there": (None, set(), "was not found"),
    "it is autoscaled": (deployment(), {("Deployment", "llm")}, "HorizontalPodAutoscaler"),
    "its controller has not seen its spec": (deployment(generation=2), set(), "rollout"),
    "pods of another template are left": (deployment(updatedReplicas=2), set(), "rollout"),
    "a replica is away": (deployment(availableReplicas=2), set(), "rollout"),
    "one replica is the default": (deployment(None, replicas=1, updatedReplicas=1, availableReplicas=1), set(), None),
}


@pytest.mark.parametrize(("raw", "scaled", "words"), REFUSALS.values(), ids=REFUSALS)
def test_one_replica_more_is_refused_where(raw: Object | None, scaled: set[tuple[str, str]], words: str | None) -> None:
    told = surge.refused(None if raw is None else surge.read_deployment(raw), scaled)
    assert (told is None) == (words is None)
    assert words is None or (told is not None and words in told)


def test_a_replica_is_given_back_unless_somebody_else_has_scaled() -> None:
    assert [surge.restored(now, 3) for now in (3, 4, 5)] == [None, 3, None]


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ("Deployment a/llm", True),
        ("Deployment a/other", False),
        ("Deployment b/any", True),
        ("StatefulSet b/any", False),
        ("ReplicaSet a/llm", False),
    ],
)
def test_deployments_are_named_one_by_one_or_by_namespace(workload: str, told: bool) -> None:
    assert wished(workload, {"a/llm", "b/*"}) is told
