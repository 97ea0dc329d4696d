# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter eviction_limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter.eviction_limits import FilterModule

eviction_limits = FilterModule().filters()["eviction_limits"]
NOON = "2026-11-30T12:00:00Z"
READINGS: dict[str, Any] = {
    "gpu_pods": 180,
    "gpu_pods_not_ready": 2,
    "stranded_share": 0.14,
    "blocked_gpus": 16,
    "blocked_seconds": 900,
    "cold_start": {"p50": 150, "p90": 180},
    "evictions": 0,
    "strays": 0,
    "unready": 0,
    "budget_headroom": 90,
    "services": {},
    "as_of": NOON,
}


def test_readings_give_limits_and_the_state_for_the_next_time() -> None:
    seen, state = [], None
    for minute in range(4):
        now = f"2026-11-30T12:{minute:02}:00Z"
        found = eviction_limits(READINGS | {"as_of": now}, profile="balanced", now=now, state=state)
        state = found["state"]
        seen.append((found["action"], found["limits"]["total"]))
    assert seen == [("hold", 1), ("hold", 1), ("raise", 2), ("raise", 4)]
    assert json.loads(json.dumps(found)) == found
    assert found["inputs"]["gpu_pods"] == 180
    assert (found["limits"]["interval_seconds"], found["schedule"]) == (180, "*/3 * * * *")


def test_what_was_returned_as_inputs_can_be_given_again() -> None:
    found = eviction_limits(READINGS, now=NOON)
    assert eviction_limits(found["inputs"], now=NOON) == found


def test_readings_are_old_by_the_clock_unless_a_time_is_given() -> None:
    told = [each["detail"] for each in eviction_limits(READINGS)["reasons"]]
    assert any("this was so" in each or "this is said to be so" in each for each in told)


def test_bounds_go_over_the_profiles_and_an_interval_is_kept() -> None:
    state, bounds = {"version": 1, "level": 18}, {"cold_share": 0.1, "hour_share": 2, "per_node": 3}
    found = eviction_limits(READINGS, bounds=bounds, state=state, interval="60s", now=NOON)
    assert found["limits"] == {"per_node": 3, "per_namespace": 5, "per_workload": 1, "total": 6, "interval_seconds": 60}


@pytest.mark.parametrize(
    ("readings", "options", "words"),
    [
        ([], {}, "readings: is list"),
        ({"pods": 1}, {}, "readings.pods: there is no such key"),
        ({}, {"profile": "bold"}, "profile must be one of"),
        ({}, {"state": {"level": 3}}, "state: is no state of the rate"),
        ({}, {"now": "noon"}, "now: 'noon' is not a time"),
        ({}, {"interval": "0s"}, "interval: is 0 s"),
        ({}, {"interval": "often"}, "interval: 'often' is no duration"),
        ({}, {"bounds": {"cold_share": 1.5}}, "bounds.cold_share: is 1.5; a share is above 0 and at most 1"),
        ({}, {"bounds": {"hour_share": 0}}, "bounds.hour_share: is 0; a share is above 0"),
        ({}, {"bounds": {"cold_share": float("nan")}}, "bounds.cold_share: is nan"),
        ({}, {"bounds": {"per_node": 0}}, "bounds.per_node: is 0; with less than 1"),
        ({}, {"bounds": {"raise_after": "-1"}}, "bounds.raise_after"),
        ({}, {"limits": {}}, "limits"),
    ],
    ids=str,
)
def test_bad_input_is_told_with_the_name_of_the_filter(readings: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        eviction_limits(readings, **options)
    assert str(error.value).startswith("eviction_limits: ")
    assert words in str(error.value)
