# SPDX-License-Identifier: Apache-2.0
"""Types and sizes that kernels share."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import warp as wp

LANES = 64
"""DOFs in a block. At 128 the locals leave the L1 cache."""

BLOCKS = 4
"""Blocks per kernel thread on the CPU: a kernel reloads its arguments for each thread."""

SIMD = 16
"""Lanes of a block are a multiple of this: one AVX-512 register."""

if TYPE_CHECKING:
    Floats = Any
    Doubles = Any
    Ints = Any
    Longs = Any
    Indices = Any
    Bools = Any
    FloatTable = Any
    FloatGrid = Any
    LongGrid = Any
else:
    Floats = wp.array(dtype=wp.float32)
    Doubles = wp.array(dtype=wp.float64)
    Ints = wp.array(dtype=wp.int32)
    Longs = wp.array(dtype=wp.int64)
    Indices = wp.array(dtype=wp.uint32)
    Bools = wp.array(dtype=wp.bool)
    FloatTable = wp.array(dtype=wp.float32, ndim=2)
    FloatGrid = wp.array(dtype=wp.float32, ndim=3)
    LongGrid = wp.array(dtype=wp.int64, ndim=3)


@dataclass(frozen=True)
class Tile:
    """DOFs of a kernel thread on the CPU: blocks of lanes, one after the other."""

    lanes: int = LANES
    blocks: int = BLOCKS
    is_robot: bool = False
    """Whether they are the DOFs of one robot, in one cell of memory."""

    @property
    def size(self) -> int:
        """Number of DOFs."""
        return self.lanes * self.blocks

    @staticmethod
    def of_robot(dofs: int) -> Tile:
        """Return the tile that holds the DOFs of one robot."""
        lanes = min(LANES, -(-dofs // SIMD) * SIMD)
        return Tile(lanes, -(-dofs // lanes), is_robot=True)


DENSE = Tile()
"""Tile of actuators without ``robot_dofs``."""


class Flavour(Enum):
    """Memory access of a kernel."""

    BLOCK = "block"
    """Blocks of lanes: CPU, contiguous arrays, no gradient."""
    SCALAR = "scalar"
    """One DOF per thread: CUDA, or strided arrays."""
    GRAD = "grad"
    """One DOF per thread, with an adjoint; rings of past values are copied whole."""


_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_ON_X86 = "-mstackrealign -mstack-alignment=64"
WIDE = "-mprefer-vector-width=512"
NARROW = "-target-feature -avx512f"
"""Compiler flags for x86 with and without 512-bit vectors."""


def module_options(flavour: Flavour, wide: bool = False) -> dict[str, Any]:
    """Return the compile options of a kernel.

    On x86, only ``wide`` modules use 512-bit vectors. Many CPUs then lower the clock of the core for a while, also for
    the code that runs next: MuJoCo's own functions took 6 to 7 % longer beside kernels that use them. Only networks
    over many DOFs compute long enough to gain from 512 bits. Results have the same bits either way.

    Multiplications and additions stay separate (``fuse_fp``), so that every path through the library returns the same
    bits. Leaving an unused number type out of Warp's headers saves a third of the first compilation. Blocks of lanes
    are on the stack, whose start is a random multiple of 16 bytes: aligned to a cache line, a step takes at most half
    the time of the worst case.
    """
    flags = wp.config.cpu_compiler_flags
    flags = "-march=native" if flags is None else flags
    vectors = f" {_ON_X86} {WIDE if wide else NARROW}" if _IS_X86 else ""
    options: dict[str, Any] = {"fuse_fp": False, "cpu_compiler_flags": f"{flags} -DWP_NO_BFLOAT16={vectors}"}
    if flavour is Flavour.BLOCK:
        options["max_unroll"] = 1
    return options
