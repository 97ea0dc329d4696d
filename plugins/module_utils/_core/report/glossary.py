# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What the words of the pages mean."""

from __future__ import annotations

from collections.abc import Iterable

from .markup import text

MEANINGS = {
    "Blocked pod": "A pending pod that asks for no more GPUs than its pool has free in all, while no single node can take it.",
    "Demand-weighted": (
        "The free GPUs that a pod drawn from the cluster's own mix of sizes could not use, on average (FGD, USENIX ATC 2023)."
    ),
    "Eviction": "A pod is asked to leave by the Eviction API; its controller makes another, which starts anew.",
    "FragRate": "Nodes in use less the fewest nodes that could hold the same pods, over all GPU nodes.",
    "Fragmentation rate": "Nodes that have GPUs free, but fewer than the fragmentation size, over all GPU nodes.",
    "Freed node": "A node that gives all its GPU pods away.",
    "Lower bound": "So many evictions every plan needs that gains as much: proved. A plan with no more of them is optimal.",
    "Reclaimable node": "A GPU node that holds nothing but DaemonSet, mirror and finished pods.",
    "Schedulable utilization": (
        "What utilization would be if the stranded GPUs did not exist as demand: allocated less stranded, over all."
    ),
    "Slot": (
        "Room for one more pod of a size on one node, counted in GPUs alone; a usable slot has the CPU, memory and pod room too."
    ),
    "Stranded": "A free GPU is stranded at a size if no slot of that size on its node uses it.",
    "Wave": "Evictions that may be under way together; the next wave begins when all of their pods are ready again.",
}


def glossary(words: Iterable[str]) -> str:
    """What the words mean, folded away."""
    entries = "".join(f"<dt>{text(word)}</dt><dd>{text(MEANINGS[word])}</dd>\n" for word in words)
    return f'<details><summary>What the words mean</summary><dl class="words">\n{entries}</dl></details>\n'
