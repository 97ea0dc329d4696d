# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.template import Templar, trust_as_template

from ansible_collections.gpuops.defrag.plugins.filter.gpu_fragmentation import FilterModule, gpu_fragmentation
from ansible_collections.gpuops.defrag.tests.unit.builders import measured, node, packed, pod

OBJECTS = [*packed("8: 4+2", "8: 1"), pod("large", 8)]


def test_it_is_the_only_filter_of_its_file() -> None:
    assert FilterModule().filters() == {"gpu_fragmentation": gpu_fragmentation}


@pytest.mark.parametrize("given", [OBJECTS, {"kind": "List", "items": OBJECTS}], ids=["objects", "a List"])
def test_it_gives_what_the_module_gives(given: Any) -> None:
    assert gpu_fragmentation(given, gpu_hour_price="3", details=True) == measured(OBJECTS, gpu_hour_price=3.0, details=True)


def test_it_takes_what_a_playbook_passes() -> None:
    variables = {"objects": OBJECTS, "selector": {"kubernetes.io/hostname": trust_as_template("n{{ 1 }}")}}
    lazy = Templar(variables=variables)
    objects, selector = (lazy.template(trust_as_template("{{ " + name + " }}")) for name in variables)
    assert gpu_fragmentation(objects, node_selector=selector)["node_free"] == {"n1": 2}


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (OBJECTS, {"size": 8}, "size"),
        (OBJECTS, {"sizes": ["eight"]}, "sizes"),
        (OBJECTS, {"sizes": [0]}, "sizes[0]: is 0"),
        ("text", {}, "is str, not an object"),
        ([node("n1"), node("n1")], {}, "Node n1: metadata.name: is given twice"),
    ],
    ids=["unknown option", "no number", "no size", "text", "bad input"],
)
def test_what_it_cannot_take_is_said_in_one_error(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleFilterError) as refused:
        gpu_fragmentation(given, **options)
    assert str(refused.value).startswith("gpu_fragmentation: ")
    assert words in str(refused.value)
