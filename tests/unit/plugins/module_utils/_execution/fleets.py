# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in memory to carry plans out on, and what must hold of it afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Order, read_order
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import read_state
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.manner import Manner
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.outcome import Outcome
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.run import carry_out
from ansible_collections.gpuops.defrag.tests.unit.make_believe import Hands, MakeBelieve

BRISK = Manner(ready_timeout=60, evict_timeout=20)


def fleet(**more: Any) -> MakeBelieve:
    """Six nodes of eight GPUs; three of them can be emptied."""
    made = MakeBelieve(**more)
    for number in range(6):
        made.add(f"n{number}")
    made.serve("big", 4, "n0", "n1")
    made.serve("mid", 2, "n2", "n3", "n4")
    made.serve("low", 1, "n1", "n5", "n3")
    made.needed = {"big": 1, "mid": 2, "low": 2}
    return made


def order(cluster: MakeBelieve, **wish: Any) -> Order:
    """A plan for a cluster as it is."""
    given: dict[str, Any] = {"kind": "free_nodes", "limits": Limits(2, 5, 1, interval_seconds=1), "solver": "heuristic"}
    given |= {"audit": AuditOptions(), "rules": Rules(budgets_required=True)} | wish
    cooling = read_state(cluster.text).cooling(cluster.time)
    given["rules"] = replace(given["rules"], cooling=cooling)
    return read_order(plan(cluster.objects(), PlanOptions(**given), now=cluster.time, live=True))


def step(cluster: MakeBelieve, manner: Manner = BRISK, **wish: Any) -> Outcome:
    """Plan, and carry out a wave: what is repeated until all is done."""
    cluster.time += 5
    return carry_out(Hands(cluster), order(cluster, **wish), manner)


def finish(cluster: MakeBelieve, manner: Manner = BRISK, **wish: Any) -> list[Outcome]:
    """Steps until a plan has no moves, or nothing more can be done."""
    found = []
    for _step in range(20):
        found.append(step(cluster, manner, **wish))
        if found[-1].verdict != "Recommended":
            return found
    raise AssertionError("it does not come to an end")


def empty(cluster: MakeBelieve) -> int:
    return sum(not apps for name, apps in cluster.where().items() if name)


def check_whole(cluster: MakeBelieve) -> None:
    """Every pod that is wanted is there and Ready, no budget was broken on the way, nothing of ours is left."""
    for _second in range(60):
        cluster.time += 1
        cluster.tick()
    assert {app: cluster.ready(app) for app in cluster.replicas} == cluster.replicas
    assert all(cluster.least[app] >= needed for app, needed in cluster.needed.items())
    assert cluster.traces() == []
    assert read_state(cluster.text).run is None
