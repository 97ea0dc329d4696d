# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The plan as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .glossary import glossary
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
from .plan_map import plan_map
from .plan_words import (
    COUNTED,
    Reasons,
    bound,
    by_reason,
    changes,
    cold_starts,
    compared,
    effort,
    goal,
    headline,
    kept,
    limits,
    refusals_in,
    sentence,
    signed,
    staying,
    wave_words,
    why_stay,
    why_unplaced,
)
from .words import clean, count, number, part, stranded

MOVES = 1000  # moves that are listed
OPEN = 60  # of them, how many are open at once

WORDS = (
    "Eviction",
    "Wave",
    "Lower bound",
    "Freed node",
    "Slot",
    "Stranded",
    "Reclaimable node",
    "Fragmentation rate",
    "FragRate",
)


def plan_page(plan: Mapping[str, Any], *, title: str = "GPU defragmentation plan") -> str:
    """The plan as an HTML document.

    Args:
        plan: The result of ``gpu_defrag_plan``; without ``details`` the map of the nodes is left out.
        title: The document's title, also shown above the headline.

    Returns:
        A document without any reference to another one. Every name in it is escaped, and its policy forbids scripts.
    """
    pieces = (_totals, _slots, plan_map, _moves, _placed, _unplaced, _freed, _stays, _kept, _notes, _inputs)
    return document(title, "".join(piece(plan) for piece in pieces))


def _totals(plan: Mapping[str, Any]) -> str:
    lead = f"Asked for: {goal(plan['objective'])}."
    shown = _tiles(plan) + _bars(plan) if plan["before"]["nodes"] else ""
    first = totals(plan["before"], plan["resource_name"])
    return f'{first}<h1>{text(headline(plan))}</h1>\n<p class="lead">{text(lead)}</p>\n{shown}'


def _tiles(plan: Mapping[str, Any]) -> str:
    before, after = plan["before"], plan["after"]
    waves, starts = count(len(plan["waves"]), "wave"), cold_starts(plan)
    reclaimable = (len(before["reclaimable_nodes"]), len(after["reclaimable_nodes"]))
    return tiles(
        (
            ("Evictions", number(plan["evictions"]), f"{waves}; {bound(plan)}" if plan["waves"] else "nothing moves", False),
            ("Freed nodes", number(len(plan["freed_nodes"])), f"reclaimable: {_arrow(plan, *reclaimable)}", False),
            (
                "Stranded GPUs",
                _arrow(plan, stranded(before), stranded(after)),
                f"{part(stranded(after), after['gpus_free'])} of the free ones{' afterwards' if changes(plan) else ''}",
                False,
            ),
            (
                "Largest slot",
                _arrow(plan, before["largest_slot"], after["largest_slot"]),
                "GPUs free on one node, at most",
                False,
            ),
            ("Slots gained", *_gain(plan), False),
            ("Pods placed", number(len(plan["placed_pods"])), "that wait now", False),
            ("Cold starts", starts or ("unknown" if plan["waves"] else "none"), "of the pods that move, added up", False),
            ("Pods that stay for a reason", number(len(plan["skipped"])), "each with its reason, below", False),
        )
    )


def _gain(plan: Mapping[str, Any]) -> tuple[str, str]:
    """The slots gained of the size asked for, else of the largest gained, and those of the other sizes."""
    gained = {int(size): slots for size, slots in plan["slots_gained"].items() if slots}
    if not gained:
        return "none", "of any size"
    asked = plan["objective"]["slot_size"] if plan["objective"]["kind"] == "slots" else None
    size = asked if asked in gained else max(gained)
    first = f"{signed(gained[size])} of {count(size, 'GPU')}"
    others = ", ".join(f"{signed(slots)} of {other}" for other, slots in gained.items() if other != size)
    if others:
        return first, f"also {others}"
    return first, "more room for such pods" if gained[size] > 0 else "the pods placed take that room"


def _arrow(plan: Mapping[str, Any], before: int, after: int) -> str:
    return f"{number(before)} → {number(after)}" if changes(plan) else number(before)


def _bars(plan: Mapping[str, Any]) -> str:
    moments = [("Before", plan["before"]), ("After", plan["after"])] if changes(plan) else [("Now", plan["before"])]
    return f'<div class="hero">{"".join(_bar(label, measures) for label, measures in moments)}</div>\n'


def _bar(label: str, measures: Mapping[str, Any]) -> str:
    total, lost = measures["gpus_total"], stranded(measures)
    whole = measures["gpus_free"] - lost
    parts = (
        ("used", measures["gpus_allocated"], f"allocated, {part(measures['gpus_allocated'], total)}"),
        ("free", whole, f"free in slots, {part(whole, total)}"),
        ("lost", lost, f"free but stranded, {part(lost, total)}"),
    )
    drawn = stacked([(kind, amount) for kind, amount, words in parts])
    return f'<p class="dim">{label}</p>\n{drawn}\n{key(parts)}\n'


def _slots(plan: Mapping[str, Any]) -> str:
    before, after = plan["before"], plan["after"]
    room = max(before["gpus_free"], after["gpus_free"])
    if not room:
        return ""
    moments = [("before", before), ("after", after)] if changes(plan) else [("now", before)]
    rows = "".join(_slot_row(int(size), label, measures, before, room) for size in before["slots"] for label, measures in moments)
    return section(
        "Slots per size",
        "What the free GPUs could take. Each bar is all of them, cut up for pods of one size.",
        f'<div class="slots">\n{rows}</div>\n{SLOT_KEY}',
    )


def _slot_row(size: int, label: str, measures: Mapping[str, Any], before: Mapping[str, Any], room: int) -> str:
    slots, usable, lost = (measures[measure][str(size)] for measure in ("slots", "slots_usable", "stranded"))
    parts = [("usable", usable * size), ("free", (slots - usable) * size), ("lost", lost)]
    gained = signed(slots - before["slots"][str(size)])
    told = f"<b>{number(usable)}</b> usable of {count(slots, 'slot')}{f' <b>({gained})</b>' if gained else ''}"
    drawn = stacked(parts, rest=room - sum(amount for kind, amount in parts))
    return f"<span>{size}-GPU pods, {label}</span>{drawn}<span>{told}, {lost_gpus(lost)} stranded</span>\n"


def _moves(plan: Mapping[str, Any]) -> str:
    if not plan["waves"]:
        return ""
    shown = 0
    parts = []
    for place, wave in enumerate(plan["waves"], 1):
        if shown >= MOVES:
            break
        parts.append(_wave(place, wave, wave[: MOVES - shown], shown < OPEN))
        shown += len(wave)
    return section(
        "Moves, wave by wave",
        f"{effort(plan)}, {bound(plan)}. What a wave frees is there for the next; stop after any of them and nothing is lost.",
        *parts,
        more(plan["evictions"], MOVES, "moves"),
    )


def _wave(place: int, wave: list[Mapping[str, Any]], moves: list[Mapping[str, Any]], is_open: bool) -> str:
    rows = [
        [pod_name(move), text(move["owner"] or ""), number(move["gpus"]), f"{name(move['from'], 40)} → {name(move['to'], 40)}"]
        for move in moves
    ]
    listed = table(("Pod", "Owner", "#GPUs", "From → to"), rows)
    return f"<details{' open' if is_open else ''}><summary>Wave {place}: {wave_words(wave)}</summary>{listed}</details>\n"


def _placed(plan: Mapping[str, Any]) -> str:
    pods = plan["placed_pods"]
    if not pods:
        return ""
    rows = [[pod_name(pod), number(pod["gpus"]), name(pod["node"], 40)] for pod in pods[:MOST]]
    return section(
        "Pods that get a place",
        "They wait now; with the moves done, these nodes can take them, all at once.",
        table(("Pod", "#GPUs", "Node"), rows),
        more(len(pods), MOST, "pods"),
    )


def _unplaced(plan: Mapping[str, Any]) -> str:
    """A plan that another version made may have none."""
    pods = plan.get("unplaced", [])
    if not pods:
        return ""
    return section(
        "Blocked pods that get no place",
        "They wait on, and nothing is evicted for them.",
        _reasons(by_reason(pods), why_unplaced, "Why it gets none"),
    )


def _freed(plan: Mapping[str, Any]) -> str:
    nodes = plan["freed_nodes"]
    return section("Freed nodes", "They hold no GPU pod afterwards.", _node_names(nodes)) if nodes else ""


def _stays(plan: Mapping[str, Any]) -> str:
    if not plan["skipped"]:
        return ""
    return section(
        "What stays, and why",
        "Pods that the plan may not move, and pods that no other node takes. Each reason can be read off the cluster or was "
        "asked for.",
        _reasons(staying(plan), why_stay, "Why it stays"),
    )


def _reasons(reasons: Reasons, meaning: Callable[[str], str], why: str) -> str:
    """What each reason means and how many pods it holds, then its pods."""
    rows = [
        [text(reason), text(meaning(reason)), number(len(pods)), number(sum(pod["gpus"] for pod in pods))]
        for reason, pods in reasons
    ]
    listed = table(("Reason", "What it means", "#Pods", "#GPUs"), rows)
    return listed + "".join(_reason(reason, pods, why) for reason, pods in reasons)


def _reason(reason: str, pods: list[Mapping[str, Any]], why: str) -> str:
    on_nodes = "node" in pods[0]
    rows = [
        [pod_name(pod), *([name(pod["node"], 40)] if on_nodes else []), number(pod["gpus"]), text(pod["detail"])]
        for pod in pods[:MOST]
    ]
    listed = table(("Pod", *(["Node"] if on_nodes else []), "#GPUs", why), rows) + more(len(pods), MOST, "pods")
    meant = refusals_in(pod["detail"] for pod in pods[:MOST]) if reason in COUNTED else []
    means = facts(meant) if meant else ""
    return f"<details><summary>{text(reason)}: {count(len(pods), 'pod')}</summary>{listed}{means}</details>\n"


def _kept(plan: Mapping[str, Any]) -> str:
    reasons = kept(plan)
    if not reasons:
        return ""
    rows = [[text(sentence(reason)), number(len(nodes)), _node_names(nodes)] for reason, nodes in reasons[:MOST]]
    return section(
        "Nodes that are not emptied",
        "They hold a pod that must stay, or emptying them would gain nothing.",
        table(("Why", "#Nodes", "Which"), rows),
        more(len(reasons), MOST, "reasons"),
    )


def _node_names(nodes: list[str]) -> str:
    shown = "".join(f"<li>{name(node, 40)}</li>" for node in nodes[:MOST])
    return f'<ul class="names">{shown}</ul>\n{more(len(nodes), MOST, "nodes")}'


def _notes(plan: Mapping[str, Any]) -> str:
    about = "What the input could not tell, and what was left out on purpose."
    return section("What is unknown", about, notes(plan["notes"])) if plan["notes"] else ""


def _inputs(plan: Mapping[str, Any]) -> str:
    rows = [
        ("Asked for", goal(plan["objective"])),
        ("GPU resource", clean(plan["resource_name"])),
        ("Limits", limits(plan)),
        ("Solver", clean(plan["solver"])),
        ("Verdict", clean(plan["verdict"])),
        ("Plan", clean(plan["plan_id"])),
    ]
    heads = ("", "#Before", "#After") if changes(plan) else ("", "#Now")
    figures = [[label, *moments[: len(heads) - 1]] for label, *moments in compared(plan)]
    return section(
        "Figures, inputs and words",
        "All figures, what the plan was made with, and what the words mean.",
        table(heads, figures),
        facts(rows),
        glossary(WORDS),
    )
