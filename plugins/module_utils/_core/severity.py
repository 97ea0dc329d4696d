# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How bad a finding is, whatever it is about."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How bad it is.

    An error: a policy that does not do what it says or does harm, a wish that cannot be met; nothing of it is to be applied.
    A warning: it does what it says, and that may not be what is wanted. Info: good to know.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
