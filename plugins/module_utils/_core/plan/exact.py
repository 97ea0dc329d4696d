# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The fewest evictions, proved, by OR-tools CP-SAT where it is installed.

Pods of one kind are interchangeable, so that a plan is told by how many of each kind leave and come to each node; who
goes where follows. That keeps the model small: twice the kinds times the nodes, not the pods times the nodes.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from math import floor
from typing import Any

from .moves import Outcome, paired
from .problem import Problem

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
    """

    outcome: Outcome | None
    optimal: bool
    impossible: bool
    bound: float


def available() -> bool:
    """Whether OR-tools can be imported."""
    return importlib.util.find_spec("ortools") is not None


def solve(problem: Problem, count: int, hint: Outcome | None, *, seconds: float, seed: int) -> Proof:
    """The cheapest moves that gain so much.

    Args:
        problem: The problem; its own count is not looked at.
        count: How much to gain.
        hint: Moves known before, to begin with.
        seconds: Time to spend at most. Work is limited too, and as a rule ends the search before, so that chance does not.
        seed: Of the solver's choices.
    """
    cp_model: Any = importlib.import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    leave: dict[tuple[int, int], Any] = {}
    come: dict[tuple[int, int], Any] = {}
    for number, kind in enumerate(problem.kinds):
        total = sum(map(len, kind.at.values()))
        for node, pods in kind.at.items():
            leave[number, node] = model.new_int_var(0, len(pods), f"leave_{number}_{node}")
        for node in kind.nodes:
            most = min(total - len(kind.at.get(node, ())), _most(problem, number, node))
            if most > 0:
                come[number, node] = model.new_int_var(0, most, f"come_{number}_{node}")
        model.add(sum(v for k, v in leave.items() if k[0] == number) == sum(v for k, v in come.items() if k[0] == number))
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
        gain = _gain(model, problem, node, going, arriving)
        if problem.gainers is not None and node not in problem.gainers and not isinstance(gain, int):
            model.add(gain <= 0)
        gains.append(gain)
    model.add(sum(gains) >= count)
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
    if status == cp_model.INFEASIBLE:
        return Proof(None, False, True, bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Proof(None, False, False, bound)
    moves = paired({k: solver.value(v) for k, v in leave.items()}, {k: solver.value(v) for k, v in come.items()})
    cost = sum(problem.kinds[move.kind].cost for move in moves)
    return Proof(Outcome(moves, count, cost), status == cp_model.OPTIMAL, False, bound)


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


def _hint(model: Any, hint: Outcome, leave: dict[tuple[int, int], Any], come: dict[tuple[int, int], Any]) -> None:
    gone: dict[tuple[int, int], int] = {}
    came: dict[tuple[int, int], int] = {}
    for move in hint.moves:
        gone[move.kind, move.source] = gone.get((move.kind, move.source), 0) + 1
        came[move.kind, move.target] = came.get((move.kind, move.target), 0) + 1
    for key, variable in leave.items():
        model.add_hint(variable, gone.get(key, 0))
    for key, variable in come.items():
        model.add_hint(variable, came.get(key, 0))
