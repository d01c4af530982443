# SPDX-License-Identifier: Apache-2.0
"""How the command prints errors: one line, about commands and options."""

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


def complain(text: str | Exception) -> None:
    """Print an error of the command."""
    print(f"actuon: {in_commands(text)}", file=sys.stderr)
