# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How property tests run: the same cases every time here; `pytest --hypothesis-profile hard` looks for new ones."""

from __future__ import annotations

from hypothesis import HealthCheck, configuration, settings

configuration.set_hypothesis_home_dir("build/cache/hypothesis")
settings.register_profile("suite", derandomize=True, database=None, deadline=None, max_examples=200)
settings.register_profile("hard", database=None, deadline=None, max_examples=10_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
