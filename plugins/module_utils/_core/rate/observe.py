# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Readings of the cluster as the API server tells it, and of what was moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from ..audit.measures import AuditOptions, Fragmentation, measure
from ..execution.record import HOUR, State
from ..kube.model import Cluster, Pod
from ..plan.budgets import Budgets
from ..plan.workloads import Workloads, workload_of
from .readings import SKEW, Readings, Service
from .series import percentiles


def observe(cluster: Cluster, options: AuditOptions, moves: State | None, judged: float) -> Readings:
    """What is known of a cluster without Prometheus.

    Args:
        cluster: As it is now.
        options: Which GPUs are looked at, and at which size they count as stranded: by default at every size that pods ask
            for, weighted by the GPUs that they ask for.
        moves: What was moved; None where that cannot be understood.
        judged: When the last wave ended that was judged before, in seconds since 1970.
    """
    found = measure(cluster, options)
    pods = [pod for node in found.survey.nodes for pod in node.pods if not pod.terminating]
    readings = Readings(
        gpu_pods=len(pods),
        gpu_pods_not_ready=sum(not pod.ready for pod in pods),
        cold_start=percentiles(_starts(pods)),
        services=_services(pods, moves),
        as_of=cluster.now,
    )
    if moves:
        readings = _moved(readings, moves, judged)
    return _blocked(_headroom(_stranded(readings, found), cluster, pods), found, cluster.now)


def _starts(pods: list[Pod]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for pod in pods:
        if pod.ready_since is not None and pod.scheduled is not None and pod.ready_since >= pod.scheduled:
            found[workload_of(pod)].append(pod.ready_since - pod.scheduled)
    return found


def _services(pods: list[Pod], moves: State | None) -> dict[str, Service]:
    count, cold = Counter(map(workload_of, pods)), Counter(workload_of(pod) for pod in pods if not pod.ready)
    flying = Counter(flight.workload for flight in moves.run.flights) if moves and moves.run else Counter[str]()
    return {name: Service(count[name], cold[name], min(cold[name], flying[name])) for name in sorted(count)}


def _moved(readings: Readings, moves: State, judged: float) -> Readings:
    now, flights = readings.as_of, moves.run.flights if moves.run else []
    if now is None:
        return readings
    # A clock that was set back leaves waves that end later than now: these are judged in their time.
    ended = [each for each in moves.ended if each.at <= now + SKEW]
    fresh = [each for each in ended if each.at > judged]
    return replace(
        readings,
        in_flight=sum(service.in_flight for service in (readings.services or {}).values()),
        evictions=sum(each.evicted for each in moves.ended if each.at > now - HOUR) + len(flights),
        strays=sum(each.strays for each in fresh),
        unready=sum(each.unready for each in fresh),
        judged=max((each.at for each in ended), default=None),
    )


def _stranded(readings: Readings, found: Fragmentation) -> Readings:
    total, mix = found.total.gpus_total, found.mix
    if not total:
        return readings.without("stranded_share", f"no node offers {found.options.resource}")
    if found.options.slot_size is not None:
        return replace(readings, stranded_share=found.total.stranded_now / total)
    asked = sum(size * pods for size, pods in mix.items())
    lost = sum(size * pods * sum(node.stranded(size) for node in found.survey.nodes) for size, pods in mix.items())
    return replace(readings, stranded_share=lost / asked / total if asked else 0.0)


def _headroom(readings: Readings, cluster: Cluster, pods: list[Pod]) -> Readings:
    if "PodDisruptionBudget" not in cluster.kinds:
        return readings.without("budget_headroom", "PodDisruptionBudgets were not read")
    allows = Budgets(cluster, Workloads(cluster)).begin()
    return replace(readings, budget_headroom=sum(allows(pod) for pod in pods))


def _blocked(readings: Readings, found: Fragmentation, now: float | None) -> Readings:
    waiting = [outlook.pod.created for outlook in found.blocked]
    since = [moment for moment in waiting if moment is not None]
    readings = replace(readings, blocked_gpus=sum(outlook.gpus for outlook in found.blocked))
    if now is None or len(since) < len(waiting):
        return readings.without("blocked_seconds", "how long pods have waited is not told")
    return replace(readings, blocked_seconds=max(0.0, now - min(since, default=now)))
