# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The few pieces of text that the tables are built from.

92 columns, since Ansible shows a table indented by eight: 100 in all.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from .words import number, shorten

WIDTH = 92
TOP = 10
BAR = 50

Lines = list[str]


def joined(sections: Iterable[Lines]) -> str:
    """The sections that have lines, with an empty line between them, without trailing blanks."""
    lines = [line.rstrip() for section in sections if section for line in ("", *section)]
    return "\n".join(lines[1:]) + "\n"


def barred(parts: Sequence[int], signs: str) -> str:
    """A bar that shows each part of the whole by its sign."""
    return "".join(sign * width for sign, width in zip(signs, _widths(parts), strict=True))


def _widths(parts: Sequence[int]) -> list[int]:
    """Characters for each part: 50 in all, in proportion, at least one for a part that is not nothing."""
    whole = sum(parts)
    widths = [max(1, round(BAR * part / whole)) if part else 0 for part in parts]
    widths[widths.index(max(widths))] += BAR - sum(widths)
    return widths


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Lines:
    """Rows under their heads. Columns are set right; one with a negative width, and the first, left."""
    return [row(cells, widths) for cells in (heads, *rows)]


def row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row of columns that are so wide."""
    first, *others = widths
    return "".join(map(_cell, cells, (-first - 2, *others)))


def _cell(text: str, width: int) -> str:
    if width < 0:
        return f"  {shorten(text, -width - 2):<{-width - 2}}"
    return f" {shorten(text, width - 1):>{width - 1}}"


def bullet(text: str) -> Lines:
    """The text as an entry of a list."""
    return wrapped(text, "  - ", "    ")


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> Lines:
    """The text in lines that fit; those after the first are indented by ``hanging``, or all alike."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    )


def more(total: int, shown: int = TOP) -> Lines:
    """A line that says what was left out, if anything was."""
    return [f"  ... and {number(total - shown)} more"] if total > shown else []
