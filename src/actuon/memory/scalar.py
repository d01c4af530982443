# SPDX-License-Identifier: Apache-2.0
"""Memory access of one DOF: plain Warp. Writes are plain statements of the kernel."""

from __future__ import annotations

import warp as wp

from . import Floats, Indices, Ints


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
    """Where a simulation array holds the DOF."""
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
def common_offset(offset: int):
    return offset


@wp.func
def ring_read(ring: Floats, offset: int, common: int, command: float, base: int, count: int):
    value = command
    if offset >= 0:
        value = ring[offset + base]
    return value


FUNCTIONS = {f.key: f for f in (load, load_int, gather, common_offset, ring_read, dof_at)}
"""What a kernel calls, by name."""
