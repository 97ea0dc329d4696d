# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease, by which only one run is at work at a time."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Mapping
from typing import Any

from ..._core.kube.decode import epoch
from ..._kubernetes import Live, RefusedError
from ..actions import LeaseLostError
from .objects import NAME, TRIES, clock, find, meta, moment, patch

LEASE_SECONDS = 30
"""So long a run that died keeps others from starting."""


class Lease:
    """The Lease of one namespace, as one run sees it.

    Attributes:
        holder: What this run is called.
    """

    def __init__(self, live: Live, namespace: str) -> None:
        self.holder = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._live = live
        self._namespace = namespace
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._leases}/{NAME}"
        self._renewed: float | None = None

    def other(self) -> str | None:
        """Who else holds it."""
        return self._other(find(self._live, self._path))

    def take(self) -> str | None:
        """Take it; whoever holds it where that cannot be."""
        found = find(self._live, self._path)
        if holder := self._other(found):
            return holder
        try:
            if found is None:
                kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
                self._live.send("post", self._leases, kind | {"metadata": meta(self._namespace), "spec": self._held()})
            else:
                self._change(found, self._held())
        except RefusedError as error:
            if error.status != 409:
                raise
            # Another was first; or we were, and the answer was lost.
            found = find(self._live, self._path)
            if not self._is_ours(found):
                return self._other(found) or "another run"
        self._renewed = time.monotonic()
        return None

    def keep(self) -> None:
        """Renew it if a third of its time has passed; before every write, so that none is made without it.

        Raises:
            LeaseLostError: It is another's.
        """
        if self._renewed is None or time.monotonic() - self._renewed < LEASE_SECONDS / 3:
            return
        for _try in range(TRIES):
            found = find(self._live, self._path)
            if found is None or not self._is_ours(found):
                self._renewed = None
                raise LeaseLostError(f"another run has taken the Lease {self._namespace}/{NAME}")
            held = self._held()
            del held["acquireTime"]
            try:
                self._change(found, held)
            except RefusedError as error:
                if error.status != 409:
                    raise
                continue
            self._renewed = time.monotonic()
            return
        raise LeaseLostError(f"the Lease {self._namespace}/{NAME} cannot be renewed")

    def release(self) -> None:
        """Give it back, if it is still ours."""
        if self._renewed is None:
            return
        self._renewed = None
        found = find(self._live, self._path)
        if found and self._is_ours(found):
            try:
                self._change(found, {"holderIdentity": ""})
            except RefusedError as error:
                # It has run out and another took it; or it is given back, and the answer was lost.
                if error.status != 409:
                    raise

    def _is_ours(self, lease: Mapping[str, Any] | None) -> bool:
        return ((lease or {}).get("spec") or {}).get("holderIdentity") == self.holder

    def _other(self, lease: Mapping[str, Any] | None) -> str | None:
        """Who else holds it, and has not let it run out."""
        spec = (lease or {}).get("spec") or {}
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        if not holder or holder == self.holder:
            return None
        lasting = spec.get("leaseDurationSeconds") or LEASE_SECONDS
        return None if renewed is None or epoch(renewed) + lasting < clock(self._live) else str(holder)

    def _held(self) -> dict[str, Any]:
        now = moment(self._live)
        return {"holderIdentity": self.holder, "leaseDurationSeconds": LEASE_SECONDS, "acquireTime": now, "renewTime": now}

    def _change(self, found: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        patch(self._live, self._path, {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "spec": spec})
