# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Annotations that keep a pod where it is, and those that only seem to.

The descheduler reads ``evict`` by its presence: "false" makes a pod evictable past every other protection. What protects
from it is ``prefer-no-eviction`` (with ``noEvictionPolicy: Mandatory``, 0.34 and newer) where there is no ``evict``;
``gpuops.io/protect`` protects from plans.

An annotation of a pod is gone with the pod. The next one has what the template has, and a change of a template lets the
workload replace all its pods: an interruption of its own, which needs leave (``rollout``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..kube.model import Pod
from ..kube.selectors import label_selector
from ..plan.protection import DO_NOT_DISRUPT, EVICT, OURS, PREFER_NO_EVICTION, SAFE_TO_EVICT
from ..severity import INFO, WARNING, Severity
from .findings import Finding
from .read import Controller, Found, Group
from .wishes import Service, Wishes

MARK = "gpuops.io/protected-by-role"
"""Which annotations were put there by us: only these are taken away again."""

PROTECTING = (OURS, PREFER_NO_EVICTION)
_KEYS = (EVICT, PREFER_NO_EVICTION, OURS)
_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1"}

Changes = Mapping[str, "str | None"]


@dataclass(frozen=True, slots=True)
class Annotated:
    """The patches that are wanted, and what was found."""

    patches: list[dict[str, Any]]
    findings: list[Finding]


def annotated(found: Found, wishes: Wishes, targets: Sequence[tuple[Service, list[Group]]]) -> Annotated:
    """What is to be annotated, and every annotation that is misread.

    Args:
        found: The cluster.
        wishes: What is wanted.
        targets: The services that are listed, and the groups that each is.
    """
    return _Annotator(found, wishes, targets).run()


class _Annotator:
    def __init__(self, found: Found, wishes: Wishes, targets: Sequence[tuple[Service, list[Group]]]) -> None:
        self.found = found
        self.wishes = wishes
        self.findings: list[Finding] = []
        self.patches: list[dict[str, Any]] = []
        self.protected: set[tuple[str, str, str]] = set()
        self.changed: set[tuple[str, str, str]] = set()
        self.chosen: set[int] = set()
        for service, groups in targets:
            if service.protect:
                # A selector may choose some pods of a workload: the others are not meant.
                whole = service.selector is None
                for group in groups:
                    if whole:
                        self.protected.add((group.kind, group.namespace, group.name))
                self.chosen |= {id(pod) for pod in self._pods(service, groups)}

    @staticmethod
    def _pods(service: Service, groups: Iterable[Group]) -> Iterator[Pod]:
        selector = label_selector(service.selector, "selector")
        for group in groups:
            for pod in group.pods:
                if selector is None or selector.matches(pod.labels):
                    yield pod

    def say(self, rule: str, severity: Severity, what: object, message: str, fix: str = "") -> None:
        self.findings.append(Finding(rule, severity, str(what), message, fix))

    def run(self) -> Annotated:
        replaced: set[tuple[str, str, str]] = set()
        for key, controller in sorted(self.found.controllers.items()):
            # The one above has the template that counts.
            if controller.above and key not in self.found.groups:
                continue
            if self.wishes.looks_at(controller.namespace):
                self.misplaced(controller)
                self.misread(f"the template of {controller}", controller.annotations, 1, "template")
            if self.template(controller):
                replaced.add(key)
        seen: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        lost: Counter[str] = Counter()
        for pod in sorted(self.found.pods(), key=lambda each: (each.namespace, each.name)):
            group = self.found.group_of(pod)
            if self.wishes.looks_at(pod.namespace):
                keys = (*_KEYS, SAFE_TO_EVICT, DO_NOT_DISRUPT)
                seen[
                    str(group or f"Pod {pod}"), tuple((key, pod.annotations[key]) for key in keys if key in pod.annotations)
                ] += 1
                for label in (EVICT, PREFER_NO_EVICTION):
                    if label in pod.labels:
                        told = f"{label} is a label of its pods; only the annotation is read"
                        self.say("NotOnPods", WARNING, group or f"Pod {pod}", told, "make it an annotation of the template")
            wanted = self.wanted(pod.namespace, pod.annotations, id(pod) in self.chosen)
            if wanted and not (group and (group.kind, group.namespace, group.name) in replaced):
                self.patch("Pod", "v1", pod.namespace, pod.name, wanted, ())
            if group and (wanted.get(OURS) or id(pod) in self.chosen) and self.lacks(group):
                lost[str(group)] += 1
        for (what, pairs), count in sorted(seen.items()):
            self.misread(what, dict(pairs), count, "pods")
        for what, count in sorted(lost.items()):
            message = (
                f"{count} of its pods are protected by annotations of their own, which the pods that replace them do not have"
            )
            self.say(
                "LostOnRecreation",
                WARNING,
                what,
                message,
                "run this again after a rollout, or put them on the template: rollout: true (its pods are replaced once)",
            )
        return Annotated(sorted(self.patches, key=_order), self.findings)

    # Templates

    def template(self, controller: Controller) -> bool:
        """Patch a template if that is wanted and may be; whether its pods are replaced by that."""
        key = (controller.kind, controller.namespace, controller.name)
        group = self.found.groups.get(key)
        chosen = key in self.protected
        wanted = self.wanted(controller.namespace, controller.annotations, chosen)
        if not wanted:
            return False
        if controller.kept:
            told = f"{controller.kept} keeps it, and would undo a change of its template"
            self.say("KeptInGit", WARNING, controller, told, f"there, {_advice(wanted)} under spec.template.metadata.annotations")
            return False
        if controller.rolls and not self.wishes.rollout:
            if any(value is None for value in wanted.values()):
                told = (
                    f"its template still has {', '.join(key for key, value in wanted.items() if value is None and key != MARK)}"
                )
                fix = "rollout: true changes it; its pods are replaced once then"
                self.say("TemplateUnchanged", WARNING, controller, told, fix)
            return False
        api = _API.get(controller.kind, "v1")
        self.patch(controller.kind, api, controller.namespace, controller.name, wanted, ("spec", "template"))
        self.changed.add(key)
        return controller.rolls and not controller.paused and group is not None

    def lacks(self, group: Group) -> bool:
        """Whether pods that come will not be protected."""
        controller = group.controller
        if controller is None:
            return True
        wanted = self.wanted(controller.namespace, controller.annotations, True)
        patched = (group.kind, group.namespace, group.name) in self.changed
        return bool(wanted) and not patched

    # What is wanted

    def wanted(self, namespace: str, now: Mapping[str, str], chosen: bool) -> dict[str, str | None]:
        """How annotations are to change: a value, or None for one that goes; empty if they are right."""
        then = dict(now)
        if chosen:
            then.pop(EVICT, None)  # It would count for more than all that protects.
        put = set(now.get(MARK, "").split(",")) & set(PROTECTING)
        misread = self.wishes.migrate and self.wishes.looks_at(namespace) and now.get(EVICT, "true") != "true"
        if misread:
            # It was meant to protect, and from now on it is the user's own wish: not ours to take away.
            then.pop(EVICT, None)
            for key in PROTECTING:
                then.setdefault(key, "true")
            then.pop(MARK, None)
        elif chosen:
            for key in PROTECTING:
                if key not in then or (key == OURS and then[key] == "false"):
                    then[key] = "true"
                    put.add(key)
            if put:
                then[MARK] = ",".join(key for key in PROTECTING if key in put)
        elif MARK in now and self.wishes.covers(namespace):
            for key in (*put, MARK):
                then.pop(key, None)
        return {key: then.get(key) for key in sorted({*now, *then}) if now.get(key) != then.get(key)}

    def patch(self, kind: str, api: str, namespace: str, name: str, changes: Changes, within: tuple[str, ...]) -> None:
        body: dict[str, Any] = {"metadata": {"annotations": dict(changes)}}
        for part in reversed(within):
            body = {part: body}
        meta = {"namespace": namespace, "name": name, **body.pop("metadata", {})}
        self.patches.append(
            {
                "api_version": api,
                "kind": kind,
                "namespace": namespace,
                "name": name,
                "annotations": dict(changes),
                "rollout": bool(within) and kind not in ("ReplicaSet", "ReplicationController"),
                "patch": {"apiVersion": api, "kind": kind, "metadata": meta, **body},
            }
        )

    # What is misread

    def misread(self, what: str, now: Mapping[str, str], count: int, where: str) -> None:
        value = now.get(EVICT)
        several = f"{count} pods have" if where == "pods" and count > 1 else "it has" if where == "template" else "one pod has"
        fix = "migrate: true" + (" and rollout: true" if where == "template" else "")
        if value is not None and value != "true":
            told = (
                f'{several} {EVICT}: "{value}": the descheduler reads the key alone, and evicts them past every other protection'
            )
            self.say("EvictMisread", WARNING, what, told, f'{fix} replaces it by {PREFER_NO_EVICTION}: "true" and {OURS}: "true"')
        elif value == "true" and PREFER_NO_EVICTION in now:
            told = f"{several} both {EVICT} and {PREFER_NO_EVICTION}: evict counts, nothing protects them from the descheduler"
            self.say("EvictWins", WARNING, what, told, "take away the one that is not meant")
        elif value == "true":
            told = (
                f"{several} {EVICT}: the descheduler may evict them past priority, replicas, storage and every other protection"
            )
            self.say("EvictsPastProtection", INFO, what, told)
        if now.get(PREFER_NO_EVICTION) == "false":
            told = f'{several} {PREFER_NO_EVICTION}: "false": the descheduler reads the key alone, so that it protects them'
            self.say("PreferNoEvictionFalse", WARNING, what, told, "take it away if they may be evicted")
        for key, off in ((SAFE_TO_EVICT, "false"), (DO_NOT_DISRUPT, "true")):
            if now.get(key) == off and PREFER_NO_EVICTION not in now and where == "pods":
                told = f'{several} {key}: "{off}": plans heed it, the descheduler does not read it'
                self.say(
                    "NotReadByDescheduler", INFO, what, told, f'add {PREFER_NO_EVICTION}: "true" if it is to stay in every case'
                )

    def misplaced(self, controller: Controller) -> None:
        """Annotations of a workload itself, which nobody reads, and labels in their place."""
        for key in _KEYS:
            if key in controller.own and key not in controller.annotations:
                told = f"{key} is an annotation of the {controller.kind} itself, where nobody reads it"
                self.say(
                    "NotOnPods", WARNING, controller, told, "put it under spec.template.metadata.annotations, or protect: true"
                )
            if key in controller.own_labels:
                self.say(
                    "NotOnPods",
                    WARNING,
                    controller,
                    f"{key} is a label, where nobody reads it",
                    "make it an annotation of the template",
                )


def _advice(wanted: Changes) -> str:
    put = [f'put {key}: "{value}"' for key, value in wanted.items() if value is not None and key != MARK]
    gone = [f"take {key} away" for key, value in wanted.items() if value is None and key != MARK]
    return " and ".join((*put, *gone))


def _order(patch: Mapping[str, Any]) -> tuple[Any, ...]:
    return (patch["kind"] == "Pod", patch["kind"], patch["namespace"], patch["name"])
