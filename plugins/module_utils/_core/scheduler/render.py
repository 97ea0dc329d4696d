# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A KubeSchedulerConfiguration whose packing profile fills nodes with GPU pods."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .configuration import BALANCED, FIT, KIND, SPREAD, TAINTS, VERSIONS, check_kind, members
from .packing import packs
from .settings import DEFAULT_SCHEDULER, SchedulerSettings

TAINTS_OVER_FIT = 3
"""How much more soft taints count than packing: as much as kube-scheduler has it, so that they still steer."""


def render(settings: SchedulerSettings) -> dict[str, Any]:
    """The configuration, as a file for kube-scheduler's ``--config`` has it.

    Raises:
        InputError: The base is no KubeSchedulerConfiguration, or has profiles where there may be but one; or what comes
            of it all does not pack.
    """
    base = copy.deepcopy(dict(settings.base)) or {"apiVersion": VERSIONS[0], "kind": KIND}
    try:
        made = dict(check_kind({"apiVersion": VERSIONS[0], "kind": KIND} | base))
        if made["apiVersion"] != VERSIONS[0]:
            raise InputError(f"is {made['apiVersion']}; what is written is {VERSIONS[0]}: convert it", field="apiVersion")
        profiles = [dict(each) for each in members(made, "profiles", "")]
        given = [_name(each, len(profiles)) for each in profiles]
        profiles = [each | {"schedulerName": name} for each, name in zip(profiles, given, strict=True)]
    except InputError as error:
        raise InputError(error.message, field=f"base.{error.field}") from None
    if settings.profile == "alone" and (others := [name for name in given if name != settings.name]):
        raise InputError(
            f"has the profile {others[0]}, and profile is alone: two schedulers would place the same pods; leave it out",
            field="base.profiles",
        )
    if settings.profile == "second" and DEFAULT_SCHEDULER not in given:
        # Once profiles are given, there is no default one unless it is among them.
        profiles.insert(0, {"schedulerName": DEFAULT_SCHEDULER})
        given.insert(0, DEFAULT_SCHEDULER)
    if settings.name not in given:
        profiles.append({"schedulerName": settings.name} | _queue(profiles))
        given.append(settings.name)
    place = given.index(settings.name)
    profiles[place] = _packing(profiles[place], settings)
    made["profiles"] = profiles
    if settings.kubeconfig:
        # --kubeconfig is not looked at once there is --config.
        made["clientConnection"] = {"kubeconfig": settings.kubeconfig} | (made.get("clientConnection") or {})
    if settings.profile == "alone":
        # With the lease of the other scheduler only one of the two would ever work.
        made["leaderElection"] = {"leaderElect": True, "resourceName": settings.name} | (made.get("leaderElection") or {})
    _check(made, settings)
    first = ("apiVersion", "kind")
    return {key: made[key] for key in (*first, *sorted(made.keys() - set(first)))}


def _check(made: Mapping[str, Any], settings: SchedulerSettings) -> None:
    """Nothing is written that would not pack; what of the base's may keep it from that is only known at the end."""
    (profile,) = (each for each in packs(made, settings.resource_name, settings.gpus_per_node) if each.name == settings.name)
    if profile.packs:
        return
    told = "; ".join(note.message for note in profile.reasons)
    raise InputError(f"is {settings.fit_weight}, and the profile would not pack: {told}; give more", field="fit_weight")


def _name(profile: Mapping[str, Any], count: int) -> str:
    """A profile without a name is the default one, if it is the only one."""
    name = profile.get("schedulerName") or (DEFAULT_SCHEDULER if count == 1 else None)
    if name is None:
        raise InputError("has a profile without schedulerName", field="profiles")
    return str(name)


def _queue(profiles: list[dict[str, Any]]) -> dict[str, Any]:
    """All profiles share one queue, so they must agree on how it is sorted."""
    sort = ((profiles[0].get("plugins") or {}) if profiles else {}).get("queueSort")
    return {"plugins": {"queueSort": copy.deepcopy(sort)}} if sort else {}


def _packing(profile: dict[str, Any], settings: SchedulerSettings) -> dict[str, Any]:
    plugins = {point: dict(given or {}) for point, given in (profile.get("plugins") or {}).items()}
    weights = {FIT: settings.fit_weight, TAINTS: TAINTS_OVER_FIT * settings.fit_weight}
    if settings.balanced_allocation_weight:
        weights[BALANCED] = settings.balanced_allocation_weight
        _drop(plugins.get("multiPoint", {}), "disabled", {BALANCED})
    else:
        for point in plugins.values():
            _drop(point, "enabled", {BALANCED})
        everywhere = plugins.setdefault("multiPoint", {})
        _drop(everywhere, "disabled", {BALANCED})
        everywhere["disabled"] = [*everywhere.get("disabled", []), {"name": BALANCED}]
    _enable(plugins, weights)
    profile["plugins"] = {point: given for point, given in sorted(plugins.items()) if given}
    strategy = {"type": "MostAllocated", "resources": [{"name": name, "weight": n} for name, n in settings.resources]}
    _configure(profile, FIT, {"scoringStrategy": strategy})
    if not settings.default_spreading and _told(profile, SPREAD).get("defaultingType") != "List":
        # A list of the operator's own stays.
        _configure(profile, SPREAD, {"defaultingType": "List", "defaultConstraints": []})
    if settings.percentage_of_nodes_to_score:
        profile["percentageOfNodesToScore"] = settings.percentage_of_nodes_to_score
    return profile


def _enable(plugins: dict[str, Any], weights: Mapping[str, int]) -> None:
    score = plugins.setdefault("score", {})
    for key in ("enabled", "disabled"):
        _drop(score, key, weights)
    score["enabled"] = [*score.get("enabled", []), *({"name": name, "weight": weight} for name, weight in weights.items())]


def _drop(point: dict[str, Any], key: str, names: Any) -> None:
    """Take plugins off a list, and the list with its last one."""
    kept = [each for each in point.get(key) or [] if each.get("name") not in names]
    point.pop(key, None)
    if kept:
        point[key] = kept


def _told(profile: Mapping[str, Any], plugin: str) -> dict[str, Any]:
    found = [each.get("args") or {} for each in profile.get("pluginConfig") or [] if each.get("name") == plugin]
    return dict(found[0]) if found else {}


def _configure(profile: dict[str, Any], plugin: str, more: Mapping[str, Any]) -> None:
    told = {"apiVersion": VERSIONS[0], "kind": f"{plugin}Args"} | _told(profile, plugin) | dict(more)
    made = {"name": plugin, "args": told}
    given = profile.get("pluginConfig") or []
    kept = [made if each.get("name") == plugin else each for each in given]
    profile["pluginConfig"] = kept if made in kept else [*kept, made]
