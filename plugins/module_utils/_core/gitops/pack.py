# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Manifests as the files of a repository: a folder for each part, ready for kustomize, with the ways to deliver them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

Object = Mapping[str, Any]
Dump = Callable[[Object], str]
"""How data is written as YAML; the core itself writes none."""

HEADER = "# Made by gpuops.defrag; what is written here by hand is gone with its next run.\n"
"""The first line of every file, by which those of an earlier run are known."""

KUSTOMIZATION = "kustomization.yaml"
TUNER = "gpuops.defrag.tune"
"""Manager of the fields that the role gpu_policy writes to what a GitOps tool keeps. Elsewhere it is another one: what was
deployed before Argo CD came is not to be ignored."""

NAME = "gpuops-defrag"
POLICY, DESCHEDULER, MONITORING = "gpu_policy", "descheduler", "monitoring"
"""The part that is tuned, the one that a Helm chart makes, and the one that needs a Prometheus operator: this is delivered by
itself, so that a cluster without one has all the rest."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Where the files are kept.

    Attributes:
        url: Of the Git repository.
        revision: Its branch.
        path: Folder of the pack in it.
    """

    url: str
    revision: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm chart, the release of it, and what this release is given.

    Attributes:
        repository: Its address; one that begins with ``oci://`` is a registry's.
        values: What the release is given; a null in it takes a default of the chart away.
        rights: Objects that the chart lacks.
    """

    name: str
    repository: str
    version: str
    release: str
    namespace: str
    values: Object
    rights: Sequence[Object] = ()


def chart_address(ref: str, repository: str) -> tuple[str, str]:
    """Name and repository of a chart as ``helm install`` is told of it: ``("descheduler", "oci://registry/charts")``.

    A path leads nowhere but on one machine: for it the repository stands, and the name that the chart has there.
    """
    if "://" in ref:
        address, _slash, name = ref.rpartition("/")
        return name, address
    return (ref if "/" not in ref else DESCHEDULER), repository


def pack(parts: Mapping[str, Sequence[Object]], chart: Chart | None, repository: Repository, dump: Dump) -> dict[str, str]:
    """The files of one pack.

    Args:
        parts: Manifests by part. A part without any is left out; the others are applied in this order.
        chart: What makes the part DESCHEDULER, to have its values as a file and to let Flux install it; None without that part.
        repository: Where the files will be.
        dump: How they are written.

    Returns:
        Text by path, sorted by path: a folder for each part, ``kustomization.yaml`` beside them for all but MONITORING,
        and ``argocd/`` and ``flux/``, which deliver them and stand in no other kustomization.

    Raises:
        InputError: Two manifests are the same object.
    """
    made = {part: objects for part, objects in parts.items() if objects}
    files: dict[str, Object] = {KUSTOMIZATION: _kustomization(part for part in made if part != MONITORING)}
    for part, objects in made.items():
        files |= _folder(part, objects)
    if chart:
        files[f"{DESCHEDULER}/values.yaml"] = chart.values
    files |= _folder("argocd", _applications(made, repository))
    files |= _folder("flux", _flux(made, chart, repository, dump))
    return {path: HEADER + dump(content) for path, content in sorted(files.items())}


def _folder(folder: str, objects: Iterable[Object]) -> dict[str, Object]:
    """A file for each object, and the kustomization of them."""
    files: dict[str, Object] = {}
    for each in objects:
        name = _file_name(each)
        if name in files:
            raise InputError("is there twice", object=name.removesuffix(".yaml"), field=folder)
        files[name] = each
    return {f"{folder}/{name}": each for name, each in ({KUSTOMIZATION: _kustomization(sorted(files))} | files).items()}


def _file_name(each: Object) -> str:
    meta = each["metadata"]
    words = (each["kind"].lower(), meta.get("namespace", ""), meta["name"])
    # RBAC allows names with colons, file systems do not.
    return re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(filter(None, words))) + ".yaml"


def _kustomization(resources: Iterable[str]) -> Object:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(resources)}


def _applications(parts: Mapping[str, Sequence[Object]], repository: Repository) -> list[Object]:
    """Argo CD's Applications.

    What deploy applies is one wave: within one, Argo CD applies PodDisruptionBudgets before what evicts, and does not wait for
    their health, which a service that is short of pods would hold up for ever. Fields that tuning has written are ignored, and a
    sync keeps them; as long as nobody has tuned in place there is nothing to ignore.
    """
    tuned = [
        {
            "group": each["apiVersion"].rpartition("/")[0],
            "kind": kind,
            "namespace": each["metadata"]["namespace"],
            "name": each["metadata"]["name"],
            "managedFieldsManagers": [TUNER],
        }
        for part, kind in ((POLICY, "ConfigMap"), (DESCHEDULER, "Deployment"))
        for each in parts.get(part, ())
        if each["kind"] == kind
    ]
    found = [_application(NAME, repository, repository.path, tuned)]
    if MONITORING in parts:
        found.append(_application(f"{NAME}-{MONITORING}", repository, f"{repository.path}/{MONITORING}", []))
    return found


def _application(name: str, repository: Repository, path: str, ignored: Sequence[Object]) -> Object:
    spec: dict[str, Any] = {
        "project": "default",
        "source": {"repoURL": repository.url, "targetRevision": repository.revision, "path": path},
        "destination": {"server": "https://kubernetes.default.svc"},
    }
    options = ["ServerSideApply=true"]
    if ignored:
        spec["ignoreDifferences"] = list(ignored)
        options.append("RespectIgnoreDifferences=true")
    spec["syncPolicy"] = {"automated": {"prune": True, "selfHeal": True}, "syncOptions": options}
    meta = {"name": name, "namespace": "argocd"}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": meta, "spec": spec}


def _flux(parts: Mapping[str, Sequence[Object]], chart: Chart | None, repository: Repository, dump: Dump) -> list[Object]:
    """Flux's objects: a Kustomization for each part, each but MONITORING after the one before, and the chart."""
    place = {"namespace": "flux-system"}
    source = {"kind": "GitRepository", "name": NAME}
    found: list[Object] = [
        {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": NAME, **place},
            "spec": {"interval": "5m", "url": repository.url, "ref": {"branch": repository.revision}},
        }
    ]
    before: list[Object] = []
    for part in parts:
        # Flux installs a chart by itself: kustomize's own way to charts does not work there.
        if chart and part == DESCHEDULER:
            continue
        name = f"{NAME}-{part.replace('_', '-')}"
        spec = {"interval": "10m", "sourceRef": source, "path": f"./{repository.path}/{part}", "prune": True, "wait": True}
        found.append(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": name, **place},
                "spec": spec | ({"dependsOn": before} if before and part != MONITORING else {}),
            }
        )
        before = [{"name": name}]
    return found + (_helm_release(chart, place, dump) if chart else [])


def _helm_release(chart: Chart, place: Mapping[str, str], dump: Dump) -> list[Object]:
    # As a text, for the API server drops a null that stands in a HelmRelease itself.
    values = f"{NAME}-{chart.release}-values"
    return [
        {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "HelmRepository",
            "metadata": {"name": NAME, **place},
            "spec": {"interval": "1h", "url": chart.repository}
            | ({"type": "oci"} if chart.repository.startswith("oci://") else {}),
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": values, **place},
            "data": {"values.yaml": dump(chart.values)},
        },
        {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": chart.release, **place},
            "spec": {
                "interval": "10m",
                "releaseName": chart.release,
                "targetNamespace": chart.namespace,
                "storageNamespace": chart.namespace,
                "chart": {
                    "spec": {
                        "chart": chart.name,
                        "version": chart.version,
                        "sourceRef": {"kind": "HelmRepository", "name": NAME},
                    }
                },
                "valuesFrom": [{"kind": "ConfigMap", "name": values}],
            },
        },
        *chart.rights,
    ]
