# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of rules. What they come to is promtool's to tell: tests/integration/test_rules.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.expressions import figures
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.rules import alerts, rule_groups
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings

DOCS = Path(__file__).resolve().parents[6] / "docs"


def rules(**given: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    records, told = rule_groups(MonitoringSettings(**given))["groups"]
    return records["rules"], told["rules"]


def test_the_same_settings_give_the_same_bytes() -> None:
    assert json.dumps(rule_groups(MonitoringSettings())) == json.dumps(rule_groups(MonitoringSettings()))


def test_records_are_named_level_metric_operations_and_told_apart_by_labels() -> None:
    records, _alerts = rules()
    assert [each["record"] for each in records if not re.fullmatch(r"[a-z]+:gpuops_[a-z_]+:[a-z0-9]+", each["record"])] == []
    keys = [(each["record"], *sorted(each["labels"].items())) for each in records]
    assert len(keys) == len(set(keys))
    assert {each["labels"]["resource"] for each in records} == {"nvidia.com/gpu"}


def test_a_record_builds_on_earlier_ones_alone() -> None:
    records, _alerts = rules()
    seen: set[str] = set()
    for each in records:
        assert set(re.findall(r"\w+:gpuops_\w+:\w+", each["expr"])) <= seen, each["record"]
        seen.add(each["record"])


def test_a_figure_asked_for_at_once_builds_on_no_record() -> None:
    found = figures(MonitoringSettings())
    assert [name for name in found if "gpuops_" in found.inline(name)] == []


def test_an_alert_has_what_people_expect_of_one() -> None:
    _records, told = rules(runbook_url="https://example.com/runbooks", labels={"team": "ml"})
    for each in told:
        assert each["alert"][:1].isupper()
        assert each["labels"]["severity"] in ("critical", "warning")
        assert (each["labels"]["team"], each["labels"]["resource"]) == ("ml", "nvidia.com/gpu")
        assert set(each["annotations"]) == {"summary", "description", "runbook_url"}
        assert each["annotations"]["runbook_url"] == f"https://example.com/runbooks#{each['alert'].lower()}"
        assert "<" not in "".join(each["annotations"].values())


def test_without_a_descheduler_nothing_is_expected_of_it() -> None:
    names = [each["alert"] for each in rules(descheduler_name="")[1]]
    assert names
    assert "GPUDeschedulerNotRunning" not in names


def test_groups_of_two_resources_do_not_meet() -> None:
    first, second = (
        rule_groups(MonitoringSettings(resource_name=name, interval="1m")) for name in ("nvidia.com/gpu", "amd.com/gpu")
    )
    assert {group["name"] for group in first["groups"]} & {group["name"] for group in second["groups"]} == set()
    assert {group["interval"] for group in first["groups"]} == {"1m"}
    assert 'resource="amd_com_gpu"' in second["groups"][0]["rules"][0]["expr"]


@pytest.mark.parametrize("page", ["runbooks.md", "monitoring.md"])
def test_every_alert_is_told_of(page: str) -> None:
    text = (DOCS / page).read_text()
    wanted = "\n## {}\n" if page == "runbooks.md" else "`{}`"
    assert [alert.name for alert in alerts(MonitoringSettings()) if wanted.format(alert.name) not in text] == []


def test_everything_that_may_blind_is_told_of() -> None:
    (blind,) = (each["expr"] for each in rules(dcgm=True)[1] if each["alert"] == "GPUMonitoringBlind")
    problems = re.findall('"problem", "([^"]+)"', blind)
    assert len(problems) == 5
    text = (DOCS / "runbooks.md").read_text()
    assert [problem for problem in problems if f"\n| {problem} |" not in text] == []


def test_every_record_is_told_of() -> None:
    text = (DOCS / "monitoring.md").read_text()
    assert sorted({each["record"] for each in rules(dcgm=True)[0] if f"`{each['record']}`" not in text}) == []
