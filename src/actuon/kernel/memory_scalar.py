# SPDX-License-Identifier: Apache-2.0
"""Memory access of a kernel over single DOFs: plain Warp, for strided arrays, CUDA and gradients.

A null array reads as zero, so that optional inputs need no separate kernel. The signatures match those of
`memory_block`, which uses more arguments. The kernel writes by plain statements, since a backward pass replays
functions and would write twice.
"""

from __future__ import annotations

import warp as wp

from .ring import NOW, ring_at
from .types import Doubles, Floats, Indices, Ints


@wp.func
def load(source: Floats, base: int, count: int):
    value = float(0.0)
    if source:
        value = source[base]
    return value


@wp.func
def load_int(source: Ints, base: int, count: int):
    return source[base]


@wp.func
def load_state(source: Floats, at: int):
    return source[at]


@wp.func
def load_int_state(source: Ints, at: int):
    return source[at]


@wp.func
def dof_at(indices: Indices, offset: int, base: int):
    """Return the index of a DOF in an array of the simulation."""
    at = offset + base
    if indices:
        at = int(indices[base])
    return at


@wp.func
def gather(source: Floats, indices: Indices, offset: int, base: int, count: int):
    value = float(0.0)
    if source:
        value = source[dof_at(indices, offset, base)]
    return value


@wp.func
def gather_double(source: Doubles, indices: Indices, offset: int, base: int, count: int):
    value = float(0.0)
    if source:
        value = float(source[dof_at(indices, offset, base)])
    return value


@wp.func
def load_pushes(source: Ints, filled: int, depth: int, at: int):
    return source[at]


@wp.func
def common_row(row: int):
    return row


@wp.func
def ring_read(
    ring: Floats,
    at: int,
    row: int,
    common: int,
    now: float,
    column: int,
    columns: int,
    width: int,
    lane: int,
    lanes: int,
):
    value = now
    if row != NOW:
        value = ring[at + ring_at(row, column, columns, width, lane, lanes)]
    return value


FUNCTIONS = {
    f.key: f
    for f in (
        load, load_int, load_state, load_int_state, gather, gather_double, dof_at, load_pushes, common_row, ring_read
    )
}  # fmt: skip
"""Functions that a kernel calls, by name."""
