# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters kept_by and gitops_pack."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter.gitops_pack import FilterModule as Pack
from ansible_collections.gpuops.defrag.plugins.filter.kept_by import FilterModule as KeptBy

gitops_pack = Pack().filters()["gitops_pack"]
kept_by = KeptBy().filters()["kept_by"]
HERE = {"url": "https://git.example.com/fleet.git", "revision": "main", "path": "gpu"}
POLICY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "d", "namespace": "n"},
    "data": {"policy.yaml": "a: 1\nb:\n- 2"},
}


def test_who_keeps_an_object_is_told_as_a_mapping() -> None:
    there = {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}}
    assert kept_by(there) == {"tool": "Flux", "release": "", "in_place": False}
    assert kept_by({}) == {"tool": "", "release": "", "in_place": False}


def test_the_files_read_as_what_went_in_and_texts_keep_their_lines() -> None:
    files = gitops_pack({"gpu_policy": [POLICY]}, **HERE)
    text = files["gpu_policy/configmap-n-d.yaml"]
    assert yaml.safe_load(text) == POLICY
    assert "  policy.yaml: |-\n    a: 1\n    b:\n    - 2\n" in text


@pytest.mark.parametrize(
    ("filtered", "given", "words"),
    [
        (kept_by, {"manifest": []}, "kept_by: wants an object of Kubernetes, not list"),
        (gitops_pack, {"parts": [], **HERE}, "gitops_pack: wants manifests by part, not list"),
        (gitops_pack, {"parts": {"p": [{"kind": "X"}]}, **HERE}, "gitops_pack: a manifest or the chart has no 'metadata'"),
        (
            gitops_pack,
            {"parts": {"gpu_policy": [POLICY, POLICY]}, **HERE},
            "configmap-n-d: gpu_policy: is there twice",
        ),
        (gitops_pack, {"parts": {}, **HERE, "chart": {"ref": "d"}}, "has no 'repository'"),
    ],
)
def test_bad_input_is_told_with_the_name_of_the_filter(filtered: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        filtered(**given)
