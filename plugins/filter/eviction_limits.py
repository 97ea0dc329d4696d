# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.eviction_limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._arguments import time_of
from ..module_utils._core.errors import InputError
from ..module_utils._core.rate.law import decide, read_state
from ..module_utils._core.rate.readings import read_readings
from ..module_utils._rate_arguments import LAW_ARGUMENTS, law_of
from ..plugin_utils.plain import plain

OPTIONS: dict[str, dict[str, Any]] = {**LAW_ARGUMENTS, "state": {"type": "dict"}, "now": {"type": "str"}}


def eviction_limits(readings: Any, **options: Any) -> dict[str, Any]:
    """The limits of the next cycle."""
    checked = ArgumentSpecValidator(OPTIONS).validate(plain(options))
    if checked.error_messages:
        raise AnsibleFilterError(f"eviction_limits: {'; '.join(checked.error_messages)}")
    params = checked.validated_parameters
    try:
        found, law = read_readings(plain(readings)), law_of(params)
        now = time_of(params["now"]) or time.time()
        decision = decide(found, law.bounds, read_state(params["state"]), now, interval=law.interval)
    except InputError as error:
        raise AnsibleFilterError(f"eviction_limits: {error}") from error
    return decision.plain() | {"inputs": found.plain()}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"eviction_limits": eviction_limits}
