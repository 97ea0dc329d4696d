# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of asking a Prometheus. Their documentation is the fragment gpuops.defrag.prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._prometheus import Prometheus

PREFIX = "prometheus_"
PROMETHEUS_ARGUMENTS: dict[str, dict[str, Any]] = {
    "prometheus_url": {"type": "str"},
    # Those that are secret are hidden one by one: see _secrets.py.
    "prometheus_headers": {"type": "dict", "default": {}, "no_log": False},
    "prometheus_token": {"type": "str", "no_log": True},
    "prometheus_username": {"type": "str"},
    "prometheus_password": {"type": "str", "no_log": True},
    "prometheus_ca_cert": {"type": "path"},
    "prometheus_client_cert": {"type": "path"},
    "prometheus_client_key": {"type": "path", "no_log": False},
    "prometheus_validate_certs": {"type": "bool", "default": True},
    "prometheus_proxy": {"type": "str"},
    "prometheus_timeout": {"type": "int", "default": 30},
}


def prometheus_of(params: Mapping[str, Any]) -> Prometheus | None:
    """Whom the options of PROMETHEUS_ARGUMENTS name; None without ``prometheus_url``.

    Raises:
        InputError: They make no sense; it names the option.
    """
    given = {name.removeprefix(PREFIX): params[name] for name in PROMETHEUS_ARGUMENTS}
    return Prometheus(**given) if given["url"] else None
