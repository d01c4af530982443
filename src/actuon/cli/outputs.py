# SPDX-License-Identifier: Apache-2.0
"""What commands write: refused before the work where it could not be written at the end."""

from __future__ import annotations

from pathlib import Path

from actuon.attach.recorder import FORMATS
from actuon.errors import RobotFileError
from actuon.files import check_folder


def check_record(record: Path) -> None:
    """Refuse a file that a record could not be saved in."""
    if record.suffix not in FORMATS:
        raise RobotFileError(f"--record: '{record}' has the format '{record.suffix}'; must be {' or '.join(FORMATS)}")
    if record.is_dir():
        raise RobotFileError(f"--record: '{record}' is a directory; must be a file")
    check_folder(record.parent)
