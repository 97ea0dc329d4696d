# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a module's result in a playbook to the core's reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from .plain import plain

FRAGMENTATION = "what gpu_fragmentation_info returns under 'fragmentation'"
PLAN = "what gpu_defrag_plan returns under 'plan'"
FLEET = "what the filter fleet returns"


def report(name: str, wanted: str, render: Callable[..., str], result: Any, **options: Any) -> str:
    """What ``render`` makes of a result; the filter's ``name`` and what it wants are for messages."""
    found = plain(result)
    if not isinstance(found, Mapping):
        raise AnsibleFilterError(f"{name}: wants {wanted}, not {type(found).__name__}")
    try:
        return render(found, **plain(options))
    except KeyError as missing:
        raise AnsibleFilterError(f"{name}: wants {wanted}; this has no {missing}") from missing
