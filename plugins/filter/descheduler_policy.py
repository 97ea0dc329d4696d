# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.descheduler_policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.descheduler.policy import render
from ..module_utils._core.descheduler.settings import policy_settings
from ..module_utils._core.errors import InputError
from ..plugin_utils.plain import plain


def descheduler_policy(settings: Any, **more: Any) -> dict[str, Any]:
    """The policy that settings ask for; keywords are settings too, and go before those of the mapping."""
    given = plain(settings)
    if not isinstance(given, Mapping):
        raise AnsibleFilterError(f"descheduler_policy: wants a mapping of settings, not {type(given).__name__}")
    try:
        return render(policy_settings({**given, **plain(more)}))
    except InputError as error:
        raise AnsibleFilterError(f"descheduler_policy: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"descheduler_policy": descheduler_policy}
