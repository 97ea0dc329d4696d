# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import objects
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.shapes import _KINDS, Shape, fault
from ansible_collections.gpuops.defrag.tests.unit.builders import Object, claim, container, node, pod, volume
from ansible_collections.gpuops.defrag.tests.unit.everything import everything


def used(value: Any, shape: Shape, field: str = "") -> Iterator[str]:
    """The fields of a shape that a value has; members of lists and free keys count once."""
    yield field
    if isinstance(shape, list):
        for member in value:
            yield from used(member, shape[0], f"{field}[]")
    elif isinstance(shape, dict):
        for name, inner in shape.items():
            for key in value if name == "*" else [name.removesuffix("!")]:
                if value.get(key) is not None:
                    yield from used(value[key], inner, f"{field}.{name}")


def named(shape: Shape, field: str = "") -> Iterator[str]:
    """All fields of a shape."""
    yield field
    for name, inner in shape.items() if isinstance(shape, dict) else ():
        yield from named(inner, f"{field}.{name}")
    if isinstance(shape, list):
        yield from named(shape[0], f"{field}[]")


def test_the_cluster_of_everything_uses_every_field_of_a_pod() -> None:
    pods = [raw for raw in objects(everything()) if raw["kind"] == "Pod"]
    found = {field for raw in pods for field in used(raw, _KINDS["Pod"])}
    assert set(named(_KINDS["Pod"])) - found == {".metadata!.generation"}


@pytest.mark.parametrize("raw", list(objects(everything())), ids=lambda raw: f"{raw['kind']}-{raw['metadata']['name']}")
def test_objects_of_the_api_have_no_fault(raw: Object) -> None:
    assert fault(raw) is None


def with_spec(**spec: Any) -> Object:
    return pod("p", **spec)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"kind": "Pod"}, "metadata: is missing"),
        ({"kind": "Pod", "metadata": []}, "metadata: is list, the API has a mapping there"),
        ({"kind": "Pod", "metadata": {}}, "metadata.name: is missing"),
        ({"kind": "Pod", "metadata": {"name": 5}}, "metadata.name: is int, the API has text there"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "spec: is missing"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, "spec.containers: is missing"),
        (pod("p", labels={"gpu": True}), "metadata.labels[gpu]: is bool, the API has text there"),  # type: ignore[dict-item]
        (pod("p", labels={"gpu": None}), "metadata.labels[gpu]: is NoneType, the API has text there"),  # type: ignore[dict-item]
        (with_spec(priority="high"), "spec.priority: is str, the API has a whole number there"),
        (with_spec(priority=True), "spec.priority: is bool, the API has a whole number there"),
        (with_spec(priority=0.5), "spec.priority: is float, the API has a whole number there"),
        (with_spec(hostNetwork="false"), "spec.hostNetwork: is str, the API has true or false there"),
        (with_spec(containers=["main"]), "spec.containers[0]: is str, the API has a mapping there"),
        (with_spec(containers=[container(), None]), "spec.containers[1]: is NoneType, the API has a mapping there"),
        (with_spec(tolerations={}), "spec.tolerations: is dict, the API has a list there"),
        (with_spec(volumes=[{"ephemeral": {}}]), "spec.volumes[0].name: is missing"),
        (with_spec(affinity={"podAffinity": []}), "spec.affinity.podAffinity: is list, the API has a mapping there"),
        (with_spec(topologySpreadConstraints=[{"maxSkew": 1}]), "spec.topologySpreadConstraints[0].topologyKey: is missing"),
        (node("n", taints=[{"key": "gpu"}]), "spec.taints[0].effect: is missing"),
        (claim("c", modes=[1]), "spec.accessModes[0]: is int, the API has text there"),  # type: ignore[list-item]
        (volume("v", terms=[[]]), "spec.nodeAffinity.required.nodeSelectorTerms[0]: is list, the API has a mapping there"),  # type: ignore[list-item]
        ({"kind": "Job", "metadata": {"name": "j"}, "spec": []}, "spec: is list, the API has a mapping there"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_fault_is_told_by_field(raw: Object, message: str) -> None:
    assert str(fault(raw)) == message


def test_the_first_fault_is_told() -> None:
    assert str(fault(pod("p", hostNetwork=1, priority="x"))).startswith("spec.priority")


def test_amounts_and_times_are_left_to_those_who_read_them() -> None:
    raw = pod("p", requests={"cpu": ["odd"]}, created="yesterday")
    assert fault(raw) is None
