# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.kept_by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.gitops.keepers import keeper
from ..plugin_utils.plain import plain


def kept_by(manifest: Any) -> dict[str, Any]:
    """Who keeps an object elsewhere; one that is not there, an empty mapping, nobody does."""
    found = plain(manifest)
    if not isinstance(found, Mapping):
        raise AnsibleFilterError(f"kept_by: wants an object of Kubernetes, not {type(found).__name__}")
    return asdict(keeper(found.get("metadata") or {}))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kept_by": kept_by}
