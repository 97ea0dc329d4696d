# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import os
import random
import re
import string
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils import _snapshot
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._snapshot import (
    differs,
    read_objects,
    snapshot_bytes,
    write_snapshot,
)

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "creationTimestamp": "2026-11-30T12:00:00Z"}}
PODS = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "ä", "labels": {"on": "on", "n": "1"}}}]}
NODE_YAML = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  creationTimestamp: 2026-11-30T12:00:00Z\n"
PODS_YAML = 'apiVersion: v1\nkind: PodList\nitems:\n- metadata:\n    name: ä\n    labels: {"on": "on", n: "1"}\n'


def written(folder: Path, content: str | bytes, name: str = "cluster") -> str:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(file)


CONTENTS = {
    "JSON": json.dumps(NODE),
    "indented JSON after white space": "\n  " + json.dumps(NODE, indent=4) + "\n",
    "YAML": NODE_YAML,
    "YAML with a comment and a marker": "# of today\n---\n" + NODE_YAML + "...\n",
}


@pytest.mark.parametrize("text", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "BOM"])
@pytest.mark.parametrize("packed", [False, True], ids=["as is", "gzip"])
def test_one_document_is_read_whatever_its_form(tmp_path: Path, text: str, mark: str, packed: bool) -> None:
    data = (mark + text).encode()
    assert read_objects(written(tmp_path, gzip.compress(data) if packed else data)) == [NODE]


SEVERAL = {
    "JSON": json.dumps(NODE) + json.dumps(PODS, indent=2) + "\n",
    "JSON lines": json.dumps(NODE) + "\n\n" + json.dumps(PODS) + "\n",
    "YAML": NODE_YAML + "---\n" + PODS_YAML,
    "YAML with empty documents": "---\n---\n" + NODE_YAML + "---\n# nothing\n---\n" + PODS_YAML + "---\n",
}


@pytest.mark.parametrize("text", SEVERAL.values(), ids=SEVERAL)
def test_documents_after_one_another_are_all_read(tmp_path: Path, text: str) -> None:
    assert read_objects(written(tmp_path, text)) == [NODE, PODS]


def test_gzip_files_after_one_another_are_all_read(tmp_path: Path) -> None:
    packed = b"".join(gzip.compress(json.dumps(document).encode()) for document in (NODE, PODS))
    assert read_objects(written(tmp_path, packed)) == [NODE, PODS]


def test_the_name_of_a_file_does_not_matter(tmp_path: Path) -> None:
    assert read_objects(written(tmp_path, NODE_YAML, "cluster.json.gz")) == [NODE]


SCALARS: list[tuple[str, Any]] = [
    ("12", 12),
    ("1.5", 1.5),
    ("true", True),
    ("no", False),
    ("null", None),
    ("", None),
    ('"12"', "12"),
    ("'true'", "true"),
    ("16Gi", "16Gi"),
    ("2026-11-30", "2026-11-30"),
    ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"),
    ("=", "="),
    ("<<", "<<"),
    ("!!binary aGk=", "aGk="),
    ("!!python/object/apply:os.getcwd []", []),
    ("|\n  two\n  lines", "two\nlines\n"),
]


@pytest.mark.parametrize("has_c_loader", [True, False], ids=["C", "Python"])
@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_yaml_means_what_it_means_to_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_c_loader: bool, text: str, value: Any
) -> None:
    if not has_c_loader:
        monkeypatch.delattr(yaml, "CSafeLoader")
    assert read_objects(written(tmp_path, f"kind: X\nvalue: {text}\n")) == [{"kind": "X", "value": value}]


def test_characters_may_be_written_as_surrogate_pairs(tmp_path: Path) -> None:
    assert read_objects(written(tmp_path, r'{"kind": "\ud83d\ude00"}')) == [{"kind": "😀"}]


def test_keys_are_text(tmp_path: Path) -> None:
    assert read_objects(written(tmp_path, "kind: X\n1: a\ntrue: b\n")) == [{"kind": "X", "1": "a", "true": "b"}]


HINT = "; write the file again with kubectl get … -o json"
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "empty": (b"", f"is empty{HINT}"),
    "only a BOM": ("\ufeff", f"is empty{HINT}"),
    "only white space": (" \n\n", f"is empty{HINT}"),
    "only a comment": ("# nothing\n---\n", f"is empty{HINT}"),
    "empty gzip": (gzip.compress(b""), f"is empty{HINT}"),
    "JSON cut short": (
        '{"kind": "List",\n "items": [',
        f"is not JSON: line 2, column 12: Expecting value (the file ends there: was it cut short?){HINT}",
    ),
    "bad JSON": (
        '{"kind": "List",\n "items": [}',
        f"is not JSON: line 2, column 12: Expecting value{HINT}",
    ),
    "JSON and then something else": (
        '{"kind": "Node"}\n\nand more',
        f"is not JSON: line 3, column 1: Expecting value{HINT}",
    ),
    "NaN": ('{"kind": "Pod", "n": NaN}', f"is not usable JSON: NaN is no number that JSON has{HINT}"),
    "NaN in YAML": ("kind: Pod\nn: .nan", f"is not usable YAML: could not convert string to float: '.nan'{HINT}"),
    "an alias": (
        "kind: &k Pod\nname: *k\n",
        "is neither JSON nor YAML: line 2, column 7: aliases (*name) are not read; write the value out" + HINT,
    ),
    "a mapping as key": ("kind: X\n? {a: b}\n: c\n", f"is neither JSON nor YAML: line 2, column 3: a key must be text{HINT}"),
    "a list": ('[{"kind": "Pod"}]', f"holds a list where an object belongs{HINT}"),
    "a number": ("12", f"holds a single value where an object belongs{HINT}"),
    "kubectl's regrets": ("No resources found", f"holds a single value where an object belongs{HINT}"),
    "kubectl's error": ("error: You must be logged in to the server", f"holds an object without kind{HINT}"),
    "kind is no text": ('{"kind": 1}', f"holds an object without kind{HINT}"),
    "UTF-16": (
        json.dumps(NODE).encode("utf-16"),
        "is not UTF-8 text (byte 1); save it as UTF-8 JSON or YAML, plain or gzip",
    ),
    "gzip of something else": (
        gzip.compress(b"kind: \xff"),
        "is not UTF-8 text (byte 7); save it as UTF-8 JSON or YAML, plain or gzip",
    ),
    "gzip cut short": (
        gzip.compress(json.dumps(NODE).encode())[:-12],
        "the gzip data ends too early: the file was cut short; copy or write it again",
    ),
    "only the first bytes of gzip": (
        b"\x1f\x8b",
        "the gzip data ends too early: the file was cut short; copy or write it again",
    ),
    "half a character": ('{"kind": "Pod", "n": "\\uD83D"}', f"holds '\\ud83d', half a character{HINT}"),
    "nested too deeply": ("[" * 100_000, f"is nested too deeply to come from kubectl{HINT}"),
}


@pytest.mark.parametrize(("content", "problem"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_snapshot_is_refused_with_the_place_and_the_way_out(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError) as refusal:
        read_objects(path)
    assert str(refusal.value) == f"{path}: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"), [("kind: Pod\n\tname: x", "line 2, column 1: found .+"), ("kind: Pod\nname: \a", ".+ not allowed")]
)
def test_bad_yaml_is_refused_in_the_words_of_its_parser(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refusal:
        read_objects(path)
    assert re.fullmatch(re.escape(path) + f": is neither JSON nor YAML: {problem}{re.escape(HINT)}", str(refusal.value))


DAMAGED = {
    "bad block": gzip.compress(b"kind: Pod")[:10] + b"\xff" * 20,
    "bad checksum": gzip.compress(b"kind: Pod")[:-8] + b"\0" * 8,
    "something behind it": gzip.compress(b"kind: Pod") + b"more",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=r"the gzip data is damaged \(.+\); copy or write it again") as refusal:
        read_objects(path)
    assert refusal.value.source == path


def test_a_missing_file_a_directory_and_a_file_as_folder_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, "kind: Pod")
    for path, problem in (
        (f"{tmp_path}/none", "there is no such file; give src the path of a snapshot on this host"),
        (f"{tmp_path}", "is a directory; give src one file"),
        (f"{file}/x", "cannot be read: Not a directory"),
    ):
        with pytest.raises(InputError) as refusal:
            read_objects(path)
        assert str(refusal.value) == f"{path}: {problem}"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_more_bytes_than_a_cluster_can_have_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Any) -> None:
    monkeypatch.setattr(_snapshot, "MOST_BYTES", 2_000_000)
    path = written(tmp_path, pack(b" " * 3_000_000))
    with pytest.raises(InputError, match="holds more than 2,000,000 bytes; no cluster's state is that large"):
        read_objects(path)


def test_an_alias_bomb_is_refused_at_its_first_alias(tmp_path: Path) -> None:
    lines = ["kind: List", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in pairwise(string.ascii_lowercase)]
    with pytest.raises(InputError, match="line 3, column 8: aliases"):
        read_objects(written(tmp_path, "\n".join(lines)))


def test_yaml_without_pyyaml_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InputError, match=r"is not JSON; to read YAML, install the Python package PyYAML .+ -o json$"):
        read_objects(written(tmp_path, NODE_YAML))
    assert read_objects(written(tmp_path, json.dumps(NODE))) == [NODE]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=10,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4).map(lambda fields: {**fields, "kind": "X"}), max_size=4)
IN_ONE_FOLDER = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@IN_ONE_FOLDER
@given(OBJECTS.filter(len))
def test_yaml_of_any_json_is_read_as_that_json(tmp_path: Path, objects: list[dict[str, Any]]) -> None:
    assert read_objects(written(tmp_path, yaml.dump_all(objects, Dumper=WithoutAliases))) == objects


@IN_ONE_FOLDER
@given(objects=OBJECTS, compress=st.booleans())
def test_what_is_written_is_read_again(tmp_path: Path, objects: list[dict[str, Any]], compress: bool) -> None:
    path = str(tmp_path / "snapshot")
    write_snapshot(path, snapshot_bytes(objects, compress=compress))
    assert read_objects(path) == [{"apiVersion": "v1", "kind": "List", "items": objects}]


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in random.Random(1).sample(list(value), len(value))}
    return value


def test_a_snapshot_has_one_object_a_line_with_sorted_keys() -> None:
    expected = (
        b'{"apiVersion":"v1","kind":"List","items":[\n'
        b'{"apiVersion":"v1","kind":"Node","metadata":{"creationTimestamp":"2026-11-30T12:00:00Z","name":"n1"}},\n'
        b'{"kind":"Pod"}\n'
        b"]}\n"
    )
    assert snapshot_bytes([shuffled(NODE), {"kind": "Pod"}], compress=False) == expected


def test_gzip_bytes_tell_neither_time_nor_name_nor_system() -> None:
    packed = snapshot_bytes([NODE], compress=True)
    assert packed[:10] == b"\x1f\x8b\x08\x00" + b"\0\0\0\0" + b"\x02\xff"
    assert gzip.decompress(packed) == snapshot_bytes([NODE], compress=False)


def test_a_new_file_is_for_its_owner_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    assert write_snapshot(str(path), b"one")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    assert write_snapshot(str(path), b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o644)


def test_the_same_bytes_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    write_snapshot(str(path), b"one")
    before = path.stat()
    assert not write_snapshot(str(path), b"one")
    assert path.stat() == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"one")
    link = tmp_path / "link"
    link.symlink_to("real")
    assert write_snapshot(str(link), b"two")
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"two"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(b"old")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as refusal:
        write_snapshot(str(path), b"new")
    assert str(refusal.value) == f"{path}: cannot be written: No space left on device"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"snapshot": b"old"}


def test_where_no_file_can_be_the_reason_is_told(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    for path, problem in (
        (f"{tmp_path}/none/x", "its folder does not exist; create it first"),
        (f"{file}/x", "its folder does not exist; create it first"),
        (f"{tmp_path}", "is a directory; give the path of a file"),
        (f"{tmp_path}/{'x' * 300}", "cannot be read: File name too long"),
    ):
        for attempt in (differs, write_snapshot):
            with pytest.raises(InputError) as refusal:
                attempt(path, b"")
            assert str(refusal.value) == f"{path}: {problem}"


def test_whether_a_file_differs_is_told_without_writing(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    assert differs(str(path), b"one")
    assert not path.exists()
    path.write_bytes(b"one")
    assert [differs(str(path), data) for data in (b"one", b"two", b"longer")] == [False, True, True]
