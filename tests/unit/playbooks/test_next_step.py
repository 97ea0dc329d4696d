# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a step adds to the sum of steps, by which the playbook `defragment` goes on or ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import ChainableUndefined
from jinja2.nativetypes import NativeEnvironment

TASKS = yaml.safe_load((Path(__file__).resolve().parents[3] / "playbooks/tasks/next_step.yml").read_text())
SO_FAR = {"steps": 3, "moved": 5, "stale": 2, "began": 0.0, "goes_on": True, "paused": False}


def task(name: str) -> Any:
    return next(each for each in TASKS if each["name"] == name)


def render(template: str, **variables: Any) -> Any:
    environment = NativeEnvironment(undefined=ChainableUndefined)
    environment.filters["combine"] = lambda one, other: one | other
    return environment.from_string(template).render(**variables)


@pytest.mark.parametrize(
    ("verdict", "evicted", "done", "expected"),
    [
        ("Recommended", 2, False, {"steps": 4, "moved": 7, "stale": 0, "goes_on": True}),
        ("Recommended", 2, True, {"steps": 4, "moved": 7, "stale": 0, "goes_on": False}),
        # A wait of any length is no step: `max_steps` counts waves.
        ("TooSoon", 0, False, {"steps": 3, "moved": 5, "stale": 0, "goes_on": True}),
        # Nobody waits for another run for ever.
        ("Locked", 0, False, {"steps": 4, "moved": 5, "stale": 0, "goes_on": True}),
        ("StalePlan", 0, False, {"steps": 4, "moved": 5, "stale": 3, "goes_on": False}),
        ("StalePlan", 1, False, {"steps": 4, "moved": 6, "stale": 0, "goes_on": False}),
    ],
)
def test_a_step_is_added_up(verdict: str, evicted: int, done: bool, expected: dict[str, Any]) -> None:
    step = {"verdict": verdict, "evicted": [{}] * evicted, "done": done}
    planned = {"plan": {"verdict": "Recommended"}}
    found = render(task("Add up")["ansible.builtin.set_fact"]["so_far"], so_far=SO_FAR, step=step, planned=planned)
    assert found == SO_FAR | expected


@pytest.mark.parametrize(
    ("action", "verdict", "paused"),
    [("pause", "Blocked", True), ("pause", "NoFragmentation", False), ("hold", "Blocked", False), (None, "Blocked", False)],
)
def test_a_plan_of_which_nothing_may_go_now_is_waited_for(action: str | None, verdict: str, paused: bool) -> None:
    step, planned = {"verdict": verdict, "evicted": [], "done": True}, {"plan": {"verdict": verdict}}
    rate = {"action": action} if action else {}
    found = render(task("Add up")["ansible.builtin.set_fact"]["so_far"], so_far=SO_FAR, step=step, planned=planned, rate=rate)
    assert found["paused"] is paused


@pytest.mark.parametrize(("left", "pieces"), [(300.2, [45] * 6 + [31]), (12.0, [12]), (45, [45]), (None, [])])
def test_the_whole_time_is_waited_for_in_pieces_of_less_than_a_minute(left: float | None, pieces: list[int]) -> None:
    wait = task("Wait for the next wave's time")
    seconds = render(wait["vars"]["seconds"], step={"retry_after": left}, so_far=SO_FAR)
    items = render(wait["loop"], seconds=seconds)
    assert [render(wait["ansible.builtin.wait_for"]["timeout"], seconds=seconds, item=item) for item in items] == pieces
