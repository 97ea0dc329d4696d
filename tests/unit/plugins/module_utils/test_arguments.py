# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

from ansible_collections.gpuops.defrag.plugins.doc_fragments import audit, prometheus, selection, source
from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import (
    AUDIT_ARGUMENTS,
    SELECTION_ARGUMENTS,
    audit_params,
    node_selector,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._core.audit.measures import AuditOptions
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus_arguments import PROMETHEUS_ARGUMENTS
from ansible_collections.gpuops.defrag.plugins.module_utils._source import SOURCE_ARGUMENTS


def documented(fragment: ModuleType, part: str = "DOCUMENTATION") -> dict[str, Any]:
    options: dict[str, Any] = yaml.safe_load(getattr(fragment.ModuleDocFragment, part))["options"]
    return {name: {key: value for key, value in option.items() if key != "description"} for name, option in options.items()}


def params(**given: Any) -> dict[str, Any]:
    checked = ArgumentSpecValidator(AUDIT_ARGUMENTS).validate(given)
    assert not checked.error_messages
    validated: dict[str, Any] = checked.validated_parameters
    return validated


def test_every_option_is_documented_as_it_is() -> None:
    assert documented(selection) == SELECTION_ARGUMENTS
    assert documented(selection) | documented(audit) == AUDIT_ARGUMENTS
    told = {name: {key: spec[key] for key in spec if key != "no_log"} for name, spec in PROMETHEUS_ARGUMENTS.items()}
    assert documented(prometheus) == told
    # How a cluster is reached is kubernetes.core's to document.
    assert documented(source) | documented(source, "LIVE") == {
        name: spec for name, spec in SOURCE_ARGUMENTS.items() if name not in AUTH_ARG_SPEC
    }


def test_without_options_an_audit_has_the_core_s_own_defaults() -> None:
    assert audit_params(params()) == {"options": AuditOptions(), "now": None, "details": False}


def test_options_reach_the_audit() -> None:
    given = audit_params(
        params(sizes=[8, 1, 8], slot_size=4, gpu_hour_prices={"A100": "2.5"}, now="2026-11-30T12:00:00Z", details=True)
    )
    options = given["options"]
    assert (options.sizes, options.slot_size, options.gpu_hour_prices) == ((1, 8), 4, {"A100": 2.5})
    assert (given["now"], given["details"]) == (1796040000.0, True)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"resource_name": "gpu"}, "resource_name"),
        ({"resource_name": ""}, "resource_name"),
        ({"sizes": [0]}, "sizes[0]"),
        ({"sizes": []}, "sizes"),
        ({"slot_size": -1}, "slot_size"),
        ({"fragmentation_size": 0}, "fragmentation_size"),
        ({"gpu_hour_price": -3.0}, "gpu_hour_price"),
        ({"gpu_hour_price": float("nan")}, "gpu_hour_price"),
        ({"gpu_hour_prices": {"A100": "dear"}}, "gpu_hour_prices[A100]"),
        ({"min_gpu_nodes": -1}, "min_gpu_nodes"),
        ({"min_pod_lifetime": float("inf")}, "min_pod_lifetime"),
        ({"now": "today"}, "now"),
        ({"node_selector": "a=="}, None),
        ({"node_selector": "a in b"}, "node_selector"),
        ({"node_selector": ["a"]}, "node_selector"),
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_named(given: dict[str, Any], field: str | None) -> None:
    if field is None:
        assert audit_params(params(**given))["options"].selector.matches({"a": ""})
        return
    with pytest.raises(InputError) as refused:
        audit_params(params(**given))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (None, "abc"),
        ("", "abc"),
        ("pool=a", "a"),
        ({"pool": "b"}, "b"),
        ({"count": 8}, "ab"),
        ({"spot": True}, "c"),
        ("pool in (a,c),!spot", "a"),
    ],
    ids=str,
)
def test_a_node_selector_is_text_or_labels(given: Any, chosen: str) -> None:
    nodes = {
        "a": {"pool": "a", "count": "8"},
        "b": {"pool": "b", "count": "8"},
        "c": {"pool": "c", "spot": "true"},
    }
    selector = node_selector({"node_selector": given})
    assert "".join(name for name, labels in nodes.items() if selector.matches(labels)) == chosen
