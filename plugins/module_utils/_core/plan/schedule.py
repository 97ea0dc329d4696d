# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Moves in an order in which each is possible when its turn comes, and in waves that may be in flight together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType

from ..cluster.layout import Layout
from ..cluster.scheduling import Fit
from ..errors import InputError
from ..kube.model import Cluster, Pod
from .moves import Move
from .problem import Problem


@dataclass(frozen=True, slots=True)
class Limits:
    """Evictions that one cycle may make; None is no limit.

    Attributes:
        total: In all; 0 lets nothing go for now.
        interval_seconds: From one cycle to the next.
    """

    per_node: int | None = None
    per_namespace: int | None = None
    per_workload: int | None = None
    total: int | None = None
    interval_seconds: int = 300

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could ever be moved.

        Raises:
            InputError: A limit is below 1, or the total below 0; it names it.
        """
        for name in ("per_node", "per_namespace", "per_workload", "total", "interval_seconds"):
            value, least = getattr(self, name), 0 if name == "total" else 1
            if value is not None and value < least:
                raise InputError(f"is {value}; with less than {least} nothing could ever be moved", field=f"limits.{name}")


@dataclass(frozen=True, slots=True)
class PodMove:
    """One pod, the node it leaves and the node it goes to."""

    pod: Pod
    kind: int
    source: str
    target: str


def ordered(problem: Problem, moves: Iterable[Move]) -> list[PodMove] | None:
    """The moves in an order in which every prefix is feasible, nodes emptied one after the other; None if there is none.

    Of pods that are alike the first by name goes, so that the same input gives the same plan.
    """
    waiting = _sorted(problem, moves)
    free = [list(amounts) for amounts in problem.free]
    taken: Counter[tuple[int, int]] = Counter()
    done: list[PodMove] = []
    while waiting:
        left = []
        for move in waiting:
            demand = problem.kinds[move.kind].demand
            if all(amount <= have for amount, have in zip(demand, free[move.target], strict=True) if amount):
                for resource, amount in enumerate(demand):
                    free[move.source][resource] += amount
                    free[move.target][resource] -= amount
                pods = sorted(problem.kinds[move.kind].at[move.source], key=lambda pod: (pod.namespace, pod.name))
                pod = pods[taken[move.kind, move.source]]
                taken[move.kind, move.source] += 1
                done.append(PodMove(pod, move.kind, problem.names[move.source], problem.names[move.target]))
            else:
                left.append(move)
        if len(left) == len(waiting):
            return None
        waiting = left
    return done


def _sorted(problem: Problem, moves: Iterable[Move]) -> list[Move]:
    """The nodes that lose fewest pods first, from each the largest pod first."""
    listed = list(moves)
    leaving = Counter(move.source for move in listed)
    listed.sort(key=lambda m: (leaving[m.source], m.source, -problem.kinds[m.kind].demand[0], m.kind, m.target))
    return listed


Gangs = Mapping[int, str]
"""The gang of each pod that moves only with one, by ``id()``."""
NO_GANGS: Gangs = MappingProxyType({})


def units(moves: Iterable[PodMove], gangs: Gangs) -> Iterator[list[PodMove]]:
    """The moves one by one, but those of a gang, which stand next to each other, together."""
    for _gang, together in groupby(moves, lambda move: gangs.get(id(move.pod)) or id(move)):
        yield list(together)


def in_waves(
    cluster: Cluster,
    resource: str,
    moves: Sequence[PodMove],
    limits: Limits,
    begin: Callable[[], Callable[[Pod], bool]],
    gangs: Gangs = NO_GANGS,
) -> list[list[PodMove]] | None:
    """The moves in waves, the largest pods of each first; None where the scheduler's rules let no waves hold them all.

    In a wave each move is possible while none of the others has begun, and when all of them are done: so in flight they
    may overtake each other.

    Args:
        cluster: As it is before the first move.
        resource: The GPU resource.
        moves: In an order in which every prefix is feasible, the members of a gang next to each other.
        limits: Evictions allowed in one wave.
        begin: Begins a wave and gives back what asks, and counts, whether the budgets allow one more eviction in it.
        gangs: All members of a gang go in one wave.
    """
    told = list(units(moves, gangs))
    waves = _waves(cluster, resource, told, limits, begin, gangs, overtaking=True)
    # Where pods have rules about one another, one that overtook may stand in another's way; in their order none does.
    return waves if waves is not None else _waves(cluster, resource, told, limits, begin, gangs, overtaking=False)


def _waves(
    cluster: Cluster,
    resource: str,
    waiting: list[list[PodMove]],
    limits: Limits,
    begin: Callable[[], Callable[[Pod], bool]],
    gangs: Gangs,
    *,
    overtaking: bool,
) -> list[list[PodMove]] | None:
    """Waves; None if there came none in which the rest could go on."""
    layout, crowded = Layout(cluster), Layout(cluster)
    waves = []
    while waiting:
        allows = begin()
        within = Allowance(limits, gangs)
        going: list[list[PodMove]] = []
        left: list[list[PodMove]] = []
        for unit in waiting:
            # In the crowd all that leave in this wave are still where they were, and what waits has its place already: so
            # nothing that overtakes takes it.
            may_go = (overtaking or not left) and within.lacks(unit) is None
            for move in unit:
                may_go = may_go and _is_taken(crowded, resource, move)
                crowded.add(move.pod, move.target)
            if may_go and all(allows(move.pod) for move in unit):
                within.count(unit)
                going.append(unit)
            else:
                left.append(unit)
        # One alone is what is left where several would disturb each other.
        done = _made(layout, resource, going) or _made(layout, resource, going[:1])
        if not done:
            return None
        chosen = {id(move) for move in done}
        for unit in waiting:
            for move in unit:
                crowded.remove(move.pod, move.source if id(move) in chosen else move.target)
        waves.append(done)
        waiting = [unit for unit in waiting if id(unit[0]) not in chosen]
    return waves


def _by_size(move: PodMove, resource: str) -> tuple[int, str, str]:
    return -move.pod.requests.get(resource, 0), move.pod.namespace, move.pod.name


def _is_taken(layout: Layout, resource: str, move: PodMove) -> bool:
    return not Fit(move.pod, layout, resource).refusals(layout.cluster.nodes[move.target])


def _made(layout: Layout, resource: str, going: Sequence[list[PodMove]]) -> list[PodMove]:
    """The moves of a wave in the order that they are told in, made in the layout; none where they disturb each other."""
    listed = [move for unit in going for move in unit]
    for wave in (sorted(listed, key=lambda move: _by_size(move, resource)), listed):
        if refused_at_once(layout, resource, wave) is None and _one_by_one(layout, resource, wave):
            return wave
    return []


def refused_at_once(layout: Layout, resource: str, moves: Sequence[PodMove]) -> PodMove | None:
    """The first of the moves that is refused while all are still where they were, the earlier ones at their new places too."""
    came: list[PodMove] = []
    refused = None
    for move in moves:
        if not _is_taken(layout, resource, move):
            refused = move
            break
        layout.add(move.pod, move.target)
        came.append(move)
    for move in came:
        layout.remove(move.pod, move.target)
    return refused


def _one_by_one(layout: Layout, resource: str, wave: list[PodMove]) -> bool:
    """Make the moves one after the other; whether each is taken then, and also if it comes last. If not, none is made."""
    made: list[PodMove] = []
    for move in wave:
        if not _is_taken(layout, resource, move):
            break
        layout.move(move.pod, move.source, move.target)
        made.append(move)
    if len(made) == len(wave) and all(_comes_last(layout, resource, move) for move in wave):
        return True
    for move in reversed(made):
        layout.move(move.pod, move.target, move.source)
    return False


def _comes_last(layout: Layout, resource: str, move: PodMove) -> bool:
    with layout.without(move.pod, move.target):
        return _is_taken(layout, resource, move)


@dataclass(slots=True)
class Allowance:
    """What the limits still allow in a wave. A gang counts as one eviction of its workload, whatever its pods are of."""

    limits: Limits
    gangs: Gangs
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def lacks(self, unit: Sequence[PodMove]) -> str | None:
        """The name of the first limit that the moves would pass; None if they are within all."""
        told = self._counted(unit)
        for name in ("total", "per_node", "per_namespace", "per_workload"):
            most = getattr(self.limits, name)
            if most is not None and any(self.counts[key] + n > most for key, n in told.items() if key[0] == name):
                return name
        return None

    def count(self, unit: Sequence[PodMove]) -> None:
        """Count moves that go in this wave."""
        self.counts.update(self._counted(unit))

    def _counted(self, unit: Sequence[PodMove]) -> Counter[tuple[str, ...]]:
        told: Counter[tuple[str, ...]] = Counter()
        for move in unit:
            told.update((("total",), ("per_node", move.source), ("per_namespace", move.pod.namespace)))
        for move in unit:
            owner = move.pod.owner.uid or str(move.pod.owner) if move.pod.owner else move.pod.name
            gang = self.gangs.get(id(move.pod))
            workload = ("per_workload", gang) if gang else ("per_workload", move.pod.namespace, owner)
            told[workload] = 1 if gang else told[workload] + 1
        return told
