# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descheduler policies as people have them: a mapping, its YAML, a ConfigMap with it, or values of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._core.descheduler.findings import Finding
from ._core.descheduler.lint import Document
from ._core.descheduler.versions import API_VERSION, KIND
from ._core.errors import InputError
from ._core.severity import ERROR, WARNING

KEY = "policy.yaml"
"""The key of the ConfigMap that the chart's pods read."""

LARGEST = 1024**2
"""Bytes that a ConfigMap may hold, and so a policy."""

_MOST_VALUES = 100_000
_CHART = "deschedulerPolicy"


def policy_file(path: str, *, name: str | None = None) -> Document:
    """The policy in a file.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
        return policy_document(data.decode("utf-8-sig"), name=name)
    except InputError as error:
        raise error.within(source=path) from None
    except FileNotFoundError:
        raise InputError("there is no such file on this host", source=path) from None
    except IsADirectoryError:
        raise InputError("is a directory; give one file", source=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start + 1})", source=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from None


def policy_document(raw: Any, *, name: str | None = None) -> Document:
    """A policy from a mapping or from YAML or JSON text; taken out of a ConfigMap or of values of the chart.

    Args:
        raw: The policy.
        name: The ConfigMap that the descheduler mounts; None if it is not known.

    Raises:
        InputError: It is text that cannot be read.
    """
    document = _read(raw) if isinstance(raw, str) else Document(raw)
    content = document.content
    if not isinstance(content, Mapping):
        return document
    if content.get("kind") == "ConfigMap":
        return _from_config_map(content, name, document)
    if _CHART in content and "kind" not in content and "profiles" not in content:
        return _from_values(content, document)
    return document


def _from_config_map(content: Mapping[str, Any], name: str | None, outer: Document) -> Document:
    meta, data = content.get("metadata"), content.get("data")
    called = str(meta.get("name")) if isinstance(meta, Mapping) else ""
    found = []
    if name and called != name:
        message = f"the descheduler mounts the ConfigMap {name}; this one is {called}, and nothing reads it"
        found.append(Finding("ConfigMapName", ERROR, "metadata.name", message, f"name it {name}"))
    elif not name:
        message = f"the chart mounts the ConfigMap named after its release; of this one nothing is read unless that is {called}"
        fix = "see the volumes of the descheduler's pods, and name it so"
        found.append(Finding("ConfigMapName", WARNING, "metadata.name", message, fix))
    texts = {key: text for key, text in data.items() if isinstance(text, str)} if isinstance(data, Mapping) else {}
    if not texts:
        raise InputError("is missing or empty, and the policy belongs there", object=f"ConfigMap {called}", field="data")
    key = KEY if KEY in texts else next(iter(texts))
    if key != KEY:
        message = f"the policy stands under {key}, and the chart's pods read {KEY}: they fail to start, or read another one"
        found.append(Finding("ConfigMapKey", ERROR, f"data['{key}']", message, f"name the key {KEY}"))
    inner = _read(texts[key])
    return Document(
        inner.content, inner.duplicates, inner.documents, (*outer.found, *found), prefix=f"data['{key}']" if key != KEY else ""
    )


def _from_values(content: Mapping[str, Any], outer: Document) -> Document:
    given = content[_CHART]
    header = {"apiVersion": content.get(f"{_CHART}APIVersion") or API_VERSION, "kind": KIND}
    if isinstance(given, Mapping) and given:
        duplicates = tuple(path.removeprefix(f"{_CHART}.") for path in outer.duplicates)
        return Document({**header, **given}, duplicates, outer.documents, prefix=_CHART)
    if given is None:
        message = "the chart makes no ConfigMap: the descheduler waits until there is one"
        fix = "make the ConfigMap before the release"
        return Document(None, documents=0, found=(Finding("ChartDefaultPolicy", WARNING, _CHART, message, fix),))
    message = f"{_CHART} is empty, which leaves the chart's own policy on: RemoveDuplicates, LowNodeUtilization on CPU and more"
    finding = Finding(
        "ChartDefaultPolicy", ERROR, _CHART, message, f"write {_CHART}: null and make the ConfigMap, or write a policy"
    )
    return Document(None, documents=0, found=(finding,))


def _read(text: str) -> Document:
    if len(text.encode()) > LARGEST:
        raise InputError(f"is larger than {LARGEST:,} bytes, which is all that a ConfigMap may hold")
    try:
        import yaml
    except ImportError:
        raise InputError(
            "reading YAML takes the Python package PyYAML, for the Python that Ansible runs there; install it, or give a mapping"
        ) from None
    try:
        return _Reader(yaml).document(text)
    except RecursionError:
        raise InputError("is nested too deeply to be a policy") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise InputError(f"is not YAML: {place}{problem}; the descheduler ends with an error") from None


class _Reader:
    """YAML read as the descheduler reads it: as the JSON that it stands for. It notes keys that stand twice."""

    def __init__(self, yaml: Any) -> None:
        self.yaml = yaml
        self.duplicates: list[str] = []
        self.values = 0
        make = yaml.constructor.SafeConstructor()
        self.plain = {
            "tag:yaml.org,2002:null": lambda node: None,
            "tag:yaml.org,2002:bool": make.construct_yaml_bool,
            "tag:yaml.org,2002:int": make.construct_yaml_int,
            "tag:yaml.org,2002:float": make.construct_yaml_float,
        }

    def document(self, text: str) -> Document:
        """The first document of a text."""
        found = list(self.yaml.compose_all(text, self.yaml.SafeLoader))
        content = self.value(found[0], "") if found and found[0] is not None else None
        return Document(content, tuple(self.duplicates), max(1, len(found)))

    def value(self, node: Any, path: str) -> Any:
        """What a node stands for; an alias as what it names."""
        self.values += 1
        if self.values > _MOST_VALUES:
            raise InputError("holds more values than any policy does; are its aliases meant?")
        if isinstance(node, self.yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.value(each, f"{path}[{index}]") for index, each in enumerate(node.value)]
        make = self.plain.get(node.tag)
        try:
            return make(node) if make else node.value
        except ValueError:
            return node.value

    def mapping(self, node: Any, path: str) -> dict[str, Any]:
        """A mapping; of a key that stands twice the last, and what is merged in (``<<``) where the key is not there."""
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                raise self.yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key.start_mark)
            where = f"{path}.{key.value}" if path else key.value
            if key.tag == "tag:yaml.org,2002:merge":
                for each in value.value if isinstance(value, self.yaml.SequenceNode) else [value]:
                    if isinstance(each, self.yaml.MappingNode):
                        merged = self.mapping(each, path) | merged
                continue
            if key.value in own:
                self.duplicates.append(where)
            own[key.value] = self.value(value, where)
        return merged | own
