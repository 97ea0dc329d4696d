# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists served page by page on loopback, in the API server's own format, with faults where a test wants them."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]

UID = "0f4e7a52-63a8-4c6b-9d0c-6d7f3a1f9a11"
VERSION = 4711
# What the API server itself says, by status.
REASONS = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", 'pods is forbidden: User "auditor" cannot list resource "pods" in API group "" at the cluster scope'),
    404: ("NotFound", "the server could not find the requested resource"),
    410: (
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
        "the continue parameter, or use the continue token in this response to retrieve the remainder of the results.",
    ),
    429: ("TooManyRequests", "The apiserver is busy. Please retry the request later."),
    500: ("InternalError", "Internal error occurred: etcdserver: request timed out"),
    502: ("InternalError", "bad gateway"),
    503: ("ServiceUnavailable", "apiserver not ready"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}
# The lists that any API server has, empty ones too.
KINDS = {
    "/api/v1/namespaces": "Namespace",
    "/api/v1/persistentvolumeclaims": "PersistentVolumeClaim",
    "/api/v1/persistentvolumes": "PersistentVolume",
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came: its path and its query, the last of each name."""

    path: str
    query: Mapping[str, str]
    authorization: str | None

    @property
    def page(self) -> int:
        """Which page of a list it asks for, counted from 1."""
        return int(_opened(self.query["continue"])["start"]) // int(self.query["limit"]) + 1 if "continue" in self.query else 1


@dataclass(slots=True)
class Answer:
    """What is sent: a fault changes it, or sends something else on the bare connection."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


# Given the request's handler and the answer that would be right; sends what it likes. A fault strikes once.
Fault = Callable[["Handler", Answer], None]


def _opened(token: str) -> Object:
    opened: Object = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return opened


def _in_list(item: Object) -> bytes:
    """An object as it stands in a typed list, whose items do not say their kind."""
    return json.dumps(
        {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}, separators=(",", ":")
    ).encode()


def token(start: int) -> str:
    """A continue token, as the API server makes them: opaque to clients."""
    held = {"v": "meta.k8s.io/v1", "rv": VERSION, "start": str(start)}
    return base64.urlsafe_b64encode(json.dumps(held).encode()).decode().rstrip("=")


def refusal(status: int) -> bytes:
    """The Status object that the API server answers with."""
    reason, message = REASONS[status]
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return json.dumps({**answer, "reason": reason, "code": status}).encode()


def refuses(status: int, **headers: str) -> Fault:
    """Answers with this status and the API server's own words for it; ``Retry_After`` is the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, answer: handler.send(Answer(status, refusal(status), named))


def dies(handler: Handler, answer: Answer) -> None:
    """Closes the connection and listens no more, until it is told to be up again."""
    handler.server.owner.down()
    handler.hang_up()


def closes(handler: Handler, answer: Answer) -> None:
    """Closes the connection before a byte of the answer."""
    handler.hang_up()


def cut(handler: Handler, answer: Answer) -> None:
    """Promises the whole body and sends half of it."""
    handler.send(Answer(200, answer.body[: len(answer.body) // 2], {"Content-Length": str(len(answer.body))}))
    handler.hang_up()


def cut_chunks(handler: Handler, answer: Answer) -> None:
    """Sends half of the body as one chunk, and never the chunk that says it is over."""
    half = answer.body[: len(answer.body) // 2]
    handler.send(Answer(200, b"%x\r\n%s\r\n" % (len(half), half), {"Transfer-Encoding": "chunked"}))
    handler.hang_up()


def cut_at_will(handler: Handler, answer: Answer) -> None:
    """Sends half of the body and says of no length at all, as HTTP/1.0 did."""
    handler.send(Answer(200, answer.body[: len(answer.body) // 2], {"Connection": "close"}), sized=False)
    handler.hang_up()


def stalls(handler: Handler, answer: Answer) -> None:
    """Sends nothing until the other side gives up."""
    handler.wait_for_the_other_side()


def stalls_half_way(handler: Handler, answer: Answer) -> None:
    """Sends half of the body, and then nothing until the other side gives up."""
    handler.send(Answer(200, answer.body[: len(answer.body) // 2], {"Content-Length": str(len(answer.body))}))
    handler.wait_for_the_other_side()


def says(body: bytes, status: int = 200, **headers: str) -> Fault:
    """Answers with these bytes."""
    return lambda handler, answer: handler.send(Answer(status, body, dict(headers)))


def changes(change: Callable[[Object], Object | None]) -> Fault:
    """Answers with the page after a change of it, made in place or given back."""

    def fault(handler: Handler, answer: Answer) -> None:
        page = json.loads(answer.body)
        page = change(page) or page
        handler.send(Answer(answer.status, json.dumps(page).encode(), answer.headers))

    return fault


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Head and body leave together, or the other side's acknowledgement is waited for in between.
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        asked = Asked(parts.path, query, self.headers.get("Authorization"))
        fault = self.server.owner.note(asked)
        answer = self.server.owner.answer(asked)
        (fault or Handler.send)(self, answer)

    def send(self, answer: Answer, *, sized: bool = True) -> None:
        """Send an answer, of its own length unless it says another."""
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json"} | answer.headers
        if sized and not headers.keys() & {"Content-Length", "Transfer-Encoding"}:
            headers["Content-Length"] = str(len(answer.body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def hang_up(self) -> None:
        """Close the connection."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def wait_for_the_other_side(self) -> None:
        """Wait until it closes the connection."""
        self.close_connection = True
        self.connection.recv(1)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - http.server's name
        """Nothing is printed."""


class Server(ThreadingHTTPServer):
    """The sockets of one ApiServer."""

    daemon_threads = True
    owner: ApiServer


class ApiServer:
    """Serves lists of objects until it is closed.

    Attributes:
        asked: Every request so far.
        faults: By path and page, what is to go wrong: one fault for each time that page is asked for.
    """

    def __init__(self, lists: Mapping[str, Iterable[Object]]) -> None:
        self.items = {path: [_in_list(item) for item in found] for path, found in lists.items()}
        self.faults: dict[tuple[str, int], list[Fault]] = {}
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        self.port = 0
        self.up()

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(self, *_reason: object) -> None:
        self.down()

    def up(self) -> None:
        """Listen, where it listened before if it did."""
        self._http = Server(("127.0.0.1", self.port), Handler)
        self._http.owner = self
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def down(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def pages(self, path: str) -> list[int]:
        """Which pages of a list were asked for, in order."""
        return [asked.page for asked in self.asked if asked.path == path]

    def note(self, asked: Asked) -> Fault | None:
        """Remember a request; what is to go wrong with it, if anything."""
        with self._lock:
            self.asked.append(asked)
            waiting = self.faults.get((asked.path, asked.page))
            return waiting.pop(0) if waiting else None

    def answer(self, asked: Asked) -> Answer:
        """The right answer."""
        if asked.path == "/api/v1/namespaces/kube-system":
            meta = {"name": "kube-system", "uid": UID}
            return Answer(200, json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": meta}).encode())
        if asked.path not in KINDS and asked.path not in self.items:
            return Answer(404, refusal(404))
        return Answer(200, self._page(asked))

    def _page(self, asked: Asked) -> bytes:
        held = self.items.get(asked.path, [])
        start = int(_opened(asked.query["continue"])["start"]) if "continue" in asked.query else 0
        end = min(start + int(asked.query.get("limit", len(held))), len(held))
        meta: Object = {"resourceVersion": str(VERSION)}
        if end < len(held):
            meta |= {"continue": token(end), "remainingItemCount": len(held) - end}
        head = json.dumps(
            {"kind": f"{KINDS[asked.path]}List", "apiVersion": "v1", "metadata": meta}, separators=(",", ":")
        ).encode()
        return b'%s,"items":[%s]}\n' % (head[:-1], b",".join(held[start:end]))
