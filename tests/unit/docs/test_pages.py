# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages are found from the README, lead where they say, and quote messages that are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs").glob("*.md"))
EVERY = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *sorted(ROOT.glob("roles/*/README.md"))]
SOURCES = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/*.yml")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> set[str]:
    return {link for link in LINK.findall(page.read_text()) if "://" not in link}


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        new = {target for target in found if target.suffix == ".md" and target.is_file()} - reached
        reached |= new
        left += new
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _sharp, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if target.suffix == ".md" and target.is_file() else []
        slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
        if not target.exists() or (anchor and anchor not in slugs):
            broken.append(link)
    assert broken == []


def test_messages_of_the_troubleshooting_page_are_told_somewhere() -> None:
    told = " ".join(" ".join(file.read_text().split()) for file in SOURCES).replace('" "', "").replace('" f"', "")
    rows = re.findall(r"^\| `([^`]+)`", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    parts = [part.strip(" ,") for row in rows for part in row.split("…")]
    assert [part for part in parts if part and part not in told] == []
