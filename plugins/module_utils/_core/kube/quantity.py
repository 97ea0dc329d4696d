# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Kubernetes quantities, exact.

Grammar and rounding follow ``k8s.io/apimachinery/pkg/api/resource``: a decimal number with a binary suffix
(Ki … Ei), a decimal suffix (n, u, m, none, k … E) or a decimal exponent (e3, E-2). Whoever asks for a coarser unit
gets it rounded up, as ``Quantity.Value`` and ``Quantity.MilliValue`` do.
"""

from __future__ import annotations

import re
import reprlib
from fractions import Fraction
from functools import lru_cache

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)")
_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{suffix + "i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}
# int64, the API's own ceiling for a quantity.
_MOST = 2**63 - 1
# A number longer than this is no quantity; it also keeps 10**exponent small.
_LONGEST = 64


def parse(text: str | int | float) -> Fraction:
    """The exact value of a quantity.

    Args:
        text: A quantity as the API writes it; a bare YAML number is taken too.

    Raises:
        ValueError: It is not a quantity.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"{reprlib.repr(text)} is not a quantity")
    written = text if isinstance(text, str) else repr(text)
    match = _NUMBER.fullmatch(written) if len(written) <= _LONGEST else None
    if not match or not written.isascii():
        raise ValueError(f"{reprlib.repr(text)} is not a quantity")
    sign, number, suffix = match.groups()
    scale = _SUFFIXES.get(suffix)
    if scale is None:
        exponent = _EXPONENT.fullmatch(suffix)
        if not exponent or abs(int(exponent[1])) > _LONGEST:
            raise ValueError(f"{reprlib.repr(text)} is not a quantity: unknown suffix {suffix!r}")
        scale = Fraction(10) ** int(exponent[1])
    value = Fraction(number) * scale
    return -value if sign == "-" else value


def _rounded_up(text: str | int | float, parts: int) -> int:
    value = parse(text) * parts
    if value < 0:
        raise ValueError(f"{reprlib.repr(text)} is negative")
    return min(-(-value.numerator // value.denominator), _MOST * parts)


@lru_cache(maxsize=65536, typed=True)
def milli(text: str | int | float) -> int:
    """Thousandths, rounded up: how the scheduler counts CPU. The API server keeps nothing finer of any request.

    Raises:
        ValueError: It is not a quantity, or negative.
    """
    return _rounded_up(text, 1000)


@lru_cache(maxsize=65536, typed=True)
def whole(text: str | int | float) -> int:
    """Whole units, rounded up: how the scheduler counts memory and everything else but CPU.

    Raises:
        ValueError: It is not a quantity, or negative.
    """
    return _rounded_up(text, 1)


@lru_cache(maxsize=65536, typed=True)
def count(text: str | int | float) -> int:
    """A number of devices. The API allows no part of an extended resource.

    Raises:
        ValueError: It is not a quantity, negative, or not a whole number.
    """
    value = parse(text)
    if value < 0:
        raise ValueError(f"{reprlib.repr(text)} is negative")
    if value.denominator != 1:
        raise ValueError(f"{reprlib.repr(text)} is not a whole number")
    return min(int(value), _MOST)
