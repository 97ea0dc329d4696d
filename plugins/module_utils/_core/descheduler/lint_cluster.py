# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a policy would meet on a cluster: nodes that count for what they are not, and pods that it may or cannot evict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..cluster.layout import Layout
from ..errors import InputError
from ..kube.decode import decode, objects
from ..kube.model import Cluster, Node, Pod
from ..kube.selectors import LabelSelector, label_selector, parse_selector
from ..plan.protection import EVICT
from ..severity import ERROR, INFO, WARNING
from .findings import Finding, at
from .policy import VICTIM
from .profile import LOW, PACKING, Config, Profile, mapping, profiles_of
from .shape import is_number
from .versions import LOCAL_STORAGE, V33, Version

_TOLD = 3
"""So many names are told; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster, and of it what only the descheduler looks at.

    Attributes:
        cluster: Its pods are marked by the volume that is local storage to the descheduler, in memory or not.
        priority_classes: Their names; None where they were not read.
    """

    cluster: Cluster
    priority_classes: frozenset[str] | None


def see(documents: Iterable[Any], *, source: str | None = None, live: bool = False, now: float | None = None) -> Seen:
    """The cluster that documents describe.

    Raises:
        InputError: An object is malformed; it names source, object and field.
    """
    classes: set[str] = set()
    listed: set[str] = set()

    def noted() -> Iterator[Any]:
        for document in documents:
            kind = document.get("kind") if isinstance(document, Mapping) else None
            if kind in ("List", "PriorityClass", "PriorityClassList"):
                for each in objects([document], listed):
                    if each["kind"] == "PriorityClass":
                        listed.add("PriorityClass")
                        classes.add(str(mapping(each.get("metadata")).get("name")))
            yield document

    cluster = decode(noted(), source=source, live=live, now=now, mark=local_storage)
    return Seen(cluster, frozenset(classes) if "PriorityClass" in listed else None)


def local_storage(pod: Mapping[str, Any]) -> str | None:
    """The volume for which the descheduler takes a pod for one with local storage: emptyDir of any kind, or hostPath."""
    for volume in mapping(pod.get("spec")).get("volumes") or ():
        for kind in ("emptyDir", "hostPath"):
            if volume.get(kind) is not None:
                return f"{kind} {volume.get('name')}"
    return None


def lint_cluster(policy: Mapping[str, Any], version: Version, resource: str, seen: Seen) -> Iterator[Finding]:
    """Everything that takes a cluster to be told."""
    return _ClusterLint(policy, version, resource, seen, Layout(seen.cluster)).findings()


@dataclass(frozen=True)
class _ClusterLint:
    policy: Mapping[str, Any]
    version: Version
    resource: str
    seen: Seen
    layout: Layout

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that the descheduler looks at."""
        try:
            selector = parse_selector(str(self.policy.get("nodeSelector") or ""))
        except InputError:
            selector = LabelSelector()
        return [node for node in self.seen.cluster.nodes.values() if node.ready and selector.matches(node.labels)]

    @cached_property
    def pods(self) -> list[Pod]:
        """The pods on nodes, by name."""
        found = [pod for pods in self.seen.cluster.bound.values() for pod in pods]
        return sorted(found, key=lambda pod: (pod.namespace, pod.name))

    def findings(self) -> Iterator[Finding]:
        profiles = [profile for profile in profiles_of(self.policy) if profile.active]
        if not profiles:
            return
        if len(self.nodes) < 2:
            message = f"{len(self.nodes)} ready nodes match; with fewer than 2 the descheduler does nothing"
            yield Finding("NodesTooFew", ERROR, "nodeSelector", message, "select the nodes that are meant")
        for profile in profiles:
            for plugin, config in profile.active.items():
                if plugin in (PACKING, LOW):
                    yield from self.utilization(plugin, config)
                yield from self.selector(f"{config.path}.labelSelector", config.args.get("labelSelector"))
            yield from self.evictor(profile)
        yield from self.annotations(profiles)
        yield from self.budgets()

    def utilization(self, plugin: str, config: Config) -> Iterator[Finding]:
        thresholds = {k: float(v) for k, v in mapping(config.args.get("thresholds")).items() if is_number(v)}
        for name in thresholds:
            path = at(config.at("thresholds"), name)
            having = [node for node in self.nodes if node.allocatable.get(name)]
            without = [node.name for node in self.nodes if not node.allocatable.get(name)]
            if not having:
                message = f"none of {len(self.nodes)} nodes has any {name}: all count as using none, and nothing is done"
                yield Finding(
                    "ResourceNowhere", ERROR, path, message, f"name a resource that nodes have, such as {self.resource}"
                )
            elif without:
                message = f"{some(without)} have no {name}: they count as using none of it, and their pods are evicted"
                fix = "write a nodeSelector that only nodes match that have it"
                yield Finding("NodesWithoutResource", ERROR, path, message, fix)
            sizes = sorted({node.allocatable[name] for node in having}) if "/" in name else []
            if len(sizes) > 1:
                message = f"nodes have {', '.join(map(str, sizes))} {name}: one percentage is another number of them on each"
                fix = "select nodes of one size, with a policy for each size"
                yield Finding("NodeSizes", WARNING, path, message, fix)
        if plugin == PACKING and thresholds:
            yield from self.sources(config, thresholds)

    def sources(self, config: Config, thresholds: Mapping[str, float]) -> Iterator[Finding]:
        """Which nodes HighNodeUtilization would empty, and onto which."""
        under = [node for node in self.nodes if all(self.usage(node, name) <= most for name, most in thresholds.items())]
        if not under:
            message = f"none of {len(self.nodes)} nodes is at or below the thresholds: there is nothing to empty now"
            yield Finding("NoSource", INFO, config.at("thresholds"), message, "leave it so, or raise them")
            return
        targets = [node for node in self.nodes if node not in under and not node.unschedulable]
        if not targets:
            message = f"all of {len(self.nodes)} nodes that could take pods are at or below the thresholds: nothing is done"
            yield Finding("NoDestination", WARNING, config.at("thresholds"), message, "lower them, or take mode planned")
        soft = [node.name for node in targets if any(taint.effect == "PreferNoSchedule" for taint in node.taints)]
        if soft:
            message = f"{some(soft)} have a PreferNoSchedule taint: in its eyes they take no pod that does not tolerate it"
            yield Finding("SoftTaints", WARNING, config.path, message, "take the taint away while it runs")

    def usage(self, node: Node, name: str) -> float:
        """Percent of a resource that the node's pods request; 0 where it has none, as the descheduler has it."""
        had = node.allocatable.get(name, 0)
        return self.layout.used[node.name].get(name, 0) / had * 100 if had else 0.0

    def selector(self, path: str, raw: Any) -> Iterator[Finding]:
        if not isinstance(raw, Mapping) or not raw or raw == {"matchLabels": VICTIM}:
            return
        try:
            found = label_selector(raw, path)
        except InputError:
            return
        if found and not any(found.matches(pod.labels) for pod in self.pods):
            message = f"none of {len(self.pods)} pods on nodes has these labels: nothing is evicted"
            yield Finding("SelectsNothing", WARNING, path, message, "see which labels the pods have")

    def evictor(self, profile: Profile) -> Iterator[Finding]:
        config = profile.evictor
        yield from self.selector(config.at("labelSelector"), config.args.get("labelSelector"))
        name = mapping(config.args.get("priorityThreshold")).get("name")
        classes = self.seen.priority_classes
        if name and classes is not None and name not in classes:
            effect = "ends with an error" if self.version >= V33 else "takes 0 for it, which protects nearly every pod"
            path = f"{config.at('priorityThreshold')}.name"
            message = f"the cluster has no PriorityClass {name}; the descheduler {effect}"
            yield Finding("PriorityClassMissing", ERROR, path, message, "make the PriorityClass, or give a value")
        if LOCAL_STORAGE in profile.protections(self.version):
            gpu = [pod for pod in self.pods if self.resource in pod.requests]
            held = [f"{pod} ({pod.mark})" for pod in gpu if pod.mark]
            if held:
                message = f"{len(held)} of {len(gpu)} GPU pods stay for their local storage: {some(held)}"
                fix = f"leave it so if their data counts; else let them go by defaultDisabled: [{LOCAL_STORAGE}]"
                yield Finding("LocalStorageProtected", WARNING, config.path, message, fix)

    def annotations(self, profiles: list[Profile]) -> Iterator[Finding]:
        mistaken = [f'{pod} ("{pod.annotations[EVICT]}")' for pod in self.pods if pod.annotations.get(EVICT, "true") != "true"]
        if not mistaken:
            return
        # By labels alone they are not chosen: who plans keeps them.
        chosen = all(config.args.get("labelSelector") for profile in profiles for config in profile.active.values())
        message = (
            f"{some(mistaken)} have the annotation {EVICT}, which is read by its presence: whatever its value, they may be "
            "evicted past every other protection"
        )
        fix = "take it away; what protects is descheduler.alpha.kubernetes.io/prefer-no-eviction with noEvictionPolicy Mandatory"
        yield Finding("EvictAnnotation", WARNING if chosen else ERROR, "", message, fix)

    def budgets(self) -> Iterator[Finding]:
        budgets: dict[str, list[LabelSelector]] = {}
        for budget in self.seen.cluster.budgets:
            if budget.selector is not None:
                budgets.setdefault(budget.namespace, []).append(budget.selector)
        several = [
            str(pod) for pod in self.pods if sum(selector.matches(pod.labels) for selector in budgets.get(pod.namespace, ())) > 1
        ]
        if several:
            message = f"{some(several)} are in several PodDisruptionBudgets: the API server refuses to evict such pods"
            yield Finding("SeveralBudgets", WARNING, "", message, "leave each pod one budget")


def some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _TOLD
    if more > 0:
        return f"{', '.join(names[:_TOLD])} and {more} more"
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
