# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter gpuops.defrag.gitops_pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils._core.errors import InputError
from ..module_utils._core.gitops.pack import Chart, Repository, chart_address, pack
from ..plugin_utils.plain import plain
from ..plugin_utils.text import as_yaml


def gitops_pack(parts: Any, *, url: str, revision: str, path: str, chart: Any = None) -> dict[str, str]:
    """The files of a pack, by path."""
    found, chart = plain(parts), plain(chart)
    if not isinstance(found, Mapping):
        raise AnsibleFilterError(f"gitops_pack: wants manifests by part, not {type(found).__name__}")
    try:
        return pack(found, _chart(chart) if chart else None, Repository(str(url), str(revision), str(path)), as_yaml)
    except InputError as error:
        raise AnsibleFilterError(f"gitops_pack: {error}") from error
    except KeyError as missing:
        raise AnsibleFilterError(f"gitops_pack: a manifest or the chart has no {missing}") from missing


def _chart(given: Mapping[str, Any]) -> Chart:
    name, repository = chart_address(given["ref"], given["repository"])
    return Chart(
        name,
        repository,
        given["version"],
        given["release"],
        given["namespace"],
        given["values"],
        given.get("rights", ()),
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gitops_pack": gitops_pack}
