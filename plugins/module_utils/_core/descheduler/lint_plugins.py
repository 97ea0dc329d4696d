# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the plugins of a policy do, and what they only seem to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..severity import ERROR, INFO, WARNING
from .findings import Finding, at
from .profile import LOW, PACKING, Config, Profile, entries, mapping, texts
from .rules import REFUSED, duplicates_packed, exclusive, required, soft_constraints
from .shape import invalid, is_number
from .versions import ONLY_THRESHOLDING, V33, V35_1, Version, states

TAINT = "gpuops.io/defrag"
"""The soft taint that steers the pods of a wave."""

# A node of 16 GPUs that uses one uses 6.25 %: below that, a threshold only selects nodes that use none.
_MOST_GPUS = 16


@dataclass(frozen=True, slots=True)
class PluginRules:
    """The rules for the args of plugins.

    Attributes:
        resource: The GPU resource.
        selecting: The policy has a node selector.
        cluster: A cluster is looked at as well, which tells more.
    """

    version: Version
    resource: str
    selecting: bool
    cluster: bool

    def check(self, profile: Profile) -> Iterator[Finding]:
        """What is to be said of the plugins of a profile. Of those that are configured and not enabled, what is refused."""
        for plugin, config in (*profile.configs.items(), *profile.again):
            found = (*self.common(plugin, config), *self.plugin(profile, plugin, config))
            counts = profile.active.get(plugin) is config
            yield from (each for each in found if counts or each.id in REFUSED)

    def common(self, plugin: str, config: Config) -> Iterator[Finding]:
        """What holds for all plugins."""
        for key in ("namespaces", "ownerKinds"):
            both = mapping(config.args.get(key))
            if both.get("include") and both.get("exclude"):
                yield exclusive(config.at(key), "include and exclude")
        if mapping(config.args.get("evictableNamespaces")).get("include"):
            message = f"{plugin} can leave namespaces out, not choose them; the descheduler refuses the whole policy"
            yield Finding("InvalidValue", ERROR, f"{config.at('evictableNamespaces')}.include", message, "write exclude")

    def plugin(self, profile: Profile, plugin: str, config: Config) -> Iterator[Finding]:
        match plugin:
            case "HighNodeUtilization":
                yield from self.packing(config)
            case "LowNodeUtilization":
                yield from self.spreading(config)
            case "PodLifeTime":
                yield from self.by_age(config, within=bool(profile.evictor.args.get("labelSelector")))
            case "RemoveDuplicates":
                yield duplicates_packed(config.path)
            case "RemovePodsHavingTooManyRestarts":
                restarts = config.args.get("podRestartThreshold")
                if not is_number(restarts) or restarts < 1:
                    yield required(config.at("podRestartThreshold"), "a number from 1 on")
            case "RemovePodsViolatingNodeAffinity":
                if not config.args.get("nodeAffinityType"):
                    yield required(config.at("nodeAffinityType"), "requiredDuringSchedulingIgnoredDuringExecution in a list")
            case "RemovePodsViolatingNodeTaints":
                yield from self.taints(config)
            case "RemovePodsViolatingTopologySpreadConstraint":
                if "ScheduleAnyway" in texts(config.args.get("constraints")):
                    yield soft_constraints(config.at("constraints"))

    def percentages(self, where: str, raw: Mapping[str, Any], *, required_there: bool = False) -> Iterator[Finding]:
        """Thresholds: percentages of what a node has, by resource."""
        if not raw and required_there:
            message = "there is no threshold; the descheduler refuses the whole policy"
            yield Finding("ThresholdMissing", ERROR, where, message, f"write one for {self.resource}, in percent")
        for name, value in raw.items():
            if not is_number(value):
                continue
            path = at(where, name)
            if not 0 <= value <= 100:
                message = f"{value} is no percentage from 0 to 100; the descheduler refuses the whole policy"
                yield Finding("ThresholdOutOfRange", ERROR, path, message, "write a percentage of what a node has")
            elif "/" in name and 0 < value <= _MOST_GPUS and float(value).is_integer():
                below = value < 100 / _MOST_GPUS
                effect = "on nodes of 16 or fewer that is less than one" if below else "that is little"
                message = f"{value} is {value} percent of a node's {name}, not {value} of them; {effect}"
                fix = "write a percentage: settings of the filter descheduler_policy take numbers of GPUs"
                yield Finding("ThresholdIsCount", ERROR if below else WARNING, path, message, fix)

    def packing(self, config: Config) -> Iterator[Finding]:
        raw = mapping(config.args.get("thresholds"))
        yield from self.percentages(config.at("thresholds"), raw, required_there=True)
        gpus = any("/" in name for name in raw)
        if raw and not gpus:
            message = f"nodes are emptied by how little {', '.join(map(str, raw))} they use, whatever GPUs they hold"
            yield Finding("NoGpuThreshold", WARNING, config.at("thresholds"), message, f"write a threshold for {self.resource}")
        if gpus and ONLY_THRESHOLDING not in texts(config.args.get("evictionModes")):
            message = "pods that request none of the resource are evicted too, which frees none of it"
            fix = (
                f"write evictionModes: [{ONLY_THRESHOLDING}]"
                if self.version >= V33
                else "take descheduler 0.33.0, which has evictionModes"
            )
            yield Finding("EvictionModesMissing", WARNING, config.at("evictionModes"), message, fix)
        if gpus:
            yield from self.where_missing(config)
        if gpus and not self.cluster:
            message = (
                f"a node with a PreferNoSchedule taint that a pod does not tolerate takes nothing in its eyes: while waves "
                f"are steered by {TAINT}, it does nothing"
            )
            yield Finding("SoftTaints", INFO, config.path, message, "do not let both run at the same time")

    def where_missing(self, config: Config) -> Iterator[Finding]:
        if not self.selecting and not self.cluster:
            message = "without a nodeSelector nodes that have none of the resource count as using none of it"
            yield Finding(
                "NodeSelectorMissing",
                WARNING,
                "nodeSelector",
                message,
                "select the nodes that have GPUs, of one size and product",
            )

    def spreading(self, config: Config) -> Iterator[Finding]:
        low, high = (mapping(config.args.get(key)) for key in ("thresholds", "targetThresholds"))
        for key, raw in (("thresholds", low), ("targetThresholds", high)):
            yield from self.percentages(config.at(key), raw, required_there=True)
        if low and high and low.keys() != high.keys():
            message = "thresholds and targetThresholds name different resources; the descheduler refuses the whole policy"
            yield Finding("ThresholdMismatch", ERROR, config.path, message, "name the same resources in both")
        for name in sorted(low.keys() & high.keys()):
            deviating = config.args.get("useDeviationThresholds") is True
            if is_number(low[name]) and is_number(high[name]) and low[name] > high[name] and not deviating:
                message = f"the threshold of {name} is above its target; the descheduler refuses the whole policy"
                yield Finding("ThresholdMismatch", ERROR, at(config.at("thresholds"), name), message, "write a lower threshold")
        metrics = mapping(config.args.get("metricsUtilization"))
        source, where = metrics.get("source"), config.at("metricsUtilization")
        if source == "KubernetesMetrics" and metrics.get("metricsServer"):
            yield exclusive(where, "source KubernetesMetrics and metricsServer")
        if source == "KubernetesMetrics" and metrics.get("prometheus"):
            yield exclusive(where, "source KubernetesMetrics and prometheus")
        if source == "Prometheus" and not mapping(metrics.get("prometheus")).get("query"):
            yield required(where, "a query for Prometheus")
        yield self.spreads(config.path, {**low, **high})
        if any("/" in name for name in low):
            yield from self.where_missing(config)

    def spreads(self, where: str, raw: Mapping[str, Any]) -> Finding:
        gpus = [name for name in raw if "/" in name]
        message = f"{LOW} moves pods from full nodes to empty ones: it spreads"
        if gpus:
            return Finding("Spreads", ERROR, where, f"{message} {', '.join(gpus)} where packing is wanted", f"take {PACKING}")
        return Finding(
            "Spreads",
            WARNING,
            where,
            f"{message}, GPU pods too, whatever holes that leaves",
            f"take {PACKING}, or keep GPU nodes out of it",
        )

    def by_age(self, config: Config, *, within: bool) -> Iterator[Finding]:
        args = config.args
        criteria = (
            ("maxPodLifeTimeSeconds", "states", "conditions", "exitCodes")
            if self.version >= V35_1
            else ("maxPodLifeTimeSeconds",)
        )
        if not any(args.get(key) or (key == criteria[0] and args.get(key) is not None) for key in criteria):
            yield required(config.path, " or ".join(criteria))
        for index, state in enumerate(texts(args.get("states"))):
            if state not in states(self.version):
                yield invalid(at(config.at("states"), index), state, states(self.version))
        for index, each in entries(args.get("conditions")):
            if not any(
                each.get(key) not in (None, "") for key in ("type", "status", "reason", "minTimeSinceLastTransitionSeconds")
            ):
                yield required(at(config.at("conditions"), index), "type, status, reason or minTimeSinceLastTransitionSeconds")
        if not args.get("states"):
            message = "without states pods that have finished are deleted too, whose results and logs go with them"
            yield Finding("FinishedPods", WARNING, config.at("states"), message, "write states: [Running]")
        if (
            not within
            and not args.get("labelSelector")
            and not any(args.get(key) for key in ("states", "conditions", "exitCodes"))
        ):
            message = f"every pod older than {args.get('maxPodLifeTimeSeconds')} seconds may be evicted"
            yield Finding("EvictsByAge", WARNING, config.at("labelSelector"), message, "choose pods by a labelSelector")

    def taints(self, config: Config) -> Iterator[Finding]:
        args = config.args
        excluded, included = texts(args.get("excludedTaints")), texts(args.get("includedTaints"))
        if excluded and included:
            yield exclusive(config.path, "includedTaints and excludedTaints")
        ours = TAINT in included if included else TAINT not in excluded
        if args.get("includePreferNoSchedule") is True and ours:
            message = f"pods are evicted for soft taints: all those on nodes that a wave closes by {TAINT}"
            yield Finding(
                "SoftTaintsEvict", WARNING, config.at("includePreferNoSchedule"), message, f"add {TAINT} to excludedTaints"
            )
