# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server on loopback that says what a test wants, in the place of a Prometheus, with TLS or without."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Says:
    """An answer; a body that is no text is sent as JSON. Status 0 closes the connection instead."""

    status: int = 200
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came, with the parameters of address and body."""

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    body: str


def vector(*values: str, at: float = 1.0, **more: Any) -> dict[str, Any]:
    """The answer to an instant query: a series of each value, with a label to tell them apart."""
    samples = [{"metric": {"__name__": "m", "n": str(n)}, "value": [at, value]} for n, value in enumerate(values)]
    return {"status": "success", "data": {"resultType": "vector", "result": samples}, **more}


def refusal(kind: str, text: str) -> dict[str, Any]:
    """The body of an error of Prometheus."""
    return {"status": "error", "errorType": kind, "error": text}


class PrometheusServer:
    """Gives its answers one after another, the last one for ever: ``with PrometheusServer(…) as server``."""

    def __init__(self, *answers: Any, context: ssl.SSLContext | None = None) -> None:
        self.answers = [answer if isinstance(answer, Says) else Says(body=answer) for answer in answers]
        self.asked: list[Asked] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if context:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_port
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> PrometheusServer:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                given = {name: found[-1] for name, found in parse_qs(f"{parts.query}&{body}").items()}
                server.asked.append(Asked(self.command, parts.path, given, dict(self.headers), body))
                says = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                if not says.status:
                    self.close_connection = True
                    return
                text = says.body if isinstance(says.body, str) else json.dumps(says.body)
                self.send_response(says.status)
                for name, value in says.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_PUT = do_GET

            def log_message(self, *_said: Any) -> None:
                pass

        return Handler
