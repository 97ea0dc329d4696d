# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.loaded import flaws

RULES = {"groups": [{"name": "g", "rules": [{"record": "a:b:c", "expr": "x"}, {"alert": "A", "expr": 'y{namespace="n"}'}]}]}


def loaded(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"groups": list(groups)}


def group(**changed: Any) -> dict[str, Any]:
    rules = [{"name": "a:b:c", "query": "x", "health": "ok"}, {"name": "A", "query": 'y{namespace="n"}', "health": "ok"}]
    return {"name": "g", "file": "f", "rules": [rule | changed.get(rule["name"][0], {}) for rule in rules]}


FLAWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all is well": (loaded({"name": "other", "rules": []}, group()), []),
    "nothing is loaded": (loaded(), ["group g is not loaded; does Prometheus select"]),
    "twice": (loaded(group(), group()), ["group g is loaded 2 times, from f, f"]),
    "an older version": (loaded(group(A={"name": "B"})), ["group g lacks A: an older version"]),
    "a rule that fails": (
        loaded(group(a={"health": "err", "lastError": "many-to-many"})),
        ["a:b:c cannot be evaluated: many-to"],
    ),
    "a rule not evaluated yet": (loaded(group(a={"health": "unknown"})), ["a:b:c has not been evaluated yet"]),
    "an enforced namespace": (loaded(group(a={"query": 'x{namespace="m"}'})), ["group g was rewritten to look at one namespace"]),
}


@pytest.mark.parametrize(("answer", "told"), FLAWS.values(), ids=FLAWS)
def test_what_is_wrong_with_loaded_rules(answer: dict[str, Any], told: list[str]) -> None:
    found = flaws(RULES, answer)
    assert len(found) == len(told)
    assert all(each.startswith(start) for each, start in zip(found, told, strict=True))
