# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules run as Ansible runs them: arguments in, the JSON they print out."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


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
    with patch_module_args(given), pytest.raises(SystemExit) as end:
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert end.value.code == code, result
    return result
