# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""KubeSchedulerConfiguration as kube-scheduler reads it, shared by who writes and who judges one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InputError

GROUP = "kubescheduler.config.k8s.io"
KIND = "KubeSchedulerConfiguration"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta3")
"""v1beta3 (until 1.28) has the fields and default weights of v1."""

FIT = "NodeResourcesFit"
TAINTS = "TaintToleration"
SPREAD = "PodTopologySpread"
BALANCED = "NodeResourcesBalancedAllocation"
IMAGES = "ImageLocality"

# pkg/scheduler/apis/config/v1/default_plugins.go. What is not in here does not score, or is not Kubernetes' own.
WEIGHTS: Mapping[str, int] = {
    TAINTS: 3,
    "NodeAffinity": 2,
    FIT: 1,
    SPREAD: 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    BALANCED: 1,
    IMAGES: 1,
}

# Kubernetes' own that score nothing, or nothing that is about packing.
SILENT = frozenset(
    (
        *("SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "NodePorts", "VolumeRestrictions"),
        *("NodeVolumeLimits", "VolumeBinding", "VolumeZone", "DefaultPreemption", "DefaultBinder", "NodeDeclaredFeatures"),
        *("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"),
    )
)


def check_kind(configuration: Any) -> Mapping[str, Any]:
    """The same, known to be a KubeSchedulerConfiguration; also out of what /configz wraps it in.

    Raises:
        InputError: It is something else.
    """
    found = mapping(configuration, "")
    if "componentconfig" in found:
        found = mapping(found["componentconfig"], "componentconfig")
    if found.get("kind") != KIND:
        raise InputError(f"is {found.get('kind')!r}; wanted is {KIND}", field="kind")
    if found.get("apiVersion") not in VERSIONS:
        raise InputError(f"is {found.get('apiVersion')!r}; known is {VERSIONS[0]}", field="apiVersion")
    return found


def profiles(configuration: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The profiles with the paths of their fields; one without a field where none is given, as the scheduler does."""
    given = members(configuration, "profiles", "")
    return [(f"profiles[{number}]", profile) for number, profile in enumerate(given)] or [("profiles[0]", {})]


def arguments(profile: Mapping[str, Any], plugin: str, path: str) -> Mapping[str, Any]:
    """What the profile's pluginConfig says to a plugin."""
    for number, each in enumerate(members(profile, "pluginConfig", path)):
        if each.get("name") == plugin:
            return mapping(each.get("args") or {}, f"{path}.pluginConfig[{number}].args")
    return {}


def score_weights(profile: Mapping[str, Any], path: str) -> dict[str, int]:
    """The plugins that score and how much each counts, as kube-scheduler merges what is given with its defaults.

    It takes a profile as written, and one as /configz shows it, defaults and all.
    """
    given = mapping(profile.get("plugins") or {}, f"{path}.plugins")
    everywhere, scoring = (mapping(given.get(point) or {}, f"{path}.plugins.{point}") for point in ("multiPoint", "score"))
    off = _names(everywhere, "disabled", f"{path}.plugins.multiPoint")
    weights = {} if "*" in off else {name: weight for name, weight in WEIGHTS.items() if name not in off}
    weights |= dict(_weighted(everywhere, f"{path}.plugins.multiPoint"))
    off = _names(scoring, "disabled", f"{path}.plugins.score")
    weights = {} if "*" in off else {name: weight for name, weight in weights.items() if name not in off}
    weights |= dict(_weighted(scoring, f"{path}.plugins.score"))
    return {name: weight for name, weight in weights.items() if name not in SILENT}


def _weighted(plugins: Mapping[str, Any], path: str) -> Iterator[tuple[str, int]]:
    for number, each in enumerate(members(plugins, "enabled", path)):
        # kube-scheduler takes 1 for none and for 0.
        weight = each.get("weight") or 1
        if not isinstance(weight, int):
            raise InputError(f"is {weight!r}, not a whole number", field=f"{path}.enabled[{number}].weight")
        yield str(each.get("name")), weight


def _names(plugins: Mapping[str, Any], key: str, path: str) -> set[str]:
    return {str(each.get("name")) for each in members(plugins, key, path)}


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """The same, known to be a mapping."""
    if not isinstance(value, Mapping):
        raise InputError(f"is {type(value).__name__}, not a mapping", field=path or KIND)
    return value


def members(parent: Mapping[str, Any], key: str, path: str) -> list[Mapping[str, Any]]:
    """A list of mappings below a key; none where there is no such key."""
    field = f"{path}.{key}" if path else key
    value = parent.get(key) or []
    if not isinstance(value, list):
        raise InputError(f"is {type(value).__name__}, not a list", field=field)
    return [mapping(each, f"{field}[{number}]") for number, each in enumerate(value)]
