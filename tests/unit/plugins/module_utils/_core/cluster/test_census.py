# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is counted stays true while pods come and go."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    NODE_NAME,
    REQUIRED,
    Object,
    claim,
    laid_out,
    node,
    pod,
    pod_of,
    uses,
)

NODES = [node("n1"), node("n2"), node("n3")]


def social(name: str, on: str = "", **kinds: str) -> Object:
    """A pod labelled with its name, with a term on its host about pods of another name for each kind told."""
    terms = {
        kind: {REQUIRED: [{"topologyKey": NODE_NAME, "labelSelector": {"matchLabels": {"app": app}}}]}
        for kind, app in kinds.items()
    }
    return pod(name, None, on, labels={"app": name}, affinity=terms)


def takers(layout: Layout, name: str) -> list[str]:
    fit = Fit(pod_of(layout, name), layout, GPU)
    return [each for each, found in layout.cluster.nodes.items() if not fit.refusals(found)]


def test_a_pod_that_comes_repels_from_then_on_and_no_more_when_it_has_gone() -> None:
    layout = laid_out([*NODES, social("me"), social("x", "n2", podAntiAffinity="y"), social("loner", podAntiAffinity="me")])
    loner = pod_of(layout, "loner")
    assert takers(layout, "me") == ["n1", "n2", "n3"]
    layout.add(loner, "n3")
    assert takers(layout, "me") == ["n1", "n2"]
    assert layout.census.is_repelled(pod_of(layout, "me"))
    layout.remove(loner, "n3")
    assert takers(layout, "me") == ["n1", "n2", "n3"]
    assert not layout.census.is_repelled(pod_of(layout, "me"))


def test_a_pod_of_labels_not_seen_before_is_found_by_those_who_asked_before() -> None:
    layout = laid_out([*NODES, social("me", podAffinity="friend"), social("friend")])
    assert takers(layout, "me") == []
    layout.add(pod_of(layout, "friend"), "n2")
    assert takers(layout, "me") == ["n2"]


def test_a_pod_that_is_in_two_places_at_once_is_none_of_its_own_neighbours() -> None:
    layout = laid_out([*NODES, social("me", "n1", podAntiAffinity="me")])
    me = pod_of(layout, "me")
    layout.add(me, "n2")
    fit = Fit(me, layout, GPU)
    assert [name for name, found in layout.cluster.nodes.items() if not fit.refusals(found)] == ["n1", "n2", "n3"]


def test_a_claim_of_one_pod_is_free_again_when_its_user_has_gone() -> None:
    spec: dict[str, Any] = {"volumes": uses("data")}
    layout = laid_out([*NODES, claim("data", modes=["ReadWriteOncePod"]), pod("me", **spec), pod("user", on="n1", **spec)])
    assert takers(layout, "me") == []
    layout.remove(pod_of(layout, "user"), "n1")
    assert takers(layout, "me") == ["n1", "n2", "n3"]
