# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages as tests look at them."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta"}
# Every element and attribute that the page is made of; none of them loads or runs anything.
ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer", "h1", "h2", "h3", "p"}
ELEMENTS |= {"ul", "li", "dl", "dt", "dd", "div", "span", "b", "i", "details", "summary"}
ELEMENTS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "style", "title", "scope", "aria-hidden", "open"}


class Page(HTMLParser):
    """The page as elements: their paths, attributes and text. Fails on an end tag that does not fit."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not data.strip() or "style" in self._open:
            return
        if self._open[-1] == "h2":
            self.sections[data] = []
        self.sections.setdefault("", [])
        self.sections[list(self.sections)[-1] if self._open[-1] != "h2" else data].append(data.strip())

    def classes(self) -> Counter[str]:
        return Counter(name for tag, attrs in self.elements for name in (attrs.get("class") or "").split())


def kinds(cells: str) -> Counter[str]:
    """Cells of a row: "held", and "f", "s", "u" for free, stranded and unhealthy."""
    return Counter(kind or "held" for kind in re.findall(r'<i(?: class="(\w)")?>', cells))


def cells(markup: str) -> Counter[str]:
    """The cells of the map, without its legend, by kind."""
    rows = re.findall(r'<li><span class="name" title="[^"]*">[^<]*</span><span class="gpus">(.*?)</span>', markup)
    return sum(map(kinds, rows), Counter[str]())


def rows(markup: str) -> list[str]:
    """The names of the map's nodes, in their order."""
    return re.findall(r'<li><span class="name" title="([^"]*)">[^<]*</span><span class="gpus">', markup)


def assert_harmless(markup: str) -> None:
    """The page is well formed and made of nothing that could load or run anything."""
    page = Page(markup)
    assert {tag for tag, attrs in page.elements} <= ELEMENTS
    assert {name for tag, attrs in page.elements for name in attrs} <= ATTRIBUTES
    assert not re.search(r"url\(|@import|image-set|https?:", markup)
