# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.quantity import count, milli, parse, whole

# How many of the base unit each suffix stands for, written out.
SUFFIXES = {
    "": "1",
    "n": "0.000000001",
    "u": "0.000001",
    "m": "0.001",
    "k": "1000",
    "M": "1000000",
    "G": "1000000000",
    "T": "1000000000000",
    "P": "1000000000000000",
    "E": "1000000000000000000",
    "Ki": "1024",
    "Mi": "1048576",
    "Gi": "1073741824",
    "Ti": "1099511627776",
    "Pi": "1125899906842624",
    "Ei": "1152921504606846976",
}
CEILING = Context(prec=200, rounding=ROUND_CEILING)
MOST = 2**63 - 1

numbers = st.one_of(
    st.integers(0, 10**18).map(str),
    st.decimals(0, 10**9, places=9).map(lambda number: f"{number:f}"),
    st.integers(0, 10**6).map(lambda n: f"{n}."),
    st.integers(0, 10**6).map(lambda n: f".{n}"),
)
quantities = st.builds("{}{}{}".format, st.sampled_from(("", "+")), numbers, st.sampled_from(sorted(SUFFIXES)))


def modelled(text: str) -> Decimal:
    """The value of a quantity by Python's decimal numbers alone."""
    suffix = text.lstrip("+-.0123456789")
    return CEILING.multiply(Decimal(text.removesuffix(suffix)), Decimal(SUFFIXES[suffix]))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("-0", Fraction(0)),
        ("8", Fraction(8)),
        ("+8", Fraction(8)),
        ("-1", Fraction(-1)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("007", Fraction(7)),
        ("0.1", Fraction(1, 10)),
        ("100m", Fraction(1, 10)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1.5e-1", Fraction(3, 20)),
        ("2E+2", Fraction(200)),
        ("1E", Fraction(10**18)),
        ("1Ei", Fraction(2**60)),
        (8, Fraction(8)),
        (0.5, Fraction(1, 2)),
        (0.1, Fraction(1, 10)),
        (1e22, Fraction(10**22)),
    ],
)
def test_a_quantity_has_its_exact_value(text: str | int | float, value: Fraction) -> None:
    assert parse(text) == value


NO_QUANTITIES: list[Any] = [
    *("", " ", ".", "+", "-", "m", "Ki", "two", "1 ", " 1", "1\n", "1 Gi", "1_000", "0x10", "1,5", "1.2.3", "--1", "+-1"),
    *("1K", "1ki", "1gi", "1MI", "1kk", "1mm", "1e", "1e+", "1e3.5", "1e3k", "1ekk", "1e1000000000", "nan", "inf", "Infinity"),
    *("٣", "1²", "１", "1e３", "9" * 5000, "0." + "0" * 5000 + "1"),
    *(True, False, None, math.nan, math.inf, -math.inf, 1e300, 10**100, [], {}, [1], (1,), b"1"),
]


@pytest.mark.parametrize("text", NO_QUANTITIES, ids=lambda text: repr(text)[:20])
@pytest.mark.parametrize("read", [parse, milli, whole, count])
def test_what_is_no_quantity_is_refused_in_a_short_sentence(read: Any, text: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        read(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("first", [1, True, 1.0])
@pytest.mark.parametrize("read", [milli, whole, count])
def test_true_is_no_quantity_whatever_was_read_before(read: Any, first: Any) -> None:
    assert read(1) in (1, 1000)
    assert read(1.0) in (1, 1000)
    with pytest.raises(ValueError, match="True is not a quantity"):
        read(True)


@pytest.mark.parametrize(
    ("text", "in_milli", "in_whole"),
    [
        ("1", 1000, 1),
        ("1500m", 1500, 2),
        ("0.5", 500, 1),
        ("100u", 1, 1),
        ("1n", 1, 1),
        ("1.0001", 1001, 2),
        ("1Ki", 1_024_000, 1024),
        ("0.1Ki", 102_400, 103),
        ("96", 96_000, 96),
        ("0", 0, 0),
        ("0m", 0, 0),
        ("-0", 0, 0),
    ],
)
def test_a_coarser_unit_rounds_up(text: str, in_milli: int, in_whole: int) -> None:
    assert (milli(text), whole(text)) == (in_milli, in_whole)


@pytest.mark.parametrize(
    ("longest", "longer"),
    [("1" + "0" * 63, "1" + "0" * 64), ("1e64", "1e65"), ("1e-64", "1e-65")],
    ids=["characters", "exponent", "negative exponent"],
)
def test_a_quantity_has_at_most_64_characters_and_an_exponent_of_64(longest: str, longer: str) -> None:
    assert parse(longest) > 0
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(longer)


def test_more_than_an_int64_is_the_most_an_int64_holds() -> None:
    assert whole("8Ei") == whole("100E") == whole("1e60") == count("100E") == MOST


@pytest.mark.parametrize(("text", "devices"), [("0", 0), ("8", 8), (8, 8), ("1k", 1000), ("2e1", 20), ("2000m", 2), ("8.0", 8)])
def test_devices_are_whole_numbers(text: str | int, devices: int) -> None:
    assert count(text) == devices


@pytest.mark.parametrize(("text", "fault"), [("0.5", "'0.5' is not a whole number"), ("1m", "'1m' is not a whole number")])
def test_a_part_of_a_device_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        count(text)


@pytest.mark.parametrize("read", [milli, whole, count])
def test_less_than_nothing_is_refused(read: Any) -> None:
    with pytest.raises(ValueError, match="'-1' is negative"):
        read("-1")


@given(quantities)
def test_values_are_those_of_decimal_arithmetic(text: str) -> None:
    value = modelled(text)
    assert parse(text) == Fraction(value)
    assert milli(text) == min(int(CEILING.to_integral_value(value * 1000)), MOST * 1000)
    assert whole(text) == min(int(CEILING.to_integral_value(value)), MOST)


@given(st.integers(-(10**18), 10**18), st.integers(-12, 12))
def test_what_is_written_with_an_exponent_reads_back(mantissa: int, exponent: int) -> None:
    value = Fraction(mantissa) * Fraction(10) ** exponent
    assert parse(f"{mantissa}e{exponent}") == value
    assert parse(f"{Decimal(mantissa).scaleb(exponent, Context(prec=40)):f}") == value


@given(quantities, quantities)
def test_a_larger_quantity_never_counts_less(one: str, other: str) -> None:
    smaller, larger = sorted((one, other), key=parse)
    assert milli(smaller) <= milli(larger)
    assert whole(smaller) <= whole(larger)


@given(quantities)
def test_rounding_adds_less_than_one(text: str) -> None:
    exact = min(parse(text), Fraction(MOST))
    assert exact <= whole(text) < exact + 1
    assert exact * 1000 <= milli(text) < exact * 1000 + 1


def outcome(read: Any, text: Any) -> int | str:
    try:
        found: int = read(text)
    except ValueError as error:
        return str(error)
    return found


@given(st.one_of(st.text(), st.text("0123456789.+-eEmkKMGTPiun "), st.integers(), st.floats(), st.binary()))
def test_anything_else_is_a_value_error_and_nothing_worse(anything: Any) -> None:
    for read in (milli, whole, count):
        found = outcome(read, anything)
        assert found >= 0 if isinstance(found, int) else re.search("is not a quantity|is not a whole number|is negative", found)
