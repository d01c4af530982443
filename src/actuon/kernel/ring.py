# SPDX-License-Identifier: Apache-2.0
"""Rings of past signals: their layout in memory, and the tags that identify their contents.

A ring of depth D stores the last D values of each of its signals (columns), per DOF, in D + 1 rows. In a row, the
values of one block of lanes are adjacent, column by column::

    ring[row][block][column][lane]

A step thus reads one stream of memory and writes another, whatever the number of columns; if the delay differs between
DOFs, it reads one stream per row.

A step reads the ring of one state and writes that of another. The additional row is *spare*: a step writes new values
into the next state, and into the spare row of the current one. Stepping back and forth between two states then copies
nothing else; stepping to any other state copies the whole ring. To distinguish these cases, a ring has a unique tag of
its content, the tag of the content including its spare row, and the tag of the content that it was copied from.

After a masked reset, the number of valid rows differs by DOF (``pushes``). Values per thread are stored once per tile,
so that a thread can write in place while others read theirs: the row written last (``newest``), the number of rows that
are valid for all DOFs of the tile (``filled``), and the tags.

For delays in seconds, the last column holds the length of the step after each row; zero, if unknown, means that of the
next row. If all steps are equal, the row follows from their length; otherwise lengths are summed row by row.
"""

from __future__ import annotations

import warp as wp

from .types import Floats

NOW = wp.constant(-1)
"""Row that stands for the signal of this very step."""


@wp.func
def next_row(newest: int, rows: int):
    """Return the row that is written next."""
    row = newest + 1
    return wp.where(row == rows, 0, row)


@wp.func
def late_row(lag: int, pushes: int, newest: int, rows: int):
    """Return the row of ``lag`` steps ago, or the oldest valid row; `NOW` if none is valid."""
    back = wp.min(lag, pushes)
    row = newest - back + 1
    row = wp.where(row < 0, row + rows, row)
    return wp.where(back <= 0, NOW, row)


ROUNDING = wp.constant(1.0e-3)
"""Share of a step by which an age may exceed a whole number of steps and still count as that."""
_MOST_STEPS = wp.constant(1.0e6)
"""Number of steps larger than that of any ring."""


@wp.func
def steps_back(age: float, gap: float):
    """Return the number of steps of length ``gap`` in an age."""
    return wp.min(age / gap, _MOST_STEPS)


@wp.func
def held_back(age: float, gap: float):
    """Return the age in steps of the newest value at least ``age`` old, for steps of equal length."""
    return int(wp.ceil(steps_back(age, gap) - ROUNDING))


@wp.func
def whole_back(age: float, gap: float):
    """Return the age in steps of the oldest value at most ``age`` old, for steps of equal length."""
    return int(wp.floor(steps_back(age, gap)))


@wp.func
def share_back(age: float, gap: float):
    """Return the share of a step by which ``age`` exceeds `whole_back`."""
    steps = steps_back(age, gap)
    return steps - wp.floor(steps)


_UNEVEN_BACK = f"""
const int in_block = lane % lanes;
int back = 0;
float start = 0.0f, gap = now;
for (; back < pushes; ++back) {{
    int row = newest - back;
    if (row < 0) row += rows;
    const size_t start_of_block = ((size_t)row * width + lane - in_block) * columns;
    const float found = ring.data[at + start_of_block + (columns - 1) * lanes + in_block];
    if (found > 0.0f) gap = found;
    if (blends ? start + gap > age : age - start <= {float(ROUNDING)}f * gap) break;
    start += gap;
}}
return wp::vec_t<3, wp::float32>((float)back, start, gap);
"""


@wp.func_native(_UNEVEN_BACK)
def uneven_back(
    ring: Floats,
    at: int,
    age: float,
    now: float,
    blends: bool,
    pushes: int,
    newest: int,
    rows: int,
    columns: int,
    width: int,
    lane: int,
    lanes: int,
) -> wp.vec3:
    """Return `held_back`, or `whole_back` if a stage blends, for steps of any length; the age of that value; and the
    length of the step before it. ``now`` is the length of this step."""


@wp.func
def uneven_share(age: float, found: wp.vec3):
    """Return the share of the step before by which ``age`` exceeds the age from `uneven_back`."""
    return wp.clamp((age - found[1]) / found[2], 0.0, 1.0)


@wp.func
def ring_at(row: int, column: int, columns: int, width: int, lane: int, lanes: int):
    """Return the offset of a value in a ring."""
    in_block = lane % lanes
    return (row * width + lane - in_block) * columns + column * lanes + in_block
