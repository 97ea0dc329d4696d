# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""An audit as plain data: what modules and filters return and the report reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from ..cluster.pools import UNNAMED, GpuNode
from ..kube.model import Pod
from .measures import HOURS_PER_MONTH, HOURS_PER_YEAR, Fragmentation, Measures
from .pending import Outlook


def as_result(found: Fragmentation, *, details: bool = False) -> dict[str, Any]:
    """The ``fragmentation`` of a result: plain types, sorted, sizes as strings; same audit, same bytes.

    Args:
        found: The audit.
        details: With every node and its holders, for the report.
    """
    options = found.options
    total = found.total
    pods = sum(found.mix.values())
    nodes = found.survey.nodes
    result = {
        "resource_name": options.resource,
        **_measures(total, options.sizes),
        "slot_size": found.slot_size,
        "fragmentation_size": options.fragmentation_size,
        "gpu_pods": pods,
        "demand_weighted": {
            "gpus": round(total.unusable, 6),
            "share": _share(total.unusable, total.gpus_free),
            "mix": [{"gpus": k, "pods": found.mix[k], "share": _share(found.mix[k], pods)} for k in sorted(found.mix)],
        },
        "blocked_pods": [_blocked(outlook) for outlook in found.blocked],
        "pending_pods": [
            {
                "namespace": o.pod.namespace,
                "pod": o.pod.name,
                "gpus": o.gpus,
                "state": o.state,
                "node": o.node,
                "message": o.message,
            }
            for o in found.pending
        ],
        "unhealthy_nodes": [
            {
                "node": n.node.name,
                "capacity": n.capacity,
                "allocatable": n.gpus,
                "allocated": n.allocated,
                "message": f"{n.capacity} GPUs built in, {n.gpus} work, {n.allocated} requested",
            }
            for n in sorted(nodes, key=lambda n: n.node.name)
            if not n.healthy
        ],
        "shared_nodes": [
            {"node": name, "replicas": replicas, "message": "GPUs are shared: left out of all figures"}
            for name, replicas in found.survey.shared
        ],
        "resource_claim_pods": [
            {"namespace": p.namespace, "pod": p.name, "node": p.node or None, "claims": list(p.resource_claims)}
            for p in sorted(found.claiming, key=lambda p: (p.namespace, p.name))
        ],
        "pools": [
            {
                "name": name,
                "product": None if name == UNNAMED else name,
                **_measures(measures, options.sizes),
            }
            for name, measures in sorted(found.pools.items())
        ],
        "node_free": {n.node.name: n.free for n in sorted(nodes, key=lambda n: n.node.name)},
        "applicable": not found.unsuited,
        "not_applicable_reasons": [
            {"reason": u.reason, "message": u.message, "figures": dict(sorted(u.figures.items()))} for u in found.unsuited
        ],
        "cost": _cost(found),
        "notes": found.notes,
    }
    if details:
        result["details"] = _details(found)
    return result


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _measures(m: Measures, sizes: tuple[int, ...]) -> dict[str, Any]:
    return {
        "nodes": m.nodes,
        "gpus_total": m.gpus_total,
        "gpus_allocated": m.gpus_allocated,
        "gpus_free": m.gpus_free,
        "gpus_unhealthy": m.gpus_unhealthy,
        "utilization": _share(m.gpus_held, m.gpus_total),
        "schedulable_utilization": _share(max(0, m.gpus_held - m.stranded_now), m.gpus_total),
        "slots": {str(size): m.slots[size] for size in sizes},
        "slots_usable": {str(size): m.slots_usable[size] for size in sizes},
        "stranded": {str(size): m.stranded[size] for size in sizes},
        "fragmentation_rate": _share(m.fragmented, m.nodes),
        "frag_rate": {
            "value": _share(m.occupied - m.fewest, m.nodes),
            "exact": m.exact,
            "occupied": m.occupied,
            "fewest": m.fewest,
        },
        "largest_slot": m.largest_slot,
        "stranded_gpus": m.stranded_now,
        "reclaimable_nodes": m.reclaimable,
    }


def _blocked(outlook: Outlook) -> dict[str, Any]:
    return {
        "namespace": outlook.pod.namespace,
        "pod": outlook.pod.name,
        "gpus": outlook.gpus,
        "pools": outlook.pools,
        "pool_free": outlook.pool_free,
        "largest_slot": outlook.largest,
        "cause": [str(reason) for reason in outlook.cause],
        "refusals": outlook.refusals,
        "nodes": [{"node": node, "reasons": [str(reason) for reason in reasons]} for node, reasons in outlook.near],
        "message": outlook.message,
    }


def _cost(found: Fragmentation) -> dict[str, Any]:
    hourly = found.cost_per_hour
    return {
        "currency": found.options.currency,
        "gpu_hour_price": found.options.gpu_hour_price,
        "slot_size": found.slot_size,
        "stranded_gpus": found.total.stranded_now,
        "per_hour": None if hourly is None else round(hourly, 2),
        "per_month": None if hourly is None else round(hourly * HOURS_PER_MONTH, 2),
        "per_year": None if hourly is None else round(hourly * HOURS_PER_YEAR, 2),
        "hours_per_month": HOURS_PER_MONTH,
    }


def _details(found: Fragmentation) -> dict[str, Any]:
    resource = found.options.resource
    return {
        "nodes": [
            {
                "node": n.node.name,
                "pool": n.pool,
                "gpus": n.gpus,
                "allocated": n.allocated,
                "free": n.free,
                "stranded": n.stranded(found.slot_size),
                "state": n.state,
                "holders": [
                    {
                        "namespace": p.namespace,
                        "pod": p.name,
                        "owner": str(p.owner) if p.owner else None,
                        "gpus": p.requests[resource],
                        "terminating": p.terminating,
                    }
                    for p in sorted(n.pods, key=lambda p: (-p.requests[resource], p.namespace, p.name))
                ],
            }
            for n in found.survey.nodes
        ],
        "stranded_by": _stranded_by(found.survey.nodes, resource, found.slot_size),
    }


def _stranded_by(nodes: list[GpuNode], resource: str, slot_size: int) -> list[dict[str, Any]]:
    """Who strands what: each node's stranded GPUs, shared over its workloads by the GPUs they hold; most first."""
    pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    stranded: dict[tuple[str, str], float] = defaultdict(float)
    for n in nodes:
        held: Counter[tuple[str, str]] = Counter()
        for p in n.pods:
            workload = (p.namespace, str(p.owner) if p.owner else f"Pod/{p.name}")
            pods[workload].append(p)
            held[workload] += p.requests[resource]
        # Added node by node, so that the order of the pods changes no digit.
        for workload, gpus in held.items():
            stranded[workload] += n.stranded(slot_size) * gpus / n.allocated
    table: list[dict[str, Any]] = [
        {
            "namespace": workload[0],
            "owner": workload[1],
            "pods": len(pods[workload]),
            "gpus": sum(p.requests[resource] for p in pods[workload]),
            "nodes": len({p.node for p in pods[workload]}),
            "stranded": round(share, 2),
        }
        for workload, share in stranded.items()
        if share
    ]
    table.sort(key=lambda row: (-row["stranded"], row["namespace"], row["owner"]))
    return table
