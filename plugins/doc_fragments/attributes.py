# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module promises: check mode, diff mode, idempotence, action group."""

from __future__ import annotations


class ModuleDocFragment:
    # Every module; the module itself says how far it supports each attribute.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return what would change without changing it.
  diff_mode:
    description: Returns what has changed, or would change in check mode, when run in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode with the same arguments, the second run reports no change.
      - This assumes that what the module reads or manages has not changed in between.
"""

    # Together with the standard fragment, for modules that only read.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module changes nothing.
  diff_mode:
    support: N/A
    details:
      - This module changes nothing.
  idempotent:
    support: full
    details:
      - This module changes nothing, and the same input gives the same result.
"""

    # Together with the standard fragment, for the members of the action group in meta/runtime.yml.
    ACTION_GROUP = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/gpuops.defrag.defrag) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - gpuops.defrag.defrag
"""
