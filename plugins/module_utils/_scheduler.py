# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that schedulers run with: asked of themselves, or read where they were started from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ._core.errors import InputError
from ._core.kube.decode import objects
from ._core.kube.selectors import parse_selector
from ._core.scheduler.packing import DEFAULTS, Profile, outcome, packs
from ._core.scheduler.pods import Started, started
from ._kubernetes import LIVE_ARGUMENTS, Live, connect, reach
from ._snapshot import read_objects

try:
    import yaml
except ImportError:
    # kubernetes brings it along; without either there is no file to read.
    yaml = None  # type: ignore[assignment]

Params = Mapping[str, Any]

SCHEDULER_ARGUMENTS: dict[str, dict[str, Any]] = {
    "src": {"type": "path"},
    **LIVE_ARGUMENTS,
    "resource_name": {"type": "str", "default": "nvidia.com/gpu"},
    "node_selector": {"type": "raw"},
    "gpus_per_node": {"type": "int", "default": 8},
    "url": {"type": "str"},
    "url_ca_cert": {"type": "path"},
    "url_validate_certs": {"type": "bool", "default": True},
    "configuration_file": {"type": "path"},
    "namespace": {"type": "str", "default": "kube-system"},
    "selector": {"type": "str", "default": "component=kube-scheduler"},
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of one scheduler.

    Attributes:
        name: Its pod, its address or its file.
        way: How its configuration was read: url, file, proxy, config_map or arguments; None where it was not.
        configuration: It; None where it cannot be seen.
        why: Why not.
        how: How it was started, where its pod says.
    """

    name: str
    way: str | None
    configuration: Any
    why: str = ""
    how: Started | None = None


class Cluster(Protocol):
    """What schedulers are looked for in."""

    def pods(self, namespace: str, selector: str) -> tuple[list[Any] | None, str]:
        """Pods; or None and why."""

    def config_map(self, namespace: str, name: str) -> tuple[Any, str]:
        """The data of a ConfigMap; or None and why."""

    def asked(self, namespace: str, pod: str, port: str) -> tuple[Any, str]:
        """What a pod answers at /configz; or None and why."""


class _Api:
    def __init__(self, live: Live) -> None:
        self._live = live

    def pods(self, namespace: str, selector: str) -> tuple[list[Any] | None, str]:
        found, why = self._live.ask(f"/api/v1/namespaces/{namespace}/pods", label_selector=selector)
        return (None if found is None else found.get("items") or []), why

    def config_map(self, namespace: str, name: str) -> tuple[Any, str]:
        found, why = self._live.ask(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return (None if found is None else found.get("data") or {}), why

    def asked(self, namespace: str, pod: str, port: str) -> tuple[Any, str]:
        return self._live.ask(f"/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy/configz", once=True)


class _Dump:
    def __init__(self, path: str) -> None:
        self._path = path
        self._objects = list(objects(iter(read_objects(path))))

    def _of(self, kind: str, namespace: str) -> Iterator[Any]:
        for each in self._objects:
            if each.get("kind") == kind and (each.get("metadata") or {}).get("namespace") == namespace:
                yield each

    def pods(self, namespace: str, selector: str) -> tuple[list[Any] | None, str]:
        wanted = parse_selector(selector)
        return [pod for pod in self._of("Pod", namespace) if wanted.matches(pod["metadata"].get("labels") or {})], ""

    def config_map(self, namespace: str, name: str) -> tuple[Any, str]:
        for each in self._of("ConfigMap", namespace):
            if each["metadata"].get("name") == name:
                return each.get("data") or {}, ""
        return None, f"{self._path} holds no ConfigMap {namespace}/{name}"

    def asked(self, namespace: str, pod: str, port: str) -> tuple[Any, str]:
        return None, ""


def look(params: Params) -> dict[str, Any]:
    """The result of gpu_scheduler_info.

    Raises:
        InputError: An option makes no sense, or the cluster cannot be reached.
    """
    if params["gpus_per_node"] < 1:
        raise InputError(f"is {params['gpus_per_node']}; it must be at least 1", field="gpus_per_node")
    if len(given := [name for name in ("url", "configuration_file", "src") if params[name]]) > 1:
        raise InputError(f"is given, and {given[1]} too; give one of them", field=given[0])
    identity: dict[str, str | None] = {"server": None, "uid": None}
    why = ""
    if params["configuration_file"]:
        readings = [_file(params["configuration_file"])]
    elif params["url"]:
        readings = [_asked(params)]
    elif params["src"]:
        readings, why = _in(_Dump(params["src"]), params)
    else:
        live = connect(params)
        identity = live.identity
        readings, why = _in(_Api(live), params)
    return _result(readings, why, params) | {"cluster": identity}


def _file(path: str) -> Reading:
    try:
        with open(path, encoding="utf-8") as file:
            found, why = _parsed(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(error.strerror if isinstance(error, OSError) else error), source=path) from None
    if why:
        raise InputError(why, source=path)
    return Reading(path, "file", found)


def _asked(params: Params) -> Reading:
    url = str(params["url"]).rstrip("/").removesuffix("/configz")
    if not url.startswith("https://"):
        raise InputError(f"is {params['url']!r}; it is an address such as https://10.0.0.5:10259", field="url")
    found, why = reach(params, url, params["url_ca_cert"], params["url_validate_certs"]).ask("/configz")
    return Reading(url, "url" if found is not None else None, found, why)


def _in(cluster: Cluster, params: Params) -> tuple[list[Reading], str]:
    """A reading of each scheduler's pod; without any, why there is none."""
    namespace, selector = params["namespace"], params["selector"]
    pods, why = cluster.pods(namespace, selector)
    if pods is None:
        return [], why
    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if not alive:
        return [], (
            f"there is no pod with the labels {selector} in {namespace}; the control plane is managed by somebody else, or its "
            "scheduler runs elsewhere"
        )
    return [_read(cluster, namespace, pod) for pod in sorted(alive, key=lambda each: str(each["metadata"].get("name")))], ""


def _read(cluster: Cluster, namespace: str, pod: Any) -> Reading:
    name, how = str(pod["metadata"].get("name")), started(pod)
    # What it says itself is what it does: a file may have changed after it was started.
    found, silent = cluster.asked(namespace, name, how.port)
    if found is not None:
        return Reading(name, "proxy", found, how=how)
    if how.config_map:
        map_name, key = how.config_map
        data, why = cluster.config_map(namespace, map_name)
        if data is not None:
            text = data.get(key)
            found, why = _parsed(text) if isinstance(text, str) else (None, "there is no such key")
            why = why and f"ConfigMap {namespace}/{map_name}: {key}: {why}"
        return Reading(name, None if found is None else "config_map", found, why, how)
    if how.known and how.path is None:
        return Reading(name, "arguments", DEFAULTS, how=how)
    if how.path is None:
        why = f"pod {name} does not say how it was started"
    elif how.host_path:
        why = f"pod {name} reads {how.path}, which is {how.host_path} on its host: give that as configuration_file there"
    else:
        why = f"pod {name} reads {how.path}, which is from no ConfigMap"
    return Reading(name, None, None, why + (silent and f"; and {silent}"), how)


def _parsed(text: str) -> tuple[Any, str]:
    if yaml is None:
        return None, "reading it needs the Python package PyYAML"
    try:
        found = yaml.safe_load(text)
        return found, "" if found else "is empty"
    except yaml.YAMLError as error:
        return None, f"is no YAML: {' '.join(str(error).split())}"


def _result(readings: list[Reading], why: str, params: Params) -> dict[str, Any]:
    resource = params["resource_name"]
    judged: dict[str, list[Profile]] = {}
    unseen = [why] if why else []
    for each in readings:
        if each.configuration is None:
            unseen.append(each.why)
            continue
        try:
            judged[each.name] = packs(each.configuration, resource, params["gpus_per_node"])
        except InputError as error:
            if each.way == "file":
                raise error.within(source=each.name) from None
            # Others' mistakes: the scheduler does not run with that.
            unseen.append(f"{each.name}: {error}")
    found = _together(judged)
    return {
        "visible": bool(found),
        "packs": any(profile.packs for profile in found) if found else None,
        "packing_profiles": [profile.name for profile in found if profile.packs],
        "steering_needed": not (found and all(profile.packs for profile in found)),
        "profiles": [profile.plain() for profile in found],
        "reasons": [f"{profile.name}: {note.message}" for profile in found for note in profile.reasons] + unseen,
        "schedulers": [
            {
                "name": each.name,
                "way": each.way,
                "config_path": each.how and each.how.path,
                "config_map": each.how and each.how.config_map and each.how.config_map[0],
                "host_path": each.how and each.how.host_path,
            }
            for each in readings
        ],
        "message": outcome(found or None, resource, "; ".join(unseen)),
    }


def _together(judged: Mapping[str, list[Profile]]) -> list[Profile]:
    """One verdict for each profile: of schedulers that take turns, the one that does not pack."""
    found: dict[str, Profile] = {}
    for profiles in judged.values():
        for profile in profiles:
            if profile.name not in found or not profile.packs:
                found[profile.name] = profile
    return list(found.values())
