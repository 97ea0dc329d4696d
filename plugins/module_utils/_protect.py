# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JMESPath expressions over a pod as the API has it: a pod that one matches is never moved."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ._core.errors import InputError

Raw = Mapping[str, Any]


def protect(expressions: Sequence[str]) -> Callable[[Raw], str | None] | None:
    """Gives the first expression that matches a pod; None where there are no expressions.

    An expression matches by JMESPath's own idea of truth: neither null, false nor empty. One that cannot be decided
    for a pod, such as ``contains`` of labels that it has none of, matches: what is unknown protects.

    Raises:
        InputError: An expression cannot be read, or jmespath is missing.
    """
    if not expressions:
        return None
    try:
        jmespath = import_module("jmespath")
    except ImportError:
        raise InputError("needs the Python package jmespath; install it, or leave the option out", field="protect") from None
    error: type[Exception] = jmespath.exceptions.JMESPathError
    compiled: list[tuple[str, Any]] = []
    for index, text in enumerate(expressions):
        try:
            compiled.append((text, jmespath.compile(text)))
        except error as reason:
            told = str(reason).splitlines()[0]
            raise InputError(f"{reprlib.repr(text)} is no JMESPath: {told}", field=f"protect[{index}]") from None

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
