# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audit as text for a terminal: no colours, plain characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .lines import TOP, WIDTH, Lines, barred, bullet, columns, joined, more, wrapped
from .words import (
    broken,
    clean,
    count,
    figures,
    gpus_of,
    headline,
    holder_name,
    money,
    names,
    number,
    packing,
    percent,
    priced_alike,
    reason_words,
    refusals,
    shorten,
    smaller_nodes,
    stranded,
    worst_first,
    worst_pools,
)

NODE_BAR = 16  # GPUs of one node that are drawn; more are counted only


def audit_table(fragmentation: Mapping[str, Any]) -> str:
    """The audit as text, sentence first, then the figures behind it.

    Args:
        fragmentation: The result of ``gpu_fragmentation_info``; without ``details`` the parts that name nodes and
            workloads are left out.

    Returns:
        Lines of at most 92 characters, without trailing blanks, ending in a newline.
    """
    sections = [
        wrapped(" ".join(headline(fragmentation))),
        _not_applicable(fragmentation),
        _totals(fragmentation),
        _slots(fragmentation),
        _pools(fragmentation),
        _blocked(fragmentation),
        _other_pending(fragmentation),
        _nodes(fragmentation),
        _holders(fragmentation),
        _reclaimable(fragmentation),
        _left_out(fragmentation),
        _notes(fragmentation),
    ]
    return joined(sections)


def _not_applicable(result: Mapping[str, Any]) -> Lines:
    reasons = result["not_applicable_reasons"]
    if not reasons:
        return []
    lines = ["WHY MOVING PODS IS NOT ADVISED"]
    for reason in reasons:
        lines += bullet(f"{clean(reason['message'])} ({figures(reason['figures'])})")
    return lines


def _totals(result: Mapping[str, Any]) -> Lines:
    total, free, lost = result["gpus_total"], result["gpus_free"], stranded(result)
    frag_rate, weighted = result["frag_rate"], result["demand_weighted"]
    if not result["nodes"]:
        return []
    rows = [
        ("allocated", number(result["gpus_allocated"]), f"{percent(result['utilization'])} utilization"),
        ("free", number(free), f"at most {number(result['largest_slot'])} on one node"),
        ("stranded", number(lost), f"free, and of no use to {result['slot_size']}-GPU pods" + _smaller(result)),
        (
            "schedulable utilization",
            percent(result["schedulable_utilization"]),
            "utilization if the stranded GPUs were taken for gone",
        ),
        (
            "fragmentation rate",
            percent(result["fragmentation_rate"]),
            f"of the nodes have GPUs free, but fewer than {number(result['fragmentation_size'])}",
        ),
        (
            "FragRate",
            percent(frag_rate["value"]),
            packing(frag_rate),
        ),
        (
            "demand-weighted",
            number(weighted["gpus"], 1),
            f"free GPUs ({percent(weighted['share'])}) that a pod of the cluster's own mix cannot use",
        ),
    ]
    if result["gpus_unhealthy"]:
        rows.insert(2, ("unhealthy", number(result["gpus_unhealthy"]), "present, but not offered to pods"))
    if result["cost"]["per_month"] is not None:
        rows.append(_cost_row(result["cost"]))
    lines = [f"GPUS   {number(total)} on {count(result['nodes'], 'node')}, {clean(result['resource_name'])}"]
    lines.append(f"  [{barred((result['gpus_allocated'], free - lost, lost), '#.!')}]  # allocated  . free  ! stranded")
    for label, value, meaning in rows:
        lines += wrapped(meaning, f"  {label:<24}{value:>10}  ", " " * 38)
    return lines


def _smaller(result: Mapping[str, Any]) -> str:
    return ", on smaller nodes to whole-node pods" if smaller_nodes(result) else ""


def _cost_row(cost: Mapping[str, Any]) -> tuple[str, str, str]:
    price, currency = cost["gpu_hour_price"], clean(cost["currency"])
    each = f"{money(price, currency)} an hour" if priced_alike(cost) else "their product's price"
    how = f"{count(cost['stranded_gpus'], 'GPU')} at {each}, {number(cost['hours_per_month'])} hours"
    return "cost of the stranded", number(cost["per_month"]), f"{currency} a month: {how}"


def _slots(result: Mapping[str, Any]) -> Lines:
    if not result["gpus_free"]:
        return []
    rows = []
    for size, slots in result["slots"].items():
        usable, lost, each = result["slots_usable"][size], result["stranded"][size], int(size)
        drawn = barred((usable * each, (slots - usable) * each, lost), "#-!")
        rows.append((size, number(slots), number(usable), number(lost), f"[{drawn}]"))
    heads = ("size", "slots", "usable", "stranded", "# usable  - only the GPUs are there  ! stranded")
    title = f"SLOTS PER SIZE   room for more pods in the {count(result['gpus_free'], 'free GPU')}"
    return [title, *columns(heads, rows, (6, 8, 8, 10, -54))]


def _pools(result: Mapping[str, Any]) -> Lines:
    if not result["pools"]:
        return []
    heads = ("pool", "nodes", "GPUs", "free", "stranded", "used", "largest", "fragm.", "FragRate")
    rows = [
        (
            pool["name"],
            number(pool["nodes"]),
            number(pool["gpus_total"]),
            number(pool["gpus_free"]),
            number(pool["stranded_gpus"]),
            percent(pool["utilization"]),
            number(pool["largest_slot"]),
            percent(pool["fragmentation_rate"]),
            percent(pool["frag_rate"]["value"]),
        )
        for pool in worst_pools(result)
    ]
    return [f"POOLS ({len(rows)})", *columns(heads, rows, (24, 6, 7, 8, 10, 9, 9, 8, 9))]


def _blocked(result: Mapping[str, Any]) -> Lines:
    pods = result["blocked_pods"]
    if not pods:
        return []
    lines = [f"BLOCKED PODS ({number(len(pods))})   their pools have GPUs enough, but no single node can take them"]
    for pod in pods[:TOP]:
        lines.append(f"  {shorten(pod['namespace'] + '/' + pod['pod'], WIDTH - 2)}")
        lines += wrapped(clean(pod["message"]), "    ")
        for reason, nodes in refusals(pod):
            lines += wrapped(f"{count(nodes, 'node')}: {reason_words(reason)}", "      ")
        for node in pod["nodes"]:
            why = "; ".join(reason_words(reason) for reason in node["reasons"])
            lines += wrapped(f"{shorten(node['node'], 40)} has the GPUs, but: {why}", "      ")
    return lines + more(len(pods))


def _other_pending(result: Mapping[str, Any]) -> Lines:
    pods = [pod for pod in result["pending_pods"] if pod["state"] != "Blocked"]
    if not pods:
        return []
    lines = [f"OTHER PENDING PODS ({number(len(pods))})   fragmentation does not hold these back"]
    for pod in pods[:TOP]:
        lines.append(f"  {shorten(pod['namespace'] + '/' + pod['pod'], WIDTH - 2)}")
        lines += wrapped(clean(pod["message"]), "    ")
    return lines + more(len(pods))


def _nodes(result: Mapping[str, Any]) -> Lines:
    if "details" not in result:
        return []
    ranked = [node for node in worst_first(result["details"]["nodes"]) if node["stranded"]]
    if not ranked:
        return []
    sick = broken(result)
    lines = [f"NODES THAT STRAND MOST   {min(TOP, len(ranked))} of {number(len(ranked))} that strand any"]
    heads = ("node", "GPUs", "free", "stranded", "pods hold", "pool")
    rows = [
        (
            node["node"],
            _node_bar(node, sick.get(node["node"], 0)),
            number(node["free"]),
            number(node["stranded"]),
            "+".join(str(gpus) for gpus in sorted((h["gpus"] for h in node["holders"]), reverse=True)) or "nothing",
            node["pool"] or "no product",
        )
        for node in ranked[:TOP]
    ]
    return lines + columns(heads, rows, (26, -18, 6, 10, -16, -14))


def _holders(result: Mapping[str, Any]) -> Lines:
    if "details" not in result or not result["details"]["stranded_by"]:
        return []
    owners = result["details"]["stranded_by"]
    heads = ("workload", "pods", "GPUs", "nodes", "stranded", "")
    rows = [
        (
            holder_name(owner),
            number(owner["pods"]),
            number(owner["gpus"]),
            number(owner["nodes"]),
            f"{owner['stranded']:,.1f}",
            "!" * round(16 * owner["stranded"] / owners[0]["stranded"]),
        )
        for owner in owners[:TOP]
    ]
    lines = ["WHO STRANDS WHAT   a node's stranded GPUs, shared over its pods by the GPUs they hold"]
    return lines + columns(heads, rows, (42, 6, 7, 7, 10, -18)) + more(len(owners))


def _reclaimable(result: Mapping[str, Any]) -> Lines:
    nodes = result["reclaimable_nodes"]
    if not nodes:
        return []
    shown = names([shorten(node, 40) for node in nodes], TOP)
    return [f"RECLAIMABLE NODES ({number(len(nodes))})   they hold no pod that would miss them", *wrapped(shown, "  ")]


def _left_out(result: Mapping[str, Any]) -> Lines:
    nodes = result["unhealthy_nodes"] + result["shared_nodes"]
    claims = result["resource_claim_pods"]
    if not nodes and not claims:
        return []
    lines = ["UNHEALTHY OR NOT COUNTED"]
    for node in nodes[:TOP]:
        lines += bullet(f"{shorten(node['node'], 40)}: {clean(node['message'])}")
    for pod in claims[:TOP]:
        name = shorten(f"{pod['namespace']}/{pod['pod']}", 60)
        lines += bullet(f"{name} holds devices by resource claim ({names(pod['claims'], 3)}): no figure shows them")
    return lines + more(max(len(nodes), len(claims)))


def _notes(result: Mapping[str, Any]) -> Lines:
    lines = [line for note in result["notes"] for line in bullet(clean(note))]
    return ["WHAT IS UNKNOWN OR LEFT OUT", *lines] if lines else []


def _node_bar(node: Mapping[str, Any], broken_gpus: int) -> str:
    total = gpus_of(node, broken_gpus)
    if total > NODE_BAR:
        return f"{number(node['allocated'])}/{number(total)} used"
    return f"[{'#' * node['allocated']}{'.' * node['free']}{'x' * (total - node['allocated'] - node['free'])}]"
