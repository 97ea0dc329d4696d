# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Does a policy have the shape that a version of the descheduler reads.

The descheduler is strict about the args of plugins alone. Above them it passes over what it does not know, so that a limit
that is misspelt is no limit.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from ..errors import InputError
from ..kube.selectors import requirement
from ..plan.protection import duration
from ..severity import ERROR, WARNING
from .findings import ENDS, REFUSES, SKIPS, Finding, at
from .settings import LONGEST, check_selector, nearest
from .versions import EVICTOR, PLUGINS, POLICY, UNREAD_POINTS, V35, Field, Version, told

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+)")
_BITS = {"int32": 31, "int64": 63, "int": 63}
_WANTED = {
    "bool": "true or false",
    "uint": "a whole number from 0 on",
    "int": "a whole number",
    "int32": "a whole number",
    "int64": "a whole number",
    "string": "text",
    "labels": "text as for kubectl -l",
    "duration": "a duration as text, such as '5m'",
    "strings": "a list of text",
    "int32s": "a list of whole numbers",
    "objects": "a list",
    "object": "a mapping",
    "selector": "a mapping with matchLabels or matchExpressions",
    "args": "a mapping",
    "percentages": "a mapping of resources to percentages",
}
_SELECTOR = {"matchLabels": Field("strings"), "matchExpressions": Field("objects")}
_EXPRESSION = {"key": Field("string"), "operator": Field("string"), "values": Field("strings")}
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def shape(policy: Mapping[str, Any], version: Version) -> Iterator[Finding]:
    """What that version of the descheduler does not read, or refuses, for its shape alone."""
    # Strategies are told of by themselves.
    return _Shape(version).mapping({k: v for k, v in policy.items() if k != "strategies"}, POLICY, "", strict=False)


class _Shape:
    def __init__(self, version: Version) -> None:
        self.version = version
        self.plugin = ""

    def mapping(self, raw: Mapping[str, Any], fields: Mapping[str, Field], path: str, *, strict: bool) -> Iterator[Finding]:
        """The keys of a mapping, and what is in them.

        Args:
            raw: The mapping.
            fields: What it may hold.
            path: Where it is.
            strict: It is within a plugin's args.
        """
        for key, value in raw.items():
            where, field = at(path, str(key)), fields.get(key)
            if field is None:
                yield self.unknown(str(key), where, tuple(fields), strict)
            elif not field.known(self.version):
                yield self.unsuited(str(key), field, where, strict)
            elif key in UNREAD_POINTS or (key == "disabled" and not strict):
                if value:
                    message = f"no version of the descheduler reads {key}; what stands in it has no effect"
                    yield Finding("UnreadField", WARNING, where, message, "leave it out")
            else:
                yield from self.value(value, field, where, raw, strict=strict)

    def unknown(self, key: str, where: str, known: tuple[str, ...], strict: bool) -> Finding:
        fix = nearest(key, known).removeprefix(" (did you mean ").removesuffix("?)")
        effect = REFUSES if strict else "passes over it without a word, as if it were not there"
        advice = f"write {fix}" if fix else f"leave it out; there are {', '.join(known)}"
        return Finding("UnknownField", ERROR, where, f"the descheduler knows no {key} here, and {effect}", advice)

    def unsuited(self, key: str, field: Field, where: str, strict: bool) -> Finding:
        effect = REFUSES if strict else "passes over it without a word"
        if self.version < field.since:
            message = f"{key} is known since {told(field.since)}; descheduler {told(self.version)} {effect}"
            return Finding("FieldTooNew", ERROR, where, message, f"leave it out, or take descheduler {told(field.since)}")
        message = f"{key} is known before {told(field.before or self.version)} alone; descheduler {told(self.version)} {effect}"
        return Finding("FieldGone", ERROR, where, message, "leave it out")

    def value(self, value: Any, field: Field, where: str, beside: Mapping[str, Any], *, strict: bool) -> Iterator[Finding]:
        """One value, and what is in it; null is as if it were not there."""
        if value is None:
            return
        if not _fits(value, field.type):
            message = f"{reprlib.repr(value)} is not {_WANTED[field.type]}; the descheduler {REFUSES}"
            yield Finding("WrongType", ERROR, where, message, f"write {_WANTED[field.type]}")
            return
        match field.type:
            case "object":
                yield from self.mapping(value, field.fields, where, strict=strict)
            case "objects":
                for index, each in enumerate(value):
                    entry = Field("object", fields=field.fields)
                    yield from self.value(each, entry, at(where, index), {}, strict=strict)
            case "args":
                plugin = PLUGINS.get(str(beside.get("name")))
                if plugin:
                    self.plugin = str(beside.get("name"))
                    yield from self.mapping(value, plugin.args, where, strict=True)
            case "selector":
                yield from self.selector(value, where)
            case "labels" if value:
                try:
                    check_selector(value, "")
                except InputError as error:
                    yield self.bad_selector(where, error, nodes=True, strict=strict)
            case "string" | "strings" if field.choices:
                for text in [value] if field.type == "string" else value:
                    if text not in field.choices and (text or field.type == "strings"):
                        yield invalid(where, text, field.choices, REFUSES if strict else "takes it and does nothing with it")

    def selector(self, raw: Mapping[str, Any], where: str) -> Iterator[Finding]:
        """A ``metav1.LabelSelector``."""
        for key in raw:
            if key not in _SELECTOR:
                yield self.unknown(str(key), at(where, str(key)), tuple(_SELECTOR), strict=True)
        labels, expressions = raw.get("matchLabels"), raw.get("matchExpressions")
        if labels is not None and not _texts(labels):
            message = f"matchLabels is not a mapping of text to text; the descheduler {REFUSES}"
            yield Finding("WrongType", ERROR, at(where, "matchLabels"), message, "put values such as true and 8 in quotes")
        if expressions is None:
            return
        listed = at(where, "matchExpressions")
        if not _fits(expressions, "objects") or not all(isinstance(each, Mapping) for each in expressions):
            yield Finding(
                "WrongType",
                ERROR,
                listed,
                f"matchExpressions is not a list of mappings; the descheduler {REFUSES}",
                "write a list of mappings",
            )
            return
        for index, each in enumerate(expressions):
            yield from self.mapping(each, _EXPRESSION, at(listed, index), strict=True)
            try:
                found = requirement(each, "")
                if found.operator not in _OPERATORS:
                    raise InputError(f"{found.operator} is not one of {', '.join(_OPERATORS)}")
                if found.operator in ("Exists", "DoesNotExist") and found.values:
                    raise InputError(f"{found.operator} takes no values")
            except InputError as error:
                yield self.bad_selector(at(listed, index), error, nodes=False, strict=True)

    def bad_selector(self, where: str, error: InputError, *, nodes: bool, strict: bool) -> Finding:
        """A selector of nodes or pods that cannot be read, and what comes of it."""
        effect = REFUSES
        if nodes and strict:
            effect = "finds no node that a pod fits on, and with nodeFit evicts nothing"
        elif nodes:
            effect = ENDS if self.version >= V35 else "logs it, evicts nothing and ends with success"
        elif self.plugin == EVICTOR:
            effect = ENDS if self.version >= V35 else SKIPS
        message = f"the selector cannot be read ({error.message}); the descheduler {effect}"
        return Finding("InvalidSelector", ERROR, where, message, "write a selector that Kubernetes can read")


def invalid(where: str, value: Any, choices: tuple[str, ...], effect: str = REFUSES) -> Finding:
    """A value that is none of those that there are."""
    message = f"{reprlib.repr(value)} is none of {', '.join(choices)}; the descheduler {effect}"
    close = nearest(str(value), choices).removeprefix(" (did you mean ").removesuffix("?)")
    return Finding("InvalidValue", ERROR, where, message, f"write {close or 'one of these'}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number that JSON has; Python takes true for one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any) -> TypeGuard[int]:
    # YAML's 1.0 would do, JSON's would not, and a policy may be written as either.
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "uint":
            return _whole(value) and 0 <= value < 2**64
        case "int" | "int32" | "int64":
            return _whole(value) and -(2 ** _BITS[kind]) <= value < 2 ** _BITS[kind]
        case "string" | "labels":
            return isinstance(value, str)
        case "duration":
            fits = isinstance(value, str) and _DURATION.fullmatch(value) is not None
            return fits and (duration(value.lstrip("+-")) or 0) <= LONGEST
        case "strings":
            return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
        case "int32s":
            return isinstance(value, (list, tuple)) and all(_fits(each, "int32") for each in value)
        case "objects":
            return isinstance(value, (list, tuple))
        case "percentages":
            return isinstance(value, Mapping) and all(each is None or is_number(each) for each in value.values())
    return isinstance(value, Mapping)
