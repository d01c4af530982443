# SPDX-License-Identifier: Apache-2.0
"""Formats of logs, one per module. A new one is a module that ends in a `Format`, and a name in `FORMATS`."""

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
"""All formats. Help texts, the page in the browser and the documentation list these."""
ENDINGS = tuple(ending for each in FORMATS for ending in each.endings)
"""Endings of files that can be read, in small letters."""


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
        LogError: No format has it; says which do.
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
