# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from an audit's result in a playbook to the core's reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from .plain import plain


def report(name: str, render: Callable[..., str], result: Any, **options: Any) -> str:
    """What ``render`` makes of a ``fragmentation`` result; ``name`` is the filter's, for messages."""
    fragmentation = plain(result)
    wanted = "wants what gpu_fragmentation_info returns under 'fragmentation'"
    if not isinstance(fragmentation, Mapping):
        raise AnsibleFilterError(f"{name}: {wanted}, not {type(fragmentation).__name__}")
    try:
        return render(fragmentation, **plain(options))
    except KeyError as missing:
        raise AnsibleFilterError(f"{name}: {wanted}; this has no {missing}") from missing
