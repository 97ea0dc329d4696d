# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.queries import (
    MAY_BE_EMPTY,
    default_queries,
    lasting,
    spelling,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import SCALARS


@pytest.mark.parametrize(
    ("resource", "spelt"),
    [
        ("nvidia.com/gpu", "nvidia_com_gpu"),
        ("nvidia.com/mig-1g.10gb", "nvidia_com_mig_1g_10gb"),
        ("nvidia.com/gpu.shared", "nvidia_com_gpu_shared"),
    ],
)
def test_a_resource_is_asked_for_as_kube_state_metrics_spells_it(resource: str, spelt: str) -> None:
    assert spelling(resource) == spelt
    queries = default_queries(resource)
    assert all(f'resource="{spelt}"' in queries[name] for name in ("gpu_pods", "gpu_pods_not_ready", "cold_start"))


def test_there_are_queries_for_readings_alone_and_nothing_is_left_to_fill_in() -> None:
    queries = default_queries("nvidia.com/gpu")
    assert set(queries) <= {*SCALARS, "cold_start"}
    assert set(queries) >= MAY_BE_EMPTY
    assert not any("$" in query for query in queries.values())


def test_series_are_reduced_to_one_for_a_pod_before_they_are_counted() -> None:
    for name, query in default_queries("nvidia.com/gpu").items():
        if name != "evictions":
            assert query.count("kube_pod_") == query.count("by (namespace, pod, uid"), name


def test_a_guard_that_is_to_last_asks_for_the_worst_that_was_better_than_all() -> None:
    assert lasting("errors / all", "5m", above=True) == "min_over_time((errors / all)[5m:])"
    assert lasting("up", "90s", above=False) == "max_over_time((up)[90s:])"
