# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies for tests, and what is found in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.check import check
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint import Document
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.lint_cluster import Seen
from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.versions import PLUGINS, parse_version
from ansible_collections.gpuops.defrag.plugins.module_utils._descheduler import policy_document

Object = dict[str, Any]
Told = tuple[str, str, str]

VERSIONS = ("0.33.0", "0.34.0", "0.35.0", "0.35.1", "0.36.0")
"""Every version that native mode is rendered for."""

HEADER: Object = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
LIMITS: Object = {"maxNoOfPodsToEvictPerNode": 1, "maxNoOfPodsToEvictPerNamespace": 5}
# Nothing is found in these, since 0.34 and before.
EVICTOR: Object = {
    "nodeFit": True,
    "minReplicas": 2,
    "noEvictionPolicy": "Mandatory",
    "podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]},
}
OLD_EVICTOR: Object = {"nodeFit": True, "minReplicas": 2, "evictLocalStoragePods": True}
VICTIMS: Object = {
    "maxPodLifeTimeSeconds": 1,
    "states": ["Running"],
    "labelSelector": {"matchLabels": {"gpuops.io/evict": "true"}},
}
PACKING: Object = {"thresholds": {"nvidia.com/gpu": 68.75}, "evictionModes": ["OnlyThresholdingResources"]}


def profile(*, evictor: Mapping[str, Any] | None = None, name: str = "p", **plugins: Any) -> Object:
    """A profile that enables plugins with such args."""
    configs = [{"name": "DefaultEvictor", "args": dict(EVICTOR if evictor is None else evictor)}]
    configs += [{"name": plugin} if args is None else {"name": plugin, "args": args} for plugin, args in plugins.items()]
    enabled: Object = {}
    for plugin in plugins:
        enabled.setdefault(PLUGINS[plugin].points[0], {"enabled": []})["enabled"].append(plugin)
    return {"name": name, "pluginConfig": configs, "plugins": enabled}


def policy(*profiles: Any, **fields: Any) -> Object:
    """A policy with limits, and with other fields over them."""
    return {**HEADER, **LIMITS, **fields, "profiles": list(profiles)}


def victims(**args: Any) -> Object:
    """The policy of planned mode, with other args of its plugin."""
    return policy(profile(PodLifeTime={**VICTIMS, **args}))


def protecting(**args: Any) -> Object:
    """The policy of planned mode, with other args of its evictor."""
    return policy(profile(evictor={**EVICTOR, **args}, PodLifeTime=VICTIMS))


def found(given: Any, version: str = "0.36.0", seen: Seen | None = None, **more: Any) -> list[Told]:
    """What is found in a policy, a mapping or text: id, severity and path of each."""
    document = given if isinstance(given, Document) else policy_document(given, **more)
    return [(each.id, str(each.severity), each.path) for each in check(document, parse_version(version), seen=seen)]


def errors(given: Any, version: str = "0.36.0") -> list[Told]:
    """The errors alone."""
    return [each for each in found(given, version) if each[1] == "error"]


ARTICLE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: descheduler-policy-configmap
  namespace: kube-system
data:
  policy.yaml: |
    apiVersion: descheduler/v1alpha2
    kind: DeschedulerPolicy
    maxNoOfPodsToEvictPerNode: 1
    maxNoOfPodsToEvictPerNamespace: 5
    strategies:
      LowNodeUtilization:
        enabled: true
        params:
          nodeResourceUtilizationThresholds:
            thresholds:
              nvidia.com/gpu: 1
            targetThresholds:
              nvidia.com/gpu: 3
      RemoveDuplicates:
        enabled: false
      RemovePodsViolatingInterPodAntiAffinity:
        enabled: true
      RemovePodsViolatingTopologySpreadConstraint:
        enabled: true
        params:
          maxSkew: 1
          topologyKey: kubernetes.io/hostname
          includeSoftConstraints: false
"""
"""What articles tell people to apply."""
