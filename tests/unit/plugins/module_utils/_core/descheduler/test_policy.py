# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render, threshold
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import OPT_IN, policy_settings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES
from ansible_collections.gpuops.defrag.tests.unit.policies import VERSIONS, errors

POOL = {"name": "a100", "node_selector": {"gpu": "a100"}, "gpus_per_node": 8, "max_free": 2}
NATIVE = {"mode": "native", "pools": [POOL]}
VICTIM = {"matchLabels": {"gpuops.io/evict": "true"}}


def rendered(**settings: Any) -> dict[str, Any]:
    return render(policy_settings(settings))


def args(policy: dict[str, Any], plugin: str, profile: int = 0) -> dict[str, Any]:
    (found,) = [each["args"] for each in policy["profiles"][profile]["pluginConfig"] if each["name"] == plugin]
    return dict(found)


def enabled(policy: dict[str, Any]) -> list[list[str]]:
    """Plugins that evict, by profile."""
    return [
        [name for point in ("deschedule", "balance") for name in profile["plugins"].get(point, {}).get("enabled", ())]
        for profile in policy["profiles"]
    ]


def test_planned_mode_evicts_what_carries_the_label_and_nothing_else() -> None:
    policy = rendered()
    assert enabled(policy) == [["PodLifeTime"]]
    # The plugin's own selector counts: pods with an evict annotation pass that of the evictor.
    assert args(policy, "PodLifeTime") == {"maxPodLifeTimeSeconds": 1, "states": ["Running"], "labelSelector": VICTIM}
    assert args(policy, "DefaultEvictor") == {
        "nodeFit": True,
        "minReplicas": 2,
        "labelSelector": VICTIM,
        "noEvictionPolicy": "Mandatory",
        "podProtections": {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithResourceClaims"]},
    }
    assert "nodeSelector" not in policy


def test_before_0_34_booleans_stand_for_protections() -> None:
    assert args(rendered(descheduler_version="0.33.0"), "DefaultEvictor") == {
        "nodeFit": True,
        "minReplicas": 2,
        "labelSelector": VICTIM,
        "evictLocalStoragePods": True,
    }
    assert args(rendered(descheduler_version="0.33.0", **NATIVE), "DefaultEvictor")["ignorePvcPods"] is True


def test_native_mode_packs_the_nodes_of_one_pool() -> None:
    policy = rendered(**NATIVE)
    assert policy["nodeSelector"] == "gpu=a100"
    assert [profile["name"] for profile in policy["profiles"]] == ["gpuops-native-a100"]
    assert enabled(policy) == [["HighNodeUtilization"]]
    assert args(policy, "HighNodeUtilization") == {
        "thresholds": {"nvidia.com/gpu": 68.75},
        "evictionModes": ["OnlyThresholdingResources"],
    }
    assert args(policy, "DefaultEvictor") == {
        "nodeFit": True,
        "minReplicas": 2,
        # Where a pod would fit outside the pool is not where it is to go.
        "nodeSelector": "gpu=a100",
        "noEvictionPolicy": "Mandatory",
        "podProtections": {"extraEnabled": ["PodsWithResourceClaims", "PodsWithPVC"]},
    }


@pytest.mark.parametrize("gpus", [*range(3, 17), 100])
def test_a_node_is_a_source_exactly_if_more_than_max_free_gpus_are_free(gpus: int) -> None:
    for free_enough in range(1, gpus - 1):
        percent = threshold(gpus, free_enough)
        for used in range(gpus + 1):
            # The descheduler of 0.33 and newer compares floats, that of 0.32 floors the threshold to GPUs; both inclusively.
            assert (used / gpus * 100 <= percent) == (gpus - used > free_enough)
            assert (used <= int(percent * gpus / 100)) == (gpus - used > free_enough)
            # And it matters not whether it were exclusive.
            assert used / gpus * 100 != percent


def test_one_of_several_pools_is_named() -> None:
    pools = [POOL, POOL | {"name": "h100", "node_selector": "gpu in (h100,h200),!spot"}]
    policy = rendered(mode="native", pools=pools, pool="h100")
    assert policy["nodeSelector"] == "gpu in (h100,h200),!spot"
    assert policy["profiles"][0]["name"] == "gpuops-native-h100"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_gives_the_limits_and_limits_go_over_it(profile: str) -> None:
    bounds = PROFILES[profile]
    policy = rendered(profile=profile)
    assert policy["maxNoOfPodsToEvictPerNode"] == bounds.per_node
    assert policy["maxNoOfPodsToEvictPerNamespace"] == bounds.per_namespace
    assert policy["maxNoOfPodsToEvictTotal"] == bounds.total
    changed = rendered(profile=profile, limits={"total": 7, "interval_seconds": 60, "per_workload": 1, "per_node": None})
    assert changed == policy | {"maxNoOfPodsToEvictTotal": 7}


def test_a_total_of_none_is_a_pause() -> None:
    assert rendered(limits={"total": 0})["maxNoOfPodsToEvictTotal"] == 0


def test_opt_in_plugins_have_a_profile_of_their_own_that_looks_at_all_pods() -> None:
    policy = rendered(plugins=list(reversed(OPT_IN)), allow_remove_duplicates=True)
    assert enabled(policy) == [["PodLifeTime"], list(OPT_IN)]
    evictor = args(policy, "DefaultEvictor", 1)
    assert "labelSelector" not in evictor
    assert evictor["podProtections"] == {"extraEnabled": ["PodsWithResourceClaims", "PodsWithPVC"]}
    spread = args(policy, "RemovePodsViolatingTopologySpreadConstraint", 1)
    assert spread == {"constraints": ["DoNotSchedule"], "topologyBalanceNodeFit": True}


@pytest.mark.parametrize(
    ("settings", "where", "wanted"),
    [
        ({"priority_threshold": 1000}, "priorityThreshold", {"value": 1000}),
        ({"priority_threshold": 0}, "priorityThreshold", {"value": 0}),
        ({"priority_threshold": "production"}, "priorityThreshold", {"name": "production"}),
        ({"min_pod_age": "15m"}, "minPodAge", "15m"),
        ({"min_pod_age": 90}, "minPodAge", "90s"),
        ({"min_pod_age": "0s"}, "minPodAge", None),
        ({"min_replicas": 1}, "minReplicas", None),
        ({"min_replicas": 3}, "minReplicas", 3),
        ({"protect_local_storage": True}, "podProtections", {"extraEnabled": ["PodsWithResourceClaims"]}),
        (
            {"protect_pvc": True},
            "podProtections",
            {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithResourceClaims", "PodsWithPVC"]},
        ),
        (
            {**NATIVE, "protect_local_storage": False, "protect_pvc": False},
            "podProtections",
            {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithResourceClaims"]},
        ),
    ],
)
def test_a_wish_is_an_arg_of_the_evictor(settings: dict[str, Any], where: str, wanted: Any) -> None:
    assert args(rendered(**settings), "DefaultEvictor").get(where) == wanted


def test_nothing_is_evicted_in_an_excluded_namespace() -> None:
    left = {"exclude": ["kube-system", "prod"]}
    settings: dict[str, Any] = {"namespaces_excluded": ["prod", "kube-system", "prod"]}
    plugins = {"plugins": list(OPT_IN), "allow_remove_duplicates": True}
    policy = rendered(**settings, **plugins)
    assert args(policy, "PodLifeTime")["namespaces"] == left
    assert all(args(policy, name, 1)["namespaces"] == left for name in OPT_IN)
    assert args(rendered(**settings, **NATIVE), "HighNodeUtilization")["evictableNamespaces"] == left


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"mode": "packing"}, "mode", "none of planned, native"),
    ({"mode": "Native"}, "mode", "did you mean native"),
    ({"mode": 1}, "mode", "not text"),
    ({"modes": "native"}, "modes", "did you mean mode"),
    ({"profile": "bold"}, "profile", "conservative, balanced, aggressive"),
    ({"limits": {"per_node": 0}}, "limits.per_node", "nothing would ever be evicted"),
    ({"limits": {"total": -1}}, "limits.total", "it must be at least 0"),
    ({"limits": {"per_node": "1"}}, "limits.per_node", "not a whole number"),
    ({"limits": {"per_node": True}}, "limits.per_node", "not a whole number"),
    ({"limits": {"pernode": 1}}, "limits.pernode", "did you mean per_node"),
    ({"limits": [1]}, "limits", "not a mapping"),
    ({**NATIVE, "limits": {"per_workload": 1}}, "limits.per_workload", "has no limit per workload"),
    ({"descheduler_version": "0.31.0"}, "descheduler_version", "0.32.0 is the oldest"),
    ({"descheduler_version": "0.37.0"}, "descheduler_version", "not known here"),
    ({"descheduler_version": 0.36}, "descheduler_version", "not text"),
    ({**NATIVE, "descheduler_version": "0.32.2"}, "descheduler_version", "0.33.0 has and 0.32.2 has not"),
    ({"resource_name": "nvidia com/gpu"}, "resource_name", "no resource's name"),
    ({"mode": "native"}, "pools", "needs a pool"),
    ({"mode": "native", "pools": "a"}, "pools", "not a list of pools"),
    ({"mode": "native", "pools": ["a"]}, "pools[0]", "not a pool"),
    ({"mode": "native", "pools": [POOL, POOL]}, "pools[1].name", "twice"),
    ({"mode": "native", "pools": [POOL, POOL | {"name": "b"}]}, "pools", "one policy packs one pool"),
    ({**NATIVE, "pool": "h100"}, "pool", "none of the pools: a100"),
    *(
        ({"mode": "native", "pools": [POOL | change]}, f"pools[0].{field}", words)
        for change, field, words in (
            ({"name": ""}, "name", "is missing"),
            ({"name": "A 100"}, "name", "is no name"),
            ({"node_selector": ""}, "node_selector", "nodes without GPUs would count as empty"),
            ({"node_selector": None}, "node_selector", "nodes without GPUs would count as empty"),
            ({"node_selector": {}}, "node_selector", "nodes without GPUs would count as empty"),
            ({"node_selector": ["a"]}, "node_selector", "neither text"),
            ({"node_selector": "a in b"}, "node_selector", "'a in b'"),
            ({"node_selector": "a=b c"}, "node_selector", ""),
            ({"node_selector": {"-a": "c"}}, "node_selector", "no label's key"),
            ({"node_selector": {"a": "b/c"}}, "node_selector", "no label's value"),
            ({"gpus_per_node": None}, "gpus_per_node", "is missing"),
            ({"gpus_per_node": "8"}, "gpus_per_node", "not a whole number"),
            ({"gpus_per_node": 2}, "gpus_per_node", "can pack nothing"),
            ({"max_free": None}, "max_free", "is missing"),
            ({"max_free": 0}, "max_free", "nothing goes onto a full node"),
            ({"max_free": 7}, "max_free", "hold no GPU pod"),
            ({"max_free": -1}, "max_free", "at least 0"),
            ({"percent": 70}, "percent", "no key of a pool"),
        )
    ),
    ({"priority_threshold": 2_000_000_001}, "priority_threshold", "no more than 2000000000"),
    ({"priority_threshold": -(2**31) - 1}, "priority_threshold", "so low"),
    ({"priority_threshold": ""}, "priority_threshold", "name of a PriorityClass"),
    ({"priority_threshold": 1.5}, "priority_threshold", "name of a PriorityClass"),
    ({"min_pod_age": "1d"}, "min_pod_age", "90s, 15m or 1h30m"),
    ({"min_pod_age": "-5m"}, "min_pod_age", "90s, 15m or 1h30m"),
    ({"min_pod_age": 1.5}, "min_pod_age", "90s, 15m or 1h30m"),
    ({"min_pod_age": "2562048h"}, "min_pod_age", "longer than the descheduler can read"),
    ({"min_pod_age": 10**12}, "min_pod_age", "longer than the descheduler can read"),
    ({"min_replicas": 0}, "min_replicas", "at least 1"),
    ({"min_replicas": 2**31}, "min_replicas", "too large"),
    ({"limits": {"per_node": 10**30}}, "limits.per_node", "too large"),
    ({"protect_pvc": "yes"}, "protect_pvc", "not true or false"),
    ({"namespaces_excluded": "kube-system"}, "namespaces_excluded", "not a list"),
    ({"namespaces_excluded": [""]}, "namespaces_excluded[0]", "empty"),
    ({"plugins": ["LowNodeUtilization"]}, "plugins[0]", "none of RemovePodsViolatingInterPodAntiAffinity"),
    ({"plugins": ["removeduplicates"]}, "plugins[0]", "did you mean RemoveDuplicates"),
    ({"plugins": ["RemoveDuplicates"]}, "plugins[0]", "allow_remove_duplicates: true"),
]


@pytest.mark.parametrize(("settings", "field", "words"), REFUSED, ids=[f"{field}: {words}" for _given, field, words in REFUSED])
def test_settings_that_cannot_work_are_refused_by_name(settings: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        policy_settings(settings)
    assert str(raised.value).startswith(f"{field}: ")
    assert words in str(raised.value)


def test_null_is_as_if_it_were_not_there() -> None:
    assert rendered(**dict.fromkeys(("mode", "limits", "pools", "pool", "plugins", "min_replicas", "profile"))) == rendered()


pools = st.integers(3, 16).flatmap(
    lambda gpus: st.fixed_dictionaries(
        {
            "name": st.just("p"),
            "node_selector": st.sampled_from(["a=b", "a in (b,c),!d", {"nvidia.com/gpu.count": 8, "spot": False}]),
            "gpus_per_node": st.just(gpus),
            "max_free": st.integers(1, gpus - 2),
        }
    )
)
wishes = st.fixed_dictionaries(
    {"mode": st.sampled_from(["planned", "native"]), "pools": st.lists(pools, min_size=1, max_size=1)},
    optional={
        "profile": st.sampled_from(list(PROFILES)),
        "limits": st.dictionaries(st.sampled_from(["per_node", "per_namespace", "total"]), st.integers(1, 100)),
        "resource_name": st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"]),
        "descheduler_version": st.sampled_from(VERSIONS),
        "priority_threshold": st.one_of(st.integers(-10, 2_000_000_000), st.just("production")),
        "min_pod_age": st.sampled_from(["15m", "1h30m", 90, 0]),
        "min_replicas": st.integers(1, 5),
        "protect_local_storage": st.booleans(),
        "protect_pvc": st.booleans(),
        "namespaces_excluded": st.lists(st.sampled_from(["kube-system", "prod"])),
        "plugins": st.lists(st.sampled_from(OPT_IN), unique=True),
        "allow_remove_duplicates": st.just(True),
    },
)


@given(wishes)
def test_whatever_is_wished_the_policy_has_no_error_and_only_what_its_version_knows(settings: dict[str, Any]) -> None:
    settings = {"allow_remove_duplicates": True, "descheduler_version": "0.36.0"} | settings
    policy = render(policy_settings(settings))
    # An unknown field would be an error, and so would be a missing one.
    assert errors(policy, str(settings["descheduler_version"])) == []
    assert json.dumps(policy) == json.dumps(render(policy_settings(dict(reversed(settings.items())))))
