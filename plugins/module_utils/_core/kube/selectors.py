# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Label selectors and node selector terms, matched as Kubernetes matches them."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .shapes import expected

Labels = Mapping[str, str]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
# Go reads labels as int64; what is longer is no number to it.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label.

    Attributes:
        key: The label's key.
        operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
        values: What In and NotIn compare with; the one bound of Gt and Lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet the condition. NotIn and DoesNotExist hold where the label is absent."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "Gt" else int(value) < int(self.values[0])


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements hold. The empty selector matches everything; an absent one is ``None``, matching nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether every requirement holds for the labels."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def also(self, labels: Iterable[tuple[str, str]]) -> LabelSelector:
        """The selector that asks for these labels too (``matchLabelKeys``)."""
        return LabelSelector(self.requirements + tuple(Requirement(k, "In", (v,)) for k, v in labels))


EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One of the ORed terms of a required node affinity; an empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Labels) -> bool:
        """Whether a node of that name and those labels is selected."""
        if not self.expressions and not self.fields:
            return False
        return all(r.matches(labels) for r in self.expressions) and all(r.matches({"metadata.name": name}) for r in self.fields)


def requirement(raw: Mapping[str, Any], field: str) -> Requirement:
    """One entry of ``matchExpressions`` or ``matchFields``.

    Raises:
        InputError: The operator is unknown, or its values do not go with it.
    """
    key: Any = raw.get("key")
    given = raw.get("values") or ()
    if not isinstance(given, (list, tuple)):
        raise expected(list, given, f"{field}.values")
    operator, values = raw.get("operator"), tuple(given)
    for name, text in (("key", key), ("operator", operator), *((f"values[{i}]", value) for i, value in enumerate(values))):
        if not isinstance(text, str):
            raise expected(str, text, f"{field}.{name}")
    if operator not in _OPERATORS:
        raise InputError(f"{reprlib.repr(operator)} is not a selector operator", field=f"{field}.operator")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _INTEGER.fullmatch(values[0])):
        raise InputError(f"{operator} takes one whole number, not {reprlib.repr(list(values))}", field=field)
    if operator in ("In", "NotIn") and not values:
        raise InputError(f"{operator} takes at least one value", field=field)
    return Requirement(key, operator, values)


def label_selector(raw: Mapping[str, Any] | None, field: str) -> LabelSelector | None:
    """A ``metav1.LabelSelector``; None where there is none.

    Raises:
        InputError: A requirement is malformed.
    """
    if raw is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in sorted((raw.get("matchLabels") or {}).items())]
    expressions = [requirement(e, f"{field}.matchExpressions[{i}]") for i, e in enumerate(raw.get("matchExpressions") or ())]
    return LabelSelector((*labels, *expressions))


def node_selector_terms(raw: Iterable[Mapping[str, Any]], field: str) -> tuple[NodeSelectorTerm, ...]:
    """The terms of a ``v1.NodeSelector``, as node affinities and persistent volumes have them.

    Raises:
        InputError: A requirement is malformed.
    """
    return tuple(
        NodeSelectorTerm(
            tuple(
                requirement(e, f"{field}[{i}].matchExpressions[{j}]") for j, e in enumerate(term.get("matchExpressions") or ())
            ),
            tuple(requirement(e, f"{field}[{i}].matchFields[{j}]") for j, e in enumerate(term.get("matchFields") or ())),
        )
        for i, term in enumerate(raw)
    )


_TERM = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s=!,()]+)
      | (?P<set_key>[^\s=!,()]+)\s+(?P<set_op>in|notin)\s*\((?P<set>[^()]*)\)
      | (?P<key>[^\s=!,()<>]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s=!,()<>]*)
      | (?P<present>[^\s=!,()]+)
    )\s*(?:(?P<more>,)|$)""",
    re.VERBOSE,
)


def parse_selector(text: str) -> LabelSelector:
    """A selector as ``kubectl -l`` takes it: ``a=b,c!=d,e in (x,y),!f,g>1``.

    Raises:
        InputError: It cannot be read; the message quotes the part.
    """
    requirements: list[Requirement] = []
    position = 0
    more = bool(text.strip())
    while more:
        match = _TERM.match(text, position)
        if not match:
            raise InputError(f"cannot read {reprlib.repr(text[position:])}; write it as for kubectl -l", field="node_selector")
        part = match.groupdict()
        if part["absent"]:
            requirements.append(Requirement(part["absent"], "DoesNotExist"))
        elif part["set_key"]:
            values = tuple(value.strip() for value in part["set"].split(","))
            requirements.append(Requirement(part["set_key"], "In" if part["set_op"] == "in" else "NotIn", values))
        elif part["key"]:
            operator = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}[part["op"]]
            if operator in ("Gt", "Lt") and not _INTEGER.fullmatch(part["value"]):
                raise InputError(f"{part['value']!r} is not a whole number", field="node_selector")
            requirements.append(Requirement(part["key"], operator, (part["value"],)))
        else:
            requirements.append(Requirement(part["present"], "Exists"))
        position = match.end()
        more = part["more"] is not None
    return LabelSelector(tuple(requirements))
