# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The one error that bad input raises."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input, told in one sentence that names where it is and what to do.

    Args:
        message: What is wrong and what to do about it.
        source: The file or cluster it was read from.
        object: The API object, such as ``Pod team-a/llm-0``.
        field: The path of the field inside the object.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        object: str | None = None,  # noqa: A002 - the API's own word
        field: str | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.object = object
        self.field = field
        super().__init__(message)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.object, self.field, self.message) if part)

    def within(self, *, source: str | None = None, object: str | None = None) -> InputError:  # noqa: A002
        """The same error with what an outer caller knows; what is already set stays."""
        return InputError(self.message, source=self.source or source, object=self.object or object, field=self.field)
