# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the settings of a playbook to the core's rules and dashboards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.unsafe_proxy import wrap_var

from ..module_utils._core.errors import InputError
from ..module_utils._core.monitoring.settings import MonitoringSettings, settings_of
from .plain import plain

# Text is taken for numbers too: the command line knows nothing else, nor do templates of older versions of Ansible.
# Names, bounds and defaults are the core's.
TYPES: dict[str, dict[str, Any]] = {
    "sizes": {"type": "list", "elements": "int"},
    "fragmentation_size": {"type": "int"},
    "slot_size": {"type": "int"},
    "exported_labels": {"type": "list", "elements": "str"},
    "product_labels": {"type": "list", "elements": "str"},
    "dcgm": {"type": "bool"},
    "fragmentation_threshold": {"type": "float"},
    "storm_evictions": {"type": "int"},
    "ping_pong_evictions": {"type": "int"},
    "descheduler_max_age": {"type": "int"},
    "labels": {"type": "dict"},
    "gpu_hour_price": {"type": "float"},
}


def rendered(name: str, render: Callable[[MonitoringSettings], dict[str, Any]], settings: Any) -> dict[str, Any]:
    """What ``render`` makes of settings; the filter's ``name`` is for messages."""
    given = plain(settings)
    if isinstance(given, dict):
        # An empty text stands for what is not given: a variable of a role cannot be missing.
        given = {key: value for key, value in given.items() if not (value == "" and key in TYPES)}
        checked = ArgumentSpecValidator(TYPES).validate({key: value for key, value in given.items() if key in TYPES})
        if checked.error_messages:
            raise AnsibleFilterError(f"{name}: {'; '.join(checked.error_messages)}")
        given |= {key: value for key, value in checked.validated_parameters.items() if key in given}
    try:
        # The templates in it are Prometheus' and Grafana's: before ansible-core 2.19 they would be taken for Ansible's.
        found: dict[str, Any] = wrap_var(render(settings_of(given)))
        return found
    except InputError as error:
        raise AnsibleFilterError(f"{name}: {error}") from error
