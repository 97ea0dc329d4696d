# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.budgets import Budgets, Headroom, demand, scaled
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.workloads import Workloads
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, budget, laid_out, node, pod, pod_of, serving, workload

LLM = {"app": "llm"}


def headroom(*objects: Object) -> Headroom:
    """What the one budget that selects pod a allows."""
    layout = laid_out([node("n1"), *objects])
    (told,) = Budgets(layout.cluster, Workloads(layout.cluster)).of(pod_of(layout, "a"))
    return told


def replicas(number: int, *, owner: str | None = "ReplicaSet/llm") -> list[Object]:
    return [serving(name, labels=LLM, owner=owner) for name in "abcdefgh"[:number]]


@pytest.mark.parametrize(
    ("share", "total", "number"),
    [
        (3, 10, 3),
        (0, 10, 0),
        (20, 10, 20),
        ("50%", 7, 4),
        ("50%", 8, 4),
        ("0%", 8, 0),
        ("1%", 1, 1),
        ("100%", 7, 7),
        ("30%", 0, 0),
    ],
)
def test_a_percentage_is_rounded_up_and_a_number_is_itself(share: int | str, total: int, number: int) -> None:
    assert scaled(share, total) == number


@given(st.integers(0, 100), st.integers(0, 5000))
def test_a_rounded_percentage_is_the_fewest_pods_that_are_at_least_that_share(percent: int, total: int) -> None:
    number = scaled(f"{percent}%", total)
    assert Fraction(number - 1) < Fraction(percent * total, 100) <= number


SHARES = st.none() | st.integers(0, 20) | st.integers(0, 100).map(lambda percent: f"{percent}%")


def restated(min_available: Any, max_unavailable: Any, pods: int, scale: int, healthy: int) -> int:
    """The rule as the disruption controller's documentation has it, in fractions."""

    def part(share: int | str) -> int:
        if isinstance(share, int):
            return share
        exact = Fraction(int(share[:-1]), 100) * scale
        return exact.numerator // exact.denominator + (exact.denominator > 1)

    if max_unavailable is not None:
        expected, desired = scale, max(scale - part(max_unavailable), 0)
    elif min_available is not None:
        expected, desired = (pods if isinstance(min_available, int) else scale), part(min_available)
    else:
        expected, desired = 0, 0
    return max(healthy - desired, 0) if expected else 0


@given(SHARES, SHARES, st.integers(1, 8), st.integers(0, 12), st.data())
def test_what_is_counted_is_what_the_disruption_controller_counts(
    min_available: Any, max_unavailable: Any, pods: int, scale: int, data: st.DataObject
) -> None:
    ready = data.draw(st.lists(st.booleans(), min_size=pods, max_size=pods))
    told = headroom(
        *(serving(name, labels=LLM, ready=is_ready) for name, is_ready in zip("abcdefgh", ready, strict=False)),
        workload("ReplicaSet", "llm", scale),
        budget("llm", LLM, minAvailable=min_available, maxUnavailable=max_unavailable),
    )
    assert told.left == restated(min_available, max_unavailable, pods, scale, sum(ready))
    assert (told.healthy, told.needed) == (sum(ready), demand(min_available, max_unavailable, pods, scale)[1])


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ([budget("b", LLM, minAvailable=2)], 1),
        ([budget("b", LLM, minAvailable="50%"), workload("ReplicaSet", "llm", 5)], 0),
        ([budget("b", LLM, maxUnavailable=1)], 1),
        ([budget("b", LLM, maxUnavailable=0)], 0),
        ([budget("b", LLM, maxUnavailable=1), workload("ReplicaSet", "llm", 4)], 0),
        # A ReplicaSet of a Deployment counts as the Deployment.
        (
            [
                budget("b", LLM, maxUnavailable=1),
                workload("ReplicaSet", "llm", 1, owner="Deployment/d"),
                workload("Deployment", "d", 3),
            ],
            1,
        ),
        ([budget("b", LLM, maxUnavailable=2), serving("other", labels=LLM, owner="StatefulSet/s", ready=False)], 1),
        ([budget("b", LLM, minAvailable=1), pod("bare", labels=LLM)], 2),
        ([budget("b", LLM)], 0),
        # Its controller has looked: what it says goes, whatever is seen.
        ([budget("b", LLM, allowed=2, healthy=5, needed=3, minAvailable=3)], 2),
        ([budget("b", LLM, allowed=-1, minAvailable=3)], 0),
    ],
)
def test_evictions_allowed(more: list[Object], left: int) -> None:
    assert headroom(*replicas(3), *more).left == left


@pytest.mark.parametrize(
    "gone",
    [
        serving("gone", labels=LLM, metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"}),
        serving("gone", labels=LLM, phase="Succeeded"),
        serving("gone", labels=LLM, ready=False),
        pod("gone", labels=LLM),
    ],
)
def test_only_ready_pods_that_stay_are_healthy(gone: Object) -> None:
    assert headroom(*replicas(2), gone, budget("b", LLM, minAvailable=1)).left == 1


@pytest.mark.parametrize("shares", [{"minAvailable": "50%"}, {"maxUnavailable": 1}])
def test_a_controller_without_replicas_leaves_the_budget_unknown(shares: Object) -> None:
    told = headroom(*replicas(3, owner="Job/train"), budget("b", LLM, **shares))
    assert (told.left, told.unknown) == (0, "Job default/train tells no number of replicas")


def test_a_number_of_pods_to_keep_asks_no_controller() -> None:
    assert headroom(*replicas(3, owner="Job/train"), budget("b", LLM, minAvailable=1)).left == 2


@pytest.mark.parametrize(
    ("labels", "namespace", "selects"),
    [
        (LLM, "default", True),
        ({}, "default", True),
        ({"app": "x"}, "default", False),
        (LLM, "other", False),
        (None, "default", False),
    ],
)
def test_a_budget_selects_pods_of_its_namespace_by_label(labels: dict[str, str] | None, namespace: str, selects: bool) -> None:
    layout = laid_out([node("n1"), *replicas(1), budget("b", labels, namespace=namespace, minAvailable=1)])
    assert bool(Budgets(layout.cluster, Workloads(layout.cluster)).of(pod_of(layout, "a"))) is selects


@pytest.mark.parametrize(
    ("a", "policy", "healthy", "needed", "charged"),
    [
        ({}, "AlwaysAllow", 2, 2, True),
        ({"ready": False}, "AlwaysAllow", 1, 2, False),
        ({"ready": False}, "IfHealthyBudget", 2, 2, False),
        ({"ready": False}, "IfHealthyBudget", 1, 2, True),
        ({"ready": False}, "IfHealthyBudget", 0, 0, True),
        ({"ready": False}, None, 3, 2, False),
        ({"ready": False, "phase": "Pending"}, "IfHealthyBudget", 0, 2, False),
        ({"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}}, "IfHealthyBudget", 0, 2, False),
    ],
)
def test_a_pod_that_is_not_ready_is_charged_as_the_policy_says(
    a: Object, policy: str | None, healthy: int, needed: int, charged: bool
) -> None:
    told = budget("b", LLM, allowed=0, healthy=healthy, needed=needed, unhealthyPodEvictionPolicy=policy)
    layout = laid_out([node("n1"), serving("a", labels=LLM, **a), told])
    budgets = Budgets(layout.cluster, Workloads(layout.cluster))
    assert bool(budgets.charged(pod_of(layout, "a"))) is charged
    assert budgets.begin()(pod_of(layout, "a")) is not charged


def test_a_pod_of_several_budgets_is_refused_even_where_it_is_not_ready() -> None:
    two = [budget(name, LLM, allowed=1, unhealthyPodEvictionPolicy="AlwaysAllow") for name in ("one", "two")]
    layout = laid_out([node("n1"), serving("a", labels=LLM, ready=False), *two])
    assert not Budgets(layout.cluster, Workloads(layout.cluster)).begin()(pod_of(layout, "a"))


@pytest.mark.parametrize("share", ["2", "fifty%", "-5%", "5.5%", -1, 1.5, True])
def test_a_share_that_is_none_is_refused_by_name(share: Any) -> None:
    with pytest.raises(InputError, match=r"^PodDisruptionBudget default/b: spec\.minAvailable: .* neither a number of pods"):
        decode([budget("b", LLM, minAvailable=share)])
