# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A profile as the descheduler takes it, whatever else may be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .findings import at
from .versions import (
    DEFAULT_PROTECTIONS,
    EVICTOR,
    EVICTOR_POINTS,
    LEGACY_PROTECTIONS,
    PLUGINS,
    V34,
    Version,
)

PACKING, LOW = "HighNodeUtilization", "LowNodeUtilization"


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one: that it should be one is told elsewhere."""
    return {str(key): member for key, member in value.items()} if isinstance(value, Mapping) else {}


def entries(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings of a list, with their numbers."""
    if isinstance(value, (list, tuple)):
        yield from ((index, mapping(each)) for index, each in enumerate(value) if isinstance(each, Mapping))


def texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else []


@dataclass(frozen=True, slots=True)
class Config:
    """The args of a plugin, and where they are."""

    path: str
    args: Mapping[str, Any]

    def at(self, key: str) -> str:
        """The path of one of the args."""
        return at(self.path, key)


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes:
        configs: By plugin, the first of each.
        again: Plugins that are configured again, which is checked and does not count.
        enabled: Plugins by extension point: (point, plugin, path, whether it stood there before).
    """

    path: str
    name: str
    raw: Mapping[str, Any]
    configs: Mapping[str, Config]
    again: tuple[tuple[str, Config], ...]
    enabled: tuple[tuple[str, str, str, bool], ...]

    @property
    def named(self) -> set[str]:
        """Plugins that are enabled anywhere."""
        return {plugin for _point, plugin, _path, _again in self.enabled}

    @property
    def active(self) -> dict[str, Config]:
        """Plugins that evict: enabled where they belong, and configured."""
        return {
            plugin: self.configs[plugin]
            for point, plugin, _path, _again in self.enabled
            if plugin in self.configs and point in PLUGINS[plugin].points and point not in EVICTOR_POINTS
        }

    @property
    def evictor(self) -> Config:
        """The DefaultEvictor, which is there whether it is named or not."""
        return self.configs.get(EVICTOR) or Config(f"{self.path}.pluginConfig", {})

    def protections(self, version: Version) -> set[str]:
        """The protections that count: the defaults and what was changed of them."""
        args = self.evictor.args
        lists = mapping(args.get("podProtections")) if version >= V34 else {}
        disabled, extra = set(texts(lists.get("defaultDisabled"))), set(texts(lists.get("extraEnabled")))
        if not disabled and not extra:
            for name, (key, protection) in LEGACY_PROTECTIONS.items():
                if args.get(name) is True:
                    (disabled if key == "defaultDisabled" else extra).add(protection)
        return (set(DEFAULT_PROTECTIONS) - disabled) | extra


def profiles_of(policy: Mapping[str, Any]) -> list[Profile]:
    """The profiles of a policy."""
    return [_profile(raw, at("profiles", index)) for index, raw in entries(policy.get("profiles"))]


def _profile(raw: Mapping[str, Any], path: str) -> Profile:
    configs: dict[str, Config] = {}
    again: list[tuple[str, Config]] = []
    for index, each in entries(raw.get("pluginConfig")):
        name = each.get("name")
        if isinstance(name, str) and name in PLUGINS:
            config = Config(f"{path}.pluginConfig[{index}].args", mapping(each.get("args")))
            if configs.setdefault(name, config) is not config:
                again.append((name, config))
    enabled: list[tuple[str, str, str, bool]] = []
    for point, given in mapping(raw.get("plugins")).items():
        names = texts(mapping(given).get("enabled"))
        for index, name in enumerate(names):
            enabled.append((point, name, f"{path}.plugins.{point}.enabled[{index}]", name in names[:index]))
    name = raw.get("name")
    return Profile(path, name if isinstance(name, str) else "", raw, configs, tuple(again), tuple(enabled))
