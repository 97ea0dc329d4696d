# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod's arguments and volumes say where its scheduler has its configuration from."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.scheduler.pods import Started, started
from ansible_collections.gpuops.defrag.tests.unit.builders import Object


def pod(*args: str, mounts: Object | None = None, image: str = "registry/kube-scheduler:v1", **volume: Any) -> Object:
    """A scheduler's pod with one volume, mounted at these paths with further fields."""
    mounted = [{"name": "config", "mountPath": path, **more} for path, more in (mounts or {}).items()]
    scheduler = {"name": "main", "image": image, "args": list(args), "volumeMounts": mounted}
    beside = {"name": "beside", "image": "example/proxy", "args": ["--config=/not/this"]}
    volumes = [{"name": "other", "emptyDir": {}}, {"name": "config"} | volume]
    return {"metadata": {"name": "s"}, "spec": {"containers": [beside, scheduler], "volumes": volumes}}


FOLDER: Object = {"/etc/s": {}}
FILE: Object = {"/etc/s/c.yaml": {"subPath": "key.yaml"}}
MAP = {"name": "packing"}
ITEMS = MAP | {"items": [{"key": "k", "path": "c.yaml"}, {"key": "other", "path": "d.yaml"}]}
CONFIG = "--config=/etc/s/c.yaml"
PATH = "/etc/s/c.yaml"

STARTED: list[tuple[str, Object, Started]] = [
    ("no arguments that matter", pod("kube-scheduler", "--v=2"), Started()),
    ("another port", pod("--secure-port=10260"), Started(port="10260")),
    ("one dash, and the value by itself", pod("-secure-port", "1", "-config", "/a"), Started("/a", port="1")),
    ("the last one counts", pod("--config=/a", "--config=/b"), Started("/b")),
    (
        "a script",
        pod("-c", f"exec /usr/bin/kube-scheduler {CONFIG} 2>&1", mounts=FOLDER, configMap=MAP),
        Started(PATH, ("packing", "c.yaml")),
    ),
    ("a flag without its value", pod("kube-scheduler", "--config"), Started()),
    ("from the image", pod(CONFIG), Started(PATH)),
    ("a folder from a ConfigMap", pod(CONFIG, mounts=FOLDER, configMap=MAP), Started(PATH, ("packing", "c.yaml"))),
    ("one key of a ConfigMap", pod(CONFIG, mounts=FOLDER, configMap=ITEMS), Started(PATH, ("packing", "k"))),
    ("none of its keys", pod("--config=/etc/s/e", mounts=FOLDER, configMap=ITEMS), Started("/etc/s/e")),
    ("one file of a ConfigMap", pod(CONFIG, mounts=FILE, configMap=MAP), Started(PATH, ("packing", "key.yaml"))),
    (
        "a ConfigMap among others",
        pod(CONFIG, mounts=FOLDER, projected={"sources": [{"secret": {"name": "s"}}, {"configMap": ITEMS}]}),
        Started(PATH, ("packing", "k")),
    ),
    ("a folder of the host", pod(CONFIG, mounts=FOLDER, hostPath={"path": "/host"}), Started(PATH, host_path="/host/c.yaml")),
    ("a file of the host", pod(CONFIG, mounts={PATH: {}}, hostPath={"path": "/h.yaml"}), Started(PATH, host_path="/h.yaml")),
    ("a secret", pod(CONFIG, mounts=FOLDER, secret={"secretName": "s"}), Started(PATH)),
    ("a folder of a like name", pod("--config=/etc/search/c", mounts=FOLDER, configMap=MAP), Started("/etc/search/c")),
    (
        "the nearest mount",
        pod(CONFIG, mounts={"/etc": {"name": "other"}} | FOLDER, configMap=MAP),
        Started(PATH, ("packing", "c.yaml")),
    ),
    ("arguments left out", pod(), Started(known=False)),
    ("another program", pod("--v=2", image="example/proxy"), Started(known=False)),
    ("nothing", {"metadata": {}}, Started(known=False)),
]


@pytest.mark.parametrize(("given", "found"), [row[1:] for row in STARTED], ids=[row[0] for row in STARTED])
def test_how_it_was_started_is_read_from(given: Object, found: Started) -> None:
    assert started(given) == found
