# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies as people have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _descheduler
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._descheduler import policy_document, policy_file
from ansible_collections.gpuops.defrag.tests.unit.policies import HEADER, VICTIMS, Told, found, policy, profile

POLICY = policy(profile(PodLifeTime=VICTIMS))


def config_map(key: str = "policy.yaml", name: str = "descheduler", text: str = "kind: DeschedulerPolicy\n") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("a: 1", {"a": 1}),
        ('{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
        ("a: yes\nb: 010\nc: 2026-01-01\nd: '1'\n1: x\n", {"a": True, "b": 8, "c": "2026-01-01", "d": "1", "1": "x"}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\ne: *x\n", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 1, "c": 2}}),
        ("a: {<<: [{b: 1}, {b: 2, c: 2}]}", {"a": {"b": 1, "c": 2}}),
        ("", None),
        ("---\n", None),
    ],
)
def test_yaml_is_read_as_the_descheduler_reads_it(text: str, content: Any) -> None:
    assert policy_document(text).content == content


def test_keys_that_stand_twice_are_told_by_their_paths() -> None:
    document = policy_document("a: 1\nb:\n- {c: 1, c: 2}\na: 2\n")
    assert document.duplicates == ("b[0].c", "a")
    assert document.content == {"a": 2, "b": [{"c": 2}]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is not YAML: line 1, column 5"),
        ("a:\n\t- b", "is not YAML: line 2, column 1"),
        ("? [a]\n: b", "a key must be text"),
        ("a: *b", "undefined alias"),
        ("\x00", "is not YAML"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        policy_document(text)
    assert words in str(raised.value)


def test_few_lines_that_stand_for_millions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InputError, match="more values than any policy"):
        policy_document("\n".join(lines))


def test_what_no_config_map_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than 1,048,576 bytes"):
        policy_document("#" * (1024**2 + 1))
    (tmp_path / "policy.yaml").write_bytes(b"#" * 1024**2 * 3)
    with pytest.raises(InputError, match=r"policy\.yaml: is larger than"):
        policy_file(str(tmp_path / "policy.yaml"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is not UTF-8 text (byte 1)"),
        (lambda path: path.write_text("a: ["), "is not YAML: line 1"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(make: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    make(path)
    with pytest.raises(InputError) as raised:
        policy_file(str(path))
    assert str(raised.value).startswith(f"{path}: {words}")


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert policy_file(str(tmp_path / "policy.yaml")).content == {"a": 1}


# A ConfigMap.

EMPTY = ("NoProfiles", "error", "profiles")
LIMITLESS: list[Told] = [EMPTY, ("MissingApiVersion", "error", "apiVersion")]


@pytest.mark.parametrize(
    ("given", "name", "told"),
    [
        (config_map(), "descheduler", []),
        (config_map(), None, [("ConfigMapName", "warning", "metadata.name")]),
        (config_map(name="descheduler-policy-configmap"), "descheduler", [("ConfigMapName", "error", "metadata.name")]),
        (config_map(key="policy.yml"), "descheduler", [("ConfigMapKey", "error", "data['policy.yml']")]),
    ],
)
def test_a_config_map_is_opened_and_must_be_the_one_that_is_mounted(given: Any, name: str | None, told: list[Told]) -> None:
    document = policy_document(given, name=name)
    assert document.content == {"kind": "DeschedulerPolicy"}
    assert [(each.id, str(each.severity), each.path) for each in document.found] == told


def test_paths_within_another_key_say_so() -> None:
    assert ("NoProfiles", "error", "data['policy.yml'].profiles") in found(config_map(key="policy.yml"), name="descheduler")


@pytest.mark.parametrize("data", [None, {}, {"policy.yaml": 1}, "x"])
def test_a_config_map_without_a_policy_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="ConfigMap descheduler: data: is missing or empty"):
        policy_document({**config_map(), "data": data})


# Values of the chart.


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, [("ChartDefaultPolicy", "error", "deschedulerPolicy")]),
        (None, [("ChartDefaultPolicy", "warning", "deschedulerPolicy")]),
        ({"profiles": POLICY["profiles"]}, [("NoLimits", "warning", "deschedulerPolicy")]),
        ({**POLICY, "NodeSelector": ""}, [("UnknownField", "error", "deschedulerPolicy.NodeSelector")]),
    ],
)
def test_values_of_the_chart_are_looked_into(value: Any, told: list[Told]) -> None:
    assert found({"kind_": "CronJob", "deschedulerPolicy": value}) == told


def test_the_api_version_in_values_counts() -> None:
    values = {"deschedulerPolicy": {"strategies": {}}, "deschedulerPolicyAPIVersion": "descheduler/v1alpha1"}
    assert policy_document(values).content == {**HEADER, "apiVersion": "descheduler/v1alpha1", "strategies": {}}


def test_without_pyyaml_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(InputError, match="PyYAML"):
        policy_document("a: 1")
    assert policy_document({"a": 1}).content == {"a": 1}
    assert _descheduler.KEY == "policy.yaml"
