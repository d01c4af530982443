# SPDX-License-Identifier: Apache-2.0
r"""A limit over the joint's position, from a table.

.. math:: \tau \leftarrow \mathrm{clamp}(\tau,\; \pm \tau_{max}(q))

with :math:`\tau_{max}` linear between the table's entries and constant beyond its ends. Rotary joints do not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Parameters, ParameterValue, Table, param, table_columns
from ...errors import ParameterError
from ...kernel.types import Floats
from ...typing import ArrayLike, PathLike
from ..kinds import Clamping
from ..math import limit

NARROWEST = wp.constant(1e-12)
"""Largest distance of two entries [rad] that counts as a jump, so that the gradient is finite."""


class PositionBased(Parameters):
    lookup_positions: Table = param(
        "rad", "Positions of the entries; must not decrease. Two equal ones are a jump.", shared=True
    )
    lookup_efforts: Table = param("N·m", "Largest effort at each entry, in both directions.", shared=True, minimum=0.0)

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        positions = table_columns(where, cls.declared(), values, fewest=1)[0].astype(np.float32)
        falling = positions[1:] < positions[:-1]
        if falling.any():
            at = int(np.argmax(falling))
            raise ParameterError(
                f"{where}.lookup_positions: {positions[at + 1]} at index {at + 1} follows {positions[at]}; "
                "positions must not decrease"
            )
        with np.errstate(over="ignore"):
            width = positions[-1] - positions[0]
        if not np.isfinite(width):
            raise ParameterError(
                f"{where}.lookup_positions: got {positions[0]} to {positions[-1]}; their difference must be finite"
            )


@wp.func
def entry_before(q: float, lookup_positions: Floats):
    """Return the index of the last entry below ``q``, or 0. Separate, since Warp cannot replay loops in reverse."""
    left = int(0)
    for i in range(1, lookup_positions.shape[0]):
        if q > lookup_positions[i]:
            left = i
    return left


@wp.func
def looked_up(q: float, positions: Floats, values: Floats):
    """Return the value at ``q``: linear between the table's entries, constant beyond its ends."""
    left = entry_before(q, positions)
    right = wp.min(left + 1, positions.shape[0] - 1)
    start = positions[left]
    width = positions[right] - start
    slope = limit(q - start, 0.0, width) / wp.where(width > NARROWEST, width, 1.0)
    jump = wp.where(q <= start, 0.0, wp.where(q > start, 1.0, q))  # NaN stays NaN
    along = wp.where(width > NARROWEST, slope, jump)
    return values[left] + along * (values[right] - values[left])


@wp.func
def position_based_law(effort: float, q: float, lookup_positions: Floats, lookup_efforts: Floats):
    largest = looked_up(q, lookup_positions, lookup_efforts)
    return limit(effort, -largest, largest)


class PositionBasedClampingConfig(PositionBased, Config):
    """Table of effort limits over the joint's position.

    Examples:
        >>> limit = actuon.PositionBasedClampingConfig((-1.0, 0.0, 1.0), (20.0, 30.0, 20.0))
    """

    schema = "NewtonPositionBasedClampingAPI"


class ClampingPositionBased(PositionBased, Clamping):
    """Clamps the effort to a limit that depends on the joint's position. All DOFs share the table.

    Args:
        lookup_positions: Positions [rad or m], rising, shape (K,).
        lookup_efforts: Largest efforts [N·m or N] at those positions, shape (K,).
        lookup_table_path: Text file with both instead: two columns, spaces or commas, ``#`` comments.

    Examples:
        >>> limit = actuon.ClampingPositionBased(
        ...     lookup_positions=[-1.0, 0.0, 1.0], lookup_efforts=[20.0, 30.0, 20.0]
        ... )
    """

    config = PositionBasedClampingConfig
    law = position_based_law

    def __init__(
        self,
        lookup_positions: ArrayLike | None = None,
        lookup_efforts: ArrayLike | None = None,
        lookup_table_path: PathLike | None = None,
    ):
        table = _resolve_table(lookup_positions, lookup_efforts, lookup_table_path)
        super().__init__(**table)

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        """Check a table, from ``args`` or the file ``lookup_table_path``, and return it as two tuples."""
        unknown = set(args) - {"lookup_positions", "lookup_efforts", "lookup_table_path"}
        if unknown:
            raise ParameterError(
                f"{cls.__name__}: unknown parameter {sorted(unknown)[0]!r}; "
                "parameters: lookup_positions, lookup_efforts, lookup_table_path"
            )
        return super().resolve_arguments(_resolve_table(**args))


def _resolve_table(
    lookup_positions: ArrayLike | None = None,
    lookup_efforts: ArrayLike | None = None,
    lookup_table_path: PathLike | None = None,
) -> dict[str, Any]:
    if lookup_table_path is None:
        if lookup_positions is None or lookup_efforts is None:
            raise ParameterError(
                "ClampingPositionBased: needs lookup_positions and lookup_efforts, or a lookup_table_path"
            )
        return {"lookup_positions": lookup_positions, "lookup_efforts": lookup_efforts}
    if lookup_positions is not None or lookup_efforts is not None:
        raise ParameterError("ClampingPositionBased: got lookup_table_path and a table; pass only one of them")
    positions, efforts = read_lookup_table(lookup_table_path)
    return {"lookup_positions": positions, "lookup_efforts": efforts}


def read_lookup_table(path: PathLike) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Read a text file of positions and largest efforts, one pair per line.

    Raises:
        ParameterError: The file is missing, unreadable or empty, or a line is not two numbers.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("knee.txt").write_text("-1.5 40\\n0.0 60\\n")
        >>> actuon.read_lookup_table("knee.txt")
        ((-1.5, 0.0), (40.0, 60.0))
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError, TypeError) as error:
        raise ParameterError(f"lookup table '{path}' cannot be read: {error}") from error
    positions: list[float] = []
    efforts: list[float] = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            position, effort = (float(word) for word in words)
        except ValueError:
            raise ParameterError(
                f"{path}:{number}: got {line.strip()!r}; must be two numbers, position and effort"
            ) from None
        try:
            PositionBasedClampingConfig((*positions[-1:], position), (*efforts[-1:], effort))
        except ParameterError as error:
            raise ParameterError(f"{path}:{number}: {error}") from error
        positions.append(position)
        efforts.append(effort)
    if not positions:
        raise ParameterError(f"lookup table '{path}' is empty; must have at least one line of two numbers")
    return tuple(positions), tuple(efforts)
