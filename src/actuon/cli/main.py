# SPDX-License-Identifier: Apache-2.0
"""Entry of the ``actuon`` command. Commands are in `app`, which needs the ``cli`` extra; ``--version`` does not."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings

from .messages import complain


def main() -> None:
    """Run the command line. A bad file or argument ends with exit code 2 and one line."""
    from actuon import __version__
    from actuon.errors import ActuonError, MissingExtraError

    if sys.argv[1:] == ["--version"]:
        print(__version__)
        sys.exit()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that lacks our units must not fail
    warnings.showwarning = lambda message, *_: complain(f"warning: {message}")
    for argument in sys.argv[1:]:
        if argument.encode(errors="replace") != os.fsencode(argument):
            complain(f"{argument!r} is not valid UTF-8; rename the file")
            sys.exit(2)
    _load_mujoco()
    try:
        from cyclopts import CycloptsError

        from .app import app
        from .help import WIDEST
        from .show import make_console
    except ImportError as error:
        complain(MissingExtraError(str(error.name), "cli", "the command"))
        sys.exit(2)
    try:
        console = make_console()  # of help texts; commands have their own
        console.width = min(console.width, WIDEST)
        try:
            app(sys.argv[1:], console=console)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # before there is anything to write
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has ended, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ActuonError, CycloptsError, OSError) as error:
        complain(error)
        sys.exit(2)
    except UnicodeError as error:
        complain(f"a file or folder has a name that is not valid UTF-8; rename it: {error}")
        sys.exit(2)


def _load_mujoco() -> None:
    """Import MuJoCo without the OpenGL library that MUJOCO_GL names: the import fails if that is not installed.

    Images are rendered in another process, which uses it.
    """
    library = os.environ.pop("MUJOCO_GL", None)
    if library is not None:
        with contextlib.suppress(ImportError):
            importlib.import_module("mujoco")
        os.environ["MUJOCO_GL"] = library
