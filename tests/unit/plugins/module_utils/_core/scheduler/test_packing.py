# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a configuration packs, and why not. That these verdicts come true is shown with the real scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.packing import DEFAULTS, Profile, outcome, packs
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, Object

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NO_SPREADING = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
EVENLY = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname"}


def fit(kind: str = "MostAllocated", resources: dict[str, int] | None = None, **more: Any) -> Object:
    named = [{"name": name, "weight": weight} for name, weight in ({GPU: 1} if resources is None else resources).items()]
    return {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": kind, "resources": named} | more}}


def ratio(*points: tuple[int, int]) -> Object:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def spread(*constraints: Object) -> Object:
    return {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": list(constraints)}}


def score(*, off: str = "", point: str = "score", **weights: int) -> Object:
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {point: {"enabled": enabled, "disabled": [{"name": name} for name in off.split()]}}


def verdict(*plugin_config: Object, plugins: Object | None = None, gpus: int = 8, **more: Any) -> Profile:
    profile = {"plugins": plugins, "pluginConfig": list(plugin_config)}
    (found,) = packs({**HEAD, **more, "profiles": [profile]}, GPU, gpus)
    return found


HEAVY = score(NodeResourcesFit=10)
LIGHT = score(NodeResourcesFit=5)
VERDICTS: list[tuple[str, Profile, str]] = [
    ("the defaults", packs(DEFAULTS, GPU)[0], "LeastAllocated"),
    ("the strategy alone", verdict(fit()), "SpreadByDefault"),
    ("spreading off, nothing else", verdict(fit(), NO_SPREADING), ""),
    ("spreading outweighed", verdict(fit(), plugins=score(NodeResourcesFit=17)), ""),
    ("spreading outweighed on small nodes", verdict(fit(), plugins=HEAVY, gpus=4), ""),
    ("spreading not quite outweighed", verdict(fit(), plugins=score(NodeResourcesFit=16)), "SpreadByDefault"),
    ("spreading off by its plugin", verdict(fit(), plugins=score(off="PodTopologySpread")), ""),
    (
        "a soft list of the operator's",
        verdict(fit(), spread(EVENLY | {"whenUnsatisfiable": "ScheduleAnyway"})),
        "SpreadByDefault",
    ),
    ("a hard list of the operator's", verdict(fit(), spread(EVENLY | {"whenUnsatisfiable": "DoNotSchedule"})), ""),
    ("the strategy for CPU and memory", verdict(fit(resources={}), NO_SPREADING), "ResourceNotCounted"),
    ("the strategy for another resource", verdict(fit(resources={"amd.com/gpu": 1}), NO_SPREADING), "ResourceNotCounted"),
    ("GPUs beside another resource", verdict(fit(resources={"amd.com/gpu": 9, GPU: 1}), NO_SPREADING), ""),
    ("scoring of the fit off", verdict(fit(), NO_SPREADING, plugins=score(off="NodeResourcesFit")), "NotScored"),
    ("all scoring off", verdict(fit(), plugins=score(off="*")), "NotScored"),
    ("all plugins off but one", verdict(fit(), plugins=score(off="*", point="multiPoint") | HEAVY), ""),
    ("a weight for all points", verdict(fit(), plugins=score(point="multiPoint", NodeResourcesFit=17)), ""),
    ("a weight of 0 counts as 1", verdict(fit(), plugins=score(NodeResourcesFit=0)), "SpreadByDefault"),
    ("a shape that rises", verdict(ratio((0, 0), (100, 10)), NO_SPREADING), ""),
    ("a shape that falls", verdict(ratio((0, 10), (100, 0)), NO_SPREADING), "ShapeDoesNotRise"),
    ("a shape that is flat", verdict(ratio((0, 5), (100, 5)), NO_SPREADING), "ShapeDoesNotRise"),
    ("a shape that is missing", verdict(fit("RequestedToCapacityRatio"), NO_SPREADING), "ShapeDoesNotRise"),
]


@pytest.mark.parametrize(("found", "reason"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS])
def test_whether_it_packs_and_why_not(found: Profile, reason: str) -> None:
    assert " ".join(note.id for note in found.reasons) == reason
    assert found.packs == (not reason)


SERVED = {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"}
CALLED: Object = {"urlPrefix": "https://e", "prioritizeVerb": "prioritize", "weight": 1}
CAUTIONS: list[tuple[str, Profile, str]] = [
    ("only some nodes are looked at", verdict(fit(), NO_SPREADING, plugins=HEAVY | {}), "TaintsOutweighed SomeNodes"),
    (
        "nothing at all",
        verdict(fit(), NO_SPREADING, plugins=score(NodeResourcesFit=10, TaintToleration=11), percentageOfNodesToScore=100),
        "",
    ),
    ("light packing", verdict(fit(), NO_SPREADING, percentageOfNodesToScore=100), "BalancedAllocation ImageLocality"),
    (
        "an unknown plugin",
        verdict(fit(), plugins=score(off="*", NodeResourcesFit=1, TaintToleration=2, Weather=9), percentageOfNodesToScore=100),
        "UnknownPlugin",
    ),
    (
        "an extender for GPUs",
        verdict(
            fit(),
            plugins=score(off="*", NodeResourcesFit=1, TaintToleration=2),
            percentageOfNodesToScore=100,
            extenders=[CALLED | {"managedResources": [{"name": GPU}]}, CALLED | {"managedResources": [{"name": "a.b/c"}]}],
        ),
        "Extender",
    ),
    (
        "an extender for all pods",
        verdict(
            fit(),
            plugins=score(off="*", NodeResourcesFit=1, TaintToleration=2),
            percentageOfNodesToScore=100,
            extenders=[CALLED, {"urlPrefix": "https://e", "filterVerb": "filter"}],
        ),
        "Extender",
    ),
]


@pytest.mark.parametrize(("found", "ids"), [row[1:] for row in CAUTIONS], ids=[row[0] for row in CAUTIONS])
def test_what_may_come_between(found: Profile, ids: str) -> None:
    assert found.packs
    assert " ".join(note.id for note in found.cautions) == ids


def test_unknown_plugins_are_told_in_one_order() -> None:
    names = [f"Plugin{letter}" for letter in "hcagbedf"]
    plugins = score(off="*", NodeResourcesFit=1, TaintToleration=2)
    plugins["score"]["enabled"] += [{"name": name, "weight": 1} for name in names]
    told = [note.message.split()[0] for note in verdict(fit(), plugins=plugins).cautions if note.id == "UnknownPlugin"]
    assert told == sorted(names)


def test_what_configz_wraps_is_taken_out() -> None:
    assert packs({"componentconfig": dict(DEFAULTS)}, GPU) == packs(DEFAULTS, GPU) == packs(SERVED, GPU)


BAD: list[tuple[str, Any, str]] = [
    ("a list", [], "KubeSchedulerConfiguration: is list, not a mapping"),
    ("another kind", {"kind": "Pod"}, "kind: is 'Pod'"),
    ("another version", HEAD | {"apiVersion": "v2"}, "apiVersion: is 'v2'"),
    ("profiles as text", HEAD | {"profiles": "a"}, "profiles: is str, not a list"),
    (
        "plugins as a list",
        HEAD | {"profiles": [{"plugins": []}, {"plugins": ["a"]}]},
        "profiles[1].plugins: is list, not a mapping",
    ),
    (
        "a weight in words",
        HEAD | {"profiles": [{"plugins": {"score": {"enabled": [{"name": "a", "weight": "b"}]}}}]},
        "profiles[0].plugins.score.enabled[0].weight: is 'b'",
    ),
    (
        "a resource's weight in words",
        HEAD | {"profiles": [{"pluginConfig": [fit(resources={GPU: "b"})]}]},  # type: ignore[dict-item]
        "profiles[0].scoringStrategy.resources: has a weight",
    ),
    (
        "a score in words",
        HEAD | {"profiles": [{"pluginConfig": [ratio((0, 0), (100, "b"))]}]},  # type: ignore[arg-type]
        "profiles[0].scoringStrategy.requestedToCapacityRatio.shape: has a score",
    ),
]


@pytest.mark.parametrize(("configuration", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_no_configuration_is_refused_by_its_field(configuration: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        packs(configuration, GPU)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([verdict(fit(), NO_SPREADING)], "The scheduler packs nvidia.com/gpu: an evicted pod goes to the fullest node"),
        (packs(DEFAULTS, GPU), "The scheduler does not pack nvidia.com/gpu (the strategy is LeastAllocated: the emptier node"),
        (None, "Whether the scheduler packs nvidia.com/gpu cannot be seen: it hides. If it does not, an evicted pod goes back"),
    ],
    ids=["it packs", "it does not", "nobody knows"],
)
def test_what_becomes_of_evicted_pods_is_told(found: list[Profile] | None, said: str) -> None:
    assert outcome(found, GPU, "it hides").startswith(said)
