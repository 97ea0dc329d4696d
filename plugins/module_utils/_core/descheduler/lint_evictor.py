# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a policy lets be evicted at all, and what it only seems to protect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..severity import ERROR, INFO, WARNING
from .findings import Finding, at
from .profile import Profile, entries, mapping, texts
from .rules import exclusive, required
from .settings import HIGHEST_PRIORITY
from .shape import is_number
from .versions import (
    EVICTOR,
    LEGACY_PROTECTIONS,
    LOCAL_STORAGE,
    NEWEST,
    PLUGINS,
    SYSTEM_CRITICAL,
    V34,
    V35,
    V36,
    WITH_PVC,
    WITHOUT_PDB,
    Version,
    told,
)


@dataclass(frozen=True, slots=True)
class EvictorRules:
    """The rules for the args of the DefaultEvictor, read by a version of the descheduler.

    Attributes:
        cluster: A cluster is looked at as well, which tells more.
    """

    version: Version
    cluster: bool

    def check(self, profile: Profile) -> Iterator[Finding]:
        """What is to be said of the evictor of a profile."""
        config = profile.evictor
        args = config.args
        if args.get("nodeFit") is not True:
            message = "nodeFit is off: pods are evicted that fit on no other node, and then stay pending"
            yield Finding("NodeFitOff", WARNING, config.at("nodeFit"), message, "write nodeFit: true")
        replicas = args.get("minReplicas")
        if not is_number(replicas) or replicas < 2:
            message = (
                "minReplicas is not above 1: the only replica of a workload may be evicted, which is then gone for its start"
            )
            yield Finding("SingleReplicas", WARNING, config.at("minReplicas"), message, "write minReplicas: 2")
        if self.version < V34:
            message = f"descheduler {told(self.version)} takes the annotation prefer-no-eviction for no protection; 0.34 can"
            yield Finding(
                "PreferNoEvictionIgnored",
                INFO,
                config.at("noEvictionPolicy"),
                message,
                "take descheduler 0.34.0, or protect by PodDisruptionBudgets",
            )
        elif args.get("noEvictionPolicy") != "Mandatory":
            message = "the annotation prefer-no-eviction does not protect, it is only asked for last"
            yield Finding(
                "PreferNoEvictionIgnored", WARNING, config.at("noEvictionPolicy"), message, "write noEvictionPolicy: Mandatory"
            )
        yield from self.priority(profile)
        yield from self.protections(profile)
        names = args.get("namespaceLabelSelector")
        if V35 <= self.version < V36 and mapping(names).get("matchExpressions"):
            message = f"descheduler {told(self.version)} reads matchLabels alone here: all namespaces pass the expressions"
            where = f"{config.at('namespaceLabelSelector')}.matchExpressions"
            yield Finding("NamespaceExpressionsIgnored", ERROR, where, message, "write matchLabels, or take descheduler 0.36.0")
        if args.get("labelSelector"):
            for plugin, other in profile.active.items():
                if not other.args.get("labelSelector"):
                    message = (
                        f"pods with the annotation descheduler.alpha.kubernetes.io/evict, whatever its value, pass the "
                        f"labelSelector of {EVICTOR}; {plugin} evicts them too"
                    )
                    fix = (
                        "give the plugin the same labelSelector"
                        if "labelSelector" in PLUGINS[plugin].args
                        else "take a plugin that has a labelSelector"
                    )
                    yield Finding("SelectorInEvictorOnly", WARNING, other.path, message, fix)

    def priority(self, profile: Profile) -> Iterator[Finding]:
        config = profile.evictor
        threshold, where = mapping(config.args.get("priorityThreshold")), config.at("priorityThreshold")
        value = threshold.get("value")
        if value is not None and threshold.get("name"):
            yield exclusive(where, "value and name")
        if is_number(value) and value > HIGHEST_PRIORITY:
            message = f"{value} is above {HIGHEST_PRIORITY}, and the descheduler ends with an error"
            yield Finding("PriorityOutOfRange", ERROR, at(where, "value"), message, f"write at most {HIGHEST_PRIORITY}")
        if SYSTEM_CRITICAL not in profile.protections(self.version):
            if threshold:
                message = (
                    "where system critical pods may be evicted, priorityThreshold does not count: pods of every priority may"
                )
                yield Finding("PriorityThresholdLost", ERROR, where, message, f"leave {SYSTEM_CRITICAL} protected")
            else:
                message = "pods of every priority may be evicted, those that the cluster needs to run too"
                yield Finding("SystemCriticalEvictable", WARNING, config.path, message, f"leave {SYSTEM_CRITICAL} protected")

    def protections(self, profile: Profile) -> Iterator[Finding]:
        config = profile.evictor
        where, lists = config.at("podProtections"), mapping(config.args.get("podProtections"))
        disabled, extra = texts(lists.get("defaultDisabled")), texts(lists.get("extraEnabled"))
        legacy = [name for name in LEGACY_PROTECTIONS if config.args.get(name) is True]
        effective = profile.protections(self.version)
        if self.version >= V34:
            for name in legacy:
                key, protection = LEGACY_PROTECTIONS[name]
                fix = f"write podProtections.{key}: [{protection}] in its place"
                if disabled or extra:
                    message = f"{name} does not go beside podProtections; the descheduler refuses the whole policy"
                    yield Finding("ProtectionsMixed", ERROR, config.at(name), message, fix)
                else:
                    message = f"{name} is deprecated since {told(V34)}"
                    yield Finding("DeprecatedField", INFO, config.at(name), message, fix)
            for key, names in (("defaultDisabled", disabled), ("extraEnabled", extra)):
                if len(set(names)) < len(names):
                    message = "a protection stands twice; the descheduler refuses the whole policy"
                    yield Finding("InvalidValue", ERROR, at(where, key), message, "name each once")
            classes = mapping(mapping(lists.get("config")).get(WITH_PVC)).get("protectedStorageClasses")
            if classes and WITH_PVC not in extra:
                message = f"storage classes are looked at with {WITH_PVC} in extraEnabled alone: they protect nothing"
                yield Finding("StorageClassesUnused", WARNING, f"{where}.config", message, f"add {WITH_PVC} to extraEnabled")
            for index, each in entries(classes):
                if WITH_PVC in extra and not each.get("name"):
                    yield required(f"{where}.config.{WITH_PVC}.protectedStorageClasses[{index}]", "a name")
        if WITHOUT_PDB in effective and self.version >= V35:
            message = (
                f"by a bug of descheduler {told(V35)} to {NEWEST} ({WITHOUT_PDB}, upstream issue 1882) it sees no "
                "PodDisruptionBudget: every pod is protected, and a dry run does not show it"
            )
            path = where if WITHOUT_PDB in extra else config.at("ignorePodsWithoutPDB")
            yield Finding(
                "PdbProtectionBroken", ERROR, path, message, "leave it out, and give the workloads PodDisruptionBudgets"
            )
        if LOCAL_STORAGE in effective and not self.cluster:
            message = "pods with an emptyDir stay, in memory too, as the /dev/shm of inference servers is"
            fix = "leave it so if their data counts; else let them go by podProtections.defaultDisabled: [PodsWithLocalStorage]"
            if self.version < V34:
                fix = "leave it so if their data counts; else write evictLocalStoragePods: true"
            yield Finding("LocalStorageProtected", INFO, config.path, message, fix)
