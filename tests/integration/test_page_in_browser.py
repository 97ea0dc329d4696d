# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages as a reader has them: opened in headless Chromium at the size of a laptop's window."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.fleet_page import fleet_page
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.page import audit_page
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_map import MOST_CHANGED
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.plan_page import plan_page
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report import plans
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import (
    FREE_HERE_AND_THERE,
    audited,
    hostile,
    large,
    long_names,
    pod,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.test_fleet import FLEETS

WIDTH, HEIGHT = 1280, 900
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
]
CLUSTERS = {
    "no node": audited([]),
    "25 nodes": audited(FREE_HERE_AND_THERE, pod("big", 8), gpu_hour_price=3.0),
    "1,213 nodes": large(1213),
    "12,130 nodes": large(12130),
    "MIG slices": audited(["56: 7+7+1"] * 9),
    "long names": long_names(),
    "hostile names": hostile(),
}
PAGES: dict[str, Callable[[], str]] = {
    **{f"audit, {name}": partial(audit_page, audit) for name, audit in CLUSTERS.items()},
    **{f"plan, {name}": partial(plan_page, plan) for name, plan in plans.PLANS.items()},
    **{f"fleet, {name}": partial(fleet_page, fleet) for name, fleet in FLEETS.items()},
}
# Put into a copy of the page, whose policy is taken out so that it runs and so that nothing is kept from loading.
MEASURE = """<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(details => { details.open = true; });
  const wide = [...document.querySelectorAll(".wide")].filter(box => box.scrollWidth > box.clientWidth);
  document.body.setAttribute("data-measured", JSON.stringify({
    "window": innerWidth,
    "content": document.documentElement.scrollWidth,
    "scrolling_boxes": wide.length,
    "loads": performance.getEntriesByType("resource").length,
    "cells": document.querySelectorAll(".map .gpus i").length,
    "small_cells": [...document.querySelectorAll(".map .gpus i")].filter(cell => cell.offsetWidth < 15).length,
    "spilling_rows": [...document.querySelectorAll(".map > li")].filter(row => row.scrollWidth > row.clientWidth + 1).length,
  }));
});
</script></body>"""

Browser = Callable[..., str]


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("the page is tested in Chromium, and there is none on PATH; on Debian: apt-get install chromium")


@pytest.fixture
def browse(tmp_path: Path) -> Browser:
    """Open a page with some options more; gives what Chromium prints."""

    def browse(markup: str, *options: str) -> str:
        page = tmp_path / "page.html"
        page.write_text(markup, encoding="utf-8")
        profile = tmp_path / "profile"
        command = [chromium(), *QUIET, f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}", *options, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(profile, ignore_errors=True)
        return done.stdout

    return browse


def measured(browse: Browser, markup: str) -> dict[str, int]:
    copy = re.sub(r"<meta http-equiv=[^>]*>", "", markup).replace("</body>", MEASURE)
    (found,) = re.findall(r'data-measured="([^"]*)"', browse(copy, "--dump-dom"))
    figures: dict[str, int] = json.loads(unescape(found))
    return figures


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_laptop_and_loads_nothing(browse: Browser, name: str) -> None:
    figures = measured(browse, PAGES[name]())
    assert figures["window"] == WIDTH
    assert figures["content"] <= WIDTH
    assert (figures["scrolling_boxes"], figures["small_cells"], figures["spilling_rows"]) == (0, 0, 0)
    assert figures["loads"] == 0


@pytest.mark.parametrize("name", ["25 nodes", "1,213 nodes", "MIG slices"])
def test_the_map_has_a_cell_for_every_gpu(browse: Browser, name: str) -> None:
    cluster = CLUSTERS[name]
    assert measured(browse, audit_page(cluster))["cells"] == sum(node["gpus"] for node in cluster["details"]["nodes"])


@pytest.mark.parametrize("name", ["simple", "places a pod", "1,213 nodes", "MIG slices"])
def test_the_map_of_a_plan_has_two_cells_for_every_gpu_of_a_node_that_changes(browse: Browser, name: str) -> None:
    cluster = plans.PLANS[name]["details"]["nodes"]
    changed = [node["gpus"] for node in cluster if node["before"] != node["after"]]
    others = [node["gpus"] for node in cluster if node["before"] == node["after"]]
    # Of many nodes that change not all are drawn; here they are all alike.
    drawn = sum(changed[:MOST_CHANGED]) * 2 + sum(others)
    assert measured(browse, plan_page(plans.PLANS[name]))["cells"] == drawn


@pytest.mark.parametrize("page", ["audit, hostile names", "plan, hostile names"])
def test_a_name_that_is_a_script_stays_text(browse: Browser, page: str) -> None:
    dom = browse(PAGES[page](), "--dump-dom")
    assert "<script" not in dom
    assert "onmouseover=" not in re.sub(r'"[^"]*"|>[^<]*<', "", dom)
    assert "&lt;script&gt;alert('x')&lt;/script&gt;" in dom


def top_left(picture: bytes) -> tuple[int, ...]:
    """Red, green and blue of the first pixel of a PNG. Whatever its row's filter, it stands there as it is."""
    start = picture.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", picture[start - 8 : start - 4])
    return tuple(zlib.decompressobj().decompress(picture[start : start + length], 4)[1:])


@pytest.mark.parametrize(
    ("theme", "paper"),
    [("--blink-settings=preferredColorScheme=1", (255, 255, 255)), ("--blink-settings=preferredColorScheme=0", (20, 23, 27))],
    ids=["light", "dark"],
)
def test_a_picture_of_the_page_is_in_the_readers_theme(
    browse: Browser, tmp_path: Path, theme: str, paper: tuple[int, ...]
) -> None:
    picture = tmp_path / "page.png"
    browse(audit_page(CLUSTERS["25 nodes"]), theme, f"--screenshot={picture}")
    drawn = picture.read_bytes()
    assert struct.unpack(">II", drawn[16:24]) == (WIDTH, HEIGHT)
    assert top_left(drawn) == paper
    assert len(drawn) > 20_000  # there is something on the paper


def test_a_missing_browser_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        chromium()
