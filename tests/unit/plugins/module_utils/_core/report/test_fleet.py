# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several clusters as one: nothing unknown is counted, and the first is the one to start with."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet import fleet, fleet_table, headline
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet_page import fleet_page
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import (
    FREE_HERE_AND_THERE,
    HOSTILE,
    audited,
    hostile,
    pod,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.pages import Page, assert_harmless

BAD = audited(FREE_HERE_AND_THERE, pod("big", 8), gpu_hour_price=3.0)
MILD = audited(["8: 4+2+1"] * 3 + ["8: 8"] * 9, gpu_hour_price=3.0)
TIDY = audited(["8: 8"] * 12, gpu_hour_price=3.0)
SMALL = audited(["8: 4+1"] * 4, pod("big", 8), gpu_hour_price=3.0)
UNPRICED = audited(["8: 4+2+1"] * 12)
EUROS = audited(["8: 4+2+1"] * 12, gpu_hour_price=3.0, currency="EUR")
FLEETS = {
    "nothing": fleet({}),
    "four": fleet({"tidy": TIDY, "mild": MILD, "bad": BAD, "small": SMALL}),
    "unknown": fleet({"bad": BAD}, {"away": "no route to host", "asleep": "503"}),
    "nothing known": fleet({}, {"away": "no route to host"}),
    "hostile": fleet({HOSTILE: hostile()}, {f"{HOSTILE}2": HOSTILE}),
}


def test_the_cluster_to_start_with_comes_first_and_one_where_moving_is_not_advised_after_it() -> None:
    found = FLEETS["four"]
    assert [cluster["name"] for cluster in found["clusters"]] == ["bad", "mild", "small", "tidy"]
    assert found["start"] == "bad"
    small = found["clusters"][2]
    assert small["stranded_gpus"] > found["clusters"][1]["stranded_gpus"]
    assert (small["worth_acting"], len(small["not_applicable_reasons"])) == (False, 1)


def test_sums_are_those_of_the_audits() -> None:
    found, audits = FLEETS["four"], (BAD, MILD, TIDY, SMALL)
    for key in ("nodes", "gpus_total", "gpus_free", "stranded_gpus"):
        assert found["totals"][key] == sum(audit[key] for audit in audits)
    assert found["totals"]["blocked_gpus"] == 16
    assert found["cost"] == {"per_month": round(sum(a["cost"]["per_month"] or 0 for a in audits), 2), "currency": "USD"}


@pytest.mark.parametrize("other", [UNPRICED, EUROS], ids=["no price", "another currency"])
def test_a_cost_that_is_not_wholly_known_is_unknown(other: dict[str, Any]) -> None:
    found = fleet({"bad": BAD, "other": other})
    assert found["cost"]["per_month"] is None
    assert "costs" not in " ".join(headline(found))


def test_a_cluster_that_strands_nothing_needs_no_price() -> None:
    assert fleet({"bad": BAD, "tidy": audited(["8: 8"] * 12)})["cost"]["per_month"] == BAD["cost"]["per_month"]


def test_what_was_not_measured_is_told_and_in_no_sum() -> None:
    found = FLEETS["unknown"]
    assert found["totals"] == fleet({"bad": BAD})["totals"]
    assert [each["name"] for each in found["unknown"]] == ["asleep", "away"]
    assert headline(found)[-1] == "2 clusters could not be measured, and are in no figure."
    assert "away: no route to host" in fleet_table(found)
    assert "no route to host" in " ".join(Page(fleet_page(found)).sections["Not measured"])


def test_the_headline_names_where_to_start() -> None:
    assert headline(FLEETS["four"])[2] == f"Start with bad: {BAD['stranded_gpus']} stranded GPUs, and 1 blocked pod."
    assert headline(fleet({"tidy": TIDY}))[1] == "Moving pods is advised in none of them."
    assert headline(FLEETS["nothing"]) == ["No cluster was measured."]


@pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)
def test_the_table_fits_and_has_no_control_characters(found: dict[str, Any]) -> None:
    lines = fleet_table(found).split("\n")
    assert lines[-1] == ""
    assert max(map(len, lines)) <= 92
    assert all(line.isprintable() and line == line.rstrip() for line in lines)


@pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)
def test_the_page_is_well_formed_harmless_and_the_same_every_time(found: dict[str, Any]) -> None:
    assert_harmless(fleet_page(found))
    assert fleet_page(found) == fleet_page(found)
