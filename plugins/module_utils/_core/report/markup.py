# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The few pieces of HTML that the pages are built from."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .style import STYLE
from .words import clean, number, shorten

MOST = 50  # entries of one list; the JSON result has the rest

MARK = '<span class="gpus" aria-hidden="true"><b class="p2"><i></i><i></i></b><i class="f"></i><i class="s"></i></span>'


def text(value: object) -> str:
    """A value as HTML text, safe in an attribute too."""
    return html.escape(clean(value), quote=True)


SLOT_KEY = (
    '<ul class="key"><li><span class="swatch is-usable"></span>usable</li>'
    '<li><span class="swatch is-free"></span>a slot, but its CPU, memory or pod room is taken, or its node closed</li>'
    '<li><span class="swatch is-lost"></span>stranded</li></ul>\n'
)


def document(title: str, body: str) -> str:
    """A whole document that refers to no other one and forbids scripts; title is text, body is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<p class="title">{MARK}{text(title)}</p>\n{body}'
        "<footer>gpuops.defrag</footer>\n</main>\n</body>\n</html>\n"
    )


def totals(measures: Mapping[str, Any], resource: str) -> str:
    """Nodes and GPUs in one line."""
    amounts = (
        (measures["nodes"], "node" if measures["nodes"] == 1 else "nodes"),
        (measures["gpus_total"], "GPU" if measures["gpus_total"] == 1 else "GPUs"),
        (measures["gpus_allocated"], "allocated"),
        (measures["gpus_free"], "free"),
    )
    line = " · ".join(f"<b>{number(amount)}</b> {word}" for amount, word in amounts)
    return f'<p class="totals">{line} · {text(resource)}</p>\n'


def section(title: str, about: str, *parts: str) -> str:
    """A section with its heading and one line that says what it shows; about is text, parts are HTML."""
    return f'<section>\n<h2>{text(title)}</h2>\n<p class="about">{text(about)}</p>\n{"".join(parts)}</section>\n'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Heads are text, cells are HTML; a head that starts with ``#`` stands over numbers."""
    classes = [' class="n"' if head.startswith("#") else "" for head in heads]
    top = "".join(f'<th scope="col"{style}>{text(head.lstrip("#"))}</th>' for head, style in zip(heads, classes, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{cell}</td>' for cell, style in zip(row, classes, strict=True))}</tr>\n" for row in rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values side by side; both are text."""
    body = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>\n' for name, value in rows)
    return f'<div class="wide"><table class="facts"><tbody>\n{body}</tbody></table></div>\n'


def stacked(parts: Iterable[tuple[str, float]], *, rest: float = 0, thin: bool = False) -> str:
    """A bar of (kind, amount) parts, followed by ``rest`` of nothing. What it shows is always told beside it."""
    cells = "".join(f'<span class="is-{kind}" style="flex:{amount:g}"></span>' for kind, amount in parts if amount)
    gap = f'<span style="flex:{rest:g}"></span>' if rest > 0 else ""
    return f'<div class="bar{" thin" if thin else ""}" aria-hidden="true">{cells}{gap}</div>'


def key(parts: Iterable[tuple[str, int, str]]) -> str:
    """What the colours and patterns of a bar stand for: (kind, amount, words); one of nothing is left out."""
    rows = "".join(
        f'<li><span class="swatch is-{kind}"></span><span><b>{number(amount)}</b> {text(words)}</span></li>'
        for kind, amount, words in parts
        if amount
    )
    return f'<ul class="key">{rows}</ul>'


def tiles(figures: Iterable[tuple[str, str, str, bool]]) -> str:
    """Figures that stand out: what each is, its value, words about it, and whether it asks for attention."""
    return f'<dl class="tiles">\n{"".join(_tile(*figure) for figure in figures)}</dl>\n'


def _tile(label: str, value: str, words: str, loud: bool) -> str:
    return f'<div class="tile{" loud" if loud else ""}"><dt>{text(label)}</dt><dd>{text(value)}<p>{text(words)}</p></dd></div>\n'


def lost_gpus(gpus: int) -> str:
    """A number of stranded GPUs; none is nothing to look at."""
    return f'<span class="{"lost" if gpus else "dim"}">{number(gpus)}</span>'


def name(value: object, most: int = 76) -> str:
    """A name in fixed width; a very long one is shortened and shown in full when pointed at."""
    return f'<span class="name" title="{text(value)}">{text(shorten(value, most))}</span>'


def pod_name(pod: Mapping[str, Any]) -> str:
    """``namespace/pod`` in fixed width."""
    return name(f"{pod['namespace']}/{pod['pod']}")


def notes(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    entries = "".join(f"<li>{text(sentence)}</li>\n" for sentence in sentences)
    return f'<ul class="notes">\n{entries}</ul>\n'


def more(total: int, shown: int, what: str) -> str:
    """A line that says what was left out, if anything was."""
    if total <= shown:
        return ""
    return f'<p class="dim">… and {number(total - shown)} more {text(what)}; the JSON result has them all.</p>\n'
