# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import secrets_of
from ansible_collections.gpuops.defrag.plugins.modules import gpu_fragmentation_info
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

MODULES = sorted((Path(__file__).resolve().parents[4] / "plugins/modules").glob("*.py"))


def kubeconfig(**user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


@pytest.mark.parametrize(
    ("params", "secrets"),
    [
        ({}, set()),
        ({"kubeconfig": "/a/path"}, set()),
        ({"kubeconfig": None, "prometheus_headers": None}, set()),
        ({"kubeconfig": kubeconfig(token="t0ken")}, {"t0ken"}),
        ({"kubeconfig": kubeconfig(username="me", password="pass", **{"client-key-data": "a2V5"})}, {"pass", "a2V5"}),
        ({"kubeconfig": kubeconfig(**{"auth-provider": {"config": {"id-token": "i", "idp-issuer-url": "u"}}})}, {"i"}),
        ({"kubeconfig": kubeconfig(token="")}, set()),
        ({"prometheus_url": "https://me:p%40ss@prometheus/a"}, {"p%40ss", "p@ss"}),
        ({"prometheus_proxy": "http://me:pass@proxy:3128"}, {"pass"}),
        ({"prometheus_url": "https://me@prometheus:9090/a:b@c"}, set()),
        ({"prometheus_headers": {"X-Scope-OrgID": 1, "Authorization": "Bearer b", "X-Api-Key": "k"}}, {"Bearer b", "k"}),
    ],
)
def test_credentials_are_secret_and_names_are_not(params: dict[str, Any], secrets: set[str]) -> None:
    assert secrets_of(params) == secrets


def test_a_token_of_a_kubeconfig_shows_nowhere_not_even_where_it_is_taken_for_something_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = kubeconfig(token="s3cr3t-token")
    found = run_module(gpu_fragmentation_info, capsys, code=1, kubeconfig=given, request_timeout=1, context="s3cr3t-token")
    assert found["failed"]
    assert "s3cr3t-token" not in str(found)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_module_hides_them(module: Path) -> None:
    assert "\n    hide_secrets(module)\n" in module.read_text()
