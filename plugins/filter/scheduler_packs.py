# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.scheduler_packs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.errors import InputError
from ..module_utils._core.scheduler.packing import outcome, packing_profiles, packs
from ..plugin_utils.plain import plain


def scheduler_packs(configuration: Any, resource_name: str = "nvidia.com/gpu", gpus_per_node: int = 8) -> dict[str, Any]:
    """What a KubeSchedulerConfiguration does with GPU pods."""
    if not isinstance(gpus_per_node, int) or gpus_per_node < 1:
        raise AnsibleFilterError(f"scheduler_packs: gpus_per_node: is {gpus_per_node!r}; it is a number of at least 1")
    try:
        found = packs(plain(configuration), str(resource_name), gpus_per_node)
    except InputError as error:
        raise AnsibleFilterError(f"scheduler_packs: {error}") from error
    packing = packing_profiles(found)
    return {
        "packs": bool(packing),
        "packing_profiles": packing,
        "profiles": [profile.plain() for profile in found],
        "message": outcome(found, str(resource_name)),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"scheduler_packs": scheduler_packs}
