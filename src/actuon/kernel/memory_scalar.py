# SPDX-License-Identifier: Apache-2.0
"""How a kernel reads the arrays of one DOF: plain Warp, which takes strided arrays, runs on CUDA and has a gradient.

A null array reads as zero, so that optional inputs need no kernel of their own. ``count`` is there for `access_block`.
What is written is written by plain statements of the kernel: a backward pass replays functions, and would write again.
"""

from __future__ import annotations

import warp as wp

from .ring import NOW, ring_at
from .types import Floats, Indices, Ints


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
def dof_at(indices: Indices, offset: int, base: int):
    """Where an array of the simulation holds the DOF."""
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
def load_pushes(source: Ints, filled: int, depth: int, base: int, count: int):
    return source[base]


@wp.func
def common_row(row: int):
    return row


@wp.func
def ring_read(
    ring: Floats, row: int, common: int, now: float, column: int, columns: int, n: int, base: int, count: int
):
    value = now
    if row != NOW:
        value = ring[ring_at(row, column, columns, n, base)]
    return value


FUNCTIONS = {f.key: f for f in (load, load_int, gather, dof_at, load_pushes, common_row, ring_read)}
"""What a kernel calls, by name."""
