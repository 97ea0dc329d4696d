# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as ``gpu_defrag_plan`` returns them, for small clusters and moves that a test names itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import HOSTILE, held, pod

Move = tuple[str, str]  # a pod "gpu-0-1", and the node it goes to
Stay = tuple[str, str, str]  # a pod, and why it stays: the reason and the sentence
LIMITS = {"per_node": None, "per_namespace": None, "per_workload": None, "total": None, "interval_seconds": 300}


def planned(
    layouts: Iterable[str],
    *waves: Sequence[Move],
    place: Sequence[Move] = (),
    lack: Sequence[Stay] = (),
    stays: Sequence[Stay] = (),
    more: Sequence[dict[str, Any]] = (),
    objective: tuple[str, int, int | str] = ("slots", 8, "max"),
    details: bool = True,
    **fields: Any,
) -> dict[str, Any]:
    """The plan of such moves on nodes "gpu-0", "gpu-1", … and on ``more`` objects.

    Args:
        layouts: As :func:`clusters.held` reads them; pods are named by their node and place, "gpu-0-1".
        waves: Moves.
        place: Pending pods of ``more`` that get a node.
        lack: Blocked pods of ``more`` that get none.
        stays: Pods that must stay.
        more: Objects besides.
        objective: Kind, slot size and count.
        details: With the nodes before and after.
        fields: What is otherwise in the plan than it follows from the moves.
    """
    objects = [found for i, layout in enumerate(layouts) for found in held(layout, f"gpu-{i}")] + list(more)
    targets = dict(move for wave in (*waves, place) for move in wave)
    moved = [_on(found, targets.get(found["metadata"]["name"])) for found in objects]
    before, after = (_audit(state) for state in (objects, moved))
    known = {found["metadata"]["name"]: found for found in objects}
    plan = {
        "schema_version": 1,
        "plan_id": "p-0123456789abcdef",
        "verdict": "Recommended",
        "message": f"{len([m for wave in waves for m in wave])} evictions in {len(waves)} waves gain something",
        "resource_name": before["resource_name"],
        "objective": dict(zip(("kind", "slot_size", "count"), objective, strict=True)),
        "solver": "heuristic",
        "before": _measures(before),
        "after": _measures(after),
        "waves": [[_move(known[name], node) for name, node in wave] for wave in waves],
        "evictions": sum(map(len, waves)),
        "cost_seconds": 180.0 * sum(map(len, waves)),
        "freed_nodes": _freed(before, after),
        "slots_gained": {size: after["slots"][size] - before["slots"][size] for size in before["slots"]},
        "placed_pods": [_named(known[name]) | {"node": node} for name, node in place],
        "unplaced": [_named(known[name]) | {"reason": reason, "detail": detail} for name, reason, detail in lack],
        "lower_bound": sum(map(len, waves)),
        "optimal": bool(waves),
        "skipped": [
            _named(known[name]) | {"node": known[name]["spec"]["nodeName"], "reason": reason, "detail": detail}
            for name, reason, detail in stays
        ],
        "nodes_kept": [],
        "limits": LIMITS,
        "notes": [],
    }
    if details:
        plan["details"] = {"nodes": _nodes(before, after)}
    return plan | fields


def _audit(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return audit([{"kind": "List", "items": list(objects)}], AuditOptions(slot_size=8), details=True)


def _on(found: dict[str, Any], node: str | None) -> dict[str, Any]:
    if node is None:
        return found
    return found | {"spec": found["spec"] | {"nodeName": node}, "status": {"phase": "Running"}}


def _measures(audited: dict[str, Any]) -> dict[str, Any]:
    left_out = {"details", "pools", "gpus_unhealthy", "notes", "cost", "node_free"}
    kept = {key: value for key, value in audited.items() if key not in left_out}
    return kept | {"blocked_pods": len(audited["blocked_pods"])}


def _named(found: dict[str, Any]) -> dict[str, Any]:
    (container,) = found["spec"]["containers"]
    (gpus,) = container["resources"]["requests"].values()
    return {"namespace": found["metadata"]["namespace"], "pod": found["metadata"]["name"], "gpus": int(gpus)}


def _move(found: dict[str, Any], node: str) -> dict[str, Any]:
    more = {"uid": found["metadata"]["uid"], "owner": "ReplicaSet/llm", "from": found["spec"]["nodeName"], "to": node}
    return _named(found) | more


def _freed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    holders = {node["node"]: node["holders"] for node in after["details"]["nodes"]}
    return [node["node"] for node in before["details"]["nodes"] if node["holders"] and not holders[node["node"]]]


def _nodes(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    later = {node["node"]: node for node in after["details"]["nodes"]}
    return [
        {key: node[key] for key in ("node", "pool", "gpus")}
        | {"free_before": node["free"], "free_after": later[node["node"]]["free"]}
        | {"before": _pods(node), "after": _pods(later[node["node"]])}
        for node in before["details"]["nodes"]
    ]


def _pods(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: holder[key] for key in ("namespace", "pod", "gpus")} for holder in node["holders"]]


def nothing(verdict: str, message: str, layouts: Iterable[str] = ("8: 4+2", "8: 8"), **more: Any) -> dict[str, Any]:
    """A plan without moves, and why."""
    return planned(layouts, verdict=verdict, message=message, **more)


def simple(**more: Any) -> dict[str, Any]:
    """Three nodes, of which two waves free one and gain a slot of 8 GPUs."""
    moves = ([("gpu-0-0", "gpu-1")], [("gpu-0-1", "gpu-2")])
    message = "2 evictions in 2 waves gain 1 slot of 8 GPUs"
    return planned(["8: 4+1", "8: 4", "8: 4+2", "8: 8"], *moves, message=message, **more)


def hostile() -> dict[str, Any]:
    """A plan whose every name and sentence is an attack on a terminal or a page."""
    name = f"={HOSTILE}"
    nodes = [found for which in "abc" for found in held("8: 2+1", name + which, product=HOSTILE)]
    pending = pod(HOSTILE, 8, namespace=HOSTILE)
    return planned(
        ["8: 4"],
        [(f"{name}a-0", f"{name}b"), (f"{name}a-1", f"{name}c")],
        place=[(HOSTILE, f"{name}a")],
        lack=[(HOSTILE, HOSTILE, HOSTILE)],
        stays=[("gpu-0-0", HOSTILE, HOSTILE)],
        more=[*nodes, pending],
        message=HOSTILE,
        verdict=HOSTILE,
        solver=HOSTILE,
        plan_id=HOSTILE,
        nodes_kept=[{"node": name, "reason": HOSTILE}],
        notes=[HOSTILE],
    )


def long_names() -> dict[str, Any]:
    """A plan whose names are as long as Kubernetes allows."""
    node = "n" * 249
    nodes = [found for which in "ab" for found in held("16: 8+4", f"{node}-{which}", product="P" * 63)]
    nodes = [found for found in nodes if found["metadata"]["name"] != f"{node}-a-0"]
    return planned(
        ["8: 4"],
        [(f"{node}-a-1", f"{node}-b")],
        place=[("w" * 253, f"{node}-a")],
        lack=[("w" * 253, "NoRoom", f"needs 16 GPUs; pool {'P' * 63} has 8 free, no moves make room for it: 3 Taint")],
        stays=[(f"{node}-b-0", "SingleReplica", f"ReplicaSet {'s' * 63}/{'r' * 253} wants 1")],
        more=[*nodes, pod("w" * 253, 16, namespace="s" * 63)],
        nodes_kept=[{"node": f"{node}-b", "reason": f"{'s' * 63}/{'p' * 253} stays: it is not ready"}],
        notes=["x" * 300],
    )


def large(nodes: int) -> dict[str, Any]:
    """A plan for so many nodes: of each five the last is emptied into the others, a wave for each hundred."""
    seed = planned(
        ["8: 2+1", "8: 4+1", "8: 4+2", "8: 8", "8: 1+1+1"],
        [("gpu-4-0", "gpu-0"), ("gpu-4-1", "gpu-1"), ("gpu-4-2", "gpu-2")],
        stays=[("gpu-3-0", "Budget", "PodDisruptionBudget team/llm allows 0 disruptions (1 healthy, 1 needed)")],
    )
    times = nodes // 5
    moves = [_numbered(move, i) for i in range(times) for move in seed["waves"][0]]
    waves = [moves[start : start + 300] for start in range(0, len(moves), 300)]
    return seed | {
        "message": f"{len(moves)} evictions in {len(waves)} waves gain {times} slots of 8 GPUs",
        "before": seed["before"] | {"nodes": nodes},
        "waves": waves,
        "evictions": len(moves),
        "lower_bound": len(moves) - 1,
        "optimal": False,
        "freed_nodes": [f"gpu-4-{i:05}" for i in range(times)],
        "skipped": [_numbered(pod, i) for i in range(times) for pod in seed["skipped"]],
        "nodes_kept": [{"node": f"gpu-3-{i:05}", "reason": f"team/gpu-3-0-{i:05} stays"} for i in range(times)],
        "details": {"nodes": [_numbered(node, i) for i in range(times) for node in seed["details"]["nodes"]]},
    }


def _numbered(named: dict[str, Any], number: int) -> dict[str, Any]:
    """A node, pod or move with a number after every name."""
    numbered = {key: f"{named[key]}-{number:05}" for key in ("node", "pod", "from", "to") if key in named}
    holders = {when: [_numbered(holder, number) for holder in named[when]] for when in ("before", "after") if when in named}
    return named | numbered | holders


PLANS = {
    "simple": simple(),
    "frees nodes": simple(objective=("free_nodes", 8, 1)),
    "places a pod": simple(objective=("blocked_pods", 8, "max"), more=[pod("big", 8)], place=[("big", "gpu-0")]),
    "places without moves": planned(["8: 4", "8: "], more=[pod("big", 8)], place=[("big", "gpu-1")]),
    "nothing fragmented": nothing("NoFragmentation", "2 GPUs lie outside slots of 8: too few for one more"),
    "below the goal": nothing("BelowGoal", "the plan frees 1 node, fewer than the 3 that make it worth while"),
    "blocked": nothing(
        "Blocked",
        "nothing can be gained: 3 of 3 GPU pods must stay",
        stays=[("gpu-0-0", "SingleReplica", "ReplicaSet team/llm wants 1"), ("gpu-0-1", "NotReady", "it is not ready")],
    ),
    "blocked for all reasons": nothing(
        "Blocked",
        "nothing can be gained: 1 of 3 pods must stay, no node takes 2 (InsufficientGPU, OtherProduct)",
        objective=("free_nodes", 8, "max"),
        stays=[
            ("gpu-0-0", "NoDestination", "no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint"),
            ("gpu-0-1", "NoDestination", "no node takes it: 3 OtherProduct, 2 InsufficientGPU, 1 Taint"),
            ("web", "BarePod", "it has no controller that would bring it back"),
        ],
        more=[_on(pod("web", 0), "gpu-0")],
        nodes_kept=[{"node": "gpu-0", "reason": "team/web stays: it has no controller; 2 more of its pods stay too"}],
    ),
    "blocked pods get no place": nothing(
        "Blocked",
        "no moves make room for any of the 2 blocked pods: 1 NoRoom, 1 ResourceClaim",
        objective=("blocked_pods", 8, "max"),
        more=[pod("large", 8), pod("small", 4)],
        lack=[
            ("large", "NoRoom", "needs 8 GPUs; pool A100 has 2 free, at most 2 on one node; no moves make room for it: 2 Taint"),
            ("small", "ResourceClaim", "it asks for devices by resource claim nic; where there are such is not looked at"),
        ],
    ),
    "not applicable": nothing("NotApplicable", "the input holds no node; dump nodes and pods together", layouts=()),
    "all full": nothing("NoFragmentation", "every node is full or empty", layouts=["8: 8"]),
    "no details": simple(details=False),
    "MIG slices": planned(["56: 7+1", "56: 7+7"], [("gpu-0-1", "gpu-1")]),
    "an absurd request": planned(["1000000000000: 1000000000", "8: 4", "8: 4"], [("gpu-1-0", "gpu-2")]),
    "1,213 nodes": large(1213),
    "12,130 nodes": large(12130),
    "long names": long_names(),
    "hostile names": hostile(),
}
