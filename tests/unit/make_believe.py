# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster in memory, with a clock of its own: it does what is asked as a real one would, and can be made to fail."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.layout import Layout
from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Fit
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.order import Move
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.steer import EVICT, TAINT, compared, ours
from ansible_collections.gpuops.defrag.plugins.module_utils._core.execution.surge import COST, Deployment
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, epoch
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.model import Cluster, Pod
from ansible_collections.gpuops.defrag.plugins.module_utils._execution.actions import Answer, LeaseLostError, Leaving
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object, budget, node, pod, workload

START = epoch("2026-11-30T12:00:00Z")
LEASE = 30.0


@dataclass
class MakeBelieve:
    """Nodes, Deployments and their pods.

    Attributes:
        cold_start: Seconds from bound to Ready.
        needed: Pods that a budget keeps ready, by app; an app without an entry has no budget.
        never_ready: Apps whose new pods do not become Ready.
        heeds_taints: The scheduler prefers nodes without soft taints.
        begins: From which node on the scheduler looks for those that it compares.
        descheduler: It runs, and evicts what is labelled.
        autoscalers: Apps that a HorizontalPodAutoscaler scales.
        least: The fewest ready pods that each app had at any time.
        told: Reasons of the Events.
    """

    cold_start: float = 3.0
    nodes: dict[str, Object] = field(default_factory=dict)
    running: list[Object] = field(default_factory=list)
    replicas: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    needed: dict[str, int] = field(default_factory=dict)
    never_ready: set[str] = field(default_factory=set)
    heeds_taints: bool = True
    begins: int = 0
    descheduler: bool = False
    autoscalers: set[str] = field(default_factory=set)
    asked: dict[str, str] = field(default_factory=dict)
    metrics: str | None = None
    least: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    evictions: int = 0
    text: str | None = None
    time: float = START
    made: int = 0
    lease: tuple[str, float] | None = None
    on_wait: Callable[[], None] = lambda: None

    # How it is set up.

    def add(self, name: str, gpus: int = 8, **more: Any) -> None:
        self.nodes[name] = node(name, gpus, **more)

    def serve(self, app: str, gpus: int, *homes: str, replicas: int | None = None) -> None:
        """A Deployment with ready pods on these nodes."""
        self.replicas[app] = len(homes) if replicas is None else replicas
        self.sizes[app] = gpus
        for home in homes:
            self._create(app, home)["status"] = self._status(True)
        self._sample()

    def objects(self) -> list[Any]:
        """What the API server would list."""
        owners = [workload("Deployment", app, number) for app, number in self.replicas.items()]
        sets = [workload("ReplicaSet", f"{app}-1", number, owner=f"Deployment/{app}") for app, number in self.replicas.items()]
        budgets = {"kind": "PodDisruptionBudgetList", "items": [self._budget(app) for app in self.needed]}
        return copy.deepcopy([*owners, *sets, budgets, *self.running, *self.nodes.values()])

    # How it goes on.

    def tick(self) -> None:
        """Controllers, scheduler, descheduler and kubelets do what there is to do."""
        if self.descheduler:
            for each in [p for p in self.running if p["metadata"]["labels"].get(EVICT) == "true"]:
                self._let_go(each)
        for app, wanted in self.replicas.items():
            mine = sorted(self.of(app), key=self._dear)
            for each in mine[: max(0, len(mine) - wanted)]:
                self.running.remove(each)
            for _more in range(wanted - len(mine)):
                self._create(app, "")
        for each in sorted((p for p in self.running if not p["spec"].get("nodeName")), key=lambda p: str(p["metadata"]["name"])):
            self._schedule(each)
        for each in self.running:
            since = each["metadata"]["bound"]
            late = each["spec"].get("nodeName") and self.time - since >= self.cold_start
            fine = each["metadata"]["labels"]["app"] not in self.never_ready or each["metadata"]["old"]
            if late and fine:
                each["status"] = self._status(True)
        self._sample()

    def of(self, app: str) -> list[Object]:
        return [each for each in self.running if each["metadata"]["labels"]["app"] == app]

    def ready(self, app: str) -> int:
        return sum(each["status"]["conditions"][0]["status"] == "True" for each in self.of(app))

    def where(self) -> dict[str, list[str]]:
        """The apps on each node."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for each in self.running:
            found.setdefault(each["spec"].get("nodeName") or "", []).append(each["metadata"]["labels"]["app"])
        return {name: sorted(apps) for name, apps in found.items()}

    def traces(self) -> list[str]:
        """What of ours is left on nodes and pods, the marks of nodes that could be given back aside."""
        taints = [name for name, each in self.nodes.items() for t in each["spec"].get("taints", ()) if t["key"] == TAINT.key]
        closed = [name for name, each in self.nodes.items() if each["spec"].get("unschedulable")]
        labels = [p["metadata"]["name"] for p in self.running if EVICT in p["metadata"]["labels"]]
        costs = [p["metadata"]["name"] for p in self.running if COST in p["metadata"].get("annotations", {})]
        lease = [self.lease[0]] if self.lease else []
        return [*taints, *closed, *labels, *costs, *lease]

    def _create(self, app: str, home: str) -> Object:
        self.made += 1
        name = f"{app}-1-{self.made:03}"
        made = pod(
            name,
            self.sizes[app],
            home,
            labels={"app": app, "pod-template-hash": "1"},
            owner=f"ReplicaSet/{app}-1",
            created=_text(self.time),
            metadata={"uid": f"uid-{name}", "bound": self.time, "old": bool(home)},
            status=self._status(False),
        )
        self.running.append(made)
        return made

    def _schedule(self, each: Object) -> None:
        cluster = decode(self.objects(), now=self.time, live=True)
        layout = Layout(cluster)
        me = next(p for p in cluster.pending if p.uid == each["metadata"]["uid"])
        fit = Fit(me, layout, GPU)
        nodes = list(cluster.nodes.values())
        around = nodes[self.begins :] + nodes[: self.begins]
        free = [n for n in around if not fit.refusals(n)][: compared(len(nodes))]
        if free:
            repels = {n.name: self.heeds_taints and any(map(ours, n.taints)) for n in free}
            best = min(free, key=lambda n: (repels[n.name], -layout.room(n, GPU), n.name))
            each["spec"]["nodeName"] = best.name
            each["metadata"]["bound"] = self.time
            each["status"] = self._status(False)

    @staticmethod
    def _status(ready: bool) -> Object:
        return {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}

    def _dear(self, each: Object) -> tuple[bool, bool, int]:
        ready = each["status"]["conditions"][0]["status"] == "True"
        return bool(each["spec"].get("nodeName")), ready, int(each["metadata"].get("annotations", {}).get(COST, 0))

    def _budget(self, app: str) -> Object:
        allowed = max(0, self.ready(app) - self.needed[app])
        return budget(app, {"app": app}, allowed=allowed, healthy=self.ready(app), needed=self.needed[app])

    def _let_go(self, each: Object) -> bool:
        app = each["metadata"]["labels"]["app"]
        if app in self.needed and self.ready(app) <= self.needed[app]:
            return False
        self.running.remove(each)
        self.evictions += 1
        self._sample()
        return True

    def _sample(self) -> None:
        for app in self.replicas:
            self.least[app] = min(self.least.get(app, self.ready(app)), self.ready(app))

    def _find(self, namespace: str, uid: str) -> Object | None:
        return next((p for p in self.running if p["metadata"]["uid"] == uid and namespace == "default"), None)


@dataclass
class Hands:
    """The actions of one run on a cluster in memory; as :class:`Actions` says."""

    cluster: MakeBelieve
    holder: str = "one"

    def now(self) -> float:
        return self.cluster.time

    def wait(self, seconds: float) -> None:
        self.cluster.time += seconds
        self.cluster.on_wait()
        self.cluster.tick()
        self._keep()

    def locked(self) -> str | None:
        lease = self.cluster.lease
        return lease[0] if lease and lease[0] != self.holder and lease[1] + LEASE > self.cluster.time else None

    def lock(self) -> str | None:
        if holder := self.locked():
            return holder
        self.cluster.lease = (self.holder, self.cluster.time)
        return None

    def _keep(self) -> None:
        if self.cluster.lease is None or self.cluster.lease[0] != self.holder:
            raise LeaseLostError("another run has taken the Lease")
        self.cluster.lease = (self.holder, self.cluster.time)

    def release(self) -> None:
        if self.cluster.lease and self.cluster.lease[0] == self.holder:
            self.cluster.lease = None

    def load(self) -> str | None:
        return self.cluster.text

    def save(self, text: str) -> None:
        self._keep()
        self.cluster.text = text

    def annotations(self) -> Mapping[str, Mapping[str, str]]:
        return {"Namespace kube-system": self.cluster.asked}

    def fires(self) -> str | None:
        return self.cluster.metrics

    def read(self) -> Cluster:
        return decode(self.cluster.objects(), now=self.cluster.time, live=True)

    def pods(self, namespaces: Iterable[str]) -> list[Pod]:
        wanted = set(namespaces)
        asked = [each for each in self.cluster.running if each["metadata"]["namespace"] in wanted]
        found = decode([{"kind": "PodList", "items": copy.deepcopy(asked)}], live=True)
        return [*found.pending, *found.strangers, *found.finished]

    def evict(self, move: Move, grace: int | None) -> Answer:
        self._keep()
        each = self.cluster._find(move.namespace, move.uid)
        if each is None:
            return Answer(Leaving.GONE, "not found")
        if not self.cluster._let_go(each):
            return Answer(Leaving.BLOCKED, "Cannot evict pod as it would violate the pod's disruption budget.", 10.0)
        self.cluster.tick()
        return Answer(Leaving.DONE)

    def taint(self, node: str, on: bool) -> bool:
        self._keep()
        found = self.cluster.nodes.get(node)
        if found is None:
            return False
        others = [taint for taint in found["spec"].get("taints", ()) if taint["key"] != TAINT.key]
        found["spec"]["taints"] = [*others, *([{"key": TAINT.key, "effect": TAINT.effect}] if on else [])]
        return True

    def mark_node(
        self, node: str, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], closed: bool | None
    ) -> bool:
        self._keep()
        found = self.cluster.nodes.get(node)
        if found is None:
            return False
        _merge(found["metadata"], labels, annotations)
        if closed is not None:
            found["spec"]["unschedulable"] = closed
        return True

    def mark_pod(self, pod: Pod | Move, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> bool:
        self._keep()
        each = self.cluster._find(pod.namespace, pod.uid)
        if each is None:
            return False
        _merge(each["metadata"], labels, annotations)
        return True

    def deployment(self, namespace: str, name: str) -> Deployment | None:
        replicas = self.cluster.replicas.get(name)
        if replicas is None:
            return None
        return Deployment(namespace, name, replicas, self.cluster.ready(name) == replicas == len(self.cluster.of(name)))

    def autoscaled(self, namespace: str) -> set[tuple[str, str]]:
        return {("Deployment", app) for app in self.cluster.autoscalers}

    def scale(self, namespace: str, name: str, was: int, to: int) -> bool:
        self._keep()
        if self.cluster.replicas[name] == was:
            self.cluster.replicas[name] = to
            self.cluster.tick()
        return self.cluster.replicas[name] == to

    def tell(self, about: Mapping[str, str], reason: str, note: str, *, warning: bool = False) -> None:
        self.cluster.told.append(reason)


class KilledError(BaseException):
    """The run ends here, and cleans nothing up."""


class Mortal:
    """Hands of a run that dies, or is told once that the server is away, at one of its calls.

    Attributes:
        calls: How many calls were made.
    """

    def __init__(self, hands: Hands, at: int, *, done: bool = False, error: bool = False) -> None:
        self.hands, self.at, self.done, self.error, self.calls = hands, at, done, error, 0
        self.dead = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        action = getattr(self.hands, name)

        def act(*given: Any, **named: Any) -> Any:
            if self.dead:
                raise KilledError
            self.calls += 1
            if self.calls != self.at:
                return action(*given, **named)
            if self.done:
                action(*given, **named)
            if self.error:
                raise InputError("the server is away")
            self.dead = True
            raise KilledError

        return act


def _merge(meta: Object, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> None:
    for key, changes in (("labels", labels), ("annotations", annotations)):
        merged = {**meta.get(key, {}), **changes}
        meta[key] = {name: value for name, value in merged.items() if value is not None}


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
