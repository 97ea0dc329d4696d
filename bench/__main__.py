# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every benchmark and write docs/bench.md, as it comes out."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The collection under the name that Ansible gives it; make setup links the repository there.
sys.path.insert(0, str(ROOT / ".venv/collections"))

from bench import audit, live, plan  # noqa: E402


def main() -> None:
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    page = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {machine}. Times are CPU time in one process, the two sides of a",
        "ratio taken in turns: medians (least to most). They vary with the machine; the ratios much less.",
        "",
        *audit.section(ROOT / "examples"),
        *plan.section(ROOT / "examples"),
        *live.section(),
    ]
    text = "\n".join(page) + "\n"
    (ROOT / "docs/bench.md").write_text(text, encoding="utf-8")
    print(text)


main()
