# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role protection: its variables are told everywhere alike, its policies speak of the same keys as the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.protection import EVICT, OURS, PREFER_NO_EVICTION
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.annotations import MARK
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.findings import IDS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.read import OWN_LABELS
from ansible_collections.gpuops.defrag.plugins.module_utils._protection_arguments import PROTECTION_ARGUMENTS

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/protection"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
OPTIONS = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
ADMISSION = yaml.safe_load((ROLE / "files/admission.yaml").read_text())["items"]


def test_services_are_those_of_the_module() -> None:
    suboptions: Any = PROTECTION_ARGUMENTS["services"]["options"]
    assert OPTIONS["protection_services"]["options"].keys() == suboptions.keys()
    for name, option in suboptions.items():
        told = OPTIONS["protection_services"]["options"][name]
        assert {key: told[key] for key in ("type", "required", "default") if key in told} == option


def test_every_option_of_the_module_is_a_variable() -> None:
    assert {f"protection_{name}" for name in PROTECTION_ARGUMENTS} <= DEFAULTS.keys()


def test_every_finding_is_explained() -> None:
    page = (ROOT / "docs/protection.md").read_text()
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE)) == IDS.keys()


def test_policies_speak_of_the_annotations_and_labels_of_the_code() -> None:
    told = (ROLE / "files/admission.yaml").read_text()
    spoken = {EVICT, PREFER_NO_EVICTION, OURS, MARK, "gpuops.io/removable"}
    assert spoken <= set(re.findall(r"(?:descheduler\.alpha\.kubernetes|gpuops)\.io/[a-z-]+", told))
    assert yaml.safe_load((ROLE / "vars/main.yml").read_text())["_protection_labels"] == OWN_LABELS


@pytest.mark.parametrize("document", ADMISSION, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_policies_are_bound_and_never_stop_a_cluster(document: dict[str, Any]) -> None:
    kinds = {each["kind"] for each in ADMISSION if each["metadata"]["name"] == document["metadata"]["name"]}
    assert kinds == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    spec = document["spec"]
    if document["kind"] == "ValidatingAdmissionPolicy":
        assert spec["failurePolicy"] == "Ignore"
    else:
        assert spec["policyName"] == document["metadata"]["name"]
        assert "kube-system" in str(spec["matchResources"])


def test_no_warning_has_a_comma_at_which_kubernetes_core_would_lose_it() -> None:
    for document in ADMISSION:
        for validation in document["spec"].get("validations", ()):
            for text in (validation.get("message", ""), *re.findall(r"'([^']*)'", validation.get("messageExpression", ""))):
                assert ", " not in text


def test_every_finding_that_is_made_is_one_of_the_ids() -> None:
    core = ROOT / "plugins/module_utils/_core/protection"
    made = {name for file in core.glob("*.py") for name in re.findall(r'self\.say\(\s*"(\w+)"', file.read_text())}
    assert made == IDS.keys()
