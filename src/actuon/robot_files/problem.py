# SPDX-License-Identifier: Apache-2.0
"""Errors that were collected as text, for reports on a file."""

from __future__ import annotations

from ..errors import ActuonError


class Problem(str):
    """Text of an error that was collected, in the words of Python, and in those of the command line."""

    command: str

    @classmethod
    def of(cls, error: Exception, where: str = "") -> Problem:
        """Return the text of an error, after a place."""
        problem = cls(f"{where}{error}")
        problem.command = f"{where}{error.in_command() if isinstance(error, ActuonError) else error}"
        return problem
