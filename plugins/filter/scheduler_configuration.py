# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.scheduler_configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.errors import InputError
from ..module_utils._core.scheduler.render import render
from ..module_utils._core.scheduler.settings import settings_of
from ..plugin_utils.plain import plain


def scheduler_configuration(settings: Any) -> dict[str, Any]:
    """The KubeSchedulerConfiguration that packs by these settings."""
    try:
        return render(settings_of(plain(settings)))
    except InputError as error:
        raise AnsibleFilterError(f"scheduler_configuration: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"scheduler_configuration": scheduler_configuration}
