# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""On small random clusters the checks say what a plain re-statement of kube-scheduler's rules says."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, pod_of
from ansible_collections.gpuops.defrag.tests.unit.scheduler import World, name_of
from ansible_collections.gpuops.defrag.tests.unit.worlds import layout_of, unhurried, worlds


def assert_agreed(pod: Pod, layout: Layout, world: World, nodes: Iterable[Object]) -> None:
    """The checks of the pod say of each node what the rules say of the world's own pod."""
    fit = Fit(pod, layout, GPU)
    for raw in nodes:
        found = {refusal.value for refusal in fit.refusals(layout.cluster.nodes[name_of(raw)])}
        told = {"Selection" if reason in ("NodeSelector", "NodeAffinity") else reason for reason in found}
        assert told == world.refusals(raw)


@unhurried
@given(worlds())
def test_the_checks_and_the_rules_agree(world: World) -> None:
    layout = layout_of(world)
    assert_agreed(pod_of(layout, "me"), layout, world, world.nodes)


@unhurried
@given(worlds(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4))
def test_they_agree_for_every_pod_however_often_pods_have_moved(world: World, moves: list[tuple[int, int]]) -> None:
    layout = layout_of(world)
    pods = [(copy.deepcopy(raw), pod_of(layout, name_of(raw))) for raw in (*world.pods, world.me)]
    for who, where in [*moves, (0, 0)]:
        bound = [raw for raw, _pod in pods if "nodeName" in raw["spec"]]
        for me, pod in pods:
            others = [raw for raw in bound if raw is not me]
            elsewhere = [raw for raw in world.nodes if name_of(raw) != me["spec"].get("nodeName")]
            assert_agreed(pod, layout, World(me, world.nodes, others, world.namespaces), elsewhere)
        raw, pod = pods[who % len(pods)]
        target = name_of(world.nodes[where % len(world.nodes)])
        if "nodeName" in raw["spec"]:
            layout.remove(pod, raw["spec"]["nodeName"])
        layout.add(pod, target)
        raw["spec"]["nodeName"] = target
