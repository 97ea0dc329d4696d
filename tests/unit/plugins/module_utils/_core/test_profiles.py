# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import pairwise

from ansible_collections.gpuops.defrag.plugins.module_utils._core.profiles import PROFILES


def test_the_conservative_profile_is_what_operators_begin_with() -> None:
    assert next(iter(PROFILES)) == "conservative"
    bounds = PROFILES["conservative"]
    assert (bounds.per_node, bounds.per_namespace, bounds.per_workload) == (1, 5, 1)


def test_each_profile_allows_more_than_the_one_before() -> None:
    for gentle, bold in pairwise(PROFILES.values()):
        least, most = (astuple(replace(bounds, raise_after=-bounds.raise_after)) for bounds in (gentle, bold))
        assert all(low <= high for low, high in zip(least, most, strict=True))
        assert gentle != bold
