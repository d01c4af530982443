# SPDX-License-Identifier: Apache-2.0
"""The ``actuon`` command. Its commands are in `commands`, which needs the ``cli`` extra."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. A bad file or argument ends with exit code 2 and one line."""
    from actuon.errors import ActuonError

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that lacks our units must not fail
    try:
        from .commands import app
    except ImportError as error:
        print(f"actuon: the command needs '{error.name}': install it with  pip install 'actuon[cli]'", file=sys.stderr)
        sys.exit(2)
    try:
        app()
    except (ActuonError, OSError) as error:
        print(f"actuon: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
