# SPDX-License-Identifier: Apache-2.0
"""Rings of past signals: how they lie in memory, and what tells two of them apart.

A ring of depth D keeps the last D values of each of its signals (columns), per DOF, in D + 1 rows. In a row, the values
of one block of `LANES` DOFs lie together, column by column::

    ring[row][block][column][lane]

so that a step reads one stream of memory and writes another, whatever the number of columns; and, where DOFs look back
differently far, one stream for each row that is looked at.

A step reads the ring of one state and writes that of another. The row that is one too many is *spare*: a step writes
what is new to the state that it goes to, and to the spare row of the state that it came from. Stepping back and forth
between two states then moves nothing else; stepping to any other state copies the whole ring. To tell the cases apart,
a ring has a tag that no other content has had, the tag of the content that it has with its spare row, and the tag of
the content that it was copied from.

How far back one may look differs by DOF after a masked reset (``pushes``). What a kernel thread needs once is kept once
per cell of the DOFs that it works on, so that it can be written in place while other threads still read theirs: the row
written last (``newest``), how far back all DOFs of the cell may look (``filled``), and the tags.
"""

from __future__ import annotations

import warp as wp

from .types import LANES

RING_ARRAYS = {
    "ring": "Floats",
    "pushes": "Ints",
    "newest": "Ints",
    "filled": "Ints",
    "tag": "Longs",
    "spare": "Longs",
    "origin": "Longs",
}
"""Arrays of a ring as arguments of a kernel."""

NOW = wp.constant(-1)
"""Row that stands for the signal of this very step."""


def ring_size(num_dofs: int, rows: int, columns: int) -> int:
    """Floats in a ring."""
    return -(-num_dofs // LANES) * LANES * rows * columns


@wp.func
def next_row(newest: int, rows: int):
    """The row that is written next."""
    row = newest + 1
    return wp.where(row == rows, 0, row)


@wp.func
def late_row(lag: int, pushes: int, newest: int, rows: int):
    """The row of ``lag`` steps ago, or the oldest there is; `NOW` if there is none."""
    back = wp.min(lag, pushes)
    row = newest - back + 1
    row = wp.where(row < 0, row + rows, row)
    return wp.where(back <= 0, NOW, row)


@wp.func
def ring_at(row: int, column: int, columns: int, n: int, dof: int):
    """Where a ring of ``n`` DOFs holds a value."""
    lane = dof % wp.static(LANES)
    padded = (n + wp.static(LANES - 1)) / wp.static(LANES) * wp.static(LANES)
    return (row * padded + dof - lane) * columns + column * wp.static(LANES) + lane
