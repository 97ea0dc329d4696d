# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Settings that a user writes as a mapping, where each is a field of a dataclass that checks them itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from .errors import InputError

T = TypeVar("T")


def read_settings(kind: type[T], given: Any) -> T:
    """Settings of a mapping by the names of a dataclass; null is as if not given.

    Raises:
        InputError: A setting is unknown, or makes no sense.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"settings are a mapping, not {type(given).__name__}")
    known = [each.name for each in fields(cast("Any", kind))]
    if unknown := [str(name) for name in given if name not in known]:
        raise InputError(f"there is no such setting; there are {', '.join(known)}", field=unknown[0])
    return kind(**{name: value for name, value in given.items() if value is not None})
