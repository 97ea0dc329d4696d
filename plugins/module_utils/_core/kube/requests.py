# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a pod requests, exactly as kube-scheduler counts it.

The rule is ``PodRequests`` of ``k8s.io/component-helpers/resource`` (v0.36): the sum over containers and sidecars, or
the largest moment of the init phase if that is more; pod-level requests replace the sum where they are given; a
resize in place counts the largest of what is wanted, granted and running; the overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..errors import InputError
from .quantity import count, milli, whole

Reader: TypeAlias = Callable[[str | int | float], int]
Unit: TypeAlias = Callable[[str], Reader]

_NOTHING: Mapping[str, Any] = {}


def unit_of(resource: str) -> Reader:
    """How amounts of a resource are read: CPU in thousandths, devices (a name with a domain) in whole pieces."""
    if resource == "cpu":
        return milli
    return count if "/" in resource else whole


def _exact_unit_of(resource: str) -> Reader:
    """How amounts are read that are yet to be added up: the sum is rounded, not what it is made of."""
    return count if "/" in resource else milli


def _rounded(resource: str, amount: int) -> int:
    """A sum of such amounts in the scheduler's unit, rounded up."""
    return amount if resource == "cpu" or "/" in resource else -(-amount // 1000)


def amounts(raw: Mapping[str, Any], field: str, unit: Unit = unit_of) -> dict[str, int]:
    """A resource list in the scheduler's units.

    Raises:
        InputError: An amount is no quantity, negative, or a fraction of a device; it names the resource.
    """
    result = {}
    for name, text in raw.items():
        try:
            result[name] = unit(name)(text)
        except (ValueError, TypeError) as error:
            wrong = f"{type(text).__name__} is not a quantity" if isinstance(text, (dict, list)) else str(error)
            fix = "ask for a whole number of devices" if "/" in name else "write a quantity such as 500m, 2 or 16Gi"
            raise InputError(f"{wrong}; {fix}", field=f"{field}[{name}]") from None
    return result


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _asked(resources: Mapping[str, Any], field: str, unit: Unit) -> dict[str, int]:
    """Requests; a resource that has a limit alone requests that limit, as the API server defaults it."""
    requests, limits = resources.get("requests") or _NOTHING, resources.get("limits") or _NOTHING
    if limits.keys() <= requests.keys():
        return amounts(requests, f"{field}.requests", unit)
    return amounts(limits, f"{field}.limits", unit) | amounts(requests, f"{field}.requests", unit)


def _resized(asked: dict[str, int], status: Mapping[str, Any], infeasible: bool, field: str) -> dict[str, int]:
    """Requests of a container (or pod) that was or is being resized in place."""
    result = {} if infeasible else dict(asked)
    _raise_to(
        result, amounts((status.get("resources") or _NOTHING).get("requests") or _NOTHING, f"{field}.resources", _exact_unit_of)
    )
    _raise_to(result, amounts(status.get("allocatedResources") or _NOTHING, f"{field}.allocatedResources", _exact_unit_of))
    return result


def effective_requests(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    """Effective requests of a pod.

    Args:
        spec: The pod's spec.
        status: The pod's status; needed for resizes in place.

    Returns:
        Amounts by resource in the scheduler's units, zero amounts left out.

    Raises:
        InputError: A quantity cannot be read; it names the field.
    """
    containers = spec["containers"]
    if len(containers) == 1 and not spec.keys() & {"initContainers", "overhead", "resources"}:
        state = status.get("containerStatuses")
        if not state or not state[0].get("resources"):
            simple = _asked(containers[0].get("resources") or _NOTHING, "spec.containers[0].resources", unit_of)
            return simple if all(simple.values()) else {name: n for name, n in simple.items() if n}
    return {name: _rounded(name, amount) for name, amount in _in_full(spec, status).items() if amount}


def _in_full(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    statuses = {
        state.get("name"): state for group in ("containerStatuses", "initContainerStatuses") for state in status.get(group) or ()
    }
    pending_resize = next((c for c in status.get("conditions") or () if c.get("type") == "PodResizePending"), _NOTHING)
    infeasible = pending_resize.get("reason") == "Infeasible"

    def of(container: Mapping[str, Any], field: str, may_resize: bool) -> dict[str, int]:
        asked = _asked(container.get("resources") or _NOTHING, f"{field}.resources", _exact_unit_of)
        state = statuses.get(container.get("name"), _NOTHING)
        if not may_resize or not state.get("resources"):
            return asked
        return _resized(asked, state, infeasible, f"status of {field}")

    total: dict[str, int] = {}
    for index, container in enumerate(spec["containers"]):
        _add(total, of(container, f"spec.containers[{index}]", True))

    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(spec.get("initContainers") or ()):
        sidecar = container.get("restartPolicy") == "Always"
        asked = of(container, f"spec.initContainers[{index}]", sidecar)
        if sidecar:
            _add(total, asked)
            _add(sidecars, asked)
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, asked)
        _raise_to(peak, moment)
    _raise_to(total, peak)

    if spec.get("resources"):
        asked = {n: v for n, v in _asked_by_pod(spec["resources"], total).items() if n in ("cpu", "memory") or _huge(n)}
        resized = _resized(asked, status, infeasible, "status") if status.get("resources") else asked
        total |= {name: resized.get(name, 0) for name in asked}
    _add(total, amounts(spec.get("overhead") or _NOTHING, "spec.overhead", _exact_unit_of))
    return total


def _asked_by_pod(resources: Mapping[str, Any], containers: Mapping[str, int]) -> dict[str, int]:
    """Pod-level requests; a limit alone is the request only of what no container requests (or of huge pages)."""
    requests = amounts(resources.get("requests") or _NOTHING, "spec.resources.requests", _exact_unit_of)
    limits = amounts(resources.get("limits") or _NOTHING, "spec.resources.limits", _exact_unit_of)
    return {name: limit for name, limit in limits.items() if name not in containers or _huge(name)} | requests


def _huge(resource: str) -> bool:
    return resource.startswith("hugepages-")
