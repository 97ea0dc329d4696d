# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/policy.md tells of every setting, profile and finding, as they are."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.findings import IDS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import OPT_IN, SETTINGS, policy_settings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES

PAGE = (Path(__file__).resolve().parents[3] / "docs/policy.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The rows of the tables under a title, up to the next title of its level."""
    level = title.partition(" ")[0]
    text = PAGE.partition(f"\n{title}\n")[2]
    text = re.split(rf"\n{level} ", text)[0]
    return [
        re.split(r"\s*\|\s*", line.removeprefix("| ").removesuffix(" |")) for line in text.splitlines() if line.startswith("| `")
    ]


def test_every_finding_is_told_as_it_is() -> None:
    assert {cells[0].strip("`"): cells[1] for cells in rows("## Lint")} == IDS


def test_every_setting_is_told_with_its_default() -> None:
    told = {cells[0].strip("`"): cells[1].strip("`") for cells in rows("## Settings") if len(cells) == 3}
    assert list(told) == list(SETTINGS)
    assert render(policy_settings({key: yaml.safe_load(default) for key, default in told.items()})) == render(policy_settings({}))


def test_the_profiles_are_told_with_their_numbers() -> None:
    assert {cells[0].strip("`"): tuple(map(int, cells[1:])) for cells in rows("### Profiles")} == {
        name: (bounds.per_node, bounds.per_namespace, bounds.per_workload, bounds.total) for name, bounds in PROFILES.items()
    }


def test_every_opt_in_plugin_is_told() -> None:
    assert tuple(cells[0].strip("`") for cells in rows("### Plugins that are off")) == OPT_IN
