# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible as someone has it who has only run `make setup`; ANSIBLE_PROGRAMS and ANSIBLE_COLLECTIONS_PATH give other versions."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = os.environ.get("ANSIBLE_PROGRAMS", ".venv/bin")
# Nothing but what every shell has: none of Ansible's variables but the one that leads to other versions, and the ports that a
# cluster which a test has a command start may use.
KEPT = ("HOME", "PATH", "ANSIBLE_COLLECTIONS_PATH", "TEST_PORTS")
ENVIRONMENT = {name: os.environ[name] for name in KEPT if name in os.environ}
ENVIRONMENT["LANG"] = "C.UTF-8"
# The same tests may run at the same time with other versions.
CLUSTERS = ROOT / "build/clusters" / PROGRAMS.replace("/", "-").lstrip(".")
