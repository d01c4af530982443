# SPDX-License-Identifier: Apache-2.0
"""Structures that Python and compiled code share, MuJoCo's C library, and offsets of fields in its structures."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from ...errors import SimulationError

MOST_BYTES = 16384
"""Most bytes of arguments of a kernel that compiled code calls."""


def many(kind: str, names: str) -> dict[str, str]:
    """Return fields of one type, from names separated by spaces."""
    return dict.fromkeys(names.split(), kind)


class Structs:
    """Structures, declared once for Python and for C."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {"long long": ctypes.c_longlong, "double": ctypes.c_double}
        self._texts: list[str] = []

    def add(self, name: str, **fields: str) -> Any:
        """Add and return a structure. ``fields`` have C types: numbers, earlier structures, or addresses."""
        lines, members = [], []
        for field, kind in fields.items():
            lines.append(kind.replace("(*)", f"(*{field})") if "(*)" in kind else f"{kind} {field}")
            members.append((field, self._types.get(kind, ctypes.c_void_p)))
        self._texts.append(f"struct {name} {{ {' '.join(f'{line};' for line in lines)} }};")
        self._types[name] = type(name, (ctypes.Structure,), {"_fields_": members})
        return self._types[name]

    @property
    def text(self) -> str:
        """Declarations in C."""
        return "\n".join(self._texts)


CALL = {
    "run": "void (*)(void*, void*)",
    "bounds": "void*",
    "arguments": "const char*",
    "size": "long long",
    "first": "long long",
    "copy": "long long",
    "cells": "const long long*",
}
"""Fields of ``Call``, a kernel that steps one robot: ``first`` is the place of its number in the arguments, ``copy``
that of a thread's own arguments among those of all calls, ``cells`` the number of each robot, or -1."""

RUN = f"""
struct Kernels {{
    static void run_cell(const Call& call, long long cell) {{
        alignas(64) char arguments[{MOST_BYTES}];
        __builtin_memcpy(arguments, call.arguments, call.size);
        *(wp::int32*)(arguments + call.first) = (wp::int32)cell;
        call.run(call.bounds, arguments);
    }}
    // Copy arguments once for all steps of a run: they are a few kilobytes, of which a step changes one number.
    static void copy(const Call* calls, long long count, char* arguments) {{
        for (long long k = 0; k < count; ++k)
            __builtin_memcpy(arguments + calls[k].copy, calls[k].arguments, calls[k].size);
    }}
    static void run(const Call* calls, long long count, long long robot, char* arguments) {{
        for (long long k = 0; k < count; ++k) {{
            const Call& call = calls[k];
            if (call.cells[robot] < 0) continue;
            *(wp::int32*)(arguments + call.copy + call.first) = (wp::int32)call.cells[robot];
            call.run(call.bounds, arguments + call.copy);
        }}
    }}
}};
"""
"""Functions that run kernels."""


@functools.cache
def library() -> ctypes.CDLL:
    """Return MuJoCo's library, with the types of the functions of batches."""
    folder = Path(mujoco.__file__).parent
    files = [path for pattern in ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll") for path in folder.glob(pattern)]
    if not files:
        raise SimulationError(f"MuJoCo's library is not in '{folder}'; install the package mujoco again")
    found = ctypes.CDLL(str(sorted(files)[0]))
    place, number = ctypes.c_void_p, ctypes.c_int
    found.mjb_makeBatch.restype = place
    found.mjb_makeBatch.argtypes = [place, number, place, place, number]
    found.mjb_deleteBatch.restype = None
    found.mjb_deleteBatch.argtypes = [place]
    found.mjb_setModels.restype = None
    found.mjb_setModels.argtypes = [place, place]
    found.mjb_apply.argtypes = [place, place, number, place, place, number]
    found.mjb_status.restype = ctypes.POINTER(number)
    found.mjb_status.argtypes = [place]
    found.mjb_error.restype = ctypes.c_char_p
    found.mjb_error.argtypes = [place, number]
    return found


def address_of(name: str) -> int:
    """Return the address of a function of MuJoCo."""
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


_PROBE = """<mujoco><option gravity="0 0 0"/><worldbody><geom type="plane" size="1 1 1"/><body><geom size="0.1"/>
<joint axis="1 0 0" frictionloss="1" range="-1 1" limited="true"/><joint axis="0 1 0" frictionloss="1" range="-1 1"
limited="true"/><joint axis="0 0 1" frictionloss="1" range="-1 1" limited="true"/></body></worldbody></mujoco>"""
"""A contact, without which arrays of no length would share the address of others, and three joints with stops."""

_MOTORS = (
    '<mujoco><worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody><actuator>{}</actuator></mujoco>'
)
"""A model with actuators."""


@functools.cache
def data_offsets(*names: str) -> tuple[int, ...]:
    """Return the offsets of arrays and of the number of constraints, ``"nefc"``, in an ``MjData`` [bytes].

    They differ between versions of MuJoCo. Arrays are found by their addresses, the number by its value, in three
    states of a small robot.
    """
    model = mujoco.MjModel.from_xml_string(_PROBE)
    data = mujoco.MjData(model)
    found: dict[str, set[int]] = {}
    for beyond in (3, 1, 0):  # falling: the largest number so far is not mistaken for it
        data.qpos[:] = [1.5 if i < beyond else 0.0 for i in range(3)]
        mujoco.mj_forward(model, data)
        addresses = {name: getattr(data, name).ctypes.data for name in names if name != "nefc"}
        size = 8 + max(_first_place(data._address, value) for value in addresses.values())
        words = np.ctypeslib.as_array((ctypes.c_uint64 * (size // 8)).from_address(data._address))
        places = {name: 8 * np.flatnonzero(words == value) for name, value in addresses.items()}
        if "nefc" in names:
            places["nefc"] = 4 * np.flatnonzero(words.view(np.int32) == data.nefc)
        for name, offsets in places.items():
            found[name] = found.get(name, {*offsets.tolist()}) & {*offsets.tolist()}
    unclear = [name for name, offsets in found.items() if len(offsets) != 1]
    if unclear:
        raise SimulationError(f"MuJoCo {mujoco.__version__}: no place of {', '.join(unclear)} was found in an MjData")
    return tuple(next(iter(found[name])) for name in names)


@functools.cache
def model_offsets(*names: str) -> tuple[int, ...]:
    """Return the offsets of arrays of actuators in an ``MjModel`` [bytes], which differ between versions of MuJoCo."""
    models = [mujoco.MjModel.from_xml_string(_MOTORS.format('<motor joint="j"/>' * count)) for count in (1, 2)]
    found = [
        tuple(_first_place(model._address, getattr(model, name).ctypes.data) for name in names) for model in models
    ]
    if found[0] != found[1] or 0 in found[0]:
        raise SimulationError(f"MuJoCo {mujoco.__version__}: no place of {', '.join(names)} was found in an MjModel")
    return found[0]


@functools.cache
def option_offset(name: str, *values: float) -> int:
    """Return the offset of an option in an ``MjModel`` [bytes], which differs between versions of MuJoCo.

    Args:
        name: Its name.
        values: Two unusual values of its type.
    """
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    kind = ctypes.c_double if isinstance(values[0], float) else ctypes.c_int
    seen = np.ctypeslib.as_array((kind * (4096 // ctypes.sizeof(kind))).from_address(model._address))
    found = []
    for value in values:
        setattr(model.opt, name, value)
        found.append({*np.flatnonzero(seen == value).tolist()})
    places = set.intersection(*found)
    if len(places) != 1:
        raise SimulationError(f"MuJoCo {mujoco.__version__}: no place of {name} was found in an MjModel")
    return int(ctypes.sizeof(kind) * places.pop())


def _first_place(start: int, value: int) -> int:
    """Return the first offset at which a structure holds an address, or 0."""
    for page in range(0, 1 << 20, 4096):
        words = np.ctypeslib.as_array((ctypes.c_uint64 * 512).from_address(start + page))
        found = np.flatnonzero(words == value)
        if found.size:
            return page + 8 * int(found[0])
    return 0
