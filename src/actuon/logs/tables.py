# SPDX-License-Identifier: Apache-2.0
"""Files of all formats to tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import LogError
from .formats.csv_files import read_csv
from .formats.json_files import read_json
from .formats.npz_files import read_npz
from .formats.parquet_files import read_parquet
from .recorded import robots_of
from .table import Table

_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".json": read_json,
    ".json.gz": read_json,
    ".npz": read_npz,
    ".parquet": read_parquet,
}
FORMATS = tuple(_READERS)


def format_of(path: Path) -> str | None:
    """The ending of a file's name, one of `FORMATS`; None where it is another."""
    return next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)


def read_tables(path: Path) -> list[Table]:
    """The tables of a file, one for each robot.

    Raises:
        LogError: It cannot be read.
    """
    ending = format_of(path)
    if os.path.isdir(path):
        raise LogError(f"'{path}' is a directory; must be a file")
    if ending is None:
        raise LogError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(FORMATS)}")
    return robots_of(_READERS[ending](path))
