# SPDX-License-Identifier: Apache-2.0
"""Rings of past signals: how they lie in memory, and what tells two of them apart.

A ring of depth D keeps the last D values of each of its signals (columns), per DOF, in D + 1 rows. In a row, the values
of one block of lanes lie together, column by column::

    ring[row][block][column][lane]

so that a step reads one stream of memory and writes another, whatever the number of columns; and, where DOFs look back
differently far, one stream for each row that is looked at.

A step reads the ring of one state and writes that of another. The row that is one too many is *spare*: a step writes
what is new to the state that it goes to, and to the spare row of the state that it came from. Stepping back and forth
between two states then moves nothing else; stepping to any other state copies the whole ring. To tell the cases apart,
a ring has a tag that no other content has had, the tag of the content that it has with its spare row, and the tag of
the content that it was copied from.

How far back one may look differs by DOF after a masked reset (``pushes``). What a kernel thread needs once is kept once
per tile, the DOFs that it works on, so that it can be written in place while other threads still read theirs: the row
written last (``newest``), how far back all DOFs of the tile may look (``filled``), and the tags.

Where a stage looks back by a time, the last column holds the length of the step after each row; zero where it is not
known, which stands for that of the row after it. Where steps are alike the row follows from their length; where they
are not, lengths are summed up, row by row.
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
    """Return the row of ``lag`` steps ago, or the oldest there is; `NOW` if there is none."""
    back = wp.min(lag, pushes)
    row = newest - back + 1
    row = wp.where(row < 0, row + rows, row)
    return wp.where(back <= 0, NOW, row)


ROUNDING = wp.constant(1.0e-3)
"""Share of a step by which an age may exceed a whole number of steps and still be that."""
_MOST_STEPS = wp.constant(1.0e6)
"""More than a ring has rows."""


@wp.func
def steps_back(age: float, gap: float):
    """Return how many steps of length ``gap`` an age spans."""
    return wp.min(age / gap, _MOST_STEPS)


@wp.func
def held_back(age: float, gap: float):
    """Return how many steps ago the newest value at least ``age`` old is, for steps of equal length."""
    return int(wp.ceil(steps_back(age, gap) - ROUNDING))


@wp.func
def whole_back(age: float, gap: float):
    """Return how many steps ago the oldest value at most ``age`` old is, for steps of equal length."""
    return int(wp.floor(steps_back(age, gap)))


@wp.func
def share_back(age: float, gap: float):
    """Share of a step by which ``age`` is beyond `whole_back`."""
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
    """Return `held_back`, or `whole_back` where a stage blends, for steps of any length; the age of that value; and the
    length of the step before it. ``now`` is the length of this step."""


@wp.func
def uneven_share(age: float, found: wp.vec3):
    """Share of the step before by which ``age`` is beyond what `uneven_back` found."""
    return wp.clamp((age - found[1]) / found[2], 0.0, 1.0)


@wp.func
def ring_at(row: int, column: int, columns: int, width: int, lane: int, lanes: int):
    """Return where a ring holds a value, from its own beginning on."""
    in_block = lane % lanes
    return (row * width + lane - in_block) * columns + column * lanes + in_block
