# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Strategies of v1alpha1 into profiles of v1alpha2, and recipes that mix the two into what they meant.

The mapping is that of the descheduler's own conversion, which was last in v0.30 (``pkg/api/v1alpha1/conversion.go`` and
``strategymigration.go``), but for three things. What it dropped in silence is told. Where GPUs are spread or their numbers
stand for percentages, packing is what was meant. And pods are better protected than by v1alpha1, which is told too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..severity import Severity
from .findings import Finding, at
from .lint import Document, lint
from .policy import NATIVE_PROFILE, profile, render, threshold
from .profile import LOW, PACKING, mapping, texts
from .settings import PolicySettings, check_selector, nearest
from .shape import is_number
from .versions import (
    API_VERSION,
    KIND,
    LEGACY_PROTECTIONS,
    ONLY_THRESHOLDING,
    POLICY,
    SYSTEM_CRITICAL,
    V33,
    V34,
    Version,
    told,
)

Object = dict[str, Any]

_TOGGLES = ("evictLocalStoragePods", "evictSystemCriticalPods", "evictFailedBarePods", "evictDaemonSetPods", "ignorePvcPods")
_LIMITS = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")
# What each strategy read of its params, as {args key: param}; the params of one name of their own are in _OWN.
_SELECTING = ("namespaces", "labelSelector")
_READ: Mapping[str, tuple[str, ...]] = {
    LOW: ("namespaces",),
    PACKING: ("namespaces",),
    "RemoveDuplicates": ("namespaces",),
    "RemovePodsViolatingTopologySpreadConstraint": (*_SELECTING, "includeSoftConstraints"),
    "RemovePodsViolatingInterPodAntiAffinity": _SELECTING,
    "RemovePodsViolatingNodeAffinity": (*_SELECTING, "nodeAffinityType"),
    "RemovePodsViolatingNodeTaints": (*_SELECTING, "includePreferNoSchedule", "excludedTaints", "includedTaints"),
    "RemovePodsHavingTooManyRestarts": _SELECTING,
    "PodLifeTime": _SELECTING,
    "RemoveFailedPods": _SELECTING,
}
_OWN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    LOW: (
        "nodeResourceUtilizationThresholds",
        ("thresholds", "targetThresholds", "useDeviationThresholds", "numberOfNodes"),
    ),
    PACKING: ("nodeResourceUtilizationThresholds", ("thresholds", "numberOfNodes")),
    "RemoveDuplicates": ("removeDuplicates", ("excludeOwnerKinds",)),
    "RemovePodsHavingTooManyRestarts": ("podsHavingTooManyRestarts", ("podRestartThreshold", "includingInitContainers")),
    "PodLifeTime": ("podLifeTime", ("maxPodLifeTimeSeconds", "podStatusPhases", "states")),
    "RemoveFailedPods": (
        "failedPods",
        ("excludeOwnerKinds", "minPodLifetimeSeconds", "reasons", "includingInitContainers"),
    ),
}
_EVICTOR_PARAMS = ("nodeFit", "thresholdPriority", "thresholdPriorityClassName")
_FROM_PODS = ("maxSkew", "topologyKey", "whenUnsatisfiable")
# A threshold of so much or less is taken for a number of GPUs.
_LARGEST_COUNT = 16


@dataclass(frozen=True, slots=True)
class Fleet:
    """What it takes to make percentages of numbers of GPUs.

    Attributes:
        gpus_per_node: None if not known.
        node_selector: The nodes that have them, as text; "" if not known.
    """

    gpus_per_node: int | None = None
    node_selector: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            InputError: A number is too small, or the selector cannot be read.
        """
        if self.gpus_per_node is not None and self.gpus_per_node < 3:
            raise InputError(
                f"is {self.gpus_per_node}; HighNodeUtilization packs nodes of 3 GPUs and more", field="gpus_per_node"
            )
        if self.node_selector:
            check_selector(self.node_selector, "node_selector")


@dataclass(slots=True)
class Migration:
    """A policy of v1alpha2 and how it came about.

    Attributes:
        notes: What was carried over or changed, and why.
        cannot: What has no counterpart and is lost.
    """

    policy: Object
    notes: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)


def migrate(policy: Any, version: Version, *, resource: str = "nvidia.com/gpu", fleet: Fleet | None = None) -> Migration:
    """A policy in which a lint finds no error that it had for its strategies.

    Args:
        policy: v1alpha1, or v1alpha2 with strategies in it. One that needs nothing comes back as it is.
        version: Of the descheduler that is to read it.
        resource: The GPU resource.
        fleet: What is known of the nodes.

    Raises:
        InputError: It is no mapping, or of another kind or version.
    """
    if not isinstance(policy, Mapping):
        raise InputError(f"is {type(policy).__name__}, not a mapping", object="policy")
    if policy.get("kind") not in (None, "", KIND):
        raise InputError(f"is {policy['kind']}, not {KIND}", object="policy", field="kind")
    if policy.get("apiVersion") not in (None, "", API_VERSION, "descheduler/v1alpha1"):
        raise InputError(f"is {policy['apiVersion']}, not {API_VERSION}", object="policy", field="apiVersion")
    return _Migrator(mapping(policy), version, resource, fleet or Fleet()).migration()


@dataclass(slots=True)
class _Migrator:
    old: Mapping[str, Any]
    version: Version
    resource: str
    fleet: Fleet
    new: Migration = field(default_factory=lambda: Migration({}))

    def migration(self) -> Migration:
        policy, old = self.new.policy, self.old
        needed = "strategies" in old or old.get("apiVersion") != API_VERSION
        policy |= {"apiVersion": API_VERSION, "kind": KIND}
        if old.get("apiVersion") != API_VERSION:
            self.new.notes.append(f"apiVersion: {old.get('apiVersion') or 'missing'} became {API_VERSION}")
        for key, value in old.items():
            if key in ("apiVersion", "kind", "strategies", "profiles") or (needed and key in _TOGGLES):
                continue
            if needed and (key not in POLICY or not POLICY[key].known(self.version)):
                told_key = f"{key}{nearest(key, tuple(POLICY))}"
                self.new.cannot.append(f"{told_key}: descheduler {told(self.version)} knows no such field")
            else:
                policy[key] = value
        policy["profiles"] = list(old["profiles"]) if isinstance(old.get("profiles"), (list, tuple)) else []
        kept = len(policy["profiles"])
        strategies = mapping(old.get("strategies"))
        for name, raw in strategies.items():
            self.strategy(name, mapping(raw))
        if needed:
            self.drop_refused(kept)
        if strategies and not policy["profiles"]:
            self.planned("no strategy is left")
        return self.new

    def strategy(self, name: str, raw: Mapping[str, Any]) -> None:
        """One strategy into one profile."""
        where = f"strategies.{name}"
        if name not in _READ:
            self.new.cannot.append(f"{where}: the descheduler never had such a strategy")
            return
        # Who writes strategies under v1alpha2 has them from a recipe, and means them.
        meant = "enabled" not in raw and self.old.get("apiVersion") == API_VERSION
        if raw.get("enabled") is not True and not meant:
            self.new.notes.append(f"{where}: left out, as it was not enabled")
            return
        for key in [key for key in raw if key not in ("enabled", "params")]:
            told_why = "strategies have no weight since v1alpha2" if key == "weight" else "no version reads it"
            self.new.cannot.append(f"{where}.{key}: {told_why}")
        params = mapping(raw.get("params"))
        args = self.args(name, params, where)
        if name in (LOW, PACKING) and any("/" in resource for resource in mapping(args.get("thresholds"))):
            self.pack(name, params, args, where)
            return
        new = profile(f"strategy-{name}-profile", self.evictor(params, where), {name: args})
        self.new.policy["profiles"].append(new)
        self.new.notes.append(f"{where}: became the profile {new['name']}")

    def args(self, name: str, params: Mapping[str, Any], where: str) -> Object:
        """What a strategy read of its params, as args of its plugin."""
        args: Object = {key: params[key] for key in _READ[name] if params.get(key) is not None}
        group, keys = _OWN.get(name, ("", ()))
        own = mapping(params.get(group))
        args |= {key: own[key] for key in keys if own.get(key) is not None}
        unread = [*(f"{group}.{key}" for key in own if key not in keys)]
        unread += [key for key in params if key not in (*_READ[name], *_EVICTOR_PARAMS, group)]
        for key in unread:
            why = (
                "it is read from the pods' own topologySpreadConstraints" if key in _FROM_PODS else "this strategy never read it"
            )
            self.new.cannot.append(f"{where}.params.{key}: {why}")
        if name in (LOW, PACKING) and "namespaces" in args:
            namespaces = mapping(args.pop("namespaces"))
            if namespaces.get("include"):
                self.new.cannot.append(f"{where}.params.namespaces.include: {name} can only leave namespaces out")
            if namespaces.get("exclude"):
                args["evictableNamespaces"] = {"exclude": namespaces["exclude"]}
        if name == "RemovePodsViolatingTopologySpreadConstraint":
            soft = args.pop("includeSoftConstraints", False) is True
            args["constraints"] = ["DoNotSchedule", *(["ScheduleAnyway"] if soft else [])]
            args["topologyBalanceNodeFit"] = True
        if name == "PodLifeTime":
            states = [*texts(args.pop("podStatusPhases", ())), *texts(args.pop("states", ()))]
            args |= {"states": states} if states else {}
        return args

    def evictor(self, params: Mapping[str, Any], where: str) -> Object:
        """What may be evicted: as v1alpha1 had it, and better protected."""
        args: Object = {"nodeFit": True, "minReplicas": 2}
        if params.get("nodeFit") is False:
            args["nodeFit"] = False
        elif params.get("nodeFit") is None:
            self.note_once("nodeFit is on now, so that no pod is evicted that fits nowhere else")
        self.note_once("minReplicas is 2 now, so that no workload loses its only replica")
        value, name = params.get("thresholdPriority"), params.get("thresholdPriorityClassName")
        if value is not None:
            args["priorityThreshold"] = {"value": value}
            if name:
                self.new.cannot.append(f"{where}.params.thresholdPriorityClassName: thresholdPriority is there too")
        elif name:
            args["priorityThreshold"] = {"name": name}
        wanted = [toggle for toggle in _TOGGLES if self.old.get(toggle) is True]
        for toggle in _TOGGLES:
            if self.old.get(toggle) not in (None, True, False):
                self.lost_once(f"{toggle}: it is neither true nor false")
        if "evictSystemCriticalPods" in wanted and "priorityThreshold" in args:
            wanted.remove("evictSystemCriticalPods")
            self.note_once("evictSystemCriticalPods is off now: with it no priority threshold counts")
        if self.version < V34:
            return args | dict.fromkeys(wanted, True)
        args["noEvictionPolicy"] = "Mandatory"
        self.note_once("noEvictionPolicy is Mandatory now, so that the annotation prefer-no-eviction protects")
        lists: dict[str, list[str]] = {}
        for toggle in wanted:
            key, protection = LEGACY_PROTECTIONS[toggle]
            lists.setdefault(key, []).append(protection)
            self.note_once(f"{toggle} became podProtections.{key}: [{protection}]")
        if SYSTEM_CRITICAL in lists.get("defaultDisabled", ()):
            self.note_once("pods of every priority may be evicted, as evictSystemCriticalPods had it")
        return args | ({"podProtections": lists} if lists else {})

    def pack(self, name: str, params: Mapping[str, Any], args: Object, where: str) -> None:
        """Thresholds on GPUs. What was meant is packing, in percent if they are percentages, else by numbers of GPUs."""
        given = {key: value for key, value in mapping(args["thresholds"]).items() if "/" in key}
        if len(given) > 1 or len(given) < len(mapping(args["thresholds"])):
            others = [key for key in mapping(args["thresholds"]) if key != next(iter(given))]
            self.new.cannot.append(f"{where}: thresholds of {', '.join(others)}; GPUs are packed by their own resource alone")
        resource, value = next(iter(given.items()))
        if name == LOW:
            self.new.notes.append(f"{where}: {LOW} spreads, and packing was meant")
        counted = is_number(value) and 0 < value <= _LARGEST_COUNT and float(value).is_integer()
        selector = self.fleet.node_selector or self.old.get("nodeSelector") or ""
        gpus = self.fleet.gpus_per_node
        if self.version < V33 or not selector or (counted and gpus is None) or not is_number(value) or not 0 <= value <= 100:
            needs = "gpus_per_node and node_selector" if counted else "node_selector"
            reason = f"give {needs} to have it packed by {PACKING}"
            if self.version < V33:
                reason = f"descheduler {told(self.version)} has no evictionModes, without which pods without GPUs would go too"
            self.planned(f"{where}: {reason}")
            return
        if counted and gpus is not None:
            # Articles have a node with so few free GPUs emptied, or let nodes end with so many: the larger of the two.
            target = mapping(args.get("targetThresholds")).get(resource)
            most = max(value, target) if is_number(target) and target <= _LARGEST_COUNT else value
            free = max(1, min(int(most), gpus - 2))
            self.new.notes.append(
                f"{where}: thresholds are numbers of GPUs here and percentages: a node with more than {free} of "
                f"{gpus} GPUs free is emptied now"
            )
            value = threshold(gpus, free)
        self.new.policy["nodeSelector"] = selector
        self.note_once(f"nodeSelector is {selector} for the whole policy, as nodes without GPUs would count as empty")
        packing = {"thresholds": {resource: value}, "evictionModes": [ONLY_THRESHOLDING]}
        packing |= {key: args[key] for key in ("numberOfNodes", "evictableNamespaces") if key in args}
        evictor = self.evictor(params, where) | {"nodeSelector": selector}
        self.new.policy["profiles"].append(profile(NATIVE_PROFILE, evictor, {PACKING: packing}))
        self.new.notes.append(f"{where}: became the profile {NATIVE_PROFILE} with {PACKING}")

    def planned(self, why: str) -> None:
        """The profile that carries out plans, where nothing else does what was meant."""
        rendered = render(PolicySettings(version=self.version))["profiles"][0]
        if rendered not in self.new.policy["profiles"]:
            self.new.policy["profiles"].append(rendered)
        self.new.notes.append(f"{why}; now the profile {rendered['name']} evicts what a plan has chosen")

    def drop_refused(self, kept: int) -> None:
        """Leave out profiles that came from strategies and would be refused, with the reason.

        Raises:
            InputError: What limits the whole policy cannot be read. Without it more would be evicted than was meant.
        """
        profiles = self.new.policy["profiles"]
        errors: dict[str, Finding] = {}
        for found in lint(Document(self.new.policy), self.version, self.resource):
            if found.severity is Severity.ERROR:
                errors.setdefault(found.path.partition(".")[0], found)
        for path, found in errors.items():
            if path.partition("[")[0] != "profiles":
                raise InputError(f"{found.message}; {found.fix}", object="policy", field=found.path)
        for index in range(kept, len(profiles)):
            refused = errors.get(at("profiles", index))
            if refused:
                self.new.cannot.append(f"{profiles[index]['name']}: {refused.path.partition('.')[2]}: {refused.message}")
                profiles[index] = None
        self.new.policy["profiles"] = [each for each in profiles if each is not None]

    def note_once(self, note: str) -> None:
        if note not in self.new.notes:
            self.new.notes.append(note)

    def lost_once(self, what: str) -> None:
        if what not in self.new.cannot:
            self.new.cannot.append(what)
