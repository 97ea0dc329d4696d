# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters so small that every placement can be looked at, by code that shares nothing with the planner."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.plan import plan
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.schedule import Limits
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, node, pod, serving

Amounts = tuple[int, int]
Places = tuple[int, ...]
CLUSTERS = 120


@dataclass(frozen=True)
class Tiny:
    """Nodes and pods as (GPUs, cores); which pod is on which node, and which pods must stay."""

    nodes: tuple[Amounts, ...]
    pods: tuple[Amounts, ...]
    at: Places
    stays: frozenset[int]

    @classmethod
    def at_random(cls, seed: int, *, cpu_pods: bool = False) -> Tiny:
        chance = random.Random(seed)
        nodes = tuple((chance.choice((8, 8, 8, 4)), chance.choice((16, 16, 32, 10))) for _node in range(chance.randint(2, 5)))
        free = [list(amounts) for amounts in nodes]
        pods, at = [], []
        for _pod in range(chance.randint(len(nodes), 8)):
            gpus, cores = chance.choice((1, 1, 1, 2, 2, 4, 8)), chance.randint(0, 4)
            if cpu_pods and chance.random() < 0.3:
                gpus, cores = 0, chance.randint(1, 6)
            where = [n for n, (g, c) in enumerate(free) if g >= gpus and c >= cores]
            if not where:
                continue
            # Spread, as the scheduler does, so that there is something to gain.
            target = max(where, key=lambda n: (free[n][0] + chance.randint(0, 4), n))
            free[target][0] -= gpus
            free[target][1] -= cores
            pods.append((gpus, cores))
            at.append(target)
        stays = frozenset(pod for pod in range(len(pods)) if chance.random() < 0.1)
        return cls(nodes, tuple(pods), tuple(at), stays)

    def objects(self) -> list[Object]:
        found = [node(f"n{number}", gpus, allocatable={"cpu": str(cores)}) for number, (gpus, cores) in enumerate(self.nodes)]
        for number, ((gpus, cores), at) in enumerate(zip(self.pods, self.at, strict=True)):
            owner = None if number in self.stays else f"ReplicaSet/rs-{number}"
            cpu = {"cpu": str(cores)} if cores else {}
            found.append(serving(f"p{number}", f"n{at}", gpus or None, owner=owner, requests=cpu))
        return found

    def free(self, at: Places) -> list[list[int]]:
        free = [list(amounts) for amounts in self.nodes]
        for (gpus, cores), where in zip(self.pods, at, strict=True):
            free[where][0] -= gpus
            free[where][1] -= cores
        return free


@dataclass(frozen=True)
class Slots:
    """Counts slots of a size; no placement has more than ``most``."""

    size: int

    def __call__(self, tiny: Tiny, at: Places) -> int:
        return sum(gpus // self.size for gpus, _cores in tiny.free(at))

    def most(self, tiny: Tiny) -> int:
        return sum(gpus for gpus, _cores in tiny.free(tiny.at)) // self.size


class EmptyNodes:
    """Counts nodes without a pod."""

    def __call__(self, tiny: Tiny, at: Places) -> int:
        return len(tiny.nodes) - len(set(at))

    def most(self, tiny: Tiny) -> int:
        return len(tiny.nodes) - 1


@dataclass(frozen=True)
class Takers:
    """Counts nodes that have room for a pod, one at the most."""

    guest: Amounts

    def __call__(self, tiny: Tiny, at: Places) -> int:
        return int(any(all(need <= room for need, room in zip(self.guest, free, strict=True)) for free in tiny.free(at)))

    def most(self, tiny: Tiny) -> int:
        return 1


Score: TypeAlias = "Slots | EmptyNodes | Takers"


def placements(tiny: Tiny, most: int) -> Iterator[Places]:
    """Every placement within room that at most so many moves lead to, in whatever order."""
    order = sorted(range(len(tiny.pods)), key=lambda pod: (pod not in tiny.stays, -tiny.pods[pod][0]))
    free = [list(amounts) for amounts in tiny.nodes]
    at = list(tiny.at)

    def place(index: int, left: int) -> Iterator[Places]:
        if index == len(order):
            yield tuple(at)
            return
        pod = order[index]
        gpus, cores = tiny.pods[pod]
        home = tiny.at[pod]
        for target in range(len(free)):
            room = free[target]
            if target != home and (not left or pod in tiny.stays):
                continue
            if room[0] < gpus or room[1] < cores:
                continue
            room[0] -= gpus
            room[1] -= cores
            at[pod] = target
            yield from place(index + 1, left - (target != home))
            room[0] += gpus
            room[1] += cores
        at[pod] = home

    return place(0, most)


def can_be_reached(tiny: Tiny, goal: Places) -> bool:
    """Whether some order of single moves leads there with room for each."""
    moving = [pod for pod in range(len(goal)) if goal[pod] != tiny.at[pod]]

    @cache
    def reach(done: frozenset[int]) -> bool:
        if len(done) == len(moving):
            return True
        free = tiny.free(tuple(goal[pod] if pod in done else tiny.at[pod] for pod in range(len(goal))))
        return any(
            all(amount <= room for amount, room in zip(tiny.pods[pod], free[goal[pod]], strict=True)) and reach(done | {pod})
            for pod in moving
            if pod not in done
        )

    return reach(frozenset())


def fewest(tiny: Tiny, score: Score, more: int = 1) -> int | None:
    """The fewest moves, of each pod one at most, that raise the score by so much; None if nothing does."""
    wanted = score(tiny, tiny.at) + more
    for moves in range(len(tiny.pods) + 1 if wanted <= score.most(tiny) else 0):
        for at in placements(tiny, moves):
            if score(tiny, at) >= wanted and can_be_reached(tiny, at):
                return moves
    return None


def planned(tiny: Tiny, solver: str, wish: dict[str, Any], *more: Object, limits: Limits | None = None) -> dict[str, Any]:
    rules = Rules(movable_singletons=True)
    return plan([*tiny.objects(), *more], PlanOptions(rules=rules, solver=solver, limits=limits or Limits(), **wish))


def played(tiny: Tiny, found: dict[str, Any]) -> Places:
    """Where everything is after the moves; each of them must find its pod, and room when its turn comes."""
    at = list(tiny.at)
    for wave in found["waves"]:
        for move in wave:
            one, source, target = int(move["pod"][1:]), int(move["from"][1:]), int(move["to"][1:])
            assert at[one] == tiny.at[one] == source != target
            assert one not in tiny.stays
            at[one] = target
            assert all(room >= 0 for amounts in tiny.free(tuple(at)) for room in amounts)
    assert found["evictions"] == sum(map(len, found["waves"]))
    return tuple(at)


def holds_gpus(tiny: Tiny, at: Places, number: int) -> bool:
    return any(where == number and gpus for (gpus, _cores), where in zip(tiny.pods, at, strict=True))


def told_truly(tiny: Tiny, found: dict[str, Any], at: Places) -> bool:
    """Whether the slots gained and the nodes freed are those that the moves make."""
    sources = {move["from"] for wave in found["waves"] for move in wave}
    freed = [f"n{n}" for n in range(len(tiny.nodes)) if f"n{n}" in sources and not holds_gpus(tiny, at, n)]
    gained = {str(size): Slots(size)(tiny, at) - Slots(size)(tiny, tiny.at) for size in (1, 2, 4, 8)}
    return (found["freed_nodes"], found["slots_gained"]) == (freed, gained)


@dataclass
class Tally:
    """How the heuristic does: the fewest evictions in all, how many more it took, and how often it found nothing."""

    fewest: int = 0
    more: int = 0
    plans: int = 0
    missed: int = 0

    def add(self, best: int | None, found: dict[str, Any]) -> None:
        if best is not None and found["waves"]:
            self.fewest, self.more, self.plans = self.fewest + best, self.more + found["evictions"] - best, self.plans + 1
        self.missed += best is not None and not found["waves"]

    def is_near(self) -> bool:
        print(f"{self.plans} plans, {self.more} evictions more than the fewest, {self.fewest}; {self.missed} not found")
        return self.more <= max(2, 0.02 * self.fewest) and self.missed <= max(2, 0.02 * self.plans)


def check(tiny: Tiny, found: dict[str, Any], best: int | None) -> None:
    """What every plan keeps that is to gain so much as takes these evictions at the fewest."""
    at = played(tiny, found)
    assert (found["verdict"] == "Recommended") == bool(found["waves"])
    if found["waves"]:
        assert best is not None
        assert found["lower_bound"] <= best <= found["evictions"]
        assert found["optimal"] == (found["lower_bound"] == found["evictions"])
        if found["objective"]["kind"] != "blocked_pods":
            assert told_truly(tiny, found, at)


@pytest.mark.parametrize(
    ("wish", "score"),
    [
        ({"kind": "slots", "slot_size": 2, "count": 1}, Slots(2)),
        ({"kind": "slots", "slot_size": 3, "count": 1}, Slots(3)),
        ({"kind": "slots", "slot_size": 4, "count": 1}, Slots(4)),
        ({"kind": "slots", "slot_size": 5, "count": 1}, Slots(5)),
        ({"kind": "slots", "slot_size": 6, "count": 1}, Slots(6)),
        ({"kind": "slots", "slot_size": 7, "count": 1}, Slots(7)),
        ({"kind": "slots", "slot_size": 8, "count": 1}, Slots(8)),
        ({"kind": "slots", "slot_size": 3, "count": 2}, Slots(3)),
        ({"kind": "slots", "slot_size": 4, "count": 2}, Slots(4)),
        ({"kind": "free_nodes", "count": 1}, EmptyNodes()),
        ({"kind": "free_nodes", "count": 2}, EmptyNodes()),
    ],
    ids=[*(f"a slot of {size}" for size in range(2, 9)), "two slots of 3", "two slots of 4", "a node", "two nodes"],
)
def test_the_exact_solver_takes_the_fewest_evictions_and_the_heuristic_hardly_more(wish: dict[str, Any], score: Score) -> None:
    tally = Tally()
    clusters = (Tiny.at_random(seed, cpu_pods=True) for seed in range(CLUSTERS))
    for tiny in (tiny for tiny in clusters if any(gpus for gpus, _cores in tiny.pods)):
        exact, quick = planned(tiny, "exact", wish), planned(tiny, "heuristic", wish)
        gained = score(tiny, played(tiny, exact)) - score(tiny, tiny.at)
        best = fewest(tiny, score, wish["count"])
        assert (gained >= wish["count"]) == (best is not None), tiny
        if best is None:
            # Less than was wished, the most that there is.
            best = fewest(tiny, score, gained) if gained else None
            assert fewest(tiny, score, gained + 1) is None, tiny
        assert exact["evictions"] == (best or 0), tiny
        assert exact["optimal"] == bool(exact["waves"]), tiny
        check(tiny, exact, best)
        if score(tiny, played(tiny, quick)) - score(tiny, tiny.at) == gained:
            check(tiny, quick, best)
            tally.add(best, quick)
        else:
            tally.missed += 1
    assert tally.plans > 0
    assert tally.is_near()


def test_room_for_a_blocked_pod_is_made_with_the_fewest_evictions() -> None:
    tally = Tally()
    for seed in range(3 * CLUSTERS):
        tiny, chance = Tiny.at_random(seed, cpu_pods=True), random.Random(seed)
        guest = chance.choice((2, 4, 8)), chance.randint(1, 8)
        score = Takers(guest)
        if score(tiny, tiny.at) or guest[0] > sum(gpus for gpus, _cores in tiny.free(tiny.at)):
            continue
        waiting = pod("guest", guest[0], requests={"cpu": str(guest[1])})
        best = fewest(tiny, score)
        for solver in ("exact", "heuristic"):
            found = planned(tiny, solver, {"kind": "blocked_pods"}, waiting)
            check(tiny, found, best)
            if found["waves"]:
                (placed,) = found["placed_pods"]
                room = tiny.free(played(tiny, found))[int(placed["node"][1:])]
                assert room[0] >= guest[0], tiny
                assert room[1] >= guest[1], tiny
        assert planned(tiny, "exact", {"kind": "blocked_pods"}, waiting)["evictions"] == (best or 0), tiny
        tally.add(best, found)
    assert tally.is_near()


def test_limits_never_leave_a_move_without_room() -> None:
    chance = random.Random(0)
    for seed in range(3 * CLUSTERS):
        limits = Limits(per_node=chance.choice((1, 2)), per_namespace=chance.choice((None, 2)), total=chance.choice((None, 3)))
        tiny = Tiny.at_random(seed, cpu_pods=True)
        found = planned(tiny, "heuristic", {"kind": "free_nodes"}, limits=limits)
        played(tiny, found)
        for wave in found["waves"]:
            sources = Counter(move["from"] for move in wave)
            assert max(sources.values()) <= (limits.per_node or 0)
            assert len(wave) <= min(limits.per_namespace or len(wave), limits.total or len(wave))
