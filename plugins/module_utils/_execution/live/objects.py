# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single objects of a live cluster, and what those of ours are called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..._kubernetes import Live, RefusedError

NAME = "gpuops-defrag"
TRIES = 10
"""So often what somebody else has just changed is read again and changed anew."""

_LABELS: Mapping[str, str] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "gpuops.defrag"}


def find(live: Live, path: str) -> dict[str, Any] | None:
    """An object; None where there is none."""
    try:
        return live.send("get", path)
    except RefusedError as error:
        if error.status == 404:
            return None
        raise


def patch(live: Live, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Change an object by a merge patch; what it is then."""
    return live.send("patch", path, body, content="application/merge-patch+json")


def meta(namespace: str) -> dict[str, Any]:
    """Metadata of an object of ours."""
    return {"namespace": namespace, "name": NAME, "labels": dict(_LABELS)}


def clock(live: Live) -> float:
    """The server's clock, in seconds since 1970."""
    return time.time() if live.now is None else live.now


def moment(live: Live) -> str:
    """The same as objects have it, to the microsecond."""
    return datetime.fromtimestamp(clock(live), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
