# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConfigMap, by which a run knows what those before it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.errors import InputError
from ..._core.execution.record import read_state
from ..._kubernetes import Live, RefusedError
from .objects import NAME, TRIES, clock, find, meta, patch

KEY = "state.json"


class Memory:
    """The ConfigMap of one namespace, as it was read last.

    Attributes:
        name: What it is called in messages.
        annotations: Its annotations, by which a user may ask for a pause.
    """

    def __init__(self, live: Live, namespace: str) -> None:
        self.name = f"ConfigMap {namespace}/{NAME}"
        self.annotations: Mapping[str, str] = {}
        self._live = live
        self._namespace = namespace
        self._maps = _maps(namespace)
        self._version: str | None = None
        self._text: str | None = None

    def load(self) -> str | None:
        """What was saved last; None if nothing ever was."""
        found = recall(self._live, self._namespace)
        self._version = found["metadata"].get("resourceVersion")
        self.annotations = found["metadata"].get("annotations") or {}
        # One that a user made for its annotation alone has no text.
        self._text = (found.get("data") or {}).get(KEY) or None
        return self._text

    def save(self, text: str) -> None:
        """Save; what somebody else wrote meanwhile is never overwritten.

        Raises:
            InputError: Somebody else wrote.
        """
        if text == self._text:
            return
        for _try in range(TRIES):
            try:
                found = self._write(text)
            except RefusedError as error:
                if error.status not in (404, 409):
                    raise
                before = self._text
                # Its annotations may have changed, or our own request was done although its answer was lost.
                if self.load() not in (before, text):
                    break
                if self._text == text:
                    return
                continue
            self._version, self._text = found["metadata"]["resourceVersion"], text
            return
        raise InputError("was changed by somebody else", source=self._live.name, object=self.name)

    def _write(self, text: str) -> dict[str, Any]:
        data = {KEY: text}
        if self._version is None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(self._namespace), "data": data}
            return self._live.send("post", self._maps, body)
        return patch(self._live, f"{self._maps}/{NAME}", {"metadata": {"resourceVersion": self._version}, "data": data})


def cooling(live: Live, namespace: str) -> tuple[dict[str, float], list[str]]:
    """What was moved and is to be left alone, and until when; and what is not known of it.

    Args:
        live: The connection.
        namespace: Where the ConfigMap is.
    """
    memory = Memory(live, namespace)
    try:
        text = memory.load()
    except RefusedError as error:
        if error.status == 403:
            return {}, [f"may not get {memory.name}: what was moved a moment ago is not known"]
        raise InputError(str(error), source=live.name) from None
    try:
        state = read_state(text)
    except InputError as error:
        return {}, [f"{memory.name}: {error}: what was moved a moment ago is not known"]
    return state.cooling(clock(live)), []


def recall(live: Live, namespace: str) -> dict[str, Any]:
    """The ConfigMap, or what is the same as one that holds nothing.

    Args:
        live: The connection.
        namespace: Where it is.

    Raises:
        RefusedError: It may not be read.
    """
    return find(live, f"{_maps(namespace)}/{NAME}") or {"metadata": {}, "data": {}}


def remember(live: Live, namespace: str, key: str, text: str) -> None:
    """Write one key of the ConfigMap and leave the others to those whose they are."""
    path = _maps(namespace)
    for create in (False, True, False):
        try:
            if create:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(namespace), "data": {key: text}}
                live.send("post", path, body)
            else:
                patch(live, f"{path}/{NAME}", {"data": {key: text}})
        except RefusedError as error:
            # It is not there yet, or somebody else has just made it.
            if error.status != (409 if create else 404):
                raise
            continue
        return
    raise InputError("comes and goes", source=live.name, object=f"ConfigMap {namespace}/{NAME}")


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"
