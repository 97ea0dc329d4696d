# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kube-scheduler's filters ask, said once more over plain API objects: slow, short, and nothing of the core in it.

The rules are those of ``pkg/scheduler/framework/plugins`` (v1.36): tainttoleration, nodeaffinity, nodeports,
interpodaffinity and podtopologyspread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpuops.defrag.tests.unit.builders import REQUIRED, Object

Labels = Mapping[str, str]


def name_of(raw: Object) -> str:
    name: str = raw["metadata"]["name"]
    return name


def labels_of(raw: Object) -> Labels:
    labels: Labels = raw["metadata"].get("labels", {})
    return labels


def holds(expression: Object, labels: Labels) -> bool:
    """One matchExpressions entry."""
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in values
        case "NotIn":
            return value not in values
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if expression["operator"] == "Gt" else int(value) < int(values[0])


def selects(selector: Object | None, labels: Labels) -> bool:
    """A metav1.LabelSelector; none selects nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(holds(one, labels) for one in selector.get("matchExpressions", []))


@dataclass
class World:
    """The pod to place and all that is there; pods are those that are bound and not finished."""

    me: Object
    nodes: Sequence[Object]
    pods: Sequence[Object]
    namespaces: Mapping[str, Labels]

    def refusals(self, node: Object) -> set[str]:
        """The filters that keep the pod off the node."""
        checks = {
            "Taint": self.is_tolerated(node),
            "Selection": self.is_selected(node),
            "HostPort": not self.port_is_taken(node),
            "TopologySpread": self.keeps_the_skew(node),
            "PodAffinity": self.is_near(node),
            "PodAntiAffinity": not self.is_too_near(node),
        }
        return {name for name, passed in checks.items() if not passed}

    def is_tolerated(self, node: Object) -> bool:
        def tolerated(taint: Object) -> bool:
            return any(
                toleration.get("effect", taint["effect"]) == taint["effect"]
                and toleration.get("key", taint["key"]) == taint["key"]
                and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
                for toleration in self.me["spec"].get("tolerations", [])
            )

        return all(tolerated(taint) or taint["effect"] == "PreferNoSchedule" for taint in node["spec"].get("taints", []))

    def is_selected(self, node: Object) -> bool:
        spec = self.me["spec"]
        if not spec.get("nodeSelector", {}).items() <= labels_of(node).items():
            return False
        required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
        return required is None or any(
            (term.get("matchExpressions") or term.get("matchFields"))
            and all(holds(one, labels_of(node)) for one in term.get("matchExpressions", []))
            and all(holds(one, {"metadata.name": name_of(node)}) for one in term.get("matchFields", []))
            for term in required["nodeSelectorTerms"]
        )

    def port_is_taken(self, node: Object) -> bool:
        def ports(pod: Object) -> list[tuple[int, str, str]]:
            opened = (port for container in pod["spec"]["containers"] for port in container.get("ports", []))
            return [(one["hostPort"], one.get("protocol", "TCP"), one.get("hostIP", "0.0.0.0")) for one in opened]

        return any(
            mine[:2] == theirs[:2] and (mine[2] == theirs[2] or "0.0.0.0" in (mine[2], theirs[2]))
            for pod in self.on(node)
            for theirs in ports(pod)
            for mine in ports(self.me)
        )

    def on(self, node: Object) -> Iterable[Object]:
        return (pod for pod in self.pods if pod["spec"]["nodeName"] == name_of(node))

    def speaks_of(self, term: Object, owner: Object, pod: Object) -> bool:
        """Whether an affinity term of one pod is about another."""
        namespace = pod["metadata"]["namespace"]
        named = term.get("namespaces", [])
        if not named and "namespaceSelector" not in term:
            named = [owner["metadata"]["namespace"]]
        chosen = selects(term.get("namespaceSelector"), self.namespaces[namespace])
        return (namespace in named or chosen) and selects(term.get("labelSelector"), labels_of(pod))

    def in_domain(self, term: Object, node: Object) -> list[Object]:
        """The pods on nodes with the same value of the term's key; none where the node has no such key."""
        key = term["topologyKey"]
        alike = [other for other in self.nodes if key in labels_of(node) and labels_of(other).get(key) == labels_of(node)[key]]
        return [pod for other in alike for pod in self.on(other)]

    def terms(self, pod: Object, kind: str) -> list[Object]:
        terms: list[Object] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
        return terms

    def is_near(self, node: Object) -> bool:
        terms = self.terms(self.me, "podAffinity")

        def wanted(pod: Object) -> bool:
            return all(self.speaks_of(term, self.me, pod) for term in terms)

        if any(term["topologyKey"] not in labels_of(node) for term in terms):
            return False
        if all(any(wanted(pod) for pod in self.in_domain(term, node)) for term in terms):
            return True
        # The first of its kind: no pod that it wants is in any domain of any of its terms.
        wants_anyone = any(wanted(pod) for term in terms for other in self.nodes for pod in self.in_domain(term, other))
        return wanted(self.me) and not wants_anyone

    def is_too_near(self, node: Object) -> bool:
        mine = self.terms(self.me, "podAntiAffinity")
        if any(self.speaks_of(term, self.me, pod) for term in mine for pod in self.in_domain(term, node)):
            return True
        return any(
            self.speaks_of(term, pod, self.me)
            for pod in self.pods
            for term in self.terms(pod, "podAntiAffinity")
            if pod in self.in_domain(term, node)
        )

    def keeps_the_skew(self, node: Object) -> bool:
        constraints = [
            one for one in self.me["spec"].get("topologySpreadConstraints", []) if one["whenUnsatisfiable"] == "DoNotSchedule"
        ]
        keys = {one["topologyKey"] for one in constraints}
        return all(self.keeps_one_skew(one, keys, node) for one in constraints)

    def keeps_one_skew(self, constraint: Object, keys: set[str], node: Object) -> bool:
        key = constraint["topologyKey"]
        if key not in labels_of(node):
            return False
        selector = constraint.get("labelSelector")
        own = {one: labels_of(self.me)[one] for one in constraint.get("matchLabelKeys", []) if one in labels_of(self.me)}
        counts_anyone = bool((selector and (selector.get("matchLabels") or selector.get("matchExpressions"))) or own)

        def counted(pod: Object) -> bool:
            return selects(selector, labels_of(pod)) and own.items() <= labels_of(pod).items()

        counts: dict[str, int] = {}
        for other in self.nodes:
            if not keys <= labels_of(other).keys():
                continue
            if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not self.is_selected(other):
                continue
            if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and not self.is_tolerated(other):
                continue
            here = [
                pod
                for pod in self.on(other)
                if counts_anyone
                and counted(pod)
                and pod["metadata"]["namespace"] == self.me["metadata"]["namespace"]
                and "deletionTimestamp" not in pod["metadata"]
            ]
            domain = labels_of(other)[key]
            counts[domain] = counts.get(domain, 0) + len(here)
        least = min(counts.values()) if counts and len(counts) >= constraint.get("minDomains", 1) else 0
        after = counts.get(labels_of(node)[key], 0) + (1 if counted(self.me) else 0)
        skew: int = constraint["maxSkew"]
        return after - least <= skew
