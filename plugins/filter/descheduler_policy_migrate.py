# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.descheduler_policy_migrate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._core.descheduler.migrate import Fleet, migrate
from ..module_utils._core.descheduler.settings import selector_text
from ..module_utils._core.descheduler.versions import NEWEST, parse_version
from ..module_utils._core.errors import InputError
from ..module_utils._descheduler import policy_document
from ..plugin_utils.plain import plain

OPTIONS: dict[str, dict[str, Any]] = {
    "descheduler_version": {"type": "str", "default": NEWEST},
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "gpus_per_node": {"type": "int"},
    "node_selector": {"type": "raw"},
}


def descheduler_policy_migrate(policy: Any, **options: Any) -> dict[str, Any]:
    """The policy in v1alpha2, with what was changed and what was lost."""
    checked = ArgumentSpecValidator(OPTIONS).validate(plain(options))
    if checked.error_messages:
        raise AnsibleFilterError(f"descheduler_policy_migrate: {'; '.join(checked.error_messages)}")
    given = checked.validated_parameters
    try:
        selector = selector_text(given["node_selector"], "node_selector") if given["node_selector"] else ""
        made = migrate(
            policy_document(plain(policy)).content,
            parse_version(given["descheduler_version"]),
            resource=given["resource_name"],
            fleet=Fleet(given["gpus_per_node"], selector),
        )
    except InputError as error:
        raise AnsibleFilterError(f"descheduler_policy_migrate: {error}") from error
    return {"policy": made.policy, "notes": made.notes, "cannot": made.cannot}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"descheduler_policy_migrate": descheduler_policy_migrate}
