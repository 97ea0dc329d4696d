# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The few pieces of HTML that the page is built from."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from .words import clean, number, shorten


def text(value: object) -> str:
    """A value as HTML text, safe in an attribute too."""
    return html.escape(clean(value), quote=True)


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


def name(value: object, most: int = 76) -> str:
    """A name in fixed width; a very long one is shortened and shown in full when pointed at."""
    return f'<span class="name" title="{text(value)}">{text(shorten(value, most))}</span>'


def more(total: int, shown: int, what: str) -> str:
    """A line that says what was left out, if anything was."""
    if total <= shown:
        return ""
    return f'<p class="dim">… and {number(total - shown)} more {text(what)}; the JSON result has them all.</p>\n'
