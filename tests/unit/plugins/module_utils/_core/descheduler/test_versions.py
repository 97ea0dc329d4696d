# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.descheduler.versions import (
    LEGACY_PROTECTIONS,
    PLUGINS,
    POLICY,
    Field,
    is_known,
    parse_version,
    states,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError


def fields(some: Mapping[str, Field], path: str) -> Iterator[tuple[str, Field]]:
    for name, field in some.items():
        yield f"{path}{name}", field
        yield from fields(field.fields, f"{path}{name}.")


def news(version: str) -> set[str]:
    """What that version has and the one before it has not."""
    every = [*fields(POLICY, ""), *(pair for name, plugin in PLUGINS.items() for pair in fields(plugin.args, f"{name}."))]
    return {path for path, field in every if field.since == parse_version(version)}


# As the sources of the descheduler have it, by hand from their types.go.
@pytest.mark.parametrize(
    ("version", "new"),
    [
        (
            "0.33.0",
            {
                "evictionFailureEventNotification",
                "gracePeriodSeconds",
                "metricsProviders",
                "HighNodeUtilization.evictionModes",
                "LowNodeUtilization.evictionLimits",
                "LowNodeUtilization.metricsUtilization.source",
                "LowNodeUtilization.metricsUtilization.prometheus",
            },
        ),
        ("0.34.0", {"DefaultEvictor.noEvictionPolicy", "DefaultEvictor.podProtections"}),
        ("0.35.0", {"DefaultEvictor.namespaceLabelSelector", "DefaultEvictor.podProtections.config"}),
        ("0.35.1", {"PodLifeTime.ownerKinds", "PodLifeTime.conditions", "PodLifeTime.exitCodes"}),
        ("0.36.0", set()),
    ],
)
def test_what_is_new_in_a_version(version: str, new: set[str]) -> None:
    assert news(version) == new


def test_what_is_gone() -> None:
    every = [pair for name, plugin in PLUGINS.items() for pair in fields(plugin.args, f"{name}.")]
    assert [path for path, field in every if field.before] == ["HighNodeUtilization.metricsUtilization"]


def test_there_are_eleven_plugins_and_each_belongs_somewhere() -> None:
    assert len(PLUGINS) == 11
    assert {point for plugin in PLUGINS.values() for point in plugin.points} == {
        "deschedule",
        "balance",
        "filter",
        "preevictionfilter",
    }


def test_the_booleans_of_old_are_args_of_the_evictor() -> None:
    assert LEGACY_PROTECTIONS.keys() <= PLUGINS["DefaultEvictor"].args.keys()


@pytest.mark.parametrize(("version", "count"), [("0.33.0", 15), ("0.34.0", 17), ("0.35.0", 17), ("0.35.1", 24), ("0.36.0", 24)])
def test_the_states_that_a_version_takes(version: str, count: int) -> None:
    found = states(parse_version(version))
    assert len(found) == len(set(found)) == count
    assert "Running" in found


@pytest.mark.parametrize(
    ("text", "parsed"), [("0.36.0", (0, 36, 0)), ("v0.35.1", (0, 35, 1)), ("0.35", (0, 35, 0)), ("1.2.3", (1, 2, 3))]
)
def test_versions_are_read(text: str, parsed: tuple[int, int, int]) -> None:
    assert parse_version(text) == parsed
    assert is_known(parsed) == (parsed < (0, 37, 0))


@pytest.mark.parametrize("text", ["", "latest", "0", "0.36.0-rc1", "0.31.0", 0.36, None, "0.36.0\n"])
def test_what_is_no_version_or_too_old_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="descheduler_version: "):
        parse_version(text)
