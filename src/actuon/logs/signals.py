# SPDX-License-Identifier: Apache-2.0
"""`Signal`: a column of a log with its numbers, on the way to SI units."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..errors import LogError
from .columns import Column
from .table import Table
from .units import NEEDED, factor

LARGEST = 1e25
"""Numbers of a log are smaller; nanoseconds since 1970 are the largest."""


@dataclass(frozen=True, eq=False)
class Signal:
    """Numbers of a column at the rows that are used, shape (T,): scaled, in the unit of the column."""

    column: Column
    values: np.ndarray

    @property
    def unit(self) -> str | None:
        """None where nothing says it."""
        return self.column.unit

    def with_unit(self, unit: str) -> Signal:
        """The signal with the unit that its numbers turned out to be in."""
        return dataclasses.replace(self, column=dataclasses.replace(self.column, unit=unit))

    def with_values(self, values: np.ndarray) -> Signal:
        """The signal with other numbers."""
        return dataclasses.replace(self, values=values)

    def si(self) -> np.ndarray:
        """The values in SI, sign and offset applied."""
        assert self.unit is not None
        return self.column.sign * factor(self.column.quantity, self.unit) * self.values + self.column.offset


def read_signal(table: Table, column: Column, rows: np.ndarray, findings: list[str]) -> Signal | None:
    """The numbers of a column. None where some are missing and none is needed.

    Raises:
        LogError: A cell that is needed is not a number; says which.
    """
    if column.quantity not in NEEDED:
        try:
            values = table.numbers(column.name)[rows]
        except LogError as error:
            findings.append(f"{column.name} is left out: {error}")
            return None
    else:
        values = table.numbers(column.name)[rows]
    missing = np.flatnonzero(~(np.abs(values) < LARGEST))
    if len(missing):
        if column.quantity in NEEDED:
            raise LogError(f"{table.at(rows[missing[0]], column.name)}: {not_a_number(values[missing[0]])}")
        findings.append(
            f"{column.name} is left out: {len(missing)} of {len(values)} cells are empty, not finite or huge (first: "
            f"{table.row(rows[missing[0]])})"
        )
        return None
    return Signal(column, _signed(column, values, findings) * column.scale)


def not_a_number(value: float) -> str:
    """What is wrong with a value that is not finite, or too large, in words."""
    if np.isfinite(value):
        return f"got {value:g}; must be smaller than {LARGEST:g}"
    return "is empty or not finite; must be a number"


def _signed(column: Column, values: np.ndarray, findings: list[str]) -> np.ndarray:
    """Whole numbers that were written without their sign: −1 as 65535 or 4294967295.

    Where none lies between a quarter and three quarters of the range, that is sure. Where a counter passes from one end
    to the other, it is unwrapped.
    """
    is_stated = column.unit is not None and not column.unit.startswith("count")
    if is_stated or column.quantity == "enabled" or values.min() < 0.0 or np.any(values % 1.0):
        return values
    for bits in (16, 32):
        period = 2.0**bits
        if not period / 2 <= values.max() < period:
            continue
        if not np.any((values >= period / 4) & (values < 3 * period / 4)):
            findings.append(
                f"{column.name}: numbers from {period / 2:.0f} on are negative ones of {bits} bits, read as such"
            )
            return np.where(values >= period / 2, values - period, values)
        if np.any(np.abs(np.diff(values)) > 0.75 * period):
            findings.append(f"{column.name}: a counter of {bits} bits that passes its end, unwrapped")
            return np.unwrap(values, period=period)
    return values
