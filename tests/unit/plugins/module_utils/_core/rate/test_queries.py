# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.expressions import figures
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.queries import MAY_BE_EMPTY, default_queries, lasting
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import SCALARS


def test_what_is_asked_for_is_what_is_recorded() -> None:
    recorded = figures(MonitoringSettings(resource_name="nvidia.com/mig-1g.10gb"))
    queries = default_queries("nvidia.com/mig-1g.10gb")
    assert queries["gpu_pods"] == recorded.inline("pods")
    # A metric tells which pods were Ready at the last scrape: after a wave it would take for cold what has just got Ready.
    assert "gpu_pods_not_ready" not in queries
    assert recorded.inline("pod_cold_start") in queries["cold_start"]
    assert 'resource="nvidia_com_mig_1g_10gb"' in queries["gpu_pods"]


def test_there_are_queries_for_readings_alone() -> None:
    queries = default_queries("nvidia.com/gpu")
    assert set(queries) <= {*SCALARS, "cold_start"}
    assert set(queries) >= MAY_BE_EMPTY


def test_one_of_several_clusters_may_be_asked_for() -> None:
    asked = default_queries("nvidia.com/gpu", 'cluster="a"')["gpu_pods"]
    assert asked.count('cluster="a"') == asked.count("kube_pod_")


def test_a_guard_that_is_to_last_asks_for_the_worst_that_was_better_than_all() -> None:
    assert lasting("errors / all", "5m", above=True) == "min_over_time((errors / all)[5m:]) and (errors / all)"
    assert lasting("up", "90s", above=False) == "max_over_time((up)[90s:]) and (up)"
