# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._snapshot import read_objects
from ansible_collections.gpuops.defrag.plugins.modules import gpu_snapshot
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

Object = dict[str, Any]


def node(name: str, pool: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]},
    }


def pod(name: str, **spec: Any) -> Object:
    containers = [{"name": "main", "image": "private/llm", "env": [{"name": "TOKEN", "value": "geheim"}]}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "team", "name": name},
        "spec": {"containers": containers, **spec},
    }


SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "Z2VoZWlt"}}
CLUSTER: Object = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        node("node-a", "a"),
        node("node-b", "b"),
        pod("llm-0", nodeName="node-a"),
        pod("llm-1", nodeName="node-b"),
        pod("llm-2"),
        SECRET,
        SECRET,
    ],
}


@pytest.fixture
def src(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(CLUSTER))
    return str(file)


@pytest.fixture
def dest(tmp_path: Path) -> str:
    return str(tmp_path / "snapshot.json")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the module with arguments; what it prints."""

    def run(**arguments: Any) -> Object:
        return run_module(gpu_snapshot, capsys, **arguments)

    return run


def saved(path: str) -> list[Object]:
    data = Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    items: list[Object] = document["items"]
    return items


def names(path: str) -> list[str]:
    return [item["metadata"]["name"] for item in saved(path)]


def test_it_writes_what_measuring_needs_and_tells_how_much(run: Any, src: str, dest: str) -> None:
    result = run(src=src, dest=dest)
    assert result["changed"] is True
    assert result["path"] == dest
    assert result["objects"] == 5
    assert result["bytes"] == Path(dest).stat().st_size
    assert result["kinds"] == {"Node": 2, "Pod": 3}
    assert result["dropped"] == {"Secret": 2}
    assert names(dest) == ["node-a", "node-b", "llm-0", "llm-1", "llm-2"]
    text = Path(dest).read_text()
    assert not [secret for secret in ("geheim", "Z2VoZWlt", "TOKEN", "private/llm", "10.1.2.3") if secret in text]


def test_a_second_run_changes_nothing(run: Any, src: str, dest: str) -> None:
    first, second = run(src=src, dest=dest), run(src=src, dest=dest)
    assert (first.pop("changed"), second.pop("changed")) == (True, False)
    assert first == second


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_the_name_decides_on_compression(run: Any, src: str, tmp_path: Path, suffix: str) -> None:
    dest = f"{tmp_path}/snapshot.{suffix}"
    run(src=src, dest=dest)
    assert Path(dest).read_bytes().startswith(b"\x1f\x8b") == suffix.endswith("gz")
    assert len(saved(dest)) == 5


def test_check_mode_tells_the_truth_and_writes_nothing(run: Any, src: str, dest: str) -> None:
    told = run(check=True, src=src, dest=dest)
    assert not Path(dest).exists()
    done = run(src=src, dest=dest)
    assert told == {key: done[key] for key in told}
    assert run(check=True, src=src, dest=dest)["changed"] is False


def test_the_difference_shows_counts_and_no_contents(run: Any, src: str, dest: str) -> None:
    first = run(diff=True, src=src, dest=dest)
    after = {"bytes": first["bytes"], "kinds": {"Node": 2, "Pod": 3}}
    assert first["diff"] == {"before_header": dest, "after_header": dest, "before": {}, "after": after}
    second = run(diff=True, check=True, src=src, dest=dest, node_selector="pool=a")
    assert second["diff"]["before"] == after
    assert second["diff"]["after"] == {"bytes": second["bytes"], "kinds": {"Node": 1, "Pod": 2}}


def test_a_file_that_is_no_snapshot_is_replaced(run: Any, src: str, dest: str) -> None:
    Path(dest).write_text("something else")
    assert run(diff=True, src=src, dest=dest)["diff"]["before"] == {}
    assert len(saved(dest)) == 5


def test_hashed_names_are_the_same_in_every_file_of_one_key(run: Any, src: str, dest: str) -> None:
    run(src=src, dest=dest, hash_names=True, hash_key="one")
    first = Path(dest).read_text()
    assert not [name for name in ("node-a", "llm-", "team", "main", "pool") if name in first]
    kinds = [item["kind"] for item in saved(dest)]
    assert kinds == ["Node", "Node", "Pod", "Pod", "Pod"]
    nodes, pods = saved(dest)[:2], saved(dest)[2:]
    assert {p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]} == {n["metadata"]["name"] for n in nodes}
    assert run(src=src, dest=dest, hash_names=True, hash_key="one")["changed"] is False
    assert run(src=src, dest=dest, hash_names=True, hash_key="two")["changed"] is True
    assert not set(names(dest)) & {n["metadata"]["name"] for n in nodes}


@pytest.mark.parametrize("selector", ["pool=a", "pool notin (b)", {"pool": "a"}])
def test_a_node_selector_keeps_matching_nodes_their_pods_and_the_waiting(run: Any, src: str, dest: str, selector: Any) -> None:
    result = run(src=src, dest=dest, node_selector=selector)
    assert names(dest) == ["node-a", "llm-0", "llm-2"]
    assert result["dropped"] == {"Node": 1, "Pod": 1, "Secret": 2}


def test_a_node_selector_that_matches_nothing_is_said_aloud(
    run: Any, src: str, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a controller's code was imported before, ansible shows warnings instead of returning them.
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda module, warning: warnings.append(warning))
    assert run(src=src, dest=dest, node_selector="pool=c")["kinds"] == {"Pod": 1}
    assert warnings == ["no node matches node_selector; the snapshot holds none"]


def test_any_snapshot_can_be_taken_again(run: Any, src: str, dest: str, tmp_path: Path) -> None:
    run(src=src, dest=dest)
    again = f"{tmp_path}/again.json"
    assert run(src=dest, dest=again)["dropped"] == {}
    assert Path(again).read_bytes() == Path(dest).read_bytes()


REFUSED: list[tuple[Object, str]] = [
    ({"src": "{folder}/none"}, "{folder}/none: there is no such file; give src the path of a snapshot on this host"),
    ({"dest": "{folder}"}, "{folder}: is a directory; give the path of a file"),
    ({"dest": "{folder}/none/x"}, "{folder}/none/x: its folder does not exist; create it first"),
    (
        {"dest": "{folder}/../{name}/cluster.json"},
        "dest: is src itself; give another path, so that the original stays",
    ),
    ({"node_selector": "a=b=c"}, "node_selector: cannot read 'a=b=c'; write it as for kubectl -l"),
    ({"node_selector": ["a"]}, "node_selector: is neither text as for kubectl -l nor a mapping of labels"),
    (
        {"hash_names": True, "hash_key": ""},
        "hash_key: is empty; give a long random text and keep it secret",
    ),
    ({"hash_names": True}, "hash_names is True but all of the following are missing: hash_key"),
]


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_arguments_get_one_clear_error_and_write_nothing(
    run: Any, src: str, dest: str, tmp_path: Path, check: bool, arguments: Object, message: str
) -> None:
    def filled(value: Any) -> Any:
        return value.format(folder=tmp_path, name=tmp_path.name) if isinstance(value, str) else value

    given = {"src": src, "dest": dest} | {name: filled(value) for name, value in arguments.items()}
    result = run(code=1, check=check, **given)
    assert result["msg"] == filled(message)
    assert "exception" not in result
    assert [file.name for file in tmp_path.iterdir()] == ["cluster.json"]
    assert json.loads(Path(src).read_text()) == CLUSTER


BROKEN: list[tuple[str, str]] = [
    ("", "is empty; write the file again with kubectl get … -o json"),
    ('{"kind": "Pod", "metadata": {"name": "p"}}', "Pod p: spec: is missing"),
    (json.dumps(pod("p", nodeName="gone")), "Pod team/p: spec.nodeName: node 'gone' is not in the input"),
    (json.dumps(node("n", "a") | {"spec": {"taints": "all"}}), "Node n: spec.taints: is str"),
    (json.dumps(pod("p", schedulingGates={})), "Pod team/p: spec.schedulingGates: is dict, the API has a list there"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_broken_source_gets_one_error_that_names_file_object_and_field(
    run: Any, src: str, dest: str, content: str, message: str
) -> None:
    Path(src).write_text(content)
    result = run(code=1, src=src, dest=dest)
    assert result["msg"].startswith(f"{src}: {message}")
    assert "exception" not in result
    assert not Path(dest).exists()


def test_a_source_without_objects_is_an_empty_snapshot(run: Any, src: str, dest: str) -> None:
    Path(src).write_text('{"kind": "List", "items": []}')
    assert run(src=src, dest=dest)["objects"] == 0
    assert saved(dest) == []


def test_a_list_that_was_read_and_is_empty_stays_so(run: Any, tmp_path: Path, dest: str) -> None:
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    waiting = pod("llm-0", volumes=claims)
    waiting["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    src = tmp_path / "lists.json"
    src.write_text(
        json.dumps({"kind": "NodeList", "items": [node("n", "a")]}) + json.dumps({"kind": "PodList", "items": [waiting]})
    )
    with src.open("a") as file:
        file.write(json.dumps({"kind": "PersistentVolumeList", "items": []}))
    assert run(src=str(src), dest=dest)["kinds"] == {"Node": 1, "Pod": 1}
    assert {"PersistentVolume", "Node", "Pod"} == decode(read_objects(dest)).kinds
    assert run(src=str(src), dest=dest)["changed"] is False
