# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a scheduler packs: what its configuration makes of the scores of nodes, told per profile and with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError
from .configuration import (
    BALANCED,
    FIT,
    IMAGES,
    KIND,
    SPREAD,
    TAINTS,
    VERSIONS,
    WEIGHTS,
    arguments,
    check_kind,
    mapping,
    members,
    profiles,
    score_weights,
)
from .settings import DEFAULT_SCHEDULER

DEFAULTS: Mapping[str, Any] = {"apiVersion": VERSIONS[0], "kind": KIND}
"""What kube-scheduler does without a configuration."""

_BUILT_IN = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Note:
    """Something that keeps a profile from packing, or gets in its way.

    Attributes:
        id: A stable name.
    """

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What one profile does with pods that name it.

    Attributes:
        name: The ``schedulerName``.
        packs: Whether of two nodes that differ in nothing but their use, the fuller one is taken.
        strategy: How the use of resources is scored; None where it is not.
        weight: How much that counts.
        reasons: Why it does not pack.
        cautions: What may put a pod elsewhere although it packs.
    """

    name: str
    packs: bool
    strategy: str | None
    weight: int
    reasons: tuple[Note, ...]
    cautions: tuple[Note, ...]

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self) | {key: [asdict(note) for note in getattr(self, key)] for key in ("reasons", "cautions")}


def packs(configuration: Any, resource: str, gpus_per_node: int = 8) -> list[Profile]:
    """What each profile of a KubeSchedulerConfiguration does with pods that ask for this resource.

    ``configuration`` is as written for ``--config``, or what ``/configz`` answers. ``gpus_per_node`` says how much one GPU
    is of a node, which is what packing weighs against the other scores.

    Raises:
        InputError: It is no such configuration; the error names the field.
    """
    found = check_kind(configuration)
    return [_judge(found, path, profile, resource, gpus_per_node) for path, profile in profiles(found)]


def _judge(found: Mapping[str, Any], path: str, profile: Mapping[str, Any], resource: str, gpus_per_node: int) -> Profile:
    weights = score_weights(profile, path)
    strategy = mapping(arguments(profile, FIT, path).get("scoringStrategy") or {}, f"{path}.scoringStrategy")
    kind = str(strategy.get("type") or "LeastAllocated")
    weight = weights.get(FIT, 0)
    share = _share(strategy, path, resource)
    reasons = list(_reasons(kind, strategy, path, weight, share, resource))
    cautions: list[Note] = []
    one_gpu = weight * share / gpus_per_node
    if not reasons and weights.get(SPREAD, 0) >= one_gpu and _spreads(profile, path):
        # It is all of a workload's first replicas: with one on the fuller node, the others go where there is none.
        told = (
            f"{SPREAD} counts {weights[SPREAD]} and one GPU of {gpus_per_node} {one_gpu:.3g}: replicas are spread over nodes"
            " although their workload does not ask for it"
        )
        reasons.append(Note("SpreadByDefault", told))
    if not reasons:
        cautions = [*_cautions(weights, one_gpu), *_beside(found, path, profile, weights, resource)]
    return Profile(
        name=str(profile.get("schedulerName") or DEFAULT_SCHEDULER),
        packs=not reasons,
        strategy=kind if weight else None,
        weight=weight,
        reasons=tuple(reasons),
        cautions=tuple(cautions),
    )


def _share(strategy: Mapping[str, Any], path: str, resource: str) -> float:
    """How much of the score of a pod that asks for the resource, CPU and memory is this resource's use."""
    given = members(strategy, "resources", f"{path}.scoringStrategy") or [{"name": "cpu"}, {"name": "memory"}]
    weights = {str(each.get("name")): each.get("weight") or 1 for each in given}
    if not all(isinstance(weight, int) for weight in weights.values()):
        raise InputError("has a weight that is no whole number", field=f"{path}.scoringStrategy.resources")
    counted = {name: weight for name, weight in weights.items() if name == resource or name in _BUILT_IN}
    return counted.get(resource, 0) / max(1, sum(counted.values()))


def _reasons(kind: str, strategy: Mapping[str, Any], path: str, weight: int, share: float, resource: str) -> Iterator[Note]:
    if not weight:
        yield Note("NotScored", f"{FIT} is disabled for scoring: how full a node is does not count")
    elif kind == "LeastAllocated":
        yield Note("LeastAllocated", "the strategy is LeastAllocated: the emptier node is taken")
    elif kind == "RequestedToCapacityRatio" and not _rises(strategy, path):
        yield Note("ShapeDoesNotRise", "the strategy is RequestedToCapacityRatio, and its shape does not rise with use")
    elif not share:
        yield Note("ResourceNotCounted", f"the strategy is {kind}, and {resource} is not among its resources: GPUs do not count")


def _rises(strategy: Mapping[str, Any], path: str) -> bool:
    told = mapping(strategy.get("requestedToCapacityRatio") or {}, f"{path}.scoringStrategy.requestedToCapacityRatio")
    shape = members(told, "shape", f"{path}.scoringStrategy.requestedToCapacityRatio")
    scores = [point.get("score") or 0 for point in shape]
    if not all(isinstance(score, int) for score in scores):
        raise InputError("has a score that is no whole number", field=f"{path}.scoringStrategy.requestedToCapacityRatio.shape")
    return len(scores) > 1 and scores == sorted(scores) and scores[0] < scores[-1]


def _spreads(profile: Mapping[str, Any], path: str) -> bool:
    """Whether replicas are kept apart that did not ask for it: Kubernetes' own default, or a soft one of the operator's."""
    told = arguments(profile, SPREAD, path)
    if (told.get("defaultingType") or "System") == "System":
        return True
    constraints = members(told, "defaultConstraints", f"{path}.pluginConfig")
    return any(each.get("whenUnsatisfiable") == "ScheduleAnyway" for each in constraints)


def _cautions(weights: Mapping[str, int], one_gpu: float) -> Iterator[Note]:
    """What counts more than one GPU that a node is fuller."""
    # Scores go up to 100; an even use of CPU and memory is told between 50 and 100.
    if weights.get(BALANCED, 0) / 2 > one_gpu:
        yield Note("BalancedAllocation", f"{BALANCED} counts {weights[BALANCED]}: an even use of CPU and memory may win")
    if weights.get(IMAGES, 0) > one_gpu:
        yield Note("ImageLocality", f"{IMAGES} counts {weights[IMAGES]}: a node that has the pod's image may win")


def _beside(
    found: Mapping[str, Any], path: str, profile: Mapping[str, Any], weights: Mapping[str, int], resource: str
) -> Iterator[Note]:
    if weights.get(TAINTS, 0) <= weights[FIT]:
        told = f"{TAINTS} counts {weights.get(TAINTS, 0)} and {FIT} {weights[FIT]}: soft taints do not steer pods"
        yield Note("TaintsOutweighed", told)
    percentage = profile.get("percentageOfNodesToScore")
    percentage = found.get("percentageOfNodesToScore") if percentage is None else percentage
    if percentage != 100:
        told = "percentageOfNodesToScore is not 100: with more than 100 nodes, only some are compared for each pod"
        yield Note("SomeNodes", told)
    for name in sorted(weights.keys() - WEIGHTS.keys()):
        yield Note("UnknownPlugin", f"{name} is not Kubernetes' own: what it scores is not known")
    for number, each in enumerate(members(found, "extenders", "")):
        managed = [one.get("name") for one in members(each, "managedResources", f"extenders[{number}]")]
        if each.get("prioritizeVerb") and (not managed or resource in managed):
            yield Note("Extender", f"extenders[{number}] scores nodes too: what it prefers is not known")


def packing_profiles(found: list[Profile]) -> list[str]:
    """The names of the profiles that pack."""
    return [profile.name for profile in found if profile.packs]


def outcome(found: list[Profile] | None, resource: str, unseen: str = "") -> str:
    """What it means for evicted pods, in sentences; ``found`` is None where the scheduler cannot be seen, ``unseen`` why."""
    hole = "goes back to a hole like the one it left, so plans need steering by soft taints (gpuops.io/defrag:PreferNoSchedule)"
    if found is None:
        return f"Whether the scheduler packs {resource} cannot be seen: {unseen}. If it does not, an evicted pod {hole}."
    packing = packing_profiles(found)
    if len(packing) == len(found):
        return f"The scheduler packs {resource}: an evicted pod goes to the fullest node that takes it."
    if packing:
        named = " or ".join(packing)
        return f"The scheduler packs {resource} for pods with schedulerName {named}; any other evicted pod {hole}."
    why = "; ".join(dict.fromkeys(note.message for profile in found for note in profile.reasons))
    return f"The scheduler does not pack {resource} ({why}): an evicted pod {hole}."
