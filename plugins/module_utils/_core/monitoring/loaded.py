# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a Prometheus has loaded rules as they were made: selectors drop objects and operators rewrite them, silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

_NAMESPACE = 'namespace="'


def flaws(rules: Object, answer: Object) -> list[str]:
    """What is wrong with rules that should be loaded, each in a sentence; nothing if all is well.

    Args:
        rules: A rule file, ``{"groups": […]}``.
        answer: The ``data`` of ``/api/v1/rules``.
    """
    return [flaw for group in rules["groups"] for flaw in _of_group(group, answer.get("groups") or ())]


def _of_group(wanted: Object, groups: Sequence[Object]) -> Iterator[str]:
    name = wanted["name"]
    # The same may be loaded twice, from two files.
    found = [group for group in groups if group["name"] == name]
    if not found:
        yield (
            f"group {name} is not loaded; does Prometheus select the object, by its labels (ruleSelector) and namespace "
            "(ruleNamespaceSelector), or read the file?"
        )
    if len(found) > 1:
        yield f"group {name} is loaded {len(found)} times, from {', '.join(sorted(str(group.get('file')) for group in found))}"
    for group in found[:1]:
        loaded = Counter(rule["name"] for rule in group["rules"])
        for rule, times in sorted((Counter(_name(rule) for rule in wanted["rules"]) - loaded).items()):
            yield f"group {name} lacks {rule}{f' {times} times' if times > 1 else ''}: an older version is loaded"
        yield from _of_rules(name, wanted["rules"], group["rules"])


def _of_rules(name: str, wanted: Sequence[Object], loaded: Sequence[Object]) -> Iterator[str]:
    ours, theirs = (
        sum(str(rule[key]).count(_NAMESPACE) for rule in rules) for rules, key in ((wanted, "expr"), (loaded, "query"))
    )
    if theirs > ours:
        yield (
            f"group {name} was rewritten to look at one namespace alone, by enforcedNamespaceLabel; exempt it "
            "(excludedFromEnforcement)"
        )
    for rule in loaded:
        if rule.get("health") == "err":
            yield f"{rule['name']} cannot be evaluated: {rule.get('lastError')}"
        elif rule.get("health") != "ok":
            yield f"{rule['name']} has not been evaluated yet"


def _name(rule: Object) -> str:
    return str(rule.get("record") or rule.get("alert"))
