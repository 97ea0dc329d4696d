# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution import reclaim
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.tests.unit.builders import node


def test_the_mark_goes_to_the_empty_nodes_and_away_from_others_that_were_looked_at() -> None:
    marked = {reclaim.LABEL: "true"}
    cluster = decode([node("n1"), *(node(name, labels=marked) for name in ("n2", "n3", "n4"))], live=True)
    assert reclaim.marks(cluster, {"n1", "n2"}, {"n1", "n2", "n3"}) == reclaim.Marks(("n1",), ("n3",))
