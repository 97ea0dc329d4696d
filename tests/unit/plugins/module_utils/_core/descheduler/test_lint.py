# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every trap is a row: a policy, and exactly what is found in it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.check import check
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.findings import IDS, Finding
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint import Document
from ansible_collections.gpuops.defrag.tests.unit.policies import (
    ARTICLE,
    EVICTOR,
    HEADER,
    OLD_EVICTOR,
    PACKING,
    VICTIMS,
    Told,
    found,
    policy,
    profile,
    protecting,
    victims,
)

HEADER_TEXT = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
ERROR, WARNING, INFO = "error", "warning", "info"
CONFIG = "profiles[0].pluginConfig"
ARGS = f"{CONFIG}[1].args"
EVICT = f"{CONFIG}[0].args"
ENABLED = "profiles[0].plugins"
PLANNED = profile(PodLifeTime=VICTIMS)


def packing(**args: Any) -> dict[str, Any]:
    return policy(profile(HighNodeUtilization={**PACKING, **args}), nodeSelector="gpu=a100")


def spreading(**args: Any) -> dict[str, Any]:
    return policy(profile(LowNodeUtilization={"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **args}))


def running(plugin: str, **args: Any) -> dict[str, Any]:
    plugins: dict[str, Any] = {plugin: args}
    return policy(profile(**plugins))


SOFT = ("SoftTaints", INFO, ARGS)
SPREADS = ("Spreads", WARNING, ARGS)
THRESHOLD = f"{ARGS}.thresholds['nvidia.com/gpu']"

Row = tuple[str, Any, list[Told]]
ROWS: list[Row] = [
    # Nothing is wrong.
    ("the policy of planned mode", policy(PLANNED), []),
    ("one of native mode, which soft taints stop", packing(), [SOFT]),
    ("null is as if it were not there", policy(PLANNED, nodeSelector=None, metricsProviders=None), []),
    ("args may be left out where none are needed", policy(profile(RemovePodsViolatingInterPodAntiAffinity=None)), []),
    # The document.
    ("an empty text", "", [("EmptyPolicy", ERROR, "")]),
    ("a text of comments", "# later\n", [("EmptyPolicy", ERROR, "")]),
    ("an empty mapping", {}, [("EmptyPolicy", ERROR, "")]),
    ("a list", [PLANNED], [("WrongType", ERROR, "")]),
    ("no apiVersion", policy(PLANNED, apiVersion=None), [("MissingApiVersion", ERROR, "apiVersion")]),
    ("no kind", policy(PLANNED, kind=None), [("MissingKind", WARNING, "kind")]),
    ("another kind", policy(PLANNED, kind="Policy"), [("WrongKind", ERROR, "kind")]),
    (
        "an apiVersion of another case",
        policy(PLANNED, apiVersion="descheduler/V1alpha2"),
        [("WrongApiVersion", ERROR, "apiVersion")],
    ),
    (
        "v1alpha1",
        {
            **HEADER,
            "apiVersion": "descheduler/v1alpha1",
            "strategies": {"RemovePodsViolatingInterPodAntiAffinity": {"enabled": True}},
        },
        [("WrongApiVersion", ERROR, "apiVersion"), ("OldStrategies", ERROR, "strategies")],
    ),
    ("strategies in v1alpha2", {**HEADER, "strategies": {}}, [("OldStrategies", ERROR, "strategies")]),
    (
        "a strategy that never was",
        {**HEADER, "strategies": {"GpuDefrag": {"enabled": True}}},
        [("OldStrategies", ERROR, "strategies"), ("UnknownPlugin", ERROR, "strategies.GpuDefrag")],
    ),
    (
        "strategies on soft constraints and duplicates",
        {
            **HEADER,
            "strategies": {
                "RemovePodsViolatingTopologySpreadConstraint": {"params": {"includeSoftConstraints": True}},
                "RemoveDuplicates": {"enabled": True},
            },
        },
        [
            ("OldStrategies", ERROR, "strategies"),
            ("SoftConstraints", WARNING, "strategies.RemovePodsViolatingTopologySpreadConstraint.params"),
            ("DuplicatesPacked", WARNING, "strategies.RemoveDuplicates"),
        ],
    ),
    (
        "a key twice",
        f"{HEADER_TEXT}maxNoOfPodsToEvictTotal: 1\nmaxNoOfPodsToEvictTotal: 9\nprofiles: []\n",
        [("DuplicateKey", ERROR, "maxNoOfPodsToEvictTotal"), ("NoProfiles", ERROR, "profiles")],
    ),
    (
        "two documents",
        f"{HEADER_TEXT}---\nprofiles: []\n",
        [("SeveralDocuments", ERROR, ""), ("NoProfiles", ERROR, "profiles")],
    ),
    # Fields. Above the args of plugins the descheduler is silent.
    (
        "a misspelt limit, which is no limit",
        policy(PLANNED, maxNoOfPodsToEvictPerNodes=1),
        [("UnknownField", ERROR, "maxNoOfPodsToEvictPerNodes")],
    ),
    ("a field of another case", policy(PLANNED, NodeSelector="a=b"), [("UnknownField", ERROR, "NodeSelector")]),
    ("tracing, which is no field of a policy", policy(PLANNED, tracing={}), [("UnknownField", ERROR, "tracing")]),
    (
        "a node selector of one profile",
        policy({**PLANNED, "nodeSelector": "a=b"}),
        [("UnknownField", ERROR, "profiles[0].nodeSelector")],
    ),
    (
        "an extension point that is none",
        policy({**PLANNED, "plugins": {**PLANNED["plugins"], "descheduler": {"enabled": []}}}),
        [("UnknownField", ERROR, f"{ENABLED}.descheduler")],
    ),
    ("an arg that is none", victims(maxPodLifetimeSeconds=1), [("UnknownField", ERROR, f"{ARGS}.maxPodLifetimeSeconds")]),
    (
        "an arg of v1alpha1",
        running("RemovePodsViolatingTopologySpreadConstraint", includeSoftConstraints=False, maxSkew=1),
        [("UnknownField", ERROR, f"{ARGS}.includeSoftConstraints"), ("UnknownField", ERROR, f"{ARGS}.maxSkew")],
    ),
    (
        "target thresholds of HighNodeUtilization",
        packing(targetThresholds={"cpu": 50}),
        [("UnknownField", ERROR, f"{ARGS}.targetThresholds"), SOFT],
    ),
    ("namespaces of HighNodeUtilization", packing(namespaces={}), [("UnknownField", ERROR, f"{ARGS}.namespaces"), SOFT]),
    (
        "a part of a selector that is none",
        victims(labelSelector={"matchLabel": {"a": "b"}}),
        [("UnknownField", ERROR, f"{ARGS}.labelSelector.matchLabel")],
    ),
    (
        "what no version reads",
        policy({**PLANNED, "plugins": {**PLANNED["plugins"], "sort": {"enabled": ["Nope"]}}}),
        [("UnreadField", WARNING, f"{ENABLED}.sort")],
    ),
    (
        "plugins that are disabled, which is not read either",
        policy(
            profile(RemovePodsViolatingInterPodAntiAffinity={})
            | {"plugins": {"deschedule": {"enabled": ["RemovePodsViolatingInterPodAntiAffinity"], "disabled": ["PodLifeTime"]}}}
        ),
        [("UnreadField", WARNING, f"{ENABLED}.deschedule.disabled")],
    ),
    # Types.
    *(
        (f"{name}: {value!r}", policy(PLANNED, **{name: value}), [("WrongType", ERROR, name)])
        for name, value in (
            ("maxNoOfPodsToEvictPerNode", "1"),
            ("maxNoOfPodsToEvictPerNode", -1),
            ("maxNoOfPodsToEvictPerNode", 1.5),
            ("maxNoOfPodsToEvictPerNode", 1.0),
            ("maxNoOfPodsToEvictPerNode", True),
            ("gracePeriodSeconds", "30s"),
            ("nodeSelector", {"a": "b"}),
            ("metricsCollector", True),
            ("evictionFailureEventNotification", "yes"),
        )
    ),
    (
        "profiles as a mapping",
        {**HEADER, "profiles": {"p": {}}},
        [("WrongType", ERROR, "profiles"), ("NoProfiles", ERROR, "profiles")],
    ),
    ("a profile as text", policy("p"), [("WrongType", ERROR, "profiles[0]"), ("NoProfiles", ERROR, "profiles")]),
    (
        "plugins as a list",
        policy({**PLANNED, "plugins": {"deschedule": ["PodLifeTime"]}}),
        [
            ("WrongType", ERROR, f"{ENABLED}.deschedule"),
            ("PluginNotEnabled", WARNING, f"{CONFIG}[1]"),
            ("NothingEnabled", ERROR, ENABLED),
        ],
    ),
    ("an age in quotes", victims(maxPodLifeTimeSeconds="1"), [("WrongType", ERROR, f"{ARGS}.maxPodLifeTimeSeconds")]),
    ("a threshold in quotes", packing(thresholds={"nvidia.com/gpu": "70"}), [("WrongType", ERROR, f"{ARGS}.thresholds"), SOFT]),
    ("a duration as a number", protecting(minPodAge=300), [("WrongType", ERROR, f"{EVICT}.minPodAge")]),
    ("a duration in days", protecting(minPodAge="1d"), [("WrongType", ERROR, f"{EVICT}.minPodAge")]),
    ("a duration of several units", protecting(minPodAge="1h30m"), []),
    ("the longest duration that Go has", protecting(minPodAge="2562047h47m16s"), []),
    ("a longer one", protecting(minPodAge="2562047h47m17s"), [("WrongType", ERROR, f"{EVICT}.minPodAge")]),
    ("a number that is too large", protecting(minReplicas=2**64), [("WrongType", ERROR, f"{EVICT}.minReplicas")]),
    (
        "labels that are not text",
        victims(labelSelector={"matchLabels": {"a": True}}),
        [("WrongType", ERROR, f"{ARGS}.labelSelector.matchLabels")],
    ),
    (
        "expressions that are no list",
        victims(labelSelector={"matchExpressions": {}}),
        [("WrongType", ERROR, f"{ARGS}.labelSelector.matchExpressions")],
    ),
    ("exit codes as text", victims(exitCodes=["1"]), [("WrongType", ERROR, f"{ARGS}.exitCodes")]),
    (
        "a priority out of 32 bits",
        protecting(priorityThreshold={"value": 3_000_000_000}),
        [
            ("WrongType", ERROR, f"{EVICT}.priorityThreshold.value"),
            ("PriorityOutOfRange", ERROR, f"{EVICT}.priorityThreshold.value"),
        ],
    ),
    # Selectors.
    ("a node selector that cannot be read", policy(PLANNED, nodeSelector="a in b"), [("InvalidSelector", ERROR, "nodeSelector")]),
    (
        "one in the evictor, which would evict nothing",
        protecting(nodeSelector="a in b"),
        [("InvalidSelector", ERROR, f"{EVICT}.nodeSelector")],
    ),
    *(
        (
            f"the expression {each}",
            victims(labelSelector={"matchExpressions": [each]}),
            [("InvalidSelector", ERROR, f"{ARGS}.labelSelector.matchExpressions[0]")],
        )
        for each in (
            {"key": "a", "operator": "Like", "values": ["b"]},
            {"key": "a", "operator": "Gt", "values": ["1"]},
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b"]},
        )
    ),
    ("an expression that can be read", victims(labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}), []),
    # Limits.
    ("no limit", {**HEADER, "profiles": [PLANNED]}, [("NoLimits", WARNING, "")]),
    ("a limit of 0", policy(PLANNED, maxNoOfPodsToEvictTotal=0), [("ZeroLimit", WARNING, "maxNoOfPodsToEvictTotal")]),
    # Profiles.
    ("no profiles", policy(), [("NoProfiles", ERROR, "profiles")]),
    ("a profile that enables nothing", policy({"name": "p"}), [("NothingEnabled", ERROR, ENABLED)]),
    ("a profile without a name", policy(profile(PodLifeTime=VICTIMS, name="")), [("ProfileName", WARNING, "profiles[0]")]),
    (
        "two profiles of one name",
        policy(PLANNED, PLANNED),
        [("ProfileName", WARNING, "profiles[0]"), ("ProfileName", WARNING, "profiles[1]")],
    ),
    (
        "a plugin that is none",
        policy({**PLANNED, "plugins": {"deschedule": {"enabled": ["PodLifeTime", "PodLifetimes"]}}}),
        [("UnknownPlugin", ERROR, f"{ENABLED}.deschedule.enabled[1]")],
    ),
    (
        "a plugin that is none, configured",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"name": "HighNodeUtilisation"}]}),
        [("UnknownPlugin", ERROR, f"{CONFIG}[2].name")],
    ),
    (
        "a plugin without a name",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"args": {}}]}),
        [("UnknownPlugin", ERROR, f"{CONFIG}[2].name")],
    ),
    (
        "a plugin where it does not belong",
        policy({**PLANNED, "plugins": {"balance": {"enabled": ["PodLifeTime"]}}}),
        [("WrongExtensionPoint", ERROR, f"{ENABLED}.balance.enabled[0]")],
    ),
    (
        "a plugin without configuration",
        policy({**PLANNED, "plugins": {"deschedule": {"enabled": ["PodLifeTime", "RemovePodsViolatingInterPodAntiAffinity"]}}}),
        [("PluginConfigMissing", ERROR, f"{ENABLED}.deschedule.enabled[1]")],
    ),
    (
        "a plugin configured twice, of which the first counts",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"name": "PodLifeTime", "args": VICTIMS}]}),
        [("PluginConfigTwice", ERROR, f"{CONFIG}[2]")],
    ),
    (
        "a second configuration, which must be right all the same",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"name": "PodLifeTime"}]}),
        [("PluginConfigTwice", ERROR, f"{CONFIG}[2]"), ("RequiredField", ERROR, f"{CONFIG}[2].args")],
    ),
    (
        "a second evictor, which must be right all the same",
        policy(
            {
                **PLANNED,
                "pluginConfig": [
                    *PLANNED["pluginConfig"],
                    {
                        "name": "DefaultEvictor",
                        "args": {"ignorePvcPods": True, "podProtections": {"extraEnabled": ["PodsWithPVC"]}},
                    },
                ],
            }
        ),
        [("PluginConfigTwice", ERROR, f"{CONFIG}[2]"), ("ProtectionsMixed", ERROR, f"{CONFIG}[2].args.ignorePvcPods")],
    ),
    (
        "a plugin enabled twice",
        policy({**PLANNED, "plugins": {"deschedule": {"enabled": ["PodLifeTime", "PodLifeTime"]}}}),
        [("PluginTwice", WARNING, f"{ENABLED}.deschedule.enabled[1]")],
    ),
    (
        "a plugin that is configured alone",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"name": "RemoveDuplicates"}]}),
        [("PluginNotEnabled", WARNING, f"{CONFIG}[2]")],
    ),
    (
        "args that are refused though the plugin is not enabled",
        policy({**PLANNED, "pluginConfig": [*PLANNED["pluginConfig"], {"name": "HighNodeUtilization"}]}),
        [("ThresholdMissing", ERROR, f"{CONFIG}[2].args.thresholds"), ("PluginNotEnabled", WARNING, f"{CONFIG}[2]")],
    ),
    # HighNodeUtilization.
    ("no threshold", packing(thresholds={}), [("ThresholdMissing", ERROR, f"{ARGS}.thresholds")]),
    ("a threshold over 100", packing(thresholds={"nvidia.com/gpu": 101}), [("ThresholdOutOfRange", ERROR, THRESHOLD), SOFT]),
    ("a threshold below 0", packing(thresholds={"nvidia.com/gpu": -1}), [("ThresholdOutOfRange", ERROR, THRESHOLD), SOFT]),
    ("a number of GPUs", packing(thresholds={"nvidia.com/gpu": 2}), [("ThresholdIsCount", ERROR, THRESHOLD), SOFT]),
    ("what may be a number of GPUs", packing(thresholds={"nvidia.com/gpu": 8}), [("ThresholdIsCount", WARNING, THRESHOLD), SOFT]),
    ("few percent, and no number of GPUs", packing(thresholds={"nvidia.com/gpu": 6.25}), [SOFT]),
    ("few percent of CPU", packing(thresholds={"cpu": 2}), [("NoGpuThreshold", WARNING, f"{ARGS}.thresholds")]),
    ("pods without GPUs go too", packing(evictionModes=[]), [("EvictionModesMissing", WARNING, f"{ARGS}.evictionModes"), SOFT]),
    (
        "an eviction mode that is none",
        packing(evictionModes=["OnlyThresholdingResources", "x"]),
        [("InvalidValue", ERROR, f"{ARGS}.evictionModes"), SOFT],
    ),
    (
        "namespaces cannot be chosen",
        packing(evictableNamespaces={"include": ["a"]}),
        [("InvalidValue", ERROR, f"{ARGS}.evictableNamespaces.include"), SOFT],
    ),
    (
        "nodes without GPUs would count as empty",
        packing() | {"nodeSelector": ""},
        [("NodeSelectorMissing", WARNING, "nodeSelector"), SOFT],
    ),
    # LowNodeUtilization.
    ("LowNodeUtilization", spreading(), [SPREADS]),
    ("one without targets", spreading(targetThresholds={}), [("ThresholdMissing", ERROR, f"{ARGS}.targetThresholds"), SPREADS]),
    ("one with other targets", spreading(targetThresholds={"memory": 50}), [("ThresholdMismatch", ERROR, ARGS), SPREADS]),
    (
        "one above its targets",
        spreading(targetThresholds={"cpu": 10}),
        [("ThresholdMismatch", ERROR, f"{ARGS}.thresholds.cpu"), SPREADS],
    ),
    ("one above its targets by deviation", spreading(targetThresholds={"cpu": 10}, useDeviationThresholds=True), [SPREADS]),
    (
        "one that spreads GPUs, everywhere",
        spreading(thresholds={"amd.com/gpu": 20}, targetThresholds={"amd.com/gpu": 50}),
        [("Spreads", ERROR, ARGS), ("NodeSelectorMissing", WARNING, "nodeSelector")],
    ),
    (
        "one by metrics of two sources",
        spreading(metricsUtilization={"source": "KubernetesMetrics", "metricsServer": True, "prometheus": {"query": "x"}}),
        [("ExclusiveFields", ERROR, f"{ARGS}.metricsUtilization")] * 2 + [SPREADS],
    ),
    (
        "one by Prometheus without a query",
        spreading(metricsUtilization={"source": "Prometheus"}),
        [("RequiredField", ERROR, f"{ARGS}.metricsUtilization"), SPREADS],
    ),
    # What may be evicted.
    ("nodeFit is off unless written", protecting(nodeFit=None), [("NodeFitOff", WARNING, f"{EVICT}.nodeFit")]),
    ("single replicas go", protecting(minReplicas=1), [("SingleReplicas", WARNING, f"{EVICT}.minReplicas")]),
    (
        "prefer-no-eviction is only a wish",
        protecting(noEvictionPolicy="Preferred"),
        [("PreferNoEvictionIgnored", WARNING, f"{EVICT}.noEvictionPolicy")],
    ),
    (
        "unless its policy is written",
        protecting(noEvictionPolicy=None),
        [("PreferNoEvictionIgnored", WARNING, f"{EVICT}.noEvictionPolicy")],
    ),
    (
        "and in the right case",
        protecting(noEvictionPolicy="mandatory"),
        [("InvalidValue", ERROR, f"{EVICT}.noEvictionPolicy"), ("PreferNoEvictionIgnored", WARNING, f"{EVICT}.noEvictionPolicy")],
    ),
    (
        "pods with /dev/shm stay",
        protecting(podProtections={"extraEnabled": ["PodsWithPVC"]}),
        [("LocalStorageProtected", INFO, EVICT)],
    ),
    (
        "no evictor is written, and there is one all the same",
        policy({**PLANNED, "pluginConfig": PLANNED["pluginConfig"][1:]}),
        [
            ("NodeFitOff", WARNING, f"{CONFIG}.nodeFit"),
            ("SingleReplicas", WARNING, f"{CONFIG}.minReplicas"),
            ("PreferNoEvictionIgnored", WARNING, f"{CONFIG}.noEvictionPolicy"),
            ("LocalStorageProtected", INFO, CONFIG),
        ],
    ),
    (
        "a boolean of old",
        policy(profile(evictor={**EVICTOR, "podProtections": {}, "evictLocalStoragePods": True}, PodLifeTime=VICTIMS)),
        [("DeprecatedField", INFO, f"{EVICT}.evictLocalStoragePods")],
    ),
    (
        "a boolean of old beside podProtections",
        protecting(ignorePvcPods=True),
        [("ProtectionsMixed", ERROR, f"{EVICT}.ignorePvcPods")],
    ),
    ("a boolean of old that is false", protecting(ignorePvcPods=False), []),
    (
        "a protection on the wrong list",
        protecting(podProtections={"defaultDisabled": ["PodsWithLocalStorage", "PodsWithPVC"]}),
        [("InvalidValue", ERROR, f"{EVICT}.podProtections.defaultDisabled")],
    ),
    (
        "a protection twice",
        protecting(podProtections={"defaultDisabled": ["PodsWithLocalStorage"] * 2}),
        [("InvalidValue", ERROR, f"{EVICT}.podProtections.defaultDisabled")],
    ),
    (
        "storage classes with the protection off",
        protecting(
            podProtections={
                "defaultDisabled": ["PodsWithLocalStorage"],
                "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
            }
        ),
        [("StorageClassesUnused", WARNING, f"{EVICT}.podProtections.config")],
    ),
    (
        "a storage class without a name",
        protecting(
            podProtections={
                "defaultDisabled": ["PodsWithLocalStorage"],
                "extraEnabled": ["PodsWithPVC"],
                "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": ""}]}},
            }
        ),
        [("RequiredField", ERROR, f"{EVICT}.podProtections.config.PodsWithPVC.protectedStorageClasses[0]")],
    ),
    (
        "pods without a budget, which here are all pods",
        protecting(podProtections={"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithoutPDB"]}),
        [("PdbProtectionBroken", ERROR, f"{EVICT}.podProtections")],
    ),
    (
        "a priority threshold that does not count",
        protecting(
            priorityThreshold={"value": 1}, podProtections={"defaultDisabled": ["PodsWithLocalStorage", "SystemCriticalPods"]}
        ),
        [("PriorityThresholdLost", ERROR, f"{EVICT}.priorityThreshold")],
    ),
    (
        "system critical pods may go",
        protecting(podProtections={"defaultDisabled": ["PodsWithLocalStorage", "SystemCriticalPods"]}),
        [("SystemCriticalEvictable", WARNING, EVICT)],
    ),
    (
        "a priority by value and name",
        protecting(priorityThreshold={"value": 1, "name": "a"}),
        [("ExclusiveFields", ERROR, f"{EVICT}.priorityThreshold")],
    ),
    (
        "a priority too high",
        protecting(priorityThreshold={"value": 2_000_000_001}),
        [("PriorityOutOfRange", ERROR, f"{EVICT}.priorityThreshold.value")],
    ),
    (
        "namespaces by expressions",
        protecting(namespaceLabelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        [],
    ),
    (
        "a selector in the evictor alone, which evict annotations pass",
        policy(
            profile(
                evictor={**EVICTOR, "labelSelector": {"matchLabels": {"a": "b"}}}, PodLifeTime={**VICTIMS, "labelSelector": None}
            )
        ),
        [("SelectorInEvictorOnly", WARNING, ARGS)],
    ),
    # The other plugins.
    ("finished pods are deleted", victims(states=[]), [("FinishedPods", WARNING, f"{ARGS}.states")]),
    (
        "all pods of an age",
        victims(states=None, labelSelector=None),
        [("FinishedPods", WARNING, f"{ARGS}.states"), ("EvictsByAge", WARNING, f"{ARGS}.labelSelector")],
    ),
    (
        "nothing to choose by",
        running("PodLifeTime", labelSelector=VICTIMS["labelSelector"]),
        [("RequiredField", ERROR, ARGS), ("FinishedPods", WARNING, f"{ARGS}.states")],
    ),
    ("a state that is none", victims(states=["Running", "Runing"]), [("InvalidValue", ERROR, f"{ARGS}.states[1]")]),
    ("an empty condition", victims(conditions=[{}]), [("RequiredField", ERROR, f"{ARGS}.conditions[0]")]),
    (
        "owners both ways",
        victims(ownerKinds={"include": ["Job"], "exclude": ["Node"]}),
        [("ExclusiveFields", ERROR, f"{ARGS}.ownerKinds")],
    ),
    (
        "namespaces both ways",
        victims(namespaces={"include": ["a"], "exclude": ["b"]}),
        [("ExclusiveFields", ERROR, f"{ARGS}.namespaces")],
    ),
    ("RemoveDuplicates", running("RemoveDuplicates"), [("DuplicatesPacked", WARNING, ARGS)]),
    (
        "no number of restarts",
        running("RemovePodsHavingTooManyRestarts", podRestartThreshold=0),
        [("RequiredField", ERROR, f"{ARGS}.podRestartThreshold")],
    ),
    (
        "a state that restarts do not have",
        running("RemovePodsHavingTooManyRestarts", podRestartThreshold=1, states=["Pending"]),
        [("InvalidValue", ERROR, f"{ARGS}.states")],
    ),
    (
        "no kind of node affinity",
        running("RemovePodsViolatingNodeAffinity"),
        [("RequiredField", ERROR, f"{ARGS}.nodeAffinityType")],
    ),
    (
        "taints both ways",
        running("RemovePodsViolatingNodeTaints", includedTaints=["a"], excludedTaints=["b"]),
        [("ExclusiveFields", ERROR, ARGS)],
    ),
    (
        "soft taints evict",
        running("RemovePodsViolatingNodeTaints", includePreferNoSchedule=True),
        [("SoftTaintsEvict", WARNING, f"{ARGS}.includePreferNoSchedule")],
    ),
    (
        "soft taints evict, but not ours",
        running("RemovePodsViolatingNodeTaints", includePreferNoSchedule=True, excludedTaints=["gpuops.io/defrag"]),
        [],
    ),
    (
        "only other soft taints evict",
        running("RemovePodsViolatingNodeTaints", includePreferNoSchedule=True, includedTaints=["spot"]),
        [],
    ),
    (
        "soft constraints",
        running("RemovePodsViolatingTopologySpreadConstraint", constraints=["DoNotSchedule", "ScheduleAnyway"]),
        [("SoftConstraints", WARNING, f"{ARGS}.constraints")],
    ),
    ("hard constraints", running("RemovePodsViolatingTopologySpreadConstraint", constraints=["DoNotSchedule"]), []),
    # Metrics.
    *(
        (f"metrics: {name}", policy(PLANNED, **fields), [(finding, ERROR, path)])
        for name, fields, finding, path in (
            ("an unknown source", {"metricsProviders": [{"source": "Graphite"}]}, "InvalidValue", "metricsProviders[0].source"),
            (
                "one source twice",
                {"metricsProviders": [{"source": "KubernetesMetrics"}] * 2},
                "ExclusiveFields",
                "metricsProviders[1]",
            ),
            (
                "a collector beside a provider",
                {"metricsProviders": [{"source": "KubernetesMetrics"}], "metricsCollector": {"enabled": True}},
                "ExclusiveFields",
                "metricsProviders",
            ),
            (
                "Prometheus without a url",
                {"metricsProviders": [{"source": "Prometheus"}]},
                "RequiredField",
                "metricsProviders[0].prometheus",
            ),
            (
                "a token without a secret",
                {"metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p", "authToken": {}}}]},
                "RequiredField",
                "metricsProviders[0].prometheus.authToken",
            ),
        )
    ),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_exactly_this_is_found(given: Any, expected: list[Told]) -> None:
    assert sorted(found(given)) == sorted(expected)


OLD = profile(evictor=OLD_EVICTOR, PodLifeTime=VICTIMS)
NO_PROTECTION = ("PreferNoEvictionIgnored", INFO, f"{EVICT}.noEvictionPolicy")


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        ("0.33.0", policy(OLD), [NO_PROTECTION]),
        ("0.32.2", policy(OLD, gracePeriodSeconds=1), [NO_PROTECTION, ("FieldTooNew", ERROR, "gracePeriodSeconds")]),
        (
            "0.33.0",
            protecting(),
            [
                ("FieldTooNew", ERROR, f"{EVICT}.noEvictionPolicy"),
                ("FieldTooNew", ERROR, f"{EVICT}.podProtections"),
                NO_PROTECTION,
                ("LocalStorageProtected", INFO, EVICT),
            ],
        ),
        (
            "0.34.0",
            protecting(namespaceLabelSelector={"matchLabels": {"a": "b"}}),
            [("FieldTooNew", ERROR, f"{EVICT}.namespaceLabelSelector")],
        ),
        (
            "0.35.1",
            protecting(namespaceLabelSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            [("NamespaceExpressionsIgnored", ERROR, f"{EVICT}.namespaceLabelSelector.matchExpressions")],
        ),
        ("0.35.0", victims(exitCodes=[1]), [("FieldTooNew", ERROR, f"{ARGS}.exitCodes")]),
        ("0.35.1", victims(exitCodes=[1]), []),
        ("0.35.0", victims(states=["OOMKilled"]), [("InvalidValue", ERROR, f"{ARGS}.states[0]")]),
        ("0.35.0", victims(maxPodLifeTimeSeconds=None), [("RequiredField", ERROR, ARGS)]),
        ("0.36.0", victims(maxPodLifeTimeSeconds=None), []),
        (
            "0.34.0",
            protecting(podProtections={"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithoutPDB"]}),
            [],
        ),
        (
            "0.35.0",
            policy(profile(evictor={**EVICTOR, "podProtections": {}, "ignorePodsWithoutPDB": True}, PodLifeTime=VICTIMS)),
            [
                ("PdbProtectionBroken", ERROR, f"{EVICT}.ignorePodsWithoutPDB"),
                ("DeprecatedField", INFO, f"{EVICT}.ignorePodsWithoutPDB"),
                ("LocalStorageProtected", INFO, EVICT),
            ],
        ),
        (
            "0.33.0",
            policy(
                profile(
                    evictor={**OLD_EVICTOR, "evictSystemCriticalPods": True, "priorityThreshold": {"value": 1}},
                    PodLifeTime=VICTIMS,
                )
            ),
            [NO_PROTECTION, ("PriorityThresholdLost", ERROR, f"{EVICT}.priorityThreshold")],
        ),
        (
            "0.32.2",
            policy(profile(evictor=OLD_EVICTOR, HighNodeUtilization={"thresholds": {"nvidia.com/gpu": 50}}), nodeSelector="a=b"),
            [NO_PROTECTION, ("EvictionModesMissing", WARNING, f"{ARGS}.evictionModes"), SOFT],
        ),
        (
            "0.33.0",
            policy(OLD, metricsProviders=[{"source": "Prometheus", "prometheus": {"url": "http://p"}}]),
            [NO_PROTECTION, ("InvalidValue", ERROR, "metricsProviders[0].prometheus.url")],
        ),
        (
            "0.33.0",
            policy(profile(evictor=OLD_EVICTOR, HighNodeUtilization={**PACKING, "metricsUtilization": {}}), nodeSelector="a=b"),
            [NO_PROTECTION, ("FieldGone", ERROR, f"{ARGS}.metricsUtilization"), SOFT],
        ),
        ("0.37.1", policy(PLANNED), [("VersionUnknown", WARNING, "")]),
    ],
)
def test_what_is_found_depends_on_the_version(version: str, given: Any, expected: list[Told]) -> None:
    assert sorted(found(given, version)) == sorted(expected)


def test_all_faults_of_the_article_are_found() -> None:
    spread = "strategies.LowNodeUtilization"
    counts = f"{spread}.params.nodeResourceUtilizationThresholds"
    topology = "strategies.RemovePodsViolatingTopologySpreadConstraint.params"
    expected = [
        ("ConfigMapName", ERROR, "metadata.name"),
        ("OldStrategies", ERROR, "strategies"),
        ("ThresholdIsCount", ERROR, f"{counts}.thresholds['nvidia.com/gpu']"),
        ("ThresholdIsCount", ERROR, f"{counts}.targetThresholds['nvidia.com/gpu']"),
        ("Spreads", ERROR, spread),
        ("UnknownField", ERROR, f"{topology}.maxSkew"),
        ("UnknownField", ERROR, f"{topology}.topologyKey"),
    ]
    assert found(ARTICLE, name="descheduler") == expected


def test_an_unknown_field_is_fixed_by_the_nearest_that_is_known() -> None:
    (finding,) = lint_of(policy(PLANNED, maxNoOfPodsToEvictPernode=1))
    assert finding.fix == "write maxNoOfPodsToEvictPerNode"
    (finding,) = lint_of(victims(labelselector={}))
    assert finding.fix == "write labelSelector"
    assert "refuses the whole policy" in finding.message


def lint_of(given: Any) -> list[Finding]:
    return check(Document(given), (0, 36, 0))


def test_every_broken_profile_says_what_the_version_does_with_it() -> None:
    broken = Document(policy({**PLANNED, "plugins": {"deschedule": {"enabled": ["PodLifeTime", "Nope"]}}}))
    messages = {v: next(f.message for f in check(broken, v) if f.id == "UnknownPlugin") for v in ((0, 34, 0), (0, 35, 0))}
    assert messages[0, 34, 0].endswith("skips the whole profile and ends with success")
    assert messages[0, 35, 0].endswith("ends with an error")


def test_errors_come_first_and_nothing_comes_twice() -> None:
    severities = [severity for _id, severity, _path in found(ARTICLE)]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert len(lint_of(policy(PLANNED, PLANNED))) == len(set(lint_of(policy(PLANNED, PLANNED))))


CLUSTER = {
    "NodesTooFew",
    "NodesWithoutResource",
    "ResourceNowhere",
    "NodeSizes",
    "NoSource",
    "NoDestination",
    "EvictAnnotation",
    "SeveralBudgets",
    "PriorityClassMissing",
    "SelectsNothing",
}


def test_every_id_that_needs_no_cluster_is_in_a_row() -> None:
    shown = {each[0] for row in ROWS for each in row[2]}
    elsewhere = {"VersionUnknown", "FieldTooNew", "FieldGone", "NamespaceExpressionsIgnored"}
    documents = {"ConfigMapName", "ConfigMapKey", "ChartDefaultPolicy"}
    assert shown | elsewhere | documents | CLUSTER == IDS.keys()
