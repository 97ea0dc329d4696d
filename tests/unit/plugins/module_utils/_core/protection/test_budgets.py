# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import label_selector
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.protection import protection
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.read import OWN_LABELS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.wishes import Wishes, services
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, budget, namespace, serving, workload

LISTED = {"namespace": "default", "name": "llm"}


def deployment(
    name: str, replicas: int, labels: dict[str, str] | None = None, selects: dict[str, str] | None = None
) -> list[Object]:
    """A Deployment, its ReplicaSet and its pods."""
    labels = labels or {"app": name}
    top = workload("Deployment", name, replicas)
    top["spec"] |= {"selector": {"matchLabels": selects or labels}, "template": {"metadata": {"labels": labels}}}
    middle = workload("ReplicaSet", f"{name}-5d4f8", replicas, owner=f"Deployment/{name}")
    hashed = labels | {"pod-template-hash": "5d4f8"}
    middle["spec"] |= {"selector": {"matchLabels": hashed}, "template": {"metadata": {"labels": hashed}}}
    pods = [serving(f"{name}-{i}", labels=hashed, owner=f"ReplicaSet/{name}-5d4f8") for i in range(replicas)]
    return [top, middle, *pods]


def scaler(kind: str, name: str, least: int | None) -> Object:
    spec: Object = {"scaleTargetRef": {"kind": kind, "name": name}} | ({} if least is None else {"minReplicas": least})
    return {"kind": "HorizontalPodAutoscaler", "metadata": {"namespace": "default", "name": name}, "spec": spec}


def ours(name: str, labels: dict[str, str], **spec: Any) -> Object:
    made = budget(name, labels, **spec)
    made["metadata"]["labels"] = dict(OWN_LABELS)
    return made


def found(objects: list[Object], *wished: Object, **wishes: Any) -> dict[str, Any]:
    return protection([namespace("default"), *objects], Wishes(services=services(wished), **wishes))


def made(result: dict[str, Any]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in result["budgets"]}


def ids(result: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in result["findings"]}


@pytest.mark.parametrize(
    ("wish", "amount"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"max_unavailable": 2}, {"maxUnavailable": 2}),
        ({"max_unavailable": "25 %"}, {"maxUnavailable": "25%"}),
        ({"min_available": "2"}, {"minAvailable": 2}),
        ({"min_available": "50%"}, {"minAvailable": "50%"}),
        ({"min_available": "100 %", "allow_none": True}, {"minAvailable": "100%"}),
        ({"max_unavailable": 0, "allow_none": True}, {"maxUnavailable": 0}),
    ],
    ids=str,
)
def test_a_listed_service_gets_the_budget_it_is_given(wish: Object, amount: Object) -> None:
    result = found(deployment("llm", 3), LISTED | wish)
    assert made(result) == {"gpuops-llm": {**amount, "selector": {"matchLabels": {"app": "llm"}}}}
    assert result["ok"]
    assert result["budgets"][0]["metadata"]["labels"] == OWN_LABELS


@pytest.mark.parametrize(
    ("replicas", "wish", "forbids"),
    [
        (2, {"min_available": 2}, True),
        (3, {"min_available": 2}, False),
        (4, {"min_available": "90%"}, True),  # 3.6 of 4 are all 4.
        (4, {"min_available": "75%"}, False),
        (2, {"min_available": "51%"}, True),
        (2, {"min_available": "50%"}, False),
        (2, {"max_unavailable": "1%"}, False),  # 0.02 of 2 are 1.
        (1, {}, False),
        (1, {"min_available": 1}, True),
        (0, {"min_available": 1}, False),
    ],
)
def test_a_budget_that_allows_nothing_is_an_error_and_is_not_made(replicas: int, wish: Object, forbids: bool) -> None:
    result = found(deployment("llm", replicas) + deployment("other", 1), LISTED | wish)
    assert ("BudgetForbidsAll" in ids(result), bool(made(result)), result["ok"]) == (forbids, not forbids, not forbids)
    assert found(deployment("llm", replicas) + deployment("other", 1), LISTED | wish | {"allow_none": True})["ok"]


@pytest.mark.parametrize(
    ("wish", "field", "told"),
    [
        ({"min_available": "100%"}, "services[0].min_available", "forbids every eviction"),
        ({"max_unavailable": "0%"}, "services[0].max_unavailable", "forbids every eviction"),
        ({"max_unavailable": 0}, "services[0].max_unavailable", "forbids every eviction"),
        ({"min_available": 1, "max_unavailable": 1}, "services[0]", "both"),
        ({"min_available": "a few"}, "services[0].min_available", "neither a number of pods nor a percentage"),
        ({"min_available": "101%"}, "services[0].min_available", "neither a number of pods nor a percentage"),
        ({"min_available": True}, "services[0].min_available", "neither a number of pods nor a percentage"),
        ({"min_available": -1}, "services[0].min_available", "neither a number of pods nor a percentage"),
        ({"name": None}, "services[0]", "names neither a workload"),
        ({"namespace": ""}, "services[0].namespace", "is missing"),
        ({"selector": {}}, "services[0]", "names neither|selects every pod"),
        ({"selector": {"matchLabels": {}}}, "services[0].selector", "selects every pod"),
        ({"selector": {"app": 1}}, "services[0].selector[app]", "quote it"),
        ({"selector": "app=llm"}, "services[0].selector", "is not a mapping"),
        ({"selector": {"app": "llm"}, "kind": "Deployment"}, "services[0].kind", "selector chooses"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "services[0].selector", "not a selector operator"),
        ({"minAvailable": 1}, "services[0].minAvailable", "is no key of a service"),
        ({"kind": 1}, "services[0].kind", "is not text"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wishes_that_make_no_sense_are_refused_by_field(wish: Object, field: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        services([LISTED | wish])
    assert (error.value.field or "").startswith(field)


def test_a_service_is_listed_once() -> None:
    with pytest.raises(InputError, match=r"services\[1\].*services\[0\]"):
        services([LISTED, LISTED])
    with pytest.raises(InputError, match="is str, not a mapping"):
        services(["llm"])


@pytest.mark.parametrize(
    ("wish", "rule"),
    [
        ({"name": "nobody"}, "ServiceNotFound"),
        ({"namespace": "nowhere"}, "NamespaceNotFound"),
        ({"name": "twice"}, "ServiceAmbiguous"),
        ({"selector": {"app": "nobody"}}, "SelectsNothing"),
        ({"kind": "StatefulSet"}, "ServiceNotFound"),
    ],
)
def test_a_service_that_is_not_there_is_an_error(wish: Object, rule: str) -> None:
    objects = [*deployment("llm", 3), *deployment("twice", 2), workload("StatefulSet", "twice", 2)]
    result = found(objects, LISTED | wish)
    assert (ids(result), made(result), result["ok"]) == ({rule}, {}, False)
    assert found(objects, LISTED | {"name": "twice", "kind": "Deployment"})["ok"]


def test_pods_of_several_workloads_are_one_group() -> None:
    objects = deployment("a", 1, {"app": "a", "tier": "x"}) + deployment("b", 2, {"app": "b", "tier": "x"})
    result = found(objects, {"namespace": "default", "name": "x", "selector": {"tier": "x"}, "min_available": 2})
    assert made(result) == {"gpuops-x": {"minAvailable": 2, "selector": {"matchLabels": {"tier": "x"}}}}
    assert ids(result) == {"SeveralWorkloads"}


def test_a_group_without_a_name_is_named_by_its_selector() -> None:
    wish = {"namespace": "default", "selector": {"app": "llm"}}
    (name,) = made(found(deployment("llm", 3), wish))
    assert name.startswith("gpuops-pods-")
    assert list(made(found(deployment("llm", 3), wish))) == [name]


def test_no_pod_is_of_two_budgets_of_ours() -> None:
    objects = deployment("llm", 3) + deployment("canary", 2, {"app": "llm", "track": "canary"})
    objects[0]["spec"]["selector"] = {"matchLabels": {"app": "llm"}}
    for result in (
        found(objects, discover=True),
        found(objects, LISTED, {"namespace": "default", "name": "canary"}),
        found(objects, LISTED, {"namespace": "default", "name": "all", "selector": {"app": "llm"}}),
    ):
        assert list(made(result)) == ["gpuops-llm"]
        assert "SharedPods" in ids(result)


def test_a_workload_without_pods_now_counts_all_the_same() -> None:
    idle = workload("Deployment", "idle", 0)
    labels = {"app": "llm", "track": "idle"}
    idle["spec"] |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    result = found([*deployment("llm", 3), idle], LISTED, {"namespace": "default", "name": "idle"})
    assert (list(made(result)), "SharedPods" in ids(result)) == (["gpuops-llm"], True)


@pytest.mark.parametrize(
    ("theirs", "severity"), [({"app": "llm"}, "info"), ({"pod-template-hash": "5d4f8"}, "info"), ({"only": "one"}, "warning")]
)
def test_somebody_elses_budget_is_left_and_not_doubled(theirs: dict[str, str], severity: str) -> None:
    objects = deployment("llm", 3)
    objects[-1]["metadata"]["labels"]["only"] = "one"
    mine = ours("gpuops-llm", {"app": "llm"}, maxUnavailable=1)
    result = found([*objects, mine, budget("theirs", theirs, maxUnavailable=1)], LISTED)
    assert made(result) == {}
    assert [each["metadata"]["name"] for each in result["remove"]] == ["gpuops-llm"]
    assert [each["severity"] for each in result["findings"] if each["id"] == "ForeignBudget"] in ([severity], ["warning"])


def test_budgets_of_others_that_do_harm_are_told() -> None:
    both = [budget("a", {"app": "llm"}, maxUnavailable=0), budget("b", {"app": "llm"}, minAvailable="100%")]
    assert {"SeveralBudgets", "BudgetForbidsAll"} <= ids(found([*deployment("llm", 3), *both]))


def test_what_is_not_wanted_any_more_goes_where_it_is_ours_and_in_reach() -> None:
    objects = [*deployment("llm", 3), ours("gpuops-old", {"app": "old"}), budget("theirs", {"app": "old"})]
    assert [each["metadata"] for each in found(objects)["remove"]] == [{"name": "gpuops-old", "namespace": "default"}]
    assert found(objects, namespaces=frozenset(("elsewhere",)))["remove"] == []


@pytest.mark.parametrize(
    ("objects", "names", "told"),
    [
        (deployment("llm", 2), ["gpuops-llm"], set()),
        (deployment("llm", 1), [], {"SingleReplica"}),
        ([*deployment("llm", 1), ours("gpuops-llm", {"app": "llm"})], ["gpuops-llm"], set()),
        ([serving(f"p-{i}", owner="DaemonSet/agent") for i in range(2)], [], set()),
        ([serving(f"p-{i}", owner="Job/train") for i in range(2)], [], {"GroupNotBudgeted"}),
        ([serving(f"p-{i}", owner="PyTorchJob/train") for i in range(2)], [], {"GroupNotBudgeted"}),
        ([serving(f"p-{i}", owner="Rollout/new", labels={"app": "new"}) for i in range(2)], ["gpuops-new"], set()),
        (
            [serving(f"p-{i}", owner="Own/thing", labels={"app": "new"}) for i in range(2)],
            ["gpuops-thing"],
            {"BudgetCannotCount"},
        ),
        ([serving(f"p-{i}", owner="StatefulSet/db") for i in range(2)], [], {"SelectorUnknown"}),
        ([serving(f"p-{i}", gpus=None, owner="StatefulSet/db") for i in range(2)], [], set()),
    ],
    ids=lambda value: str(value) if isinstance(value, set) else "",
)
def test_gpu_workloads_that_can_be_counted_are_discovered(objects: list[Object], names: list[str], told: set[str]) -> None:
    result = found(objects, discover=True)
    assert (list(made(result)), ids(result)) == (names, told)
    assert result["ok"]
    assert made(found(objects, discover=True, excluded=frozenset(("default",)))) == {}


@pytest.mark.parametrize(
    ("owner", "wish", "ok"),
    [
        ("Job", {"max_unavailable": 1}, False),
        ("Job", {"min_available": "50%"}, False),
        ("Job", {"min_available": 1}, True),
        ("PyTorchJob", {}, False),
        ("StatefulSet", {}, True),
    ],
)
def test_what_the_controller_cannot_count_is_an_error(owner: str, wish: Object, ok: bool) -> None:
    objects = [serving(f"p-{i}", owner=f"{owner}/llm", labels={"app": "llm"}) for i in range(3)]
    result = found(objects, LISTED | wish)
    assert (result["ok"], bool(made(result)), "BudgetCannotCount" in ids(result)) == (ok, ok, not ok)


def test_a_set_of_groups_has_one_budget_over_all_of_them() -> None:
    key = "leaderworkerset.sigs.k8s.io/"
    objects = [
        serving(f"llm-{g}-{w}", owner=f"StatefulSet/llm-{g}", labels={key + "name": "llm", key + "group-index": str(g)})
        for g in range(2)
        for w in range(2)
    ]
    result = found(objects, discover=True)
    assert made(result) == {"gpuops-llm": {"maxUnavailable": 1, "selector": {"matchLabels": {key + "name": "llm"}}}}


@pytest.mark.parametrize(
    ("least", "wish", "warned"),
    [(2, {"min_available": 2}, True), (2, {}, False), (3, {"min_available": 2}, False), (None, {"min_available": 1}, True)],
)
def test_an_autoscaler_that_leaves_too_few_is_told(least: int | None, wish: Object, warned: bool) -> None:
    result = found([*deployment("llm", 4), scaler("Deployment", "llm", least)], LISTED | wish)
    assert ("ScaledToOne" in ids(result), result["ok"]) == (warned, True)


def test_names_are_told_apart_and_never_too_long() -> None:
    owner = {"ownerReferences": [{"kind": "StatefulSet", "name": "llm", "uid": "another", "controller": True}]}
    sets = [serving(f"s-{i}", owner=None, labels={"app": "s"}, metadata=owner) for i in range(2)]
    both = [*deployment("llm", 2), *sets]
    assert list(made(found(both, discover=True))) == ["gpuops-llm", "gpuops-llm-statefulset"]
    taken = [*deployment("llm", 2), budget("gpuops-llm", {"app": "unlike"}, maxUnavailable=1)]
    result = found(taken, LISTED)
    assert (list(made(result)), ids(result)) == (["gpuops-llm-deployment"], {"NameTaken"})
    long = "n" * 250
    (name,) = made(found(deployment(long, 2), {"namespace": "default", "name": long}))
    assert len(name) <= 253


def test_a_selector_holds_to_no_revision() -> None:
    objects = [each for each in deployment("llm", 2) if each["kind"] != "Deployment"]
    (spec,) = made(found(objects, discover=True)).values()
    assert spec["selector"] == {"matchLabels": {"app": "llm"}}
    chosen = label_selector(spec["selector"], "")
    assert chosen is not None
    assert chosen.matches({"app": "llm", "pod-template-hash": "another"})


def test_without_pods_nothing_can_be_told() -> None:
    with pytest.raises(InputError, match="tells nothing of pods"):
        protection([workload("Deployment", "llm", 2)], Wishes())
