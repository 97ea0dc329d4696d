# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.requests import amounts, effective_requests
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, container

GI = 2**30


def wants(number: int, name: str = "c", **more: Any) -> Object:
    return container(name, requests={GPU: str(number)}, **more)


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"containers": [wants(1)]}, 1),
        ({"containers": [wants(1), wants(2)]}, 3),
        ({"initContainers": [wants(4)], "containers": [wants(1)]}, 4),
        ({"initContainers": [wants(4), wants(3)], "containers": [wants(1)]}, 4),
        ({"initContainers": [wants(1)], "containers": [wants(4)]}, 4),
        ({"initContainers": [wants(1, restartPolicy="Always")], "containers": [wants(1)]}, 2),
        ({"initContainers": [wants(1, restartPolicy="Always"), wants(4)], "containers": [wants(1)]}, 5),
        ({"initContainers": [wants(4), wants(1, restartPolicy="Always")], "containers": [wants(1)]}, 4),
        (
            {"initContainers": [wants(1, restartPolicy="Always"), wants(1, restartPolicy="Always")], "containers": [wants(1)]},
            3,
        ),
        ({"initContainers": [wants(2, restartPolicy="OnFailure")], "containers": [wants(1)]}, 2),
        ({"containers": [wants(0)]}, 0),
        ({"containers": [container()]}, 0),
    ],
)
def test_a_pod_holds_the_largest_of_its_moments_for_its_whole_life(spec: Object, held: int) -> None:
    assert effective_requests(spec, {}).get(GPU, 0) == held


def test_each_resource_has_a_largest_moment_of_its_own() -> None:
    init = container("init", requests={"cpu": "8", "memory": "1Gi"})
    main = container("main", requests={"cpu": "1", "memory": "4Gi"})
    assert effective_requests({"initContainers": [init], "containers": [main]}, {}) == {"cpu": 8000, "memory": 4 * GI}


@pytest.mark.parametrize("spec", [{"containers": [container(requests={"cpu": "0", GPU: "0", "memory": "1Gi"})]}])
@pytest.mark.parametrize("more", [{}, {"overhead": {"cpu": "0"}}])
def test_amounts_of_zero_are_left_out(spec: Object, more: Object) -> None:
    assert effective_requests(spec | more, {}) == {"memory": GI}


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({"limits": {GPU: "2"}}, {GPU: 2}),
        ({"requests": {GPU: "2"}, "limits": {GPU: "2"}}, {GPU: 2}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "1Gi"}}, {"cpu": 1000, "memory": GI}),
        ({"requests": None, "limits": None}, {}),
        ({}, {}),
        (None, {}),
    ],
)
@pytest.mark.parametrize("more", [{}, {"initContainers": []}])
def test_a_limit_alone_is_the_request(resources: Object | None, asked: dict[str, int], more: Object) -> None:
    spec = {"containers": [{"name": "main", "resources": resources}]} | more
    assert effective_requests(spec, {}) == asked


def test_the_overhead_comes_on_top() -> None:
    init = container("init", requests={"cpu": "2"})
    main = container("main", requests={"cpu": "1"})
    spec = {"initContainers": [init], "containers": [main], "overhead": {"cpu": "250m", "memory": "120Mi"}}
    assert effective_requests(spec, {}) == {"cpu": 2250, "memory": 120 * 2**20}


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({"requests": {"cpu": "6"}}, {"cpu": 6000, "memory": GI, GPU: 1}),
        ({"requests": {"cpu": "1m"}}, {"cpu": 1, "memory": GI, GPU: 1}),
        ({"requests": {GPU: "8"}}, {"cpu": 2000, "memory": GI, GPU: 1}),
        ({"limits": {"cpu": "6"}}, {"cpu": 2000, "memory": GI, GPU: 1}),
        ({"limits": {"hugepages-2Mi": "64Mi"}}, {"cpu": 2000, "memory": GI, GPU: 1, "hugepages-2Mi": 64 * 2**20}),
        (
            {"requests": {"memory": "4Gi"}, "limits": {"memory": "8Gi"}},
            {"cpu": 2000, "memory": 4 * GI, GPU: 1},
        ),
    ],
)
def test_pod_level_requests_replace_those_of_containers(resources: Object, asked: dict[str, int]) -> None:
    main = container("main", requests={"cpu": "2", "memory": "1Gi", GPU: "1"})
    assert effective_requests({"containers": [main], "resources": resources}, {}) == asked


def test_a_pod_level_limit_is_the_request_of_what_no_container_requests() -> None:
    spec = {"containers": [container("main", requests={"cpu": "2"})], "resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}
    assert effective_requests(spec, {}) == {"cpu": 2000, "memory": 8 * GI}


def test_sums_are_rounded_up_once() -> None:
    tenth_of_a_byte = container(requests={"memory": "100m"})
    assert effective_requests({"containers": [tenth_of_a_byte] * 10}, {}) == {"memory": 1}
    assert effective_requests({"containers": [tenth_of_a_byte] * 11}, {}) == {"memory": 2}
    assert effective_requests({"containers": [tenth_of_a_byte]}, {}) == {"memory": 1}


RESIZED = {"name": "main", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
INFEASIBLE = [{"type": "Ready", "status": "True"}, {"type": "PodResizePending", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    ("wanted", "state", "conditions", "cpu"),
    [
        ("1", RESIZED, [], 3000),
        ("4", RESIZED, [], 4000),
        ("4", RESIZED, [{"type": "PodResizePending", "reason": "Deferred"}], 4000),
        ("4", RESIZED, INFEASIBLE, 3000),
        ("1", RESIZED | {"allocatedResources": {"cpu": "5"}}, [], 5000),
        ("1", {"name": "main", "allocatedResources": {"cpu": "5"}}, [], 1000),
        ("1", RESIZED | {"name": "other"}, [], 1000),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_resize_in_place_counts_the_most_of_wanted_granted_and_running(
    wanted: str, state: Object, conditions: list[Object], cpu: int, kind: str
) -> None:
    main = container("main", requests={"cpu": wanted}, restartPolicy="Always")
    spec = {"containers": [container("idle")]} | {kind: [main]}
    states = {"containerStatuses" if kind == "containers" else "initContainerStatuses": [state]}
    assert effective_requests(spec, {"conditions": conditions} | states) == {"cpu": cpu}


def test_an_init_container_that_ends_is_not_resized() -> None:
    spec = {"containers": [container("idle")], "initContainers": [container("main", requests={"cpu": "1"})]}
    assert effective_requests(spec, {"initContainerStatuses": [RESIZED]}) == {"cpu": 1000}


def test_a_pod_resized_as_a_whole_counts_the_most_too() -> None:
    spec = {"containers": [container()], "resources": {"requests": {"cpu": "1"}}}
    status = {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}, "allocatedResources": {"cpu": "3"}}
    assert effective_requests(spec, status) == {"cpu": 3000}


DEVICES = "; ask for a whole number of devices"
QUANTITY = "; write a quantity such as 500m, 2 or 16Gi"


def test_a_pod_whose_resize_is_infeasible_counts_what_it_has_got() -> None:
    spec = {"containers": [container()], "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}
    status = {"resources": {"requests": {"memory": "2Gi"}}, "conditions": INFEASIBLE}
    assert effective_requests(spec, status) == {"memory": 2 * GI}


@pytest.mark.parametrize(
    ("spec", "field", "fault"),
    [
        (
            {"containers": [container(requests={GPU: "0.5"})]},
            "spec.containers[0].resources.requests[nvidia.com/gpu]",
            "'0.5' is not a whole number" + DEVICES,
        ),
        (
            {"containers": [container(), container(limits={GPU: "-1"})]},
            "spec.containers[1].resources.limits[nvidia.com/gpu]",
            "'-1' is negative" + DEVICES,
        ),
        (
            {"containers": [container()], "initContainers": [container(requests={"cpu": "two"})]},
            "spec.initContainers[0].resources.requests[cpu]",
            "'two' is not a quantity" + QUANTITY,
        ),
        (
            {"containers": [container()], "overhead": {"memory": ["1Gi"]}},
            "spec.overhead[memory]",
            "list is not a quantity" + QUANTITY,
        ),
        (
            {"containers": [container()], "resources": {"limits": {"memory": "1Gb"}}},
            "spec.resources.limits[memory]",
            "'1Gb' is not a quantity: unknown suffix 'Gb'" + QUANTITY,
        ),
    ],
)
def test_an_amount_that_cannot_be_read_is_refused_by_field(spec: Object, field: str, fault: str) -> None:
    with pytest.raises(InputError) as refused:
        effective_requests(spec, {})
    assert str(refused.value) == f"{field}: {fault}"


@pytest.mark.parametrize(
    ("state", "field"),
    [
        ({"resources": {"requests": {"cpu": "x"}}}, "status of spec.containers[0].resources[cpu]"),
        (
            {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "x"}},
            "status of spec.containers[0].allocatedResources[cpu]",
        ),
    ],
)
def test_an_amount_in_the_status_is_refused_there(state: Object, field: str) -> None:
    with pytest.raises(InputError) as refused:
        effective_requests({"containers": [container()]}, {"containerStatuses": [{"name": "main"} | state]})
    assert refused.value.field == field


def test_cpu_is_read_in_thousandths_and_all_else_whole() -> None:
    raw = {"cpu": "1500m", "memory": "1Ki", "ephemeral-storage": "0.5", GPU: "1k", "pods": 110}
    assert amounts(raw, "status.capacity") == {"cpu": 1500, "memory": 1024, "ephemeral-storage": 1, GPU: 1000, "pods": 110}


# (restarts always, amounts of two resources): a container as a property sees it.
containers = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 9)), max_size=5)


@given(containers, containers.filter(bool), st.integers(0, 3))
def test_effective_requests_are_the_most_over_all_moments_of_a_pods_life(
    init: list[tuple[bool, int, int]], main: list[tuple[bool, int, int]], overhead: int
) -> None:
    """KEP-753: while init container i runs, the sidecars before it run too; afterwards all sidecars and all containers."""

    def running(moment: list[tuple[bool, int, int]]) -> tuple[int, int]:
        return sum(one[1] for one in moment), sum(one[2] for one in moment)

    moments = [running([*(one for one in init[:index] if one[0]), init[index]]) for index in range(len(init))]
    moments.append(running([*(one for one in init if one[0]), *main]))

    def made(index: int, one: tuple[bool, int, int]) -> Object:
        policy = "Always" if one[0] else "OnFailure"
        return container(f"c{index}", requests={"cpu": f"{one[1]}m", GPU: str(one[2])}, restartPolicy=policy)

    spec: Object = {"containers": [made(index, (False, *one[1:])) for index, one in enumerate(main)]}
    if init:
        spec["initContainers"] = [made(index, one) for index, one in enumerate(init, start=len(main))]
    if overhead:
        spec["overhead"] = {"cpu": f"{overhead}m"}
    found = effective_requests(spec, {})
    assert found.get("cpu", 0) == max(moment[0] for moment in moments) + overhead
    assert found.get(GPU, 0) == max(moment[1] for moment in moments)
