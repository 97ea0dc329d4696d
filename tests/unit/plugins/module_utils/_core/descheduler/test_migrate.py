# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.migrate import Fleet, Migration, migrate
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.policy import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.settings import policy_settings
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.versions import parse_version
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._descheduler import policy_document
from ansible_collections.gpuops.defrag.tests.unit.policies import (
    ARTICLE,
    HEADER,
    PACKING,
    VERSIONS,
    VICTIMS,
    errors,
    policy,
    profile,
)

OLD = {"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy"}
PROTECTED = {"nodeFit": True, "minReplicas": 2, "noEvictionPolicy": "Mandatory"}
GPUS = Fleet(8, "gpu=a100")


def migrated(*, version: str = "0.36.0", fleet: Fleet | None = None, **fields: Any) -> Migration:
    return migrate({**OLD, **fields}, parse_version(version), fleet=fleet)


def strategy(name: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"strategies": {name: {"enabled": True, **({} if params is None else {"params": params}), **more}}}


def args(made: Migration, index: int = 0) -> dict[str, dict[str, Any]]:
    return {each["name"]: each["args"] for each in made.policy["profiles"][index]["pluginConfig"]}


def by_use(thresholds: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"nodeResourceUtilizationThresholds": {"thresholds": thresholds, **more}}


SELECTED = {"namespaces": {"include": ["a"]}, "labelSelector": {"matchLabels": {"a": "b"}}}

# As upstream converted them, strategymigration.go of v0.30.2.
CARRIED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "LowNodeUtilization",
        by_use({"cpu": 20}, targetThresholds={"cpu": 50}, useDeviationThresholds=False, numberOfNodes=3)
        | {"namespaces": {"exclude": ["a"]}},
        {
            "thresholds": {"cpu": 20},
            "targetThresholds": {"cpu": 50},
            "useDeviationThresholds": False,
            "numberOfNodes": 3,
            "evictableNamespaces": {"exclude": ["a"]},
        },
    ),
    ("HighNodeUtilization", by_use({"memory": 20}), {"thresholds": {"memory": 20}}),
    (
        "RemoveDuplicates",
        {"namespaces": {"exclude": ["a"]}, "removeDuplicates": {"excludeOwnerKinds": ["Job"]}},
        {"namespaces": {"exclude": ["a"]}, "excludeOwnerKinds": ["Job"]},
    ),
    (
        "RemovePodsViolatingTopologySpreadConstraint",
        SELECTED,
        SELECTED | {"constraints": ["DoNotSchedule"], "topologyBalanceNodeFit": True},
    ),
    (
        "RemovePodsViolatingTopologySpreadConstraint",
        {"includeSoftConstraints": True},
        {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "topologyBalanceNodeFit": True},
    ),
    ("RemovePodsViolatingInterPodAntiAffinity", SELECTED, SELECTED),
    ("RemovePodsViolatingNodeAffinity", SELECTED | {"nodeAffinityType": ["x"]}, SELECTED | {"nodeAffinityType": ["x"]}),
    (
        "RemovePodsViolatingNodeTaints",
        {"includePreferNoSchedule": False, "excludedTaints": ["a"]},
        {"includePreferNoSchedule": False, "excludedTaints": ["a"]},
    ),
    (
        "RemovePodsHavingTooManyRestarts",
        {"podsHavingTooManyRestarts": {"podRestartThreshold": 9, "includingInitContainers": True}},
        {"podRestartThreshold": 9, "includingInitContainers": True},
    ),
    (
        "PodLifeTime",
        SELECTED | {"podLifeTime": {"maxPodLifeTimeSeconds": 9, "podStatusPhases": ["Pending"], "states": ["Running"]}},
        SELECTED | {"maxPodLifeTimeSeconds": 9, "states": ["Pending", "Running"]},
    ),
    (
        "RemoveFailedPods",
        {
            "failedPods": {
                "excludeOwnerKinds": ["Job"],
                "minPodLifetimeSeconds": 9,
                "reasons": ["x"],
                "includingInitContainers": True,
            }
        },
        {"excludeOwnerKinds": ["Job"], "minPodLifetimeSeconds": 9, "reasons": ["x"], "includingInitContainers": True},
    ),
]


@pytest.mark.parametrize(("name", "params", "wanted"), CARRIED, ids=[row[0] for row in CARRIED])
def test_a_strategy_becomes_a_profile_with_its_plugin(name: str, params: dict[str, Any], wanted: dict[str, Any]) -> None:
    made = migrated(**strategy(name, params))
    assert [each["name"] for each in made.policy["profiles"]] == [f"strategy-{name}-profile"]
    assert args(made)[name] == wanted
    assert made.cannot == []
    assert errors(made.policy) == []


@pytest.mark.parametrize(
    ("version", "fields", "params", "evictor"),
    [
        ("0.36.0", {}, {}, PROTECTED),
        ("0.36.0", {}, {"nodeFit": False}, PROTECTED | {"nodeFit": False}),
        ("0.36.0", {}, {"thresholdPriority": 5}, PROTECTED | {"priorityThreshold": {"value": 5}}),
        ("0.36.0", {}, {"thresholdPriorityClassName": "a"}, PROTECTED | {"priorityThreshold": {"name": "a"}}),
        (
            "0.34.0",
            {"evictLocalStoragePods": True, "evictDaemonSetPods": True, "ignorePvcPods": True, "evictFailedBarePods": False},
            {},
            PROTECTED
            | {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage", "DaemonSetPods"], "extraEnabled": ["PodsWithPVC"]}},
        ),
        ("0.33.0", {"evictLocalStoragePods": True}, {}, {"nodeFit": True, "minReplicas": 2, "evictLocalStoragePods": True}),
        # Both together would leave no threshold.
        ("0.36.0", {"evictSystemCriticalPods": True}, {"thresholdPriority": 5}, PROTECTED | {"priorityThreshold": {"value": 5}}),
        (
            "0.36.0",
            {"evictSystemCriticalPods": True},
            {},
            PROTECTED | {"podProtections": {"defaultDisabled": ["SystemCriticalPods"]}},
        ),
    ],
)
def test_what_may_be_evicted_is_carried_over_and_better_protected(
    version: str, fields: dict[str, Any], params: dict[str, Any], evictor: dict[str, Any]
) -> None:
    made = migrated(version=version, **fields, **strategy("RemovePodsViolatingInterPodAntiAffinity", params))
    assert args(made)["DefaultEvictor"] == evictor
    assert errors(made.policy, version) == []


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        (strategy("RemoveDuplicates", weight=3), "strategies.RemoveDuplicates.weight: strategies have no weight"),
        (
            strategy("RemoveDuplicates", {"labelSelector": {}}),
            "strategies.RemoveDuplicates.params.labelSelector: this strategy never read it",
        ),
        (
            strategy("HighNodeUtilization", by_use({"cpu": 1}, targetThresholds={"cpu": 2})),
            "nodeResourceUtilizationThresholds.targetThresholds",
        ),
        (
            strategy("HighNodeUtilization", by_use({"cpu": 1}) | {"namespaces": {"include": ["a"]}}),
            "namespaces.include: HighNodeUtilization can only leave",
        ),
        (
            strategy("RemovePodsViolatingTopologySpreadConstraint", {"maxSkew": 1}),
            "params.maxSkew: it is read from the pods' own",
        ),
        (strategy("GpuDefrag"), "strategies.GpuDefrag: the descheduler never had such a strategy"),
        (
            strategy("RemoveDuplicates", {"thresholdPriority": 1, "thresholdPriorityClassName": "a"}),
            "thresholdPriority is there too",
        ),
        (strategy("PodLifeTime"), "strategy-PodLifeTime-profile: pluginConfig[1].args: maxPodLifeTimeSeconds"),
        (strategy("LowNodeUtilization", by_use({"cpu": 20})), "targetThresholds: there is no threshold"),
        ({"maxNoOfPodsToEvictPerNodes": 1}, "maxNoOfPodsToEvictPerNodes (did you mean maxNoOfPodsToEvictPerNode?)"),
        ({"evictLocalStoragePods": "yes"} | strategy("RemoveDuplicates"), "evictLocalStoragePods: it is neither true nor false"),
    ],
)
def test_what_has_no_counterpart_is_told(fields: dict[str, Any], lost: str) -> None:
    made = migrated(**fields)
    assert any(lost in each for each in made.cannot), made.cannot
    assert not fields.get("strategies") or errors(made.policy) == []


def test_a_strategy_that_was_off_stays_off_and_the_policy_carries_out_plans() -> None:
    for off in ({"enabled": False}, {}):
        made = migrated(strategies={"RemoveDuplicates": off})
        assert made.notes[1] == "strategies.RemoveDuplicates: left out, as it was not enabled"
        assert made.policy["profiles"] == render(policy_settings({}))["profiles"]


def test_where_strategies_stand_in_v1alpha2_they_are_meant_unless_they_are_off() -> None:
    made = migrate({**HEADER, "strategies": {"RemoveDuplicates": {}, "PodLifeTime": {"enabled": False}}}, (0, 36, 0))
    assert [each["name"] for each in made.policy["profiles"]] == ["strategy-RemoveDuplicates-profile"]


def test_profiles_beside_strategies_are_kept() -> None:
    mine = profile(PodLifeTime=VICTIMS)
    made = migrate({**policy(mine), **strategy("RemoveDuplicates")}, (0, 36, 0))
    assert made.policy["profiles"][0] == mine
    assert [each["name"] for each in made.policy["profiles"]] == ["p", "strategy-RemoveDuplicates-profile"]


def test_a_policy_that_needs_nothing_comes_back_as_it_is() -> None:
    given = policy(profile(HighNodeUtilization=PACKING), nodeSelector="a=b", unknown=1)
    made = migrate(given, (0, 36, 0), fleet=GPUS)
    assert (made.policy, made.notes, made.cannot) == (given, [], [])


# What articles meant.


def test_the_article_packs_by_percentages_once_the_nodes_are_known() -> None:
    article = policy_document(ARTICLE).content
    made = migrate(article, (0, 36, 0), fleet=GPUS)
    assert errors(made.policy) == []
    assert made.policy["nodeSelector"] == "gpu=a100"
    assert made.policy["maxNoOfPodsToEvictPerNode"] == 1
    assert made.policy["maxNoOfPodsToEvictPerNamespace"] == 5
    assert [each["name"] for each in made.policy["profiles"]] == [
        "gpuops-native",
        "strategy-RemovePodsViolatingInterPodAntiAffinity-profile",
        "strategy-RemovePodsViolatingTopologySpreadConstraint-profile",
    ]
    # 1 and 3 free GPUs: a node with 3 of 8 free, or fewer, is full enough.
    assert args(made)["HighNodeUtilization"] == {
        "thresholds": {"nvidia.com/gpu": 56.25},
        "evictionModes": ["OnlyThresholdingResources"],
    }
    assert args(made)["DefaultEvictor"] == PROTECTED | {"nodeSelector": "gpu=a100"}
    assert "strategies.LowNodeUtilization: LowNodeUtilization spreads, and packing was meant" in made.notes
    assert any("a node with more than 3 of 8 GPUs free is emptied now" in note for note in made.notes)
    assert [each.partition(":")[0].rpartition(".")[2] for each in made.cannot] == ["maxSkew", "topologyKey"]


@pytest.mark.parametrize("version", ["0.32.0", *VERSIONS])
@pytest.mark.parametrize("fleet", [None, GPUS, Fleet(8), Fleet(None, "gpu=a100")])
def test_the_article_has_no_error_left_in_any_version(version: str, fleet: Fleet | None) -> None:
    article = policy_document(ARTICLE).content
    made = migrate(article, parse_version(version), fleet=fleet)
    assert errors(made.policy, version) == []
    known = fleet == GPUS and version != "0.32.0"
    # What is not known cannot be computed: then plans do what was meant.
    assert made.policy["profiles"][0]["name"] == ("gpuops-native" if known else "gpuops-planned")


@pytest.mark.parametrize("name", ["LowNodeUtilization", "HighNodeUtilization"])
def test_percentages_of_gpus_stay_percentages(name: str) -> None:
    params = by_use({"nvidia.com/gpu": 40, "cpu": 20}, numberOfNodes=2)
    made = migrated(fleet=Fleet(None, "gpu=a100"), **strategy(name, params))
    assert args(made)["HighNodeUtilization"] == PACKING | {"thresholds": {"nvidia.com/gpu": 40}, "numberOfNodes": 2}
    assert made.cannot == [f"strategies.{name}: thresholds of cpu; GPUs are packed by their own resource alone"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "not a mapping"),
        ({"kind": "ConfigMap"}, "kind: is ConfigMap"),
        ({"apiVersion": "v1"}, "apiVersion: is v1"),
        # Dropped, these would let more be evicted than was meant.
        ({**OLD, "maxNoOfPodsToEvictPerNode": "1", "strategies": {}}, "maxNoOfPodsToEvictPerNode: '1' is not a whole number"),
        ({**OLD, "nodeSelector": "a in b", "strategies": {}}, "nodeSelector: the selector cannot be read"),
    ],
)
def test_what_cannot_be_migrated_safely_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InputError, match="policy: ") as raised:
        migrate(given, (0, 36, 0))
    assert words in str(raised.value)


@pytest.mark.parametrize(("gpus", "selector", "field"), [(2, "", "gpus_per_node"), (8, "a in b", "node_selector")])
def test_nodes_that_cannot_be_are_refused(gpus: int, selector: str, field: str) -> None:
    with pytest.raises(InputError, match=f"^{field}: "):
        Fleet(gpus, selector)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 120), st.sampled_from(["a", "In", "DoNotSchedule", "cpu"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["include", "exclude", "matchLabels", "nvidia.com/gpu", "cpu", "a"]), inner, max_size=3),
    ),
    max_leaves=6,
)
GROUPS = {
    "nodeResourceUtilizationThresholds": ("thresholds", "targetThresholds", "numberOfNodes"),
    "podsHavingTooManyRestarts": ("podRestartThreshold",),
    "podLifeTime": ("maxPodLifeTimeSeconds", "states", "podStatusPhases"),
    "failedPods": ("minPodLifetimeSeconds", "reasons"),
    "removeDuplicates": ("excludeOwnerKinds",),
}
params = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("namespaces", "labelSelector", "nodeAffinityType", "excludedTaints", "thresholdPriority", "nodeFit", "x"), values
        ),
        **{group: st.dictionaries(st.sampled_from(keys), values) for group, keys in GROUPS.items()},
    },
)
written = st.fixed_dictionaries(
    {
        "strategies": st.dictionaries(
            st.sampled_from([row[0] for row in CARRIED]),
            st.fixed_dictionaries({"enabled": st.booleans(), "params": params}),
            min_size=1,
            max_size=3,
        )
    },
    optional={"evictLocalStoragePods": values, "evictSystemCriticalPods": values, "ignorePvcPods": values, "x": values},
)


@given(written, st.sampled_from(["0.32.0", *VERSIONS]), st.sampled_from([None, GPUS, Fleet(None, "a=b")]))
def test_whatever_is_migrated_has_no_error(fields: dict[str, Any], version: str, fleet: Fleet | None) -> None:
    made = migrated(version=version, fleet=fleet, **fields)
    assert errors(made.policy, version) == []
    assert json.dumps(made.policy) == json.dumps(migrated(version=version, fleet=fleet, **fields).policy)
