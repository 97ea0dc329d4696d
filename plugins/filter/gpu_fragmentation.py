# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.gpu_fragmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ..module_utils._arguments import AUDIT_ARGUMENTS, audit_params
from ..module_utils._core.audit.audit import audit
from ..module_utils._core.errors import InputError
from ..plugin_utils.plain import plain


def gpu_fragmentation(objects: Any, **options: Any) -> dict[str, Any]:
    """The measures of a list of API objects, or of one List."""
    checked = ArgumentSpecValidator(AUDIT_ARGUMENTS).validate(plain(options))
    if checked.error_messages:
        raise AnsibleFilterError(f"gpu_fragmentation: {'; '.join(checked.error_messages)}")
    documents = plain(objects)
    try:
        return audit(documents if isinstance(documents, list) else [documents], **audit_params(checked.validated_parameters))
    except InputError as error:
        raise AnsibleFilterError(f"gpu_fragmentation: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_fragmentation": gpu_fragmentation}
