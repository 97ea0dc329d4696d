# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.results import run_metrics

RUN: dict[str, Any] = {
    "verdict": "Recommended",
    "evicted": [{}, {}],
    "strays": [],
    "planned": {"freed_nodes": ["a", "b"], "slots_gained": {"8": 2}},
    "realized": None,
}


def test_a_run_is_told_with_its_plan_and_nothing_that_it_does_not_say() -> None:
    lines = run_metrics(RUN, now=1796040000.25, labels={"cluster": 'a"b\\c'}).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'gpuops_run_timestamp_seconds{cluster="a\\"b\\\\c"} 1796040000.25',
        'gpuops_run_info{cluster="a\\"b\\\\c",verdict="Recommended"} 1',
        'gpuops_run_pods{cluster="a\\"b\\\\c",outcome="evicted"} 2',
        'gpuops_run_pods{cluster="a\\"b\\\\c",outcome="stray"} 0',
        'gpuops_run_freed_nodes{cluster="a\\"b\\\\c",of="planned"} 2',
        'gpuops_run_slots_gained{cluster="a\\"b\\\\c",of="planned",size="8"} 2',
    ]
    assert lines.count("# TYPE gpuops_run_pods gauge") == 1


def test_a_tick_of_the_tuner_is_told() -> None:
    told = run_metrics({"action": "hold", "limits": {"total": 3, "per_node": None}}, now=0)
    assert [line for line in told.splitlines() if not line.startswith("#")] == [
        'gpuops_tune_info{action="hold"} 1',
        'gpuops_tune_limit{limit="total"} 3',
    ]


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(KeyError):
        run_metrics({}, now=0)
