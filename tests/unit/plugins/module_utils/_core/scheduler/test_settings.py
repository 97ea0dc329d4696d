# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that no scheduler could do anything with are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.settings import settings_of

REFUSED: list[tuple[str, Any, str]] = [
    ("a list", [], "settings are a mapping, not list"),
    ("a word that is none", {"weight": 3}, "weight: there is no such setting; there are profile, "),
    ("an unknown profile", {"profile": "third"}, "profile: is 'third'; there are second, default, alone"),
    ("both the default and a second", {"profile": "default", "profile_name": "gpu-packing"}, "profile_name: is gpu-packing, and"),
    (
        "a second named as the default",
        {"profile_name": "default-scheduler"},
        "profile_name: is default-scheduler, and profile is",
    ),
    ("a name that no pod can give", {"profile_name": "GPU packing"}, "profile_name: is 'GPU packing'; it is what pods give"),
    ("a name that is too long", {"profile_name": "a" * 64}, "profile_name: is 'aaa"),
    ("CPU as a GPU", {"resource_name": "cpu"}, "resource_name: is 'cpu'; it is a GPU resource"),
    ("a resource without a domain", {"resource_name": "gpu"}, "resource_name: 'gpu' is no name of a resource"),
    ("a resource that is a number", {"resource_name": 8}, "resource_name: is 8; it is a GPU resource"),
    ("a weight below", {"fit_weight": 0}, "fit_weight: is 0; it must be 1 to 100"),
    ("a weight above", {"fit_weight": 101}, "fit_weight: is 101; it must be 1 to 100"),
    ("a weight in words", {"fit_weight": "10"}, "fit_weight: is '10'; it is a whole number"),
    ("a weight that is true", {"fit_weight": True}, "fit_weight: is True; it is a whole number"),
    ("a negative weight", {"balanced_allocation_weight": -1}, "balanced_allocation_weight: is -1; it must be 0 to 100"),
    ("more than all nodes", {"percentage_of_nodes_to_score": 101}, "percentage_of_nodes_to_score: is 101; it must be 0 to 100"),
    ("nodes without GPUs", {"gpus_per_node": 0}, "gpus_per_node: is 0; it must be 1 to 100"),
    ("a weight of a resource", {"resource_weights": {"a.b/c": 0}}, "resource_weights[a.b/c]: is 0; it must be 1 to 100"),
    ("a resource that is none", {"resource_weights": {"gpus": 1}}, "resource_weights: 'gpus' is no name of a resource"),
    ("weights that are a list", {"resource_weights": ["cpu"]}, "resource_weights: is no mapping"),
    ("a base that is text", {"base": "profiles: []"}, "base: is no mapping"),
    ("maybe", {"default_spreading": "no"}, "default_spreading: is 'no'; it is true or false"),
    ("a kubeconfig that is no path", {"client_kubeconfig": {}}, "client_kubeconfig: is no path"),
]


@pytest.mark.parametrize(("given", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_makes_no_sense_is_refused_by_name(given: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        settings_of(given)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("profile", "name", "kubeconfig"),
    [
        ("second", "gpu-packing", "/etc/kubernetes/scheduler.conf"),
        ("default", "default-scheduler", "/etc/kubernetes/scheduler.conf"),
        ("alone", "gpu-packing", ""),
    ],
)
def test_each_kind_of_profile_has_its_name_and_its_way_to_the_cluster(profile: str, name: str, kubeconfig: str) -> None:
    settings = settings_of({"profile": profile, "profile_name": None})
    assert (settings.name, settings.kubeconfig) == (name, kubeconfig)


def test_the_gpu_resource_counts_1_beside_others_unless_it_is_named() -> None:
    assert settings_of({"resource_weights": {"cpu": 3}}).resources == [("nvidia.com/gpu", 1), ("cpu", 3)]
    assert settings_of({"resource_weights": {"cpu": 3, "nvidia.com/gpu": 9}}).resources == [("nvidia.com/gpu", 9), ("cpu", 3)]
