# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The protection of a cluster: what is to be made, changed and removed so that it is as wished, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import InputError
from ..severity import ERROR
from .annotations import annotated
from .budgets import budgets
from .findings import in_order
from .read import read
from .wishes import Wishes


def protection(documents: Iterable[Any], wishes: Wishes, *, source: str | None = None) -> dict[str, Any]:
    """What protection takes, as plain data.

    Args:
        documents: What ``kubectl get pods,pdb,deploy,rs,sts,ds,jobs,ns,hpa -A -o json`` prints.
        wishes: What is wanted.
        source: Where they came from, for messages.

    Returns:
        ``budgets`` (manifests), ``remove`` (namespace and name of budgets of ours that are not wanted), ``annotate``
        (patches), ``findings``, ``ok`` (none of them is an error) and ``notes``, what was not read.

    Raises:
        InputError: The documents are malformed, or tell nothing of pods.
    """
    found = read(documents, source=source)
    kinds = found.cluster.kinds
    if "Pod" not in kinds:
        raise InputError("tells nothing of pods, without which it cannot be told what to protect", source=source)
    notes = {
        "PodDisruptionBudget": "no PodDisruptionBudget was read: taken that there are none",
        "Deployment": "no Deployment was read: selectors are those of ReplicaSets, or labels of pods",
        "Namespace": "no Namespace was read: a service in one that is missing is told as a service that is missing",
    }
    planned = budgets(found, wishes)
    marked = annotated(found, wishes, planned.targets)
    findings = in_order((*planned.findings, *marked.findings))
    return {
        "ok": not any(finding.severity is ERROR for finding in findings),
        "budgets": planned.manifests,
        "remove": planned.remove,
        "annotate": marked.patches,
        "findings": [finding.as_dict() for finding in findings],
        "notes": [note for kind, note in notes.items() if kind not in kinds],
    }
