# SPDX-License-Identifier: Apache-2.0
"""`Table`: the columns of a file as they stand there, with the places of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import LogError, shown


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
        slides: Names of joints that slide, where the file says so.
    """

    path: str
    columns: Mapping[str, np.ndarray]
    row_name: str
    rows: Sequence[int]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    slides: frozenset[str] = frozenset()

    def row(self, row: int) -> str:
        """What a row is called in the file, such as ``"line 17"``."""
        return f"{self.row_name} {self.rows[row]}"

    def at(self, row: int, column: str) -> str:
        """Where in the file a cell is, in words."""
        return f"'{self.path}', {self.row(row)}, column '{column}'"

    def numbers(self, column: str) -> np.ndarray:
        """A column as float64, shape (T,).

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
