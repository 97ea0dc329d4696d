# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""May this pod be evicted, and if not, why not.

What is unknown keeps a pod where it is: a controller that may not bring it back, a claim that was not read, an age
that cannot be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..cluster.census import asks_for_labels
from ..cluster.layout import Layout
from ..kube.model import UNCONSTRAINED, Cluster, Pod
from .budgets import Budgets, Headroom
from .gangs import gang_of
from .protection import protected
from .schedule import Allowance, Limits, PodMove
from .workloads import RECREATING, Behind, Workloads, active_pods, wished, workload_of

NO_LIMITS = Limits()
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
_SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")
_MIRROR = "kubernetes.io/config.mirror"
_SOURCE = "kubernetes.io/config.source"


class Reason(StrEnum):
    """Why a pod stays. The first that holds is told: what it is, then what it asks for, then what will pass, and of one that
    may be evicted that there is nowhere to go."""

    TERMINATING = "Terminating"
    MIRROR = "StaticPod"
    DAEMON_SET = "DaemonSet"
    BARE = "BarePod"
    OWNER_UNKNOWN = "UnknownController"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY = "Priority"
    PROTECTED = "Protected"
    PROTECT_EXPRESSION = "ProtectExpression"
    GANG = "Gang"
    RESOURCE_CLAIM = "ResourceClaim"
    LOCAL_STORAGE = "LocalStorage"
    VOLUME = "Volume"
    BUDGETS = "SeveralBudgets"
    SINGLETON = "SingleReplica"
    RETRIES = "JobRetries"
    BUDGET_UNKNOWN = "BudgetUnknown"
    BUDGET = "Budget"
    SIBLINGS_PENDING = "ReplicaPending"
    NOT_READY = "NotReady"
    LAST_READY = "LastReadyReplica"
    SIBLINGS_NOT_READY = "ReplicaNotReady"
    YOUNG = "TooYoung"
    COOLING_DOWN = "CoolingDown"
    NO_DESTINATION = "NoDestination"


@dataclass(frozen=True, slots=True)
class Stay:
    """Why one pod stays: the rule, and a sentence with its particulars."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user lets be moved.

    Attributes:
        movable_singletons: Workloads of one replica too, and the last ready replica of others.
        movable_gangs: Gangs too, all members or none.
        movable_local_storage: Pods with volumes on the node's disk too; what is in them is lost.
        movable_not_ready: Pods that are not ready too, as their budgets allow.
        min_pod_age: Seconds since its start that a pod is left alone.
        priority_threshold: Pods of this priority and above stay.
        budgets_required: Where no PodDisruptionBudget was read every pod stays, as for a live cluster that does not
            let them be listed; else it is taken that there are none.
        cooling: Workloads (as :func:`workload_of` tells them) and uids of pods that were moved and are to be left alone,
            and until when, in seconds since 1970.
        protect: The expressions that pods' marks come from, for the record.
        surging: Deployments (``namespace/name``, or ``namespace/*``) whose new pod comes before the old one goes: one
            replica may move, and no budget is asked, as nothing of theirs is evicted.
    """

    movable_singletons: bool = False
    movable_gangs: bool = False
    movable_local_storage: bool = False
    movable_not_ready: bool = False
    min_pod_age: float = 0.0
    priority_threshold: int | None = None
    budgets_required: bool = False
    cooling: Mapping[str, float] = field(default_factory=dict)
    protect: tuple[str, ...] = ()
    surging: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Staying:
    """What may not be evicted, and what limits the evictions of the rest.

    Attributes:
        stays: By ``id()``, every pod on a node that stays; all others on nodes may be evicted.
        gangs: Members of gangs that move together, by gang. Empty unless gangs are movable.
        gang: The gang of each of them, by ``id()``.
        notes: What was not read, and what was taken in its place.
    """

    stays: dict[int, Stay]
    gangs: dict[str, tuple[Pod, ...]]
    gang: dict[int, str]
    notes: tuple[str, ...]
    _check: _Check

    def members(self, pod: Pod) -> tuple[Pod, ...]:
        """The gang that moves with a pod; none for one that moves alone."""
        return self.gangs[self.gang[id(pod)]] if id(pod) in self.gang else ()

    def begin(self) -> Callable[[Pod], bool]:
        """Begin a wave, with all replacements of earlier ones ready.

        Returns:
            What says whether one more pod may be evicted in this wave, and counts it if so: as the budgets allow, and
            never all ready pods of a workload unless singletons are movable. The first pod that is asked for may be.
        """
        budgets = self._check.budgets.begin()
        taken: Counter[str] = Counter()

        def allows(pod: Pod) -> bool:
            if self._check.surging(pod):
                return True
            behind = self._check.alone(pod) if pod.ready and not self._check.rules.movable_singletons else None
            if behind and taken[str(behind)] + 1 >= _ready(behind):
                return False
            if not budgets(pod):
                return False
            if behind:
                taken[str(behind)] += 1
            return True

        return allows


def staying(layout: Layout, rules: Rules, limits: Limits = NO_LIMITS) -> Staying:
    """Which pods on nodes must stay, and why.

    Args:
        layout: Its cluster is looked at, as it was read; ages are counted to its ``now``.
        rules: What the user lets be moved.
        limits: Of one wave; a gang that they do not let go in one stays.
    """
    cluster = layout.cluster
    check = _Check(cluster, rules)
    stays: dict[int, Stay] = {}
    for pods in cluster.bound.values():
        for pod in pods:
            stay = next(check.reasons(pod), None)
            if stay:
                stays[id(pod)] = stay
    gangs = check.gangs if rules.movable_gangs else {}
    for gang, members in list(gangs.items()):
        held = check.held(gang, members, stays, limits)
        if held:
            stay = Stay(Reason.GANG, f"{gang} moves whole or not at all, and {held}")
            for pod in members:
                if pod.node in cluster.bound:
                    stays.setdefault(id(pod), stay)
            del gangs[gang]
    whole = {gang: tuple(members) for gang, members in gangs.items()}
    return Staying(stays, whole, {id(pod): gang for gang, pods in whole.items() for pod in pods}, tuple(check.notes()), check)


class _Check:
    """The rules, with what they need of all pods counted once."""

    def __init__(self, cluster: Cluster, rules: Rules) -> None:
        self.cluster = cluster
        self.rules = rules
        self.workloads = Workloads(cluster)
        self.budgets = Budgets(cluster, self.workloads)
        self.gangs: dict[str, list[Pod]] = {}
        self.gang: dict[int, str] = {}
        self.users: Counter[tuple[str, str]] = Counter()
        for pod in active_pods(cluster):
            gang = gang_of(pod, self.workloads.of(pod))
            if gang:
                self.gangs.setdefault(gang, []).append(pod)
                self.gang[id(pod)] = gang
            for claim in pod.placement.volume_claims:
                self.users[pod.namespace, claim] += 1
        for members in self.gangs.values():
            members.sort(key=str)

    def notes(self) -> Iterator[str]:
        """What was not read, and what was taken in its place."""
        kinds = self.cluster.kinds
        if "PodDisruptionBudget" not in kinds and not self.rules.budgets_required:
            yield "no PodDisruptionBudget was read: taken that there are none"
        if not kinds & {"ReplicaSet", "Deployment", "StatefulSet", "Job", "ReplicationController"}:
            yield "no workload was read: replicas are the pods seen of one controller"
        pods = list(active_pods(self.cluster))
        if {pod.namespace for pod in pods} - self.cluster.namespaces.keys() and any(map(_goes_by_labels, pods)):
            yield (
                "labels of namespaces were not read: pod anti-affinity that goes by them is taken to mean every namespace, "
                "affinity to mean none"
            )

    def surging(self, pod: Pod) -> bool:
        """Whether another comes before the pod goes."""
        surging = self.rules.surging
        return bool(surging) and wished(workload_of(pod), surging)

    def replaceable(self, pod: Pod) -> bool:
        """Whether a pod may go even if no other of its workload is there."""
        return self.rules.movable_singletons or self.surging(pod)

    def charged(self, pod: Pod) -> list[Headroom]:
        """The budgets that must allow that the pod goes."""
        return [] if self.surging(pod) else self.budgets.charged(pod)

    def alone(self, pod: Pod) -> Behind | None:
        """The workload of a pod of no gang. A gang is interrupted whole, whatever its parts want of one another."""
        return None if id(pod) in self.gang else self.workloads.of(pod)

    def reasons(self, pod: Pod) -> Iterator[Stay]:
        """Every reason why a pod stays, in the order of :class:`Reason`."""
        gang = self.gang.get(id(pod))
        yield from self._nature(pod, gang)
        yield from self._wish(pod, gang)
        yield from self._storage(pod)
        alone = self.alone(pod)
        charged = self.charged(pod)
        if len(charged) > 1:
            yield Stay(
                Reason.BUDGETS, f"{' and '.join(map(str, charged))} select it, and the Eviction API refuses a pod of several"
            )
        if alone and alone.wanted <= 1 and not self.replaceable(pod):
            source = "wants" if alone.read else "was not read, and its pods seen are"
            yield Stay(Reason.SINGLETON, f"{alone} {source} {alone.wanted}")
        yield from self._retries(pod)
        if self.rules.budgets_required and "PodDisruptionBudget" not in self.cluster.kinds:
            yield Stay(Reason.BUDGET_UNKNOWN, "PodDisruptionBudgets were not read")
        for headroom in charged:
            if headroom.unknown:
                yield Stay(Reason.BUDGET_UNKNOWN, f"{headroom} cannot be counted: {headroom.unknown}")
            elif headroom.left <= 0:
                numbers = f"{headroom.healthy} healthy, {headroom.needed} needed"
                yield Stay(Reason.BUDGET, f"{headroom} allows 0 disruptions ({numbers})")
        yield from self._moment(pod, alone, guarded=bool(charged))

    def _retries(self, pod: Pod) -> Iterator[Stay]:
        """A Job counts an evicted pod as failed, and fails itself once it has lost too many."""
        behind = self.workloads.of(pod)
        if behind and behind.retries is not None and behind.retries < len(behind.pods):
            told = f"{behind} may lose {behind.retries} more pods before it fails, and has {len(behind.pods)}"
            yield Stay(Reason.RETRIES, told)

    def _nature(self, pod: Pod, gang: str | None) -> Iterator[Stay]:
        """What the pod is."""
        behind = self.workloads.of(pod)
        if pod.terminating:
            yield Stay(Reason.TERMINATING, "it is being deleted")
        kind = behind.owner.kind if behind else None
        if kind == "Node" or _MIRROR in pod.annotations or pod.annotations.get(_SOURCE, "api") != "api":
            yield Stay(Reason.MIRROR, "the kubelet runs it from a file")
        elif kind == "DaemonSet":
            yield Stay(Reason.DAEMON_SET, f"{behind} would put it back on its node")
        elif kind is None:
            yield Stay(Reason.BARE, "it has no controller that would bring it back")
        elif kind not in RECREATING and not gang:
            yield Stay(Reason.OWNER_UNKNOWN, f"whether {behind} would bring it back is not known")
        if pod.priority >= SYSTEM_CRITICAL_PRIORITY or pod.priority_class in _SYSTEM_CLASSES:
            yield Stay(Reason.SYSTEM_CRITICAL, f"its priority is {pod.priority_class or pod.priority}")
        threshold = self.rules.priority_threshold
        if threshold is not None and pod.priority >= threshold:
            yield Stay(Reason.PRIORITY, f"its priority {pod.priority} is not below {threshold}")

    def _wish(self, pod: Pod, gang: str | None) -> Iterator[Stay]:
        """What it or the user asks for."""
        protection = protected(pod, self.cluster.now)
        if protection:
            yield Stay(Reason.PROTECTED, protection)
        if pod.mark is not None:
            yield Stay(Reason.PROTECT_EXPRESSION, f"protect: {pod.mark}")
        if gang and not self.rules.movable_gangs:
            yield Stay(Reason.GANG, f"it belongs to {gang}")

    def _storage(self, pod: Pod) -> Iterator[Stay]:
        """What it holds that cannot go along. Whether a volume is reached from elsewhere is for placement to say."""
        if pod.resource_claims:
            yield Stay(Reason.RESOURCE_CLAIM, f"resource claim {pod.resource_claims[0]} binds it to devices of its node")
        if pod.local_storage and not self.rules.movable_local_storage:
            yield Stay(Reason.LOCAL_STORAGE, f"what is in {pod.local_storage[0]} would be lost")
        for name in pod.placement.volume_claims:
            claim = self.cluster.volume_claims.get((pod.namespace, name))
            told = f"PersistentVolumeClaim {pod.namespace}/{name}"
            if claim is None:
                yield Stay(Reason.VOLUME, f"{told} was not read")
            elif claim.volume not in self.cluster.volumes:
                volume = f"its volume {claim.volume} was not read" if claim.volume else "it has no volume"
                yield Stay(Reason.VOLUME, f"where {told} can be reached is not known: {volume}")
            elif set(claim.access_modes) <= {"ReadWriteOnce"} and self.users[pod.namespace, name] > 1:
                yield Stay(Reason.VOLUME, f"{told} is for one node, and other pods use it too")

    def _moment(self, pod: Pod, behind: Behind | None, *, guarded: bool) -> Iterator[Stay]:
        """What will pass.

        Args:
            guarded: Whether a budget says how many pods of the workload may be away.
        """
        waiting = min((other for other in behind.pods if not other.node), key=str, default=None) if behind else None
        if behind and waiting:
            yield Stay(Reason.SIBLINGS_PENDING, f"{waiting} of {behind} is pending")
        if not pod.ready and not self.rules.movable_not_ready:
            yield Stay(Reason.NOT_READY, "it is not ready")
        if behind and pod.ready and not self.replaceable(pod) and _ready(behind) <= 1:
            yield Stay(Reason.LAST_READY, f"no other pod of {behind} is ready")
        if behind and pod.ready and not guarded and not self.replaceable(pod):
            away = (other for other in behind.pods if other.node and not other.ready and not other.terminating)
            cold = min(away, key=str, default=None)
            if cold:
                told = f"{cold} of {behind} is not ready, and no PodDisruptionBudget says how many may be"
                yield Stay(Reason.SIBLINGS_NOT_READY, told)
        if self.rules.min_pod_age > 0:
            started, now = pod.created if pod.started is None else pod.started, self.cluster.now
            if started is None or now is None:
                yield Stay(Reason.YOUNG, "its age is not known")
            elif now - started < self.rules.min_pod_age:
                yield Stay(Reason.YOUNG, f"it is {now - started:.0f} s old, less than {self.rules.min_pod_age:.0f}")
        yield from self._cooling(pod)

    def _cooling(self, pod: Pod) -> Iterator[Stay]:
        """What was moved a moment ago is not moved again, nor a workload that did not land where it should."""
        cooling, now = self.rules.cooling, self.cluster.now
        for name, told in ((pod.uid, "it came in place of a pod that was moved"), (workload_of(pod), "its workload went astray")):
            until = cooling.get(name)
            if until is not None and (now is None or until > now):
                left = "" if now is None else f" for {until - now:.0f} s more"
                yield Stay(Reason.COOLING_DOWN, f"{told}, and is left alone{left}")

    def held(self, gang: str, members: list[Pod], stays: dict[int, Stay], limits: Limits) -> str | None:
        """What keeps a gang from moving whole; None if nothing does."""
        for pod in members:
            stay = stays.get(id(pod))
            if stay:
                return f"{pod} stays: {stay.detail}"
            if pod.node not in self.cluster.bound:
                return f"{pod} is on no node that was read" if pod.node else f"{pod} is pending"
        allows = self.budgets.begin()
        short = next((pod for pod in members if not allows(pod)), None)
        if short:
            return f"{self.budgets.charged(short)[0]} does not allow all of its pods at once"
        limit = Allowance(limits, dict.fromkeys(map(id, members), gang)).lacks([PodMove(p, -1, p.node, "") for p in members])
        return f"limits.{limit} {getattr(limits, limit)} does not let its {len(members)} pods go in one wave" if limit else None


def _goes_by_labels(pod: Pod) -> bool:
    """Whether an affinity of the pod's goes by labels of namespaces."""
    rules = pod.placement
    return rules is not UNCONSTRAINED and any(map(asks_for_labels, (*rules.affinity, *rules.anti_affinity)))


def _ready(behind: Behind) -> int:
    """How many pods of a workload serve, and will go on."""
    return sum(pod.ready and not pod.terminating for pod in behind.pods)
