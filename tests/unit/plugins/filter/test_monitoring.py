# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.defrag.plugins.filter.grafana_dashboard import grafana_dashboard
from ansible_collections.gpuops.defrag.plugins.filter.prometheus_rules import prometheus_rules
from ansible_collections.gpuops.defrag.plugins.filter.run_metrics import run_metrics
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.dashboard import dashboard
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.rules import rule_groups
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings


def test_text_is_taken_for_what_it_means() -> None:
    given = {"sizes": "1,8", "fragmentation_threshold": "0.5", "slot_size": "", "gpu_hour_price": "3"}
    wanted = MonitoringSettings(sizes=(1, 8), fragmentation_threshold=0.5, gpu_hour_price=3)
    assert prometheus_rules(given) == rule_groups(wanted)
    assert grafana_dashboard(given) == dashboard(wanted)


@pytest.mark.parametrize("door", [prometheus_rules, grafana_dashboard])
@pytest.mark.parametrize(
    ("given", "told"),
    [({"sizes": "many"}, "sizes"), ({"size": 1}, "size: there is no such setting"), ([], "settings are a mapping")],
)
def test_bad_settings_are_named_with_the_filter(door: Callable[[Any], Any], given: Any, told: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"{door.__name__}: .*{told}"):
        door(given)


def test_a_run_becomes_metrics() -> None:
    assert run_metrics({"verdict": "Locked"}, labels={"cluster": 7}, now=1).splitlines()[2] == (
        'gpuops_run_timestamp_seconds{cluster="7"} 1'
    )
    with pytest.raises(AnsibleFilterError, match="run_metrics: wants what gpu_defrag"):
        run_metrics({"changed": False})
