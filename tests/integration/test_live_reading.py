# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists read over kubernetes.core's client from a server that misbehaves: the right result or a clear error, never less."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _kubernetes
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode
from ansible_collections.gpuops.defrag.plugins.module_utils._kubernetes import (
    ATTEMPTS,
    LIVE_ARGUMENTS,
    MEASURING,
    connect,
)
from ansible_collections.gpuops.defrag.plugins.modules import gpu_fragmentation_info
from ansible_collections.gpuops.defrag.tests.integration import api_server
from ansible_collections.gpuops.defrag.tests.integration.api_server import (
    UID,
    ApiServer,
    Fault,
    changes,
    closes,
    cut,
    cut_at_will,
    cut_chunks,
    dies,
    refuses,
    says,
    stalls,
    stalls_half_way,
    token,
)
from ansible_collections.gpuops.defrag.tests.unit.builders import GPU, claim, measured, node, pod
from ansible_collections.gpuops.defrag.tests.unit.running import run_module

Object = dict[str, Any]

PAGE = 3
NODES = [node(f"n{i}", 8) for i in range(4)]
PODS = [pod(f"p{i}", 1 + i % 4, f"n{i % 4}", requests={"cpu": "1"}) for i in range(10)]
CLAIMS = [claim(f"c{i}") for i in range(4)]
PODS_PATH, NODES_PATH, CLAIMS_PATH = "/api/v1/pods", "/api/v1/nodes", "/api/v1/persistentvolumeclaims"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
# Pages of pods and of nodes at which something goes wrong: the first, one in the middle, the last.
PLACES = [(PODS_PATH, 1), (PODS_PATH, 2), (PODS_PATH, 4), (NODES_PATH, 2)]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("K8S_AUTH_") or name.lower().endswith("_proxy") or name == "KUBECONFIG":
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer({PODS_PATH: PODS, NODES_PATH: NODES, CLAIMS_PATH: CLAIMS}) as running:
        yield running


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited between requests, without the waiting."""
    waited: list[float] = []
    monkeypatch.setattr(_kubernetes, "time", SimpleNamespace(sleep=waited.append))
    return waited


def options(server: ApiServer, **given: Any) -> Object:
    """The options of a module, as Ansible fills them in."""
    plain: Object = {name: argument.get("default") for name, argument in LIVE_ARGUMENTS.items()}
    return plain | {"host": server.url, "api_key": "a-token", "page_size": PAGE, "request_timeout": 1} | given


def items(pages: Iterator[Object]) -> list[Object]:
    return [{"kind": page["kind"], **item} for page in pages for item in page["items"]]


def read(server: ApiServer, **given: Any) -> list[Object]:
    """The items of all lists."""
    return connect(options(server, **given)).read(MEASURING, items)


def refused(server: ApiServer, **given: Any) -> str:
    """The error of reading, which must name the server."""
    with pytest.raises(InputError) as error:
        read(server, **given)
    assert str(error.value).startswith(f"{server.url}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{server.url}: ")


def in_lists(objects: list[Object]) -> list[Object]:
    return [{**item, "kind": f"{item['kind']}List"} for item in objects]


WHOLE = in_lists([*CLAIMS, *PODS, *NODES])


def test_pages_put_together_are_the_whole_lists_and_each_is_asked_for_once(server: ApiServer) -> None:
    assert read(server) == WHOLE
    assert server.pages(PODS_PATH) == [1, 2, 3, 4]
    assert server.pages(NODES_PATH) == [1, 2]


@pytest.mark.parametrize("page_size", [1, 4, 5, 9, 10, 11, 500])
def test_the_size_of_pages_changes_nothing_but_their_number(server: ApiServer, page_size: int) -> None:
    assert read(server, page_size=page_size) == WHOLE
    assert len(server.pages(PODS_PATH)) == -(-len(PODS) // page_size)


def test_every_list_says_its_kind_so_that_an_empty_one_is_known_to_be_empty(server: ApiServer) -> None:
    cluster = connect(options(server)).read(MEASURING, decode)
    assert "PersistentVolume" in cluster.kinds
    assert not cluster.volumes


def another_version(page: Object) -> None:
    page["metadata"]["resourceVersion"] = "4712"


# What passes when it is asked for again: that page, or from the start of everything ("all").
PASSING: list[tuple[str, Fault, str]] = [
    ("connection closed", closes, "page"),
    ("body cut short", cut, "page"),
    ("chunks cut short", cut_chunks, "page"),
    ("body cut short, no length given", cut_at_will, "page"),
    ("no answer in time", stalls, "page"),
    ("half an answer in time", stalls_half_way, "page"),
    ("429", refuses(429), "page"),
    ("429 with Retry-After", refuses(429, Retry_After="1"), "page"),
    ("500", refuses(500), "page"),
    ("502 of a proxy", says(b"<html>Bad Gateway</html>", 502, **{"Content-Type": "text/html"}), "page"),
    ("503", refuses(503), "page"),
    ("504", refuses(504), "page"),
    ("no JSON", says(b'{"kind": "PodList", "items": ['), "page"),
    ("no body", says(b""), "page"),
    ("no object", says(b"[]"), "page"),
    ("not UTF-8", says(b'{"kind":"\xff"}'), "page"),
    ("JSON without end", says(b"[" * 200_000), "page"),
    ("410", refuses(410), "all"),
]


@pytest.mark.parametrize(("path", "page"), PLACES)
@pytest.mark.parametrize(("fault", "again"), [row[1:] for row in PASSING], ids=[row[0] for row in PASSING])
def test_what_passes_leaves_no_trace(
    server: ApiServer, waits: list[float], path: str, page: int, fault: Fault, again: str
) -> None:
    server.faults[path, page] = [fault]
    assert read(server) == WHOLE
    before = list(range(1, page + 1))
    whole = list(range(1, {PODS_PATH: 4, NODES_PATH: 2}[path] + 1))
    assert server.pages(path) == (before + whole[page - 1 :] if again == "page" else before + whole)


@pytest.mark.parametrize(("path", "page"), [place for place in PLACES if place[1] > 1])
def test_a_page_of_another_moment_is_never_put_to_the_others(server: ApiServer, path: str, page: int) -> None:
    server.faults[path, page] = [changes(another_version)]
    assert read(server) == WHOLE
    assert server.pages(path)[:page] == server.pages(path)[page : 2 * page] == list(range(1, page + 1))


def test_a_server_that_dies_for_a_while_is_waited_for(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            server.up()

    monkeypatch.setattr(_kubernetes, "time", SimpleNamespace(sleep=wait))
    server.faults[PODS_PATH, 2] = [dies]
    assert read(server) == WHOLE
    assert waited == [0.5, 1.0, 2.0]


def test_several_faults_on_the_way_add_up_to_the_same_result(server: ApiServer, waits: list[float]) -> None:
    server.faults = {
        (CLAIMS_PATH, 2): [cut, refuses(500)],
        (PODS_PATH, 1): [refuses(429), closes],
        (PODS_PATH, 3): [refuses(503), refuses(410), cut_chunks],
        (NODES_PATH, 2): [changes(another_version), refuses(410), closes],
    }
    assert read(server) == WHOLE


def test_an_empty_page_with_more_to_come_is_not_the_end(server: ApiServer) -> None:
    def emptied(page: Object) -> None:
        page["items"] = []
        page["metadata"]["continue"] = token(0)

    server.faults[PODS_PATH, 1] = [changes(emptied)]
    assert read(server) == WHOLE


@pytest.mark.parametrize("nothing", [None, []])
def test_no_items_are_none(server: ApiServer, nothing: object) -> None:
    server.faults["/api/v1/persistentvolumes", 1] = [changes(lambda page: page | {"items": nothing})]
    assert read(server) == WHOLE


# What does not pass: the fault for good, what is said of it, and how often the page is asked for.
LASTING: list[tuple[str, Fault, str, int]] = [
    ("connection closed", closes, "GET {path} fails 5 times: Remote end closed connection without response; check", 5),
    ("body cut short", cut, "GET {path} fails 5 times: IncompleteRead", 5),
    ("chunks cut short", cut_chunks, "GET {path} fails 5 times: ", 5),
    ("body cut short, no length given", cut_at_will, "GET {path} fails 5 times: ", 5),
    ("no JSON", says(b"{"), "GET {path} fails 5 times: Expecting property name", 5),
    ("no answer in time", stalls, "GET {path} fails 5 times: timed out; check", 5),
    ("429", refuses(429), "GET {path} answers 429: The apiserver is busy. Please retry the request later.; try again later", 5),
    ("500", refuses(500), "GET {path} answers 500: Internal error occurred: etcdserver: request timed out; try again later", 5),
    ("503", refuses(503), "GET {path} answers 503: apiserver not ready; try again later", 5),
    ("502 of a proxy", says(b"<html>", 502), "GET {path} answers 502: Bad Gateway; try again later", 5),
    ("401", refuses(401), "GET {path} answers 401: Unauthorized; renew the credentials", 1),
    ("403", refuses(403), "GET {path} answers 403: pods is forbidden: User", 1),
    ("404", refuses(404), "GET {path} answers 404: the server could not find the requested resource; check", 1),
    ("410", refuses(410), "lists expired 5 times before they were read; give a larger page_size", 5),
    ("another moment", changes(another_version), "lists expired 5 times before they were read; give a larger page_size", 5),
    (
        "wrong kind",
        changes(lambda page: page | {"kind": "NodeList"}),
        "GET {path} answers with 'NodeList', not a PodList; check",
        1,
    ),
    ("no kind", changes(lambda page: page | {"kind": None}), "GET {path} answers with None, not a PodList; check that", 1),
    ("an error that says 200", says(api_server.refusal(500)), "GET {path} answers with 'Status', not a PodList; check", 1),
    (
        "no metadata",
        changes(lambda page: {"kind": "PodList", "items": []}),
        "GET {path} answers with 'PodList', not a PodList",
        1,
    ),
    ("no items", changes(lambda page: {k: v for k, v in page.items() if k != "items"}), "GET {path} answers with 'PodList'", 1),
    (
        "the same page for ever",
        changes(lambda page: page["metadata"].update({"continue": token(3)})),
        "GET {path} gives the same",
        1,
    ),
]


@pytest.mark.parametrize(("fault", "words", "times"), [row[1:] for row in LASTING], ids=[row[0] for row in LASTING])
def test_what_does_not_pass_is_one_clear_error_after_a_bounded_number_of_tries(
    server: ApiServer, waits: list[float], fault: Fault, words: str, times: int
) -> None:
    server.faults[PODS_PATH, 2] = [fault] * 100
    told = refused(server)
    assert told.startswith(words.format(path=PODS_PATH))
    assert server.pages(PODS_PATH).count(2) == times
    assert sum(waits) <= 0.5 + 1 + 2 + 4


def test_a_server_that_stays_dead_is_given_up(server: ApiServer, waits: list[float]) -> None:
    server.faults[PODS_PATH, 2] = [dies]
    assert refused(server).startswith("GET /api/v1/pods fails 5 times: [Errno 111] Connection refused; check")
    server.up()


@pytest.mark.parametrize(("path", "page", "status"), [(CLAIMS_PATH, 2, 403), (CLAIMS_PATH, 2, 404), (PODS_PATH, 3, 403)])
def test_a_list_refused_half_way_is_an_error_even_where_it_may_be_missing(
    server: ApiServer, path: str, page: int, status: int
) -> None:
    server.faults[path, page] = [refuses(status)]
    assert refused(server).startswith(f"GET {path} answers {status}: ")


def test_an_item_that_is_no_object_is_told_with_server_and_place(server: ApiServer) -> None:
    server.faults[PODS_PATH, 2] = [changes(lambda page: page | {"items": ["p3"]})]
    live = connect(options(server))
    with pytest.raises(InputError, match=r"PodList: items\[0\]: is str, not an object"):
        live.read(MEASURING, lambda pages: decode(pages, source=live.name))


def test_a_missing_right_that_is_dispensable_is_noted_and_the_rest_is_whole(server: ApiServer) -> None:
    server.faults[CLAIMS_PATH, 1] = [refuses(403)]
    live = connect(options(server))
    assert live.read(MEASURING, items) == in_lists([*PODS, *NODES])
    assert live.notes == ["may not list persistentvolumeclaims: what depends on it is unknown"]


def test_a_list_that_the_cluster_does_not_serve_is_noted(server: ApiServer) -> None:
    server.faults["/api/v1/persistentvolumes", 1] = [refuses(404)]
    live = connect(options(server))
    assert live.read(MEASURING, items) == WHOLE
    assert live.notes == ["the cluster serves no persistentvolumes"]


def test_all_rights_that_are_missing_are_told_at_once(server: ApiServer) -> None:
    for path in (CLAIMS_PATH, PODS_PATH, NODES_PATH):
        server.faults[path, 1] = [refuses(403)]
    told = refused(server)
    assert told.startswith("may not list persistentvolumeclaims, list pods, list nodes; grant these rights")


def test_notes_are_those_of_the_reading_that_counts(server: ApiServer) -> None:
    server.faults = {(CLAIMS_PATH, 1): [refuses(403)], (PODS_PATH, 2): [refuses(410)]}
    live = connect(options(server))
    assert live.read(MEASURING, items) == WHOLE
    assert live.notes == []


# What the server says in Retry-After, and what is waited then and the next time.
RETRY_AFTER = [
    (None, [0.5, 1.0]),
    ("0", [0.5, 1.0]),
    ("2", [2.0, 1.0]),
    ("7", [7.0, 1.0]),
    ("86400", [30.0, 1.0]),
    ("Fri, 31 Dec 1999 23:59:59 GMT", [0.5, 1.0]),
    ("soon", [0.5, 1.0]),
    ("-5", [0.5, 1.0]),
]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("after", "expected"), RETRY_AFTER)
def test_the_server_says_how_long_to_wait_but_not_for_longer_than_a_request_may_take(
    server: ApiServer, waits: list[float], status: int, after: str | None, expected: list[float]
) -> None:
    first = refuses(status) if after is None else refuses(status, Retry_After=after)
    server.faults[PODS_PATH, 2] = [first, refuses(500)]
    assert read(server, request_timeout=30) == WHOLE
    assert waits == expected


def test_tries_are_as_many_as_said_and_further_apart_each_time(server: ApiServer, waits: list[float]) -> None:
    server.faults[PODS_PATH, 1] = [refuses(500)] * (ATTEMPTS - 1)
    assert read(server) == WHOLE
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_only_the_first_page_says_the_version_and_every_page_says_its_size_and_what_to_leave_out(server: ApiServer) -> None:
    read(server, resource_version="0")
    unfinished = "status.phase!=Succeeded,status.phase!=Failed"
    assert [asked.query for asked in server.asked if asked.path == PODS_PATH] == [
        {"limit": "3", "fieldSelector": unfinished, "resourceVersion": "0"},
        *({"limit": "3", "fieldSelector": unfinished, "continue": token(start)} for start in (3, 6, 9)),
    ]
    assert [asked.query for asked in server.asked if asked.path == NODES_PATH] == [
        {"limit": "3", "resourceVersion": "0"},
        {"limit": "3", "continue": token(3)},
    ]


def test_without_a_version_none_is_said_which_means_the_newest(server: ApiServer) -> None:
    read(server)
    assert all("resourceVersion" not in asked.query for asked in server.asked)


def test_a_version_that_is_too_old_is_told_as_such(server: ApiServer) -> None:
    server.faults[CLAIMS_PATH, 1] = [refuses(410)] * 100
    assert refused(server, resource_version="17") == (
        "lists at resource_version 17 expired 5 times; leave it out to read the newest"
    )


def test_a_connection_asks_for_one_thing_which_cluster_it_is(server: ApiServer) -> None:
    live = connect(options(server))
    assert [asked.path for asked in server.asked] == [KUBE_SYSTEM]
    assert live.identity == {"server": server.url, "uid": UID}
    assert live.now == pytest.approx(time.time(), abs=5)


def test_the_token_goes_with_every_request(server: ApiServer) -> None:
    read(server)
    assert {asked.authorization for asked in server.asked} == {"Bearer a-token"}


def test_another_server_that_this_one_points_to_is_not_asked(server: ApiServer) -> None:
    with ApiServer({}) as other:
        server.faults[PODS_PATH, 2] = [says(b"", 302, Location=f"{other.url}/api/v1/pods")]
        assert refused(server).startswith("GET /api/v1/pods answers 302: Found; check that this is the API server")
        assert other.asked == []


# What is asked of kube-system, what comes of it, and what is said.
IDENTITY: list[tuple[str, Fault | None, str | None, str | None]] = [
    ("no uid declared", None, None, None),
    ("the uid declared", None, UID, None),
    ("another uid declared", None, "another", f"is the cluster {UID}, not another as cluster_uid says"),
    ("no right to see it", refuses(403), None, None),
    ("no right to see it, and declared", refuses(403), UID, "may not get namespaces, so it cannot be told whether this is"),
    ("wrong credentials", refuses(401), None, f"GET {KUBE_SYSTEM} answers 401: Unauthorized; renew the credentials"),
    ("no such thing", refuses(404), None, f"GET {KUBE_SYSTEM} answers 404: the server could not find the requested resource"),
    ("a web server", says(b"<html></html>"), None, f"GET {KUBE_SYSTEM} fails 5 times: Expecting value"),
    ("some other API", says(b"{}"), None, f"GET {KUBE_SYSTEM} answers with None, not a Namespace; check"),
    ("no uid", says(b'{"kind":"Namespace","metadata":{}}'), None, f"GET {KUBE_SYSTEM} answers with 'Namespace', not a Namespace"),
    ("gone", refuses(410), None, f"GET {KUBE_SYSTEM} answers that it expired (410); check"),
    ("silence", stalls, None, f"GET {KUBE_SYSTEM} fails 5 times: timed out; check"),
]


@pytest.mark.parametrize(("fault", "declared", "words"), [row[1:] for row in IDENTITY], ids=[row[0] for row in IDENTITY])
def test_it_is_made_sure_which_cluster_answers(
    server: ApiServer, waits: list[float], fault: Fault | None, declared: str | None, words: str | None
) -> None:
    server.faults[KUBE_SYSTEM, 1] = [fault] * 100 if fault else []
    if words is None:
        assert connect(options(server, cluster_uid=declared)).uid == (None if fault else UID)
    else:
        assert refused(server, cluster_uid=declared).startswith(words)
        assert {asked.path for asked in server.asked} == {KUBE_SYSTEM}


@pytest.mark.parametrize("name", ["page_size", "request_timeout"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_or_time_of_nothing_is_refused(server: ApiServer, name: str, value: int) -> None:
    with pytest.raises(InputError, match=f"^{name}: is {value}; it must be at least 1$"):
        connect(options(server, **{name: value}))
    assert server.asked == []


GOOD = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}
KUBECONFIGS: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("text", b"hello"),
    ("list", b"[]"),
    ("number", b"5"),
    ("not YAML", b"a: [b"),
    ("not UTF-8", b"\xff\xfe\x00"),
    ("no context", json.dumps(GOOD | {"current-context": ""}).encode()),
    ("unknown context", json.dumps(GOOD | {"current-context": "other"}).encode()),
    ("no clusters", json.dumps(GOOD | {"clusters": None}).encode()),
    ("clusters of another shape", json.dumps(GOOD | {"clusters": {"c": 1}}).encode()),
    ("users of another shape", json.dumps(GOOD | {"users": [7]}).encode()),
]


@pytest.mark.parametrize("content", [row[1] for row in KUBECONFIGS], ids=[row[0] for row in KUBECONFIGS])
def test_a_kubeconfig_that_is_none_is_one_clear_error(server: ApiServer, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(InputError, match=r"^cannot connect: .+; give kubeconfig, or host and api_key$"):
        connect(options(server, host=None, api_key=None, kubeconfig=str(tmp_path / "config")))


def test_a_kubeconfig_that_is_missing_is_one_clear_error(server: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot connect: .+; give kubeconfig, or host and api_key$"):
        connect(options(server, host=None, api_key=None, kubeconfig=str(tmp_path / "none")))


def test_one_connection_takes_nothing_from_the_one_before(server: ApiServer, tmp_path: Path) -> None:
    config = GOOD | {"clusters": [{"name": "c", "cluster": {"server": server.url}}]}
    (tmp_path / "config").write_text(json.dumps(config))
    connect(options(server, host=None, api_key=None, kubeconfig=str(tmp_path / "config")))
    connect(options(server, api_key=None, username="someone", password="else"))
    assert server.asked[0].authorization == "Bearer t"
    assert server.asked[1].authorization != "Bearer t"


class Items(list[Object]):
    """A list that can be watched."""


def test_no_page_is_held_while_the_next_one_is_asked_for(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[weakref.ref[Items]] = []

    def loads(text: bytes) -> Object:
        assert [held for held in watched if held()] == []
        page: Object = json.loads(text)
        if "items" in page:
            page["items"] = Items(page["items"])
            watched.append(weakref.ref(page["items"]))
        return page

    live = connect(options(server))
    monkeypatch.setattr(_kubernetes, "json", SimpleNamespace(loads=loads))
    cluster = live.read(MEASURING, decode)
    assert sum(map(len, cluster.bound.values())) == len(PODS)
    assert len(watched) == 2 + 1 + 1 + 4 + 2


def test_pods_on_nodes_that_came_or_went_meanwhile_are_set_aside(server: ApiServer) -> None:
    server.items[NODES_PATH] = server.items[NODES_PATH][:3]
    cluster = connect(options(server)).read(MEASURING, lambda pages: decode(pages, live=True))
    assert sorted(str(each) for each in cluster.strangers) == ["default/p3", "default/p7"]
    assert sum(map(len, cluster.bound.values())) == len(PODS) - 2


def test_the_module_measures_what_the_lists_hold_whatever_happens_on_the_way(
    server: ApiServer, capsys: pytest.CaptureFixture[str], waits: list[float]
) -> None:
    server.faults = {(PODS_PATH, 2): [cut], (PODS_PATH, 3): [refuses(410)], (NODES_PATH, 2): [refuses(429)]}
    result = run_module(gpu_fragmentation_info, capsys, host=server.url, api_key="a-token", page_size=PAGE, resource_name=GPU)
    expected = json.loads(json.dumps(measured([*CLAIMS, *PODS, *NODES], now=time.time())))
    assert result["fragmentation"] == expected
    assert result["cluster"] == {"server": server.url, "uid": UID}


def test_the_module_fails_in_one_sentence_when_a_list_cannot_be_read_to_its_end(
    server: ApiServer, capsys: pytest.CaptureFixture[str], waits: list[float]
) -> None:
    server.faults[PODS_PATH, 3] = [cut] * 100
    result = run_module(gpu_fragmentation_info, capsys, code=1, host=server.url, api_key="a-token", page_size=PAGE)
    assert result["msg"].startswith(f"{server.url}: GET {PODS_PATH} fails 5 times: IncompleteRead")
    assert "fragmentation" not in result
