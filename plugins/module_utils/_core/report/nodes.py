# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audited nodes as CSV, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from .words import clean, worst_first

COLUMNS = ("node", "pool", "state", "gpus", "allocated", "free", "stranded", "pods")
FORMULA = ("=", "+", "-", "@")


def audit_nodes_csv(fragmentation: Mapping[str, Any]) -> str:
    """One line for each GPU node, those that strand most GPUs first.

    Args:
        fragmentation: The result of ``gpu_fragmentation_info`` with ``details``.

    Returns:
        CSV with a head, its lines ending in a newline. A name that a spreadsheet would take for a formula is quoted
        with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for node in worst_first(fragmentation["details"]["nodes"]):
        amounts = (node["gpus"], node["allocated"], node["free"], node["stranded"], len(node["holders"]))
        writer.writerow((_name(node["node"]), _name(node["pool"]), node["state"], *amounts))
    return text.getvalue()


def _name(value: str) -> str:
    name = clean(value)
    return f"'{name}" if name.startswith(FORMULA) else name
