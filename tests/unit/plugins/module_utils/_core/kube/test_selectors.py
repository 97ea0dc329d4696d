# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.selectors import (
    EVERYTHING,
    LabelSelector,
    Requirement,
    label_selector,
    node_selector_terms,
    parse_selector,
    requirement,
)
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, expression

A100 = {"gpu": "A100", "slots": "8", "spot": ""}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (expression("gpu", "In", "T4", "A100"), True),
        (expression("gpu", "In", "T4"), False),
        (expression("zone", "In", "A100"), False),
        (expression("gpu", "NotIn", "T4"), True),
        (expression("gpu", "NotIn", "T4", "A100"), False),
        (expression("zone", "NotIn", "A100"), True),
        (expression("spot", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("spot", "DoesNotExist"), False),
        (expression("zone", "DoesNotExist"), True),
        (expression("slots", "Gt", "7"), True),
        (expression("slots", "Gt", "8"), False),
        (expression("slots", "Lt", "9"), True),
        (expression("slots", "Lt", "8"), False),
        (expression("slots", "Gt", "+7"), True),
        (expression("slots", "Gt", "-7"), True),
        (expression("gpu", "Gt", "0"), False),
        (expression("gpu", "Lt", "0"), False),
        (expression("zone", "Lt", "9"), False),
        (expression("spot", "Lt", "9"), False),
    ],
)
def test_a_condition_holds_as_in_kubernetes(condition: Object, holds: bool) -> None:
    assert requirement(condition, "here").matches(A100) is holds


@pytest.mark.parametrize("text", ["9" * 5000, "٣", "1.0", "1e3", " 1", "1 "])
def test_text_that_is_no_int64_is_no_number(text: str) -> None:
    for operator in ("Gt", "Lt"):
        assert not Requirement("slots", operator, ("1",)).matches({"slots": text})
        with pytest.raises(InputError, match="takes one whole number"):
            requirement(expression("slots", operator, text), "here")


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        (expression("gpu", "Is", "A100"), ".operator: 'Is' is not a selector operator"),
        ({"key": "gpu"}, ".operator: is NoneType, the API has text there"),
        ({"operator": "Exists"}, ".key: is NoneType, the API has text there"),
        (expression("gpu", "In", "A100") | {"values": ["A100", 8]}, ".values[1]: is int, the API has text there"),
        (expression("gpu", "In") | {"values": "A100"}, ".values: is str, the API has a list there"),
        (expression("gpu", "In") | {"values": 8}, ".values: is int, the API has a list there"),
        (expression("gpu", "In"), ": In takes at least one value"),
        (expression("gpu", "NotIn"), ": NotIn takes at least one value"),
        (expression("gpu", "Gt"), ": Gt takes one whole number, not []"),
        (expression("gpu", "Lt", "1", "2"), ": Lt takes one whole number, not ['1', '2']"),
        (expression("gpu", "Gt", "many"), ": Gt takes one whole number, not ['many']"),
    ],
)
def test_a_malformed_condition_is_refused_by_field(condition: Object, fault: str) -> None:
    with pytest.raises(InputError) as refused:
        requirement(condition, "spec.here[0]")
    assert str(refused.value) == f"spec.here[0]{fault}"


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        ({}, A100, True),
        ({"matchLabels": {"gpu": "A100"}}, A100, True),
        ({"matchLabels": {"gpu": "A100", "zone": "z1"}}, A100, False),
        ({"matchLabels": {"gpu": "A100"}, "matchExpressions": [expression("spot", "DoesNotExist")]}, A100, False),
        ({"matchLabels": None, "matchExpressions": None}, A100, True),
    ],
)
def test_a_label_selector_asks_for_all_its_conditions(selector: Object, labels: dict[str, str], matches: bool) -> None:
    found = label_selector(selector, "here")
    assert found is not None
    assert found.matches(labels) is matches


def test_no_label_selector_is_not_the_empty_one() -> None:
    assert label_selector(None, "here") is None
    assert label_selector({}, "here") == EVERYTHING


def test_match_label_keys_ask_for_the_pods_own_values() -> None:
    selector = EVERYTHING.also([("revision", "2")])
    assert selector.matches({"revision": "2"})
    assert not selector.matches({"revision": "1"})
    assert not selector.matches({})


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": []}], False),
        ([{"matchExpressions": [expression("gpu", "In", "A100")]}], True),
        ([{"matchExpressions": [expression("gpu", "In", "A100"), expression("zone", "Exists")]}], False),
        ([{"matchExpressions": [expression("zone", "Exists")]}, {"matchExpressions": [expression("gpu", "Exists")]}], True),
        ([{"matchFields": [expression("metadata.name", "In", "n1")]}], True),
        ([{"matchFields": [expression("metadata.name", "NotIn", "n1")]}], False),
        (
            [{"matchExpressions": [expression("gpu", "Exists")], "matchFields": [expression("metadata.name", "In", "n2")]}],
            False,
        ),
    ],
)
def test_a_node_is_selected_by_any_one_term_in_full_and_never_by_an_empty_one(terms: list[Object], matches: bool) -> None:
    assert any(term.matches("n1", A100) for term in node_selector_terms(terms, "here")) is matches


def test_a_malformed_term_is_refused_by_its_place() -> None:
    terms = [
        {"matchExpressions": [expression("a", "Exists")]},
        {"matchFields": [expression("b", "Exists"), expression("c", "In")]},
    ]
    with pytest.raises(InputError, match=r"^here\[1\]\.matchFields\[1\]: In takes"):
        node_selector_terms(terms, "here")


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        ("  ", ()),
        ("a", (("a", "Exists"),)),
        ("!a", (("a", "DoesNotExist"),)),
        ("! a", (("a", "DoesNotExist"),)),
        ("a=b", (("a", "In", "b"),)),
        ("a==b", (("a", "In", "b"),)),
        ("a = b", (("a", "In", "b"),)),
        ("a=", (("a", "In", ""),)),
        ("a!=b", (("a", "NotIn", "b"),)),
        ("a in (x,y)", (("a", "In", "x", "y"),)),
        ("a in ( x , y )", (("a", "In", "x", "y"),)),
        ("a notin (x)", (("a", "NotIn", "x"),)),
        ("a>1", (("a", "Gt", "1"),)),
        ("a<-1", (("a", "Lt", "-1"),)),
        ("in in (in)", (("in", "In", "in"),)),
        ("nvidia.com/gpu.product=A100-SXM4", (("nvidia.com/gpu.product", "In", "A100-SXM4"),)),
        (
            "a=b,c!=d,e in (x,y),!f,g>1",
            (("a", "In", "b"), ("c", "NotIn", "d"), ("e", "In", "x", "y"), ("f", "DoesNotExist"), ("g", "Gt", "1")),
        ),
        (" a , b ", (("a", "Exists"), ("b", "Exists"))),
    ],
)
def test_a_selector_is_read_as_kubectl_reads_it(text: str, requirements: tuple[tuple[str, ...], ...]) -> None:
    assert parse_selector(text).requirements == tuple(Requirement(key, op, tuple(values)) for key, op, *values in requirements)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("=b", "=b"),
        ("a b", "a b"),
        ("a,,b", ",b"),
        (",a", ",a"),
        ("a in x", "a in x"),
        ("a in (x", "a in (x"),
        ("a=b=c", "a=b=c"),
        ("ok,!a=b", "!a=b"),
        ("a in (x))", "a in (x))"),
        ("a>b", "b"),
        ("a>", ""),
        ("a=b,", ""),
    ],
)
def test_a_selector_that_cannot_be_read_is_quoted(text: str, part: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_selector(text)
    assert refused.value.field == "node_selector"
    assert repr(part) in refused.value.message


@given(st.text("ab=!,()<> in1-", max_size=12))
def test_any_text_is_a_selector_or_an_input_error(text: str) -> None:
    try:
        found = parse_selector(text)
    except InputError:
        return
    assert found.matches({}) in (True, False)


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2", "x"]))
conditions = st.lists(
    st.one_of(
        st.builds(expression, st.sampled_from("abc"), st.sampled_from(["Exists", "DoesNotExist"])),
        st.builds(expression, st.sampled_from("abc"), st.sampled_from(["In", "NotIn"]), st.sampled_from(["", "1", "x"])),
        st.builds(expression, st.sampled_from("abc"), st.sampled_from(["Gt", "Lt"]), st.sampled_from(["0", "1", "2"])),
    ),
    max_size=3,
)


def written(condition: Object) -> str:
    key, values = condition["key"], condition.get("values", [""])
    forms: dict[str, str] = {
        "Exists": key,
        "DoesNotExist": f"!{key}",
        "In": f"{key}={values[0]}",
        "NotIn": f"{key}!={values[0]}",
        "Gt": f"{key}>{values[0]}",
        "Lt": f"{key}<{values[0]}",
    }
    return forms[condition["operator"]]


@given(conditions, labels)
def test_text_and_expressions_select_the_same(chosen: list[Object], found: dict[str, str]) -> None:
    by_text = parse_selector(",".join(map(written, chosen)))
    by_expressions = label_selector({"matchExpressions": chosen}, "here")
    assert isinstance(by_expressions, LabelSelector)
    assert by_text.matches(found) == by_expressions.matches(found)
