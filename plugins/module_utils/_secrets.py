# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is secret within options that are not so as a whole: it never shows in results, logs or diffs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_HEADER = re.compile(r"authorization|cookie|credential|token|secret|password|api-?key", re.IGNORECASE)
_ADDRESS = re.compile(r"\w+://[^/?#:@]*:([^/?#]*)@")
_KUBECONFIG = re.compile(r"token|password|secret|client-key-data", re.IGNORECASE)


def hide_secrets(module: Any) -> None:
    """Have a module hide the credentials of a kubeconfig that is given as a mapping, of HTTP headers, and within addresses.

    To hide these options whole would hide every "1" of a result where a tenant is called so.
    """
    module.no_log_values.update(secrets_of(module.params))


def secrets_of(params: Mapping[str, Any]) -> set[str]:
    """The secret values among a module's options."""
    headers = params.get("prometheus_headers") or {}
    found = {str(value) for name, value in headers.items() if _HEADER.search(str(name))}
    for name in ("prometheus_url", "prometheus_proxy"):
        told = _ADDRESS.match((params.get(name) or "").strip())
        found |= {told[1], unquote(told[1])} if told else set()
    return (found | set(_within(params.get("kubeconfig")))) - {""}


def _within(part: Any) -> Iterator[str]:
    for key, value in part.items() if isinstance(part, Mapping) else enumerate(part) if isinstance(part, list) else ():
        if isinstance(value, str):
            if _KUBECONFIG.search(str(key)):
                yield value
        else:
            yield from _within(value)
