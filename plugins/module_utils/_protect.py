# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JMESPath expressions over a pod as the API has it: a pod that one matches is never moved."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from ._core.errors import InputError

Raw = Mapping[str, Any]


def protect(expressions: Sequence[str]) -> Callable[[Raw], str | None] | None:
    """Gives the first expression that matches a pod; None where there are no expressions.

    An expression matches by JMESPath's own idea of truth: neither null, false nor empty. One that cannot be decided
    for a pod, such as ``contains`` of labels that it has none of, matches: what is unknown protects.

    Raises:
        InputError: An expression cannot be read or calls a function that is unknown or takes another number of arguments,
            so that it could be decided for no pod; or jmespath is missing.
    """
    if not expressions:
        return None
    try:
        jmespath = import_module("jmespath")
    except ImportError:
        raise InputError("needs the Python package jmespath; install it, or leave the option out", field="protect") from None
    error: type[Exception] = jmespath.exceptions.JMESPathError
    compiled: list[tuple[str, Any]] = []
    functions = import_module("jmespath.functions").Functions.FUNCTION_TABLE
    for index, text in enumerate(expressions):
        try:
            expression = jmespath.compile(text)
        except error as reason:
            told = str(reason).splitlines()[0]
            raise InputError(f"{reprlib.repr(text)} is no JMESPath: {told}", field=f"protect[{index}]") from None
        for told in _wrong_calls(expression.parsed, functions):
            raise InputError(f"{reprlib.repr(text)} {told}", field=f"protect[{index}]")
        compiled.append((text, expression))

    def mark(pod: Raw) -> str | None:
        for text, expression in compiled:
            try:
                found = expression.search(pod)
            except error as reason:
                return f"{text} (undecided: {reason})"
            if found is not None and found is not False and found not in ("", [], {}):
                return text
        return None

    return mark


def _wrong_calls(node: Any, functions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with the calls of an expression's tree: jmespath itself finds it only where it comes to evaluate them."""
    if not isinstance(node, Mapping):
        return
    children = node.get("children", ())
    if node.get("type") == "function_expression":
        name = node["value"]
        if name not in functions:
            yield f"calls {name}(), which is no function of JMESPath"
        else:
            wanted = functions[name]["signature"]
            variadic = bool(wanted) and bool(wanted[-1].get("variadic"))
            if len(children) < len(wanted) or (len(children) > len(wanted) and not variadic):
                least = "at least " if variadic else ""
                many = f"{least}{len(wanted)} argument{'s' if len(wanted) != 1 else ''}"
                yield f"calls {name}() with {len(children)}; it takes {many}"
    for child in children:
        yield from _wrong_calls(child, functions)
