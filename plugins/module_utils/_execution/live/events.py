# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events, by which whoever looks at a pod or a node learns what was done with it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress

from ..._core.errors import InputError
from ..._kubernetes import Live, RefusedError
from .objects import moment


def tell(live: Live, holder: str, about: Mapping[str, str], reason: str, note: str, *, warning: bool) -> None:
    """An Event about an object. It is news, not memory: one that cannot be written is let go."""
    namespace = about.get("namespace") or "default"
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": f"{about['name'][:200]}.{uuid.uuid4().hex[:16]}"},
        "eventTime": moment(live),
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": reason,
        "note": note[:1000],
        "regarding": about,
        "reportingController": "gpuops.io/defrag",
        "reportingInstance": holder[:128],
    }
    with suppress(RefusedError, InputError):
        live.send("post", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body, once=True)
