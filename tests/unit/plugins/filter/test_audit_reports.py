# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three filters that show an audit are doors to the core, and say so when something else is put in."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter import audit_nodes_csv, audit_page, audit_table
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.nodes import audit_nodes_csv as nodes
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.page import audit_page as page
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.table import audit_table as table
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import audited, pod

AUDIT = audited(["8: 4+1"] * 10, pod("big", 8), gpu_hour_price=2.0)
FILTERS: dict[str, tuple[Callable[..., str], Callable[..., str]]] = {
    name: (door.FilterModule().filters()[name], core)
    for name, door, core in (
        ("audit_nodes_csv", audit_nodes_csv, nodes),
        ("audit_page", audit_page, page),
        ("audit_table", audit_table, table),
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
    door, core = FILTERS[name]
    assert door(AUDIT) == core(AUDIT)


@pytest.mark.parametrize("name", FILTERS)
def test_lazy_and_tagged_values_give_the_same_in_plain_text(name: str) -> None:
    door, core = FILTERS[name]
    shown = door(lazy(AUDIT))
    assert shown == core(AUDIT)
    assert not isinstance(shown, Tagged)


def test_the_page_takes_a_title() -> None:
    assert "<title>Production</title>" in FILTERS["audit_page"][0](AUDIT, title=Tagged("Production"))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "not str"),
        ([], "not list"),
        ({"changed": False, "fragmentation": AUDIT}, "this has no "),
        ({}, "this has no "),
    ],
    ids=["text", "list", "the whole result", "nothing"],
)
def test_anything_else_is_refused_with_what_is_wanted(name: str, given: Any, words: str) -> None:
    door = FILTERS[name][0]
    with pytest.raises(AnsibleFilterError, match=f"^{name}: wants what gpu_fragmentation_info returns") as raised:
        door(given)
    assert words in str(raised.value)
