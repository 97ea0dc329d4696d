# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The fewest evictions, proved, by OR-tools CP-SAT where it is installed.

Pods of one kind are interchangeable, so that a plan is told by how many of each kind leave and come to each node; who
goes where follows. That keeps the model small: twice the kinds times the nodes, not the pods times the nodes.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from .moves import Outcome, paired
from .problem import Cap, Problem

Counts = dict[tuple[int, int], Any]
"""Variables by (kind, node)."""

WORK = 0.3
"""Work that the solver is given for each second of its time, in its own unit, which is the same on every machine. Machines of
today do 0.3 to 0.5 a second, so that it is work, not the clock, that ends a search: the same input gives the same plan."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the solver found.

    Attributes:
        outcome: The moves; None where the goal cannot be reached, or nothing was found in time.
        optimal: No plan costs less.
        impossible: It is proved that the goal cannot be reached.
        bound: No plan costs less than this.
        work: What was spent, as a share of the time that was given.
        guests: Where the guests go: (kind, node) for each.
    """

    outcome: Outcome | None
    optimal: bool
    impossible: bool
    bound: float
    work: float
    guests: tuple[tuple[int, int], ...] = ()


def available() -> bool:
    """Whether OR-tools can be imported."""
    return importlib.util.find_spec("ortools") is not None


def solve(problem: Problem, count: int, hint: Outcome | None, *, seconds: float, seed: int, most: int | None = None) -> Proof:
    """The cheapest moves that gain so much, and let all guests in.

    Args:
        problem: The problem; its own count is not looked at.
        count: How much to gain.
        hint: Moves known before, to begin with.
        seconds: Time to spend at most. Work is limited too, and as a rule ends the search before, so that chance does not.
        seed: Of the solver's choices.
        most: No more evictions than these; None for no such limit.
    """
    cp_model: Any = importlib.import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    leave: Counts = {}
    come: Counts = {}
    for number, kind in enumerate(problem.kinds):
        total = sum(map(len, kind.at.values())) + len(kind.guests)
        for node, pods in kind.at.items():
            leave[number, node] = model.new_int_var(0, len(pods), f"leave_{number}_{node}")
        # Who comes to a node that one like it has left is one that stays: none of a gang that goes.
        for node in sorted(kind.nodes - kind.at.keys() if kind.gang else kind.nodes):
            fitting = min(total - len(kind.at.get(node, ())), _most(problem, number, node))
            if fitting > 0:
                come[number, node] = model.new_int_var(0, fitting, f"come_{number}_{node}")
        left = sum(variable for (each, _node), variable in leave.items() if each == number)
        model.add(left + len(kind.guests) == sum(variable for (each, _node), variable in come.items() if each == number))
    gangs: dict[str, Any] = {}
    for (number, node), variable in leave.items():
        kind = problem.kinds[number]
        if kind.gang is not None:
            goes = gangs.setdefault(kind.gang, model.new_bool_var(f"gang_{kind.gang}"))
            model.add(variable == len(kind.at[node]) * goes)
    changes: dict[int, list[tuple[int, Any]]] = {}
    for variables, sign in ((come, 1), (leave, -1)):
        for (number, node), variable in variables.items():
            changes.setdefault(number, []).append((node, sign * variable))
    for cap in problem.caps:
        _limit(model, cap, changes)
    leaving: dict[int, list[tuple[int, Any]]] = {}
    coming: dict[int, list[tuple[int, Any]]] = {}
    for (number, node), variable in leave.items():
        leaving.setdefault(node, []).append((number, variable))
    for (number, node), variable in come.items():
        coming.setdefault(node, []).append((number, variable))
    gains = []
    for node, free in enumerate(problem.free):
        going, arriving = leaving.get(node, []), coming.get(node, [])
        if not going and not arriving:
            continue
        for resource, have in enumerate(free):
            taken = sum(problem.kinds[k].demand[resource] * v for k, v in arriving)
            given = sum(problem.kinds[k].demand[resource] * v for k, v in going)
            if arriving:
                # Where more is taken than there is, nothing may come until enough has gone; leaving alone is always allowed.
                if have >= 0:
                    model.add(taken <= have + given)
                else:
                    some = model.new_bool_var(f"comes_{node}_{resource}")
                    model.add(sum(v for k, v in arriving if problem.kinds[k].demand[resource]) == 0).only_enforce_if(
                        some.negated()
                    )
                    model.add(taken <= have + given).only_enforce_if(some)
        if count:
            gain = _gain(model, problem, node, going, arriving)
            if problem.gainers is not None and node not in problem.gainers and not isinstance(gain, int):
                model.add(gain <= 0)
            gains.append(gain)
    if count:
        model.add(sum(gains) >= count)
    if most is not None:
        model.add(sum(leave.values()) <= most)
    scale = 1000
    # No move is free, or pods would be moved for nothing.
    model.minimize(sum(max(1, round(problem.kinds[k].cost * scale)) * v for (k, _node), v in leave.items()))
    if hint:
        _hint(model, hint, leave, come)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = WORK * seconds
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = seed
    # One worker: with several, which of equal plans is found depends on chance.
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    bound = solver.best_objective_bound / scale
    work = solver.response_proto.deterministic_time / WORK
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Proof(None, False, status == cp_model.INFEASIBLE, bound, work)
    moves, guests = paired({k: solver.value(v) for k, v in leave.items()}, {k: solver.value(v) for k, v in come.items()})
    cost = sum(problem.kinds[move.kind].cost for move in moves)
    return Proof(Outcome(moves, count, cost), status == cp_model.OPTIMAL, False, bound, work, tuple(guests))


def _limit(model: Any, cap: Cap, changes: Mapping[int, list[tuple[int, Any]]]) -> None:
    """No more pods come to a domain than it takes, and than leave it."""
    by_domain: dict[str, list[Any]] = {}
    for kind in sorted(cap.kinds):
        for node, change in changes.get(kind, ()):
            if (domain := cap.domains[node]) is not None:
                by_domain.setdefault(domain, []).append(change)
    for domain, found in by_domain.items():
        limit = cap.limit(domain)
        if limit is not None:
            model.add(sum(found) <= limit)


def _most(problem: Problem, kind: int, node: int) -> int:
    """So many pods of a kind an empty node could hold at most; what must stay on it is not looked at."""
    demand = problem.kinds[kind].demand
    held = problem.held[node]
    room = [
        max(0, free) + sum(problem.kinds[k].demand[r] * n for k, n in held.items()) for r, free in enumerate(problem.free[node])
    ]
    return min(floor(have / amount) for have, amount in zip(room, demand, strict=True) if amount)


def _gain(model: Any, problem: Problem, node: int, going: list[tuple[int, Any]], arriving: list[tuple[int, Any]]) -> Any:
    """What a node gains: slots more or fewer than now, or 1 for being emptied and -1 for being free no more.

    If the gain is room for one pod: 1 for having it.
    """
    if problem.needs:
        has_room = model.new_bool_var(f"has_room_{node}")
        for resource, (have, need) in enumerate(zip(problem.free[node], problem.needs, strict=True)):
            given = sum(problem.kinds[k].demand[resource] * v for k, v in going)
            taken = sum(problem.kinds[k].demand[resource] * v for k, v in arriving)
            if need:
                model.add(have + given - taken >= need).only_enforce_if(has_room)
        return has_room
    if size := problem.goal.slot_size:
        gpus = problem.free[node][0]
        now = problem.slots(gpus)
        most = (max(0, gpus) + sum(problem.kinds[k].demand[0] * n for k, n in problem.held[node].items())) // size
        gain = model.new_int_var(-now, most - now, f"gain_{node}")
        change = sum(problem.kinds[k].demand[0] * v for k, v in going) - sum(problem.kinds[k].demand[0] * v for k, v in arriving)
        model.add(size * (gain + now) <= max(0, gpus) + change)
        return gain
    if node in problem.bare:
        used = model.new_bool_var(f"used_{node}")
        for _kind, variable in arriving:
            model.add(variable == 0).only_enforce_if(used.negated())
        return -used
    if node in problem.stuck:
        return 0
    emptied = model.new_bool_var(f"emptied_{node}")
    for kind, variable in going:
        model.add(variable == problem.held[node][kind]).only_enforce_if(emptied)
    for _kind, variable in arriving:
        model.add(variable == 0).only_enforce_if(emptied)
    return emptied


def _hint(model: Any, hint: Outcome, leave: Counts, come: Counts) -> None:
    gone: dict[tuple[int, int], int] = {}
    came: dict[tuple[int, int], int] = {}
    for move in hint.moves:
        gone[move.kind, move.source] = gone.get((move.kind, move.source), 0) + 1
        came[move.kind, move.target] = came.get((move.kind, move.target), 0) + 1
    for key, variable in leave.items():
        model.add_hint(variable, gone.get(key, 0))
    for key, variable in come.items():
        model.add_hint(variable, came.get(key, 0))
