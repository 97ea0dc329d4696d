# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Several clusters' audits as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fleet import Fleet, headline, verdict
from .glossary import glossary
from .markup import document, lost_gpus, name, section, stacked, table, text, tiles, totals
from .page import UNPRICED
from .words import clean, count, money, number, part, percent

WORDS = ("Stranded", "Fragmentation rate", "Blocked pod")


def fleet_page(found: Fleet, *, title: str = "GPU fragmentation of the fleet") -> str:
    """The fleet as an HTML document.

    Args:
        found: What :func:`.fleet.fleet` gives.
        title: The document's title, also shown above the headline.

    Returns:
        A document without any reference to another one. Every name in it is escaped, and its policy forbids scripts.
    """
    return document(title, "".join(piece(found) for piece in (_totals, _clusters, _unadvised, _unknown, _words)))


def _totals(found: Fleet) -> str:
    first, *rest = headline(found)
    lead = f'<p class="lead">{text(" ".join(rest))}</p>\n' if rest else ""
    sums, cost = found["totals"], found["cost"]
    shown = (
        (
            "Stranded GPUs",
            number(sums["stranded_gpus"]),
            f"{part(sums['stranded_gpus'], sums['gpus_free'])} of the free ones, at each cluster's own size",
            bool(sums["stranded_gpus"]),
        ),
        (
            "Cost of the stranded, a month",
            money(cost["per_month"], cost["currency"] or ""),
            UNPRICED if cost["per_month"] is None else "at each cluster's prices",
            False,
        ),
        (
            "Blocked pods",
            number(sums["blocked_pods"]),
            f"for {number(sums['blocked_gpus'])} GPUs, though their pools have enough",
            False,
        ),
        ("Not measured", number(len(found["unknown"])), "clusters, in no figure", bool(found["unknown"])),
    )
    return f"{totals(sums, count(len(found['clusters']), 'cluster'))}<h1>{text(first)}</h1>\n{lead}{tiles(shown)}"


def _clusters(found: Fleet) -> str:
    if not found["clusters"]:
        return ""
    heads = ("Cluster", "#Nodes", "#GPUs", "", "#Used", "#Free", "#Stranded", "#At size", "#Blocked pods", "#A month", "")
    about = "Those first where acting gains most. The bar shows allocated, free and stranded GPUs."
    most = max(cluster["gpus_total"] for cluster in found["clusters"])
    return section("Where to start", about, table(heads, (_row(cluster, most) for cluster in found["clusters"])))


def _row(cluster: Mapping[str, Any], most: int) -> list[str]:
    lost = cluster["stranded_gpus"]
    parts = [("used", cluster["gpus_allocated"]), ("free", cluster["gpus_free"] - lost), ("lost", lost)]
    return [
        name(cluster["name"], 40),
        number(cluster["nodes"]),
        number(cluster["gpus_total"]),
        stacked(parts, rest=most - cluster["gpus_total"], thin=True),
        percent(cluster["utilization"]),
        number(cluster["gpus_free"]),
        lost_gpus(lost),
        number(cluster["slot_size"]),
        number(cluster["blocked_pods"]),
        text(money(cluster["cost_per_month"], cluster["currency"])),
        text(verdict(cluster)),
    ]


def _unadvised(found: Fleet) -> str:
    rows = [
        [name(cluster["name"], 40), text("; ".join(map(clean, cluster["not_applicable_reasons"])))]
        for cluster in found["clusters"]
        if cluster["not_applicable_reasons"]
    ]
    about = "What speaks against moving pods there."
    return section("Where moving pods is not advised", about, table(("Cluster", "Why"), rows)) if rows else ""


def _unknown(found: Fleet) -> str:
    rows = [[name(each["name"], 40), text(each["reason"])] for each in found["unknown"]]
    about = "Nothing is known of these, which is not the same as nothing being stranded."
    return section("Not measured", about, table(("Cluster", "Why"), rows)) if rows else ""


def _words(found: Fleet) -> str:
    return section("Words", "What the figures mean.", glossary(WORDS))
