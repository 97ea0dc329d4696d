# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._protect import protect

POD: dict[str, Any] = {
    "metadata": {"name": "llm-0", "namespace": "team-a", "labels": {"tier": "gold"}},
    "spec": {"containers": [{"image": "vllm:1"}], "replicas": 0, "hostNetwork": False, "volumes": []},
}


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("metadata.namespace == 'team-a'", True),
        ("metadata.namespace == 'team-b'", False),
        ("metadata.labels.tier", True),
        ("metadata.labels.none", False),
        ("spec.containers[?starts_with(image, 'vllm')]", True),
        ("spec.containers[?starts_with(image, 'other')]", False),
        ("spec.hostNetwork", False),
        ("spec.volumes", False),
        ("spec.replicas", True),
        ("''", False),
        ("`{}`", False),
    ],
)
def test_an_expression_matches_as_jmespath_has_truth(expression: str, matches: bool) -> None:
    mark = protect([expression])
    assert mark is not None
    assert mark(POD) == (expression if matches else None)


def test_the_first_expression_that_matches_is_the_mark() -> None:
    mark = protect(["metadata.none", "metadata.name", "metadata.labels"])
    assert mark is not None
    assert mark(POD) == "metadata.name"


def test_what_cannot_be_decided_protects() -> None:
    mark = protect(["contains(metadata.annotations, 'x')"])
    assert mark is not None
    assert str(mark(POD)).startswith("contains(metadata.annotations, 'x') (undecided: ")


def test_without_expressions_nothing_is_marked() -> None:
    assert protect([]) is None


def test_an_expression_that_cannot_be_read_is_named_by_its_number() -> None:
    with pytest.raises(InputError, match=r"^protect\[1\]: 'metadata\.' is no JMESPath: ") as told:
        protect(["metadata.name", "metadata."])
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("nope(@)", r"calls nope\(\), which is no function of JMESPath"),
        ("metadata.name && nope(@)", r"calls nope\(\), which"),
        ("spec.containers[?starts_with(image)]", r"calls starts_with\(\) with 1; it takes 2 arguments"),
        ("[{a: length(@, @)}]", r"calls length\(\) with 2; it takes 1 argument$"),
        ("not_null(sort_by(spec.containers, &nope(@)))", r"calls nope\(\), which"),
        ("not_null()", r"calls not_null\(\) with 0; it takes at least 1 argument$"),
    ],
)
def test_a_call_that_can_never_be_decided_is_refused_by_name_and_protects_nothing(expression: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        protect(["metadata.none", expression])
    assert refused.value.field == "protect[1]"


@pytest.mark.parametrize(
    "expression", ["not_null(a, b, metadata.name)", "merge(metadata, spec, status)", "max_by(spec.containers, &image)"]
)
def test_functions_are_taken_with_as_many_arguments_as_they_have(expression: str) -> None:
    assert protect([expression]) is not None


def test_a_missing_jmespath_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jmespath", None)
    with pytest.raises(InputError, match=r"^protect: needs the Python package jmespath"):
        protect(["metadata.name"])
