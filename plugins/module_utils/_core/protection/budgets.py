# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The PodDisruptionBudgets that are wanted, and those of ours that are not wanted any more.

A pod of two budgets cannot be evicted at all: the Eviction API refuses it. So no budget is made over a pod that
somebody else's selects, and of two wishes for one pod the first counts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..kube.model import Pod
from ..kube.selectors import label_selector
from ..plan.budgets import SCALED, demand
from ..plan.gangs import KINDS
from ..severity import ERROR, INFO, WARNING
from .findings import Finding
from .read import OWN_LABELS, Budget, Found, Group
from .wishes import Service, Wishes

PROTECTS = "gpuops.io/protects"
"""Annotation of a budget of ours: what it is for."""

_LONGEST = 253
# Labels that controllers put on pods to tell one revision, or one pod, from the next: no selector may hold to them.
_PASSING = frozenset(
    (
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "rollouts-pod-template-hash",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "job-name",
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "leaderworkerset.sigs.k8s.io/group-index",
        "leaderworkerset.sigs.k8s.io/group-key",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "leaderworkerset.sigs.k8s.io/template-revision-hash",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-key",
        "jobset.sigs.k8s.io/restart-attempt",
        "apps.kubernetes.io/instance-id",
        "ray.io/group",
        "ray.io/node-type",
        "ray.io/identifier",
    )
)
# What all pods of a set carry, by the set's kind.
_SET_LABELS = {
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name",
    "JobSet": "jobset.sigs.k8s.io/jobset-name",
    "RayCluster": "ray.io/cluster",
    "training job": "training.kubeflow.org/job-name",
}
_UNCOUNTED = KINDS | {"Job", "DaemonSet", "Pod"}
"""Controllers whose number of replicas the disruption controller cannot ask for; Pod for pods that have none."""


class Subject(NamedTuple):
    """A pod that is there, or one of a workload that has none now: its number, its labels and whose it is."""

    number: int
    labels: Mapping[str, str]
    told: str


@dataclass(frozen=True, slots=True)
class Target:
    """What a budget is for.

    Attributes:
        kinds: Kinds of the pods' controllers, as far as known.
        replicas: Pods that they want together.
        least: How few autoscalers may leave of them; None without one.
    """

    service: Service
    told: str
    kind: str
    selector: Mapping[str, Any]
    pods: tuple[Pod, ...]
    kinds: frozenset[str]
    replicas: int
    least: int | None


@dataclass(frozen=True, slots=True)
class Budgets:
    """What comes of the wishes.

    Attributes:
        manifests: Budgets that are wanted.
        remove: Budgets of ours that are not.
        targets: The groups of the services that are listed, for other protection.
    """

    manifests: list[dict[str, Any]]
    remove: list[dict[str, Any]]
    targets: list[tuple[Service, list[Group]]]
    findings: list[Finding]


def budgets(found: Found, wishes: Wishes) -> Budgets:
    """The budgets that are wanted, those that are to go, and what was found on the way."""
    return _Planner(found, wishes).run()


class _Planner:
    def __init__(self, found: Found, wishes: Wishes) -> None:
        self.found = found
        self.wishes = wishes
        self.findings: list[Finding] = []
        self.subjects: dict[str, list[Subject]] = {}
        for number, (namespace, labels, told) in enumerate(found.subjects()):
            self.subjects.setdefault(namespace, []).append(Subject(number, labels, told))
        self.foreign: dict[str, list[Budget]] = {}
        for budget in found.budgets:
            if not budget.ours:
                self.foreign.setdefault(budget.namespace, []).append(budget)
        self.targets: list[tuple[Service, list[Group]]] = []

    def say(self, rule: str, severity: Any, what: object, message: str, fix: str = "") -> None:
        self.findings.append(Finding(rule, severity, str(what), message, fix))

    def run(self) -> Budgets:
        wanted: list[Target] = []
        taken: dict[int, Target] = {}
        for target in (*self.listed(), *self.discovered()):
            mine = self.selected(target.service.namespace, target.selector)
            shared = next((each for each in mine if each.number in taken), None)
            if shared:
                told = f"a pod of {shared.told} is in the PodDisruptionBudget for {taken[shared.number].told} already"
                fix = "give both as one group with a selector, or give their pods labels that differ"
                self.say("SharedPods", WARNING, target.told, f"{told}; it gets none of its own", fix)
            elif self.free_of_foreign(target, mine) and self.possible(target):
                wanted.append(target)
                taken.update(dict.fromkeys((each.number for each in mine), target))
        self.look_at_what_is_there()
        manifests = self.named(wanted)
        kept = set(map(_place, manifests))
        remove = [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": budget.name, "namespace": budget.namespace},
            }
            for budget in self.found.budgets
            if budget.ours and (budget.namespace, budget.name) not in kept and self.wishes.covers(budget.namespace)
        ]
        return Budgets(manifests, sorted(remove, key=_place), self.targets, self.findings)

    # Which pods

    def listed(self) -> Iterator[Target]:
        for service in self.wishes.services:
            known = self.found.cluster.namespaces
            if "Namespace" in self.found.cluster.kinds and service.namespace not in known:
                self.say(
                    "NamespaceNotFound",
                    ERROR,
                    service,
                    f"there is no namespace {service.namespace}",
                    f"make it first, or take {service.field} out",
                )
                continue
            target = self.by_selector(service) if service.selector is not None else self.by_name(service)
            if target and service.budget:
                yield target

    def by_selector(self, service: Service) -> Target | None:
        raw = service.selector or {}
        selector = label_selector(raw, "selector")
        here = (pod for pod in self.found.pods() if pod.namespace == service.namespace)
        pods = [pod for pod in here if selector is not None and selector.matches(pod.labels)]
        owners = sorted({each.told for each in self.selected(service.namespace, raw)})
        if not owners:
            self.say(
                "SelectsNothing",
                ERROR,
                service,
                f"no pod of {service.namespace} has these labels",
                f"check {service.field}.selector",
            )
            return None
        groups = self.groups(pods)
        self.targets.append((service, groups))
        if len(owners) > 1:
            told = f"counts the pods of {_and(owners)} as one"
            self.say("SeveralWorkloads", INFO, service, f"its PodDisruptionBudget {told}")
        whole = sum(group.replicas for group in groups)
        least = [group.least for group in groups]
        known = [group.least if group.least is not None else group.replicas for group in groups]
        return Target(
            replace(service, name=service.name or f"pods-{_hash(raw)}"),
            str(service),
            "",
            raw,
            tuple(pods),
            self.kinds(pods),
            whole + sum(not self.found.group_of(pod) for pod in pods),
            sum(known) if any(each is not None for each in least) else None,
        )

    def by_name(self, service: Service) -> Target | None:
        here = {
            key[0]: key
            for key in (*self.found.groups, *(key for key, each in self.found.controllers.items() if not each.above))
            if key[1:] == (service.namespace, service.name) and service.kind in ("", key[0])
        }
        if len(here) != 1:
            if not here:
                fix = f"check {service.field}, or choose its pods by selector"
                self.say("ServiceNotFound", ERROR, service, "there is no such workload", fix)
            else:
                told = f"{_and(sorted(here))} have this name"
                self.say("ServiceAmbiguous", ERROR, service, told, f"give {service.field}.kind")
            return None
        (key,) = here.values()
        group = self.found.groups.get(key) or self.idle(key)
        self.targets.append((service, [group]))
        return self.of_group(group, service)

    def idle(self, key: tuple[str, str, str]) -> Group:
        """The group of a workload that has no pods now."""
        controller = self.found.controllers[key]
        return Group(*key, None, False, controller.replicas or 0, controller=controller)

    def discovered(self) -> Iterator[Target]:
        if not self.wishes.discover:
            return
        listed = {id(group) for target in self.targets for group in target[1]}
        own = {(budget.namespace, budget.name) for budget in self.found.budgets if budget.ours}
        targets = []
        for key, group in sorted(self.found.groups.items()):
            if not group.gpus(self.wishes.resource) or not self.wishes.looks_at(group.namespace) or id(group) in listed:
                continue
            if group.kind == "DaemonSet":
                continue
            if (group.gang and group.kind != "LeaderWorkerSet") or group.kind == "Job":
                if group.replicas > 1:
                    told = "its pods only work together, or end by themselves: the eviction of one is as bad as of all"
                    self.say(
                        "GroupNotBudgeted", INFO, group, told, "list it with protect: true to keep all of them where they are"
                    )
                continue
            # What was scaled down for a while keeps its budget, which does no harm then.
            if group.replicas < self.wishes.min_replicas and (group.namespace, f"gpuops-{group.name}") not in own:
                told = f"wants {group.replicas}: while a pod is moved it serves with {max(0, group.replicas - 1)}"
                self.say("SingleReplica", INFO, group, told, "give it a second replica, or list it with protect: true")
                continue
            service = Service(
                f"discovered {group}",
                group.namespace,
                group.name,
                group.kind,
                max_unavailable=self.wishes.max_unavailable,
            )
            target = self.of_group(group, service)
            if target:
                targets.append((-len(self.selected(group.namespace, target.selector)), key, target))
        # Of two that select one pod, the one that selects more: so that all pods have a budget.
        for found in sorted(targets, key=lambda each: each[:2]):
            yield found[-1]

    def selected(self, namespace: str, raw: Mapping[str, Any]) -> list[Subject]:
        """What a selector selects in a namespace."""
        selector = label_selector(raw, "selector")
        return [each for each in self.subjects.get(namespace, ()) if selector is not None and selector.matches(each.labels)]

    def of_group(self, group: Group, service: Service) -> Target | None:
        selector = self.selector_of(group)
        if selector is None:
            told = "no label tells its pods from all others"
            self.say(
                "SelectorUnknown", ERROR if service in self.wishes.services else WARNING, group, told, "list it with a selector"
            )
            return None
        pods = tuple(group.pods)
        return Target(service, str(group), group.kind, selector, pods, self.kinds(pods), group.replicas, group.least)

    def selector_of(self, group: Group) -> Mapping[str, Any] | None:
        """The workload's own selector, or else the labels that its pods, and no others, have together."""
        if group.kind in _SET_LABELS:
            key = _SET_LABELS[group.kind]
            if all(pod.labels.get(key) == group.name for pod in group.pods):
                return {"matchLabels": {key: group.name}}
        if group.controller and group.controller.selector is not None:
            return _lasting(group.controller.selector)
        shared = dict.items(dict(group.pods[0].labels)) if group.pods else set()
        for pod in group.pods:
            shared = shared & set(pod.labels.items())
        labels = {key: value for key, value in sorted(shared) if key not in _PASSING}
        raw = {"matchLabels": labels}
        alone = labels and all(each.told == str(group) for each in self.selected(group.namespace, raw))
        return raw if alone else None

    def kinds(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Kinds of the pods' controllers, as the disruption controller would ask them."""
        behind = [self.found.workloads.of(pod) for pod in pods]
        return frozenset(each.owner.kind if each else "Pod" for each in behind)

    def groups(self, pods: Iterable[Pod]) -> list[Group]:
        found = {id(group): group for pod in pods if (group := self.found.group_of(pod))}
        return list(found.values())

    # Which budgets

    def free_of_foreign(self, target: Target, mine: list[Subject]) -> bool:
        """Whether nobody else's budget selects any of the pods; says so if one does."""
        namespace = target.service.namespace
        for budget in self.foreign.get(namespace, ()):
            covered = sum(budget.selects(namespace, each.labels) for each in mine)
            if covered:
                some = "its pods" if covered == len(mine) else f"{covered} of its {len(mine)} pods"
                told = f"{budget} has {some} already and is left as it is; a second one would forbid every eviction"
                fix = "" if covered == len(mine) else "let that one select all of them, or remove it"
                self.say("ForeignBudget", INFO if covered == len(mine) else WARNING, target.told, told, fix)
                return False
        return True

    def possible(self, target: Target) -> bool:
        """Whether the budget does what it is for; says so if it does not."""
        service = target.service
        least, most = self.wish(service)
        severity = ERROR if service in self.wishes.services or service.selector is not None else WARNING
        if most is not None or isinstance(least, str):
            uncounted = sorted(target.kinds & _UNCOUNTED)
            if uncounted and not service.allow_none:
                told = (
                    f"the disruption controller cannot ask {_and(uncounted)} for a number of replicas and would allow no eviction"
                )
                self.say(
                    "BudgetCannotCount", severity, target.told, told, "give min_available as a number, or protect: true instead"
                )
                return False
            unknown = sorted(target.kinds - SCALED - _UNCOUNTED)
            if unknown:
                told = f"whether {_and(unknown)} tells its number of replicas is not known; if not, no eviction is allowed"
                self.say(
                    "BudgetCannotCount",
                    WARNING,
                    target.told,
                    told,
                    "look at the budget's status, or give min_available as a number",
                )
        if service.allow_none or target.replicas == 0:
            return True
        expected, needed = demand(least, most, target.replicas, target.replicas)
        if needed >= expected:
            told = f"{_words(least, most)} of {expected} pods needs all of them: no pod may be evicted, no node drained"
            self.say(
                "BudgetForbidsAll",
                severity,
                target.told,
                told,
                "give max_unavailable: 1 or more replicas, or say allow_none: true",
            )
            return False
        if target.least is not None and 0 < target.least < target.replicas:
            expected, needed = demand(least, most, target.least, target.least)
            if needed >= expected:
                told = f"its autoscaler may leave {target.least} pods, and {_words(least, most)} then forbids every eviction"
                self.say("ScaledToOne", WARNING, target.told, told, "give max_unavailable, which moves with the replicas")
        return True

    def wish(self, service: Service) -> tuple[int | str | None, int | str | None]:
        if service.min_available is None and service.max_unavailable is None:
            return None, 1
        return service.min_available, service.max_unavailable

    def named(self, targets: list[Target]) -> list[dict[str, Any]]:
        """The manifests. A name is the workload's; where that is taken, with its kind, and else with a hash."""
        theirs = {(budget.namespace, budget.name) for budgets in self.foreign.values() for budget in budgets}
        taken = set(theirs)
        manifests = []
        for target in sorted(targets, key=lambda each: (each.service.namespace, each.service.name, each.kind)):
            namespace, told = target.service.namespace, _plain(target.service.name)
            hashed = _hash([target.kind, target.service.name, target.selector])
            plain = f"gpuops-{told}"
            candidates = [plain, f"{plain}-{target.kind.lower().replace(' ', '-')}" if target.kind else plain]
            candidates = [name for name in candidates if len(name) <= _LONGEST] + [
                f"{plain[: _LONGEST - 9].rstrip('-.')}-{hashed}"
            ]
            if (namespace, plain) in theirs:
                message = f"PodDisruptionBudget {namespace}/{plain} is there and not of ours"
                self.say("NameTaken", INFO, target.told, message, "")
            name = next(name for name in candidates if (namespace, name) not in taken)
            taken.add((namespace, name))
            manifests.append(self.manifest(target, namespace, name))
        return sorted(manifests, key=_place)

    def manifest(self, target: Target, namespace: str, name: str) -> dict[str, Any]:
        least, most = self.wish(target.service)
        amount = {"minAvailable": least} if least is not None else {"maxUnavailable": most}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": dict(OWN_LABELS),
                "annotations": {PROTECTS: target.told},
            },
            # With the API's own unhealthyPodEvictionPolicy pods that still load their model are not evicted again and again.
            "spec": {**amount, "selector": target.selector},
        }

    def look_at_what_is_there(self) -> None:
        """Pods of several budgets, and budgets of others that allow nothing."""
        several: Counter[tuple[str, str]] = Counter()
        for namespace, theirs in sorted(self.foreign.items()):
            if not self.wishes.looks_at(namespace):
                continue
            for each in self.subjects.get(namespace, ()) if len(theirs) > 1 else ():
                both = sorted(str(budget) for budget in theirs if budget.selects(namespace, each.labels))
                if len(both) > 1:
                    several[each.told, _and(both)] += 1
            for budget in theirs:
                most, least = budget.max_unavailable, budget.min_available
                if most in (0, "0", "0%") or least == "100%":
                    told = f"{_words(least, most)} allows no eviction, so that no node with its pods can be drained or freed"
                    self.say("BudgetForbidsAll", WARNING, budget, told, "let it allow one, if that is not meant")
        for (what, over), count in several.items():
            message = f"{count} of its pods are selected by {over}: the Eviction API refuses them, whatever these allow"
            self.say("SeveralBudgets", WARNING, what, message, "leave one of them")


def _place(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _words(least: int | str | None, most: int | str | None) -> str:
    return f"minAvailable {least}" if least is not None else f"maxUnavailable {most}"


def _lasting(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A selector without labels that change with every revision; None if nothing is left."""
    labels = {key: value for key, value in sorted((raw.get("matchLabels") or {}).items()) if key not in _PASSING}
    expressions = [dict(each) for each in raw.get("matchExpressions") or () if each.get("key") not in _PASSING]
    found = {key: value for key, value in (("matchLabels", labels), ("matchExpressions", expressions)) if value}
    return found or None


def _plain(name: str) -> str:
    """A name as one of Kubernetes'."""
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in name.lower()).strip("-.") or "pods"


def _hash(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:8]


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)
