# SPDX-License-Identifier: Apache-2.0
"""`Table`: the columns of a file as they stand there, with the places of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...errors import LogError, shown


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of the same length.

    Args:
        path: Of the file.
        columns: float64 of shape (T,), NaN where a cell is empty; or text, where not all cells are numbers.
        settings: What the file says besides.
        row_name: What a row is called in the file.
        rows: The number of each row in the file, as people count them.
        findings: What was noticed while reading.
    """

    path: str
    columns: Mapping[str, np.ndarray]
    row_name: str
    rows: Sequence[int]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, row: int, column: str | None = None) -> str:
        """Where in the file a cell is, in words."""
        place = f"'{self.path}', {self.row_name} {self.rows[row]}"
        return place if column is None else f"{place}, column '{column}'"

    def numbers(self, column: str) -> np.ndarray:
        """A column as float64.

        Raises:
            LogError: A cell is not a number; says which.
        """
        values = self.columns[column]
        if values.dtype.kind != "f":
            for row, text in enumerate(values):
                try:
                    float(text or "nan")
                except ValueError:
                    raise LogError(f"{self.at(row, column)}: got {shown(str(text))}; must be a number") from None
        return values
