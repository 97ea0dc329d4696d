# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.gpuops.defrag.plugins.plugin_utils.plain import plain


@pytest.mark.parametrize("value", [None, True, 1, 2.5, "text", [], {}, [{"a": [1, "b"]}], {"a": {"b": None}}], ids=repr)
def test_plain_values_stay_what_they_are(value: Any) -> None:
    assert plain(value) == value
    assert type(plain(value)) is type(value)


def test_tuples_become_lists() -> None:
    assert plain(({"a": (1,)},)) == [{"a": [1]}]


def test_what_the_controller_passes_loses_its_tags_and_is_rendered() -> None:
    given = {"a": [trust_as_template("{{ 1 + 1 }}"), trust_as_template("text"), DataLoader().load("600")]}
    lazy = Templar(variables={"given": given}).template(trust_as_template("{{ given }}"))
    made = plain(lazy)
    assert made == {"a": [2, "text", 600]}
    assert [type(made), type(made["a"]), type(made["a"][1]), type(made["a"][2])] == [dict, list, str, int]


def test_text_that_stays_what_it_is_becomes_plain_all_the_same() -> None:
    # As AnsibleUnsafeText of ansible-core 2.18 is.
    unsafe: Any = type("Unsafe", (str,), {"__str__": lambda text: text})
    made = plain({unsafe("a"): unsafe("b")})
    assert made == {"a": "b"}
    assert [type(text) for pair in made.items() for text in pair] == [str, str]
