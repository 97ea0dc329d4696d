# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and environment that may mean different clusters, and connections that cannot be made."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _kubernetes
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import (
    EVERYTHING,
    LIVE_ARGUMENTS,
    MEASURING,
    TUNING,
    connect,
    contradiction,
)

HOST = {"K8S_AUTH_HOST": "https://other"}
TOKEN = {"K8S_AUTH_API_KEY": "t"}
KUBECONFIG = {"K8S_AUTH_KUBECONFIG": "/k"}
CONTEXT = {"K8S_AUTH_CONTEXT": "c"}
AWX = HOST | TOKEN | {"K8S_AUTH_VERIFY_SSL": "True", "K8S_AUTH_SSL_CA_CERT": "/ca"}

AGREE: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("nothing at all", {}, {}),
    ("a kubeconfig", {"kubeconfig": "/k"}, {}),
    ("a kubeconfig as a mapping", {"kubeconfig": {"clusters": []}}, {}),
    ("a kubeconfig and a context of it", {"kubeconfig": "/k", "context": "c"}, {}),
    ("a kubeconfig, the context from the environment", {"kubeconfig": "/k"}, CONTEXT),
    ("a context, the kubeconfig from the environment", {"context": "c"}, KUBECONFIG),
    ("all of it from the environment, as AWX gives it", {}, AWX),
    ("a kubeconfig of the environment", {}, KUBECONFIG),
    ("a context of the environment", {}, CONTEXT),
    ("a kubeconfig and a context of the environment", {}, KUBECONFIG | CONTEXT),
    ("host and token", {"host": "https://h", "api_key": "t"}, {}),
    ("host and token before those of the environment", {"host": "https://h", "api_key": "t"}, AWX),
    ("host and token before a kubeconfig of the environment", {"host": "https://h", "api_key": "t"}, KUBECONFIG),
    ("host and certificate before those of the environment", {"host": "https://h", "client_cert": "/c"}, AWX),
    ("a host alone", {"host": "https://h"}, {}),
    ("a token for the host of the environment", {"api_key": "t"}, HOST),
    ("a kubeconfig and what does not say where", {"kubeconfig": "/k"}, {"K8S_AUTH_VERIFY_SSL": "no"}),
    ("a kubeconfig and variables that are empty", {"kubeconfig": "/k"}, {"K8S_AUTH_HOST": "", "K8S_AUTH_API_KEY": ""}),
    ("an empty kubeconfig is none", {"kubeconfig": ""}, AWX),
    ("a kubeconfig, and a host and token beside it", {"kubeconfig": "/k", "host": "https://h", "api_key": "t"}, HOST | TOKEN),
]

DISAGREE: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("a kubeconfig under AWX's credential", {"kubeconfig": "/k"}, AWX, "kubeconfig is given, yet K8S_AUTH_HOST "),
    ("a mapping under AWX's credential", {"kubeconfig": {"a": 1}}, AWX, "kubeconfig is given, yet K8S_AUTH_HOST "),
    ("a context under AWX's credential", {"context": "c"}, AWX, "context is given, yet K8S_AUTH_HOST "),
    ("its credentials to another host", {"kubeconfig": "/k"}, HOST, "kubeconfig is given, yet K8S_AUTH_HOST "),
    ("another token to its host", {"kubeconfig": "/k"}, TOKEN, "kubeconfig is given, yet K8S_AUTH_API_KEY "),
    ("another user", {"context": "c"}, {"K8S_AUTH_USERNAME": "u"}, "context is given, yet K8S_AUTH_USERNAME "),
    ("another password", {"context": "c"}, {"K8S_AUTH_PASSWORD": "p"}, "context is given, yet K8S_AUTH_PASSWORD "),
    ("another certificate", {"context": "c"}, {"K8S_AUTH_CLIENT_CERT": "/c"}, "context is given, yet K8S_AUTH_CLIENT_CERT "),
    ("its other spelling", {"context": "c"}, {"K8S_AUTH_CERT_FILE": "/c"}, "context is given, yet K8S_AUTH_CERT_FILE "),
    ("token of the environment, host beside it", {"kubeconfig": "/k", "host": "https://h"}, TOKEN, "kubeconfig is given, yet"),
    ("two ways in the environment", {}, AWX | KUBECONFIG, "the environment has both K8S_AUTH_HOST and K8S_AUTH_KUBECONFIG"),
    ("host and context in the environment", {}, HOST | CONTEXT, "the environment has both K8S_AUTH_HOST and K8S_AUTH_CONTEXT"),
    ("AWX's token to a host", {"host": "https://h"}, AWX, "host is given, and what K8S_AUTH_API_KEY of the environment holds"),
    ("a password to a host", {"host": "https://h"}, {"K8S_AUTH_PASSWORD": "p"}, "host is given, and what K8S_AUTH_PASSWORD of"),
    ("a kubeconfig's token to a host", {"host": "https://h"}, KUBECONFIG, "host is given, and what K8S_AUTH_KUBECONFIG of"),
]


@pytest.mark.parametrize(("given", "environment"), [row[1:] for row in AGREE], ids=[row[0] for row in AGREE])
def test_what_can_mean_but_one_cluster_is_taken(given: dict[str, Any], environment: dict[str, str]) -> None:
    assert contradiction(given, environment) is None


@pytest.mark.parametrize(("given", "environment", "words"), [row[1:] for row in DISAGREE], ids=[row[0] for row in DISAGREE])
def test_what_may_mean_two_clusters_is_refused_by_name(given: dict[str, Any], environment: dict[str, str], words: str) -> None:
    told = contradiction(given, environment)
    assert told is not None
    assert told.startswith(words)
    assert not [value for value in (*environment.values(), *map(str, given.values())) if value in told and len(value) > 2]


def options(**given: Any) -> dict[str, Any]:
    return {name: argument.get("default") for name, argument in LIVE_ARGUMENTS.items()} | given


def test_a_contradiction_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWX.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_kubernetes, "_client", None)
    with pytest.raises(InputError, match=r"^kubeconfig is given, yet K8S_AUTH_HOST of the environment"):
        connect(options(kubeconfig="/k"))


def test_what_is_not_installed_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kubernetes, "MISSING", "the Python package kubernetes")
    with pytest.raises(InputError, match=r"^reading a live cluster needs the Python package kubernetes; install it, or"):
        connect(options(host="https://h", api_key="t"))


def test_a_snapshot_reads_all_that_an_audit_reads() -> None:
    assert set(MEASURING) < set(TUNING) < set(EVERYTHING)


@pytest.mark.parametrize("kinds", [MEASURING, TUNING, EVERYTHING], ids=["measuring", "tuning", "everything"])
def test_pods_are_read_before_their_nodes_and_what_may_be_missing_before_both(kinds: Any) -> None:
    assert [kind.name for kind in kinds[-2:]] == ["Pod", "Node"]
    assert [kind.optional for kind in kinds] == [True] * (len(kinds) - 2) + [False, False]
    assert len({kind.path for kind in kinds}) == len(kinds)
