# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The whole lint, from a policy to plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..severity import Severity
from .findings import Finding, is_ok
from .lint import Document, lint
from .lint_cluster import Seen, lint_cluster
from .versions import Version

_ORDER = list(Severity)


def check(document: Document, version: Version, *, resource: str = "nvidia.com/gpu", seen: Seen | None = None) -> list[Finding]:
    """What is found in a policy, the worst first and otherwise in its order.

    Args:
        document: The policy as it was written.
        version: Of the descheduler that is to read it.
        resource: The GPU resource.
        seen: The cluster that it is for; None to look at the policy alone.
    """
    found = list(lint(document, version, resource, cluster=seen is not None))
    if seen and isinstance(document.content, Mapping):
        found += lint_cluster(document.content, version, resource, seen)
    if document.prefix:
        found = [replace(each, path=_within(document.prefix, each.path)) for each in found]
    return sorted(dict.fromkeys(found), key=lambda finding: _ORDER.index(finding.severity))


def as_result(findings: list[Finding]) -> dict[str, Any]:
    """The findings as plain data, and whether none is an error."""
    return {"findings": [finding.as_dict() for finding in findings], "ok": is_ok(findings)}


def _within(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if path and not path.startswith("[") else f"{prefix}{path}"
