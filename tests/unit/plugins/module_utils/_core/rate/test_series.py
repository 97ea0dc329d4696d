# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import ColdStart, Guard, Readings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.series import (
    cold_starts,
    guard,
    percentiles,
    scalar,
    with_answers,
    workload,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import Sample

NOW = 1_800_000_000.0
TOLD = Readings(gpu_pods=100, gpu_pods_not_ready=2, evictions=3, cold_start=ColdStart(10, 20), as_of=NOW)


def one(value: float, *, age: float = 0, **labels: str) -> list[Sample]:
    return [Sample(labels, value, NOW - age)]


def test_one_fresh_number_is_a_reading() -> None:
    assert scalar("gpu_pods", one(180, age=30), NOW) == (180, None)
    assert scalar("stranded_share", one(0.25, age=-30), NOW) == (0.25, None)
    # increase() gives halves: the whole number above it.
    assert scalar("evictions", one(2.04), NOW) == (3, None)


SENSELESS: list[tuple[list[Sample], str]] = [
    ([], "the query gives nothing"),
    (one(1) + one(1, replica="b"), "the query gives 2 series"),
    (one(math.nan), "nan cannot be"),
    (one(math.inf), "inf cannot be"),
    (one(-math.inf), "-inf cannot be"),
    (one(-1), "-1 cannot be"),
    (one(1, age=301), "the newest sample is 301 s old"),
    (one(1, age=-90), "a sample is 90 s from now"),
    (one(1, age=math.nan), "the newest sample tells no time"),
]


@pytest.mark.parametrize(("samples", "words"), SENSELESS, ids=[words for _samples, words in SENSELESS])
@pytest.mark.parametrize("name", ["gpu_pods", "stranded_share"])
def test_anything_else_is_unknown_with_the_reason(samples: list[Sample], words: str, name: str) -> None:
    value, doubt = scalar(name, samples, NOW)
    assert value is None
    assert doubt is not None
    assert words in doubt


@given(st.lists(st.builds(Sample, st.just({}), st.floats(), st.floats(NOW - 1000, NOW + 1000)), max_size=3))
def test_an_answer_is_a_number_that_can_be_or_unknown(samples: list[Sample]) -> None:
    value, doubt = scalar("blocked_gpus", samples, NOW)
    assert (value is None) == (doubt is not None)
    assert value is None or (isinstance(value, int) and value >= 0)


def start(seconds: float, workload: str = "Deployment/llm", time: float = NOW) -> Sample:
    return Sample({"namespace": "a", "pod": "p", "workload": workload}, seconds, time)


def test_cold_starts_are_told_by_workload_and_over_all_pods() -> None:
    samples = [*(start(float(each)) for each in range(100, 200, 10)), start(20, "StatefulSet/small")]
    found, doubt = cold_starts(samples, NOW)
    assert doubt is None
    assert found is not None
    assert (found.p50, found.p90) == (140, 180)
    assert found.workloads == {"Deployment a/llm": ColdStart(145, 181), "StatefulSet a/small": ColdStart(20, 20)}


def test_what_took_more_than_an_hour_was_not_starting() -> None:
    assert percentiles({"Deployment a/b": [10, 20, 90_000], "Deployment a/c": [4000]}) == ColdStart(
        15, 19, {"Deployment a/b": ColdStart(15, 19)}
    )
    assert percentiles({"Deployment a/b": [90_000]}) is None
    assert percentiles({}) is None


@pytest.mark.parametrize("bad", [start(-1), start(math.nan), start(math.inf), start(10, time=NOW - 400)])
def test_one_start_that_cannot_be_makes_them_unknown(bad: Sample) -> None:
    found, doubt = cold_starts([start(10), bad], NOW)
    assert found is None
    assert doubt


def test_a_workload_is_told_as_elsewhere() -> None:
    assert workload({"namespace": "a", "pod": "llm-1", "workload": "Deployment/llm"}) == "Deployment a/llm"


@pytest.mark.parametrize(
    ("samples", "bound", "wanted"),
    [
        (one(2), {"above": 1}, Guard("q", 2, True, "2 is above 1")),
        (one(1), {"above": 1}, Guard("q", 1, False)),
        (one(0.5) + one(2), {"above": 1}, Guard("q", 2, True, "2 is above 1")),
        (one(0.5), {"below": 1}, Guard("q", 0.5, True, "0.5 is below 1")),
        (one(1) + one(3), {"below": 1}, Guard("q", 1, False)),
        ([], {"above": 1}, Guard("q", detail="the query gives nothing")),
        (one(0) + one(math.nan), {"above": 1}, Guard("q", detail="a value is nan")),
        (one(0, age=400), {"above": 1}, Guard("q", detail="the newest sample is 400 s old")),
    ],
)
def test_a_guard_fires_past_its_bound_and_is_unknown_where_a_value_is(
    samples: list[Sample], bound: dict[str, float], wanted: Guard
) -> None:
    assert guard("q", samples, NOW, above=bound.get("above"), below=bound.get("below")) == wanted


def test_of_two_counts_of_pods_the_fewer_are_taken_and_evictions_of_others_are_added_to_ours() -> None:
    answers = {"gpu_pods": one(98), "evictions": one(7), "cold_start": [start(5)]}
    found = with_answers(TOLD, answers, (), NOW)
    assert (found.gpu_pods, found.gpu_pods_not_ready, found.evictions) == (98, 2, 10)
    assert found.cold_start == ColdStart(5, 5, {"Deployment a/llm": ColdStart(5, 5)})
    assert found.unknown == {}
    found = with_answers(TOLD, {"gpu_pods": one(102), "evictions": one(0)}, (), NOW)
    assert (found.gpu_pods, found.evictions) == (100, 3)
    # A query of the user's tells those of others too. Where ours are not known the sum is not.
    assert with_answers(TOLD, {"evictions": one(7)}, {"evictions"}, NOW).evictions == 10
    lost = with_answers(TOLD.without("evictions", "it cannot be read"), {"evictions": one(7)}, {"evictions"}, NOW)
    assert (lost.evictions, lost.unknown) == (None, {"evictions": "it cannot be read"})


def test_sources_that_are_far_apart_are_not_of_one_cluster() -> None:
    found = with_answers(TOLD, {"gpu_pods": one(180)}, (), NOW)
    assert found.gpu_pods == 100
    assert "is it another cluster's?" in found.unknown["gpu_pods"]


def test_where_prometheus_does_not_tell_the_api_server_stands_in_and_that_is_noted() -> None:
    for answer in ("it cannot be reached", [], one(math.nan)):
        found = with_answers(TOLD, {"gpu_pods": answer}, (), NOW)
        assert found.gpu_pods == 100
        assert found.unknown["gpu_pods"]
    assert with_answers(TOLD, {"cold_start": "it cannot be reached"}, (), NOW).unknown == {"cold_start": "it cannot be reached"}


def test_that_no_pod_has_started_and_no_descheduler_is_there_is_no_doubt() -> None:
    assert with_answers(TOLD, {"cold_start": [], "evictions": []}, (), NOW) == TOLD


def test_a_query_of_the_users_counts_alone_and_makes_known_what_was_not() -> None:
    found = with_answers(TOLD, {"gpu_pods": one(180)}, {"gpu_pods"}, NOW)
    assert (found.gpu_pods, found.unknown) == (180, {})
    doubted = replace(TOLD, unknown={"budget_headroom": "may not be read"})
    found = with_answers(doubted, {"budget_headroom": one(12)}, {"budget_headroom"}, NOW)
    assert (found.budget_headroom, found.unknown) == (12, {})


def test_answers_that_contradict_each_other_are_unknown() -> None:
    answers = {"gpu_pods": one(10), "gpu_pods_not_ready": one(11)}
    found = with_answers(TOLD, answers, set(answers), NOW)
    assert (found.gpu_pods, found.gpu_pods_not_ready) == (None, None)
