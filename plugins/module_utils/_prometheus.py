# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instant queries of a Prometheus, or what speaks like one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode

from ansible.module_utils.urls import open_url


class Prometheus:
    """Whom to ask.

    Args:
        url: Its address, up to but without ``/api/v1``.
        headers: Sent along, such as a tenant or a token.
        timeout: Seconds that an answer may take.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None, timeout: float = 30) -> None:
        self.url = url.rstrip("/")
        self.headers = headers or {}
        self.timeout = timeout

    def fires(self, queries: Sequence[str]) -> str | None:
        """The first query that fires, or that nothing is known of, in a sentence; None if none does.

        A query fires as an alert does: if anything comes back.
        """
        for query in queries:
            try:
                answer = self._ask(query)
                found = answer["data"]["result"]
                values = [found] if answer["data"]["resultType"] == "scalar" else [sample["value"] for sample in found]
                numbers = [float(value[1]) for value in values]
            except (HTTPError, URLError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
                return f"{query}: nothing is known, as {self.url} does not answer it ({error})"
            if answer.get("warnings"):
                return f"{query}: nothing is known for sure: {'; '.join(map(str, answer['warnings']))}"
            if any(map(math.isnan, numbers)):
                return f"{query}: nothing is known, as a value is NaN"
            if numbers:
                return f"{query} fires: {numbers[0]:g}" + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")
        return None

    def _ask(self, query: str) -> dict[str, Any]:
        given = urlencode({"query": query, "partial_response": "false"})
        answer = open_url(f"{self.url}/api/v1/query?{given}", headers=self.headers, timeout=self.timeout)
        found = json.loads(answer.read())
        if not isinstance(found, dict) or found.get("status") != "success":
            raise ValueError("no success")
        return found
