# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The plan as text for a terminal: no colours, plain characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .lines import TOP, WIDTH, Lines, barred, bullet, columns, joined, more, row, wrapped
from .plan_words import (
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
    sentence,
    signed,
    staying,
    staying_pods,
    wave_words,
    why_stay,
    why_unplaced,
)
from .words import clean, count, names, number, shorten

MOVES = 60
FEW = 3  # pods that are named for one reason to stay


def plan_table(plan: Mapping[str, Any]) -> str:
    """The plan as text: the verdict first, what it gains, each move in order, and what stays and why.

    Args:
        plan: The result of ``gpu_defrag_plan``; its ``details`` are not needed.

    Returns:
        Lines of at most 92 characters, without trailing blanks, ending in a newline.
    """
    return joined(
        [
            wrapped(headline(plan)),
            _compared(plan),
            _slots(plan),
            _moves(plan),
            _freed(plan),
            _placed(plan),
            _unplaced(plan),
            _stays(plan),
            _kept(plan),
            _notes(plan),
        ]
    )


def _compared(plan: Mapping[str, Any]) -> Lines:
    if not plan["before"]["nodes"]:
        return []
    heads, title = ("", "before", "after"), "BEFORE AND AFTER"
    if not changes(plan):
        heads, title = ("", "now", ""), "AS IT IS"
    rows = [(label, before, after if changes(plan) else "") for label, before, after in compared(plan)]
    about = f"{title}   {clean(plan['resource_name'])}, asked for {goal(plan['objective'])}"
    return [*wrapped(about, hanging="  "), *columns(heads, rows, (22, 12, 12))]


def _slots(plan: Mapping[str, Any]) -> Lines:
    before, after = plan["before"], plan["after"]
    room = max(before["gpus_free"], after["gpus_free"])
    if not room:
        return []
    rows = []
    for size, had in before["slots"].items():
        has, each = after["slots"][size], int(size)
        same, won, lost = min(had, has) * each, max(0, has - had) * each, max(0, had - has) * each
        drawn = barred((same, won, lost, max(0, room - same - won - lost)), "#+-.")
        rows.append((size, number(had), number(has), signed(has - had), f"[{drawn}]"))
    if changes(plan):
        heads = ("size", "before", "after", "gained", "# slots  + gained  - lost  . no slot")
        return ["SLOTS PER SIZE", *columns(heads, rows, (6, 8, 8, 10, -54))]
    now = [(size, had, drawn) for size, had, has, gained, drawn in rows]
    return ["SLOTS PER SIZE", *columns(("size", "slots", "# slots  . no slot"), now, (6, 8, -54))]


def _moves(plan: Mapping[str, Any]) -> Lines:
    if not plan["waves"]:
        return []
    starts = cold_starts(plan)
    about = [effort(plan), bound(plan), *([f"{starts} of cold starts"] if starts else [])]
    lines = [*wrapped(f"MOVES   {', '.join(about)}", hanging="  "), *wrapped(f"limits: {limits(plan)}", "  ")]
    left = MOVES
    for place, wave in enumerate(plan["waves"], 1):
        if left <= 0:
            break
        lines.append(f"  wave {place}: {wave_words(wave)}")
        for move in wave[:left]:
            cells = (_pod(move), count(move["gpus"], "GPU"), move["from"], f"-> {clean(move['to'])}")
            lines.append(f"  {row(cells, (34, 10, -20, -24))}")
        left -= len(wave)
    return lines + more(plan["evictions"], MOVES)


def _freed(plan: Mapping[str, Any]) -> Lines:
    nodes = plan["freed_nodes"]
    if not nodes:
        return []
    return [f"FREED NODES ({number(len(nodes))})   they hold no GPU pod afterwards", *wrapped(_names(nodes), "  ")]


def _placed(plan: Mapping[str, Any]) -> Lines:
    pods = plan["placed_pods"]
    if not pods:
        return []
    lines = [f"PLACED PODS ({number(len(pods))})   they wait now, and get a place"]
    for pod in pods[:TOP]:
        cells = (_pod(pod), count(pod["gpus"], "GPU"), f"-> {clean(pod['node'])}")
        lines.append(f"  {row(cells, (42, 10, -36))}")
    return lines + more(len(pods))


def _unplaced(plan: Mapping[str, Any]) -> Lines:
    """A plan that another version made may have none."""
    pods = plan.get("unplaced", [])
    if not pods:
        return []
    lines = [f"BLOCKED PODS THAT GET NO PLACE ({number(len(pods))})"]
    for reason, alike in by_reason(pods):
        lines += wrapped(f"{why_unplaced(reason)}: {count(len(alike), 'pod')}", "  ", "    ")
        for pod in alike[:FEW]:
            lines += wrapped(f"{_pod(pod)}: {clean(pod['detail'])}", "    - ", "      ")
        lines += [f"  {line}" for line in more(len(alike), FEW)]
    return lines


def _stays(plan: Mapping[str, Any]) -> Lines:
    if not plan["skipped"]:
        return []
    lines = [f"WHAT STAYS AND WHY   {staying_pods(plan)}"]
    for reason, pods in staying(plan):
        gpus = count(sum(pod["gpus"] for pod in pods), "GPU")
        lines += wrapped(f"{why_stay(reason)}: {count(len(pods), 'pod')}, {gpus}", "  ", "    ")
        for pod in pods[:FEW]:
            lines += wrapped(f"{_pod(pod)} on {shorten(pod['node'], 30)}: {clean(pod['detail'])}", "    - ", "      ")
        lines += [f"  {line}" for line in more(len(pods), FEW)]
    return lines


def _kept(plan: Mapping[str, Any]) -> Lines:
    if not plan["nodes_kept"]:
        return []
    lines = [f"NODES THAT ARE NOT EMPTIED ({number(len(plan['nodes_kept']))})"]
    reasons = kept(plan)
    for reason, nodes in reasons[:TOP]:
        lines += bullet(f"{_names(nodes)}: {sentence(reason)}")
    return lines + more(len(reasons))


def _notes(plan: Mapping[str, Any]) -> Lines:
    lines = [line for note in plan["notes"] for line in bullet(clean(note))]
    return ["NOTES", *lines] if lines else []


def _pod(pod: Mapping[str, Any]) -> str:
    return shorten(f"{pod['namespace']}/{pod['pod']}", WIDTH // 2)


def _names(nodes: list[str]) -> str:
    return names([shorten(node, 40) for node in nodes], TOP)
