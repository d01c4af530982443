# SPDX-License-Identifier: Apache-2.0
"""The ``actuon`` command. Its commands are in `commands`, which needs the ``cli`` extra."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. A bad file or argument ends with exit code 2 and one line."""
    from actuon.errors import ActuonError

    try:
        from .commands import app
    except ImportError as error:
        sys.exit(f"actuon: the command line needs '{error.name}': install it with  pip install 'actuon[cli]'")
    try:
        app()
    except (ActuonError, OSError) as error:
        print(f"actuon: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
