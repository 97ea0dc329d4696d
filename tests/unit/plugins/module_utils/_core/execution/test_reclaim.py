# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution import reclaim
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.tests.unit.builders import node, pod


def test_the_mark_goes_to_the_empty_nodes_and_away_from_others_that_were_looked_at() -> None:
    marked = {reclaim.LABEL: "true"}
    cluster = decode([node("n1"), *(node(name, labels=marked) for name in ("n2", "n3", "n4"))], live=True)
    assert reclaim.marks(cluster, {"n1", "n2"}, {"n1", "n2", "n3"}) == reclaim.Marks(("n1",), ("n3",))


def test_a_node_that_another_run_marked_keeps_it_while_it_is_empty() -> None:
    marked = {reclaim.LABEL: "true"}
    nodes = [node(name, None, allocatable={"amd.com/gpu": "8"}, labels=marked) for name in ("a1", "a2", "a3")]
    daemon = pod("agent", 0, "a2", owner="DaemonSet/agent")
    cluster = decode([node("n1"), *nodes, daemon, pod("other", 0, "a3")], live=True)
    assert reclaim.marks(cluster, (), {"n1"}) == reclaim.Marks((), ("a3",))
