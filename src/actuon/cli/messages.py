# SPDX-License-Identifier: Apache-2.0
"""Errors of the command, in terms of commands and options."""

from __future__ import annotations

import sys

from actuon.errors import ActuonError
from actuon.robot_files.problem import Problem


def in_commands(text: str | Exception) -> str:
    """Return an error, or the text of one, in terms of commands and options."""
    if isinstance(text, Problem):
        text = text.command
    elif isinstance(text, ActuonError):
        text = text.in_command()
    elif isinstance(text, Exception):
        text = _of_parser(text)
    return "\n".join(" ".join(line.split()) for line in str(text).strip().splitlines())


def _of_parser(error: Exception) -> str:
    """Return an error of the parser of the command line, or another one, as text."""
    from cyclopts import exceptions as kinds

    if isinstance(error, kinds.CycloptsError):
        see = f"`{' '.join(('actuon', *(error.command_chain or ())))} --help`"
        if isinstance(error, kinds.UnusedCliTokensError):
            return f"unexpected argument: {' '.join(error.unused_tokens or ())}; see {see}"
        if isinstance(error, kinds.MissingArgumentError) and error.keyword is None and error.argument is not None:
            return f"{error.argument.name} is missing; see {see}"
        if isinstance(error, (kinds.UnknownOptionError, kinds.UnknownCommandError)):
            return f"{error} See {see}"
    return str(error)


def complain(text: str | Exception, between: str = " ") -> None:
    """Print an error of the command, by default on one line.

    Args:
        text: Error.
        between: Text between its lines.
    """
    print(f"actuon: {between.join(in_commands(text).splitlines())}", file=sys.stderr)
