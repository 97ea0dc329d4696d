# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where pods could go, asked of the scheduler's rules pod by pod and node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.pools import GpuNode, survey
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit, Refusal
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.destinations import Destinations, by_count, nowhere
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Rules
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.options import PlanOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.problem import Goal, Problem
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.search import Search
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.plan.clusters import at_random


def refusals(pod: Pod, names: list[str], own: GpuNode, search: Search) -> Counter[Refusal] | None:
    """The first reason of every other node; None where one takes the pod."""
    found: Counter[Refusal] = Counter()
    order = list(Refusal)
    fit = Fit(pod, search.layout, GPU)
    known = {n.node.name: n for n in search.found.nodes}
    for other in (search.cluster.nodes[name] for name in names if name != own.node.name):
        told = set(fit.refusals(other))
        told |= {Refusal.CORDONED} if other.unschedulable else set()
        gpu_node = known.get(other.name)
        if gpu_node:
            stays = GPU in pod.requests and not search.wish.across_products
            told |= set() if gpu_node.healthy else {Refusal.UNHEALTHY}
            told |= {Refusal.OTHER_PRODUCT} if stays and gpu_node.pool != own.pool else set()
        if not told:
            return None
        found[min(told, key=order.index)] += 1
    return found


def looked_at(seed: int) -> Iterator[tuple[Pod, Counter[Refusal] | None, Counter[Refusal] | None, bool]]:
    """Each pod that may go, what is told of it, what holds, and whether other pods have a say in where it goes."""
    wish = PlanOptions(audit=AuditOptions(), rules=Rules(movable_singletons=True), across_products=bool(seed % 2))
    search = Search(decode(at_random(seed)), wish)
    problem: Problem = search.formulate(Goal(None, None))
    nodes = survey(search.layout, GPU, wish.audit.selector).nodes
    places = Destinations(problem, search.layout, nodes, GPU, across_products=wish.across_products)
    told = {id(pod): found for pod, found in places.missing(())}
    for kind in problem.kinds:
        for number, pods in kind.at.items():
            for pod in pods:
                yield pod, told.get(id(pod)), refusals(pod, problem.names, nodes[number], search), kind.social


def test_what_is_told_of_pods_that_have_nowhere_to_go_holds_node_by_node() -> None:
    lost = placed = missed = 0
    for seed in range(300):
        for pod, told, held, social in looked_at(seed):
            if told is not None:
                assert told == held, (seed, pod)
            elif held is not None:
                # Of pods whose places hang on others one is asked for all that are alike.
                assert social, (seed, pod)
                missed += 1
            lost += told is not None
            placed += held is None
    assert lost > 300
    assert placed > 300
    assert missed < lost / 50


def test_a_pod_that_has_moved_is_not_asked_after() -> None:
    wish = PlanOptions(rules=Rules(movable_singletons=True))
    search = Search(decode(at_random(0)), wish)
    problem = search.formulate(Goal(None, None))
    places = Destinations(problem, search.layout, search.found.nodes, GPU, across_products=False)
    everyone = {id(pod) for kind in problem.kinds for pods in kind.at.values() for pod in pods}
    assert list(places.missing(everyone)) == []


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "there is no other"),
        ({Refusal.TAINT: 1, Refusal.GPU: 1, Refusal.OTHER_PRODUCT: 3}, "3 OtherProduct, 1 InsufficientGPU, 1 Taint"),
    ],
)
def test_the_commonest_refusals_come_first(counts: dict[Refusal, int], words: str) -> None:
    assert nowhere(Counter(counts)).detail == f"no node takes it: {words}"
    assert not counts or by_count(counts) == words
