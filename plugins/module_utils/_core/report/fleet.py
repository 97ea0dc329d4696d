# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Several clusters' audits as one: which strands how much, and where to start. As plain data, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .lines import Lines, bullet, columns, joined, wrapped
from .words import clean, count, money, number, percent, shorten

Fleet = Mapping[str, Any]

_SUMS = ("nodes", "gpus_total", "gpus_allocated", "gpus_free", "stranded_gpus", "blocked_pods", "blocked_gpus")


def fleet(audits: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The audits of a fleet's clusters, summed up.

    Args:
        audits: By cluster, its ``fragmentation`` as ``gpu_fragmentation_info`` returns it.
        unknown: Clusters that could not be measured, and why. They are in no sum.

    Returns:
        ``clusters``, those worth acting on first, then by stranded GPUs, blocked pods and name; ``totals`` over them; ``cost`` a
        month, null unless every cluster that strands GPUs has a price, all in one ``currency``; ``start``, the first one that is
        worth acting on, or null; ``unknown``.
    """
    clusters = sorted((_cluster(name, audit) for name, audit in audits.items()), key=_rank)
    priced = [cluster for cluster in clusters if cluster["stranded_gpus"]]
    currencies = {cluster["currency"] for cluster in priced or clusters}
    known = len(currencies) == 1 and all(cluster["cost_per_month"] is not None for cluster in priced)
    return {
        "clusters": clusters,
        "totals": {key: sum(cluster[key] for cluster in clusters) for key in _SUMS},
        "cost": {
            "per_month": round(sum(cluster["cost_per_month"] for cluster in priced), 2) if known else None,
            "currency": currencies.pop() if len(currencies) == 1 else None,
        },
        "start": next((cluster["name"] for cluster in clusters if cluster["worth_acting"]), None),
        "unknown": [{"name": name, "reason": reason} for name, reason in sorted((unknown or {}).items())],
    }


def _cluster(name: str, audit: Mapping[str, Any]) -> dict[str, Any]:
    blocked = audit["blocked_pods"]
    return {
        "name": name,
        **{
            key: audit[key]
            for key in ("nodes", "gpus_total", "gpus_allocated", "gpus_free", "stranded_gpus", "slot_size", "largest_slot")
        },
        "utilization": audit["utilization"],
        "fragmentation_rate": audit["fragmentation_rate"],
        "blocked_pods": len(blocked),
        "blocked_gpus": sum(pod["gpus"] for pod in blocked),
        "cost_per_month": audit["cost"]["per_month"],
        "currency": audit["cost"]["currency"],
        "worth_acting": bool(audit["applicable"] and (audit["stranded_gpus"] or blocked)),
        "not_applicable_reasons": [reason["message"] for reason in audit["not_applicable_reasons"]],
    }


def _rank(cluster: Mapping[str, Any]) -> tuple[bool, int, int, str]:
    return (not cluster["worth_acting"], -cluster["stranded_gpus"], -cluster["blocked_pods"], cluster["name"])


def headline(found: Fleet) -> list[str]:
    """The fleet in a few plain sentences: what is stranded, what that costs, where to start, what is not known."""
    return [_stranded(found), *_cost(found), *_start(found), *_not_measured(found)]


def _stranded(found: Fleet) -> str:
    clusters, totals = count(len(found["clusters"]), "cluster"), found["totals"]
    if not found["clusters"]:
        return "No cluster was measured."
    if not totals["stranded_gpus"]:
        return f"None of the {count(totals['gpus_free'], 'free GPU')} of {clusters} is stranded."
    if totals["stranded_gpus"] == totals["gpus_free"]:
        return f"Each of the {count(totals['gpus_free'], 'free GPU')} of {clusters} is stranded."
    return f"{number(totals['stranded_gpus'])} of the {count(totals['gpus_free'], 'free GPU')} of {clusters} are stranded."


def _cost(found: Fleet) -> list[str]:
    cost = found["cost"]
    if not found["totals"]["stranded_gpus"] or cost["per_month"] is None:
        return []
    return [f"That costs {money(cost['per_month'], cost['currency'])} a month."]


def _start(found: Fleet) -> list[str]:
    if found["start"] is None:
        return ["Moving pods is advised in none of them."] if found["clusters"] else []
    first = found["clusters"][0]
    waiting = f", and {count(first['blocked_pods'], 'blocked pod')}" if first["blocked_pods"] else ""
    return [f"Start with {clean(first['name'])}: {count(first['stranded_gpus'], 'stranded GPU')}{waiting}."]


def _not_measured(found: Fleet) -> list[str]:
    missing = len(found["unknown"])
    return [f"{count(missing, 'cluster')} could not be measured, and {'is' if missing == 1 else 'are'} in no figure."] * bool(
        missing
    )


def verdict(cluster: Mapping[str, Any]) -> str:
    """What is to be done about a cluster, in a word or two."""
    if cluster["worth_acting"]:
        return "worth acting"
    return "not advised" if cluster["not_applicable_reasons"] else "nothing lost"


def fleet_table(found: Fleet) -> str:
    """The fleet as text: lines of at most 92 characters, without trailing blanks, ending in a newline.

    Args:
        found: What :func:`fleet` gives.
    """
    return joined([wrapped(" ".join(headline(found))), _clusters(found), _unknown(found)])


def _clusters(found: Fleet) -> Lines:
    if not found["clusters"]:
        return []
    heads = ("cluster", "nodes", "GPUs", "used", "free", "stranded", "at size", "blocked", "a month", "")
    rows = [
        (
            cluster["name"],
            number(cluster["nodes"]),
            number(cluster["gpus_total"]),
            percent(cluster["utilization"]),
            number(cluster["gpus_free"]),
            number(cluster["stranded_gpus"]),
            number(cluster["slot_size"]),
            number(cluster["blocked_pods"]),
            number(cluster["cost_per_month"]),
            verdict(cluster),
        )
        for cluster in found["clusters"]
    ]
    return [f"CLUSTERS ({number(len(rows))})", *columns(heads, rows, (15, 6, 7, 8, 6, 9, 8, 8, 9, -14))]


def _unknown(found: Fleet) -> Lines:
    lines = [line for each in found["unknown"] for line in bullet(f"{shorten(each['name'], 40)}: {clean(each['reason'])}")]
    return [f"NOT MEASURED ({number(len(found['unknown']))})", *lines] if lines else []
