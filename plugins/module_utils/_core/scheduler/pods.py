# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a kube-scheduler's pod says about its configuration."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Raw = Mapping[str, Any]

PORT = "10259"
PROGRAM = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Started:
    """How a scheduler was started.

    Attributes:
        path: The configuration file that its arguments name; None where they name none, so that it has its defaults.
        config_map: The name and key of the ConfigMap in the pod's namespace that the file is from.
        host_path: The file on the host that it is.
        port: Where it serves /configz.
        known: Whether the pod says at all. A snapshot leaves arguments out, and an image may have its own.
    """

    path: str | None = None
    config_map: tuple[str, str] | None = None
    host_path: str | None = None
    port: str = PORT
    known: bool = True


def started(pod: Raw) -> Started:
    """How the scheduler in this pod was started."""
    spec = pod.get("spec") or {}
    for container in spec.get("containers") or ():
        words = [str(word) for key in ("command", "args") for word in container.get(key) or ()]
        # A shell's script is one word with many in it.
        words = [part for word in words for part in word.split()]
        image = posixpath.basename(str(container.get("image"))).partition(":")[0]
        if not any(posixpath.basename(word) == PROGRAM for word in words) and not (words and PROGRAM in image):
            continue
        port = _flag(words, "secure-port") or PORT
        path = _flag(words, "config")
        if path is None:
            return Started(port=port)
        return _mounted(spec, container, path, port)
    return Started(known=False)


def _flag(words: list[str], name: str) -> str | None:
    """A flag's last value, as -name or --name, with = or as the next word."""
    found = None
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in (f"-{name}", f"--{name}"):
            found = value if equals else words[place + 1] if place + 1 < len(words) else found
    return found


def _mounted(spec: Raw, container: Raw, path: str, port: str) -> Started:
    inside = [m for m in container.get("volumeMounts") or () if _below(path, str(m.get("mountPath") or "")) is not None]
    if not inside:
        return Started(path, port=port)
    mount = max(inside, key=lambda each: len(str(each["mountPath"])))
    below = _below(path, str(mount["mountPath"])) or ""
    relative = posixpath.join(str(mount.get("subPath") or ""), below).strip("/")
    for volume in spec.get("volumes") or ():
        if volume.get("name") != mount.get("name"):
            continue
        for source in _config_maps(volume):
            for item in source.get("items") or [{"key": relative, "path": relative}]:
                if item.get("path") == relative:
                    return Started(path, config_map=(str(source.get("name")), str(item.get("key"))), port=port)
        if "hostPath" in volume:
            return Started(path, host_path=posixpath.join(str(volume["hostPath"].get("path")), relative).rstrip("/"), port=port)
    return Started(path, port=port)


def _below(path: str, folder: str) -> str | None:
    """The rest of a path below a folder; None where it is not there."""
    folder = folder.rstrip("/")
    return path[len(folder) :].lstrip("/") if folder and (path == folder or path.startswith(f"{folder}/")) else None


def _config_maps(volume: Raw) -> Iterator[Raw]:
    if "configMap" in volume:
        yield volume["configMap"]
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "configMap" in source:
            yield source["configMap"]
