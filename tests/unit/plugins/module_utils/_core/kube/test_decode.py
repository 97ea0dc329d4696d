# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch, objects
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import (
    UNCONSTRAINED,
    HostPort,
    Owner,
    Pod,
    Taint,
    Toleration,
)
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    GPU,
    REQUIRED,
    ZONE,
    Object,
    claim,
    container,
    expression,
    namespace,
    node,
    pod,
    uses,
    volume,
)
from ansible_collections.gpuops.defrag.tests.unit.everything import everything

NOON = "2026-11-30T12:00:00Z"


def only(raw: Object) -> Pod:
    """The one pod, decoded."""
    cluster = decode([node("n1"), raw])
    (found,) = (*cluster.pending, *cluster.finished, *cluster.bound["n1"])
    return found


def names(documents: list[Any]) -> list[str]:
    return [f"{raw['kind']} {raw['metadata']['name']}" for raw in objects(documents)]


def bare(name: str) -> Object:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("documents", "found"),
    [
        ([], []),
        ([node("a"), pod("b")], ["Node a", "Pod b"]),
        ([{"kind": "List", "items": [node("a"), pod("b")]}], ["Node a", "Pod b"]),
        ([{"kind": "NodeList", "items": [bare("a")]}, {"kind": "PodList", "items": [bare("b")]}], ["Node a", "Pod b"]),
        ([{"kind": "List", "items": [{"kind": "NodeList", "items": [bare("a")]}, pod("b")]}], ["Node a", "Pod b"]),
        ([{"kind": "List", "items": [pod("b")]}, node("c")], ["Pod b", "Node c"]),
        ([{"kind": "PodList", "items": [node("a")]}], ["Node a"]),
        ([{"kind": "List", "items": []}], []),
        ([{"kind": "List", "items": None}], []),
        ([{"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": None}], []),
        ([{"kind": "IPAllowList", "metadata": {"name": "office"}, "spec": {}}], ["IPAllowList office"]),
    ],
)
def test_lists_of_any_nesting_are_taken_apart_in_order(documents: list[Any], found: list[str]) -> None:
    assert names(documents) == found


def test_lists_may_be_nested_as_deeply_as_json_can_be() -> None:
    nested: Object = node("a")
    for _level in range(5000):
        nested = {"kind": "List", "items": [nested]}
    assert names([nested]) == ["Node a"]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["text"], "input: [0]: is str, not an object"),
        ([node("a"), None], "input: [1]: is NoneType, not an object"),
        ([{"kind": "List", "items": [node("a"), []]}], "List: items[1]: is list, not an object"),
        ([{}], "object (no name): kind: is missing"),
        ([bare("a")], "object a: kind: is missing"),
        ([{"kind": "", "metadata": {"namespace": "x", "name": "a"}}], "object x/a: kind: is missing"),
        ([{"kind": ["Pod"]}], "object (no name): kind: is missing"),
        ([{"kind": "List", "items": [bare("a")]}], "object a: kind: is missing"),
        ([{"kind": "List", "items": {"a": node("a")}}], "List: items: is dict, the API has a list there"),
        ([{"kind": "NodeList", "metadata": {}, "items": "none"}], "NodeList: items: is str, the API has a list there"),
    ],
)
def test_what_is_no_object_is_refused_by_its_place(documents: list[Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        decode(documents)
    assert str(refused.value).startswith(message)


NODE_TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
HALF = [{"matchExpressions": [expression("gpu", "In")]}]
SKEWED = [{"maxSkew": "1", "topologyKey": ZONE}]
WRONG: Any = 5  # where the API has text


@pytest.mark.parametrize(
    ("raw", "field", "fault"),
    [
        ({"kind": "Node"}, "metadata", "is missing"),
        (bare("") | {"kind": "Node"}, "metadata.name", "is missing"),
        (bare(WRONG) | {"kind": "Pod"}, "metadata.name", "is int, the API has text there"),
        (node("n", "0.5"), f"status.allocatable[{GPU}]", "'0.5' is not a whole number; ask for a whole number of devices"),
        (node("n", capacity="x"), f"status.capacity[{GPU}]", "'x' is not a quantity; ask for a whole number of devices"),
        (node("n", taints=[WRONG]), "spec.taints[0]", "is int, the API has a mapping there"),
        (node("n", labels={"gpu": WRONG}), "metadata.labels[gpu]", "is int, the API has text there"),
        (node("n") | {"spec": {"unschedulable": "false"}}, "spec.unschedulable", "is str, the API has true or false there"),
        (node("n") | {"status": []}, "status", "is list, the API has a mapping there"),
        (pod("p") | {"spec": None}, "spec", "is missing; give whole pods, as kubectl get pods -o json prints them"),
        (pod("p") | {"spec": []}, "spec", "is list, the API has a mapping there"),
        (pod("p", containers=[]), "spec.containers", "is missing or empty"),
        (pod("p", containers={}), "spec.containers", "is dict, the API has a list there"),
        (pod("p", containers=[WRONG]), "spec.containers[0]", "is int, the API has a mapping there"),
        (pod("p", on=WRONG), "spec.nodeName", "is int, the API has text there"),
        (pod("p", created="noon"), "metadata.creationTimestamp", "'noon' is not a time; write it as 2026-11-30T12:00:00Z"),
        (pod("p", created=WRONG), "metadata.creationTimestamp", "is int, the API has text there"),
        (pod("p", tolerations=[{"value": 5}]), "spec.tolerations[0].value", "is int, the API has text there"),
        (pod("p", nodeSelector={"gpu": ["A100"]}), "spec.nodeSelector[gpu]", "is list, the API has text there"),
        (pod("p", affinity={"nodeAffinity": {REQUIRED: {}}}), NODE_TERMS, "is missing"),
        (
            pod("p", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": HALF}}}),
            f"{NODE_TERMS}[0].matchExpressions[0]",
            "In takes at least one value",
        ),
        (
            pod("p", topologySpreadConstraints=SKEWED),
            "spec.topologySpreadConstraints[0].maxSkew",
            "is str, the API has a whole number there",
        ),
        (pod("p", schedulingGates="quota"), "spec.schedulingGates", "is str, the API has a list there"),
        (pod("p", resourceClaims=[{}]), "spec.resourceClaims[0].name", "is missing"),
        (pod("p", metadata={"ownerReferences": [{"controller": True}]}), "metadata.ownerReferences[0].kind", "is missing"),
        (pod("p", status={"conditions": {}}), "status.conditions", "is dict, the API has a list there"),
        (pod("p", status={"conditions": [[]]}), "status.conditions[0]", "is list, the API has a mapping there"),
        (claim("c", volume=WRONG), "spec.volumeName", "is int, the API has text there"),
        (volume("v", terms=HALF), "spec.nodeAffinity.required[0].matchExpressions[0]", "In takes at least one value"),
        (namespace("x", team=WRONG), "metadata.labels[team]", "is int, the API has text there"),
        (
            bare("b") | {"kind": "PodDisruptionBudget", "spec": {"selector": []}},
            "spec.selector",
            "is list, the API has a mapping there",
        ),
        (
            bare("j") | {"kind": "Job", "spec": {"parallelism": "2"}},
            "spec.parallelism",
            "is str, the API has a whole number there",
        ),
        (pod("p", on="n2"), "spec.nodeName", "node 'n2' is not in the input; dump nodes and pods together, all of both"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_a_malformed_object_is_refused_by_name_and_field(raw: Object, field: str, fault: str) -> None:
    with pytest.raises(InputError) as refused:
        decode([node("n1"), raw])
    meta = raw.get("metadata", {})
    name = "/".join(part for part in (meta.get("namespace"), meta.get("name")) if part and part != WRONG) or "(no name)"
    assert str(refused.value) == f"{raw['kind']} {name}: {field}: {fault}"


@pytest.mark.parametrize("raw", [node("same"), pod("same"), claim("same"), volume("same"), namespace("same")])
def test_an_object_that_is_given_twice_is_refused(raw: Object) -> None:
    with pytest.raises(InputError, match=r"same: metadata\.name: is given twice; two dumps were put together$"):
        decode([raw, {"kind": "List", "items": [raw]}])


def test_an_error_names_the_source() -> None:
    with pytest.raises(InputError, match=r"^dump\.json: Node n: metadata\.name: is given twice"):
        decode([node("n"), node("n")], source="dump.json")


@pytest.mark.parametrize("raws", [[pod("p"), pod("p", namespace="other")], [node("same"), pod("same"), claim("same")]])
def test_only_the_same_kind_namespace_and_name_are_the_same_object(raws: list[Object]) -> None:
    assert decode(raws).kinds == {raw["kind"] for raw in raws}


def test_pods_are_sorted_by_where_they_are() -> None:
    cluster = decode(
        [
            pod("bound", on="n1"),
            pod("starting", on="n1", phase="Pending"),
            pod("leaving", on="n1", metadata={"deletionTimestamp": NOON}),
            pod("unknown", on="n1", phase="Unknown"),
            pod("waiting"),
            pod("done", on="n1", phase="Succeeded"),
            pod("broken", on="gone", phase="Failed"),
            node("n1"),
            node("n2"),
        ]
    )
    assert {name: [p.name for p in pods] for name, pods in cluster.bound.items()} == {
        "n1": ["bound", "starting", "leaving", "unknown"],
        "n2": [],
    }
    assert [p.name for p in cluster.pending] == ["waiting"]
    assert [p.name for p in cluster.finished] == ["done", "broken"]


def test_in_a_cluster_that_goes_on_while_it_is_read_a_pod_may_be_on_a_node_that_was_not_seen() -> None:
    cluster = decode([node("n1"), pod("here", on="n1"), pod("new", on="n2"), pod("done", on="n2", phase="Failed")], live=True)
    assert [p.name for p in cluster.strangers] == ["new"]
    assert [p.name for p in cluster.bound["n1"]] == ["here"]
    assert [p.name for p in cluster.finished] == ["done"]


def test_a_pending_pod_that_is_being_deleted_waits_for_nothing() -> None:
    assert decode([pod("p", metadata={"deletionTimestamp": NOON})]).pending == []


def test_kinds_that_nobody_needs_are_passed_over_unread() -> None:
    cluster = decode([node("n"), {"kind": "Secret", "metadata": ["odd"]}, {"kind": "Event"}])
    assert list(cluster.nodes) == ["n"]
    assert cluster.kinds == {"Node"}


def test_a_node_is_what_the_api_says() -> None:
    raw = node("n", 7, capacity=8, labels={"a": "b"}, taints=[{"key": "gpu", "effect": "NoSchedule"}], unschedulable=True)
    found = decode([raw]).nodes["n"]
    assert found.labels == {"kubernetes.io/hostname": "n", "a": "b"}
    assert found.taints == (Taint("gpu", "", "NoSchedule"),)
    assert found.unschedulable
    assert found.allocatable == {"cpu": 96_000, "memory": 768 * 2**30, "pods": 110, GPU: 7}
    assert found.capacity[GPU] == 8


@pytest.mark.parametrize(("told", "ready"), [("True", True), ("False", False), ("Unknown", False), (None, True)])
def test_a_node_is_ready_unless_its_condition_says_otherwise(told: str | None, ready: bool) -> None:
    assert decode([node("n", ready=told)]).nodes["n"].ready is ready


def test_since_when_a_pod_has_a_node_and_is_ready_is_told_while_it_is() -> None:
    def conditions(ready: str) -> Object:
        times = {"PodScheduled": ("True", "2026-11-30T12:00:00Z"), "Ready": (ready, "2026-11-30T12:03:00Z")}
        told = [{"type": name, "status": status, "lastTransitionTime": time} for name, (status, time) in times.items()]
        return pod("p", 1, status={"conditions": told})

    (up,) = decode([conditions("True")]).pending
    assert (up.scheduled, up.ready_since) == (epoch("2026-11-30T12:00:00Z"), epoch("2026-11-30T12:03:00Z"))
    (down,) = decode([conditions("False")]).pending
    assert (down.ready, down.ready_since) == (False, None)
    (unknown,) = decode([pod("p", 1)]).pending
    assert (unknown.scheduled, unknown.ready_since) == (None, None)


@pytest.mark.parametrize("more", [{}, {"spec": None, "status": None}, {"status": {"conditions": None}}])
def test_a_node_of_which_nothing_is_told_offers_only_the_usual_pods(more: Object) -> None:
    found = decode([bare("n") | {"kind": "Node"} | more]).nodes["n"]
    assert (found.allocatable, found.capacity, found.taints, found.ready) == ({"pods": 110}, {}, (), True)
    assert not found.unschedulable


def test_a_pod_is_what_the_api_says() -> None:
    raw = pod("p", 2, "n1", namespace="x", labels={"app": "llm"}, owner="ReplicaSet/llm", created=NOON, priority=7)
    raw["metadata"] |= {"uid": "u", "annotations": {"a": "b"}, "deletionTimestamp": NOON}
    raw["status"] |= {"conditions": [{"type": "Ready", "status": "True"}], "nominatedNodeName": "n2"}
    found = only(raw)
    assert (found.namespace, found.name, found.uid, str(found)) == ("x", "p", "u", "x/p")
    assert (found.labels, found.annotations) == ({"app": "llm"}, {"a": "b"})
    assert found.owner == Owner("ReplicaSet", "llm", "uid-llm")
    assert (found.node, found.nominated, found.phase, found.priority) == ("n1", "n2", "Running", 7)
    assert found.active
    assert found.terminating
    assert found.ready
    assert not found.gated
    assert found.requests == {GPU: 2}
    assert found.created == epoch(NOON)
    assert found.placement is UNCONSTRAINED


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        dict.fromkeys(("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "volumes", "hostNetwork")),
        dict.fromkeys(("overhead", "priority", "initContainers", "resources", "resourceClaims", "schedulingGates")),
        {"affinity": {"podAffinity": None, "nodeAffinity": None}, "volumes": [{"name": "v", "persistentVolumeClaim": None}]},
        {"affinity": {"nodeAffinity": {REQUIRED: None}, "podAffinity": {REQUIRED: None}}, "schedulingGates": []},
        {"volumes": [{"name": "v", "emptyDir": {}}], "resourceClaims": [], "initContainers": []},
    ],
)
def test_null_and_empty_are_as_if_they_were_not_there(nothing: Object) -> None:
    found = only(pod("p", metadata={"labels": None, "annotations": None, "ownerReferences": None}, **nothing))
    assert found.placement == UNCONSTRAINED
    assert (found.labels, found.owner, found.gated, found.priority, found.resource_claims) == ({}, None, False, 0, ())


@pytest.mark.parametrize(
    ("references", "owner"),
    [
        ([], None),
        ([{"kind": "Node", "name": "n", "uid": "1"}], None),
        ([{"kind": "Node", "name": "n", "uid": "1", "controller": False}], None),
        ([{"kind": "A", "name": "a", "uid": "1"}, {"kind": "B", "name": "b", "uid": "2", "controller": True}], "B/b"),
        ([{"kind": "Job", "name": "j", "controller": True}], "Job/j"),
    ],
)
def test_the_owner_is_the_controller(references: list[Object], owner: str | None) -> None:
    found = only(pod("p", metadata={"ownerReferences": references}))
    assert (found.owner and str(found.owner)) == owner


def test_one_uid_of_two_names_is_two_owners() -> None:
    def owned(name: str, owner: str) -> Object:
        return pod(name, metadata={"ownerReferences": [{"kind": "Job", "name": owner, "uid": "1", "controller": True}]})

    cluster = decode([owned("a", "x"), owned("b", "y"), owned("c", "y")])
    assert [str(p.owner) for p in cluster.pending] == ["Job/x", "Job/y", "Job/y"]


@pytest.mark.parametrize(
    ("raw", "companion"),
    [
        (pod("p", owner="DaemonSet/dcgm"), True),
        (pod("p", owner="Node/n1"), True),
        (pod("p", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), True),
        (pod("p", owner="ReplicaSet/llm"), False),
        (pod("p"), False),
    ],
)
def test_daemon_and_mirror_pods_leave_with_their_node(raw: Object, companion: bool) -> None:
    assert only(raw).unmovable_companion is companion


TERMINATED = {"containerStatuses": [{"state": {"terminated": {"finishedAt": at}}} for at in (NOON, "2026-11-30T11:00:00Z", None)]}
CHANGED = {"conditions": [{"type": "Ready", "lastTransitionTime": at} for at in ("2026-11-30T11:00:00Z", NOON, None)]}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    ("status", "finished"),
    [
        (TERMINATED, epoch(NOON)),
        (CHANGED, epoch(NOON)),
        (CHANGED | {"containerStatuses": [{"state": {"waiting": {}}}, {"state": None}, {}]}, epoch(NOON)),
        ({}, None),
    ],
)
def test_a_pod_finished_when_its_last_container_ended(phase: str, status: Object, finished: float | None) -> None:
    assert only(pod("p", phase=phase, status=status)).finished == finished


def test_a_running_pod_has_not_finished() -> None:
    assert only(pod("p", on="n1", status=TERMINATED)).finished is None


@pytest.mark.parametrize(
    ("raws", "newest"),
    [
        ([node("n")], None),
        ([pod("p", created="2026-11-30T11:00:00Z"), pod("q", created=NOON)], NOON),
        ([pod("p", phase="Failed", status=TERMINATED)], NOON),
        ([pod("p", status=CHANGED)], NOON),
        ([{"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [{"lastHeartbeatTime": NOON}]}}], NOON),
    ],
)
def test_now_is_the_newest_time_in_the_objects(raws: list[Object], newest: str | None) -> None:
    assert decode(raws).now == (epoch(newest) if newest else None)


def test_now_can_be_told() -> None:
    assert decode([pod("p", created=NOON)], now=5.0).now == 5.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5Z", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:01:00", 60),
    ],
)
def test_a_time_is_seconds_since_1970(text: str, seconds: float) -> None:
    assert epoch(text) == seconds


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01T00:00:00Z", "2026-11-30T25:00:00Z", "1764504000"])
def test_no_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        epoch(text)


PORT = {"containerPort": 80, "hostPort": 8080}
TAKEN = (HostPort("TCP", "0.0.0.0", 8080),)


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({"containers": [container(ports=[PORT])]}, TAKEN),
        ({"containers": [container(ports=[{"containerPort": 80}])]}, ()),
        ({"containers": [container(ports=None)]}, ()),
        ({"containers": [container(ports=[{"containerPort": 8080}])], "hostNetwork": True}, TAKEN),
        ({"initContainers": [container(ports=[PORT], restartPolicy="Always")]}, TAKEN),
        ({"initContainers": [container(ports=[PORT])]}, ()),
        ({"containers": [container(ports=[PORT | {"protocol": "UDP", "hostIP": "::1"}])]}, (HostPort("UDP", "::1", 8080),)),
    ],
)
def test_host_ports_of_containers_and_sidecars_are_taken(spec: Object, taken: tuple[HostPort, ...]) -> None:
    assert only(pod("p", **spec)).placement.host_ports == taken


def test_a_generic_ephemeral_volume_has_a_claim_named_after_the_pod() -> None:
    raw = pod("p", volumes=[*uses("data"), {"name": "scratch", "ephemeral": {}}, {"name": "shm", "emptyDir": {}}])
    assert only(raw).placement.volume_claims == ("data", "p-scratch")


def test_only_required_spread_counts_and_policies_default_as_in_the_api() -> None:
    constraints = [
        {"topologyKey": ZONE, "maxSkew": 1},
        {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": None, "nodeAffinityPolicy": None, "nodeTaintsPolicy": None},
        {"topologyKey": ZONE, "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
        {
            "topologyKey": ZONE,
            "maxSkew": 4,
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "nodeAffinityPolicy": "Ignore",
            "nodeTaintsPolicy": "Honor",
        },
    ]
    spread = only(pod("p", topologySpreadConstraints=constraints)).placement.spread
    assert [(s.max_skew, s.min_domains, s.honor_affinity, s.honor_taints) for s in spread] == [
        (1, 1, True, False),
        (2, 1, True, False),
        (4, 2, False, True),
    ]


def test_match_label_keys_narrow_the_selector_to_labels_that_the_pod_has() -> None:
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {}, "matchLabelKeys": ["revision", "absent"]}
    (spread,) = only(pod("p", labels={"revision": "2"}, topologySpreadConstraints=[constraint])).placement.spread
    assert spread.selector is not None
    assert spread.selector.matches({"revision": "2"})
    assert not spread.selector.matches({"revision": "1"})


@pytest.mark.parametrize(
    ("term", "namespaces", "by_label"),
    [
        ({}, ("x",), False),
        ({"namespaces": []}, ("x",), False),
        ({"namespaces": ["a", "b"]}, ("a", "b"), False),
        ({"namespaceSelector": {}}, (), True),
        ({"namespaces": ["a"], "namespaceSelector": {}}, ("a",), True),
    ],
)
def test_an_affinity_term_speaks_of_the_pods_own_namespace_unless_it_names_others(
    term: Object, namespaces: tuple[str, ...], by_label: bool
) -> None:
    affinity = {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {}} | term]}}
    (found,) = only(pod("p", namespace="x", affinity=affinity)).placement.anti_affinity
    assert found.namespaces == namespaces
    assert (found.namespace_selector is not None) is by_label


def test_pods_alike_share_one_placement() -> None:
    cluster = decode([pod(name, nodeSelector={"gpu": "A100"}) for name in ("a", "b")])
    first, second = cluster.pending
    assert first.placement is second.placement


def test_tolerations_have_what_they_name_and_leave_the_rest_open() -> None:
    raw = pod("p", tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, {}])
    assert only(raw).placement.tolerations == (Toleration("k", "Equal", "v", "NoSchedule"), Toleration("", "", "", ""))


def test_a_typed_list_tells_its_kind_though_it_is_empty() -> None:
    empty = [{"kind": "PodList", "items": []}, {"kind": "List", "items": []}]
    assert decode(empty).kinds == {"Pod"}


def test_a_budget_that_tells_of_no_generation_is_current() -> None:
    raw = {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "status": {"disruptionsAllowed": 1, "expectedPods": 3}}
    (found,) = decode([raw]).budgets
    assert (found.disruptions_allowed, found.current_healthy, found.expected_pods) == (1, 0, 3)
    (unread,) = decode([{"kind": "PodDisruptionBudget", "metadata": {"name": "b"}}]).budgets
    assert (unread.disruptions_allowed, unread.expected_pods) == (None, 0)


def test_a_budget_counts_only_what_its_controller_has_seen() -> None:
    def budget(name: str, observed: int | None) -> Object:
        status = {"observedGeneration": observed, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": None}
        meta = {"name": name, "namespace": "x", "generation": 2}
        return {"kind": "PodDisruptionBudget", "metadata": meta, "spec": {"maxUnavailable": "50%"}, "status": status}

    current, stale, unseen = decode([budget("a", 2), budget("b", 1), budget("c", None)]).budgets
    assert (current.disruptions_allowed, stale.disruptions_allowed, unseen.disruptions_allowed) == (1, None, None)
    assert (current.max_unavailable, current.min_available, current.selector) == ("50%", None, None)
    assert (current.current_healthy, current.desired_healthy, current.unhealthy_policy) == (2, 0, "IfHealthyBudget")


@pytest.mark.parametrize("key", ["minAvailable", "maxUnavailable"])
@pytest.mark.parametrize(
    ("share", "told"),
    [("half", "'half'"), ("50", "'50'"), (-1, "-1"), (True, "True"), (0.5, "0.5"), ([1], "list"), ({"a": "b" * 500}, "dict")],
)
def test_a_budget_s_share_is_a_number_of_pods_or_a_percentage(key: str, share: Any, told: str) -> None:
    raw = bare("b") | {"kind": "PodDisruptionBudget", "spec": {key: share}}
    with pytest.raises(InputError) as refused:
        decode([raw])
    assert refused.value.field == f"spec.{key}"
    assert refused.value.message == f"{told} is neither a number of pods nor a percentage such as 50%"
    assert decode([bare("b") | {"kind": "PodDisruptionBudget", "spec": {key: "50%"}}]).budgets


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        ("Deployment", {"replicas": 3}, 3),
        ("StatefulSet", {"replicas": 0}, 0),
        ("Job", {"parallelism": 2, "replicas": 9}, 2),
        ("DaemonSet", {}, None),
    ],
)
def test_a_workload_says_how_many_pods_it_wants(kind: str, spec: Object, replicas: int | None) -> None:
    raw = {"kind": kind, "metadata": {"name": "w", "namespace": "x", "uid": "u"}, "spec": spec}
    found = decode([raw]).workloads[kind, "x", "w"]
    assert (found.replicas, found.uid, found.owner) == (replicas, "u", None)


def test_volumes_claims_and_namespaces_are_found_by_name() -> None:
    cluster = decode([volume("v", labels={ZONE: "z1"}), claim("c", "v", namespace="x"), claim("c"), namespace("x", team="a")])
    assert cluster.volumes["v"].labels == {ZONE: "z1"}
    assert cluster.volumes["v"].node_terms is None
    assert cluster.volume_claims["x", "c"].volume == "v"
    assert cluster.volume_claims["x", "c"].access_modes == ("ReadWriteOnce",)
    assert cluster.volume_claims["default", "c"].volume == ""
    assert cluster.namespaces["x"]["team"] == "a"


def test_decoding_changes_nothing_in_its_input() -> None:
    documents = everything()
    decode(documents)
    assert documents == everything()


@pytest.mark.parametrize(
    ("version", "kind", "read"),
    [
        ("v1", "Node", True),
        (None, "Node", True),
        ("longhorn.io/v1beta2", "Node", False),
        ("batch/v1", "Job", True),
        ("batch.volcano.sh/v1alpha1", "Job", False),
        ("policy/v1", "PodDisruptionBudget", True),
    ],
)
def test_a_namesake_of_another_api_group_is_passed_over(version: str | None, kind: str, read: bool) -> None:
    raw = {"kind": kind, "metadata": {"name": "n"}} | ({"apiVersion": version} if version else {})
    cluster = decode([raw])
    assert (cluster.kinds == {kind}) is read
    assert bool(cluster.nodes or cluster.workloads or cluster.budgets) is read


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 10**400, 10**5000], ids=["above", "below", "huge", "endless"])
def test_a_priority_that_the_api_cannot_have_is_refused_by_pod_and_field(priority: int) -> None:
    with pytest.raises(InputError, match="32 bits") as refused:
        decode([node("n1"), pod("p", 1, "n1", namespace="x", priority=priority)])
    assert (refused.value.object, refused.value.field) == ("Pod x/p", "spec.priority")
    assert decode([pod("p", 1, priority=2**31 - 1)]).pending[0].priority == 2**31 - 1
