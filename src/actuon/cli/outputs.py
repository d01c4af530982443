# SPDX-License-Identifier: Apache-2.0
"""Checks of the files that commands write, before the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actuon.errors import RobotFileError
from actuon.files import check_folder


def check_new(path: Path, formats: Sequence[str] = (), force: bool = False) -> None:
    """Check a file to write.

    Raises:
        RobotFileError: It has another format, exists already, or its folder does not exist.
    """
    if formats and path.suffix.lower() not in formats:
        allowed = " or ".join((", ".join(formats[:-1]), formats[-1]) if len(formats) > 1 else formats)
        raise RobotFileError(f"'{path}' has the format '{path.suffix}'; must be {allowed}")
    if path.is_file() and not force:
        raise RobotFileError(f"'{path}' already exists; --force replaces it")
    check_folder(path.parent)


def check_record(record: Path) -> None:
    """Check a file to save a recording in.

    Raises:
        RobotFileError: It has another format, or cannot be written.
    """
    from actuon.attach.recorder import FORMATS

    if record.suffix not in FORMATS:
        raise RobotFileError(f"--record: '{record}' has the format '{record.suffix}'; must be {' or '.join(FORMATS)}")
    if record.is_dir():
        raise RobotFileError(f"--record: '{record}' is a directory; must be a file")
    check_folder(record.parent)
