# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our taint among those of others, who change them at the same time."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live.taints import Taints
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import RefusedError
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, laid_out, node

OURS = {"key": "gpuops.io/defrag", "effect": "PreferNoSchedule"}
THEIRS = {"key": "dedicated", "value": "llm", "effect": "NoSchedule"}
OTHER_EFFECT = OURS | {"effect": "NoSchedule"}


class Node:
    """A node, as a server keeps it.

    Attributes:
        between: Taints that somebody puts just before the next change.
    """

    def __init__(self, taints: list[Object] | None, between: list[Object] | None = None) -> None:
        self.taints, self.between, self.requests = copy.deepcopy(taints), between, 0

    def send(self, method: str, path: str, changes: Any = None, **_more: Any) -> Object:
        self.requests += 1
        if method == "patch":
            if self.between is not None:
                self.taints, self.between = self.between, None
            test, change = changes
            if test["value"] != self.taints:
                raise RefusedError(422, "the test failed")
            if change["op"] == "remove":
                assert self.taints is not None
                del self.taints[int(change["path"].rpartition("/")[2])]
                self.taints = self.taints or None
            else:
                added = change["value"]
                self.taints = [*(self.taints or []), added] if change["path"].endswith("/-") else added
        return {"spec": {"taints": copy.deepcopy(self.taints)}}


@pytest.mark.parametrize("others", [None, [THEIRS], [OTHER_EFFECT, THEIRS]], ids=["none", "one", "the same key"])
def test_it_comes_and_goes_and_the_others_stay(others: list[Object] | None) -> None:
    server: Any = Node(others)
    taints = Taints(server)
    for on in (True, True, False, False, True):
        assert taints.put("n", on)
        assert (server.taints or []) == [*(others or []), *([OURS] if on else [])]


def test_what_somebody_else_puts_meanwhile_stays() -> None:
    server: Any = Node(None, between=[THEIRS])
    assert Taints(server).put("n", True)
    assert server.taints == [THEIRS, OURS]


def test_a_node_that_was_seen_without_taints_is_not_asked_for() -> None:
    server: Any = Node(None)
    taints = Taints(server)
    taints.look(laid_out([node("n")]).cluster)
    taints.put("n", True)
    assert server.requests == 1


def test_a_node_that_is_gone_is_told() -> None:
    class Gone:
        def send(self, *_given: Any, **_more: Any) -> Object:
            raise RefusedError(404, "not found")

    gone: Any = Gone()
    assert not Taints(gone).put("n", True)
