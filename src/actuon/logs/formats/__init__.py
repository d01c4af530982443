# SPDX-License-Identifier: Apache-2.0
"""File formats of logs, one per module. To add one, write a module with a `Format` and list it in `FORMATS`."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import LogError
from ..table import Format, Table
from .csv_files import CSV
from .json_files import JSON
from .npz_files import NPZ
from .parquet_files import PARQUET

FORMATS: tuple[Format, ...] = (CSV, JSON, NPZ, PARQUET)
"""All formats. Help texts, the studio and the documentation list them."""
ENDINGS = tuple(ending for each in FORMATS for ending in each.endings)
"""Endings of files that can be read, in lower case."""


def endings_in_words() -> str:
    """Return the endings for help texts: ``.csv, .json or .npz, also .csv.gz``."""
    plain, others = [each.endings[0] for each in FORMATS], [e for each in FORMATS for e in each.endings[1:]]
    return f"{', '.join(plain[:-1])} or {plain[-1]}" + (f", also {' and '.join(others)}" if others else "")


def format_of(path: Path) -> Format | None:
    """Return the format of a file by its ending; None if no format has it."""
    name = path.name.lower()
    return next((each for each in FORMATS if name.endswith(each.endings)), None)


def known_format(path: Path) -> Format:
    """Return the format of a file by its ending.

    Raises:
        LogError: No format has the ending.
    """
    found = format_of(path)
    if found is None:
        raise LogError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(ENDINGS)}")
    return found


def read_table(path: Path) -> Table:
    """Return the columns of a file of any format.

    Raises:
        LogError: It cannot be read.
    """
    if os.path.isdir(path):
        raise LogError(f"'{path}' is a directory; must be a file")
    return known_format(path).read(path)
