# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters scheduler_configuration and scheduler_packs."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter.scheduler_configuration import FilterModule as Configuration
from ansible_collections.gpuops.defrag.plugins.filter.scheduler_packs import FilterModule as Packs

scheduler_configuration = Configuration().filters()["scheduler_configuration"]
scheduler_packs = Packs().filters()["scheduler_packs"]


def test_what_the_one_makes_the_other_finds_to_pack() -> None:
    made = scheduler_configuration({"profile_name": "gpu", "resource_name": "amd.com/gpu"})
    found = scheduler_packs(made, resource_name="amd.com/gpu")
    assert (found["packs"], found["packing_profiles"]) == (True, ["gpu"])
    assert [profile["name"] for profile in found["profiles"]] == ["default-scheduler", "gpu"]
    assert found["profiles"][0]["reasons"][0]["id"] == "LeastAllocated"
    assert "schedulerName gpu" in found["message"]
    assert scheduler_packs(made)["packs"] is False


def test_bad_input_is_told_with_the_name_of_the_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="scheduler_configuration: fit_weight: is 0"):
        scheduler_configuration({"fit_weight": 0})
    with pytest.raises(AnsibleFilterError, match="scheduler_packs: kind: is None"):
        scheduler_packs({})
    with pytest.raises(AnsibleFilterError, match="scheduler_packs: gpus_per_node: is 0"):
        scheduler_packs({}, gpus_per_node=0)
    with pytest.raises(AnsibleFilterError, match=r"scheduler_configuration: .*fit_weight.*int"):
        scheduler_configuration({"fit_weight": "heavy"})
    with pytest.raises(AnsibleFilterError, match="scheduler_configuration: wait: there is no such setting"):
        scheduler_configuration({"wait": 1})
    with pytest.raises(AnsibleFilterError, match="scheduler_configuration: settings are a mapping"):
        scheduler_configuration([])


def test_numbers_may_be_text_as_the_command_line_gives_them() -> None:
    text = {"fit_weight": "17", "default_spreading": "true", "gpus_per_node": "8", "balanced_allocation_weight": "0"}
    assert scheduler_configuration(text) == scheduler_configuration({"fit_weight": 17, "default_spreading": True})
