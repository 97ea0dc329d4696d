# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module by files, and by a cluster that answers as told. The real ones are asked in the scenario scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _scheduler
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.packing import DEFAULTS
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.render import render
from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.settings import settings_of
from ansible_collections.gpuops.defrag.plugins.modules import gpu_scheduler_info
from ansible_collections.gpuops.defrag.tests.unit.builders import Object
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

PACKING = render(settings_of({"profile": "default"}))
SECOND = render(settings_of({}))
CONFIG = "--config=/etc/s/c.yaml"


def pod(name: str, *args: str, source: Object | None = None, phase: str = "Running", **labels: str) -> Object:
    container: Object = {"name": "s", "image": "kube-scheduler", "args": ["kube-scheduler", *args] if args else []}
    container["volumeMounts"] = [{"name": "config", "mountPath": "/etc/s"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"component": "kube-scheduler"} | labels},
        "spec": {"containers": [container], "volumes": [{"name": "config"} | (source or {"emptyDir": {}})]},
        "status": {"phase": phase},
    }


def config_map(text: str, name: str = "packing") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {"c.yaml": text},
    }


FROM_MAP: Object = {"configMap": {"name": "packing"}}
FROM_HOST: Object = {"hostPath": {"path": "/etc/kubernetes"}}
PACKS = json.dumps(PACKING)

DUMPS: list[tuple[str, list[Object], Object]] = [
    (
        "a scheduler with its defaults",
        [pod("s", "--v=2")],
        {"visible": True, "packs": False, "steering_needed": True, "packing_profiles": []},
    ),
    (
        "one that packs by a ConfigMap",
        [pod("s", CONFIG, source=FROM_MAP), config_map(PACKS)],
        {"visible": True, "packs": True, "steering_needed": False, "packing_profiles": ["default-scheduler"], "reasons": []},
    ),
    (
        "one with a second profile",
        [pod("s", CONFIG, source=FROM_MAP), config_map(json.dumps(SECOND))],
        {"packs": True, "steering_needed": True, "packing_profiles": ["gpu-packing"]},
    ),
    (
        "two that take turns and differ",
        [pod("a", CONFIG, source=FROM_MAP), pod("b", "--v=2"), config_map(PACKS)],
        {"packs": False, "steering_needed": True},
    ),
    (
        "one that went before",
        [pod("a", "--v=2", phase="Failed"), pod("b", CONFIG, source=FROM_MAP), config_map(PACKS)],
        {"packs": True, "steering_needed": False},
    ),
    (
        "a file of the host",
        [pod("s", CONFIG, source=FROM_HOST)],
        {
            "visible": False,
            "packs": None,
            "steering_needed": True,
            "reasons": [
                "pod s reads /etc/s/c.yaml, which is /etc/kubernetes/c.yaml on its host: give that as configuration_file there"
            ],
        },
    ),
    ("a file of the image", [pod("s", CONFIG)], {"reasons": ["pod s reads /etc/s/c.yaml, which is from no ConfigMap"]}),
    ("a snapshot without arguments", [pod("s")], {"reasons": ["pod s does not say how it was started"], "packs": None}),
    ("other pods", [pod("s", "--v=2", component="etcd")], {"visible": False, "packs": None, "schedulers": []}),
    (
        "a ConfigMap that is not there",
        [pod("s", CONFIG, source=FROM_MAP)],
        {"visible": False, "packs": None},
    ),
    (
        "a ConfigMap without the key",
        [pod("s", CONFIG, source=FROM_MAP), config_map("") | {"data": {}}],
        {"reasons": ["ConfigMap kube-system/packing: c.yaml: there is no such key"], "packs": None},
    ),
    (
        "a ConfigMap that holds something else",
        [pod("s", CONFIG, source=FROM_MAP), config_map("kind: Policy")],
        {"reasons": ["s: kind: is 'Policy'; wanted is KubeSchedulerConfiguration"], "visible": False, "packs": None},
    ),
]


@pytest.mark.parametrize(("objects", "told"), [row[1:] for row in DUMPS], ids=[row[0] for row in DUMPS])
def test_what_a_dump_tells_of(objects: list[Object], told: Object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    found = run_module(gpu_scheduler_info, capsys, src=str(file))
    assert found["changed"] is False
    assert {key: found[key] for key in told} == told
    assert found["cluster"] == {"server": None, "uid": None}


def test_how_each_was_started_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump.json"
    objects = [pod("b", CONFIG, source=FROM_HOST), pod("a", CONFIG, source=FROM_MAP), config_map(PACKS)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    path = {"config_path": "/etc/s/c.yaml"}
    assert run_module(gpu_scheduler_info, capsys, src=str(file))["schedulers"] == [
        path | {"name": "a", "way": "config_map", "config_map": "packing", "host_path": None},
        path | {"name": "b", "way": None, "config_map": None, "host_path": "/etc/kubernetes/c.yaml"},
    ]


def test_a_file_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(PACKS)
    found = run_module(gpu_scheduler_info, capsys, configuration_file=str(file))
    assert (found["packs"], found["schedulers"][0]["way"]) == (True, "file")
    assert found["message"].startswith("The scheduler packs nvidia.com/gpu:")


@pytest.mark.parametrize(
    ("text", "said"),
    [("kind: Policy", "kind: is 'Policy'"), ("a: [", "is no YAML"), ("", "is empty")],
    ids=["another kind", "no YAML", "empty"],
)
def test_a_file_that_is_none_is_refused(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(text)
    told = run_module(gpu_scheduler_info, capsys, code=1, configuration_file=str(file))["msg"]
    assert told.startswith(str(file))
    assert said in told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "https://s", "src": "/d"}, "url: is given, and src too; give one of them"),
        ({"url": "http://s"}, "url: is 'http://s'; it is an address such as https://"),
        ({"src": "/d", "gpus_per_node": 0}, "gpus_per_node: is 0; it must be at least 1"),
        ({"configuration_file": "/nowhere"}, "/nowhere: No such file or directory"),
    ],
    ids=["two ways", "no TLS", "no GPUs", "no file"],
)
def test_options_that_make_no_sense_are_named(given: Object, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_module(gpu_scheduler_info, capsys, code=1, **given)["msg"].startswith(said)


class Answering:
    """A connection that answers what it was told, and nothing else."""

    identity = {"server": "https://c", "uid": "u"}  # noqa: RUF012

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def ask(self, path: str, *, once: bool = False, **query: Any) -> tuple[Any, str]:
        for end, answer in self.answers.items():
            if path.endswith(end):
                if isinstance(answer, Exception):
                    raise answer
                return answer, ""
        return None, f"GET {path} answers 403: no; grant this right"


LIST = {"items": [pod("s", "--v=2", "--secure-port=1")]}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"/pods": LIST, "/pods/https:s:1/proxy/configz": {"componentconfig": PACKING}}, {"packs": True, "way": "proxy"}),
        ({"/pods": LIST}, {"packs": False, "way": "arguments"}),
        ({}, {"packs": None, "way": ""}),
    ],
    ids=["a pod that answers", "a pod that does not", "no right to list pods"],
)
def test_pods_are_asked_before_their_arguments_are_read(
    answers: Object, told: Object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scheduler, "connect", lambda params: Answering(answers))
    found = run_module(gpu_scheduler_info, capsys)
    assert found["packs"] is told["packs"]
    assert "".join(each["way"] for each in found["schedulers"]) == told["way"]
    assert found["cluster"] == Answering.identity
    assert ("answers 403" in found["message"]) == (not told["way"])


def test_a_scheduler_is_asked_at_its_address_with_its_own_authority(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def reach(params: Object, url: str, ca_cert: str | None, validate_certs: bool) -> Answering:
        asked.append((url, ca_cert, validate_certs, params["api_key"]))
        return Answering({"/configz": {"componentconfig": dict(DEFAULTS)}})

    monkeypatch.setattr(_scheduler, "reach", reach)
    given: Object = {"url": "https://s:10259/configz", "url_ca_cert": "/ca", "api_key": "t0ken"}
    found = run_module(gpu_scheduler_info, capsys, **given)
    assert asked == [("https://s:10259", "/ca", True, "t0ken")]
    assert (found["packs"], found["schedulers"][0]["way"]) == (False, "url")


def test_a_cluster_that_does_not_answer_is_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scheduler, "connect", lambda params: Answering({"/pods": InputError("GET fails 5 times", source="c")}))
    assert run_module(gpu_scheduler_info, capsys, code=1)["msg"] == "c: GET fails 5 times"
