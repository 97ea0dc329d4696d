# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server, spoken to as tests need it: JSON in, JSON out, many at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from .certificates import Pair

Object = dict[str, Any]

AT_ONCE = 16


class ApiError(RuntimeError):
    """The API server refused; it says what and why."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"{status}: {message}")


class Api:
    """A client of one API server."""

    def __init__(self, url: str, authority: Path, pair: Pair) -> None:
        self.url = url
        self._http = urllib3.PoolManager(
            maxsize=AT_ONCE,
            ca_certs=str(authority),
            cert_file=str(pair.certificate),
            key_file=str(pair.key),
            retries=False,
            # The first includes greeting each other, of many at once.
            timeout=urllib3.Timeout(connect=30, read=60),
        )

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Object:
        """One request; the answer, parsed.

        Raises:
            ApiError: The server answers with an error.
        """
        data = None if body is None else json.dumps(body).encode()
        answer = self._http.request(
            method, self.url + path, body=data, headers={"Content-Type": kind, "Accept": "application/json"}
        )
        # Health checks answer in words.
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        content: Object = json.loads(answer.data) if is_json else {"text": answer.data.decode()}
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}: {content.get('message') or content.get('text')}")
        return content

    def get(self, path: str) -> Object:
        """Read an object or a list."""
        return self.call("GET", path)

    def items(self, path: str) -> list[Object]:
        """The items of a list."""
        return list(self.get(path)["items"])

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at the path."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: Object) -> Object:
        """Merge into an object."""
        return self.call("PATCH", path, body, kind="application/merge-patch+json")

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply."""
        return self.call("PATCH", f"{path}?fieldManager=tests&force=true", body, kind="application/apply-patch+yaml")

    def delete(self, path: str, body: Any = None) -> Object:
        """Delete an object."""
        return self.call("DELETE", path, body)

    def answers(self, path: str = "/readyz") -> bool:
        """Whether the server is there and says yes."""
        try:
            self.get(path)
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True


def all_at_once(work: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
    """Do the same to many things, several at a time; the first error is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, things))
