# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.scheduler_configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._core.errors import InputError
from ..module_utils._core.scheduler.render import render
from ..module_utils._core.scheduler.settings import settings_of
from ..plugin_utils.plain import plain

# Text is taken for numbers too: the command line knows nothing else, nor do templates of older versions of Ansible.
# Names, bounds and defaults are the core's.
TYPES: dict[str, dict[str, Any]] = {
    "resource_weights": {"type": "dict"},
    "gpus_per_node": {"type": "int"},
    "fit_weight": {"type": "int"},
    "balanced_allocation_weight": {"type": "int"},
    "default_spreading": {"type": "bool"},
    "percentage_of_nodes_to_score": {"type": "int"},
    "base": {"type": "dict"},
}


def scheduler_configuration(settings: Any) -> dict[str, Any]:
    """The KubeSchedulerConfiguration that packs by these settings."""
    given = plain(settings)
    if isinstance(given, dict):
        checked = ArgumentSpecValidator(TYPES).validate({name: value for name, value in given.items() if name in TYPES})
        if checked.error_messages:
            raise AnsibleFilterError(f"scheduler_configuration: {'; '.join(checked.error_messages)}")
        given |= {name: value for name, value in checked.validated_parameters.items() if name in given}
    try:
        return render(settings_of(given))
    except InputError as error:
        raise AnsibleFilterError(f"scheduler_configuration: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"scheduler_configuration": scheduler_configuration}
