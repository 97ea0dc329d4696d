# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random clusters whose pods have rules of every sort, as strategies for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.tests.unit.builders import REQUIRED, Object, expression, laid_out, namespace, node, pod
from ansible_collections.gpuops.defrag.tests.unit.scheduler import World

KEYS, VALUES = ["app", "tier"], ["a", "b", "1"]
TOPOLOGY = ["zone", "host", "rack"]
NAMESPACES = {"x": {"team": "a"}, "y": {"team": "b"}}

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
places = st.fixed_dictionaries(
    {"host": st.sampled_from(["h1", "h2", "h3"])},
    optional={"zone": st.sampled_from(["z1", "z2"]), "rack": st.sampled_from(["r1", "r2"]), "app": st.sampled_from(VALUES)},
)
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])


def fields(required: Object | None = None, **optional: Any) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(required or {}, optional=optional)


def some(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=most)


def conditions(keys: list[str], *, of_nodes: bool = False) -> st.SearchStrategy[Object]:
    key = st.sampled_from(keys)
    kinds = [
        st.builds(expression, key, st.sampled_from(["Exists", "DoesNotExist"])),
        st.builds(expression, key, st.sampled_from(["In", "NotIn"]), st.sampled_from([*VALUES, "z1", "h1"])),
    ]
    if of_nodes:
        kinds.append(st.builds(expression, key, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["0", "1", "2"])))
    return st.one_of(kinds)


selectors = fields(matchLabels=labels, matchExpressions=some(conditions(KEYS)))
namespace_selectors = st.sampled_from([{}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"kubernetes.io/metadata.name": "y"}}])
pod_terms = fields(
    {"topologyKey": st.sampled_from(TOPOLOGY)},
    labelSelector=selectors,
    namespaces=some(st.sampled_from(["x", "y"])),
    namespaceSelector=namespace_selectors,
)
required_pod_terms = some(pod_terms).map(lambda terms: {REQUIRED: terms})
node_terms = fields(
    matchExpressions=some(conditions(["app", "zone", "host"], of_nodes=True)),
    matchFields=some(
        st.builds(expression, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.sampled_from(["n1", "n2"])), most=1
    ),
)
affinities = fields(
    nodeAffinity=some(node_terms).map(lambda terms: {REQUIRED: {"nodeSelectorTerms": terms}}),
    podAffinity=required_pod_terms,
    podAntiAffinity=required_pod_terms,
)
spreads = fields(
    {
        "topologyKey": st.sampled_from(TOPOLOGY),
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    },
    labelSelector=selectors,
    matchLabelKeys=some(st.sampled_from(KEYS), most=1),
    minDomains=st.integers(1, 3),
    nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
    nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore"]),
)
taints = fields({"key": st.sampled_from(["t", "u"]), "effect": effects}, value=st.sampled_from(["v", "w"]))
tolerations = st.one_of(
    fields({"operator": st.just("Exists")}, key=st.sampled_from(["t", "u"]), effect=effects),
    fields({"key": st.sampled_from(["t", "u"])}, operator=st.just("Equal"), value=st.sampled_from(["v", "w"]), effect=effects),
)
ports = fields(
    {"containerPort": st.just(1), "hostPort": st.sampled_from([80, 81])},
    protocol=st.sampled_from(["TCP", "UDP"]),
    hostIP=st.sampled_from(["10.0.0.1", "10.0.0.2", "0.0.0.0"]),
)
specs = fields(
    {"containers": some(fields({"name": st.just("main")}, ports=some(ports)), most=1)},
    affinity=affinities,
    topologySpreadConstraints=some(spreads),
    tolerations=some(tolerations),
    nodeSelector=st.dictionaries(st.sampled_from(["app", "zone"]), st.sampled_from([*VALUES, "z1"]), max_size=1),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = [
        node(f"n{number}", labels=draw(places), taints=draw(st.one_of(st.just([]), some(taints))))
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    where = st.sampled_from([found["metadata"]["name"] for found in nodes])
    leaving = st.sampled_from([{}, {}, {"deletionTimestamp": "2026-11-30T12:00:00Z"}])
    pods = [
        pod(
            f"p{number}",
            on=draw(where),
            namespace=draw(st.sampled_from(["x", "y"])),
            labels=draw(labels),
            metadata=draw(leaving),
            **draw(specs),
        )
        for number in range(draw(st.integers(0, 5)))
    ]
    me = pod("me", namespace="x", labels=draw(labels), **draw(specs))
    known = {name: {"kubernetes.io/metadata.name": name, **more} for name, more in NAMESPACES.items()}
    return World(me, nodes, pods, known)


unhurried = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])
"""Such clusters take their time to be drawn."""


def layout_of(world: World) -> Layout:
    """Who is where in a world, its namespaces read."""
    return laid_out([*world.nodes, *world.pods, *(namespace(name, **more) for name, more in NAMESPACES.items()), world.me])
