# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who keeps an object is told by what tools leave on it, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.gitops.keepers import Keeper, keeper


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({}, Keeper()),
        ({"labels": None, "annotations": None}, Keeper()),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "apps:/ConfigMap:kube-system/descheduler"}}, Keeper("Argo CD")),
        ({"labels": {"argocd.argoproj.io/instance": "apps"}}, Keeper("Argo CD")),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, Keeper("Flux")),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "descheduler"}}, Keeper("Flux")),
        ({"labels": {"app.kubernetes.io/instance": "apps", "app.kubernetes.io/managed-by": "Helm"}}, Keeper()),
        (
            {"annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}, "namespace": "other"},
            Keeper(release="n/r"),
        ),
        ({"annotations": {"meta.helm.sh/release-name": "r"}, "namespace": "n"}, Keeper(release="n/r")),
        ({"annotations": {"meta.helm.sh/release-name": "r"}}, Keeper(release="default/r")),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "a"}, "annotations": {"gpuops.io/tuned-in-place": "true"}},
            Keeper("Flux", in_place=True),
        ),
        ({"annotations": {"gpuops.io/tuned-in-place": "false"}}, Keeper()),
    ],
)
def test_a_keeper_is_told_by_its_marks(metadata: dict[str, Any], found: Keeper) -> None:
    assert keeper(metadata) == found
