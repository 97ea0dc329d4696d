# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A plan as plain data: what the module returns, carries out and the report reads."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from ..audit.result import as_result as as_audit
from ..kube.model import Pod
from .planner import Plan

SCHEMA_VERSION = 1


def as_result(plan: Plan, *, details: bool = False) -> dict[str, Any]:
    """The ``plan`` of a result: plain types, sorted, sizes as strings; same plan, same bytes.

    Args:
        plan: The plan.
        details: With what every node holds before and after, for the report.
    """
    wish = plan.options
    resource = wish.audit.resource
    before, after = (_measures(as_audit(found)) for found in (plan.before, plan.after))
    sources = {move.source for move in plan.moves}
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "plan_id": plan.plan_id,
        "as_of": None if plan.made is None else _time(plan.made),
        "verdict": plan.verdict,
        "message": plan.message,
        "resource_name": resource,
        "objective": {
            "kind": wish.kind,
            "slot_size": wish.slot_size,
            "count": "max" if wish.count is None else wish.count,
        },
        "solver": plan.solver,
        "before": before,
        "after": after,
        "waves": [
            [
                {
                    "namespace": move.pod.namespace,
                    "pod": move.pod.name,
                    "uid": move.pod.uid,
                    "owner": str(move.pod.owner) if move.pod.owner else None,
                    "gpus": move.pod.requests.get(resource, 0),
                    "from": move.source,
                    "to": move.target,
                }
                for move in wave
            ]
            for wave in plan.waves
        ],
        "evictions": len(plan.moves),
        "cost_seconds": plan.cold_start,
        "freed_nodes": sorted(n.node.name for n in plan.after.survey.nodes if n.node.name in sources and not n.pods),
        "slots_gained": {size: after["slots"][size] - before["slots"][size] for size in before["slots"]},
        "placed_pods": [
            {"namespace": pod.namespace, "pod": pod.name, "gpus": pod.requests[resource], "node": node}
            for pod, node in plan.wanted
        ],
        "unplaced": [
            {
                "namespace": lack.pod.namespace,
                "pod": lack.pod.name,
                "gpus": lack.pod.requests[resource],
                "reason": str(lack.reason),
                "detail": lack.detail,
            }
            for lack in plan.unplaced
        ],
        "lower_bound": plan.bound,
        "optimal": plan.proved and plan.bound == len(plan.moves),
        "skipped": [
            {
                "namespace": pod.namespace,
                "pod": pod.name,
                "node": pod.node,
                "gpus": pod.requests.get(resource, 0),
                "reason": str(stay.reason),
                "detail": stay.detail,
            }
            for pod, stay in plan.stays
        ],
        "nodes_kept": [{"node": node, "reason": reason} for node, reason in plan.kept],
        "limits": {
            "per_node": wish.limits.per_node,
            "per_namespace": wish.limits.per_namespace,
            "per_workload": wish.limits.per_workload,
            "total": wish.limits.total,
            "interval_seconds": wish.limits.interval_seconds,
        },
        "rules": {
            "movable_singletons": wish.rules.movable_singletons,
            "movable_gangs": wish.rules.movable_gangs,
            "movable_local_storage": wish.rules.movable_local_storage,
            "movable_not_ready": wish.rules.movable_not_ready,
            "min_pod_age": wish.rules.min_pod_age,
            "priority_threshold": wish.rules.priority_threshold,
            "protect": list(wish.rules.protect),
            "make_before_break": sorted(wish.rules.surging),
        },
        "notes": plan.notes,
    }
    if details:
        result["details"] = {"nodes": _nodes(plan)}
    return result


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _measures(audit: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "nodes", "gpus_total", "gpus_allocated", "gpus_free", "utilization", "schedulable_utilization", "slots",
        "slots_usable", "stranded", "stranded_gpus", "fragmentation_rate", "frag_rate", "largest_slot", "reclaimable_nodes",
    )  # fmt: skip
    return {key: audit[key] for key in keys} | {"blocked_pods": len(audit["blocked_pods"])}


def _nodes(plan: Plan) -> list[dict[str, Any]]:
    resource = plan.options.audit.resource

    def held(pods: list[Pod]) -> list[dict[str, Any]]:
        ordered = sorted(pods, key=lambda pod: (-pod.requests[resource], pod.namespace, pod.name))
        return [{"namespace": p.namespace, "pod": p.name, "gpus": p.requests[resource]} for p in ordered]

    after: dict[str, list[Pod]] = defaultdict(list, {n.node.name: n.pods for n in plan.after.survey.nodes})
    free = {n.node.name: n.free for n in plan.after.survey.nodes}
    return [
        {
            "node": n.node.name,
            "pool": n.pool,
            "gpus": n.gpus,
            "free_before": n.free,
            "free_after": free[n.node.name],
            "before": held(n.pods),
            "after": held(after[n.node.name]),
        }
        for n in plan.before.survey.nodes
    ]
