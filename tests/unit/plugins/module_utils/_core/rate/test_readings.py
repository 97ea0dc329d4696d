# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import (
    ColdStart,
    Guard,
    Readings,
    Service,
    read_readings,
)

NOW = epoch("2026-11-30T12:00:00Z")
GIVEN: dict[str, Any] = {
    "gpu_pods": 180,
    "gpu_pods_not_ready": 2,
    "stranded_share": 0.14,
    "blocked_gpus": 16,
    "blocked_seconds": 900,
    "cold_start": {"p50": 150, "p90": 180, "workloads": {"Deployment a/llm": {"p50": 170, "p90": 190.5}}},
    "evictions": 4,
    "strays": 0,
    "unready": 0,
    "budget_headroom": 90,
    "services": {"Deployment a/llm": {"pods": 4, "not_ready": 1}},
    "guards": [{"query": "errors", "value": 0.5, "fires": False, "detail": ""}],
    "as_of": "2026-11-30T12:00:00Z",
}


def test_all_that_is_given_is_read_and_leaves_no_doubt() -> None:
    found = read_readings(GIVEN)
    assert found == Readings(
        gpu_pods=180,
        gpu_pods_not_ready=2,
        stranded_share=0.14,
        blocked_gpus=16,
        blocked_seconds=900.0,
        cold_start=ColdStart(150.0, 180.0, {"Deployment a/llm": ColdStart(170.0, 190.5)}),
        evictions=4,
        strays=0,
        unready=0,
        budget_headroom=90,
        services={"Deployment a/llm": Service(4, 1)},
        guards=(Guard("errors", 0.5, False),),
        as_of=NOW,
    )
    assert list(found.doubts(NOW)) == []
    assert found.cold_start is not None
    assert found.cold_start.longest == 190.5


def test_readings_as_plain_data_are_read_as_they_were() -> None:
    for found in (read_readings(GIVEN), read_readings({}), read_readings({"gpu_pods": math.nan, "paused": "a user asks"})):
        told = json.loads(json.dumps(found.plain()))
        assert read_readings(told) == found
        assert read_readings(told).plain() == told


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("gpu_pods", math.nan, "nan cannot be"),
        ("gpu_pods", math.inf, "inf cannot be"),
        ("gpu_pods", -1, "-1 cannot be"),
        ("gpu_pods", 10**400, "1000000"),
        ("blocked_seconds", 10**400, "cannot be"),
        ("gpu_pods", 1.5, "1.5 is no whole number"),
        ("gpu_pods_not_ready", 181, "181 of 180 GPU pods are said not to be Ready"),
        ("stranded_share", 1.01, "1.01 is no share"),
        ("blocked_seconds", -0.1, "-0.1 cannot be"),
        ("evictions", math.inf, "inf cannot be"),
        ("cold_start", {"p50": 2}, "p90 is not known"),
        ("cold_start", {"p50": 3, "p90": 2}, "p50 3 s is said to be longer than p90 2 s"),
        ("cold_start", {"p50": 1, "p90": math.nan}, "p90 nan cannot be"),
        ("cold_start", {"p50": 1, "p90": 2, "workloads": {"a": {"p50": -1, "p90": 1}}}, "a: p50 -1 cannot be"),
        ("services", {"a": {"pods": 1, "not_ready": 2}}, "a: 2 of 1 pods are said not to be Ready"),
        ("services", {"a": {"pods": 1}}, "a: not_ready is not known"),
        ("services", {"a": {"pods": math.nan, "not_ready": 0}}, "a: pods nan cannot be"),
        ("services", None, "services is not known"),
        ("strays", None, "strays is not known"),
    ],
)
def test_what_cannot_be_is_unknown_with_the_reason(name: str, value: Any, words: str) -> None:
    found = read_readings(GIVEN | {name: value})
    assert getattr(found, name) is None
    assert any(words in doubt and doubt.startswith(name) for doubt in found.doubts(NOW))


def test_a_reading_that_is_absent_is_unknown_and_so_is_everything_of_nothing() -> None:
    doubts = list(read_readings({}).doubts(NOW))
    assert len(doubts) == 12
    assert "when this was so is not known" in doubts


def test_a_reading_that_is_told_and_doubted_is_doubted() -> None:
    found = read_readings(GIVEN | {"unknown": {"gpu_pods": "Prometheus does not answer"}})
    assert found.gpu_pods == 180
    assert list(found.doubts(NOW)) == ["gpu_pods: Prometheus does not answer"]


def test_a_guard_whose_value_is_no_number_does_not_tell() -> None:
    found = read_readings(GIVEN | {"guards": [{"query": "errors", "value": math.nan, "fires": False}]})
    assert list(found.doubts(NOW)) == ["guard errors: nan tells nothing"]
    (guard,) = read_readings({"guards": [{"query": "errors", "value": 10**400, "fires": False}]}).guards
    assert (guard.value, guard.fires) == (None, None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "readings: is list"),
        ({"gpu_pod": 1}, "readings.gpu_pod: there is no such key; there are gpu_pods"),
        ({"gpu_pods": "180"}, "gpu_pods: '180' is not a number"),
        ({"gpu_pods": True}, "gpu_pods: True is not a number"),
        ({"as_of": "noon"}, "as_of: 'noon' is not a time"),
        ({"as_of": "9999-12-31T23:59:59-23:00"}, "as_of: '9999-12-31T23:59:59-23:00' is not a time"),
        ({"cold_start": 180}, "cold_start: is int, not a mapping"),
        (
            {"cold_start": {"p50": 1, "p90": 2, "workloads": {"a": {"p99": 1}}}},
            "cold_start.workloads.a.p99: there is no such key",
        ),
        ({"services": {"a": {"pods": "4"}}}, "services.a.pods: '4' is not a number"),
        ({"guards": {}}, "guards: is dict, not a list"),
        ({"guards": [{}]}, "guards[0].query: is missing"),
        ({"guards": [{"query": "q", "fires": "yes"}]}, "guards[0].fires: 'yes' is neither true nor false"),
        ({"guards": [{"query": "q", "value": "1"}]}, "guards[0].value: '1' is not a number"),
        ({"unknown": [1]}, "unknown: is list"),
    ],
    ids=str,
)
def test_what_is_of_another_shape_is_refused_by_its_name(given: Any, field: str) -> None:
    with pytest.raises(InputError) as error:
        read_readings(given)
    assert str(error.value).startswith(field)
