# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a user wishes of the descheduler's policy. Wishes that cannot come true are refused with the reason."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..errors import InputError
from ..kube.selectors import parse_selector
from ..plan.protection import duration
from ..profiles import CONSERVATIVE, PROFILES
from .versions import NEWEST, V33, Version, is_known, parse_version, told

PLANNED, NATIVE = "planned", "native"
MODES = (PLANNED, NATIVE)
REMOVE_DUPLICATES = "RemoveDuplicates"
OPT_IN = (
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingTopologySpreadConstraint",
    REMOVE_DUPLICATES,
)
"""Plugins that are off unless asked for."""

HIGHEST_PRIORITY = 2_000_000_000
"""The descheduler takes no higher threshold: from there on pods are system critical."""

LONGEST = (2**63 - 1) / 1e9
"""Seconds of the longest duration that Go has."""
_MOST = 2**31 - 1
"""No number of pods or GPUs is larger; the descheduler cannot read much larger ones."""

_POOL = ("name", "node_selector", "gpus_per_node", "max_free")
_LIMITS = ("per_node", "per_namespace", "per_workload", "total", "interval_seconds")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
# What Kubernetes takes as a label's key and value, and as the name of a resource.
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that native packing is for.

    Attributes:
        name: Of the pool, for names in the policy.
        node_selector: Which nodes, as text for ``kubectl -l``.
        gpus_per_node: GPUs that each of them has.
        max_free: A node with so many free GPUs is full enough; one with more is emptied.
    """

    name: str
    node_selector: str
    gpus_per_node: int
    max_free: int


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What :func:`.policy.render` makes a policy from; docs/policy.md says what each is for.

    Attributes:
        pool: The pool that native mode packs; None in planned mode.
        per_node: Evictions from one node in one cycle.
        per_namespace: The same in one namespace.
        total: The same in all.
        version: Of the descheduler.
        priority_threshold: Pods of this priority and above stay: a number, or the name of a PriorityClass.
        min_pod_age: As Go writes durations; None for any age.
        protect_local_storage: None for what suits: not where a plan has looked at each pod's volumes already, else yes.
        protect_pvc: Likewise.
        plugins: Those of OPT_IN that are on.
    """

    mode: str = PLANNED
    resource_name: str = "nvidia.com/gpu"
    pool: Pool | None = None
    per_node: int = PROFILES[CONSERVATIVE].per_node
    per_namespace: int = PROFILES[CONSERVATIVE].per_namespace
    total: int = PROFILES[CONSERVATIVE].total
    version: Version = parse_version(NEWEST)  # noqa: RUF009 - cannot be changed
    priority_threshold: int | str | None = None
    min_pod_age: str | None = None
    min_replicas: int = 2
    protect_local_storage: bool | None = None
    protect_pvc: bool | None = None
    namespaces_excluded: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


SETTINGS = (
    "mode",
    "profile",
    "limits",
    "resource_name",
    "pools",
    "pool",
    "descheduler_version",
    "priority_threshold",
    "min_pod_age",
    "min_replicas",
    "protect_local_storage",
    "protect_pvc",
    "namespaces_excluded",
    "plugins",
    "allow_remove_duplicates",
)
"""The keys of settings."""


def policy_settings(given: Mapping[str, Any]) -> PolicySettings:
    """Settings as a user writes them, checked. A key that is absent or null has its default.

    Raises:
        InputError: A setting is unknown, of the wrong type, or cannot work; it names the setting.
    """
    _refuse_unknown(given, SETTINGS, "", "setting")
    mode = _choice(given, "mode", MODES, PLANNED)
    version = parse_version(_text(given, "descheduler_version", NEWEST))
    if not is_known(version):
        raise InputError(
            f"{told(version)} is not known here, and what it reads may differ; take {NEWEST} if you have seen that it runs "
            "policies of that version",
            field="descheduler_version",
        )
    per_node, per_namespace, total = _bounds(given, mode)
    resource = _text(given, "resource_name", "nvidia.com/gpu")
    if not _LABEL_KEY.fullmatch(resource):
        raise InputError(f"{reprlib.repr(resource)} is no resource's name; write it as nvidia.com/gpu", field="resource_name")
    return PolicySettings(
        mode=mode,
        resource_name=resource,
        pool=_pool(given, version) if mode == NATIVE else None,
        per_node=per_node,
        per_namespace=per_namespace,
        total=total,
        version=version,
        priority_threshold=_priority(given),
        min_pod_age=_age(given),
        min_replicas=_whole(given, "min_replicas", 1) or 2,
        protect_local_storage=_flag(given, "protect_local_storage"),
        protect_pvc=_flag(given, "protect_pvc"),
        namespaces_excluded=tuple(sorted(set(_names(given, "namespaces_excluded")))),
        plugins=_plugins(given),
    )


def nearest(name: str, known: tuple[str, ...]) -> str:
    """`` (did you mean X?)`` where one of the known names is like this one; else nothing."""
    by_letters = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), list(by_letters), n=1, cutoff=0.6)
    return f" (did you mean {by_letters[found[0]]}?)" if found else ""


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], field: str, what: str) -> None:
    for key in given:
        if key not in known:
            told_key = str(key)
            raise InputError(
                f"is no {what}{nearest(told_key, known)}; there are {', '.join(known)}",
                field=f"{field}.{told_key}" if field else told_key,
            )


def _typed(value: Any, kind: type | tuple[type, ...], wanted: str, field: str) -> None:
    # Python takes True for 1; nobody means that by it.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{reprlib.repr(value)} is not {wanted}", field=field)


def _text(given: Mapping[str, Any], key: str, default: str, field: str = "") -> str:
    value = given.get(key)
    if value is None:
        return default
    _typed(value, str, "text", field or key)
    return str(value)


def _choice(given: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
    value = _text(given, key, default)
    if value not in choices:
        raise InputError(f"{reprlib.repr(value)} is none of {', '.join(choices)}{nearest(value, choices)}", field=key)
    return value


def _flag(given: Mapping[str, Any], key: str) -> bool | None:
    value = given.get(key)
    if value is not None:
        _typed(value, bool, "true or false", key)
    return value


def _whole(given: Mapping[str, Any], key: str, least: int, field: str = "", why: str = "") -> int | None:
    value = given.get(key)
    if value is None:
        return None
    _typed(value, int, "a whole number", field or key)
    if value < least:
        raise InputError(f"is {value}; it must be at least {least}{why}", field=field or key)
    if value > _MOST:
        raise InputError(f"is too large; it must be at most {_MOST}", field=field or key)
    return int(value)


def _names(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    if value is None:
        return ()
    _typed(value, (list, tuple), "a list", key)
    for index, name in enumerate(value):
        _typed(name, str, "text", f"{key}[{index}]")
        if not name:
            raise InputError("is empty", field=f"{key}[{index}]")
    return tuple(value)


def _bounds(given: Mapping[str, Any], mode: str) -> tuple[int, int, int]:
    """What the profile allows, and limits over it."""
    bounds = PROFILES[_choice(given, "profile", tuple(PROFILES), CONSERVATIVE)]
    limits = given.get("limits")
    limits = {} if limits is None else limits
    _typed(limits, Mapping, "a mapping", "limits")
    _refuse_unknown(limits, _LIMITS, "limits", "limit")
    # A total of 0 is a pause; with 0 of any other nothing would ever be evicted, and nobody would say why.
    found = {
        name: _whole(limits, name, 0 if name == "total" else 1, f"limits.{name}", "; with less nothing would ever be evicted")
        for name in _LIMITS
    }
    if mode == NATIVE and found["per_workload"] is not None:
        raise InputError(
            "the descheduler has no limit per workload; leave it out and give the workloads PodDisruptionBudgets, or take "
            "mode planned, where the plan keeps it",
            field="limits.per_workload",
        )
    return (
        found["per_node"] or bounds.per_node,
        found["per_namespace"] or bounds.per_namespace,
        bounds.total if found["total"] is None else found["total"],
    )


def _pool(given: Mapping[str, Any], version: Version) -> Pool:
    """The one pool that native mode is for."""
    if version < V33:
        raise InputError(
            f"mode native needs evictionModes, which descheduler {told(V33)} has and {told(version)} has not: pods without "
            "GPUs would be evicted too; take a newer descheduler, or mode planned",
            field="descheduler_version",
        )
    raw = given.get("pools")
    raw = [] if raw is None else raw
    _typed(raw, (list, tuple), "a list of pools", "pools")
    pools = [_read_pool(each, f"pools[{index}]") for index, each in enumerate(raw)]
    names = [pool.name for pool in pools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{name} is a pool's name twice", field=f"pools[{index}].name")
    if not pools:
        raise InputError(
            "mode native needs a pool: its name, node_selector, gpus_per_node and max_free; without a node selector nodes "
            "without GPUs would count as empty and lose their pods first",
            field="pools",
        )
    wanted = given.get("pool")
    if wanted is not None:
        _typed(wanted, str, "text", "pool")
        if wanted not in names:
            raise InputError(f"{reprlib.repr(wanted)} is none of the pools: {', '.join(names)}", field="pool")
        return pools[names.index(wanted)]
    if len(pools) > 1:
        raise InputError(
            f"there are {len(pools)}, and one policy packs one pool: the descheduler selects nodes for a whole policy; "
            f"name one with pool, and have a release of the descheduler with its own policy for each ({', '.join(names)})",
            field="pools",
        )
    return pools[0]


def _read_pool(raw: Any, field: str) -> Pool:
    _typed(raw, Mapping, "a pool with name, node_selector, gpus_per_node and max_free", field)
    _refuse_unknown(raw, _POOL, field, "key of a pool")
    name = _text(raw, "name", "", f"{field}.name")
    if not _NAME.fullmatch(name):
        told_name = f"{reprlib.repr(name)} is no name: small letters, digits, - and ." if name else "is missing"
        raise InputError(told_name, field=f"{field}.name")
    sizes: dict[str, int] = {}
    for key in ("gpus_per_node", "max_free"):
        found = _whole(raw, key, 0, f"{field}.{key}")
        if found is None:
            raise InputError("is missing", field=f"{field}.{key}")
        sizes[key] = found
    gpus, free = sizes["gpus_per_node"], sizes["max_free"]
    if gpus < 3:
        raise InputError(
            f"is {gpus}; on nodes of fewer than 3 GPUs HighNodeUtilization can pack nothing: a node that is neither empty "
            "nor full would have to be both emptied and filled; take mode planned",
            field=f"{field}.gpus_per_node",
        )
    if not 1 <= free <= gpus - 2:
        why = (
            "only full nodes would be full enough, and nothing goes onto a full node"
            if free < 1
            else f"only nodes with more than {free} of {gpus} GPUs free would be emptied, and these hold no GPU pod"
        )
        raise InputError(f"is {free}; it must be from 1 to {gpus - 2}: {why}", field=f"{field}.max_free")
    return Pool(name, selector_text(raw.get("node_selector"), f"{field}.node_selector"), gpus, free)


def selector_text(raw: Any, field: str) -> str:
    """A node selector as the text that the descheduler reads.

    Args:
        raw: Text as for ``kubectl -l``, or a mapping of labels that must all be there.
        field: Its name, for messages.

    Raises:
        InputError: It is neither, or the descheduler could not read it.
    """
    if isinstance(raw, Mapping):
        # Labels are text in the API: YAML's true and 8 stand for "true" and "8".
        labels = {str(key): str(v).lower() if isinstance(v, bool) else str(v) for key, v in raw.items()}
        text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    elif isinstance(raw, str | None):
        text = (raw or "").strip()
    else:
        raise InputError("is neither text as for kubectl -l nor a mapping of labels", field=field)
    if not text:
        raise InputError(
            "is missing: nodes without GPUs would count as empty and lose their pods first; give labels that only the "
            "pool's nodes have",
            field=field,
        )
    check_selector(text, field)
    return text


def check_selector(text: str, field: str) -> None:
    """Refuse a selector that Kubernetes could not read.

    Raises:
        InputError: It says what is wrong in it.
    """
    try:
        selector = parse_selector(text)
    except InputError as error:
        raise InputError(error.message, field=field) from None
    for each in selector.requirements:
        if not _LABEL_KEY.fullmatch(each.key):
            raise InputError(f"{reprlib.repr(each.key)} is no label's key", field=field)
        for value in each.values:
            if not _LABEL_VALUE.fullmatch(value):
                raise InputError(f"{reprlib.repr(value)} is no label's value", field=field)


def _priority(given: Mapping[str, Any]) -> int | str | None:
    value = given.get("priority_threshold")
    if value is None or (isinstance(value, str) and value):
        return value
    _typed(value, int, "a priority: a whole number or the name of a PriorityClass", "priority_threshold")
    if value > HIGHEST_PRIORITY:
        raise InputError(
            f"is {value}; the descheduler takes no more than {HIGHEST_PRIORITY}, from where on pods are system critical",
            field="priority_threshold",
        )
    if value < -(2**31):
        raise InputError(f"is {value}; no priority is so low", field="priority_threshold")
    return int(value)


def _age(given: Mapping[str, Any]) -> str | None:
    value = given.get("min_pod_age")
    if value is None:
        return None
    _typed(value, (str, int), "a duration; write it as 90s, 15m or 1h30m", "min_pod_age")
    text = f"{value}s" if str(value).isdecimal() else str(value)
    seconds = duration(text)
    if seconds is None:
        raise InputError(f"{reprlib.repr(value)} is not a duration; write it as 90s, 15m or 1h30m", field="min_pod_age")
    if seconds > LONGEST:
        raise InputError(f"{reprlib.repr(value)} is longer than the descheduler can read", field="min_pod_age")
    return text if seconds else None


def _plugins(given: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = _names(given, "plugins")
    for index, name in enumerate(wanted):
        if name not in OPT_IN:
            raise InputError(
                f"{reprlib.repr(name)} is none of {', '.join(OPT_IN)}{nearest(name, OPT_IN)}", field=f"plugins[{index}]"
            )
    if REMOVE_DUPLICATES in wanted and not _flag(given, "allow_remove_duplicates"):
        raise InputError(
            f"{REMOVE_DUPLICATES} evicts replicas because they share a node, which packing puts there: the two undo each "
            "other for ever, a cold start each time; leave it out, or say allow_remove_duplicates: true as well",
            field=f"plugins[{wanted.index(REMOVE_DUPLICATES)}]",
        )
    # In the order of OPT_IN, so that the same wishes give the same policy.
    return tuple(name for name in OPT_IN if name in wanted)
