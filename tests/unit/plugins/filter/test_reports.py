# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that show an audit or a plan are doors to the core, and say so when something else is put in."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter import (
    audit_nodes_csv,
    audit_page,
    audit_table,
    fleet_page,
    fleet_table,
    plan_page,
    plan_table,
)
from ansible_collections.gpuops.defrag.plugins.filter import fleet as fleet_door
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet import fleet
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet import fleet_table as table_of_fleet
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet_page import fleet_page as page_of_fleet
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.nodes import audit_nodes_csv as nodes
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.page import audit_page as page
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_page import plan_page as page_of_plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_table import plan_table as table_of_plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.table import audit_table as table
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import audited, pod
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.plans import simple

AUDIT = audited(["8: 4+1"] * 10, pod("big", 8), gpu_hour_price=2.0)
PLAN = simple()
FLEET = fleet({"eu": AUDIT}, {"us": "no answer"})
Filter = tuple[Callable[..., str], Callable[..., str], dict[str, Any], str]
FILTERS: dict[str, Filter] = {
    name: (door.FilterModule().filters()[name], core, given, wanted)
    for name, door, core, given, wanted in (
        ("audit_nodes_csv", audit_nodes_csv, nodes, AUDIT, "gpu_fragmentation_info"),
        ("audit_page", audit_page, page, AUDIT, "gpu_fragmentation_info"),
        ("audit_table", audit_table, table, AUDIT, "gpu_fragmentation_info"),
        ("fleet_page", fleet_page, page_of_fleet, FLEET, "the filter fleet"),
        ("fleet_table", fleet_table, table_of_fleet, FLEET, "the filter fleet"),
        ("plan_page", plan_page, page_of_plan, PLAN, "gpu_defrag_plan"),
        ("plan_table", plan_table, table_of_plan, PLAN, "gpu_defrag_plan"),
    )
}


class Tagged(str):
    """Text that carries something, as ansible-core 2.19 and newer pass it."""


def lazy(value: Any) -> Any:
    """The value in containers and text that are not the plain ones, as ansible-core 2.19 and newer pass it."""
    if isinstance(value, dict):
        return UserDict({Tagged(key): lazy(member) for key, member in value.items()})
    if isinstance(value, list):
        return tuple(lazy(member) for member in value)
    return Tagged(value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", FILTERS)
def test_the_filter_gives_what_the_core_gives(name: str) -> None:
    door, core, given, _wanted = FILTERS[name]
    assert door(given) == core(given)


@pytest.mark.parametrize("name", FILTERS)
def test_lazy_and_tagged_values_give_the_same_in_plain_text(name: str) -> None:
    door, core, given, _wanted = FILTERS[name]
    shown = door(lazy(given))
    assert shown == core(given)
    assert not isinstance(shown, Tagged)


@pytest.mark.parametrize("name", ["audit_page", "fleet_page", "plan_page"])
def test_a_page_takes_a_title(name: str) -> None:
    door, _core, given, _wanted = FILTERS[name]
    assert "<title>Production</title>" in door(given, title=Tagged("Production"))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "not str"),
        ([], "not list"),
        ({"changed": False, "fragmentation": AUDIT, "plan": PLAN}, "this has no "),
        ({}, "this has no "),
    ],
    ids=["text", "list", "the whole result", "nothing"],
)
def test_anything_else_is_refused_with_what_is_wanted(name: str, given: Any, words: str) -> None:
    door, _core, _given, wanted = FILTERS[name]
    with pytest.raises(AnsibleFilterError, match=f"^{name}: wants what {wanted} returns") as raised:
        door(given)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "other"), [("plan_table", AUDIT), ("plan_page", AUDIT), ("audit_table", PLAN), ("audit_page", PLAN)]
)
def test_one_result_is_not_taken_for_the_other(name: str, other: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=f"^{name}: wants .*; this has no "):
        FILTERS[name][0](other)


def test_a_fleet_is_summed_up_and_what_is_no_audit_refused() -> None:
    door = fleet_door.FilterModule().filters()["fleet"]
    assert door(lazy({"eu": AUDIT}), unknown=lazy({"us": "no answer"})) == FLEET
    for given, words in (([], "audits: wants a mapping"), ({"eu": {}}, "'blocked_pods'"), ({"eu": None}, "NoneType")):
        with pytest.raises(AnsibleFilterError, match=words):
            door(given)
