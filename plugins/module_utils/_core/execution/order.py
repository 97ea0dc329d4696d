# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A plan as it comes back: the moves to make, and under which rules they were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..kube.decode import epoch
from ..plan.evictable import Rules
from ..plan.result import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Move:
    """One pod is to leave its node; the one that comes in its place is to go to another."""

    namespace: str
    pod: str
    uid: str
    owner: str
    gpus: int
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"

    def told(self) -> dict[str, Any]:
        """As a plan tells it."""
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "uid": self.uid,
            "owner": self.owner,
            "gpus": self.gpus,
            "from": self.source,
            "to": self.target,
        }


@dataclass(frozen=True, slots=True)
class Order:
    """A plan to carry out.

    Attributes:
        verdict: The plan's own.
        made: When the cluster was read that it is for, in seconds since 1970; None where that was not known.
        interval: Seconds from one wave to the next.
        slot: GPUs of the slots that it gains; None where it gains whole nodes.
    """

    plan_id: str
    verdict: str
    resource: str
    waves: tuple[tuple[Move, ...], ...]
    made: float | None
    rules: Rules
    interval: float
    freed_nodes: tuple[str, ...]
    slots_gained: Mapping[str, int]
    slot: int | None = None


_TEXT = ("namespace", "pod", "uid", "from", "to")
_RULES = {
    "movable_singletons": bool,
    "movable_gangs": bool,
    "movable_local_storage": bool,
    "movable_not_ready": bool,
}


def read_order(raw: Mapping[str, Any]) -> Order:
    """The order that a plan of ``gpu_defrag_plan`` gives.

    Raises:
        InputError: It is no such plan; it names the field.
    """
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"is {version!r}, not {SCHEMA_VERSION}; give the plan as gpu_defrag_plan returns it", field="plan.schema_version"
        )
    as_of = _get(raw, "as_of", str | None, "plan")
    limits = _get(raw, "limits", dict, "plan")
    waves = _get(raw, "waves", list, "plan")
    objective = _get(raw, "objective", dict, "plan")
    return Order(
        plan_id=_get(raw, "plan_id", str, "plan"),
        verdict=_get(raw, "verdict", str, "plan"),
        resource=_get(raw, "resource_name", str, "plan"),
        waves=tuple(tuple(_moves(wave, f"plan.waves[{number}]")) for number, wave in enumerate(waves)),
        made=None if as_of is None else _moment(as_of),
        rules=_rules(_get(raw, "rules", dict, "plan")),
        interval=float(_get(limits, "interval_seconds", int, "plan.limits")),
        freed_nodes=tuple(_get(raw, "freed_nodes", list, "plan")),
        slots_gained=_get(raw, "slots_gained", dict, "plan"),
        slot=None if objective.get("kind") == "free_nodes" else _get(objective, "slot_size", int, "plan.objective"),
    )


def _moves(wave: Any, field: str) -> list[Move]:
    if not isinstance(wave, list):
        raise InputError(f"is {type(wave).__name__}, not a list of moves", field=field)
    found = []
    for number, move in enumerate(wave):
        where = f"{field}[{number}]"
        if not isinstance(move, Mapping):
            raise InputError(f"is {type(move).__name__}, not a move", field=where)
        namespace, pod, uid, source, target = (_get(move, key, str, where) for key in _TEXT)
        owner, gpus = _get(move, "owner", str | None, where), _get(move, "gpus", int, where)
        found.append(Move(namespace, pod, uid, owner or "", gpus, source, target))
    return found


def _rules(raw: Mapping[str, Any]) -> Rules:
    wished = {name: _get(raw, name, kind, "plan.rules") for name, kind in _RULES.items()}
    return Rules(
        **wished,
        min_pod_age=float(_get(raw, "min_pod_age", float | int, "plan.rules")),
        priority_threshold=_get(raw, "priority_threshold", int | None, "plan.rules"),
        protect=tuple(_get(raw, "protect", list, "plan.rules")),
        surging=frozenset(_get(raw, "make_before_break", list, "plan.rules")),
        budgets_required=True,
    )


def _get(raw: Mapping[str, Any], key: str, kind: Any, field: str) -> Any:
    value = raw.get(key)
    # YAML and JSON know booleans, which Python takes for numbers.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        told = "is missing" if key not in raw else f"is {type(value).__name__}"
        raise InputError(f"{told}; give the plan as gpu_defrag_plan returns it", field=f"{field}.{key}")
    return value


def _moment(text: str) -> float:
    try:
        return epoch(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time", field="plan.as_of") from None
