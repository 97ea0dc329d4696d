# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Amounts, Goal, Kind, Problem
from ansible_collections.gpuops.defrag.tests.unit.builders import laid_out, node, pod

Pods = Sequence[tuple[int, int]]
(LIKE_ANY,) = laid_out([node("n1"), pod("p", 1, "n1")]).pods["n1"]


def problem(
    nodes: Sequence[int],
    pods: Pods,
    *,
    size: int | None = 8,
    count: int | None = None,
    costs: Sequence[float] = (),
    places: Sequence[set[int]] = (),
    needs: Amounts | None = None,
) -> Problem:
    """Nodes with so many GPUs, each pod (GPUs, node) a kind of its own unless alike; needs are (GPUs, pods)."""
    free = list(nodes)
    kinds: dict[object, Kind] = {}
    held: list[dict[int, int]] = [{} for _node in nodes]
    for index, (gpus, at) in enumerate(pods):
        cost = costs[index] if costs else 1.0
        where = frozenset(places[index] if places else range(len(nodes)))
        kind = kinds.setdefault((gpus, cost, where), Kind((gpus, 1), cost, where))
        kind.at.setdefault(at, []).append(LIKE_ANY)
        number = list(kinds.values()).index(kind)
        held[at][number] = held[at].get(number, 0) + 1
        free[at] -= gpus
    return Problem(
        goal=Goal(size, count),
        resources=("gpu", "pods"),
        names=[f"n{number}" for number in range(len(nodes))],
        free=[(gpus, 100) for gpus in free],
        kinds=list(kinds.values()),
        held=held,
        bare=frozenset(number for number, found in enumerate(held) if not found),
        stuck=frozenset(),
        gainers=frozenset(range(len(nodes))) if needs else None,
        needs=needs,
    )
