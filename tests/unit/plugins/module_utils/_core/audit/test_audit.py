# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.audit import audit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, ZONE, Object, measured, node, packed, pod
from ansible_collections.gpuops.defrag.tests.unit.everything import TIME, everything

Path: TypeAlias = tuple[str | int, ...]
Change: TypeAlias = tuple[Path, Any]


@dataclass(frozen=True)
class Copied:
    """Stands for what is at another place."""

    path: Path


class Deleted:
    """Stands for nothing at all, not even null."""


# Values that the API has somewhere, or that have broken readers before.
KNOWN: list[Any] = [
    *(None, True, False, 0, 1, -1, 8, 2**63, 10**40, 0.5, -0.0, 1e300),
    *("", "x", "1", "-1", "0.5", "1k", "1e9", "two", "true", "9" * 5000, "٣", "\ud800"),
    *(
        TIME,
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "default",
        "n1",
        "data",
        "llm",
        "Ready",
        "Always",
        GPU,
        ZONE,
    ),
    *([], {}, [None], [[]], {"": None}),
]
anything = st.recursive(
    st.one_of(st.sampled_from(KNOWN), st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["kind", "name", "items", "metadata", "spec", "key", "cpu", GPU, ZONE, "x"]), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """Where everything in a JSON value is."""
    if here:
        yield here
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*here, key))


EVERYTHING = everything()
PLACES = sorted(paths(EVERYTHING), key=str)


def at(path: Path, value: Any) -> Any:
    """What is there; an error where nothing is."""
    for key in path:
        value = value[key]
    return value


def changed(changes: list[Change]) -> list[Any]:
    """The cluster of everything with other values in some places; a place that an earlier change took is passed over."""
    documents = copy.deepcopy(EVERYTHING)
    for path, value in changes:
        try:
            place = at(path[:-1], documents)
            if isinstance(value, Deleted):
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(at(value.path, EVERYTHING)) if isinstance(value, Copied) else value
        except (LookupError, TypeError):
            continue
    return documents


replacements = st.one_of(anything, st.builds(Copied, st.sampled_from(PLACES)), st.builds(Deleted))
changes = st.lists(st.tuples(st.sampled_from(PLACES), replacements), min_size=1, max_size=3)


def outcome(documents: Any) -> str | InputError:
    """The result as JSON, or the error."""
    try:
        return json.dumps(measured(documents, details=True), allow_nan=False)
    except InputError as error:
        return error


@settings(max_examples=5 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(changes)
def test_whatever_is_in_the_input_the_answer_is_a_result_or_one_error_that_names_object_and_field(made: list[Change]) -> None:
    told = outcome(changed(made))
    if isinstance(told, InputError):
        assert told.object
        assert told.field
        assert told.message
        assert len(told.message) < 250
        assert "\n" not in told.message


@settings(max_examples=50)
@given(anything)
@example(documents=[])
@example(documents=[None])
@example(documents=[{"kind": "List"}])
def test_whatever_is_given_instead_of_objects_too(documents: Any) -> None:
    told = outcome(documents if isinstance(documents, list) else [documents])
    assert isinstance(told, str) or (told.object and told.field)


def test_the_cluster_of_everything_can_be_measured() -> None:
    found = measured(everything(), details=True)
    assert (found["nodes"], found["gpus_total"]) == (4, 31)
    assert {p["pod"]: p["state"] for p in found["pending_pods"]} == {
        "gated": "Gated",
        "nominated": "Nominated",
        "plain": "Fits",
        "waiting": "Blocked",
    }


def test_measuring_changes_nothing_in_its_input() -> None:
    documents = everything()
    measured(documents, details=True)
    assert documents == everything()


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([pod("p") | {"spec": None}], "dump.json: Pod default/p: spec: is missing; give whole pods"),
        ([node("n1"), pod("p", 1, "n2")], "dump.json: Pod default/p: spec.nodeName: node 'n2' is not in the input"),
        ([node("n1"), node("n1")], "dump.json: Node n1: metadata.name: is given twice"),
        ([node("n1", "8.5")], f"dump.json: Node n1: status.allocatable[{GPU}]: '8.5' is not a whole number"),
        ([pod("p", "two")], f"dump.json: Pod default/p: spec.containers[0].resources.requests[{GPU}]: 'two' is not a quantity"),
        ([None], "dump.json: input: [0]: is NoneType, not an object"),
    ],
)
def test_an_error_names_source_object_and_field(objects: list[Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        measured(objects, source="dump.json")
    assert str(refused.value).startswith(message)


def test_ages_are_counted_to_the_time_given() -> None:
    objects = [*packed(*["8:"] * 10), pod("p", 2, "n1", created="1970-01-01T00:00:00Z")]
    (reason,) = measured(objects, now=60.0)["not_applicable_reasons"]
    assert (reason["reason"], reason["figures"]["median_seconds"]) == ("ShortLivedPods", 60)
    assert measured(objects, now=86_400.0)["applicable"]


def test_documents_may_come_one_by_one() -> None:
    objects: list[Object] = packed("8: 4")
    assert audit(iter(objects), AuditOptions()) == measured(objects)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("objects", [packed("8: 4"), [None]], ids=["a result", "an error"])
def test_the_cycle_collector_is_left_as_it_was(running: bool, objects: list[Any]) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        outcome(objects)
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()
