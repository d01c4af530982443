# SPDX-License-Identifier: Apache-2.0
"""Errors of the command: in the words of commands and options."""

from __future__ import annotations

import sys

from actuon.errors import ActuonError
from actuon.robot_files.problem import Problem


def in_commands(text: str | Exception) -> str:
    """Return an error, or the text of one, in the words of the command."""
    if isinstance(text, Problem):
        text = text.command
    elif isinstance(text, ActuonError):
        text = text.in_command()
    return "\n".join(" ".join(line.split()) for line in str(text).strip().splitlines())


def complain(text: str | Exception, between: str = " ") -> None:
    """Print an error of the command, by default on one line.

    Args:
        text: Error.
        between: Text between its lines.
    """
    print(f"actuon: {between.join(in_commands(text).splitlines())}", file=sys.stderr)
