# SPDX-License-Identifier: Apache-2.0
"""The actuon command, run in this process, which is quicker, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import warnings
from unittest import mock

import pytest

from actuon.cli import main as cli


def command(*arguments, code=0, columns=160):
    """Return what the command prints, in a terminal of some columns, if it ends with ``code``; None: any.

    On bad input, use the fixture `complaint`.
    """
    ended, printed, complaints = outcome(*arguments, columns=columns)
    assert code is None or ended == code, printed + complaints
    assert complaints == ""
    return printed


def outcome(*arguments, columns=160):
    """Return the exit code of the command, and what it prints to its standard output and error."""
    out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["actuon", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as caught,
    ):
        cli.main()
    printed, complaints = (stream.buffer.getvalue().decode() for stream in (out, error))
    return caught.value.code, printed, complaints


COMMAND = (sys.executable, "-m", "actuon.cli")


def in_a_process(*arguments, code=0, cwd=None):
    """Return what the command prints to its standard output and error, run as users run it."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert code or done.stderr == ""
    return done.stdout, done.stderr


def assert_gives_way(show):
    """Check that a command's output fits narrow terminals with whole words, and that blocks of rows hold all cells.

    Args:
        show: Function that returns the output for a number of columns.
    """
    wide = show(200)
    known, headers = words(wide), words("".join(line for line in wide.splitlines() if "┃" in line))
    assert known
    for columns in (80, 40):
        narrow = show(columns)
        for line in narrow.splitlines():
            assert len(line) <= columns or "/" in line or len(line.split()) == 1, line
        left_out = re.search(r"not shown, for lack of width:.*", narrow)
        assert words(narrow) - known <= words("not shown for lack of width:")
        assert left_out or known - words(narrow) <= headers
    return wide


def words(text):
    """Return the words of an output, without frames of tables and punctuation."""
    return set(re.findall(r"[^\s,;\[\]┏┳┓┡╇┩├┼┤└┴┘┃│━─]+", text))
