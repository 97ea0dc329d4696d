# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What is wished of a scheduler that packs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..settings import read_settings

DEFAULT_SCHEDULER = "default-scheduler"
"""The profile of pods that name no scheduler."""

PROFILES = ("second", "default", "alone")
KUBEADM_KUBECONFIG = "/etc/kubernetes/scheduler.conf"

_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_BUILT_IN = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What the scheduler is to do.

    Attributes:
        profile: ``second`` adds a profile beside the default one; ``default`` makes the default one pack; ``alone`` is
            the one profile of a scheduler of its own, beside one whose configuration is out of reach.
        profile_name: The ``schedulerName`` that pods give to be packed; not for ``default``.
        resource_name: The resource that is packed.
        resource_weights: Further resources that count, and how much beside the first, which counts 1 unless it is named.
        gpus_per_node: GPUs of the largest nodes: the more there are, the less one of them counts.
        fit_weight: How much packing counts beside the other scores.
        balanced_allocation_weight: How much an even use of CPU and memory counts; 0 for not at all.
        default_spreading: Keep apart the replicas of workloads that do not ask for it, as the scheduler does by default.
        percentage_of_nodes_to_score: Of the nodes that take a pod, how many are compared; 0 leaves it to the scheduler.
        client_kubeconfig: Where the scheduler finds its kubeconfig; "" for the service account of its pod, None for
            kubeadm's place, and for ``alone`` the service account.
        base: A KubeSchedulerConfiguration to start from.
    """

    profile: str = "second"
    profile_name: str | None = None
    resource_name: str = "nvidia.com/gpu"
    resource_weights: Mapping[str, int] = field(default_factory=dict)
    gpus_per_node: int = 8
    fit_weight: int = 10
    balanced_allocation_weight: int = 0
    default_spreading: bool = False
    percentage_of_nodes_to_score: int = 100
    client_kubeconfig: str | None = None
    base: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no scheduler could do.

        Raises:
            InputError: It names the setting.
        """
        if self.profile not in PROFILES:
            raise InputError(f"is {self.profile!r}; there are {', '.join(PROFILES)}", field="profile")
        self._check_names()
        for name, least in (
            ("gpus_per_node", 1),
            ("fit_weight", 1),
            ("balanced_allocation_weight", 0),
            ("percentage_of_nodes_to_score", 0),
        ):
            _check_number(getattr(self, name), least, name)
        if not isinstance(self.default_spreading, bool):
            raise InputError(f"is {self.default_spreading!r}; it is true or false", field="default_spreading")
        if self.client_kubeconfig is not None and not isinstance(self.client_kubeconfig, str):
            raise InputError("is no path", field="client_kubeconfig")
        for name in ("resource_weights", "base"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError("is no mapping", field=name)
        for resource, weight in self.resource_weights.items():
            _check_resource(resource, "resource_weights")
            _check_number(weight, 1, f"resource_weights[{resource}]")

    def _check_names(self) -> None:
        name = self.profile_name
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name) and len(name) <= 63):
            raise InputError(f"is {name!r}; it is what pods give as schedulerName, such as gpu-packing", field="profile_name")
        if self.profile == "default" and name not in (None, DEFAULT_SCHEDULER):
            raise InputError(
                f"is {name}, and profile is default: the default profile keeps its name; for one named {name} beside it "
                "say profile: second",
                field="profile_name",
            )
        if self.profile != "default" and name == DEFAULT_SCHEDULER:
            raise InputError(
                f"is {name}, and profile is {self.profile}: there would be two of that name; to make the default profile pack "
                "say profile: default",
                field="profile_name",
            )
        if not isinstance(self.resource_name, str) or self.resource_name in _BUILT_IN:
            raise InputError(f"is {self.resource_name!r}; it is a GPU resource such as nvidia.com/gpu", field="resource_name")
        _check_resource(self.resource_name, "resource_name")

    @property
    def name(self) -> str:
        """The profile that packs."""
        return DEFAULT_SCHEDULER if self.profile == "default" else self.profile_name or "gpu-packing"

    @property
    def resources(self) -> list[tuple[str, int]]:
        """What is packed, with weights; the GPU resource first."""
        weights = {self.resource_name: 1} | dict(self.resource_weights)
        return list(weights.items())

    @property
    def kubeconfig(self) -> str:
        """Where the scheduler finds its kubeconfig; "" for its service account."""
        if self.client_kubeconfig is not None:
            return self.client_kubeconfig
        return "" if self.profile == "alone" else KUBEADM_KUBECONFIG


def settings_of(given: Any) -> SchedulerSettings:
    """Settings of a mapping by the names of SchedulerSettings; null is as if not given.

    Raises:
        InputError: A setting is unknown, or makes no sense.
    """
    return read_settings(SchedulerSettings, given)


def _check_number(value: Any, least: int, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"is {value!r}; it is a whole number", field=name)
    if not least <= value <= 100:
        raise InputError(f"is {value}; it must be {least} to 100", field=name)


def _check_resource(name: Any, field: str) -> None:
    if not isinstance(name, str) or not (name in _BUILT_IN or _RESOURCE.fullmatch(name)):
        raise InputError(f"{name!r} is no name of a resource, such as nvidia.com/gpu", field=field)
