# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""On small random clusters the nodes of each kind are those that would be found by asking every node."""

from __future__ import annotations

from hypothesis import given

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import AMOUNTS, Fit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import EVERYTHING
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Goal, formulate
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, pod_of
from ansible_collections.gpuops.defrag.tests.unit.scheduler import World
from ansible_collections.gpuops.defrag.tests.unit.worlds import layout_of, unhurried, worlds


@unhurried
@given(worlds())
def test_a_kind_may_go_where_no_node_refuses_its_first_pod(world: World) -> None:
    layout = layout_of(world)
    nodes = survey(layout, GPU, EVERYTHING).nodes
    guest = pod_of(layout, "me")
    found = formulate(layout, nodes, GPU, Goal(None, None), stays=(), across_products=True, costs={}, guest=guest)
    firsts = [(next(iter(kind.at.values()))[0], kind.nodes) for kind in found.kinds]
    for pod, numbers in [*firsts, (guest, found.gainers)]:
        fit = Fit(pod, layout, GPU)
        assert numbers == {n for n, node in enumerate(nodes) if AMOUNTS.issuperset(fit.refusals(node.node))}
