# SPDX-License-Identifier: Apache-2.0
"""`Table`: the columns of a file as they stand there. `Format`: how such files are read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ..errors import LogError, shown
from .log import Finding


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of the same length.

    Args:
        path: Of the file.
        columns: float64 of shape (T,), NaN where a cell is empty; or text, where not all cells are numbers.
        row_name: What a row is called in the file.
        rows: The number of each row in the file, as people count them.
        settings: What the file says besides.
        findings: What was noticed while reading.
        units: Of positions, "rad" or "m", by the names of joints, where the file says so.
    """

    path: str
    columns: Mapping[str, np.ndarray]
    row_name: str
    rows: Sequence[int]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    def row(self, row: int) -> str:
        """Return what a row is called in the file, such as ``"line 17"``."""
        return f"{self.row_name} {self.rows[row]}"

    def at(self, row: int, column: str) -> str:
        """Return where in the file a cell is, in words."""
        return f"'{self.path}', {self.row(row)}, column '{column}'"

    def numbers(self, column: str) -> np.ndarray:
        """Return a column as float64, shape (T,).

        Raises:
            LogError: A cell is not a number; says which.
        """
        values = self.columns[column]
        if values.dtype.kind == "f":
            return values
        for row, text in enumerate(values):
            try:
                float(text or "nan")
            except ValueError:
                raise LogError(f"{self.at(row, column)}: got {shown(str(text))}; must be a number") from None
        return np.array([text or "nan" for text in values], dtype=np.float64)


Columns: TypeAlias = Mapping[str, np.ndarray]
"""Arrays to write, of shape (T,) by the names of columns, which end in the unit."""
Settings: TypeAlias = Mapping[str, float | str]


@dataclass(frozen=True)
class Format:
    """A format of logs. Each is one module of `formats`, which ends in one of these.

    Args:
        endings: Of its files, in small letters, the plain one first.
        doc: How a log looks in it, in one line.
        read: Returns the columns of a file, or raises `LogError` that says where.
        write: Writes columns and settings to a file, so that ``read`` gives them again. None: files are only read.
    """

    endings: tuple[str, ...]
    doc: str
    read: Callable[[Path], Table]
    write: Callable[[Path, Columns, Settings], None] | None = None
