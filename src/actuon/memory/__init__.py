# SPDX-License-Identifier: Apache-2.0
"""How a kernel reads and writes arrays: one DOF at a time, or a block of lanes at a time.

A fused kernel reads arrays through function names that `scalar` and `block` share. In `scalar` each moves one number:
plain Warp, which takes strided arrays, runs on CUDA and can be differentiated. In `block` each moves `LANES` numbers
between an array and a local vector; what it writes goes through functions too. That is for the CPU: the laws are then
called in a loop over local vectors, which LLVM turns into SIMD code. It cannot while accesses to thirty arrays that
might overlap stand between.

Every function takes ``base``, the first DOF, and ``count``, how many of the block's lanes are in range. A null array
reads as zero and swallows added efforts, so that optional inputs need no kernel of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

LANES = 64
"""DOFs in a block. Sixteen are unrolled by LLVM and not vectorised; at 128 the locals leave the L1 cache."""

BLOCKS = 4
"""Blocks per kernel thread: a CPU kernel reloads its arguments for each thread."""

CELL = LANES * BLOCKS
"""DOFs per kernel thread on the CPU, and so per cell of the state that a thread shares (see `Delay.State`)."""

CURRENT = wp.constant(-1)
"""Offset into the delay ring that stands for the command of this very step."""

MIXED = wp.constant(-2)
"""Stands for the offset of a block whose lanes read different rows of the ring."""

if TYPE_CHECKING:
    Floats = Any
    Ints = Any
    Longs = Any
    Indices = Any
    Bools = Any
    FloatBlock = Any
    IntBlock = Any
else:
    Floats = wp.array(dtype=wp.float32)
    Ints = wp.array(dtype=wp.int32)
    Longs = wp.array(dtype=wp.int64)
    Indices = wp.array(dtype=wp.uint32)
    Bools = wp.array(dtype=wp.bool)
    FloatBlock = wp.types.vector(LANES, wp.float32)
    IntBlock = wp.types.vector(LANES, wp.int32)
