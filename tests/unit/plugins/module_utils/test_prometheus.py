# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils import _prometheus
from ansible_collections.gpuops.defrag.plugins.module_utils._prometheus import Prometheus


def vector(*values: str, **more: Any) -> dict[str, Any]:
    samples = [{"metric": {}, "value": [1.0, value]} for value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": samples}, **more}


CASES: dict[str, tuple[Any, str | None]] = {
    "nothing comes back": (vector(), None),
    "one sample": (vector("3"), "q fires: 3"),
    "a sample of 0 is one too": (vector("0"), "q fires: 0"),
    "several": (vector("3", "4"), "q fires: 3 and 1 more"),
    "a scalar": ({"status": "success", "data": {"resultType": "scalar", "result": [1.0, "2"]}}, "q fires: 2"),
    "NaN": (vector("NaN"), "q: nothing is known, as a value is NaN"),
    "warnings": (vector(warnings=["partial"]), "q: nothing is known for sure: partial"),
    "an error": ({"status": "error", "error": "x"}, "q: nothing is known, as"),
    "another shape": ({"status": "success"}, "q: nothing is known, as"),
    "no JSON": ("<html>", "q: nothing is known, as"),
    "no answer": (OSError("refused"), "q: nothing is known, as"),
}


@pytest.mark.parametrize(("answer", "told"), CASES.values(), ids=CASES)
def test_a_query_fires_upon(answer: Any, told: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def open_url(url: str, **_options: Any) -> io.BytesIO:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO((answer if isinstance(answer, str) else json.dumps(answer)).encode())

    monkeypatch.setattr(_prometheus, "open_url", open_url)
    found = Prometheus("http://p/prefix/").fires(["q"])
    assert asked == ["http://p/prefix/api/v1/query?query=q&partial_response=false"]
    assert (found is None) == (told is None)
    assert told is None or (found is not None and found.startswith(told))
