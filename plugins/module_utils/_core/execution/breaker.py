# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""When a run ends before its time, which leaves a cluster in which all pods have room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .landing import Landing

PAUSE = "gpuops.io/pause"
"""Annotation on the state's ConfigMap or on the namespace kube-system: any value but "false" pauses."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares of a wave's moves.

    Attributes:
        strays: How many may land elsewhere.
        unready: How many may not become Ready in time.
    """

    strays: float = 0.2
    unready: float = 0.1


def paused(annotations: Mapping[str, Mapping[str, str]]) -> str | None:
    """Where a user asks for a pause.

    Args:
        annotations: By the name of the object that has them.
    """
    for where, found in annotations.items():
        if PAUSE in found and found[PAUSE] != "false":
            return f'{where} has the annotation {PAUSE}: "{found[PAUSE]}"'
    return None


def tripped(landings: Sequence[Landing], moves: int, bounds: Bounds) -> tuple[str, str] | None:
    """The verdict and the reason that end a wave; None while all is well enough.

    Args:
        landings: What came of the moves so far.
        moves: How many the wave has.
        bounds: The shares of them.
    """
    strays = sum(landing.stray for landing in landings)
    late = sum(landing.over and not landing.ready for landing in landings)
    if strays > bounds.strays * moves:
        return "Strays", f"{strays} of {moves} landed elsewhere than planned, more than {bounds.strays:.0%}"
    if late > bounds.unready * moves:
        return "NotReady", f"{late} of {moves} were not Ready in time, more than {bounds.unready:.0%}"
    return None
