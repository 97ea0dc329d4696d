# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as Ansible's controller passes them to plugins, made plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def plain(value: Any) -> Any:
    """The same value in plain Python types.

    Since ansible-core 2.19 containers are lazy, and text and numbers carry tags; both slow down and outlive whoever keeps them.
    Before, text is of types of Ansible's own, whose ``str()`` is of that type again.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [plain(member) for member in value]
    return value
