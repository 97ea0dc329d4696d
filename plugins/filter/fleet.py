# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.report.fleet import fleet as sum_up
from ..plugin_utils.plain import plain
from ..plugin_utils.reports import FRAGMENTATION


def fleet(audits: Any, unknown: Any = None) -> dict[str, Any]:
    """The audits of several clusters, summed up."""
    found, missing = plain(audits), plain(unknown) or {}
    for name, given in (("audits", found), ("unknown", missing)):
        if not isinstance(given, Mapping):
            raise AnsibleFilterError(f"fleet: {name}: wants a mapping by cluster, not {type(given).__name__}")
    try:
        return sum_up(found, missing)
    except (KeyError, TypeError) as wrong:
        raise AnsibleFilterError(f"fleet: wants of every cluster {FRAGMENTATION}; {wrong}") from wrong


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet": fleet}
