# SPDX-License-Identifier: Apache-2.0
"""Memory access of one DOF: plain Warp."""

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
def gather(source: Floats, indices: Indices, offset: int, base: int, count: int):
    at = offset + base
    if indices:
        at = int(indices[base])
    value = float(0.0)
    if source:
        value = source[at]
    return value


@wp.func
def store(target: Floats, value: float, base: int, count: int):
    target[base] = value


@wp.func
def store_int(target: Ints, value: int, base: int, count: int):
    target[base] = value


@wp.func
def scatter_add(target: Floats, value: float, indices: Indices, offset: int, base: int, count: int):
    at = offset + base
    if indices:
        at = int(indices[base])
    if target:
        wp.atomic_add(target, at, value)


@wp.func
def scatter_set(target: Floats, value: float, indices: Indices, offset: int, base: int, count: int):
    at = offset + base
    if indices:
        at = int(indices[base])
    if target:
        target[at] = value


@wp.func
def common_offset(offset: int):
    return offset


@wp.func
def ring_read(ring: Floats, offset: int, common: int, command: float, base: int, count: int):
    value = command
    if offset >= 0:
        value = ring[offset + base]
    return value


@wp.func
def ring_carry(
    source: Floats, target: Floats, synced: bool, newest: int, slot: int, depth: int, n: int, base: int, count: int
):
    """Bring the rows that ``target`` lacks over from ``source``, except the one about to be written."""
    if synced:
        at = newest * n + base
        target[at] = source[at]
    else:
        for row in range(depth):
            if row != slot:
                target[row * n + base] = source[row * n + base]
