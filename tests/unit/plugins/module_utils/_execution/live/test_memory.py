# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConfigMap, where answers are lost and others write too, and what is known where it cannot be read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.record import State
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.memory import KEY, Memory, cooling
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.tests.unit.builders import Object

NOON = 1796040000.0


class Server:
    """One ConfigMap, as a server keeps it.

    Attributes:
        lost: The answer to the next write is lost, and it is sent again as :meth:`Live.send` does.
        status: What the server answers to reading, if it refuses.
    """

    name, now = "a server", NOON

    def __init__(self, text: str | None = None, *, lost: bool = False, status: int = 404) -> None:
        self.found: Object | None = None
        self.version, self.lost, self.status = 0, lost, status
        if text is not None:
            self.write({"data": {KEY: text}})

    def write(self, body: Object) -> None:
        self.version += 1
        body = {"metadata": {}, **(self.found or {}), **body}
        self.found = body | {"metadata": {**body["metadata"], "resourceVersion": str(self.version)}}

    def send(self, method: str, path: str, body: Any = None, **_more: Any) -> Object:
        if method == "get":
            if self.found is None:
                raise RefusedError(self.status, "refused")
            return copy.deepcopy(self.found)
        for _time in range(1 + self.lost):
            fits = self.found is None if method == "post" else body["metadata"]["resourceVersion"] == str(self.version)
            if not fits:
                self.lost = False
                raise RefusedError(409, "conflict")
            self.write(copy.deepcopy(body))
        return copy.deepcopy(self.found or {})

    def text(self) -> str:
        return str((self.found or {})["data"][KEY])


def loaded(server: Server) -> Memory:
    given: Any = server
    memory = Memory(given, "kube-system")
    memory.load()
    return memory


@pytest.mark.parametrize("text", [None, "old"], ids=["there is none", "there is one"])
@pytest.mark.parametrize("lost", [False, True], ids=["answered", "the answer is lost"])
def test_what_is_saved_is_there(text: str | None, lost: bool) -> None:
    server = Server(text, lost=lost)
    memory = loaded(server)
    for new in ("one", "two"):
        memory.save(new)
        assert server.text() == new
    assert memory.load() == "two"


def test_an_annotation_that_comes_meanwhile_is_no_reason_to_end() -> None:
    server = Server("old")
    memory = loaded(server)
    server.write({"metadata": {"annotations": {"gpuops.io/pause": "now"}}})
    memory.save("new")
    assert server.text() == "new"
    assert memory.annotations == {"gpuops.io/pause": "now"}


def test_what_somebody_else_wrote_is_never_overwritten() -> None:
    server = Server("old")
    memory = loaded(server)
    server.write({"data": {KEY: "theirs"}})
    with pytest.raises(InputError, match="ConfigMap kube-system/gpuops-defrag: was changed by somebody else"):
        memory.save("ours")
    assert server.text() == "theirs"


def test_one_that_a_user_made_for_its_annotation_alone_remembers_nothing() -> None:
    server = Server()
    server.write({"metadata": {"annotations": {"gpuops.io/pause": "now"}}})
    assert loaded(server).load() is None


STATE = State(pods={"u-1": NOON + 60, "u-2": NOON + 1}).to_json(NOON)


@pytest.mark.parametrize(
    ("server", "known", "words"),
    [
        (Server(STATE), {"u-1": NOON + 60, "u-2": NOON + 1}, None),
        (Server(), {}, None),
        (Server(status=403), {}, "may not get ConfigMap ns/gpuops-defrag"),
        (Server("{"), {}, "ConfigMap ns/gpuops-defrag: state.json: cannot be read"),
    ],
    ids=["known", "nothing was moved", "not allowed", "not to be read"],
)
def test_what_cools_down_is_known_or_it_is_said_that_it_is_not(server: Any, known: dict[str, float], words: str | None) -> None:
    found, notes = cooling(server, "ns")
    assert found == known
    assert len(notes) == (words is not None)
    assert (words or "") in "".join(notes)
    assert all("what was moved a moment ago is not known" in note for note in notes)
