# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter import descheduler_policy, descheduler_policy_migrate
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import SETTINGS, policy_settings
from ansible_collections.gpuops.defrag.tests.unit.plugins.filter.test_reports import Tagged, lazy
from ansible_collections.gpuops.defrag.tests.unit.policies import ARTICLE

POLICY = descheduler_policy.FilterModule().filters()["descheduler_policy"]
MIGRATE = descheduler_policy_migrate.FilterModule().filters()["descheduler_policy_migrate"]
NATIVE = {
    "mode": "native",
    "pools": [{"name": "a", "node_selector": {"gpu": "a"}, "gpus_per_node": 8, "max_free": 2}],
    "namespaces_excluded": ["kube-system"],
}


def texts(value: Any) -> list[Any]:
    """Every text in a value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts(part)]
    return [value] if isinstance(value, str) else []


def test_the_filter_gives_what_the_core_renders() -> None:
    assert POLICY({}) == render(policy_settings({}))
    assert POLICY(NATIVE) == render(policy_settings(NATIVE))


def test_keywords_go_before_the_mapping() -> None:
    settings = {**NATIVE, "profile": "balanced"}
    assert POLICY(settings, profile="aggressive") == render(policy_settings({**NATIVE, "profile": "aggressive"}))


def test_lazy_and_tagged_values_give_the_same_in_plain_text() -> None:
    given = POLICY(lazy(NATIVE))
    assert given == POLICY(NATIVE)
    assert not any(isinstance(text, Tagged) for text in texts(given))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("planned", "wants a mapping of settings, not str"),
        ([], "not list"),
        ({"mode": "x"}, "mode: 'x' is none of planned, native"),
    ],
)
def test_bad_settings_are_one_error_that_names_the_filter(settings: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"^descheduler_policy: ") as raised:
        POLICY(settings)
    assert words in str(raised.value)


def test_the_documentation_tells_of_every_setting_and_its_default() -> None:
    documented = yaml.safe_load(Path(descheduler_policy.__file__).with_suffix(".yml").read_text())
    options = documented["DOCUMENTATION"]["options"]
    assert options.keys() - {"_input"} == set(SETTINGS)
    defaults = {name: option["default"] for name, option in options.items() if "default" in option}
    assert POLICY({**defaults}) == POLICY({})


def test_migration_gives_the_policy_with_what_was_changed_and_lost() -> None:
    made = MIGRATE(Tagged(ARTICLE), gpus_per_node="8", node_selector={"gpu": True})
    assert made.keys() == {"policy", "notes", "cannot"}
    assert made["policy"]["nodeSelector"] == "gpu=true"
    assert len(made["cannot"]) == 2


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("a: [", {}, "is not YAML"),
        ([], {}, "not a mapping"),
        ({}, {"gpus": 8}, "gpus"),
        ({}, {"gpus_per_node": "many"}, "gpus_per_node"),
        ({}, {"gpus_per_node": 1}, "gpus_per_node: is 1"),
        ({}, {"node_selector": "a in b"}, "node_selector: "),
        ({}, {"descheduler_version": "new"}, "descheduler_version: "),
    ],
)
def test_what_cannot_be_migrated_is_one_error_that_names_the_filter(policy: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"^descheduler_policy_migrate: ") as raised:
        MIGRATE(policy, **options)
    assert words in str(raised.value)
