# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is configured in AWX fits together: names that are used are made, and what is asked on launch is what playbooks read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader

ROOT = Path(__file__).resolve().parents[3]
AWX = ROOT / "extensions/awx"
DATA = DataLoader().load_from_file(str(AWX / "controller.yml"))
TEMPLATES = DATA["controller_templates"]
NAMES = {template["name"] for template in TEMPLATES}
PAGE = (ROOT / "docs/awx.md").read_text()
RULEBOOKS = ROOT / "extensions/eda/rulebooks"
# The keys that roles of infra.aap_configuration read, as far as they are used here.
KEYS = {
    "controller_credential_types": {"name", "description", "kind", "inputs", "injectors"},
    "controller_execution_environments": {"name", "image"},
    "controller_projects": {"name", "organization", "scm_type", "scm_url", "scm_update_on_launch", "default_environment"},
    "controller_inventories": {"name", "organization"},
    "controller_hosts": {"name", "inventory", "variables"},
    "controller_templates": {
        *("name", "description", "organization", "project", "playbook", "inventory", "credentials", "execution_environment"),
        *("extra_vars", "forks", "diff_mode", "allow_simultaneous", "survey_enabled", "survey_spec"),
        *("ask_job_type_on_launch", "ask_limit_on_launch", "ask_variables_on_launch"),
    },
    "controller_workflows": {
        *("name", "description", "organization", "inventory", "ask_limit_on_launch"),
        *("survey_enabled", "survey_spec", "simplified_workflow_nodes"),
    },
    "controller_schedules": {"name", "unified_job_template", "rrule", "enabled"},
    "eda_projects": {"name", "organization", "url"},
    "eda_decision_environments": {"name", "organization", "image_url"},
    "eda_rulebook_activations": {
        *("name", "description", "organization", "project", "rulebook", "decision_environment"),
        *("restart_policy", "extra_vars", "awx_token"),
    },
}


def named(key: str) -> set[str]:
    return {each["name"] for each in DATA[key]}


def questions(template: dict[str, Any]) -> set[str]:
    """The variables that a survey asks for."""
    return {question["variable"] for question in template.get("survey_spec", {}).get("spec", [])}


def test_every_key_is_one_that_the_roles_read() -> None:
    assert DATA.keys() == KEYS.keys()
    assert {(key, name) for key in DATA for each in DATA[key] for name in each if name not in KEYS[key]} == set()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template["name"])
def test_a_template_uses_what_is_there(template: dict[str, Any]) -> None:
    assert (AWX / "project" / template["playbook"]).is_file()
    assert template["project"] in named("controller_projects")
    assert template["inventory"] in named("controller_inventories")
    assert template["execution_environment"] in named("controller_execution_environments")
    # Without it AWX drops the limit, and a job for one cluster would run for all.
    assert template["ask_limit_on_launch"]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template["name"])
def test_what_a_survey_asks_for_is_read_by_the_playbook_or_its_own_variables(template: dict[str, Any]) -> None:
    (play,) = yaml.safe_load((AWX / "project" / template["playbook"]).read_text())
    name = play["ansible.builtin.import_playbook"].removeprefix("gpuops.defrag.")
    files = [ROOT / f"playbooks/{name}.yml", *(ROOT / "playbooks/tasks").glob("*.yml"), *ROOT.glob("roles/*/defaults/main.yml")]
    text = "\n".join(file.read_text() for file in files) + str(template["extra_vars"])
    assert {variable for variable in questions(template) if not re.search(rf"\b{variable}\b", text)} == set()
    assert template["extra_vars"][f"{name}_hosts"] == "all"


@pytest.mark.parametrize("template", [*TEMPLATES, *DATA["controller_workflows"]], ids=lambda template: template["name"])
def test_no_question_stops_what_starts_by_itself(template: dict[str, Any]) -> None:
    # AWX answers 400, variables_needed_to_start, to a schedule or an event that leaves a required question open. Where nobody
    # answers another one, its default is taken if it is valid.
    for question in template.get("survey_spec", {}).get("spec", []):
        assert question["required"] is False, question["variable"]
        assert question["default"] != "" or question["variable"] in ("gpu_hour_price", "prometheus_url")
        assert "choices" not in question or question["default"] in question["choices"]


def test_jobs_that_write_to_a_cluster_never_run_twice_at_a_time_but_those_of_events_which_are_for_one_cluster_each() -> None:
    writing = {template["name"] for template in TEMPLATES if template["credentials"] != ["gpuops reader"]}
    together = {template["name"]: template["allow_simultaneous"] for template in TEMPLATES if "allow_simultaneous" in template}
    assert together == dict.fromkeys(writing, False) | {"gpuops reconcile": True}


def test_the_workflow_has_somebody_approve_the_plan_before_a_wave() -> None:
    (workflow,) = DATA["controller_workflows"]
    nodes = {node["identifier"]: node for node in workflow["simplified_workflow_nodes"]}
    order, at = [], "audit"
    while at:
        order.append(at)
        # One cluster that fails does not end it for the others; what nobody approved does.
        (at,) = nodes[at].get("success_nodes" if at == "approval" else "always_nodes", [""])
    assert order == ["audit", "plan", "approval", "reconcile"]
    assert "approval_node" in nodes["approval"]
    assert {node["unified_job_template"] for node in nodes.values() if "unified_job_template" in node} <= NAMES
    # Each of its answers is one that the templates ask for too, or AWX would drop it.
    for name in ("gpuops plan", "gpuops reconcile"):
        (template,) = (each for each in TEMPLATES if each["name"] == name)
        assert questions(workflow) == questions(template)


def test_schedules_start_templates_that_are_there_and_nothing_that_moves_pods_unless_switched_on() -> None:
    for schedule in DATA["controller_schedules"]:
        assert schedule["unified_job_template"] in NAMES
        assert re.fullmatch(r"DTSTART:\d{8}T\d{6}Z RRULE:FREQ=\w+;INTERVAL=\d+", schedule["rrule"])
        assert schedule.get("enabled", True) == (schedule["unified_job_template"] == "gpuops audit")


def test_the_activation_runs_a_rulebook_that_is_there_which_launches_a_template_that_is_there() -> None:
    (activation,) = DATA["eda_rulebook_activations"]
    assert activation["project"] in named("eda_projects")
    assert activation["decision_environment"] in named("eda_decision_environments")
    (ruleset,) = yaml.safe_load((RULEBOOKS / activation["rulebook"]).read_text())
    jobs = [rule["action"]["run_job_template"] for rule in ruleset["rules"] if "run_job_template" in rule["action"]]
    launched = [re.fullmatch(r"\{\{ job_template \| default\('(.*)'\) \}\}", job["name"]) for job in jobs]
    (template,) = (each for each in TEMPLATES if each["name"] == (launched[0] and launched[0][1]))
    asked = {"limit": "ask_limit_on_launch", "extra_vars": "ask_variables_on_launch"}
    assert all(template[asked[argument]] for argument in jobs[0]["job_args"])
    assert jobs[0]["job_args"]["extra_vars"].keys() <= questions(template)


def test_the_page_tells_each_template_its_credential_and_its_rights() -> None:
    rows = dict(re.findall(r"^\| `(gpuops \w+)` \| `(gpuops \w+)` \|", PAGE, re.MULTILINE))
    assert rows == {template["name"]: template["credentials"][0] for template in TEMPLATES}
    rights = dict(re.findall(r"^\| `(gpuops \w+)` \| (\[.*?) \|", PAGE, re.MULTILINE))
    assert rights.keys() == set(rows.values())
    for documents in rights.values():
        assert all((ROOT / "policies/rbac" / f"{name}.yaml").is_file() for name in re.findall(r"\[([\w-]+)\]\(", documents))


def test_the_page_tells_every_key_that_jobs_hand_on() -> None:
    handed = re.findall(
        r"^ +told_of: (\S+)$", "".join(file.read_text() for file in (ROOT / "playbooks").glob("*.yml")), re.MULTILINE
    )
    assert len(handed) == 5
    assert {f"gpuops_defrag_{key.strip(chr(34))}UID" for key in handed} == set(
        re.findall(r"^\| `(\w+UID)` \|", PAGE, re.MULTILINE)
    )
