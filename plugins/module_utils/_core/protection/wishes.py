# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a user wants protected, and which wishes make no sense whatever the cluster is like."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..kube.selectors import label_selector

_SHARE = re.compile(r"([0-9]{1,9})\s*(%?)")
_KEYS = ("namespace", "name", "kind", "selector", "min_available", "max_unavailable", "allow_none", "budget", "protect")


@dataclass(frozen=True, slots=True)
class Service:
    """A workload, or a group of pods, that a user lists.

    Attributes:
        field: Where it stands, for messages.
        name: The workload; with a selector only what the budget is named after.
        kind: The workload's kind; "" for whichever has the name.
        selector: The pods, as a ``metav1.LabelSelector``; None for those of the workload.
        min_available: A number, a percentage, or None.
        max_unavailable: Likewise. With neither, one pod at a time.
        allow_none: A budget that forbids every eviction is meant.
        budget: Whether it gets a budget.
        protect: Whether its pods are never to be moved at all.
    """

    field: str
    namespace: str
    name: str
    kind: str = ""
    selector: Mapping[str, Any] | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    allow_none: bool = False
    budget: bool = True
    protect: bool = False

    def __str__(self) -> str:
        return f"{self.kind or 'service'} {self.namespace}/{self.name}" if self.name else f"pods of {self.namespace}"


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that a user wants.

    Attributes:
        services: What is listed.
        discover: Also every GPU workload that is found.
        resource: What makes a pod a GPU pod.
        min_replicas: Of a workload that is found, so that it gets a budget.
        max_unavailable: Of the budgets of workloads that are found.
        namespaces: Where anything but what is listed is looked at, and what is not wanted any more removed; empty for all.
        excluded: Namespaces where nothing is found and nothing migrated.
        migrate: Annotations that are misread are put right.
        rollout: Templates may be changed although their pods are replaced then.
    """

    services: tuple[Service, ...] = ()
    discover: bool = False
    resource: str = "nvidia.com/gpu"
    min_replicas: int = 2
    max_unavailable: int | str = 1
    namespaces: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    migrate: bool = False
    rollout: bool = False

    def covers(self, namespace: str) -> bool:
        """Whether what was made in a namespace before is to be kept in order."""
        return not self.namespaces or namespace in self.namespaces

    def looks_at(self, namespace: str) -> bool:
        """Whether a namespace is looked at for what is not listed."""
        return self.covers(namespace) and namespace not in self.excluded


def services(raw: Sequence[Any]) -> tuple[Service, ...]:
    """The services that a user lists.

    Raises:
        InputError: One makes no sense; it names the entry and the key.
    """
    found = tuple(_service(entry, f"services[{index}]") for index, entry in enumerate(raw))
    first: dict[tuple[Any, ...], str] = {}
    for service in found:
        key = (service.namespace, service.kind, service.name, repr(service.selector))
        if key in first:
            raise InputError(f"is listed at {first[key]} already", field=service.field)
        first[key] = service.field
    return found


def _service(raw: Any, field: str) -> Service:
    if not isinstance(raw, Mapping):
        raise InputError(f"is {type(raw).__name__}, not a mapping such as {{namespace: serving, name: llm}}", field=field)
    given = {key: value for key, value in raw.items() if value is not None}
    if unknown := sorted(set(given) - set(_KEYS)):
        raise InputError(f"is no key of a service; there are {', '.join(_KEYS)}", field=f"{field}.{unknown[0]}")
    for key in ("namespace", "name", "kind"):
        if not isinstance(given.get(key, ""), str):
            raise InputError("is not text", field=f"{field}.{key}")
    if not given.get("namespace"):
        raise InputError("is missing", field=f"{field}.namespace")
    if not given.get("name") and not given.get("selector"):
        raise InputError("names neither a workload (name) nor pods (selector)", field=field)
    if given.get("kind") and given.get("selector"):
        raise InputError("kind goes with the name of a workload; a selector chooses pods of any", field=f"{field}.kind")
    if "min_available" in given and "max_unavailable" in given:
        raise InputError("has both min_available and max_unavailable; a PodDisruptionBudget takes one", field=field)
    least, most = (share(given[key], f"{field}.{key}") if key in given else None for key in ("min_available", "max_unavailable"))
    service = Service(
        field=field,
        namespace=given["namespace"],
        name=given.get("name", ""),
        kind=given.get("kind", ""),
        selector=selector(given["selector"], f"{field}.selector") if "selector" in given else None,
        min_available=least,
        max_unavailable=most,
        allow_none=bool(given.get("allow_none", False)),
        budget=bool(given.get("budget", True)),
        protect=bool(given.get("protect", False)),
    )
    _refuse_none(least, most, service.allow_none, field)
    return service


def _refuse_none(least: int | str | None, most: int | str | None, allowed: bool, field: str) -> None:
    """Refuse a budget that allows no eviction, however many pods there are, unless that is meant.

    Raises:
        InputError: It is such a budget, and not meant.
    """
    for key, value in (("min_available", least), ("max_unavailable", most)):
        none = _percent(value) >= 100 if key == "min_available" else value is not None and _percent(value) == 0
        if none and value is not None and not allowed:
            told = f"{value} forbids every eviction, so that no node can be drained; if that is meant, say allow_none: true"
            raise InputError(told, field=f"{field}.{key}")


def _percent(value: int | str | None) -> int:
    """The percentage; 0 for no number, and -1 for one that says nothing without the number of pods."""
    if isinstance(value, str):
        return int(value.removesuffix("%"))
    return -1 if value else 0


def share(value: Any, field: str) -> int | str:
    """A number of pods, or a percentage of them up to 100, as the API writes it: 2, "2", "50%" and "50 %" will do.

    Raises:
        InputError: It is neither.
    """
    match = _SHARE.fullmatch(str(value).strip()) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None or (match[2] and int(match[1]) > 100):
        raise InputError(f"{reprlib.repr(value)} is neither a number of pods nor a percentage such as 50%", field=field)
    return f"{int(match[1])}%" if match[2] else int(match[1])


def selector(raw: Any, field: str) -> Mapping[str, Any]:
    """A label selector: labels alone, or ``matchLabels`` and ``matchExpressions``.

    Raises:
        InputError: It is neither, or selects everything.
    """
    if not isinstance(raw, Mapping):
        raise InputError("is not a mapping of labels", field=field)
    whole = raw.keys() <= {"matchLabels", "matchExpressions"} and not any(isinstance(value, str) for value in raw.values())
    found = dict(raw) if whole else {"matchLabels": dict(raw)}
    labels, expressions = found.get("matchLabels") or {}, found.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise InputError("is no label selector", field=field)
    if not labels and not expressions:
        raise InputError("selects every pod of the namespace; name some labels", field=field)
    for key, value in labels.items():
        if not isinstance(value, str):
            raise InputError(f"is {type(value).__name__}, a label is text: quote it", field=f"{field}[{key}]")
    if not all(isinstance(each, Mapping) for each in expressions):
        raise InputError("matchExpressions holds something that is no mapping", field=field)
    label_selector(found, field)
    return {key: value for key, value in (("matchLabels", labels), ("matchExpressions", expressions)) if value}
