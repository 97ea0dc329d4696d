# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.cluster.scheduling import Refusal
from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.words import (
    REASONS,
    clean,
    count,
    figures,
    headline,
    money,
    names,
    number,
    packing,
    part,
    percent,
    reason_words,
    shorten,
    size_of,
)
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import audited, pod


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (number(1213), "1,213"),
        (number(5.5, 1), "5.5"),
        (number(14.0, 1), "14"),
        (number(None), "unknown"),
        (percent(0.675), "67.5 %"),
        (percent(None), "unknown"),
        (part(1, 8), "12.5 %"),
        (part(0, 0), "0.0 %"),
        (money(142350, "USD"), "142,350 USD"),
        (money(2.5, "EUR"), "2.50 EUR"),
        (money(None, "EUR"), "unknown"),
        (count(1, "node"), "1 node"),
        (count(1213, "node"), "1,213 nodes"),
        (size_of(8), "an 8-GPU"),
        (size_of(11), "an 11-GPU"),
        (size_of(2), "a 2-GPU"),
        (names(["a", "b"], 2), "a, b"),
        (names(["a", "b", "c", "d"], 2), "a, b and 2 more"),
        (figures({"nodes": 4, "min_gpu_nodes": 10}), "min gpu nodes 10, nodes 4"),
        (shorten("short", 10), "short"),
        (shorten("a-very-long-name-0", 10), "a-ve..me-0"),
        (packing({"occupied": 25, "fewest": 17, "exact": True}), "25 nodes hold what 17 could"),
        (packing({"occupied": 25, "fewest": 19, "exact": False}), "25 nodes hold what 19 could, or fewer"),
        (packing({"occupied": 1, "fewest": 1, "exact": True}), "no fewer than the 1 node in use could hold the pods"),
        (packing({"occupied": 3, "fewest": 3, "exact": False}), "no fewer than the 3 nodes in use are known to hold the pods"),
        (clean("a\x1b[2Jb\n\u202ec\ud800d"), "a?[2Jb??c?d"),
        (clean("Größe"), "Größe"),
    ],
)
def test_a_value_is_said_as_people_read_it(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize("refusal", Refusal)
def test_every_reason_of_the_scheduler_has_words(refusal: Refusal) -> None:
    assert refusal in REASONS


def test_a_reason_unknown_here_is_spelled_out() -> None:
    assert reason_words("NodePressureHigh") == "node pressure high"


@pytest.mark.parametrize(
    ("layouts", "options", "sentences"),
    [
        ([], {}, ["No node offers nvidia.com/gpu, so there is nothing to measure."]),
        (["8: 8"] * 10, {}, ["None of the 80 GPUs is free, so none is stranded.", "Nothing to do."]),
        (
            ["8: 8"] * 9 + ["8:"],
            {},
            ["None of the 8 free GPUs is stranded: an 8-GPU pod can use each of them.", "Nothing to do."],
        ),
        (
            ["8: 4+4"] * 10 + ["8: 4+1"],
            {},
            ["Each of the 3 free GPUs is stranded: no 4-GPU pod can use it.", "Worth acting on."],
        ),
        (
            ["8: 4+1"] * 2 + ["8: 4"] * 8,
            {"gpu_hour_price": 2.0},
            [
                "6 of the 38 free GPUs are stranded: no 4-GPU pod can use them.",
                "That costs 8,760 USD a month.",
                "Worth acting on.",
            ],
        ),
        (
            ["8: 4+3"] + ["8: 4"] * 9,
            {},
            ["1 of the 37 free GPUs is stranded: no 4-GPU pod can use it.", "Worth acting on."],
        ),
        (
            ["8: 4"] * 10 + ["2: 1", "2:"],
            {},
            [
                "1 of the 43 free GPUs is stranded: no 4-GPU pod can use it, nor one that takes a whole smaller node.",
                "Worth acting on.",
            ],
        ),
        (
            ["8: 2+1"],
            {},
            ["1 of the 5 free GPUs is stranded: no 2-GPU pod can use it.", "Moving pods is not advised here."],
        ),
    ],
)
def test_the_headline_says_it_in_plain_sentences(layouts: list[str], options: dict[str, Any], sentences: list[str]) -> None:
    assert headline(audited(layouts, **options)) == sentences


@pytest.mark.parametrize(
    ("waiting", "sentence"),
    [
        (["big"], "1 pod waits although its pool has enough GPUs free in all."),
        (["big", "bigger"], "2 pods wait although their pool has enough GPUs free in all."),
    ],
)
def test_the_headline_tells_of_blocked_pods(waiting: list[str], sentence: str) -> None:
    assert sentence in headline(audited(["8: 4"] * 10, *(pod(name, 8) for name in waiting)))
