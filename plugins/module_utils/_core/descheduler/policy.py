# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Settings in, a DeschedulerPolicy out, with nothing in it that its version of the descheduler does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .settings import REMOVE_DUPLICATES, PolicySettings, Pool
from .versions import (
    API_VERSION,
    BALANCE,
    EVICTOR,
    EVICTOR_POINTS,
    KIND,
    LOCAL_STORAGE,
    ONLY_THRESHOLDING,
    PLUGINS,
    V34,
    WITH_CLAIMS,
    WITH_PVC,
)

VICTIM = {"gpuops.io/evict": "true"}
"""The label that a plan gives the pods of a wave."""

PLANNED_PROFILE = "gpuops-planned"
NATIVE_PROFILE = "gpuops-native"
RULES_PROFILE = "gpuops-rules"

Object = dict[str, Any]


def render(settings: PolicySettings) -> Object:
    """The policy, as plain data: same settings, same policy, keys in the same order.

    In planned mode PodLifeTime evicts what carries the label VICTIM and nothing else. Its selector is the plugin's own:
    that of the evictor is passed by pods with an ``evict`` annotation. It stands in the evictor as well, so that no plugin
    that somebody adds to the profile reaches further.
    """
    policy: Object = {"apiVersion": API_VERSION, "kind": KIND}
    if settings.pool:
        policy["nodeSelector"] = settings.pool.node_selector
    policy |= {
        "maxNoOfPodsToEvictPerNode": settings.per_node,
        "maxNoOfPodsToEvictPerNamespace": settings.per_namespace,
        "maxNoOfPodsToEvictTotal": settings.total,
        "profiles": list(_profiles(settings)),
    }
    return policy


def _profiles(settings: PolicySettings) -> Iterator[Object]:
    # Native mode, which is for one pool.
    if settings.pool:
        packing = _packing(settings, settings.pool)
        yield profile(f"{NATIVE_PROFILE}-{settings.pool.name}", _evictor(settings), {"HighNodeUtilization": packing})
    else:
        chosen = {"maxPodLifeTimeSeconds": 1, "states": ["Running"], "labelSelector": _victims()}
        yield profile(
            PLANNED_PROFILE, _evictor(settings, planned=True), {"PodLifeTime": chosen | _excluded(settings, "namespaces")}
        )
    if settings.plugins:
        args = {name: _rule(settings, name) for name in settings.plugins}
        yield profile(RULES_PROFILE, _evictor(settings), args)


def profile(name: str, evictor: Object, args: dict[str, Object]) -> Object:
    """A profile of the plugins, each where its kind belongs."""
    enabled: dict[str, list[str]] = {}
    for plugin in args:
        enabled.setdefault(PLUGINS[plugin].points[0], []).append(plugin)
    return {
        "name": name,
        "pluginConfig": [{"name": plugin, "args": each} for plugin, each in ({EVICTOR: evictor} | args).items()],
        "plugins": {point: {"enabled": [EVICTOR]} for point in EVICTOR_POINTS}
        | {point: {"enabled": plugins} for point, plugins in sorted(enabled.items(), key=lambda item: item[0] == BALANCE)},
    }


def _victims() -> Object:
    return {"matchLabels": dict(VICTIM)}


def _excluded(settings: PolicySettings, key: str) -> Object:
    return {key: {"exclude": list(settings.namespaces_excluded)}} if settings.namespaces_excluded else {}


def _evictor(settings: PolicySettings, *, planned: bool = False) -> Object:
    """What may be evicted at all. A plan has looked at volumes already, and nodeFit has not."""
    local = settings.protect_local_storage if settings.protect_local_storage is not None else not planned
    claimed = settings.protect_pvc if settings.protect_pvc is not None else not planned
    args: Object = {"nodeFit": True}
    if settings.min_replicas > 1:
        args["minReplicas"] = settings.min_replicas
    if settings.pool:
        args["nodeSelector"] = settings.pool.node_selector
    if planned:
        args["labelSelector"] = _victims()
    if settings.priority_threshold is not None:
        key = "name" if isinstance(settings.priority_threshold, str) else "value"
        args["priorityThreshold"] = {key: settings.priority_threshold}
    if settings.min_pod_age:
        args["minPodAge"] = settings.min_pod_age
    if settings.version >= V34:
        args["noEvictionPolicy"] = "Mandatory"
        args["podProtections"] = ({} if local else {"defaultDisabled": [LOCAL_STORAGE]}) | {
            "extraEnabled": [WITH_CLAIMS, *([WITH_PVC] if claimed else [])]
        }
    else:
        args |= {} if local else {"evictLocalStoragePods": True}
        args |= {"ignorePvcPods": True} if claimed else {}
    return args


def _packing(settings: PolicySettings, pool: Pool) -> Object:
    return {
        "thresholds": {settings.resource_name: threshold(pool.gpus_per_node, pool.max_free)},
        "evictionModes": [ONLY_THRESHOLDING],
    } | _excluded(settings, "evictableNamespaces")


def threshold(gpus: int, max_free: int) -> float:
    """The percentage up to which a node of so many GPUs is to be emptied: one with more than ``max_free`` free.

    The descheduler takes nodes at or below it. Half a GPU above the last count that is meant, neither that nor how
    percentages are rounded matters.
    """
    used = gpus - max_free - 1
    return round((used + 0.5) / gpus * 100, 4)


def _rule(settings: PolicySettings, plugin: str) -> Object:
    args = _excluded(settings, "namespaces")
    if plugin == "RemovePodsViolatingTopologySpreadConstraint":
        return {"constraints": ["DoNotSchedule"], "topologyBalanceNodeFit": True} | args
    if plugin == REMOVE_DUPLICATES:
        # Jobs and DaemonSets are not spread by whoever made them.
        return {"excludeOwnerKinds": ["DaemonSet", "Job"]} | args
    return args
