# SPDX-License-Identifier: Apache-2.0
"""`Table`: the columns of a file. `Format`: functions that read and write such files."""

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
        path: Path of the file.
        columns: float64 of shape (T,), with NaN for empty cells; or text, if a cell is not a number.
        row_name: Name of a row in messages, such as ``"line"``.
        rows: Number of each row in the file, counted from 1.
        settings: Other values that the file states.
        findings: Observations while reading.
        units: Units of positions, "rad" or "m", by joint, if the file states them.

    Examples:
        >>> from actuon.logs import Table
        >>> columns = {"time": np.arange(3) * 0.01, "pos_knee": np.zeros(3)}
        >>> table = Table("run.rows", columns, "line", [2, 3, 4])
        >>> table.at(1, "pos_knee")
        "'run.rows', line 3, column 'pos_knee'"
    """

    path: str
    columns: Mapping[str, np.ndarray]
    row_name: str
    rows: Sequence[int]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    def row(self, row: int) -> str:
        """Return the name of a row in messages, such as ``"line 17"``.

        Examples:
            >>> from actuon.logs import Table
            >>> table = Table("run.rows", {"time": np.array(["0", "0.01"])}, "line", [2, 3])
            >>> table.row(1)
            'line 3'
        """
        return f"{self.row_name} {self.rows[row]}"

    def at(self, row: int, column: str) -> str:
        """Return the place of a cell in the file, in words.

        Examples:
            >>> from actuon.logs import Table
            >>> table = Table("run.rows", {"time": np.array(["0", "0.01"])}, "line", [2, 3])
            >>> table.at(1, "time")
            "'run.rows', line 3, column 'time'"
        """
        return f"'{self.path}', {self.row(row)}, column '{column}'"

    def numbers(self, column: str) -> np.ndarray:
        """Return a column as float64, shape (T,).

        Raises:
            LogError: A cell is not a number; the message names it.

        Examples:
            >>> from actuon.logs import Table
            >>> table = Table("run.rows", {"time": np.array(["0", "0.01"])}, "line", [2, 3])
            >>> table.numbers("time")
            array([0.  , 0.01])
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
"""Arrays to write, shape (T,), by the name of the column, which ends with the unit."""
Settings: TypeAlias = Mapping[str, float | str]


@dataclass(frozen=True)
class Format:
    """A file format of logs. Each module of `formats` defines one.

    Args:
        endings: Endings of its files, in small letters, the plain one first.
        doc: One line on the layout of a file.
        read: Function that returns the columns of a file, or raises `LogError` with the place.
        write: Function that returns the content of a file with columns and settings, for ``read``; it is compressed if
            the name ends in ``.gz``. None: files are only read.
    """

    endings: tuple[str, ...]
    doc: str
    read: Callable[[Path], Table]
    write: Callable[[Columns, Settings], bytes] | None = None
