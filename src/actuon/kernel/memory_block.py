# SPDX-License-Identifier: Apache-2.0
"""How a kernel reads and writes the arrays of a block of lanes, on the CPU.

Each function moves `LANES` numbers between an array and a local vector. The laws are then called in a loop over local
vectors, which LLVM turns into SIMD code; it cannot while accesses to thirty arrays that might overlap stand between.
The bodies are C++, because Warp's own array access multiplies by a stride that is known only at run time, which keeps
LLVM from vectorising it. They assume contiguous arrays.

``base`` is the first DOF of the block, ``count`` how many of its lanes are in range. A null array reads as zero and
swallows what is written to it, so that optional arrays need no kernel of their own.
"""

from __future__ import annotations

import warp as wp

from .ring import NOW
from .types import LANES, FloatBlock, Floats, Indices, IntBlock, Ints

_EACH = f'_Pragma("clang loop interleave_count(1) unroll(disable)") for (int j = 0; j < {LANES}; ++j)'
_TAIL = '_Pragma("clang loop vectorize(disable) unroll(disable)") for (int j = 0; j < count; ++j)'
_MIXED = -2
"""Stands for the row of a block whose lanes read different rows of a ring; less the bits of these rows."""
_MANY_DOFS = 16384
"""From so many DOFs on, what is not read in the next step is written past the caches."""
_FEW_ROWS = 24
"""Rings of at most so many rows are read row by row where lanes differ: that is a stream, gathers are not."""


def _read(kind: str) -> str:
    """C++ that returns a block from ``from``, and asks for the next: processors do not foresee twenty streams."""
    block = f"wp::vec_t<{LANES}, wp::{kind}>"
    return f"""
{block} value;
if (count == {LANES}) {{
    for (int line = 0; line < {LANES}; line += 16) __builtin_prefetch(from + {LANES} + line, 0, 3);
    {_EACH} value.c[j] = from[j];
}} else {{ value = {block}(0); {_TAIL} value.c[j] = from[j]; }}
return value;
"""


_FLOATS = f"wp::vec_t<{LANES}, wp::float32>"
_INTS = f"wp::vec_t<{LANES}, wp::int32>"

_LOAD = f"if (!source.data) return {_FLOATS}(0.0f); const float* from = source.data + base;" + _read("float32")

_LOAD_INT = "const int* from = source.data + base;" + _read("int32")

_LOAD_PUSHES = f"if (filled >= depth) return {_INTS}(depth);" + _LOAD_INT

_GATHER = f"""
if (!source.data) return {_FLOATS}(0.0f);
if (indices.data) {{
    {_FLOATS} value;
    const wp::uint32* at = indices.data + base;
    if (count == {LANES}) {_EACH} value.c[j] = source.data[at[j]];
    else {{ value = {_FLOATS}(0.0f); {_TAIL} value.c[j] = source.data[at[j]]; }}
    return value;
}}
const float* from = source.data + offset + base;
""" + _read("float32")

_STORE = f"""
if (!target.data) return;
if (count == {LANES}) {_EACH} target.data[base + j] = value.c[j];
else {_TAIL} target.data[base + j] = value.c[j];
"""


def _scatter(operator: str) -> str:
    return f"""
if (!target.data) return;
if (indices.data) {{
    const wp::uint32* at = indices.data + base;
    {_TAIL} target.data[at[j]] {operator} value.c[j];
}} else {{
    float* to = target.data + offset + base;
    if (count == {LANES}) {_EACH} to[j] {operator} value.c[j];
    else {_TAIL} to[j] {operator} value.c[j];
}}
"""


_COMMON_ROW = f"""
int low = row.c[0], high = row.c[0];
{_EACH} {{ low = row.c[j] < low ? row.c[j] : low; high = row.c[j] > high ? row.c[j] : high; }}
if (low == high) return low;
if (high >= {_FEW_ROWS}) return {_MIXED};
int rows = 0;
{_EACH} rows |= row.c[j] < 0 ? 0 : 1 << row.c[j];
return {_MIXED} - rows;
"""

_IS_UNEVEN = f"""
if (count == {LANES}) {{
    int fewer = 0;
    {_EACH} fewer |= alike.c[j] < pushes.c[j];
    return fewer;
}}
for (int j = 0; j < count; ++j) if (alike.c[j] < pushes.c[j]) return 1;
return 0;
"""

_ROW = f"((size_t)(n + {LANES - 1}) / {LANES} * {LANES} * columns)"
"""Floats in a row of a ring."""

_RING_READ = f"""
if (common == {int(NOW)}) return now;
{_FLOATS} value;
const float* from = ring.data + (size_t)base * columns + column * {LANES};
const size_t step = {_ROW};
if (common >= 0) {{
    from += common * step;
    {_EACH} value.c[j] = from[j];
}} else if (common < {_MIXED}) {{
    // Written with vectors: LLVM would make masked stores of it, which some processors are slow at.
    typedef int Bits __attribute__((vector_size(64), aligned(4)));
    for (int g = 0; g < {LANES}; g += 16) {{
        Bits rows, chosen;
        __builtin_memcpy(&rows, row.c + g, 64);
        __builtin_memcpy(&chosen, now.c + g, 64);
        for (int left = {_MIXED} - common; left; left &= left - 1) {{
            const int at = __builtin_ctz(left);
            Bits late;
            __builtin_memcpy(&late, from + at * step + g, 64);
            const Bits here = rows == at;
            chosen = (here & late) | (~here & chosen);
        }}
        __builtin_memcpy(value.c + g, &chosen, 64);
    }}
}} else {{
    {_EACH} {{
        const int at = row.c[j];
        const float late = from[(at < 0 ? 0 : at) * (int)step + j];
        value.c[j] = at < 0 ? now.c[j] : late;
    }}
}}
return value;
"""

_RING_WRITE = f"""
float* to = ring.data + row * {_ROW} + (size_t)base * columns + column * {LANES};
{_EACH} to[j] = value.c[j];
"""

_RING_STREAM = f"""
float* to = ring.data + row * {_ROW} + (size_t)base * columns + column * {LANES};
if (n < {_MANY_DOFS}) {_EACH} to[j] = value.c[j];
else {{
    typedef float Line __attribute__((vector_size(16)));
    for (int g = 0; g < {LANES}; g += 4) {{
        Line line;
        __builtin_memcpy(&line, value.c + g, 16);
        __builtin_nontemporal_store(line, (Line*)(to + g));
    }}
}}
"""

_RING_COPY = f"""
for (int row = 0; row < rows; ++row) {{
    const size_t at = row * {_ROW} + (size_t)base * columns;
    __builtin_memcpy(target.data + at, source.data + at, (size_t)columns * {LANES * 4});
}}
"""


@wp.func_native(_LOAD)
def load(source: Floats, base: int, count: int) -> FloatBlock: ...


@wp.func_native(_LOAD_INT)
def load_int(source: Ints, base: int, count: int) -> IntBlock: ...


@wp.func_native(_LOAD_PUSHES)
def load_pushes(source: Ints, filled: int, depth: int, base: int, count: int) -> IntBlock: ...


@wp.func_native(_GATHER)
def gather(source: Floats, indices: Indices, offset: int, base: int, count: int) -> FloatBlock: ...


@wp.func_native(_STORE)
def store(target: Floats, value: FloatBlock, base: int, count: int): ...


@wp.func_native(_STORE)
def store_int(target: Ints, value: IntBlock, base: int, count: int): ...


@wp.func_native(_scatter("+="))
def scatter_add(target: Floats, value: FloatBlock, indices: Indices, offset: int, base: int, count: int): ...


@wp.func_native(_scatter("="))
def scatter_set(target: Floats, value: FloatBlock, indices: Indices, offset: int, base: int, count: int): ...


@wp.func_native(_COMMON_ROW)
def common_row(row: IntBlock) -> int: ...  # type: ignore[empty-body]


@wp.func_native(_IS_UNEVEN)
def is_uneven(alike: IntBlock, pushes: IntBlock, count: int) -> int: ...  # type: ignore[empty-body]


@wp.func_native(_RING_READ)
def ring_read(
    ring: Floats,
    row: IntBlock,
    common: int,
    now: FloatBlock,
    column: int,
    columns: int,
    n: int,
    base: int,
    count: int,
) -> FloatBlock: ...


@wp.func_native(_RING_WRITE)
def ring_write(ring: Floats, value: FloatBlock, row: int, column: int, columns: int, n: int, base: int): ...


@wp.func_native(_RING_STREAM)
def ring_stream(ring: Floats, value: FloatBlock, row: int, column: int, columns: int, n: int, base: int): ...


@wp.func_native(_RING_COPY)
def ring_copy(source: Floats, target: Floats, columns: int, rows: int, n: int, base: int): ...


FUNCTIONS = {
    f.key: f
    for f in (
        load, load_int, load_pushes, gather, store, store_int, scatter_add, scatter_set, common_row, is_uneven,
        ring_read, ring_write, ring_stream, ring_copy,
    )
}  # fmt: skip
"""What a kernel calls, by name."""
