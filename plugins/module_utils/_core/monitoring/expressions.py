# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The figures of a cluster in PromQL: what is recorded, and what is asked for where nothing is.

Each figure builds on others, which it names in angle brackets. Recorded, such a name stands for the series that a rule before it
has made; asked for at once, for the expression itself. So there is one definition of each. Recorded series have a label
``resource`` that the others lack: what stands beside each other in an ``or`` is told apart ``on`` labels that both have.

What the series of kube-state-metrics have against whoever adds them up, and what is done about it here:

- Replicas of it, or an old and a new one in a rollout, tell everything twice: the greatest of each is taken before any sum.
- Pods that wait or have ended have requests too, and those that ended keep their node: only active pods count.
- Nodes without a GPU pod would be lost in a difference: they have 0 allocated, but only where pods are told of at all.
- Init containers count by the largest, beside the sidecars, which are init containers that always restart. The order of the two
  is not told; the sidecars are taken to be there first, which may be one GPU too many and never one too few.
- A gated pod is called unschedulable too.
- Which nodes a pod may use is not told, but for its node selector, if that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from ..cluster.pools import UNNAMED
from .settings import MonitoringSettings

POD = "namespace, pod"
QUANTILES = (0.5, 0.9)

_NAMED = re.compile(r"<([a-z_]+(?:\[[0-9.a-z*]+\])?)>")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        record: The series that it is recorded as, ``level:metric:operations``.
        expr: PromQL, with other figures in angle brackets.
        labels: Labels that tell it from others of the same record.
    """

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Figures(dict[str, Figure]):
    """Figures by name, each after those that it builds on."""

    def __init__(self, resource: str, found: Iterable[tuple[str, Figure]]) -> None:
        super().__init__(found)
        self.resource = resource

    def series(self, name: str) -> str:
        """The recorded series of a figure, of this resource alone; of all sizes for ``name[*]``."""
        stem, every, _rest = name.partition("[*]")
        figure = next(self[each] for each in self if each.startswith(f"{stem}[")) if every else self[name]
        labels = {"resource": self.resource} | ({} if every else dict(figure.labels))
        return figure.record + "{" + ", ".join(f'{label}="{value}"' for label, value in labels.items()) + "}"

    def recorded(self, expr: str) -> str:
        """An expression in which recorded series stand for figures."""
        return _NAMED.sub(lambda found: self.series(found[1]), expr)

    def inline(self, name: str) -> str:
        """A figure as one expression of source series, for a Prometheus without these rules."""
        return _NAMED.sub(lambda found: f"({self.inline(found[1])})", self[name].expr)


def figures(settings: MonitoringSettings) -> Figures:
    """All figures of a resource."""
    sources = Sources(settings)
    parts = [_pods(sources), _nodes(sources), _pools(settings), _waiting(sources), _starts(sources), _evictions(sources)]
    if settings.dcgm:
        parts.append(_use(sources))
    return Figures(settings.resource_name, ((name, _tidy(figure)) for part in parts for name, figure in part))


def _tidy(figure: Figure) -> Figure:
    return Figure(figure.record, dedent(figure.expr).strip(), figure.labels)


class Sources:
    """Series as exporters tell them, each told once and with the labels that Kubernetes has for it."""

    def __init__(self, settings: MonitoringSettings) -> None:
        self.settings = settings
        self.cluster = settings.cluster_label
        self.resource = 'resource="' + re.sub(r"[^a-zA-Z0-9_]", "_", settings.resource_name) + '"'

    def by(self, labels: str) -> str:
        """A list of labels with that of the cluster before it."""
        return f"({self.cluster}, {labels})" if labels else f"({self.cluster})"

    def raw(self, metric: str, *matchers: str, window: str = "") -> str:
        """The selector of a series."""
        given = ", ".join(matcher for matcher in (*matchers, self.settings.matchers) if matcher)
        return metric + (f"{{{given}}}" if given else "") + (f"[{window}]" if window else "")

    def told(self, expr: str, labels: str, pick: str = "max") -> str:
        """A series by Kubernetes' labels alone, once however many exporters tell it."""
        for label in self.settings.exported_labels:
            if label in labels.split(", "):
                # What has no exported_node is on none: the label node would be the exporter's own.
                expr = f'label_replace({expr}, "{label}", "$1", "exported_{label}", "(.*)")'
        return f"{pick} by {self.by(labels)} ({expr})"

    def __call__(self, metric: str, labels: str, *matchers: str) -> str:
        """The newest value of a series, see :meth:`told`."""
        return self.told(self.raw(metric, *matchers), labels)


def _pods(s: Sources) -> Iterator[tuple[str, Figure]]:
    """What pods request."""
    active = s("kube_pod_status_phase", POD, 'phase=~"Pending|Running|Unknown"') + " == 1"
    if s.settings.requests_from == "kube_scheduler":
        requested = s("kube_pod_resource_request", f"{POD}, node", f'resource="{s.settings.resource_name}"')
        told = f"group by {s.by('')} ({s.raw('kube_pod_resource_request')})"
        yield "pod_gpus", Figure("pod:gpuops_requested:max", f"{requested} > 0")
    else:
        key = f"{POD}, node, container"
        own = s("kube_pod_container_resource_requests", key, s.resource)
        init = s("kube_pod_init_container_resource_requests", key, s.resource)
        always = s("kube_pod_init_container_info", f"{POD}, container", 'restart_policy="Always"')
        at, pod = s.by(f"{POD}, container"), s.by(f"{POD}, node")
        told = (
            f"group by {s.by('')} ({s.raw('kube_pod_status_phase')})\n"
            f"and on {s.by('')} group by {s.by('')} ({s.raw('kube_pod_container_resource_requests')})"
        )
        yield "container_gpus", Figure("container:gpuops_requested:max", own)
        yield "sidecar_gpus", Figure("container:gpuops_sidecar_requested:max", f"{init}\nand on {at} {always}")
        yield "init_gpus", Figure("container:gpuops_init_requested:max", f"{init}\nunless on {at} {always}")
        yield (
            "pod_gpus",
            Figure(
                "pod:gpuops_requested:max",
                f"""
                (
                  max by {pod} (
                    label_replace(sum by {pod} (<container_gpus> or <sidecar_gpus>), "moment", "running", "", "")
                    or
                    label_replace(
                      max by {pod} (<init_gpus>) + (sum by {pod} (<sidecar_gpus>) or max by {pod} (<init_gpus>) * 0),
                      "moment", "starting", "", ""
                    )
                  ) > 0
                )
                and on {s.by(POD)} ({active})
                """,
            ),
        )
    # Where pods are not told of at all, nothing is known of what they leave free.
    yield "pods_told", Figure("cluster:gpuops_pods_told:group", told)


def _nodes(s: Sources) -> Iterator[tuple[str, Figure]]:
    """What nodes offer, and what is left of it."""
    at, c = s.by("node"), s.by("")
    offered = s("kube_node_status_allocatable", "node", s.resource)
    capacity = s("kube_node_status_capacity", "node", s.resource)
    yield "node_offered", Figure("node:gpuops_offered:max", f"{offered}\nand on {at} (({capacity} > 0) or ({offered} > 0))")
    yield "node_pool", Figure("node:gpuops_pool:group", _pool_of_nodes(s))
    yield "node_gpus", Figure("node:gpuops_allocatable:max", f"<node_offered> * on {at} group_left (pool) <node_pool>")
    yield (
        "node_allocated",
        Figure(
            "node:gpuops_allocated:sum",
            f"""
            (
              sum by {at} (<pod_gpus>) * on {at} group_left (pool) group by {s.by("node, pool")} (<node_gpus>)
              or on {at}
              <node_gpus> * 0
            )
            and on {c} <pods_told>
            """,
        ),
    )
    # More may be requested than is left where devices failed.
    yield "node_free", Figure("node:gpuops_free:sum", "clamp_min(<node_gpus> - <node_allocated>, 0)")
    busy = s("kube_pod_info", f"{POD}, node", 'created_by_kind!~"DaemonSet|Node"')
    active = s("kube_pod_status_phase", POD, 'phase=~"Pending|Running|Unknown"')
    yield (
        "node_reclaimable",
        Figure(
            "node:gpuops_reclaimable:group",
            f"""
            group by {s.by("pool, node")} (
              (<node_gpus> >= on {at} group_left () {capacity})
              unless on {at} ({busy} and on {s.by(POD)} ({active} == 1))
            )
            and on {c} <pods_told>
            and on {c} group by {c} ({s.raw("kube_pod_info")})
            """,
        ),
    )
    slot_size = "<node_gpus> * 0"
    if s.settings.slot_size is None:
        largest = f"max by {c} (<pod_gpus> <= on {c} group_left () max by {c} (<node_gpus>))"
        yield (
            "slot_size",
            Figure("cluster:gpuops_slot_size:max", f"{largest}\nor\nmax by {c} ({slot_size}) + {max(s.settings.sizes)}"),
        )
    else:
        yield "slot_size", Figure("cluster:gpuops_slot_size:max", f"max by {c} ({slot_size}) + {s.settings.slot_size}")
    # On a smaller node, of the node's own size.
    yield (
        "node_stranded",
        Figure(
            "node:gpuops_stranded:sum",
            f"""
            <node_free> % (
              ((<node_gpus> > 0) < on {c} group_left () <slot_size>)
              or
              (<node_gpus> * 0 + on {c} group_left () <slot_size>)
            )
            """,
        ),
    )


def _pool_of_nodes(s: Sources) -> str:
    """The product of each node, where labels are told; nodes whose GPUs several pods share are left out."""
    at = s.by("node")
    named = []
    for product in s.settings.product_labels:
        label = _label_of(product)
        told = s("kube_node_labels", f"node, {label}", f'{label}!=""')
        named.append(f'label_replace({told}, "pool", "$1", "{label}", "(.*)")')
    named.append(f'label_replace(<node_offered>, "pool", "{UNNAMED}", "", "")')
    named = [f"group by {s.by('node, pool')} ({each})" for each in named]
    strategies = (
        ("nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "cloud.google.com/gke-max-shared-clients-per-gpu"),
    )
    shared = [f'{_label_of("nvidia.com/gpu.product")}=~".+-SHARED"']
    shared += [f'{_label_of(how)}=~"time-slicing|time-sharing|mps", {_label_of(times)}!~"|0|1"' for how, times in strategies]
    unless = (
        ""
        if s.settings.resource_name.endswith(".shared")
        else "".join(f"\nunless on {at} {s('kube_node_labels', 'node', matchers)}" for matchers in shared)
    )
    return f"(\n  {f'{chr(10)}  or on {at} '.join(named)}\n)\nand on {at} <node_offered>{unless}"


def _label_of(key: str, kind: str = "label") -> str:
    """The label in which kube-state-metrics tells a label of Kubernetes, or what a ``nodeselector`` asks of it."""
    text = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return f"{kind}_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()


def _pools(settings: MonitoringSettings) -> Iterator[tuple[str, Figure]]:
    """Sums over nodes that are alternatives to each other."""
    by = f"({settings.cluster_label}, pool)"
    yield "pool_nodes", Figure("pool:gpuops_nodes:count", f"count by {by} (<node_gpus>)")
    yield "pool_gpus", Figure("pool:gpuops_allocatable:sum", f"sum by {by} (<node_gpus>)")
    yield "pool_allocated", Figure("pool:gpuops_allocated:sum", f"sum by {by} (<node_allocated>)")
    yield "pool_free", Figure("pool:gpuops_free:sum", f"sum by {by} (<node_free>)")
    yield "pool_largest", Figure("pool:gpuops_largest_slot:max", f"max by {by} (<node_free>)")
    yield "pool_stranded_now", Figure("pool:gpuops_stranded_now:sum", f"sum by {by} (<node_stranded>)")
    # Where no device of a pool works, there is nothing to use: no series, not 0 / 0.
    yield "pool_utilization", Figure("pool:gpuops_utilization:ratio", "(<pool_gpus> - <pool_free>) / (<pool_gpus> > 0)")
    yield (
        "pool_schedulable",
        Figure(
            "pool:gpuops_schedulable_utilization:ratio",
            "clamp_min(<pool_gpus> - <pool_free> - <pool_stranded_now>, 0) / (<pool_gpus> > 0)",
        ),
    )
    yield (
        "pool_reclaimable",
        Figure("pool:gpuops_reclaimable:count", f"count by {by} (<node_reclaimable>)\nor on {by}\n<pool_free> * 0"),
    )
    k = settings.fragmentation_size
    yield (
        "pool_fragmentation",
        Figure(
            "pool:gpuops_fragmentation:ratio",
            f"avg by {by} ((<node_free> > bool 0) * (<node_free> < bool {k}))",
            {"size": str(k)},
        ),
    )
    for size in sorted(set(settings.sizes)):
        labels = {"size": str(size)}
        yield f"pool_slots[{size}]", Figure("pool:gpuops_slots:sum", f"sum by {by} (floor(<node_free> / {size}))", labels)
        yield f"pool_stranded[{size}]", Figure("pool:gpuops_stranded:sum", f"sum by {by} (<node_free> % {size})", labels)


def _waiting(s: Sources) -> Iterator[tuple[str, Figure]]:
    """GPU pods that wait, those that fragmentation keeps waiting, and those that are not Ready."""
    c, pod = s.by(""), s.by(POD)
    bound = s("kube_pod_status_scheduled", POD, 'condition="true"')
    yield (
        "pod_unschedulable",
        Figure(
            "pod:gpuops_unschedulable:max",
            f"""
            max by {pod} (<pod_gpus>)
            and on {pod} ({s("kube_pod_status_unschedulable", POD)} == 1)
            unless on {pod} ({bound} == 1)
            unless on {pod} ({s("kube_pod_status_reason", POD, 'reason="SchedulingGated"')} == 1)
            """,
        ),
    )
    yield "pod_pool", Figure("pod:gpuops_pool:group", _pool_of_pods(s))
    at = s.by("pool")
    anywhere = []
    for size in range(1, max(s.settings.sizes) + 1):
        # The scheduler finds no node for them, and no single node of the pool has what all of them have together.
        scattered = f"((<pool_free> >= {size}) and (<pool_largest> < {size}))"
        waiting = f"(<pod_unschedulable> == {size})"
        anywhere.append(f"({waiting} unless on {pod} <pod_pool>) and on {c} {scattered}")
        yield (
            f"pool_blocked[{size}]",
            Figure(
                "pool:gpuops_blocked_pods:count",
                f"""
                (
                  (<pool_free> * 0 + on {c} group_left () count by {c} ({waiting} unless on {pod} <pod_pool>) or <pool_free> * 0)
                  + on {at}
                  (count by {at} (<pod_pool> and on {pod} {waiting}) or on {at} <pool_free> * 0)
                )
                and on {at} {scattered}
                or on {at}
                <pool_free> * 0
                """,
                {"size": str(size)},
            ),
        )
    named = f"(<pod_unschedulable> * on {pod} group_left (pool) <pod_pool>)"
    there = f"({named} <= on {at} group_left () <pool_free>) > on {at} group_left () <pool_largest>"
    # Of pools of one cluster the same pods may be counted; here each is once.
    either = "\n  or\n  ".join([there, *anywhere])
    yield "pod_blocked", Figure("pod:gpuops_blocked:max", f"max by {pod} (\n  {either}\n)")
    none = f"or on {c}\nmax by {c} (<pool_free>) * 0"
    yield "blocked_pods", Figure("cluster:gpuops_blocked_pods:sum", f"count by {c} (<pod_blocked>)\n{none}")
    yield "blocked_gpus", Figure("cluster:gpuops_blocked_gpus:sum", f"sum by {c} (<pod_blocked>)\n{none}")
    since = f"({s('kube_pod_status_unscheduled_time', POD)} or {s('kube_pod_created', POD)})"
    yield (
        "blocked_seconds",
        Figure("cluster:gpuops_blocked_seconds:max", f"max by {c} (time() - {since} and on {pod} <pod_blocked>)\n{none}"),
    )
    yield "pods", Figure("cluster:gpuops_pods:count", f"count by {c} (max by {pod} (<pod_gpus>) and on {pod} ({bound} == 1))")
    ready = s("kube_pod_status_ready", POD, 'condition="true"')
    yield (
        "pods_not_ready",
        Figure(
            "cluster:gpuops_pods_not_ready:count",
            f"""
            count by {c} (max by {pod} (<pod_gpus>) and on {pod} ({bound} == 1) unless on {pod} ({ready} == 1))
            or on {c}
            <pods> * 0
            """,
        ),
    )


def _pool_of_pods(s: Sources) -> str:
    """The pool that a waiting pod names in its node selector, where that is told and there is such a pool."""
    at = s.by(POD)
    named = []
    for product in s.settings.product_labels:
        label = _label_of(product, "nodeselector")
        told = s("kube_pod_nodeselectors", f"{POD}, {label}", f'{label}!=""')
        pool = f'group by {s.by(f"{POD}, pool")} (label_replace({told}, "pool", "$1", "{label}", "(.*)"))'
        named.append(f"({pool} and on {s.by('pool')} <pool_free>)")
    return f"(\n  {f'{chr(10)}  or on {at} '.join(named)}\n)\nand on {at} <pod_unschedulable>"


def _starts(s: Sources) -> Iterator[tuple[str, Figure]]:
    """How long GPU pods take from being scheduled to being Ready for the first time."""
    window, key = s.settings.cold_start_window, f"{POD}, uid"
    # The time moves whenever readiness comes back, and is gone while the pod is not Ready: the earliest that was seen counts.
    first = s.told(f"min_over_time({s.raw('kube_pod_status_ready_time', window=window)})", key, "min")
    scheduled = s("kube_pod_status_scheduled_time", key)
    yield (
        "pod_cold_start",
        Figure(
            "pod:gpuops_cold_start_seconds:min",
            f"""
            (
              {first}
              - ({scheduled} > time() - {_seconds(window)})
            )
            and on {s.by(POD)} <pod_gpus>
            """,
        ),
    )
    owner, kind = "owner_name", "owner_kind"
    sets = s("kube_replicaset_owner", f"namespace, replicaset, {kind}, {owner}", f'{kind}!=""')
    deployed = f'label_replace(label_join({sets}, "workload", "/", "{kind}", "{owner}"), "{owner}", "$1", "replicaset", "(.*)")'
    by_set = s("kube_pod_owner", f"{POD}, {owner}", f'{kind}="ReplicaSet"')
    others = s("kube_pod_owner", f"{POD}, {kind}, {owner}", f'{kind}!=""')
    yield (
        "pod_workload",
        Figure(
            "pod:gpuops_workload:group",
            f"""
            (
              group by {s.by(f"{POD}, workload")} (
                {by_set}
                * on {s.by(f"namespace, {owner}")} group_left (workload)
                {deployed}
              )
              or on {s.by(POD)}
              group by {s.by(f"{POD}, workload")} (
                label_join({others}, "workload", "/", "{kind}", "{owner}")
              )
            )
            and on {s.by(POD)} <pod_gpus>
            """,
        ),
    )
    for quantile in QUANTILES:
        labels = {"quantile": str(quantile)}
        yield (
            f"cold_start[{quantile}]",
            Figure(
                "cluster:gpuops_cold_start_seconds:quantile", f"quantile by {s.by('')} ({quantile}, <pod_cold_start>)", labels
            ),
        )
        yield (
            f"workload_cold_start[{quantile}]",
            Figure(
                "workload:gpuops_cold_start_seconds:quantile",
                f"""
                quantile by {s.by("namespace, workload")} (
                  {quantile}, <pod_cold_start> * on {s.by(POD)} group_left (workload) <pod_workload>
                )
                """,
                labels,
            ),
        )


def _evictions(s: Sources) -> Iterator[tuple[str, Figure]]:
    """GPU pods that left by the Eviction API, whoever asked for it, and what the descheduler counts of its own."""
    for window in ("10m", "1h", "6h"):
        evicted = s.raw("kube_pod_status_disruption_reason", 'reason="EvictionByEvictionAPI"', window=window)
        asked = s.raw("kube_pod_container_resource_requests", s.resource, window=window)
        # By uid: the next pod of a StatefulSet has the same name.
        yield (
            f"evicted[{window}]",
            Figure(
                f"namespace:gpuops_evicted_pods:count{window}",
                f"""
                count by {s.by("namespace")} (
                  {s.told(f"max_over_time({evicted})", f"{POD}, uid")}
                  and on {s.by(POD)} {s.told(f"max_over_time({asked})", POD)}
                )
                """,
            ),
        )
    # Under another name before 0.34. The result may be a whole sentence; only this one is a success. A dry run counts as one.
    counted = [f'sum by {s.by("")} (increase({name}{{result="success"}}[1h]))' for name in DESCHEDULER_COUNTERS]
    yield "descheduler_evictions", Figure("cluster:gpuops_descheduler_evictions:increase1h", "\nor\n".join(counted))


def _use(s: Sources) -> Iterator[tuple[str, Figure]]:
    """Which share of the time GPUs have something to do, by DCGM."""
    gpu = "node, UUID, GPU_I_ID"
    # Its labels have changed their names, and beside a scrape's own they have others again. Where a GPU has no pod, that told may
    # be the exporter's, which asks for no GPU.
    names = {"node": ("hostname", "Hostname"), "namespace": ("exported_namespace",), "pod": ("exported_pod",)}

    def told(metric: str) -> str:
        for label, others in names.items():
            for other in others:
                metric = f'label_replace({metric}, "{label}", "$1", "{other}", "(.+)")'
        return f"max by {s.by(f'{gpu}, {POD}')} ({metric})"

    yield (
        "gpu_busy",
        Figure(
            "gpu:gpuops_busy:ratio",
            f"""
            (
              (
                {told("DCGM_FI_DEV_GPU_UTIL")} / 100
                or on {s.by(gpu)}
                {told("DCGM_FI_PROF_GR_ENGINE_ACTIVE")}
              ) <= 1
            )
            * on {s.by("node")} group_left (pool) group by {s.by("node, pool")} (<node_gpus>)
            """,
        ),
    )
    once = f"max by {s.by(f'pool, {gpu}')} (<gpu_busy>)"
    yield "node_busy", Figure("node:gpuops_busy:avg", f"avg by {s.by('pool, node')} ({once})")
    yield "pool_busy", Figure("pool:gpuops_busy:avg", f"avg by {s.by('pool')} ({once})")
    yield "pod_busy", Figure("pod:gpuops_busy:avg", f"avg by {s.by(POD)} (<gpu_busy>)\nand on {s.by(POD)} <pod_gpus>")


DESCHEDULER_COUNTERS = ("descheduler_pods_evicted_total", "descheduler_pods_evicted")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def _seconds(duration: str) -> str:
    total = sum(int(amount) * _UNITS[unit] for amount, unit in re.findall(r"([0-9]+)(ms|[smhdwy])", duration))
    return f"{total:g}"
