# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's door: what it is given, what it refuses before it asks any server, and that all it returns is documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.breaker import Bounds
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import read_order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._defrag_arguments import (
    CONNECTION_ARGUMENTS,
    DEFRAG_ARGUMENTS,
    manner_of,
    plan_of,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.manner import Manner
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import Outcome, as_result, diff_of
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import PROMETHEUS_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.modules import gpu_defrag
from ansible_collections.gpuops.defrag.tests.unit.builders import node
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands, MakeBelieve
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

PLAN = json.loads(json.dumps(plan([node("n1"), node("n2")], PlanOptions())))
NOBODY: dict[str, Any] = {"host": "https://127.0.0.1:1", "api_key": "a-token"}


def options(**given: Any) -> dict[str, Any]:
    found = {name: argument.get("default") for name, argument in DEFRAG_ARGUMENTS.items()}
    return found | {"reclaim": {"label": True, "cordon": False}, "plan": None, "plan_file": None} | given


def test_options_reach_the_manner() -> None:
    assert manner_of(options()) == Manner()
    given = options(
        steering="cordon",
        actuator="descheduler",
        ready_timeout="20m",
        grace_period="30",
        max_plan_age="1h",
        cool_down="90s",
        max_stray_share=0.5,
        max_unready_share=0,
        make_before_break=["a/b"],
        reclaim={"label": True, "cordon": True},
    )
    assert manner_of(given) == Manner(
        "cordon", "descheduler", 1200, 900, 30, 3600, 90, Bounds(0.5, 0), frozenset({"a/b"}), label=True, cordon=True
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["plan", "plan_file"]),
        ({"plan": {}}, ["plan.schema_version: is None"]),
        ({"plan": PLAN | {"waves": [[{}]]}}, ["plan.waves[0][0].namespace: is missing"]),
        ({"plan": PLAN, "plan_file": "x"}, ["mutually exclusive"]),
        ({"plan_file": "/none.json"}, ["/none.json: cannot be read"]),
        ({"plan": PLAN, "ready_timeout": "soon"}, ["ready_timeout: 'soon'"]),
        ({"plan": PLAN, "cool_down": "-1"}, ["cool_down"]),
        ({"plan": PLAN, "max_stray_share": 2}, ["max_stray_share: is 2"]),
        ({"plan": PLAN, "max_unready_share": -1}, ["max_unready_share: is -1"]),
        ({"plan": PLAN, "pause": ["up == 0"]}, ["pause: needs prometheus_url"]),
        ({"plan": PLAN, "make_before_break": ["chat"]}, ["make_before_break[0]: 'chat'"]),
        ({"plan": PLAN, "reclaim": {"label": False, "cordon": True}}, ["reclaim: cordon needs label"]),
        ({"plan": PLAN, "steering": "force"}, ["steering", "force"]),
        ({"plan": PLAN, "node_selector": "a in b"}, ["node_selector"]),
    ],
    ids=lambda given: str(sorted(given)) if isinstance(given, dict) else "",
)
def test_what_makes_no_sense_is_named_before_any_server_is_asked(
    given: dict[str, Any], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_module(gpu_defrag, capsys, code=1, **NOBODY, **given)
    for word in words:
        assert word in found["msg"]
    assert "Traceback" not in str(found)
    assert "127.0.0.1" not in found["msg"]


def test_a_plan_may_be_given_with_what_is_around_it_and_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for content in (PLAN, {"changed": False, "plan": PLAN}):
        assert plan_of(options(plan=content)) == PLAN
        path.write_text(json.dumps(content))
        assert plan_of(options(plan_file=str(path))) == PLAN


def outcome() -> tuple[Outcome, Any]:
    cluster = MakeBelieve()
    for name in ("n0", "n1"):
        cluster.add(name)
    cluster.serve("a", 2, "n0", "n1")
    order = read_order(plan(cluster.objects(), PlanOptions(kind="free_nodes"), now=cluster.time, live=True))
    return carry_out(Hands(cluster), order, Manner()), order


def test_all_that_is_returned_is_documented_and_plain() -> None:
    told = as_result(*outcome())
    assert json.loads(json.dumps(told)) == told
    assert {*told, "cluster"} == {*yaml.safe_load(gpu_defrag.RETURN), "changed"}
    assert told["evicted"]
    assert set(yaml.safe_load(gpu_defrag.RETURN)["evicted"]["sample"][0]) == set(told["evicted"][0])


def test_the_difference_is_taints_while_it_lasts_and_labels_that_stay() -> None:
    taints, labels = diff_of(outcome()[0], "soft_taints")
    assert taints["after"] == "n1: gpuops.io/defrag\n"
    assert labels["after"] == "n1: gpuops.io/reclaimable\n"
    assert diff_of(Outcome("Locked"), "soft_taints") == []


def test_the_difference_tells_of_nodes_that_are_closed_where_a_cordon_steers() -> None:
    (closed,) = diff_of(Outcome("Recommended", steering=[["n1"]]), "cordon")
    assert (closed["after_header"], closed["after"]) == ("closed nodes while the wave lasts", "n1: unschedulable\n")


def test_every_option_is_documented_as_it_is() -> None:
    told = yaml.safe_load(gpu_defrag.DOCUMENTATION)["options"]
    own = set(DEFRAG_ARGUMENTS) | {"plan", "plan_file"}
    # Those of Prometheus are documented by a fragment.
    assert set(told) == own - set(PROMETHEUS_ARGUMENTS)
    assert "resource_version" not in CONNECTION_ARGUMENTS
