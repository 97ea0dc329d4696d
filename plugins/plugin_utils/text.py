# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain data as YAML that people read and compare."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key, and no anchors: what is there twice is written twice."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text of several lines as these lines, so that a difference of it can be read."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(content: Any) -> str:
    """The content, its keys in their order; the same content gives the same text."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
