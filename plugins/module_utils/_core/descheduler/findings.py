# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a lint can find. The ids are for good: pipelines and people's notes refer to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..severity import Severity

REFUSES = "refuses the whole policy"
ENDS = "ends with an error"
SKIPS = "logs it, skips the whole profile and ends with success"
"""What the descheduler does about it. The first two leave its exit status at 1, and nothing is evicted."""

IDS: Mapping[str, str] = {
    # The document
    "EmptyPolicy": "there is nothing in it",
    "MissingApiVersion": "without apiVersion the descheduler reads nothing of it, and says nothing",
    "WrongApiVersion": "an apiVersion that the descheduler does not know",
    "MissingKind": "kind is missing",
    "WrongKind": "a kind that is no DeschedulerPolicy",
    "OldStrategies": "strategies of v1alpha1, which no version since 0.31 reads",
    "DuplicateKey": "a key stands twice, and the last one counts",
    "SeveralDocuments": "only the first YAML document is read",
    "ConfigMapName": "a ConfigMap that the chart may not mount, going by its name",
    "ConfigMapKey": "the policy is not under the key policy.yaml, which the chart reads",
    "ChartDefaultPolicy": "values of the chart that leave its own default policy on",
    "VersionUnknown": "the descheduler is newer than what is known here",
    # Fields
    "UnknownField": "a field that the descheduler does not know",
    "FieldTooNew": "a field that only newer versions know",
    "FieldGone": "a field that this version knows no longer",
    "UnreadField": "a field that may be there and that no version reads",
    "WrongType": "a value of another type than the field has",
    "InvalidValue": "a value that the field does not take",
    "RequiredField": "something that must be there is missing",
    "ExclusiveFields": "fields of which only one may be there",
    "InvalidSelector": "a selector that cannot be read",
    # Limits
    "NoLimits": "no limit on evictions",
    "ZeroLimit": "a limit of 0: nothing is ever evicted",
    # Profiles
    "NoProfiles": "no profile, so that nothing runs",
    "NothingEnabled": "a profile that enables no plugin that evicts",
    "UnknownPlugin": "a plugin that the descheduler does not have",
    "WrongExtensionPoint": "a plugin enabled where it does not belong",
    "PluginConfigMissing": "a plugin enabled that has no entry in pluginConfig",
    "PluginConfigTwice": "a plugin with two entries in pluginConfig, of which the first counts",
    "PluginTwice": "a plugin enabled twice, which runs twice",
    "PluginNotEnabled": "a plugin configured and not enabled",
    "ProfileName": "a profile without a name, or with that of another one",
    # Node utilization
    "ThresholdMissing": "no threshold",
    "ThresholdOutOfRange": "a threshold that is no percentage",
    "ThresholdMismatch": "thresholds and targetThresholds that do not go together",
    "ThresholdIsCount": "a threshold that looks like a number of GPUs; it is a percentage",
    "Spreads": "LowNodeUtilization, which spreads where GPUs need packing",
    "NoGpuThreshold": "packing by other resources than GPUs",
    "EvictionModesMissing": "pods without GPUs are evicted too",
    "NodeSelectorMissing": "nodes without GPUs count as empty and lose their pods first",
    "SoftTaints": "nodes with a PreferNoSchedule taint take nothing in HighNodeUtilization's eyes",
    # What may be evicted
    "NodeFitOff": "pods are evicted that have nowhere to go",
    "PdbProtectionBroken": "a protection that, by a bug of these versions, lets no pod be evicted",
    "PriorityThresholdLost": "a priority threshold that does not count",
    "SystemCriticalEvictable": "system critical pods may be evicted",
    "PriorityOutOfRange": "a priority threshold that is too high",
    "ProtectionsMixed": "podProtections beside the booleans that they replace",
    "DeprecatedField": "a boolean of old that podProtections replace",
    "PreferNoEvictionIgnored": "the annotation prefer-no-eviction does not protect",
    "LocalStorageProtected": "pods with an emptyDir stay, those in memory too",
    "SingleReplicas": "the only replica of a workload may be evicted",
    "NamespaceExpressionsIgnored": "matchExpressions for namespaces that this version does not read",
    "StorageClassesUnused": "storage classes to protect, with the protection off",
    "SelectorInEvictorOnly": "a label selector that pods with an evict annotation pass",
    # Plugins
    "FinishedPods": "PodLifeTime deletes finished pods too",
    "EvictsByAge": "PodLifeTime without a label selector evicts all pods of an age",
    "SoftTaintsEvict": "pods are evicted for soft taints, such as those that steer a wave",
    "SoftConstraints": "pods are evicted for constraints that the scheduler may break",
    "DuplicatesPacked": "RemoveDuplicates undoes packing",
    # The cluster
    "NodesTooFew": "fewer than two nodes that it looks at",
    "NodesWithoutResource": "nodes without the resource of a threshold, which count as empty",
    "ResourceNowhere": "a threshold on a resource that no node has",
    "NodeSizes": "nodes of several sizes under one percentage",
    "NoSource": "no node is at or below the thresholds",
    "NoDestination": "no node is above the thresholds",
    "EvictAnnotation": "pods that anybody may evict, though they say evict: false",
    "SeveralBudgets": "pods of several PodDisruptionBudgets, which cannot be evicted",
    "PriorityClassMissing": "a PriorityClass that is not there",
    "SelectsNothing": "a label selector that matches no pod",
}
"""Every id, and what it is about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        id: One of IDS.
        path: Where in the policy, such as ``profiles[0].plugins.balance``; "" for the whole.
        message: What is there and what it does.
        fix: What to do.
    """

    id: str
    severity: Severity
    path: str
    message: str
    fix: str

    def __post_init__(self) -> None:
        """Every id is one that users can read about."""
        if self.id not in IDS:
            raise AssertionError(self.id)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return asdict(self) | {"severity": str(self.severity)}


def is_ok(findings: Iterable[Finding]) -> bool:
    """Whether none of them is an error."""
    return all(finding.severity is not Severity.ERROR for finding in findings)


def at(path: str, key: str | int) -> str:
    """The path of a member: a key of a mapping, or the number of an entry in a list."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    # Resource names and labels have dots of their own.
    told = f"['{key}']" if "." in key or "/" in key else key
    return f"{path}{'' if not path or told.startswith('[') else '.'}{told}"
