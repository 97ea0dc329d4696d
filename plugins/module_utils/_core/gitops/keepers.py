# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Who keeps an object elsewhere, and would undo a change of it that is made in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TUNED_IN_PLACE = "gpuops.io/tuned-in-place"
"""Annotation, ``"true"`` where a tool made the object and is told to leave its content to others from then on."""

# Label or annotation, and what to call the tool that sets it.
_MARKS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who keeps an object.

    Attributes:
        tool: The GitOps tool, or "".
        release: ``namespace/name`` of the Helm release that it belongs to, or "".
        in_place: The tool leaves the object's content to others.
    """

    tool: str = ""
    release: str = ""
    in_place: bool = False


def keeper(metadata: Mapping[str, Any]) -> Keeper:
    """Who keeps the object of this metadata, told by the labels and annotations that tools set.

    A label that Argo CD shares with everybody, ``app.kubernetes.io/instance``, tells nothing.
    """
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    release = ""
    if name := marks.get(_RELEASE):
        release = f"{marks.get(_RELEASE_NAMESPACE) or metadata.get('namespace') or 'default'}/{name}"
    tool = next((tool for mark, tool in _MARKS.items() if mark in marks), "")
    return Keeper(tool, release, marks.get(TUNED_IN_PLACE) == "true")
