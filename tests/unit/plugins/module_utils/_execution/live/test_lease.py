# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease, where answers are lost and others come between."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.lease import Lease
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.tests.unit.builders import Object

NOON = "2026-11-30T12:00:00.000000Z"
HELD: Object = {"holderIdentity": "other", "leaseDurationSeconds": 30, "renewTime": NOON}
RUN_OUT = HELD | {"renewTime": "2026-11-30T11:00:00.000000Z"}
RELEASED = HELD | {"holderIdentity": ""}


class Server:
    """One Lease, as a server keeps it.

    Attributes:
        lost: The answer to the next write is lost, and it is sent again as :meth:`Live.send` does.
        between: The Lease of somebody who comes before the next write, and afterwards.
    """

    name, now = "a server", epoch(NOON)

    def __init__(self, spec: Object | None = None, *, lost: bool = False, between: tuple[Object, ...] = ()) -> None:
        self.spec, self.version, self.lost, self.between = copy.deepcopy(spec), 1, lost, list(between)

    def send(self, method: str, path: str, body: Any = None, **_more: Any) -> Object:
        if method == "get":
            if self.spec is None:
                raise RefusedError(404, "not found")
            return {"metadata": {"resourceVersion": str(self.version)}, "spec": copy.deepcopy(self.spec)}
        if self.between:
            self._write(self.between.pop(0))
        for _time in range(1 + self.lost):
            fits = self.spec is None if method == "post" else body["metadata"]["resourceVersion"] == str(self.version)
            if not fits:
                if self.between:
                    self._write(self.between.pop(0))
                raise RefusedError(409, "conflict")
            self._write({**(self.spec or {}), **body["spec"]})
        return {}

    def _write(self, spec: Object) -> None:
        self.spec, self.version = copy.deepcopy(spec), self.version + 1


LEASES: dict[str, tuple[Server, str | None]] = {
    "there is none": (Server(), None),
    "there is none, and the answer is lost": (Server(lost=True), None),
    "it is nobody's": (Server(RELEASED), None),
    "it has run out": (Server(RUN_OUT), None),
    "it has run out, and the answer is lost": (Server(RUN_OUT, lost=True), None),
    "another holds it": (Server(HELD), "other"),
    "another makes it first": (Server(between=(HELD,)), "other"),
    "another makes it first and is done at once": (Server(between=(HELD, RELEASED)), "another run"),
    "another takes it first": (Server(RUN_OUT, between=(HELD,)), "other"),
    "another takes it first and is done at once": (Server(RUN_OUT, between=(HELD, RELEASED)), "another run"),
}


@pytest.mark.parametrize(("server", "holder"), LEASES.values(), ids=LEASES)
def test_a_run_goes_on_only_with_the_lease_and_gives_it_back(server: Any, holder: str | None) -> None:
    lease = Lease(server, "kube-system")
    found = lease.take()
    assert found == holder
    assert (server.spec["holderIdentity"] == lease.holder) == (found is None)
    lease.release()
    assert server.spec["holderIdentity"] != lease.holder
