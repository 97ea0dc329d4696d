# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules run as Ansible runs them: arguments in, the JSON they print out."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from ansible.module_utils import basic

from ansible_collections.gpuops.defrag.plugins.module_utils._execution.live import lease

SOON = 3
"""Seconds until the Lease of a run that was killed runs out."""


def run_module(
    module: ModuleType,
    capsys: pytest.CaptureFixture[str],
    *,
    code: int = 0,
    check: bool = False,
    diff: bool = False,
    **arguments: Any,
) -> dict[str, Any]:
    """What the module prints; ``code`` is the exit status that it must end with."""
    given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": diff}
    # What ansible.module_utils.testing does, for versions of ansible-core that have it not yet.
    passed: dict[str, Any] = {"_ANSIBLE_ARGS": json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode(), "_ANSIBLE_PROFILE": "legacy"}
    with mock.patch.multiple(basic, create=True, **passed), pytest.raises(SystemExit) as end:
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert end.value.code == code, result
    return result


def main(name: str, arguments: str, lasting: str) -> None:
    """Run a module by name, as a process of its own that a test can end.

    Args:
        name: Of the module.
        arguments: As JSON.
        lasting: Seconds after which its Lease runs out.
    """
    lease.LEASE_SECONDS = int(lasting)
    module = import_module(f"ansible_collections.gpuops.defrag.plugins.modules.{name}")
    passed: dict[str, Any] = {
        "_ANSIBLE_ARGS": json.dumps({"ANSIBLE_MODULE_ARGS": json.loads(arguments)}).encode(),
        "_ANSIBLE_PROFILE": "legacy",
    }
    with mock.patch.multiple(basic, create=True, **passed):
        module.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
