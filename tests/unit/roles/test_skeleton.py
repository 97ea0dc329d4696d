# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role is built the same way, and its files agree about its variables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[3] / "roles"
NAMES = sorted(path.name for path in ROLES.iterdir() if path.is_dir())
STATES = ["present", "absent"]
ROW = re.compile(r"^\| `(\w+)` \| (.*?) ?\| ", re.MULTILINE)

pytestmark = pytest.mark.parametrize("role", NAMES)


def read(role: str, path: str) -> Any:
    return yaml.safe_load((ROLES / role / path).read_text())


def options(role: str) -> dict[str, Any]:
    return dict(read(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"])


def is_computed(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value


def test_a_role_looks_and_then_makes_or_removes(role: str) -> None:
    assert {path.name for path in (ROLES / role / "tasks").iterdir()} >= {
        "main.yml",
        "render.yml",
        "preflight.yml",
        "present.yml",
        "absent.yml",
    }
    included = [task["ansible.builtin.include_tasks"] for task in read(role, "tasks/main.yml")]
    assert included == ["preflight.yml", f"{{{{ {role}_state }}}}.yml"]
    assert options(role)[f"{role}_state"]["choices"] == STATES


def test_the_same_is_asked_of_the_arguments_when_it_only_looks_or_renders(role: str) -> None:
    specs = read(role, "meta/argument_specs.yml")["argument_specs"]
    assert specs["preflight"]["options"] == specs["main"]["options"]
    assert specs["render"]["options"] == specs["main"]["options"]


def test_what_is_applied_and_what_is_rendered_are_one_list(role: str) -> None:
    assert f"_{role}_manifests" in read(role, "vars/main.yml")
    assert f"_{role}_manifests" in (ROLES.parent / "playbooks/tasks/render_profile.yml").read_text()
    preflight = (ROLES / role / "tasks/preflight.yml").read_text()
    assert "include_tasks: render.yml" in preflight
    assert f'definition: "{{{{ _{role}_manifests' in preflight


def test_defaults_are_what_the_argument_specs_say(role: str) -> None:
    defaults = read(role, "defaults/main.yml")
    fixed = {name: value for name, value in defaults.items() if not is_computed(value)}
    assert fixed == {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert defaults.keys() <= options(role).keys()


def test_the_readme_tells_every_variable_and_its_default(role: str) -> None:
    told = dict(ROW.findall((ROLES / role / "README.md").read_text()))
    assert told.keys() == options(role).keys()
    defaults = read(role, "defaults/main.yml")
    for name, text in told.items():
        default = defaults.get(name, "")
        if not is_computed(default):
            wanted = default if isinstance(default, str) else json.dumps(default)
            assert text == (f"`{wanted}`" if wanted else ""), name


def test_its_variables_bear_its_name(role: str) -> None:
    assert [name for name in options(role) if not name.startswith(f"{role}_")] == []
    assert [name for name in read(role, "vars/main.yml") if not name.startswith(f"_{role}_")] == []


def test_every_variable_is_read(role: str) -> None:
    files = [*(ROLES / role / "tasks").glob("*.yml"), ROLES / role / "vars/main.yml", ROLES / role / "defaults/main.yml"]
    text = "\n".join(file.read_text() for file in files)
    assert [name for name in options(role) if len(re.findall(rf"\b{name}\b", text)) < (2 if f"\n{name}:" in text else 1)] == []


def test_private_variables_are_read(role: str) -> None:
    files = [
        *(ROLES / role / "tasks").glob("*.yml"),
        ROLES / role / "vars/main.yml",
        *(ROLES.parent / "playbooks").rglob("*.yml"),
    ]
    text = "\n".join(file.read_text() for file in files)
    assert [name for name in read(role, "vars/main.yml") if len(re.findall(rf"\b{name}\b", text)) < 2] == []
