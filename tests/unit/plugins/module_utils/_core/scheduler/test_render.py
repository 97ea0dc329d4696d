# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is rendered packs, keeps what an operator has, and is the same when rendered again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.configuration import score_weights
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.packing import packing_profiles, packs
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.render import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.settings import settings_of
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object


def made(**given: Any) -> Object:
    return render(settings_of(given))


def profile(configuration: Object, name: str = "gpu-packing") -> Object:
    (found,) = (each for each in configuration["profiles"] if each["schedulerName"] == name)
    return dict(found)


def arguments(configuration: Object, plugin: str, name: str = "gpu-packing") -> Object:
    (found,) = (each["args"] for each in profile(configuration, name)["pluginConfig"] if each["name"] == plugin)
    return dict(found)


def test_a_second_profile_leaves_the_default_one_alone() -> None:
    found = made()
    assert list(found) == ["apiVersion", "kind", "clientConnection", "profiles"]
    assert found["profiles"][0] == {"schedulerName": "default-scheduler"}
    assert packing_profiles(packs(found, GPU)) == ["gpu-packing"]


def test_the_default_profile_packs_all_pods() -> None:
    assert [each["schedulerName"] for each in made(profile="default")["profiles"]] == ["default-scheduler"]
    assert packing_profiles(packs(made(profile="default"), GPU)) == ["default-scheduler"]


def test_a_scheduler_of_its_own_has_one_profile_and_a_lease_of_its_own() -> None:
    found = made(profile="alone", profile_name="gpu")
    assert [each["schedulerName"] for each in found["profiles"]] == ["gpu"]
    assert found["leaderElection"] == {"leaderElect": True, "resourceName": "gpu"}
    assert "clientConnection" not in found


def test_what_works_against_packing_is_off_and_soft_taints_still_steer() -> None:
    weights = score_weights(profile(made(fit_weight=7)), "")
    assert "NodeResourcesBalancedAllocation" not in weights
    assert (weights["NodeResourcesFit"], weights["TaintToleration"]) == (7, 21)
    spread = arguments(made(), "PodTopologySpread")
    assert (spread["defaultingType"], spread["defaultConstraints"]) == ("List", [])
    assert profile(made())["percentageOfNodesToScore"] == 100


def test_what_is_asked_for_stays() -> None:
    found = made(balanced_allocation_weight=2, default_spreading=True, fit_weight=17, percentage_of_nodes_to_score=0)
    assert score_weights(profile(found), "")["NodeResourcesBalancedAllocation"] == 2
    assert [each["name"] for each in profile(found)["pluginConfig"]] == ["NodeResourcesFit"]
    assert "percentageOfNodesToScore" not in profile(found)
    assert "multiPoint" not in profile(found)["plugins"]


@pytest.mark.parametrize(("gpus", "weight"), [(4, 9), (8, 17), (16, 33)])
def test_default_spreading_is_kept_only_where_one_gpu_outweighs_it(gpus: int, weight: int) -> None:
    made(default_spreading=True, gpus_per_node=gpus, fit_weight=weight)
    with pytest.raises(InputError, match="the profile would not pack: PodTopologySpread counts 2"):
        made(default_spreading=True, gpus_per_node=gpus, fit_weight=weight - 1)


OWN = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
BASE: Object = {
    "clientConnection": {"kubeconfig": "/elsewhere", "qps": 9},
    "parallelism": 8,
    "extenders": [{"urlPrefix": "https://extender", "filterVerb": "filter"}],
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "percentageOfNodesToScore": 50,
            "plugins": {
                "multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 4}], "disabled": [{"name": "ImageLocality"}]},
                "preScore": {"enabled": [{"name": "NodeResourcesBalancedAllocation"}]},
                "score": {"disabled": [{"name": "NodeResourcesFit"}], "enabled": [{"name": "NodeAffinity", "weight": 5}]},
            },
            "pluginConfig": [
                {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [OWN]}},
                {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/foo"]}},
            ],
        },
        {"schedulerName": "batch"},
    ],
}


def test_what_an_operator_has_stays() -> None:
    found = made(base=BASE, profile="default")
    assert {key: found[key] for key in ("clientConnection", "parallelism", "extenders")} == {
        key: BASE[key] for key in ("clientConnection", "parallelism", "extenders")
    }
    assert found["profiles"][1] == {"schedulerName": "batch"}
    weights = score_weights(profile(found, "default-scheduler"), "")
    assert weights["NodeAffinity"] == 5
    assert weights["NodeResourcesFit"] == 10
    assert not weights.keys() & {"ImageLocality", "NodeResourcesBalancedAllocation"}
    assert "preScore" not in profile(found, "default-scheduler")["plugins"]
    # A hard constraint of the operator's is no preference, so nothing outweighs it.
    assert arguments(found, "PodTopologySpread", "default-scheduler")["defaultConstraints"] == [OWN]
    assert arguments(found, "NodeResourcesFit", "default-scheduler")["ignoredResources"] == ["example.com/foo"]


def test_the_base_is_not_changed() -> None:
    before = copy.deepcopy(BASE)
    made(base=BASE, profile="default")
    made(base=BASE)
    assert before == BASE


def test_profiles_share_the_queue_of_the_first() -> None:
    queue = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}}
    found = made(base={"profiles": [{"plugins": queue}]})
    assert found["profiles"][0]["schedulerName"] == "default-scheduler"
    assert [each["plugins"]["queueSort"] for each in found["profiles"]] == [queue["queueSort"]] * 2


@pytest.mark.parametrize("kind", ["second", "default", "alone"])
def test_rendered_on_what_it_made_it_makes_the_same(kind: str) -> None:
    first = made(profile=kind)
    assert made(profile=kind, base=first) == first
    again = made(profile=kind, base=first, balanced_allocation_weight=1, fit_weight=20)
    assert made(profile=kind, base=again) == first


REFUSED: list[tuple[str, Object, str]] = [
    ("another kind", {"kind": "Policy"}, "base.kind: is 'Policy'; wanted is KubeSchedulerConfiguration"),
    ("a version of the past", {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"}, "base.apiVersion: is 'kubescheduler"),
    ("a version to convert", {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "base.apiVersion: is kubescheduler"),
    ("profiles that are no list", {"profiles": {"a": 1}}, "base.profiles: is dict, not a list"),
    ("a profile that is text", {"profiles": ["a"]}, "base.profiles[0]: is str, not a mapping"),
    ("profiles without names", {"profiles": [{}, {}]}, "base.profiles: has a profile without schedulerName"),
]


@pytest.mark.parametrize(("base", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_base_that_is_none_is_refused(base: Object, said: str) -> None:
    with pytest.raises(InputError) as refused:
        made(base=base)
    assert str(refused.value).startswith(said)


def test_two_schedulers_may_not_place_the_same_pods() -> None:
    with pytest.raises(InputError, match="has the profile batch, and profile is alone"):
        made(profile="alone", base={"profiles": [{"schedulerName": "gpu-packing"}, {"schedulerName": "batch"}]})
