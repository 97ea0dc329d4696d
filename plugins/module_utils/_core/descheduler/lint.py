# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What is wrong with a policy, by itself: what is not read, what is refused, and what does not do what people think."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..severity import ERROR, WARNING
from .findings import ENDS, REFUSES, SKIPS, Finding, at
from .lint_evictor import EvictorRules
from .lint_plugins import PluginRules
from .profile import LOW, Profile, entries, mapping, profiles_of, texts
from .rules import REFUSED, duplicates_packed, exclusive, required, soft_constraints
from .settings import REMOVE_DUPLICATES, nearest
from .shape import is_number, shape
from .versions import (
    API_VERSION,
    EVICTOR,
    EVICTOR_POINTS,
    KIND,
    NEWEST,
    PLUGINS,
    UNREAD_POINTS,
    V33,
    V34,
    V35,
    V36,
    Version,
    is_known,
    told,
)

MIGRATE = "let the filter gpuops.defrag.descheduler_policy_migrate turn it into v1alpha2"

_LIMITS = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")


@dataclass(frozen=True, slots=True)
class Document:
    """A policy as it was written.

    Attributes:
        content: The parsed policy; None for an empty text.
        duplicates: Paths of keys that stand twice.
        documents: How many YAML documents there were; 0 where there is no policy to look at.
        found: What was found on the way to it.
        prefix: Where in a larger document it was.
    """

    content: Any
    duplicates: tuple[str, ...] = ()
    documents: int = 1
    found: tuple[Finding, ...] = ()
    prefix: str = ""


def lint(document: Document, version: Version, resource: str, *, cluster: bool = False) -> Iterator[Finding]:
    """Everything that can be told without a cluster.

    Args:
        document: The policy.
        version: Of the descheduler that is to read it.
        resource: The GPU resource.
        cluster: A cluster is looked at as well, so that what only it can tell is not guessed here.
    """
    yield from document.found
    if document.documents > 1:
        message = f"there are {document.documents} YAML documents, and the descheduler reads the first alone"
        yield Finding("SeveralDocuments", ERROR, "", message, "put everything into one document")
    for path in document.duplicates:
        message = "this key stands twice; the last one counts, and the descheduler says nothing"
        yield Finding("DuplicateKey", ERROR, path, message, "leave one of them out")
    if not is_known(version):
        message = f"descheduler {told(version)} is not known here; it is taken for {NEWEST}"
        yield Finding("VersionUnknown", WARNING, "", message, "see in its release notes what has changed")
    policy = document.content
    if not document.documents:
        return
    if policy is None or policy == {}:
        message = "the policy is empty; the descheduler takes it, does nothing and ends with success"
        yield Finding("EmptyPolicy", ERROR, "", message, "write a policy, such as the filter descheduler_policy renders")
    elif not isinstance(policy, Mapping):
        message = f"the policy is {type(policy).__name__}, not a mapping; the descheduler {REFUSES}"
        yield Finding("WrongType", ERROR, "", message, "write a mapping with apiVersion, kind and profiles")
    else:
        yield from _Lint(policy, min(version, (V36[0], V36[1], 9999)), resource, cluster).findings()


@dataclass(slots=True)
class _Lint:
    policy: Mapping[str, Any]
    version: Version
    resource: str
    cluster: bool

    def findings(self) -> Iterator[Finding]:
        yield from self.header()
        yield from shape(self.policy, self.version)
        yield from self.limits()
        yield from self.metrics()
        profiles = profiles_of(self.policy)
        if "strategies" in self.policy:
            yield from self.strategies()
        elif not profiles:
            message = "there is no profile; the descheduler does nothing and ends with success"
            yield Finding(
                "NoProfiles", ERROR, "profiles", message, "write a profile, or take the one that descheduler_policy renders"
            )
        names = Counter(profile.name for profile in profiles)
        for profile in profiles:
            if not profile.name or names[profile.name] > 1:
                message = f"its name {profile.name!r} is another profile's too" if profile.name else "the profile has no name"
                yield Finding(
                    "ProfileName",
                    WARNING,
                    profile.path,
                    f"{message}; logs and metrics cannot tell it",
                    "give it a name of its own",
                )
            yield from self.configuration(profile)
            yield from self.enabled(profile)
            rules = EvictorRules(self.version, self.cluster)
            yield from (each for each in rules.check(profile) if profile.active or each.id in REFUSED)
            for plugin, config in profile.again:
                if plugin == EVICTOR:
                    other = replace(profile, configs={**profile.configs, EVICTOR: config})
                    yield from (each for each in rules.check(other) if each.id in REFUSED)
            yield from self.plugins.check(profile)

    @property
    def plugins(self) -> PluginRules:
        return PluginRules(self.version, self.resource, selecting=bool(self.policy.get("nodeSelector")), cluster=self.cluster)

    def header(self) -> Iterator[Finding]:
        version, kind = self.policy.get("apiVersion"), self.policy.get("kind")
        if not version:
            message = "without apiVersion the descheduler reads nothing of the policy, does nothing and ends with success"
            yield Finding("MissingApiVersion", ERROR, "apiVersion", message, f"write apiVersion: {API_VERSION}")
        elif version != API_VERSION:
            message = f"descheduler {told(self.version)} knows no {version}, and ends with an error"
            fix = MIGRATE if version == "descheduler/v1alpha1" else f"write apiVersion: {API_VERSION}"
            yield Finding("WrongApiVersion", ERROR, "apiVersion", message, fix)
        if not kind:
            message = "kind is missing; the descheduler takes it for a policy all the same, other tools do not"
            yield Finding("MissingKind", WARNING, "kind", message, f"write kind: {KIND}")
        elif kind != KIND:
            message = f"{kind} is no kind that the descheduler knows; it ends with an error"
            yield Finding("WrongKind", ERROR, "kind", message, f"write kind: {KIND}")

    def limits(self) -> Iterator[Finding]:
        given = [name for name in _LIMITS if is_number(self.policy.get(name))]
        if not given and profiles_of(self.policy):
            message = "there is no limit on evictions: one cycle may evict everything that can be evicted"
            yield Finding("NoLimits", WARNING, "", message, f"set {', '.join(_LIMITS)}")
        for name in given:
            if self.policy[name] == 0:
                message = "0 is no way to say no limit: nothing is ever evicted"
                yield Finding("ZeroLimit", WARNING, name, message, "write how many, or leave it out for no limit")

    def metrics(self) -> Iterator[Finding]:
        """``metricsProviders``; what is checked of them at the start."""
        providers = [(at("metricsProviders", index), each) for index, each in entries(self.policy.get("metricsProviders"))]
        if self.version < V33 or not providers:
            return
        sources = [each.get("source") for _path, each in providers]
        if "KubernetesMetrics" in sources and mapping(self.policy.get("metricsCollector")).get("enabled"):
            yield exclusive("metricsProviders", "metricsCollector and a provider KubernetesMetrics")
        for index, (path, each) in enumerate(providers):
            if each.get("source") in sources[:index]:
                yield exclusive(path, f"two providers {each.get('source')}")
            if each.get("source") != "Prometheus":
                continue
            prometheus, url = mapping(each.get("prometheus")), mapping(each.get("prometheus")).get("url")
            if not url:
                yield required(at(path, "prometheus"), "a url of Prometheus")
            elif self.version < V34 and not str(url).startswith("https:"):
                message = f"descheduler {told(self.version)} takes https alone"
                yield Finding("InvalidValue", ERROR, at(at(path, "prometheus"), "url"), message, "write an https url")
            if "authToken" in prometheus:
                secret = mapping(mapping(prometheus["authToken"]).get("secretReference"))
                if not secret.get("name") or not secret.get("namespace"):
                    yield required(f"{path}.prometheus.authToken", "a secretReference with namespace and name")

    # Policies of v1alpha1, or of v1alpha2 with strategies in them.

    def strategies(self) -> Iterator[Finding]:
        message = (
            "strategies belong to v1alpha1; the descheduler passes over them, evicts nothing and ends with success"
            if self.policy.get("apiVersion") == API_VERSION
            else "strategies belong to v1alpha1, which the descheduler reads no longer since 0.31"
        )
        yield Finding("OldStrategies", ERROR, "strategies", message, MIGRATE)
        for name, raw in mapping(self.policy.get("strategies")).items():
            where, params = at("strategies", name), mapping(mapping(raw).get("params"))
            if name not in PLUGINS or name == EVICTOR:
                yield self.no_plugin(name, where)
            if mapping(raw).get("enabled") is False:
                continue
            for key in ("maxSkew", "topologyKey", "whenUnsatisfiable"):
                if key in params:
                    message = f"no version ever had {key} here: it is read from the pods' own topologySpreadConstraints"
                    yield Finding("UnknownField", ERROR, f"{where}.params.{key}", message, "leave it out; set it in the pods")
            if params.get("includeSoftConstraints") or "ScheduleAnyway" in texts(params.get("constraints")):
                yield soft_constraints(f"{where}.params")
            if name == REMOVE_DUPLICATES:
                yield duplicates_packed(where)
            by_use, within = (
                mapping(params.get("nodeResourceUtilizationThresholds")),
                f"{where}.params.nodeResourceUtilizationThresholds",
            )
            for key in ("thresholds", "targetThresholds"):
                yield from self.plugins.percentages(f"{within}.{key}", mapping(by_use.get(key)))
            if name == LOW:
                yield self.plugins.spreads(
                    where, {**mapping(by_use.get("thresholds")), **mapping(by_use.get("targetThresholds"))}
                )

    # What a profile configures and enables.

    def configuration(self, profile: Profile) -> Iterator[Finding]:
        for index, each in entries(profile.raw.get("pluginConfig")):
            where, name = f"{profile.path}.pluginConfig[{index}]", str(each.get("name") or "")
            if name not in PLUGINS:
                message = f"the descheduler has no plugin {name or 'without a name'}, and ends with an error"
                yield Finding(
                    "UnknownPlugin",
                    ERROR,
                    at(where, "name"),
                    message,
                    f"write the name of a plugin{nearest(str(name), tuple(PLUGINS))}",
                )
            elif profile.configs[name].path != at(where, "args"):
                message = f"{name} is configured twice in the profile: the first counts, and this one is passed over"
                yield Finding("PluginConfigTwice", ERROR, where, message, "make one of the two, or a profile for each")
            elif name != EVICTOR and name not in profile.named:
                message = f"{name} is configured and enabled nowhere in the profile: it does nothing"
                yield Finding(
                    "PluginNotEnabled",
                    WARNING,
                    where,
                    message,
                    f"enable it under plugins.{PLUGINS[name].points[0]}, or leave it out",
                )

    def enabled(self, profile: Profile) -> Iterator[Finding]:
        broken = f"and {ENDS}" if self.version >= V35 else SKIPS
        for point, name, where, again in profile.enabled:
            if point in UNREAD_POINTS:
                continue
            if name not in PLUGINS:
                message = f"the descheduler has no plugin {name}, {broken}"
                yield Finding(
                    "UnknownPlugin", ERROR, where, message, f"write the name of a plugin{nearest(name, tuple(PLUGINS))}"
                )
            elif point not in PLUGINS[name].points:
                message = f"{name} is no {point} plugin; the descheduler does not find it there, {broken}"
                yield Finding("WrongExtensionPoint", ERROR, where, message, f"enable it under plugins.{PLUGINS[name].points[0]}")
            elif name not in profile.configs:
                message = f"{name} has no entry in pluginConfig; the descheduler cannot build it, {broken}"
                yield Finding(
                    "PluginConfigMissing",
                    ERROR,
                    where,
                    message,
                    f"add an entry with name: {name}; args may be left out where none are needed",
                )
            elif again:
                yield Finding("PluginTwice", WARNING, where, f"{name} is enabled twice, and runs twice", "leave one out")
        evicting = any(point not in (*UNREAD_POINTS, *EVICTOR_POINTS) for point, *_rest in profile.enabled)
        if not evicting:
            message = "the profile enables no plugin under deschedule or balance: it evicts nothing"
            yield Finding("NothingEnabled", ERROR, f"{profile.path}.plugins", message, "enable the plugins that it is for")

    def no_plugin(self, name: str, where: str) -> Finding:
        message = f"the descheduler never had a strategy {name}"
        return Finding("UnknownPlugin", ERROR, where, message, f"write the name of a strategy{nearest(name, tuple(PLUGINS))}")
