# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audit as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from .glossary import glossary
from .heatmap import heatmap
from .markup import (
    MOST,
    SLOT_KEY,
    document,
    facts,
    key,
    lost_gpus,
    more,
    name,
    notes,
    pod_name,
    section,
    stacked,
    table,
    text,
    tiles,
    totals,
)
from .words import (
    clean,
    count,
    figures,
    headline,
    holder_name,
    money,
    names,
    number,
    packing,
    part,
    percent,
    priced_alike,
    reason_words,
    refusals,
    smaller_nodes,
    stranded,
    worst_pools,
)

WORKLOADS = 20

UNPRICED = "no price was given, or not for every product"

WORDS = (
    "Stranded",
    "Slot",
    "Schedulable utilization",
    "Fragmentation rate",
    "FragRate",
    "Demand-weighted",
    "Blocked pod",
    "Reclaimable node",
)


def audit_page(fragmentation: Mapping[str, Any], *, title: str = "GPU fragmentation audit") -> str:
    """The audit as an HTML document.

    Args:
        fragmentation: The result of ``gpu_fragmentation_info``; without ``details`` the parts that name nodes and
            workloads are left out.
        title: The document's title, also shown above the headline.

    Returns:
        A document without any reference to another one. Every name in it is escaped, and its policy forbids scripts.
    """
    body = "".join(
        piece(fragmentation)
        for piece in (
            _totals,
            _slots,
            _verdict_and_cost,
            _pools,
            heatmap,
            _workloads,
            _blocked,
            _other_pending,
            _reclaimable,
            _left_out,
            _notes,
            _inputs,
        )
    )
    return document(title, body)


def _totals(result: Mapping[str, Any]) -> str:
    first, *rest = headline(result)
    lead = f'<p class="lead">{text(" ".join(rest))}</p>\n' if rest else ""
    shown = _hero(result) + _tiles(result) if result["nodes"] else ""
    return f"{totals(result, result['resource_name'])}<h1>{text(first)}</h1>\n{lead}{shown}"


def _hero(result: Mapping[str, Any]) -> str:
    total, lost = result["gpus_total"], stranded(result)
    whole = result["gpus_free"] - lost
    parts = (
        ("used", result["gpus_allocated"], f"allocated, {percent(result['utilization'])}"),
        ("free", whole, f"free in slots, {part(whole, total)}"),
        ("lost", lost, f"free but stranded, {part(lost, total)}"),
        ("sick", result["gpus_unhealthy"], "unhealthy"),
    )
    whole_bar = stacked([(kind, amount) for kind, amount, words in parts])
    return f'<div class="hero">{whole_bar}\n{key(parts)}</div>\n'


def _tiles(result: Mapping[str, Any]) -> str:
    lost, free, cost = stranded(result), result["gpus_free"], result["cost"]
    frag_rate, weighted = result["frag_rate"], result["demand_weighted"]
    share = f"{part(lost, free)} of the free ones, at size {result['slot_size']}" if free else "no GPU is free"
    shown = (
        ("Stranded GPUs", number(lost), share, bool(lost)),
        (
            "Demand-weighted",
            number(weighted["gpus"], 1),
            f"free GPUs ({percent(weighted['share'])}) that a pod of the cluster's own mix cannot use",
            False,
        ),
        ("Cost of the stranded, a month", money(cost["per_month"], cost["currency"]), _price(cost), False),
        (
            "Utilization",
            percent(result["utilization"]),
            f"{percent(result['schedulable_utilization'])} schedulable",
            False,
        ),
        (
            "FragRate",
            percent(frag_rate["value"]),
            packing(frag_rate),
            False,
        ),
        (
            "Fragmentation rate",
            percent(result["fragmentation_rate"]),
            f"of nodes have GPUs free, but fewer than {result['fragmentation_size']}",
            False,
        ),
        ("Blocked pods", number(len(result["blocked_pods"])), "though their pool has GPUs enough", False),
        ("Reclaimable nodes", number(len(result["reclaimable_nodes"])), "hold no pod that would miss them", False),
    )
    return tiles(shown)


def _price(cost: Mapping[str, Any]) -> str:
    if cost["per_month"] is None:
        return UNPRICED
    if not priced_alike(cost):
        return "at the price of each product"
    return f"at {money(cost['gpu_hour_price'], cost['currency'])} a GPU hour"


def _slots(result: Mapping[str, Any]) -> str:
    free = result["gpus_free"]
    if not free:
        return ""
    smaller = " Here smaller nodes strand all that is free on them; the headline judges them by their own size."
    smaller = smaller if smaller_nodes(result) else ""
    rows = "".join(
        _slot_row(int(size), slots, result["slots_usable"][size], result["stranded"][size])
        for size, slots in result["slots"].items()
    )
    return section(
        "Slots per size",
        f"What the {count(free, 'free GPU')}, at most {number(result['largest_slot'])} on one node, could take. "
        f"Each bar is all of them, cut up for pods of one size.{smaller}",
        f'<div class="slots">\n{rows}</div>\n{SLOT_KEY}',
    )


def _slot_row(size: int, slots: int, usable: int, lost: int) -> str:
    parts = [("usable", usable * size), ("free", (slots - usable) * size), ("lost", lost)]
    room = f"<b>{number(usable)}</b> usable of {count(slots, 'slot')}"
    return f"<span>{size}-GPU pods</span>{stacked(parts)}<span>{room}, {lost_gpus(lost)} stranded</span>\n"


def _verdict_and_cost(result: Mapping[str, Any]) -> str:
    return f'<div class="pair">\n{_applicability(result)}{_cost(result) if stranded(result) else ""}</div>\n'


def _applicability(result: Mapping[str, Any]) -> str:
    about = (
        "Where every pod takes one GPU, on a handful of nodes, or with pods that live for minutes, moving pods is not worth it."
    )
    if result["applicable"]:
        return section("Is it worth acting?", about, '<p class="sum">Yes: none of the reasons against it holds here.</p>\n')
    reasons = "".join(
        f'<li>{text(reason["message"])} <span class="dim">({text(figures(reason["figures"]))})</span></li>\n'
        for reason in result["not_applicable_reasons"]
    )
    return section("Is it worth acting?", about, f'<p class="sum">Not advised:</p>\n<ul class="notes">\n{reasons}</ul>\n')


def _cost(result: Mapping[str, Any]) -> str:
    cost = result["cost"]
    about = "The GPUs that no slot uses, at their price, for as long as they stay stranded."
    if cost["per_month"] is None:
        return section("What it costs", about, f'<p class="sum">Unknown: {UNPRICED}.</p>\n')
    price, currency = cost["gpu_hour_price"], cost["currency"]
    each = money(price, currency) if priced_alike(cost) else "the price of each product"
    rows = (
        ("An hour", f"{count(cost['stranded_gpus'], 'stranded GPU')} × {each} = {money(cost['per_hour'], currency)}"),
        ("A month", f"× {number(cost['hours_per_month'])} hours = {money(cost['per_month'], currency)}"),
        ("A year", money(cost["per_year"], currency)),
    )
    return section("What it costs", about, facts(rows))


def _pools(result: Mapping[str, Any]) -> str:
    if not result["pools"]:
        return ""
    heads = ("Pool", "#Nodes", "#GPUs", "", "#Used", "#Free", "#Stranded", "#Largest slot", "#Fragmentation rate", "#FragRate")
    rows = [_pool_row(pool) for pool in worst_pools(result)]
    about = (
        "Nodes that stand in for one another: the same GPU resource and product. The bar shows allocated, free and stranded GPUs."
    )
    return section("Pools", about, table(heads, rows))


def _pool_row(pool: Mapping[str, Any]) -> list[str]:
    lost = pool["stranded_gpus"]
    parts = [("used", pool["gpus_allocated"]), ("free", pool["gpus_free"] - lost), ("lost", lost)]
    return [
        name(pool["name"], 40),
        number(pool["nodes"]),
        number(pool["gpus_total"]),
        stacked(parts, thin=True),
        percent(pool["utilization"]),
        number(pool["gpus_free"]),
        lost_gpus(lost),
        number(pool["largest_slot"]),
        percent(pool["fragmentation_rate"]),
        percent(pool["frag_rate"]["value"]),
    ]


def _workloads(result: Mapping[str, Any]) -> str:
    owners = result.get("details", {}).get("stranded_by", [])
    if not owners:
        return ""
    most = owners[0]["stranded"]
    advice = " Moving these workloads gives most back." if result["applicable"] and result["frag_rate"]["value"] else ""
    rows = [
        [
            name(holder_name(owner)),
            number(owner["pods"]),
            number(owner["gpus"]),
            number(owner["nodes"]),
            f"{owner['stranded']:,.1f}",
            stacked([("lost", owner["stranded"])], rest=most - owner["stranded"], thin=True),
        ]
        for owner in owners[:WORKLOADS]
    ]
    return section(
        "Who strands what",
        f"A node's stranded GPUs, shared over the pods on it by the GPUs they hold.{advice}",
        table(("Workload", "#Pods", "#GPUs held", "#On nodes", "#Strands", ""), rows),
        more(len(owners), WORKLOADS, "workloads"),
    )


def _blocked(result: Mapping[str, Any]) -> str:
    pods = result["blocked_pods"]
    if not pods:
        return ""
    return section(
        "Blocked pods",
        "They ask for no more GPUs than their pool has free in all, and yet no single node can take them.",
        _causes(pods),
        f'<ul class="pods">\n{"".join(_blocked_pod(pod) for pod in pods[:MOST])}</ul>\n',
        more(len(pods), MOST, "blocked pods"),
    )


def _causes(pods: list[Mapping[str, Any]]) -> str:
    waiting = Counter(reason for pod in pods for reason in pod["refusals"])
    nodes: Counter[str] = Counter()
    for pod in pods:
        nodes.update(pod["refusals"])
    rows = [
        [text(reason), text(reason_words(reason)), number(waiting[reason]), number(nodes[reason])]
        for reason in sorted(nodes, key=lambda reason: (-nodes[reason], reason))
    ]
    return table(("Why nodes refuse them", "What it means", "#Pods", "#Refusals by nodes"), rows)


def _blocked_pod(pod: Mapping[str, Any]) -> str:
    why = "".join(f"<li><b>{count(nodes, 'node')}</b>: {text(reason_words(reason))}</li>" for reason, nodes in refusals(pod))
    close = "".join(
        f"<li>{name(node['node'])} has the GPUs, but: {text('; '.join(map(reason_words, node['reasons'])))}</li>"
        for node in pod["nodes"]
    )
    return f'<li>{pod_name(pod)}<p>{text(pod["message"])}</p><ul class="why">{why}{close}</ul></li>\n'


def _other_pending(result: Mapping[str, Any]) -> str:
    pods = [pod for pod in result["pending_pods"] if pod["state"] != "Blocked"]
    if not pods:
        return ""
    rows = [[pod_name(pod), number(pod["gpus"]), text(pod["state"]), text(pod["message"])] for pod in pods[:MOST]]
    return section(
        "Other pending pods",
        "Fragmentation does not hold these back.",
        table(("Pod", "#GPUs", "State", "Why"), rows),
        more(len(pods), MOST, "pending pods"),
    )


def _reclaimable(result: Mapping[str, Any]) -> str:
    nodes = result["reclaimable_nodes"]
    if not nodes:
        return ""
    shown = "".join(f"<li>{name(node)}</li>" for node in nodes[:MOST])
    about = "They hold nothing but DaemonSet, mirror and finished pods: they may be given back, or kept for large pods."
    return section("Reclaimable nodes", about, f'<ul class="names">{shown}</ul>\n', more(len(nodes), MOST, "nodes"))


def _left_out(result: Mapping[str, Any]) -> str:
    nodes = result["unhealthy_nodes"] + result["shared_nodes"]
    rows = [[name(node["node"]), text(node["message"])] for node in nodes[:MOST]]
    rows += [
        [pod_name(pod), text(f"holds devices by resource claim ({names(pod['claims'], 3)}) that no figure here shows")]
        for pod in result["resource_claim_pods"][:MOST]
    ]
    total = len(nodes) + len(result["resource_claim_pods"])
    if not total:
        return ""
    about = "Devices that cannot be used, nodes whose GPUs are shared, and devices handed out in another way."
    return section("Unhealthy or not counted", about, table(("Name", "What is known"), rows), more(total, len(rows), "such"))


def _notes(result: Mapping[str, Any]) -> str:
    about = "What the input could not tell, and what was left out on purpose."
    return section("What is unknown", about, notes(result["notes"])) if result["notes"] else ""


def _inputs(result: Mapping[str, Any]) -> str:
    cost = result["cost"]
    mix = [f"{number(size['pods'])} × {size['gpus']} GPU" for size in result["demand_weighted"]["mix"]]
    rows = (
        ("GPU resource", clean(result["resource_name"])),
        ("Stranded and cost are judged at size", number(result["slot_size"])),
        ("Slots are counted for sizes", ", ".join(result["slots"])),
        ("Fragmentation size", number(result["fragmentation_size"])),
        ("Price of a GPU hour", money(cost["gpu_hour_price"], cost["currency"])),
        ("Hours in a month", number(cost["hours_per_month"])),
        ("GPU pods", f"{number(result['gpu_pods'])}: {', '.join(mix)}" if mix else number(result["gpu_pods"])),
        ("Demand-weighted fragmentation", _demand(result["demand_weighted"])),
    )
    return section(
        "Inputs and words",
        "What the figures were computed with, and what they mean.",
        facts(rows),
        glossary(WORDS),
    )


def _demand(weighted: Mapping[str, Any]) -> str:
    return f"{number(weighted['gpus'], 1)} GPUs, {percent(weighted['share'])} of the free ones"
