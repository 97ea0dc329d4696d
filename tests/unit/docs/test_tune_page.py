# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tune.md tells of every reason, reading and profile, as they are."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import State
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.planner import make_plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.law import FULL_SHARE, Why, may_be_cold
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.observe import observe
from ansible_collections.gpuops.defrag.plugins.module_utils._core.rate.readings import NEEDED

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/tune.md").read_text()
COLD_START = 180


def rows(title: str) -> list[list[str]]:
    """The rows of the table under a title."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [
        re.split(r"\s*\|\s*", line.removeprefix("| ").removesuffix(" |")) for line in text.splitlines() if line.startswith("| `")
    ]


def test_every_reason_is_told() -> None:
    assert {cells[0].strip("`") for cells in rows("Reasons")} == {str(why) for why in Why}


def test_every_reading_is_told() -> None:
    told = {name.strip("`") for cells in rows("What it goes by") for name in cells[0].split(", ")}
    assert told == {*NEEDED, "in_flight", "guards"}


def test_what_the_profiles_mean_for_the_bundled_cluster_is_computed() -> None:
    with gzip.open(ROOT / "examples/gpu200-1.json.gz", "rt", encoding="utf-8") as file:
        cluster = decode([json.load(file)])
    pods = observe(cluster, AuditOptions(), State(), 0.0).gpu_pods
    moves = len(make_plan(cluster, PlanOptions(rules=Rules(movable_singletons=True), solver="heuristic")).moves)
    assert f"`gpu200-1` ({pods} GPU pods, {moves} moves undo" in PAGE
    assert pods is not None
    for cells, (name, bounds) in zip(rows("Profiles"), PROFILES.items(), strict=True):
        cold = may_be_cold(pods, bounds)
        told = [cold, cold * 3600 / COLD_START, int(bounds.hour_share * pods), round(moves * COLD_START / cold / 60)]
        assert cells == [
            f"`{name}`",
            *(f"{each:.0f}" for each in told),
            f"{max(1, int(bounds.service_share * 10))}",
            f"{bounds.raise_after / 60:.0f} min",
        ]


def test_the_severity_is_told_as_it_is() -> None:
    assert f"share of stranded GPUs / {FULL_SHARE * 100:.0f} %" in PAGE
