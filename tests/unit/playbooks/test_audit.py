# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/audit.md tells of the playbook's variables, all of them, with their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, nodes

from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import AUDIT_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._source import SOURCE_ARGUMENTS

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = yaml.safe_load((ROOT / "playbooks/audit.yml").read_text())
ROW = re.compile(r"^\| `(\w+)` \| (?:`(.+?)`)? ?\|", re.MULTILINE)
TOLD = dict(ROW.findall((ROOT / "docs/audit.md").read_text().partition("## Variables")[2].partition("\n## ")[0]))
ANSIBLES_OWN = {"ansible_play_hosts", "ansible_playbook_python", "hostvars", "lookup", "omit"}


def templates(part: Any, key: str = "") -> Iterator[str]:
    """Every template of a play; what stands under `when` is one without braces."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from templates(value, name)
    elif isinstance(part, list):
        for value in part:
            yield from templates(value, key)
    elif isinstance(part, str):
        yield f"{{{{ {part} }}}}" if key in ("when", "that") else part


def named(part: Any) -> Iterator[str]:
    """Names that a play gives to values itself: its `vars` and what it registers."""
    if isinstance(part, dict):
        yield from part.get("vars", {})
        yield from [part["register"]] if "register" in part else []
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from named(value)


def test_the_variables_told_are_those_that_the_playbook_reads() -> None:
    read = {name.name for text in templates(PLAYBOOK) for name in Environment().parse(text).find_all(nodes.Name)}
    assert set(TOLD) == read - set(named(PLAYBOOK)) - ANSIBLES_OWN


def test_the_defaults_told_are_those_of_the_module_and_the_playbook() -> None:
    (play,) = PLAYBOOK
    assert play["hosts"] == f"{{{{ audit_hosts | default('{TOLD['audit_hosts']}') }}}}"
    options = SOURCE_ARGUMENTS | AUDIT_ARGUMENTS
    told = {name: yaml.safe_load(default) for name, default in TOLD.items() if name in options}
    assert told == {name: options[name].get("default") for name in told}
    assert AUDIT_ARGUMENTS.keys() - told == {"now", "details"}
