# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.protection import protected
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.protection import protection
from ansible_collections.gpuops.defrag.plugins.module_utils._core.protection.wishes import Wishes, services
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, node, serving, workload

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
OURS = "gpuops.io/protect"
MARK = "gpuops.io/protected-by-role"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
BOTH = {OURS: "true", PREFER: "true"}
MARKED = {**BOTH, MARK: f"{OURS},{PREFER}"}
LISTED = {"namespace": "default", "name": "llm", "budget": False, "protect": True}


def stateful(on_pods: Mapping[str, str], on_template: Mapping[str, str] | None = None, **spec: Any) -> list[Object]:
    """A StatefulSet with annotations on its two pods and its template."""
    top = workload("StatefulSet", "llm", 2)
    template = {"labels": {"app": "llm"}, "annotations": dict(on_template or {})}
    top["spec"] |= {"selector": {"matchLabels": {"app": "llm"}}, "template": {"metadata": template}, **spec}
    pods = [serving(f"llm-{i}", owner="StatefulSet/llm", labels={"app": "llm"}, annotations=on_pods) for i in range(2)]
    return [top, *pods]


def found(objects: list[Object], *wished: Object, **wishes: Any) -> dict[str, Any]:
    return protection(objects, Wishes(services=services(wished), **wishes))


def changes(result: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["annotations"] for each in result["annotate"]}


def ids(result: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in result["findings"]}


def patched(objects: list[Object], result: dict[str, Any]) -> list[Object]:
    """The objects after the patches, as a merge patch changes them."""

    def merge(target: Object, patch: Object) -> None:
        for key, value in patch.items():
            if value is None:
                target.pop(key, None)
            elif isinstance(value, dict):
                merge(target.setdefault(key, {}), value)
            else:
                target[key] = value

    for change in result["annotate"]:
        (target,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (change["kind"], change["name"]))
        merge(target, change["patch"])
    return objects


@pytest.mark.parametrize("value", ["false", "no", "", "False", "0"])
def test_what_was_meant_to_protect_is_made_to_protect(value: str) -> None:
    objects = stateful({EVICT: value})
    assert ("EvictMisread" in ids(found(objects)), changes(found(objects))) == (True, {})
    result = found(objects, migrate=True)
    assert changes(result) == {name: {EVICT: None, **BOTH} for name in ("llm-0", "llm-1")}
    after = patched(objects, result)
    for pod in decode([node("n1"), *after]).bound["n1"]:
        assert protected(pod, None)
    again = found(after, migrate=True)
    assert (again["annotate"], "EvictMisread" in ids(again)) == ([], False)


@pytest.mark.parametrize(
    ("annotations", "rule"),
    [
        ({EVICT: "true"}, "EvictsPastProtection"),
        ({EVICT: "true", PREFER: "true"}, "EvictWins"),
        ({PREFER: "false"}, "PreferNoEvictionFalse"),
        ({SAFE: "false"}, "NotReadByDescheduler"),
        ({"karpenter.sh/do-not-disrupt": "true"}, "NotReadByDescheduler"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_may_be_meant_is_told_and_left(annotations: dict[str, str], rule: str) -> None:
    result = found(stateful(annotations), migrate=True, rollout=True)
    assert (ids(result), result["annotate"], result["ok"]) == ({rule}, [], True)


def test_annotations_where_nobody_reads_them_are_told() -> None:
    objects = stateful({})
    objects[0]["metadata"] |= {"annotations": {PREFER: "true"}, "labels": {EVICT: "false"}}
    objects[1]["metadata"]["labels"][PREFER] = "true"
    assert [each["id"] for each in found(objects)["findings"]] == ["NotOnPods"] * 3


def test_pods_alone_are_annotated_and_it_is_told_that_the_next_ones_are_not() -> None:
    objects = stateful({})
    result = found(objects, LISTED)
    assert changes(result) == {"llm-0": MARKED, "llm-1": MARKED}
    assert ids(result) == {"LostOnRecreation"}
    again = found(patched(objects, result), LISTED)
    assert (again["annotate"], ids(again)) == ([], {"LostOnRecreation"})


def test_with_leave_the_template_is_changed_and_its_pods_are_left_to_the_rollout() -> None:
    objects = stateful({})
    result = found(objects, LISTED, rollout=True)
    assert [(each["kind"], each["rollout"]) for each in result["annotate"]] == [("StatefulSet", True)]
    assert result["annotate"][0]["patch"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": "default", "name": "llm"},
        "spec": {"template": {"metadata": {"annotations": MARKED}}},
    }
    assert ids(result) == set()
    done = stateful(MARKED, MARKED)
    assert found(done, LISTED, rollout=True)["annotate"] == []


def test_a_template_that_replaces_no_pods_needs_no_leave() -> None:
    result = found(stateful({}, updateStrategy={"type": "OnDelete"}), LISTED)
    assert (set(changes(result)), ids(result)) == ({"llm", "llm-0", "llm-1"}, set())


def test_a_template_that_is_kept_in_git_is_left() -> None:
    objects = stateful({EVICT: "false"}, {EVICT: "false"})
    objects[0]["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "llm:apps/StatefulSet:default/llm"}
    result = found(objects, migrate=True, rollout=True)
    assert ("KeptInGit" in ids(result), set(changes(result))) == (True, {"llm-0", "llm-1"})


def test_only_what_was_put_there_is_taken_away() -> None:
    objects = stateful({PREFER: "true"})
    objects = patched(objects, found(objects, LISTED))
    assert objects[1]["metadata"]["annotations"] == {**BOTH, MARK: OURS}
    gone = {MARK: None, OURS: None}
    result = found(objects)
    assert changes(result) == {"llm-0": gone, "llm-1": gone}
    assert patched(objects, result)[1]["metadata"]["annotations"] == {PREFER: "true"}
    assert found(stateful({MARK: "anything,else", "else": "x"}))["annotate"][0]["annotations"] == {MARK: None}


def test_a_template_goes_on_to_protect_until_it_may_be_changed() -> None:
    objects = stateful(MARKED, MARKED)
    assert "TemplateUnchanged" in ids(found(objects))
    assert changes(found(objects, rollout=True)) == {"llm": {MARK: None, OURS: None, PREFER: None}}


def test_a_listed_service_loses_what_makes_it_evictable() -> None:
    assert changes(found(stateful({EVICT: "true", OURS: "false"}), LISTED))["llm-0"] == {EVICT: None, **MARKED}


def test_a_selector_protects_the_pods_that_it_chooses_alone() -> None:
    objects = stateful({})
    objects[1]["metadata"]["labels"]["role"] = "main"
    wish = {"namespace": "default", "selector": {"role": "main"}, "budget": False, "protect": True}
    assert set(changes(found(objects, wish, rollout=True))) == {"llm-0"}


@pytest.mark.parametrize("reach", [{"namespaces": frozenset(("other",))}, {"excluded": frozenset(("default",))}], ids=str)
def test_what_is_out_of_reach_is_left(reach: Any) -> None:
    result = found(stateful({EVICT: "false"}, {EVICT: "false"}), migrate=True, rollout=True, **reach)
    assert (result["annotate"], ids(result)) == ([], set())
