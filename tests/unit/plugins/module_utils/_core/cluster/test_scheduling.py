# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each table is what one filter plugin of kube-scheduler does; the plugin is named above it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    REQUIRED,
    ZONE,
    Object,
    claim,
    expression,
    laid_out,
    namespace,
    node,
    packed,
    pod,
    pod_of,
    uses,
    volume,
)

REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
LLM: Mapping[str, Any] = MappingProxyType({"matchLabels": {"app": "llm"}})


def me(gpus: int | None = None, **spec: Any) -> Object:
    """The pod to place."""
    return pod("me", gpus, **spec)


def refused(*objects: Object, at: str = "n1") -> list[str]:
    """Why the node does not take the pod named me."""
    layout = laid_out(objects)
    return [refusal.value for refusal in Fit(pod_of(layout, "me"), layout, GPU).refusals(layout.cluster.nodes[at])]


def takers(*objects: Object) -> list[str]:
    """The nodes that take the pod named me."""
    layout = laid_out(objects)
    fit = Fit(pod_of(layout, "me"), layout, GPU)
    return [name for name, found in layout.cluster.nodes.items() if not fit.refusals(found)]


def test_a_plain_pod_fits_on_a_plain_node() -> None:
    assert refused(node("n1"), me(8)) == []


# TaintToleration


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        ([], [], True),
        ([GPU_TAINT], [], False),
        ([GPU_TAINT], [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}], True),
        ([GPU_TAINT], [{"key": "gpu", "value": "yes"}], True),
        ([GPU_TAINT], [{"key": "gpu", "value": "no"}], False),
        ([GPU_TAINT], [{"key": "gpu"}], False),
        ([GPU_TAINT], [{"key": "gpu", "operator": "Exists"}], True),
        ([GPU_TAINT], [{"operator": "Exists"}], True),
        ([GPU_TAINT], [{"operator": "Exists", "effect": "NoExecute"}], False),
        ([GPU_TAINT], [{"key": "cpu", "operator": "Exists"}], False),
        ([GPU_TAINT], [{"key": "gpu", "operator": "Gt", "value": "0"}], False),
        ([{"key": "gpu", "effect": "NoSchedule"}], [{"key": "gpu"}], True),
        ([GPU_TAINT | {"effect": "NoExecute"}], [], False),
        ([GPU_TAINT | {"effect": "PreferNoSchedule"}], [], True),
        ([GPU_TAINT, {"key": "spot", "effect": "NoExecute"}], [{"key": "gpu", "operator": "Exists"}], False),
        ([GPU_TAINT, {"key": "spot", "effect": "NoExecute"}], [{"operator": "Exists"}], True),
    ],
)
def test_every_taint_that_keeps_pods_off_must_be_tolerated(taints: list[Object], tolerations: list[Object], fits: bool) -> None:
    assert refused(node("n1", taints=taints), me(tolerations=tolerations)) == ([] if fits else ["Taint"])


# NodeUnschedulable, and readiness


@pytest.mark.parametrize("taints", [[], [CORDON]])
@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"key": CORDON["key"], "operator": "Exists"}], True),
        ([{"key": "x"}], False),
    ],
)
def test_a_cordon_is_told_once_and_by_its_own_name(taints: list[Object], tolerations: list[Object], fits: bool) -> None:
    found = refused(node("n1", unschedulable=True, taints=taints), me(tolerations=tolerations))
    assert found == ([] if fits else ["Cordoned"])


def test_the_taint_of_a_cordon_counts_where_nothing_else_tells_of_the_cordon() -> None:
    assert refused(node("n1", taints=[CORDON]), me()) == ["Taint"]


@pytest.mark.parametrize(
    ("told", "taints", "reasons"),
    [
        ("False", [NOT_READY], ["NotReady"]),
        ("Unknown", [NOT_READY | {"key": "node.kubernetes.io/unreachable"}], ["NotReady"]),
        ("False", [], ["NotReady"]),
        ("True", [NOT_READY], ["Taint"]),
        (None, [NOT_READY], ["Taint"]),
        (None, [], []),
    ],
)
def test_a_node_that_is_not_ready_is_told_so_once(told: str | None, taints: list[Object], reasons: list[str]) -> None:
    assert refused(node("n1", ready=told, taints=taints), me()) == reasons


# NodeAffinity


def node_affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


A100 = {"matchExpressions": [expression("gpu", "In", "A100")]}
T4 = {"matchExpressions": [expression("gpu", "In", "T4")]}


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        ({"nodeSelector": {"gpu": "A100"}}, []),
        ({"nodeSelector": {"gpu": "T4"}}, ["NodeSelector"]),
        ({"nodeSelector": {"gpu": "A100", "zone": "z1"}}, ["NodeSelector"]),
        ({"affinity": node_affinity(A100)}, []),
        ({"affinity": node_affinity(T4)}, ["NodeAffinity"]),
        ({"affinity": node_affinity(T4, A100)}, []),
        ({"affinity": node_affinity({})}, ["NodeAffinity"]),
        ({"affinity": node_affinity()}, ["NodeAffinity"]),
        ({"affinity": node_affinity({"matchFields": [expression("metadata.name", "In", "n1")]})}, []),
        ({"affinity": node_affinity({"matchFields": [expression("metadata.name", "In", "n2")]})}, ["NodeAffinity"]),
        ({"affinity": node_affinity(A100), "nodeSelector": {"gpu": "T4"}}, ["NodeSelector"]),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [T4]}}}, []),
    ],
)
def test_a_node_must_be_selected(spec: Object, reasons: list[str]) -> None:
    assert refused(node("n1", labels={"gpu": "A100"}), me(**spec)) == reasons


# NodeResourcesFit


@pytest.mark.parametrize(
    ("offers", "wants", "reasons"),
    [
        ({GPU: "2"}, {GPU: "2"}, []),
        ({GPU: "1"}, {GPU: "2"}, ["InsufficientGPU"]),
        ({"cpu": "1"}, {"cpu": "1001m"}, ["InsufficientCPU"]),
        ({"memory": "1Gi"}, {"memory": "1.01Gi"}, ["InsufficientMemory"]),
        ({"pods": "0"}, {}, ["TooManyPods"]),
        ({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "2Gi"}, ["InsufficientResource"]),
        ({}, {"rdma/hca": "1"}, ["InsufficientResource"]),
        ({"rdma/hca": "1"}, {"rdma/hca": "1"}, []),
        ({}, {"rdma/hca": "0"}, []),
        ({}, {"rdma/hca": "1", "hugepages-2Mi": "2Mi"}, ["InsufficientResource"]),
        (
            {GPU: "0", "cpu": "0", "memory": "0", "pods": "0"},
            {GPU: "1", "cpu": "1", "memory": "1", "rdma/hca": "1"},
            ["InsufficientGPU", "InsufficientCPU", "InsufficientMemory", "TooManyPods", "InsufficientResource"],
        ),
    ],
)
def test_a_node_must_have_room_for_every_resource(offers: Object, wants: Object, reasons: list[str]) -> None:
    assert refused(node("n1", allocatable=offers), me(requests=wants)) == reasons


def test_a_node_that_takes_more_than_it_offers_still_takes_what_asks_for_nothing_of_it() -> None:
    overcommitted = node("n1", allocatable={"cpu": "1"})
    assert refused(overcommitted, pod("other", on="n1", requests={"cpu": "2"}), me(1)) == []


@pytest.mark.parametrize(
    ("priority", "mine", "reasons"),
    [(5, 5, ["ReservedForNominatedPod"]), (6, 5, ["ReservedForNominatedPod"]), (4, 5, [])],
)
def test_a_node_keeps_room_for_nominated_pods_of_at_least_the_same_priority(priority: int, mine: int, reasons: list[str]) -> None:
    nominated = pod("nominated", 6, priority=priority, status={"nominatedNodeName": "n1"})
    assert refused(node("n1", 8), nominated, me(4, priority=mine)) == reasons


def test_the_room_that_a_nominated_pod_is_kept_is_its_own() -> None:
    assert refused(node("n1", 8), me(8, status={"nominatedNodeName": "n1"})) == []


@pytest.mark.parametrize(("wants", "reasons"), [(2, []), (3, ["ReservedForNominatedPod"]), (7, ["InsufficientGPU"])])
def test_what_nominated_pods_leave_can_be_had(wants: int, reasons: list[str]) -> None:
    nominated = [pod(f"nominated-{i}", 2, status={"nominatedNodeName": "n1"}) for i in range(2)]
    assert refused(*packed("8: 2"), *nominated, me(wants)) == reasons


@pytest.mark.parametrize(("places", "reasons"), [("1", ["ReservedForNominatedPod"]), ("2", [])])
def test_a_nominated_pod_takes_one_of_the_places_for_pods(places: str, reasons: list[str]) -> None:
    nominated = pod("nominated", status={"nominatedNodeName": "n1"})
    assert refused(node("n1", allocatable={"pods": places}), nominated, me()) == reasons


# NodePorts


def port(number: int, protocol: str = "TCP", address: str | None = None) -> Object:
    opened = {"containerPort": 1, "hostPort": number, "protocol": protocol} | ({"hostIP": address} if address else {})
    return {"containers": [{"name": "main", "ports": [opened]}]}


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        (port(80), port(81), True),
        (port(80), port(80), False),
        (port(80), port(80, "UDP"), True),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.1"), False),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.2"), True),
        (port(80, address="10.0.0.1"), port(80), False),
        (port(80), port(80, address="10.0.0.1"), False),
        (port(80, address="0.0.0.0"), port(80), False),
    ],
)
def test_a_host_port_is_had_once_on_an_address(mine: Object, theirs: Object, fits: bool) -> None:
    found = refused(node("n1"), node("n2"), pod("other", on="n1", **theirs), pod("far", on="n2", **mine), me(**mine))
    assert found == ([] if fits else ["HostPort"])


# VolumeBinding, VolumeZone, VolumeRestrictions


@pytest.mark.parametrize(
    ("volumes", "reasons"),
    [
        ([claim("data", "pv"), volume("pv")], []),
        ([claim("data", "pv"), volume("pv", terms=[{"matchExpressions": [expression(ZONE, "In", "z1")]}])], []),
        ([claim("data", "pv"), volume("pv", terms=[{"matchExpressions": [expression(ZONE, "In", "z2")]}])], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", terms=[])], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z1"})], []),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2"})], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2__z1"})], []),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2__ z1"})], []),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2__z3"})], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", labels={ZONE: ""})], []),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2__"})], []),
        ([claim("data", "pv"), volume("pv", labels={OLD_ZONE: "z1"})], []),
        ([claim("data", "pv"), volume("pv", labels={OLD_ZONE: "z2"})], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", labels={REGION: "r1"})], ["VolumeZone"]),
        ([claim("data", "pv"), volume("pv", labels={ZONE: "z2"}, terms=[])], ["VolumeZone"]),
        ([claim("data")], []),
        ([claim("data", "unread")], []),
        ([], []),
        ([claim("data", "pv", namespace="other")], ["VolumeMissing"]),
        ([claim("data", modes=["ReadWriteOncePod"])], []),
        ([claim("data", modes=["ReadWriteOncePod"]), pod("other", on="n2", volumes=uses("data"))], ["VolumeInUse"]),
        ([claim("data", modes=["ReadWriteOncePod"]), pod("other", on="n2", namespace="x", volumes=uses("data"))], []),
        ([claim("data", modes=["ReadWriteOncePod"]), pod("other", on="n2", volumes=uses("more"))], []),
        ([claim("data", modes=["ReadWriteOnce"]), pod("other", on="n2", volumes=uses("data"))], []),
    ],
)
def test_a_node_must_reach_the_volumes(volumes: list[Object], reasons: list[str]) -> None:
    assert refused(node("n1", labels={ZONE: "z1"}), node("n2"), *volumes, me(volumes=uses("data"))) == reasons


def test_zone_labels_of_volumes_mean_nothing_where_nodes_have_no_zones() -> None:
    assert refused(node("n1"), claim("data", "pv"), volume("pv", labels={ZONE: "z1"}), me(volumes=uses("data"))) == []


def test_a_pod_does_not_keep_its_own_volume_from_itself() -> None:
    mine = pod("me", on="n1", volumes=uses("data"))
    assert refused(node("n1"), pod("other", on="n1"), claim("data", modes=["ReadWriteOncePod"]), mine) == []


def test_a_reason_is_told_once_however_many_volumes_give_it() -> None:
    volumes = [claim("a", "pv"), claim("b", "pv"), volume("pv", labels={ZONE: "z2"})]
    assert refused(node("n1", labels={ZONE: "z1"}), *volumes, me(volumes=uses("a", "b"))) == ["VolumeZone"]
    assert refused(node("n1"), claim("c"), me(volumes=uses("a", "b"))) == ["VolumeMissing"]


# InterPodAffinity


def together(*terms: Object, kind: str = "podAffinity") -> Object:
    return {kind: {REQUIRED: list(terms)}}


def apart(*terms: Object) -> Object:
    return together(*terms, kind="podAntiAffinity")


def near(selector: Mapping[str, Any] | None = LLM, key: str = ZONE, **more: Any) -> Object:
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": dict(selector)}), **more}


# n1 and n2 are in one zone, n3 is in another, n4 in none.
ZONES = [node(name, labels={ZONE: zone}) for name, zone in (("n1", "z1"), ("n2", "z1"), ("n3", "z2"))] + [node("n4")]
LLM_ON_N1 = pod("llm", on="n1", labels={"app": "llm"})


@pytest.mark.parametrize(
    ("term", "others", "nodes"),
    [
        (near(), [LLM_ON_N1], ["n1", "n2"]),
        (near(key="kubernetes.io/hostname"), [LLM_ON_N1], ["n1"]),
        (near(key="rack"), [LLM_ON_N1], []),
        (near(), [], []),
        (near({}), [LLM_ON_N1], ["n1", "n2"]),
        (near(None), [LLM_ON_N1], []),
        (near(), [pod("llm", on="n1", namespace="x", labels={"app": "llm"})], []),
        (near(namespaces=["x"]), [pod("llm", on="n1", namespace="x", labels={"app": "llm"})], ["n1", "n2"]),
        (near(namespaceSelector={}), [pod("llm", on="n1", namespace="x", labels={"app": "llm"})], ["n1", "n2"]),
        (near(), [pod("llm", on="n1", labels={"app": "llm"}, phase="Succeeded")], []),
        (near(), [pod("llm", labels={"app": "llm"})], []),
    ],
)
def test_a_pod_goes_where_those_are_that_it_needs(term: Object, others: list[Object], nodes: list[str]) -> None:
    assert takers(*ZONES, *others, me(affinity=together(term))) == nodes


def test_every_term_needs_a_domain_with_a_pod_that_all_terms_find() -> None:
    both = pod("both", on="n1", labels={"app": "llm", "tier": "a"})
    terms = (near(), near({"matchLabels": {"tier": "a"}}, key="kubernetes.io/hostname"))
    assert takers(*ZONES, both, me(affinity=together(*terms))) == ["n1"]
    halves = [LLM_ON_N1, pod("tier", on="n1", labels={"tier": "a"})]
    assert takers(*ZONES, *halves, me(affinity=together(*terms))) == []


def test_the_first_of_its_kind_goes_anywhere_that_has_the_topology() -> None:
    first = me(labels={"app": "llm"}, affinity=together(near()))
    assert takers(*ZONES, first) == ["n1", "n2", "n3"]
    assert takers(*ZONES, LLM_ON_N1, first) == ["n1", "n2"]


def test_a_pod_that_does_not_find_itself_is_not_the_first_of_its_kind() -> None:
    terms = (near(), near({"matchLabels": {"tier": "a"}}))
    assert takers(*ZONES, me(labels={"app": "llm"}, affinity=together(*terms))) == []


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        (near(), ["n3", "n4"]),
        (near(key="kubernetes.io/hostname"), ["n2", "n3", "n4"]),
        (near(key="rack"), ["n1", "n2", "n3", "n4"]),
        (near({}), ["n3", "n4"]),
        (near(None), ["n1", "n2", "n3", "n4"]),
        (near({"matchLabels": {"app": "other"}}), ["n1", "n2", "n3", "n4"]),
        (near(namespaces=["x"]), ["n1", "n2", "n3", "n4"]),
    ],
)
def test_anti_affinity_keeps_pods_apart_from_both_sides(term: Object, nodes: list[str]) -> None:
    llm = {"app": "llm"}
    assert takers(*ZONES, LLM_ON_N1, me(labels=llm, affinity=apart(term))) == nodes
    assert takers(*ZONES, pod("llm", on="n1", labels=llm, affinity=apart(term)), me(labels=llm)) == nodes


def test_one_term_is_enough_to_keep_pods_apart() -> None:
    terms = (near({"matchLabels": {"app": "other"}}), near())
    assert takers(*ZONES, LLM_ON_N1, me(affinity=apart(*terms))) == ["n3", "n4"]


@pytest.mark.parametrize(
    ("namespaces", "selector", "apart_from"),
    [
        ([namespace("x", team="a")], {"matchLabels": {"team": "a"}}, True),
        ([namespace("x", team="b")], {"matchLabels": {"team": "a"}}, False),
        ([namespace("other", team="a")], {"matchLabels": {"team": "a"}}, True),
        ([], {"matchLabels": {"team": "a"}}, True),
        ([], {"matchLabels": {"kubernetes.io/metadata.name": "x", "team": "a"}}, True),
        ([], {"matchLabels": {"kubernetes.io/metadata.name": "y", "team": "a"}}, False),
        ([], {"matchLabels": {"kubernetes.io/metadata.name": "x"}}, True),
        ([], {"matchLabels": {"kubernetes.io/metadata.name": "y"}}, False),
        ([namespace("x")], {"matchLabels": {"kubernetes.io/metadata.name": "x"}}, True),
    ],
)
def test_a_namespace_is_chosen_by_its_labels_and_has_its_name_as_one(
    namespaces: list[Object], selector: Object, apart_from: bool
) -> None:
    llm = pod("llm", on="n1", namespace="x", labels={"app": "llm"})
    found = refused(*ZONES, *namespaces, llm, me(affinity=apart(near(namespaceSelector=selector))))
    assert found == (["PodAntiAffinity"] if apart_from else [])


def test_what_a_namespace_is_labelled_is_not_guessed_no_pod_gets_in_by_it() -> None:
    term = near(namespaceSelector={"matchLabels": {"team": "a"}})
    llm = pod("llm", on="n1", namespace="x", labels={"app": "llm"})
    repelling = pod("llm", on="n1", namespace="x", labels={"app": "llm"}, affinity=apart(term))
    mine = me(labels={"app": "llm"})
    assert refused(*ZONES, llm, me(affinity=together(term))) == ["PodAffinity"]
    assert refused(*ZONES, me(labels={"app": "llm"}, affinity=together(term))) == ["PodAffinity"]
    assert refused(*ZONES, repelling, mine) == ["PodAntiAffinity"]
    assert refused(*ZONES, namespace("default"), repelling, mine) == []


def test_a_pod_on_a_node_neither_needs_nor_repels_itself() -> None:
    mine = pod("me", on="n1", labels={"app": "llm"}, affinity=apart(near()) | together(near()))
    assert refused(*ZONES, mine) == []


def test_affinity_is_told_apart_from_anti_affinity() -> None:
    assert refused(*ZONES, me(affinity=together(near()))) == ["PodAffinity"]
    assert refused(*ZONES, LLM_ON_N1, me(affinity=apart(near()))) == ["PodAntiAffinity"]


# PodTopologySpread


def spread(skew: int = 1, key: str = ZONE, selector: Mapping[str, Any] | None = LLM, **more: Any) -> Object:
    """One constraint on a pod that is one of those it counts."""
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return constraint | ({} if selector is None else {"labelSelector": dict(selector)})


def llms(*nodes: str, **more: Any) -> list[Object]:
    return [pod(f"llm-{index}", on=name, labels={"app": "llm"}, **more) for index, name in enumerate(nodes)]


def spread_over(*constraints: Object, **spec: Any) -> Object:
    return me(labels={"app": "llm"}, topologySpreadConstraints=list(constraints), **spec)


@pytest.mark.parametrize(
    ("constraint", "others", "nodes"),
    [
        (spread(), [], ["n1", "n2", "n3"]),
        (spread(), llms("n1"), ["n3"]),
        (spread(), llms("n1", "n3"), ["n1", "n2", "n3"]),
        (spread(2), llms("n1"), ["n1", "n2", "n3"]),
        (spread(2), llms("n1", "n2"), ["n3"]),
        (spread(), llms("n1", namespace="x"), ["n1", "n2", "n3"]),
        (spread(), llms("n1", metadata={"deletionTimestamp": "2026-11-30T12:00:00Z"}), ["n1", "n2", "n3"]),
        (spread(), llms("n1", phase="Succeeded"), ["n1", "n2", "n3"]),
        (spread(selector={}), llms("n1", "n1", "n1"), ["n1", "n2", "n3"]),
        (spread(selector=None), llms("n1", "n1", "n1"), ["n1", "n2", "n3"]),
        (spread(selector={"matchLabels": {"app": "other"}}), llms("n1"), ["n1", "n2", "n3"]),
        (spread(key="rack"), [], []),
        (spread(minDomains=2), llms("n1"), ["n3"]),
        (spread(minDomains=3), llms("n1"), ["n3"]),
        (spread(minDomains=3), llms("n1", "n3"), []),
        (spread(whenUnsatisfiable="ScheduleAnyway"), llms("n1"), ["n1", "n2", "n3", "n4"]),
        (spread(matchLabelKeys=["revision"]), llms("n1"), ["n3"]),
    ],
)
def test_pods_are_spread_within_the_skew(constraint: Object, others: list[Object], nodes: list[str]) -> None:
    assert takers(*ZONES, *others, spread_over(constraint)) == nodes


def test_a_pod_that_its_constraint_does_not_count_adds_nothing() -> None:
    constraint = spread(selector={"matchLabels": {"app": "other"}})
    others = [pod("other", on="n1", labels={"app": "other"})]
    assert takers(*ZONES, *others, spread_over(constraint)) == ["n1", "n2", "n3"]


def test_with_several_constraints_a_node_counts_only_if_it_has_all_their_keys() -> None:
    racked = [node("n1", labels={ZONE: "z1", "rack": "r1"}), node("n2", labels={ZONE: "z2"})]
    assert takers(*racked, *llms("n1"), spread_over(spread())) == ["n2"]
    assert takers(*racked, *llms("n1"), spread_over(spread(), spread(2, key="rack"))) == ["n1"]


@pytest.mark.parametrize(("policy", "nodes"), [(None, ["n1", "n2"]), ("Honor", ["n1", "n2"]), ("Ignore", [])])
def test_only_nodes_that_the_pod_may_use_count_unless_told(policy: str | None, nodes: list[str]) -> None:
    mine = spread_over(
        spread(nodeAffinityPolicy=policy), affinity=node_affinity({"matchExpressions": [expression(ZONE, "In", "z1")]})
    )
    assert takers(*ZONES, *llms("n1"), mine) == nodes


@pytest.mark.parametrize(("policy", "nodes"), [(None, []), ("Ignore", []), ("Honor", ["n1"])])
@pytest.mark.parametrize("taint", [GPU_TAINT, CORDON])
def test_tainted_nodes_count_unless_told(policy: str | None, nodes: list[str], taint: Object) -> None:
    zones = [node("n1", labels={ZONE: "z1"}), node("n2", labels={ZONE: "z2"}, taints=[taint])]
    assert takers(*zones, *llms("n1"), spread_over(spread(nodeTaintsPolicy=policy))) == nodes


def test_a_soft_taint_is_no_reason_not_to_count() -> None:
    soft = [node("n1", labels={ZONE: "z1"}), node("n2", labels={ZONE: "z2"}, taints=[GPU_TAINT | {"effect": "PreferNoSchedule"}])]
    assert takers(*soft, *llms("n1"), spread_over(spread(nodeTaintsPolicy="Honor"))) == ["n2"]


def test_a_pod_on_a_node_is_not_counted_against_itself() -> None:
    mine = spread_over(spread()) | {"status": {"phase": "Running"}}
    mine["spec"]["nodeName"] = "n1"
    assert takers(*ZONES, mine) == ["n1", "n2", "n3"]


# All of them


def test_reasons_are_told_in_one_order_whatever_else_is_wrong() -> None:
    wrong = node(
        "n1",
        0,
        labels={ZONE: "z1"},
        allocatable={"cpu": "0", "memory": "0", "pods": "0"},
        taints=[GPU_TAINT],
        unschedulable=True,
        ready="False",
    )
    others = [
        node("n2", labels={ZONE: "z1"}),
        pod("llm", on="n1", labels={"app": "llm"}, **port(80)),
        claim("far", "pv"),
        claim("one", modes=["ReadWriteOncePod"]),
        volume("pv", labels={ZONE: "z2"}),
        pod("user", on="n2", volumes=uses("one")),
        node("n3", labels={ZONE: "z2"}),
    ]
    mine = me(
        8,
        requests={"cpu": "1", "memory": "1", "rdma/hca": "1"},
        labels={"app": "llm"},
        nodeSelector={"gpu": "A100"},
        affinity=together(near({"matchLabels": {"app": "none"}})) | apart(near()),
        topologySpreadConstraints=[spread(nodeAffinityPolicy="Ignore")],
        volumes=uses("far", "gone", "one"),
        hostNetwork=True,
    )
    mine["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    assert refused(wrong, *others, mine) == [
        *("NotReady", "Cordoned", "NodeSelector", "Taint"),
        *("InsufficientGPU", "InsufficientCPU", "InsufficientMemory", "TooManyPods", "InsufficientResource"),
        *("HostPort", "VolumeMissing", "VolumeZone", "VolumeInUse", "TopologySpread", "PodAffinity", "PodAntiAffinity"),
    ]


def test_the_gpu_resource_that_is_asked_about_has_its_own_name() -> None:
    layout = laid_out([*packed("8: 8"), me(requests={"amd.com/gpu": "1"})])
    fit = Fit(pod_of(layout, "me"), layout, "amd.com/gpu")
    assert [refusal.value for refusal in fit.refusals(layout.cluster.nodes["n1"])] == ["InsufficientGPU"]
