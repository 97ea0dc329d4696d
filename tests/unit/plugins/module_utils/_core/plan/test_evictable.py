# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._core.plan.evictable import Reason, Rules, Stay, Staying, staying
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.redact import hash_names, reduce
from ansible_collections.gpuops.defrag.tests.unit.builders import (
    NODE_NAME,
    REQUIRED,
    Object,
    budget,
    claim,
    laid_out,
    namespace,
    node,
    pod,
    pod_of,
    serving,
    uses,
    volume,
    workload,
)

NOON = "2026-11-30T12:00:00Z"
OLD = {"startTime": "2026-11-30T09:00:00Z"}
EVICT = "descheduler.alpha.kubernetes.io/evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
LLM = {"app": "llm"}


def found(*objects: Object, **rules: Any) -> tuple[Layout, Staying]:
    """What stays of objects on node n1, at noon."""
    layout = Layout(decode([node("n1"), *objects], now=epoch(NOON)))
    return layout, staying(layout, Rules(**rules))


def stay_of(name: str, *objects: Object, **rules: Any) -> Stay | None:
    layout, staying_ones = found(*objects, **rules)
    return staying_ones.stays.get(id(pod_of(layout, name)))


def reason_of(name: str, *objects: Object, **rules: Any) -> Reason | None:
    stay = stay_of(name, *objects, **rules)
    return stay.reason if stay else None


def of_two(**more: Any) -> list[Object]:
    """Pod a, which differs, and pod b, both of one ReplicaSet."""
    return [serving("a", **more), serving("b")]


def asks(key: str, value: str, **more: Any) -> list[Object]:
    return of_two(annotations={key: value}, **more)


def test_a_ready_pod_with_a_ready_sibling_may_be_evicted() -> None:
    assert found(*of_two())[1].stays == {}


@pytest.mark.parametrize(
    ("objects", "reason", "detail"),
    [
        (of_two(metadata={"deletionTimestamp": NOON}), Reason.TERMINATING, "it is being deleted"),
        ([serving("a", owner="Node/n1")], Reason.MIRROR, "the kubelet runs it from a file"),
        (asks("kubernetes.io/config.mirror", "x"), Reason.MIRROR, "the kubelet runs it from a file"),
        (asks("kubernetes.io/config.source", "file"), Reason.MIRROR, "the kubelet runs it from a file"),
        ([serving("a", owner="DaemonSet/dcgm")], Reason.DAEMON_SET, "DaemonSet default/dcgm would put it back on its node"),
        ([serving("a", owner=None)], Reason.BARE, "it has no controller that would bring it back"),
        (
            [serving("a", owner="Workflow/w")],
            Reason.OWNER_UNKNOWN,
            "whether Workflow default/w would bring it back is not known",
        ),
        (of_two(priority=2_000_000_000), Reason.SYSTEM_CRITICAL, "its priority is 2000000000"),
        (of_two(priorityClassName="system-node-critical"), Reason.SYSTEM_CRITICAL, "its priority is system-node-critical"),
        (
            of_two(resourceClaims=[{"name": "nic"}]),
            Reason.RESOURCE_CLAIM,
            "resource claim nic binds it to devices of its node",
        ),
        (of_two(volumes=uses("data")), Reason.VOLUME, "PersistentVolumeClaim default/data was not read"),
        (
            [*of_two(volumes=uses("data")), claim("data")],
            Reason.VOLUME,
            "where PersistentVolumeClaim default/data can be reached is not known: it has no volume",
        ),
        (
            [*of_two(volumes=uses("data")), claim("data", "pv")],
            Reason.VOLUME,
            "where PersistentVolumeClaim default/data can be reached is not known: its volume pv was not read",
        ),
        (
            [serving("a", volumes=uses("data")), serving("b", volumes=uses("data")), claim("data", "pv"), volume("pv")],
            Reason.VOLUME,
            "PersistentVolumeClaim default/data is for one node, and other pods use it too",
        ),
        (
            [serving("a")],
            Reason.SINGLETON,
            "ReplicaSet default/llm was not read, and its pods seen are 1",
        ),
        ([*of_two(), workload("ReplicaSet", "llm", 1)], Reason.SINGLETON, "ReplicaSet default/llm wants 1"),
        (
            [*of_two(), pod("c", 1, owner="ReplicaSet/llm")],
            Reason.SIBLINGS_PENDING,
            "default/c of ReplicaSet default/llm is pending",
        ),
        (of_two(ready=False), Reason.NOT_READY, "it is not ready"),
        ([serving("a"), serving("b", ready=False)], Reason.LAST_READY, "no other pod of ReplicaSet default/llm is ready"),
        (
            [serving("a"), serving("b", metadata={"deletionTimestamp": NOON}), workload("ReplicaSet", "llm", 2)],
            Reason.LAST_READY,
            "no other pod of ReplicaSet default/llm is ready",
        ),
        (
            [*of_two(), serving("c", ready=False)],
            Reason.SIBLINGS_NOT_READY,
            "default/c of ReplicaSet default/llm is not ready, and no PodDisruptionBudget says how many may be",
        ),
    ],
)
def test_a_pod_stays_and_is_told_why(objects: list[Object], reason: Reason, detail: str) -> None:
    assert stay_of("a", *objects) == Stay(reason, detail)


@pytest.mark.parametrize(
    "more",
    [
        [serving("c", ready=False, labels=LLM), budget("llm", LLM, allowed=1, healthy=2, needed=1)],
        [serving("c", ready=False, metadata={"deletionTimestamp": NOON}), workload("ReplicaSet", "llm", 2)],
    ],
    ids=["a budget lets one go", "it goes away itself"],
)
def test_a_pod_that_is_not_ready_holds_no_other_where(more: list[Object]) -> None:
    assert reason_of("a", *of_two(labels=LLM), *more) is None


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController", "Job", "CloneSet"])
def test_controllers_that_bring_a_pod_back_let_it_go(kind: str) -> None:
    assert reason_of("a", serving("a", owner=f"{kind}/x"), serving("b", owner=f"{kind}/x")) is None


def test_known_answer_8_a_pod_of_two_budgets_that_each_allow_one_stays() -> None:
    two = [budget("one", LLM, allowed=1, healthy=2, needed=1), budget("two", LLM, allowed=1, healthy=2, needed=1)]
    stay = stay_of("a", serving("a", labels=LLM), serving("b", labels=LLM), *two)
    detail = "PDB default/one and PDB default/two select it, and the Eviction API refuses a pod of several"
    assert stay == Stay(Reason.BUDGETS, detail)


def test_known_answer_15_five_pods_stay_for_five_reasons() -> None:
    layout, staying_ones = found(
        *(serving(name, labels=LLM) for name in ("two-1", "two-2")),
        workload("ReplicaSet", "llm", 2, owner="Deployment/llm"),
        workload("Deployment", "llm", 2),
        budget("llm", LLM, minAvailable=2),
        serving("one", owner="ReplicaSet/single"),
        workload("ReplicaSet", "single", 1, owner="Deployment/single"),
        workload("Deployment", "single", 1),
        serving("bare", owner=None),
        serving("daemon", owner="DaemonSet/dcgm"),
        serving("static", owner="Node/n1", annotations={EVICT: "true", "kubernetes.io/config.mirror": "x"}),
    )
    reasons = {pod.name: staying_ones.stays[id(pod)].reason for pod in layout.pods["n1"]}
    assert reasons == {
        "two-1": Reason.BUDGET,
        "two-2": Reason.BUDGET,
        "one": Reason.SINGLETON,
        "bare": Reason.BARE,
        "daemon": Reason.DAEMON_SET,
        "static": Reason.MIRROR,
    }


@pytest.mark.parametrize(
    ("key", "value", "stays"),
    [
        ("gpuops.io/protect", "true", True),
        ("gpuops.io/protect", "false", False),
        ("gpuops.io/protect", "4h", True),
        ("gpuops.io/protect", "3h", False),
        ("gpuops.io/protect", "2h59m59.9s", False),
        ("gpuops.io/protect", "perhaps", True),
        ("gpuops.io/protect", "", True),
        ("gpuops.io/protect", "-1h", True),
        ("gpuops.io/protect", "1d", True),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true", True),
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "false", True),
        (EVICT, "false", True),
        (EVICT, "true", False),
        (EVICT, "no", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", False),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "yes", True),
        (DO_NOT_DISRUPT, "true", True),
        (DO_NOT_DISRUPT, "false", False),
        (DO_NOT_DISRUPT, "2h", False),
        (DO_NOT_DISRUPT, "2h30m", True),
        (DO_NOT_DISRUPT, "for ever", True),
        ("team.example/protect", "true", False),
    ],
)
def test_an_annotation_protects_and_so_does_a_value_nobody_knows(key: str, value: str, stays: bool) -> None:
    objects = asks(key, value, created="2026-11-30T09:00:00Z", status={"startTime": "2026-11-30T10:00:00Z"})
    stay = stay_of("a", *objects)
    assert stay == (Stay(Reason.PROTECTED, f'annotation {key}: "{value}" protects it') if stays else None)


@pytest.mark.parametrize("key", ["gpuops.io/protect", DO_NOT_DISRUPT])
def test_a_duration_does_not_pass_where_no_time_is_known(key: str) -> None:
    assert reason_of("a", *asks(key, "1s")) is Reason.PROTECTED
    without_clock = laid_out([node("n1"), *asks(key, "1s", created=None)])
    assert staying(without_clock, Rules()).stays[id(pod_of(without_clock, "a"))].reason is Reason.PROTECTED


def test_karpenters_duration_counts_from_creation_where_the_start_is_not_told() -> None:
    assert reason_of("a", *asks(DO_NOT_DISRUPT, "3h", created="2026-11-30T09:00:00Z")) is None


def test_a_wish_to_be_evicted_overrides_no_protection() -> None:
    annotations = {EVICT: "true", "gpuops.io/protect": "true"}
    assert reason_of("a", *of_two(annotations=annotations)) is Reason.PROTECTED


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        ({"emptyDir": {}}, "emptyDir v"),
        ({"emptyDir": {"medium": ""}}, "emptyDir v"),
        ({"emptyDir": {"medium": "Memory"}}, None),
        ({"emptyDir": {"medium": "HugePages-2Mi"}}, None),
        ({"hostPath": {"path": "/data"}}, "hostPath v"),
        ({"ephemeral": {}}, "ephemeral volume v"),
        ({"configMap": {"name": "c"}}, None),
    ],
)
def test_what_is_on_the_nodes_disk_holds_a_pod_there_unless_the_user_gives_it_up(storage: Object, told: str | None) -> None:
    objects = [*of_two(volumes=[{"name": "v", **storage}]), claim("a-v", "pv"), volume("pv")]
    assert stay_of("a", *objects) == (Stay(Reason.LOCAL_STORAGE, f"what is in {told} would be lost") if told else None)
    assert stay_of("a", *objects, movable_local_storage=True) is None


@pytest.mark.parametrize("modes", [["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteMany"]])
def test_a_claim_whose_volume_was_read_is_for_placement_to_judge(modes: list[str]) -> None:
    assert reason_of("a", *of_two(volumes=uses("data")), claim("data", "pv", modes=modes), volume("pv")) is None


def test_pods_may_share_a_claim_for_many_nodes() -> None:
    sharing = [serving(name, volumes=uses("data")) for name in "ab"]
    assert reason_of("a", *sharing, claim("data", "pv", modes=["ReadWriteOnce", "ReadWriteMany"]), volume("pv")) is None


@pytest.mark.parametrize(
    ("objects", "stays"),
    [
        ([*of_two(), workload("ReplicaSet", "llm", 2)], False),
        ([*of_two(), workload("ReplicaSet", "llm", 0)], True),
        # During a rollout the ReplicaSet is small and the Deployment is not.
        ([*of_two(), workload("ReplicaSet", "llm", 1, owner="Deployment/d"), workload("Deployment", "d", 3)], False),
        ([*of_two(), workload("ReplicaSet", "llm", 2, owner="Deployment/d"), workload("Deployment", "d", 1)], True),
        ([*of_two(), workload("ReplicaSet", "llm", 1, owner="Deployment/d")], True),
        ([*of_two(), workload("ReplicaSet", "llm", 2, owner="Deployment/d"), workload("Deployment", "d", 1, uid="other")], False),
        # Another one of that name.
        ([*of_two(), workload("ReplicaSet", "llm", 1, uid="other")], False),
        ([*of_two(), workload("ReplicaSet", "llm")], False),
        ([serving(n, owner="Job/j") for n in "ab"] + [workload("Job", "j", 1)], True),
        ([serving(n, owner="Job/j") for n in "ab"] + [workload("Job", "j", 4)], False),
    ],
)
def test_replicas_are_those_the_workload_wants(objects: list[Object], stays: bool) -> None:
    assert reason_of("a", *objects) is (Reason.SINGLETON if stays else None)
    assert reason_of("a", *objects, movable_singletons=True) is None


def test_a_rollout_counts_the_pods_of_all_its_replica_sets() -> None:
    sets = [workload("ReplicaSet", name, 1, owner="Deployment/d") for name in ("old", "new")]
    objects = [serving("a", owner="ReplicaSet/old"), pod("b", 1, owner="ReplicaSet/new"), *sets, workload("Deployment", "d", 2)]
    assert reason_of("a", *objects) is Reason.SIBLINGS_PENDING


def test_owners_that_own_one_another_end_somewhere() -> None:
    objects = [workload("ReplicaSet", "llm", 2, owner="ReplicaSet/up"), workload("ReplicaSet", "up", 2, owner="ReplicaSet/llm")]
    assert reason_of("a", *of_two(), *objects) is None


@pytest.mark.parametrize(("priority", "stays"), [(999, False), (1000, True), (1001, True), (None, False)])
def test_pods_of_the_threshold_and_above_stay(priority: int | None, stays: bool) -> None:
    objects = of_two(**({} if priority is None else {"priority": priority}))
    assert reason_of("a", *objects, priority_threshold=1000) is (Reason.PRIORITY if stays else None)
    assert reason_of("a", *objects) is None


@pytest.mark.parametrize(
    ("times", "detail"),
    [
        ({"status": OLD}, None),
        ({"status": {"startTime": "2026-11-30T11:50:00Z"}}, None),
        ({"status": {"startTime": "2026-11-30T11:50:01Z"}}, "it is 599 s old, less than 600"),
        ({"created": "2026-11-30T11:59:00Z"}, "it is 60 s old, less than 600"),
        ({"created": "2026-11-30T09:00:00Z", "status": {"startTime": "2026-11-30T11:59:00Z"}}, "it is 60 s old, less than 600"),
        ({}, "its age is not known"),
    ],
)
def test_young_pods_stay(times: Object, detail: str | None) -> None:
    stay = stay_of("a", *of_two(**times), min_pod_age=600)
    assert stay == (Stay(Reason.YOUNG, detail) if detail else None)


def test_a_mark_of_the_users_keeps_a_pod() -> None:
    layout = Layout(
        decode([node("n1"), *of_two()], mark=lambda raw: "metadata.name == 'a'" if raw["metadata"]["name"] == "a" else None)
    )
    stays = staying(layout, Rules()).stays
    assert stays == {id(pod_of(layout, "a")): Stay(Reason.PROTECT_EXPRESSION, "protect: metadata.name == 'a'")}


@pytest.mark.parametrize(
    ("members", "gang"),
    [
        ([serving(n, owner="PyTorchJob/bert") for n in "ab"], "PyTorchJob default/bert"),
        ([serving(n, owner="RayCluster/ray") for n in "ab"], "RayCluster default/ray"),
        (
            [serving(n, owner=f"Job/{n}") for n in "ab"] + [workload("Job", n, 1, owner="JobSet/js") for n in "ab"],
            "JobSet default/js",
        ),
        ([serving(n, owner=f"Job/{n}", labels={"jobset.sigs.k8s.io/jobset-name": "js"}) for n in "ab"], "JobSet default/js"),
        ([serving(n, labels={"training.kubeflow.org/job-name": "bert"}) for n in "ab"], "training job default/bert"),
        ([serving(n, labels={"scheduling.x-k8s.io/pod-group": "g"}) for n in "ab"], "PodGroup default/g"),
        ([serving(n, annotations={"scheduling.k8s.io/group-name": "g"}) for n in "ab"], "PodGroup default/g"),
        ([serving(n, annotations={"pod-group.scheduling.sigs.k8s.io": "g"}) for n in "ab"], "PodGroup default/g"),
        ([serving(n, annotations={"pod-group.scheduling.sigs.k8s.io/name": "g"}) for n in "ab"], "PodGroup default/g"),
        ([serving(n, schedulingGroup={"podGroupName": "g"}) for n in "ab"], "PodGroup default/g"),
        (
            [
                serving(
                    n,
                    owner=f"StatefulSet/{n}",
                    labels={"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "0"},
                )
                for n in "ab"
            ],
            "LeaderWorkerSet default/lws group 0",
        ),
        (
            [serving(n, owner="StatefulSet/s", labels={"leaderworkerset.sigs.k8s.io/name": "lws"}) for n in "ab"],
            "LeaderWorkerSet default/lws",
        ),
        (
            [
                serving(n, owner="Job/torch", annotations={"batch.kubernetes.io/job-completion-index": str(i)})
                for i, n in enumerate("ab")
            ],
            "indexed Job default/torch",
        ),
    ],
)
def test_members_of_a_gang_stay_unless_gangs_are_movable_and_then_go_together(members: list[Object], gang: str) -> None:
    assert stay_of("a", *members) == Stay(Reason.GANG, f"it belongs to {gang}")
    layout, staying_ones = found(*members, movable_gangs=True)
    assert staying_ones.stays == {}
    assert staying_ones.gangs == {gang: (pod_of(layout, "a"), pod_of(layout, "b"))}


def job(**spec: Any) -> Object:
    failed = spec.pop("failed", 0)
    return {**workload("Job", "etl", 2), "spec": {"parallelism": 2, **spec}, "status": {"failed": failed}}


IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
COUNTED = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({}, None),
        ({"failed": 4}, None),
        ({"failed": 5}, 1),
        ({"backoffLimit": 0}, 0),
        ({"backoffLimit": 1}, 1),
        ({"backoffLimit": 1, "failed": 3}, 0),
        ({"backoffLimit": 0, "podFailurePolicy": IGNORED}, None),
        ({"backoffLimit": 0, "podFailurePolicy": COUNTED}, 0),
        ({"backoffLimitPerIndex": 0}, 0),
        ({"backoffLimitPerIndex": 1}, None),
        ({"backoffLimitPerIndex": 1, "failed": 1}, 0),
    ],
)
def test_pods_of_a_job_that_might_fail_for_losing_them_stay(spec: dict[str, Any], left: int | None) -> None:
    pods = [serving(n, owner="Job/etl") for n in "ab"]
    told = None if left is None else f"Job default/etl may lose {left} more pods before it fails, and has 2"
    assert stay_of("a", *pods, job(**spec)) == (told and Stay(Reason.RETRIES, told))


BERT = "PyTorchJob default/bert moves whole or not at all, and"


@pytest.mark.parametrize(
    ("others", "detail"),
    [
        ([serving("b", owner="PyTorchJob/bert", ready=False)], f"{BERT} default/b stays: it is not ready"),
        ([pod("b", 1, owner="PyTorchJob/bert")], f"{BERT} default/b is pending"),
        (
            [serving("b", owner="PyTorchJob/bert", labels=LLM), budget("bert", LLM, allowed=1)],
            f"{BERT} PDB default/bert does not allow all of its pods at once",
        ),
    ],
)
def test_a_gang_with_a_member_that_must_stay_stays_whole(others: list[Object], detail: str) -> None:
    a = serving("a", owner="PyTorchJob/bert", labels=LLM)
    assert stay_of("a", a, *others, movable_gangs=True) == Stay(Reason.GANG, detail)
    assert found(a, *others, movable_gangs=True)[1].gangs == {}


def test_a_gang_with_a_member_on_a_node_that_went_stays_whole() -> None:
    members = [serving("a", owner="PyTorchJob/bert"), serving("b", on="gone", owner="PyTorchJob/bert")]
    layout = Layout(decode([node("n1"), *members], live=True))
    (stay,) = staying(layout, Rules(movable_gangs=True)).stays.values()
    assert stay == Stay(Reason.GANG, f"{BERT} default/b is on no node that was read")


def test_the_first_reason_in_the_order_of_the_reasons_is_told() -> None:
    everything = serving(
        "a",
        owner="ReplicaSet/llm",
        ready=False,
        annotations={"gpuops.io/protect": "true"},
        volumes=[{"name": "v", "emptyDir": {}}],
        priority=5,
    )
    assert reason_of("a", everything, priority_threshold=5) is Reason.PRIORITY
    assert reason_of("a", everything) is Reason.PROTECTED


@pytest.mark.parametrize("change", [reduce, lambda objects: hash_names(objects, "a long random text")])
def test_a_snapshot_keeps_what_the_reasons_read(change: Any) -> None:
    objects = [
        node("n1"),
        serving("expression", owner="Workflow/w"),
        *asks(DO_NOT_DISRUPT, "2h30m", status={"startTime": "2026-11-30T10:00:00Z"}),
        serving("host", volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
        serving("disk", volumes=[{"name": "v", "emptyDir": {}}]),
        serving("memory", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]),
        serving("critical", priorityClassName="system-cluster-critical"),
        serving("group", schedulingGroup={"podGroupName": "g"}),
        serving("label", labels={"scheduling.x-k8s.io/pod-group": "g"}),
        serving("volcano", annotations={"scheduling.k8s.io/group-name": "g"}),
        serving("dra", resourceClaims=[{"name": "nic"}]),
        serving("evict", annotations={EVICT: "false"}),
        serving("budgeted", labels=LLM),
        budget("llm", LLM, allowed=0, healthy=1, needed=1),
        workload("ReplicaSet", "llm", 9),
    ]

    def reasons(documents: list[Object]) -> list[str]:
        layout = Layout(decode(documents, now=epoch(NOON)))
        return sorted(stay.reason for stay in staying(layout, Rules()).stays.values())

    kept = reasons(objects)
    assert len(kept) == 11
    assert reasons(change(objects)) == kept


def test_what_was_not_read_is_noted() -> None:
    assert found(*of_two())[1].notes == (
        "no PodDisruptionBudget was read: taken that there are none",
        "no workload was read: replicas are the pods seen of one controller",
    )
    read = [workload("ReplicaSet", "llm", 2), budget("b", LLM, allowed=1)]
    assert found(*of_two(), *read)[1].notes == ()


@pytest.mark.parametrize(
    ("selector", "known", "noted"),
    [
        ({"matchLabels": {"team": "a"}}, [], True),
        ({"matchLabels": {"team": "a"}}, [namespace("default")], False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "x"}}, [], False),
        ({}, [], False),
    ],
    ids=["labels of namespaces that were not read", "read", "names", "all of them"],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_that_labels_of_namespaces_were_not_read_is_noted_where_pods_go_by_them(
    kind: str, selector: Object, known: list[Object], noted: bool
) -> None:
    term = {"topologyKey": NODE_NAME, "labelSelector": {}, "namespaceSelector": selector}
    notes = found(*of_two(affinity={kind: {REQUIRED: [term]}}), *known)[1].notes
    assert any(note.startswith("labels of namespaces were not read: pod anti-affinity") for note in notes) == noted


def test_a_budget_that_cannot_be_counted_keeps_its_pods() -> None:
    training = [serving(name, labels=LLM, owner="Job/train") for name in "ab"]
    stay = stay_of("a", *training, budget("llm", LLM, maxUnavailable=1))
    detail = "PDB default/llm cannot be counted: Job default/train tells no number of replicas"
    assert stay == Stay(Reason.BUDGET_UNKNOWN, detail)


def test_a_budget_that_allows_nothing_tells_its_numbers() -> None:
    stay = stay_of("a", serving("a", labels=LLM), serving("b", labels=LLM), budget("llm", LLM, allowed=0, healthy=2, needed=2))
    assert stay == Stay(Reason.BUDGET, "PDB default/llm allows 0 disruptions (2 healthy, 2 needed)")


def test_where_budgets_are_required_and_were_not_read_pods_stay() -> None:
    stay = stay_of("a", *of_two(), budgets_required=True)
    assert stay == Stay(Reason.BUDGET_UNKNOWN, "PodDisruptionBudgets were not read")
    assert stay_of("a", *of_two(), {"kind": "PodDisruptionBudgetList", "items": []}, budgets_required=True) is None


def test_a_wave_takes_no_more_than_the_budget_allows_and_the_next_one_begins_anew() -> None:
    layout, staying_ones = found(
        *(serving(name, labels=LLM) for name in "abcd"), budget("llm", LLM, allowed=2, healthy=4, needed=2)
    )
    for _wave in range(2):
        allows = staying_ones.begin()
        assert [allows(pod) for pod in layout.pods["n1"]] == [True, True, False, False]


@pytest.mark.parametrize(("rules", "taken"), [({}, [True, True, False]), ({"movable_singletons": True}, [True, True, True])])
def test_a_wave_leaves_one_ready_pod_of_a_workload(rules: Object, taken: list[bool]) -> None:
    layout, staying_ones = found(*(serving(name) for name in "abc"), **rules)
    allows = staying_ones.begin()
    assert [allows(pod) for pod in layout.pods["n1"]] == taken


def test_pods_that_are_refused_by_their_budget_do_not_count_for_their_workload() -> None:
    objects = [
        serving("a", labels=LLM),
        serving("b", labels=LLM),
        serving("c"),
        budget("llm", LLM, allowed=1, healthy=2, needed=1),
    ]
    layout, staying_ones = found(*objects)
    allows = staying_ones.begin()
    assert [allows(pod) for pod in layout.pods["n1"]] == [True, False, True]


def test_every_pod_that_may_go_may_be_the_first_of_a_wave() -> None:
    objects = [
        *(serving(n, labels=LLM) for n in "ab"),
        serving("c", ready=False),
        budget("llm", LLM, allowed=1, healthy=2, needed=1),
    ]
    layout, staying_ones = found(*objects, movable_not_ready=True)
    free: list[Pod] = [pod for pod in layout.pods["n1"] if id(pod) not in staying_ones.stays]
    assert [pod.name for pod in free] == ["a", "b", "c"]
    assert all(staying_ones.begin()(pod) for pod in free)


def test_what_was_moved_a_moment_ago_stays_until_its_time() -> None:
    objects = [node("n1"), workload("ReplicaSet", "llm", 2), serving("a", metadata={"uid": "u-a"}), serving("b")]

    def told(now: float, cooling: str) -> dict[str, str]:
        layout = Layout(decode(objects, now=now))
        stays = staying(layout, Rules(cooling={cooling: 20.0})).stays
        return {pod.name: str(stays[id(pod)].reason) for pod in layout.pods["n1"] if id(pod) in stays}

    assert told(10.0, "u-a") == {"a": "CoolingDown"}
    assert told(20.0, "u-a") == {}
    assert told(10.0, "ReplicaSet default/llm") == {"a": "CoolingDown", "b": "CoolingDown"}


def test_one_replica_may_go_where_another_comes_first_and_no_budget_is_asked() -> None:
    labels = {"pod-template-hash": "1", "app": "solo"}
    objects = [
        node("n1"),
        workload("Deployment", "solo", 1),
        workload("ReplicaSet", "solo-1", 1, owner="Deployment/solo"),
        serving("a", owner="ReplicaSet/solo-1", labels=labels),
        budget("b", {"app": "solo"}, allowed=0, healthy=1, needed=1),
    ]
    layout = Layout(decode(objects))
    (pod,) = layout.pods["n1"]
    assert staying(layout, Rules()).stays[id(pod)].reason == "SingleReplica"
    surging = staying(layout, Rules(surging=frozenset({"default/solo"})))
    assert surging.stays == {}
    assert surging.begin()(pod)
