# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import RobotFileError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to. At the end it takes its place; on an error it is removed.

    Raises:
        RobotFileError: The folder is not there or not writable, or ``path`` is no regular file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise RobotFileError(f"'{path}' cannot be written: it is no regular file")
    if not target.parent.is_dir():
        raise RobotFileError(f"'{path}' cannot be written: its folder does not exist")
    partial: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        partial = Path(name)
        yield partial
        os.chmod(partial, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.replace(partial, target)
    except OSError as error:
        raise RobotFileError(f"'{path}' cannot be written: {error.strerror or error}") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
