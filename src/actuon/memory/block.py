# SPDX-License-Identifier: Apache-2.0
"""Memory access of a block of lanes, on the CPU.

The bodies are C++, because Warp's own array access multiplies by a stride that is known only at run time, which keeps
LLVM from vectorising it. They assume contiguous arrays.
"""

from __future__ import annotations

import warp as wp

from . import CURRENT, LANES, MIXED, FloatBlock, Floats, Indices, IntBlock, Ints

_LANE_LOOP = f'_Pragma("clang loop interleave_count(1) unroll(disable)") for (int j = 0; j < {LANES}; ++j)'
_TAIL_LOOP = '_Pragma("clang loop vectorize(disable) unroll(disable)") for (int j = 0; j < count; ++j)'


def _cpp(text: str) -> str:
    """Fill in a C++ body: ``BLOCK`` is the local vector, ``LANES`` its length, ``EACH`` a loop over it."""
    text = (
        text.replace("BLOCK", f"wp::vec_t<{LANES}, wp::float32>")
        .replace("EACH", _LANE_LOOP)
        .replace("TAIL", _TAIL_LOOP)
    )
    return text.replace("LANES", str(LANES)).replace("CURRENT", str(CURRENT)).replace("MIXED", str(MIXED))


_READ = """
BLOCK value;
if (count == LANES) EACH value.c[j] = from[j];
else { value = BLOCK(0.0f); TAIL value.c[j] = from[j]; }
return value;
"""

_WRITE = """
if (count == LANES) EACH to[j] = value.c[j];
else TAIL to[j] = value.c[j];
"""

_LOAD = _cpp("if (!source.data) return BLOCK(0.0f); const float* from = source.data + base;" + _READ)

_LOAD_INT = _cpp("const int* from = source.data + base;" + _READ).replace("float32", "int32")

_GATHER = _cpp(
    """
if (!source.data) return BLOCK(0.0f);
if (indices.data) {
    BLOCK value;
    const wp::uint32* at = indices.data + base;
    if (count == LANES) EACH value.c[j] = source.data[at[j]];
    else { value = BLOCK(0.0f); TAIL value.c[j] = source.data[at[j]]; }
    return value;
}
const float* from = source.data + offset + base;
"""
    + _READ
)

_STORE = _cpp("float* to = target.data + base;" + _WRITE)

_STORE_INT = _cpp("int* to = target.data + base;" + _WRITE)

_SCATTER_ADD = _cpp("""
if (!target.data) return;
if (indices.data) {
    const wp::uint32* at = indices.data + base;
    TAIL target.data[at[j]] += value.c[j];
} else {
    float* to = target.data + offset + base;
    if (count == LANES) EACH to[j] += value.c[j];
    else TAIL to[j] += value.c[j];
}
""")

_SCATTER_SET = _SCATTER_ADD.replace("+=", "=")

_COMMON_OFFSET = _cpp("""
int low = offset.c[0], high = offset.c[0];
EACH { low = offset.c[j] < low ? offset.c[j] : low; high = offset.c[j] > high ? offset.c[j] : high; }
return low == high ? low : MIXED;
""")

_RING_READ = _cpp("""
if (common == CURRENT) return command;
BLOCK value;
const float* from = ring.data + base;
if (count == LANES && common >= 0) {
    from += common;
    EACH value.c[j] = from[j];
} else if (count == LANES) {
    EACH {
        const int at = offset.c[j];
        const float late = from[(at < 0 ? 0 : at) + j];
        value.c[j] = at < 0 ? command.c[j] : late;
    }
} else {
    value = command;
    TAIL if (offset.c[j] >= 0) value.c[j] = from[offset.c[j] + j];
}
return value;
""")

_RING_CARRY = _cpp("""
for (int row = synced ? newest : 0; row < (synced ? newest + 1 : depth); ++row) {
    if (row == slot) continue;
    const float* from = source.data + row * n + base;
    float* to = target.data + row * n + base;
    if (count == LANES) EACH to[j] = from[j];
    else TAIL to[j] = from[j];
}
""")


@wp.func_native(_LOAD)
def load(source: Floats, base: int, count: int) -> FloatBlock: ...


@wp.func_native(_LOAD_INT)
def load_int(source: Ints, base: int, count: int) -> IntBlock: ...


@wp.func_native(_GATHER)
def gather(source: Floats, indices: Indices, offset: int, base: int, count: int) -> FloatBlock: ...


@wp.func_native(_STORE)
def store(target: Floats, value: FloatBlock, base: int, count: int): ...


@wp.func_native(_STORE_INT)
def store_int(target: Ints, value: IntBlock, base: int, count: int): ...


@wp.func_native(_SCATTER_ADD)
def scatter_add(target: Floats, value: FloatBlock, indices: Indices, offset: int, base: int, count: int): ...


@wp.func_native(_SCATTER_SET)
def scatter_set(target: Floats, value: FloatBlock, indices: Indices, offset: int, base: int, count: int): ...


@wp.func_native(_COMMON_OFFSET)
def common_offset(offset: IntBlock) -> int: ...  # type: ignore[empty-body]


@wp.func_native(_RING_READ)
def ring_read(
    ring: Floats, offset: IntBlock, common: int, command: FloatBlock, base: int, count: int
) -> FloatBlock: ...


@wp.func_native(_RING_CARRY)
def ring_carry(
    source: Floats, target: Floats, synced: bool, newest: int, slot: int, depth: int, n: int, base: int, count: int
): ...


FUNCTIONS = {
    f.key: f
    for f in (load, load_int, gather, store, store_int, scatter_add, scatter_set, common_offset, ring_read, ring_carry)
}
"""What a kernel calls, by name."""
