# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What a pod requests, exactly as kube-scheduler counts it.

The rule is ``PodRequests`` of ``k8s.io/component-helpers/resource`` (v0.36): the sum over containers and sidecars, or
the largest moment of the init phase if that is more; pod-level requests replace the sum where they are given; a
resize in place counts the largest of what is wanted, granted and running; the overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import InputError
from .quantity import count, milli, whole

_NOTHING: Mapping[str, Any] = {}


def unit_of(resource: str) -> Callable[[str | int | float], int]:
    """How amounts of a resource are read: CPU in thousandths, devices (a name with a domain) in whole pieces."""
    if resource == "cpu":
        return milli
    return count if "/" in resource else whole


def amounts(raw: Mapping[str, Any], field: str) -> dict[str, int]:
    """A resource list in the scheduler's units.

    Raises:
        InputError: An amount is no quantity, negative, or a fraction of a device; it names the resource.
    """
    result = {}
    for name, text in raw.items():
        try:
            result[name] = unit_of(name)(text)
        except (ValueError, TypeError) as error:
            fix = "ask for a whole number of devices" if "/" in name else "write a quantity such as 500m, 2 or 16Gi"
            raise InputError(f"{error}; {fix}", field=f"{field}[{name}]") from None
    return result


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _asked(resources: Mapping[str, Any], field: str) -> dict[str, int]:
    """Requests; a resource that has a limit alone requests that limit, as the API server defaults it."""
    requests, limits = resources.get("requests") or _NOTHING, resources.get("limits") or _NOTHING
    if limits.keys() <= requests.keys():
        return amounts(requests, f"{field}.requests")
    return amounts(limits, f"{field}.limits") | amounts(requests, f"{field}.requests")


def _resized(asked: dict[str, int], status: Mapping[str, Any], infeasible: bool, field: str) -> dict[str, int]:
    """Requests of a container (or pod) that was or is being resized in place."""
    result = {} if infeasible else dict(asked)
    _raise_to(result, amounts((status.get("resources") or _NOTHING).get("requests") or _NOTHING, f"{field}.resources"))
    _raise_to(result, amounts(status.get("allocatedResources") or _NOTHING, f"{field}.allocatedResources"))
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
            simple = _asked(containers[0].get("resources") or _NOTHING, "spec.containers[0].resources")
            return simple if all(simple.values()) else {name: n for name, n in simple.items() if n}
    return {name: amount for name, amount in _in_full(spec, status).items() if amount}


def _in_full(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    statuses = {
        state.get("name"): state for group in ("containerStatuses", "initContainerStatuses") for state in status.get(group) or ()
    }
    pending_resize = next((c for c in status.get("conditions") or () if c.get("type") == "PodResizePending"), _NOTHING)
    infeasible = pending_resize.get("reason") == "Infeasible"

    def of(container: Mapping[str, Any], field: str, may_resize: bool) -> dict[str, int]:
        asked = _asked(container.get("resources") or _NOTHING, f"{field}.resources")
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
        asked = _asked(spec["resources"], "spec.resources")
        if status.get("resources"):
            asked = _resized(asked, status, infeasible, "status")
        total |= {n: v for n, v in asked.items() if n in ("cpu", "memory") or n.startswith("hugepages-")}
    _add(total, amounts(spec.get("overhead") or _NOTHING, "spec.overhead"))
    return total
