# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a module reads the cluster from: a file, or the cluster itself. Documented in the fragment gpuops.defrag.source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._kubernetes import EVERYTHING, LIVE_ARGUMENTS, MEASURING, PROTECTING, Kind, Live, connect
from ._snapshot import read_objects

__all__ = ["EVERYTHING", "MEASURING", "PROTECTING", "SOURCE_ARGUMENTS", "File", "Live", "open_source"]

T = TypeVar("T")
NO_CLUSTER: dict[str, str | None] = {"server": None, "uid": None}

SOURCE_ARGUMENTS: dict[str, dict[str, Any]] = {"src": {"type": "path"}, **LIVE_ARGUMENTS}


@dataclass(slots=True)
class File:
    """A snapshot file, read as a live cluster is.

    Attributes:
        name: Its path.
    """

    name: str
    live = False
    now = None
    identity = NO_CLUSTER
    notes: list[str] = field(default_factory=list)

    def read(self, kinds: Sequence[Kind], build: Callable[[Iterator[dict[str, Any]]], T]) -> T:
        """What ``build`` makes of the file's documents; it may hold more than these kinds.

        Raises:
            InputError: The file cannot be read, or is not what kubectl prints.
        """
        return build(iter(read_objects(self.name)))


def open_source(params: Mapping[str, Any]) -> File | Live:
    """The file that the option src names, or the cluster that options and environment lead to.

    Raises:
        InputError: The cluster cannot be reached, or may not be the one meant.
    """
    return File(params["src"]) if params["src"] is not None else connect(params)
