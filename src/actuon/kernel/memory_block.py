# SPDX-License-Identifier: Apache-2.0
"""Memory access of a kernel over blocks of lanes, on the CPU.

Each function copies the numbers of a block between an array and a local vector. A loop over local vectors then calls
the laws; LLVM vectorises it, since it accesses no arrays that might overlap. The bodies are C++, because Warp's array
access multiplies by a stride that is known only at run time, which LLVM cannot vectorise. They assume contiguous
arrays.

``count`` is the number of lanes in range. States are padded to whole blocks, so that reads and writes ignore it. A null
array reads as zero and ignores writes, so that optional arrays need no separate kernel.
"""

from __future__ import annotations

import functools
from typing import Any

import warp as wp

from .ring import NOW
from .text import define
from .types import Doubles, Floats, Indices, Ints

_TAIL = '_Pragma("clang loop vectorize(disable) unroll(disable)") for (int j = 0; j < count; ++j)'
_MIXED = -2
"""Row of a block whose lanes read different rows of a ring; minus the bits of these rows."""
_MANY_DOFS = 16384
"""Number of DOFs from which arrays that the next step does not read bypass the caches."""
_FEW_ROWS = 24
"""Rings with at most this many rows are read row by row if lanes differ, which is faster than gathers."""


@functools.cache
def functions(lanes: int) -> dict[str, Any]:
    """Return the functions that a kernel with blocks of ``lanes`` calls, by name, and the types of its blocks."""
    names: dict[str, Any] = {"FloatBlock": wp.types.vector(lanes, wp.float32)}
    names["IntBlock"] = wp.types.vector(lanes, wp.int32)
    space = names | {"wp": wp, "Floats": Floats, "Doubles": Doubles, "Ints": Ints, "Indices": Indices}
    space["__name__"] = __name__
    for signature, code in _code(lanes).items():
        name, rest = signature.split("(", 1)
        called = f"{name}_{lanes}"
        source = f"@wp.func_native(code)\ndef {called}({rest}: ...\n"
        names[name] = define(source, called, space | {"code": code})[called]
    return names


def _code(lanes: int) -> dict[str, str]:
    """Return the C++ of each function by its Python signature."""
    each = f'_Pragma("clang loop interleave_count(1) unroll(disable)") for (int j = 0; j < {lanes}; ++j)'
    floats, ints = f"wp::vec_t<{lanes}, wp::float32>", f"wp::vec_t<{lanes}, wp::int32>"

    def read(block: str) -> str:
        """Read a block from ``from``, and prefetch the next: processors do not predict twenty streams."""
        return f"""
            {block} value;
            if (count >= {lanes}) {{
                for (int line = 0; line < {lanes}; line += 16) __builtin_prefetch(from + {lanes} + line, 0, 3);
                {each} value.c[j] = from[j];
            }} else {{ value = {block}(0); {_TAIL} value.c[j] = from[j]; }}
            return value;
        """

    def read_whole(block: str) -> str:
        """Like `read`, of a state, whose blocks are whole."""
        return f"""
            {block} value;
            for (int line = 0; line < {lanes}; line += 16) __builtin_prefetch(from + {lanes} + line, 0, 3);
            {each} value.c[j] = from[j];
            return value;
        """

    def gather(number: str, convert: str) -> str:
        return f"""
            if (!source.data) return {floats}(0.0f);
            if (indices.data) {{
                {floats} value;
                const wp::uint32* at = indices.data + base;
                if (count == {lanes}) {each} value.c[j] = {convert}source.data[at[j]];
                else {{ value = {floats}(0.0f); {_TAIL} value.c[j] = {convert}source.data[at[j]]; }}
                return value;
            }}
            const {number}* from = source.data + offset + base;
            {floats} value;
            if (count == {lanes}) {{
                for (int line = 0; line < {lanes}; line += 16) __builtin_prefetch(from + {lanes} + line, 0, 3);
                {each} value.c[j] = {convert}from[j];
            }} else {{ value = {floats}(0.0f); {_TAIL} value.c[j] = {convert}from[j]; }}
            return value;
        """

    def scatter(number: str) -> str:
        def write(operator: str) -> str:
            return f"""
                if (indices.data) {{
                    const wp::uint32* at = indices.data + base;
                    {_TAIL} target.data[at[j]] {operator} value.c[j];
                }} else {{
                    {number}* to = target.data + offset + base;
                    if (count == {lanes}) {each} to[j] {operator} value.c[j];
                    else {_TAIL} to[j] {operator} value.c[j];
                }}
            """

        return f"if (!target.data) return; if (adds) {{ {write('+=')} }} else {{ {write('=')} }}"

    through = "indices: Indices, offset: int, base: int, count: int"
    place = f"(size_t)row * width * columns + (size_t)lane * columns + column * {lanes}"
    return {
        "load(source: Floats, base: int, count: int) -> FloatBlock": (
            f"if (!source.data) return {floats}(0.0f); const float* from = source.data + base;" + read(floats)
        ),
        "load_int(source: Ints, base: int, count: int) -> IntBlock": (
            "const int* from = source.data + base;" + read(ints)
        ),
        "load_state(source: Floats, at: int) -> FloatBlock": (
            "const float* from = source.data + at;" + read_whole(floats)
        ),
        "load_int_state(source: Ints, at: int) -> IntBlock": (
            "const int* from = source.data + at;" + read_whole(ints)
        ),
        "load_pushes(source: Ints, filled: int, depth: int, at: int) -> IntBlock": (
            f"if (filled >= depth) return {ints}(depth); const int* from = source.data + at;" + read_whole(ints)
        ),
        "copy_rows(source: Floats, target: Floats, at: int, rows: int, width: int)": f"""
            for (int row = 0; row < rows; ++row) {{
                const size_t from = at + (size_t)row * width;
                __builtin_memcpy(target.data + from, source.data + from, {lanes * 4});
            }}
        """,
        f"gather(source: Floats, {through}) -> FloatBlock": gather("float", ""),
        f"gather_double(source: Doubles, {through}) -> FloatBlock": gather("double", "(float)"),
        "store(target: Floats, value: FloatBlock, base: int, count: int)": f"""
            if (!target.data) return;
            if (count == {lanes}) {each} target.data[base + j] = value.c[j];
            else {_TAIL} target.data[base + j] = value.c[j];
        """,
        "store_state(target: Floats, value: FloatBlock, at: int)": f"{each} target.data[at + j] = value.c[j];",
        "store_int_state(target: Ints, value: IntBlock, at: int)": f"{each} target.data[at + j] = value.c[j];",
        f"scatter(target: Floats, value: FloatBlock, adds: bool, {through})": scatter("float"),
        f"scatter_double(target: Doubles, value: FloatBlock, adds: bool, {through})": scatter("double"),
        "common_row(row: IntBlock) -> int": f"""
            int low = row.c[0], high = row.c[0];
            {each} {{ low = row.c[j] < low ? row.c[j] : low; high = row.c[j] > high ? row.c[j] : high; }}
            if (low == high) return low;
            if (high >= {_FEW_ROWS}) return {_MIXED};
            int rows = 0;
            {each} rows |= row.c[j] < 0 ? 0 : 1 << row.c[j];
            return {_MIXED} - rows;
        """,
        "is_uneven(alike: IntBlock, pushes: IntBlock, count: int) -> int": f"""
            if (count == {lanes}) {{
                int fewer = 0;
                {each} fewer |= alike.c[j] < pushes.c[j];
                return fewer;
            }}
            for (int j = 0; j < count; ++j) if (alike.c[j] < pushes.c[j]) return 1;
            return 0;
        """,
        "ring_read(ring: Floats, at: int, row: IntBlock, common: int, now: FloatBlock, column: int, columns: int, "
        "width: int, lane: int, lanes: int) -> FloatBlock": f"""
            if (common == {int(NOW)}) return now;
            {floats} value;
            const float* from = ring.data + at + (size_t)lane * columns + column * {lanes};
            const size_t step = (size_t)width * columns;
            if (common >= 0) {{
                from += common * step;
                {each} value.c[j] = from[j];
            }} else if (common < {_MIXED}) {{
                // Written with vectors: LLVM would make masked stores of it, which some processors are slow at.
                typedef int Bits __attribute__((vector_size(64), aligned(4)));
                for (int g = 0; g < {lanes}; g += 16) {{
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
                {each} {{
                    const int at = row.c[j];
                    const float late = from[(at < 0 ? 0 : at) * (int)step + j];
                    value.c[j] = at < 0 ? now.c[j] : late;
                }}
            }}
            return value;
        """,
        "ring_write(ring: Floats, at: int, value: FloatBlock, row: int, column: int, columns: int, width: int, "
        "lane: int)": f"""
            float* to = ring.data + at + {place};
            {each} to[j] = value.c[j];
        """,
        "ring_stream(ring: Floats, at: int, value: FloatBlock, row: int, column: int, columns: int, width: int, "
        "lane: int)": f"""
            float* to = ring.data + at + {place};
            if (width < {_MANY_DOFS}) {each} to[j] = value.c[j];
            else {{
                typedef float Line __attribute__((vector_size(16)));
                for (int g = 0; g < {lanes}; g += 4) {{
                    Line line;
                    __builtin_memcpy(&line, value.c + g, 16);
                    __builtin_nontemporal_store(line, (Line*)(to + g));
                }}
            }}
        """,
        "ring_copy(source: Floats, target: Floats, at: int, columns: int, rows: int, width: int, lane: int)": f"""
            for (int row = 0; row < rows; ++row) {{
                const size_t from = at + ((size_t)row * width + lane) * columns;
                __builtin_memcpy(target.data + from, source.data + from, (size_t)columns * {lanes * 4});
            }}
        """,
    }  # fmt: skip
