# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Which pods only work together, so that one of them is never moved alone."""

from __future__ import annotations

from ..kube.model import Pod
from .workloads import Behind

_TRAINING = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob")
KINDS = frozenset((*_TRAINING, "JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "PodGroup"))
"""Controllers whose pods are one gang."""

# What else says so: label or annotation, and the kind of what it names.
_MARKS = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("training.kubeflow.org/job-name", "training job"),
    ("ray.io/cluster", "RayCluster"),
    ("scheduling.x-k8s.io/pod-group", "PodGroup"),
    ("pod-group.scheduling.sigs.k8s.io/name", "PodGroup"),
    ("pod-group.scheduling.sigs.k8s.io", "PodGroup"),
    ("scheduling.k8s.io/group-name", "PodGroup"),
    ("scheduling.volcano.sh/group-name", "PodGroup"),
    ("kueue.x-k8s.io/pod-group-name", "pod group"),
)
_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_JOB_INDEX = "batch.kubernetes.io/job-completion-index"


def gang_of(pod: Pod, behind: Behind | None) -> str | None:
    """The gang of a pod, by kind, namespace and name; None for a pod that stands alone.

    Args:
        pod: The pod.
        behind: Its workload, if it has one.
    """
    leader_worker_set = pod.labels.get(_LEADER_WORKER_SET)
    if leader_worker_set:
        # Each of its groups of one leader and its workers is a replica, and stands and falls by itself.
        group = pod.labels.get(_GROUP_INDEX)
        told = f"LeaderWorkerSet {pod.namespace}/{leader_worker_set}"
        return f"{told} group {group}" if group else told
    for owner in behind.owners if behind else ():
        if owner.kind in KINDS:
            return f"{owner.kind} {pod.namespace}/{owner.name}"
    for key, kind in _MARKS:
        name = pod.labels.get(key) or pod.annotations.get(key)
        if name:
            return f"{kind} {pod.namespace}/{name}"
    if pod.group:
        return f"PodGroup {pod.namespace}/{pod.group}"
    if behind and behind.owner.kind == "Job" and behind.wanted > 1 and _JOB_INDEX in pod.annotations:
        # Pods that know their rank, as torchrun's do. That they work alone cannot be seen from outside.
        return f"indexed {behind}"
    return None
