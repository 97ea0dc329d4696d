# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a DeschedulerPolicy may hold, by version of the descheduler: 0.32 to 0.36.

Made from the descheduler's sources, ``pkg/api/v1alpha2/types.go`` and ``pkg/framework/plugins/*/types.go`` of v0.32.0 to
v0.36.0. A field without ``since`` is in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError

Version = tuple[int, int, int]

OLDEST: Version = (0, 32, 0)
V33: Version = (0, 33, 0)
V34: Version = (0, 34, 0)
V35: Version = (0, 35, 0)
V35_1: Version = (0, 35, 1)
V36: Version = (0, 36, 0)
NEWEST_MINOR = (0, 36)
"""The newest minor version whose sources this was made from."""
NEWEST = "0.36.0"

API_VERSION = "descheduler/v1alpha2"
KIND = "DeschedulerPolicy"

_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?")


def parse_version(text: Any, field: str = "descheduler_version") -> Version:
    """A version such as ``0.36.0``, ``v0.36.0`` or ``0.36``, which is its first release.

    Raises:
        InputError: It is none, or older than what is known here.
    """
    match = _VERSION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{text!r} is not a version; write it as text, such as '{NEWEST}'", field=field)
    found = (int(match[1]), int(match[2]), int(match[3] or 0))
    if found < OLDEST:
        raise InputError(f"is {told(found)}; {told(OLDEST)} is the oldest descheduler that is known here", field=field)
    return found


def is_known(version: Version) -> bool:
    """Whether the version is not newer than the sources this was made from."""
    return version[:2] <= NEWEST_MINOR


def told(version: Version) -> str:
    """The version as text."""
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class Field:
    """What one key holds.

    Attributes:
        type: bool, uint, int, int32, int64, string, strings, int32s, duration (text such as 5m), percentages (by resource),
            selector (a ``metav1.LabelSelector``), labels (a selector as text), object, objects (a list of them), or args,
            which depend on the plugin.
        since: The first version that knows it.
        before: The first version that knows it no longer.
        fields: The keys of an object, or of each in a list.
        choices: The only values of a string or in a list of strings.
    """

    type: str
    since: Version = OLDEST
    before: Version | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    choices: tuple[str, ...] = ()

    def known(self, version: Version) -> bool:
        """Whether that version has it."""
        return self.since <= version and (self.before is None or version < self.before)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin: where it can be enabled and what its args hold."""

    points: tuple[str, ...]
    args: Mapping[str, Field]


def _object(since: Version = OLDEST, before: Version | None = None, **fields: Field) -> Field:
    return Field("object", since, before, fields)


_BOOL, _UINT, _INT, _STRING, _STRINGS = Field("bool"), Field("uint"), Field("int"), Field("string"), Field("strings")
_PERCENTAGES, _SELECTOR = Field("percentages"), Field("selector")
_NAMESPACES = _object(include=_STRINGS, exclude=_STRINGS)
_COMMON: Mapping[str, Field] = {"namespaces": _NAMESPACES, "labelSelector": _SELECTOR}
_PLUGIN_SET = _object(enabled=_STRINGS, disabled=_STRINGS)

DESCHEDULE, BALANCE = "deschedule", "balance"
UNREAD_POINTS = ("presort", "sort")
"""Extension points that can be written and that no version reads."""
EVICTOR_POINTS = ("filter", "preevictionfilter")
EVICTOR = "DefaultEvictor"

POLICY: Mapping[str, Field] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "profiles": Field(
        "objects",
        fields={
            "name": _STRING,
            "pluginConfig": Field("objects", fields={"name": _STRING, "args": Field("args")}),
            "plugins": Field("object", fields=dict.fromkeys((*UNREAD_POINTS, DESCHEDULE, BALANCE, *EVICTOR_POINTS), _PLUGIN_SET)),
        },
    ),
    "nodeSelector": Field("labels"),
    "maxNoOfPodsToEvictPerNode": _UINT,
    "maxNoOfPodsToEvictPerNamespace": _UINT,
    "maxNoOfPodsToEvictTotal": _UINT,
    "evictionFailureEventNotification": Field("bool", V33),
    "gracePeriodSeconds": Field("int64", V33),
    "metricsCollector": _object(enabled=_BOOL),
    "metricsProviders": Field(
        "objects",
        V33,
        fields={
            "source": Field("string", choices=("KubernetesMetrics", "Prometheus")),
            "prometheus": _object(url=_STRING, authToken=_object(secretReference=_object(namespace=_STRING, name=_STRING))),
        },
    ),
}
"""The keys of a policy."""

LOCAL_STORAGE = "PodsWithLocalStorage"
SYSTEM_CRITICAL = "SystemCriticalPods"
WITH_PVC = "PodsWithPVC"
WITHOUT_PDB = "PodsWithoutPDB"
WITH_CLAIMS = "PodsWithResourceClaims"
DEFAULT_PROTECTIONS = (LOCAL_STORAGE, SYSTEM_CRITICAL, "FailedBarePods", "DaemonSetPods")
EXTRA_PROTECTIONS = (WITH_PVC, WITHOUT_PDB, WITH_CLAIMS)
ONLY_THRESHOLDING = "OnlyThresholdingResources"

LEGACY_PROTECTIONS: Mapping[str, tuple[str, str]] = {
    "evictLocalStoragePods": ("defaultDisabled", LOCAL_STORAGE),
    "evictSystemCriticalPods": ("defaultDisabled", SYSTEM_CRITICAL),
    "evictFailedBarePods": ("defaultDisabled", "FailedBarePods"),
    "evictDaemonSetPods": ("defaultDisabled", "DaemonSetPods"),
    "ignorePvcPods": ("extraEnabled", WITH_PVC),
    "ignorePodsWithoutPDB": ("extraEnabled", WITHOUT_PDB),
}
"""Booleans of the DefaultEvictor and what stands for each in podProtections, since 0.34."""

PLUGINS: Mapping[str, Plugin] = {
    EVICTOR: Plugin(
        EVICTOR_POINTS,
        {
            "nodeSelector": Field("labels"),
            "labelSelector": _SELECTOR,
            "namespaceLabelSelector": Field("selector", V35),
            "priorityThreshold": _object(value=Field("int32"), name=_STRING),
            "nodeFit": _BOOL,
            "minReplicas": _UINT,
            "minPodAge": Field("duration"),
            "noEvictionPolicy": Field("string", V34, choices=("Preferred", "Mandatory")),
            "podProtections": _object(
                V34,
                defaultDisabled=Field("strings", choices=DEFAULT_PROTECTIONS),
                extraEnabled=Field("strings", choices=EXTRA_PROTECTIONS),
                config=_object(V35, PodsWithPVC=_object(protectedStorageClasses=Field("objects", fields={"name": _STRING}))),
            ),
            **dict.fromkeys(LEGACY_PROTECTIONS, _BOOL),
        },
    ),
    "HighNodeUtilization": Plugin(
        (BALANCE,),
        {
            "thresholds": _PERCENTAGES,
            "numberOfNodes": _INT,
            "evictionModes": Field("strings", V33, choices=(ONLY_THRESHOLDING,)),
            "evictableNamespaces": _NAMESPACES,
            "metricsUtilization": _object(before=V33, metricsServer=_BOOL),
        },
    ),
    "LowNodeUtilization": Plugin(
        (BALANCE,),
        {
            "thresholds": _PERCENTAGES,
            "targetThresholds": _PERCENTAGES,
            "useDeviationThresholds": _BOOL,
            "numberOfNodes": _INT,
            "evictableNamespaces": _NAMESPACES,
            "metricsUtilization": _object(
                metricsServer=_BOOL, source=Field("string", V33), prometheus=_object(V33, query=_STRING)
            ),
            "evictionLimits": _object(V33, node=_UINT),
        },
    ),
    "PodLifeTime": Plugin(
        (DESCHEDULE,),
        {
            **_COMMON,
            "maxPodLifeTimeSeconds": _UINT,
            "states": _STRINGS,
            "includingInitContainers": _BOOL,
            "includingEphemeralContainers": _BOOL,
            "ownerKinds": _object(V35_1, include=_STRINGS, exclude=_STRINGS),
            "conditions": Field(
                "objects",
                V35_1,
                fields={
                    "type": _STRING,
                    "status": _STRING,
                    "reason": _STRING,
                    "minTimeSinceLastTransitionSeconds": _UINT,
                },
            ),
            "exitCodes": Field("int32s", V35_1),
        },
    ),
    "RemoveDuplicates": Plugin((BALANCE,), {"namespaces": _NAMESPACES, "excludeOwnerKinds": _STRINGS}),
    "RemoveFailedPods": Plugin(
        (DESCHEDULE,),
        {
            **_COMMON,
            "excludeOwnerKinds": _STRINGS,
            "minPodLifetimeSeconds": _UINT,
            "reasons": _STRINGS,
            "exitCodes": Field("int32s"),
            "includingInitContainers": _BOOL,
        },
    ),
    "RemovePodsHavingTooManyRestarts": Plugin(
        (DESCHEDULE,),
        {
            **_COMMON,
            "podRestartThreshold": Field("int32"),
            "includingInitContainers": _BOOL,
            "states": Field("strings", choices=("Running", "CrashLoopBackOff")),
        },
    ),
    "RemovePodsViolatingInterPodAntiAffinity": Plugin((DESCHEDULE,), _COMMON),
    "RemovePodsViolatingNodeAffinity": Plugin((DESCHEDULE,), {**_COMMON, "nodeAffinityType": _STRINGS}),
    "RemovePodsViolatingNodeTaints": Plugin(
        (DESCHEDULE,),
        {**_COMMON, "includePreferNoSchedule": _BOOL, "excludedTaints": _STRINGS, "includedTaints": _STRINGS},
    ),
    "RemovePodsViolatingTopologySpreadConstraint": Plugin(
        (BALANCE,),
        {
            **_COMMON,
            "constraints": Field("strings", choices=("DoNotSchedule", "ScheduleAnyway")),
            "topologyBalanceNodeFit": _BOOL,
        },
    ),
}
"""The plugins, the same eleven in every version."""

_STATES: Mapping[Version, str] = {
    OLDEST: "Running Pending Unknown NodeAffinity NodeLost Shutdown UnexpectedAdmissionError PodInitializing ContainerCreating"
    " ImagePullBackOff CrashLoopBackOff CreateContainerConfigError ErrImagePull CreateContainerError InvalidImageName",
    V34: "Succeeded Failed",
    V35_1: "OOMKilled Error Completed DeadlineExceeded Evicted ContainerCannotRun StartError",
}


def states(version: Version) -> tuple[str, ...]:
    """What PodLifeTime takes as states."""
    return tuple(state for since, names in _STATES.items() if since <= version for state in names.split())
