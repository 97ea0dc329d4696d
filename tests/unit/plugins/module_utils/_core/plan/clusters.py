# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters at random, with every rule that planning knows."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.gpuops.defrag.tests.unit.builders import (
    NODE_NAME,
    PRODUCT,
    REQUIRED,
    ZONE,
    Object,
    budget,
    claim,
    namespace,
    node,
    pod,
    serving,
    uses,
    volume,
    workload,
)


def at_random(seed: int) -> list[Object]:
    """Nodes, pods that run and wait, their workloads, budgets, volumes and namespaces."""
    draw = random.Random(seed)
    free: dict[str, int] = {}
    objects: list[Object] = []
    for number in range(draw.randint(3, 7)):
        name, gpus = f"n{number}", draw.choice((4, 8, 8))
        free[name] = gpus
        objects.append(
            node(
                name,
                gpus,
                product=draw.choice(("A100", "A100", "T4")),
                labels={ZONE: draw.choice("ab")},
                capacity=gpus + (draw.random() < 0.1),
                unschedulable=draw.random() < 0.1,
                ready=draw.choice(("True", "True", "True", "False")),
                taints=[{"key": "k", "effect": "NoSchedule"}] if draw.random() < 0.1 else [],
                allocatable={"cpu": draw.choice(("4", "8", "96"))},
            )
        )
    for number in range(draw.randint(8, 24)):
        app = f"app{draw.randint(0, 6)}"
        asked = draw.choice((None, 1, 1, 2, 2, 4))
        on = draw.choice(sorted(free))
        if free[on] < (asked or 0):
            continue
        free[on] -= asked or 0
        objects.append(
            serving(
                f"p{draw.randint(10, 99)}-{number}",
                on,
                asked,
                owner=_owner(draw, app),
                ready=draw.random() < 0.95,
                namespace=draw.choice(("x", "y")),
                **_rules(draw, app),
            )
        )
    for number in range(draw.randint(0, 3)):
        own: dict[str, Any] = {"resourceClaims": [{"name": "nic"}]} if draw.random() < 0.2 else {}
        owner = draw.choice((None, "ReplicaSet/app0"))
        objects.append(pod(f"wait{number}", draw.choice((4, 6, 8)), owner=owner, priority=draw.choice((0, 0, 9)), **own))
    # Sometimes a kind is not there, and so unknown.
    objects += [claim("data", "pv"), volume("pv", labels={ZONE: "a"})] if draw.random() < 0.8 else []
    objects += [namespace("x", team="a"), namespace("y")] if draw.random() < 0.5 else []
    objects += [workload("ReplicaSet", f"app{number}", draw.choice((1, 2, 3))) for number in range(7) if draw.random() < 0.3]
    objects += [
        budget(f"pdb{number}", {"app": f"app{draw.randint(0, 6)}"}, namespace=draw.choice(("x", "y")), maxUnavailable=1)
        for number in range(draw.choice((0, 2, 4)))
    ]
    return objects


def _owner(draw: random.Random, app: str) -> str | None:
    kinds = ("ReplicaSet", "ReplicaSet", "ReplicaSet", "ReplicaSet", "DaemonSet", "PyTorchJob", None)
    kind = draw.choice(kinds)
    return f"{kind}/{app}" if kind else None


def _rules(draw: random.Random, app: str) -> dict[str, Any]:
    """What one pod asks for."""
    label = {"matchLabels": {"app": app}}
    far = {"namespaceSelector": {"matchLabels": {"team": "a"}}} if draw.random() < 0.3 else {}
    term = {"topologyKey": draw.choice((NODE_NAME, ZONE)), "labelSelector": label, **far}
    chosen: list[dict[str, Any]] = [
        {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}},
        {"affinity": {"podAffinity": {REQUIRED: [term]}}},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": label}
            ]
        },
        {"nodeSelector": {PRODUCT: draw.choice(("A100", "T4"))}},
        {"volumes": uses("data")},
        {"requests": {"cpu": draw.choice(("1", "3"))}},
        {"priority": draw.choice((0, 100))},
    ]
    return {"labels": {"app": app}} | (draw.choice(chosen) if draw.random() < 0.4 else {})
