# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The whole planning, from API objects to plain data: what every door opens on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..audit.audit import collector_at_rest
from ..kube.decode import decode
from .options import PlanOptions
from .planner import make_plan
from .result import as_result


def plan(
    documents: Iterable[Any],
    options: PlanOptions,
    *,
    source: str | None = None,
    now: float | None = None,
    live: bool = False,
    mark: Callable[[Mapping[str, Any]], str | None] | None = None,
    details: bool = False,
) -> dict[str, Any]:
    """Plan for the cluster that documents describe.

    Args:
        documents: What ``kubectl get nodes,pods,… -A -o json`` prints: lists of any nesting or single objects.
        options: What is wished, and within what.
        source: Where the documents came from, for messages.
        now: Seconds since 1970 that ages are counted to; by default the newest time found in the documents.
        live: The documents come from a cluster that went on meanwhile.
        mark: Says of a pod, as the API has it, why the user protects it; None if not.
        details: With what every node holds before and after.

    Returns:
        The ``plan`` result; docs/plan.md says what each key means.

    Raises:
        InputError: An object is malformed; it names source, object and field.
    """
    with collector_at_rest():
        cluster = decode(documents, source=source, now=now, live=live, mark=mark)
        return as_result(make_plan(cluster, options), details=details)
