# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a solver answers: moves by number, and what they gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Counts = Mapping[tuple[int, int], int]
"""Pods by (kind, node)."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod of a kind goes from a node to another, all by number."""

    kind: int
    source: int
    target: int


@dataclass(slots=True)
class Outcome:
    """Moves, in no order, and what they gain."""

    moves: list[Move]
    gained: int
    cost: float


def paired(left: Counts, came: Counts) -> tuple[list[Move], list[tuple[int, int]]]:
    """Who goes where: pods of a kind are alike, so any pairing of those that leave with those that come will do.

    Returns:
        The moves; and of those that come from nowhere, as guests do, the kind and the node of each.
    """
    moves: list[Move] = []
    guests: list[tuple[int, int]] = []
    for number in sorted({kind for kind, _node in (*left, *came)}):
        out = {node: n for (kind, node), n in left.items() if kind == number and n}
        into = {node: n for (kind, node), n in came.items() if kind == number and n}
        # One that leaves a node and one that comes to it are the same pod that stays.
        for node in out.keys() & into.keys():
            both = min(out[node], into[node])
            out[node] -= both
            into[node] -= both
        sources = [node for node in sorted(out) for _pod in range(out[node])]
        targets = [node for node in sorted(into) for _pod in range(into[node])]
        moves += [Move(number, source, target) for source, target in zip(sources, targets, strict=False)]
        guests += [(number, target) for target in targets[len(sources) :]]
    return moves, guests
