# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _prometheus
from ansible_collections.gpuops.defrag.plugins.modules import gpu_monitoring_info
from ansible_collections.gpuops.defrag.tests.unit.prometheus_server import PrometheusServer, Says
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

RULES = {"groups": [{"name": "g", "rules": [{"record": "a:b:c", "expr": "x"}]}]}
LOADED = {"groups": [{"name": "g", "file": "f", "rules": [{"name": "a:b:c", "query": "x", "health": "ok"}]}]}


@pytest.mark.parametrize(("groups", "ok"), [(LOADED, True), ({"groups": []}, False)])
def test_it_tells_whether_rules_are_loaded(groups: Any, ok: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with PrometheusServer({"status": "success", "data": groups}) as server:
        found = run_module(gpu_monitoring_info, capsys, rules=RULES, prometheus_url=server.url)
    assert (found["ok"], found["changed"]) == (ok, False)
    assert [asked.path for asked in server.asked] == ["/api/v1/rules"]


@pytest.mark.parametrize(
    ("rules", "answer", "told"),
    [
        (RULES, Says(403, "no"), "answers 403"),
        ({"group": []}, {"status": "success", "data": LOADED}, "rules: is no rule file"),
    ],
)
def test_what_cannot_be_told_is_an_error(
    rules: Any, answer: Any, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_prometheus, "FIRST_WAIT", 0.001)
    with PrometheusServer(answer) as server:
        found = run_module(gpu_monitoring_info, capsys, code=1, rules=rules, prometheus_url=server.url)
    assert told in found["msg"]
