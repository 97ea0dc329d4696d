# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of each playbook in docs/ tells of its variables, all of them, with their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, nodes

from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import AUDIT_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._defrag_arguments import CONNECTION_ARGUMENTS, DEFRAG_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._plan_arguments import PLAN_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._rate_arguments import RATE_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._source import SOURCE_ARGUMENTS

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = {"audit": AUDIT_ARGUMENTS, "plan": PLAN_ARGUMENTS}
# Playbooks of roles: they share a page, which leaves the roles' own variables to their READMEs.
OF_ROLES = ("deploy", "uninstall")
# Playbooks that carry out, with the tasks that they share: they share a page too.
CARRYING_OUT = ("reconcile", "defragment")
TASKS = ("set_rate", "set_limits", "make_plan", "carry_out_wave", "next_step", "tell_metrics")
# What the playbook tune includes; it shares the options of the rate with those.
TUNING = ("identity", "find_descheduler", "set_rate", "give_to_descheduler", "write_values", "tell_metrics")
ROW = re.compile(r"^\| `(\w+)` \| (?:`(.+?)`)? ?\|", re.MULTILINE)
ANSIBLES_OWN = {"ansible_play_hosts", "ansible_play_hosts_all", "ansible_playbook_python", "hostvars", "inventory_hostname"}
ANSIBLES_OWN |= {"ansible_check_mode", "ansible_failed_result", "dict", "item", "lookup", "now", "omit", "range"}


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
        yield from part.get("ansible.builtin.set_fact", {})
        yield from [part["register"]] if "register" in part else []
        yield from [part["loop_var"]] if "loop_var" in part else []
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from named(value)


def playbook(name: str) -> Any:
    return yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())


def told(name: str) -> dict[str, str]:
    """Variables in the page's table, and their defaults as written."""
    page = (ROOT / f"docs/{name}.md").read_text()
    return dict(ROW.findall(page.partition("## Variables")[2].partition("\n## ")[0]))


def test_every_playbook_has_its_page() -> None:
    names = {*OPTIONS, *OF_ROLES, "render", *CARRYING_OUT, "tune"}
    assert {path.stem for path in (ROOT / "playbooks").glob("*.yml")} == names


@pytest.mark.parametrize("name", OPTIONS)
def test_the_variables_told_are_those_that_the_playbook_reads(name: str) -> None:
    plays = playbook(name)
    read = {found.name for text in templates(plays) for found in Environment().parse(text).find_all(nodes.Name)}
    assert set(told(name)) == read - set(named(plays)) - ANSIBLES_OWN


@pytest.mark.parametrize(
    ("page", "playbooks", "tasks"), [("deploy", OF_ROLES, "identity"), ("render", ("render",), "render_profile")]
)
def test_the_page_of_playbooks_of_roles_tells_what_they_read_besides_the_roles_variables(
    page: str, playbooks: tuple[str, ...], tasks: str
) -> None:
    files = [ROOT / f"playbooks/{name}.yml" for name in playbooks] + [ROOT / f"playbooks/tasks/{tasks}.yml"]
    plays = [yaml.safe_load(file.read_text()) for file in files]
    read = {found.name for text in templates(plays) for found in Environment().parse(text).find_all(nodes.Name)}
    own = re.compile("_|" + "|".join(f"{path.name}_" for path in (ROOT / "roles").iterdir()))
    ours = {name for name in read - set(named(plays)) - ANSIBLES_OWN if not own.match(name)}
    assert set(told(page)) == ours - {"query", "item"}
    for name, play in zip(playbooks, plays, strict=False):
        assert play[0]["hosts"] == f"{{{{ {name}_hosts | default('{told(page)[f'{name}_hosts']}') }}}}"


def test_the_page_of_carrying_out_tells_what_its_playbooks_and_their_tasks_read_and_the_defaults() -> None:
    files = [ROOT / f"playbooks/{name}.yml" for name in CARRYING_OUT] + [ROOT / f"playbooks/tasks/{name}.yml" for name in TASKS]
    plays = [yaml.safe_load(file.read_text()) for file in files]
    read = {found.name for text in templates(plays) for found in Environment().parse(text).find_all(nodes.Name)}
    page = told("defragment")
    assert set(page) == read - set(named(plays)) - ANSIBLES_OWN
    for name, (play,) in zip(CARRYING_OUT, plays, strict=False):
        assert play["hosts"] == f"{{{{ {name}_hosts | default('{page[f'{name}_hosts']}') }}}}"
    options = CONNECTION_ARGUMENTS | RATE_ARGUMENTS | PLAN_ARGUMENTS | DEFRAG_ARGUMENTS
    defaults = {option: yaml.safe_load(default) for option, default in page.items() if option in options}
    assert defaults == {option: default_of(options[option]) for option in defaults}
    assert (PLAN_ARGUMENTS | DEFRAG_ARGUMENTS).keys() - defaults == {"now", "details", "while_pid"}


def test_the_page_of_tuning_tells_what_its_playbook_and_its_tasks_read_and_the_defaults() -> None:
    (play,) = playbook("tune")
    plays = [[play], *(yaml.safe_load((ROOT / f"playbooks/tasks/{name}.yml").read_text()) for name in TUNING)]
    read = {found.name for text in templates(plays) for found in Environment().parse(text).find_all(nodes.Name)}
    page = told("tune")
    ours = {name for name in read - set(named(plays)) - ANSIBLES_OWN if not name.startswith("gpu_policy_")}
    # What a run came to is told by the playbooks that make one.
    assert set(page) == ours - {"query", "step"}
    assert play["hosts"] == f"{{{{ tune_hosts | default('{page['tune_hosts']}') }}}}"
    options = CONNECTION_ARGUMENTS | RATE_ARGUMENTS
    defaults = {option: yaml.safe_load(default) for option, default in page.items() if option in options}
    assert defaults == {option: default_of(options[option]) for option in defaults}
    assert set(RATE_ARGUMENTS) <= set(page)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_defaults_told_are_those_of_the_module_and_the_playbook(name: str) -> None:
    for play in playbook(name):
        assert play["hosts"] == f"{{{{ {name}_hosts | default('{told(name)[f'{name}_hosts']}') }}}}"
    options = SOURCE_ARGUMENTS | OPTIONS[name]
    defaults = {option: yaml.safe_load(default) for option, default in told(name).items() if option in options}
    assert defaults == {option: default_of(options[option]) for option in defaults}
    assert OPTIONS[name].keys() - defaults == {"now", "details"}


def default_of(option: dict[str, Any]) -> Any:
    """The default of an option; for one with suboptions, theirs together."""
    if "options" in option and option["type"] == "dict":
        return {name: default_of(suboption) for name, suboption in option["options"].items() if "default" in suboption}
    return option.get("default")
