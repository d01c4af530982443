# SPDX-License-Identifier: Apache-2.0
"""Arguments of a kernel: names, types, and sources of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from .chain import CLOCK, DIRECT, HELD, SIGNALS, Chain, Stage, Write, held
from .state import ring_words


class Role(Enum):
    """Purpose of an argument. A key distinguishes arguments with the same role."""

    SIZE = auto()
    """A number of this launch: ``"first"``, sizes of cells, time steps, ``"in_place"``, ``"adds"``."""
    SIGNAL = auto()
    """An array that a signal is read from; key: its name."""
    INDICES = auto()
    """Indices of the DOFs in such an array, or null; key: name of the indices."""
    OFFSET = auto()
    """Offset of the first DOF, if the indices are null."""
    PARAMETER = auto()
    """Values of a component; key: position of the stage, name."""
    DEPTH = auto()
    """Rows of a ring; key: position of the stage."""
    STATE_IN = auto()
    """A buffer of the state before the step; key: one of `BUFFERS`."""
    STATE_OUT = auto()
    """A buffer of the state after the step."""
    PLACE = auto()
    """Offset of a state in a cell of its buffer; key: position of the stage, name."""
    WRITE = auto()
    """An array that a signal is written to; key: position among the writes."""


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel."""

    name: str
    """Name in the kernel's source."""
    type: str
    """Type in the kernel's signature."""
    role: Role
    key: Any


_ARRAYS = {
    "q": "positions",
    "qd": "velocities",
    "target_q": "target_positions",
    "target_qd": "target_velocities",
    "feedforward": "feedforwards",
}
"""Names of the signals' arrays in a kernel."""


BUFFERS = {"floats": "Floats", "ints": "Ints", "longs": "Longs"}
"""The buffers of a state, and their types in a kernel."""

RING_STATES = {word.name: word.buffer for word in ring_words(1, 1)}
"""States of a ring, and the buffers that hold them."""


def arguments(chain: Chain) -> tuple[Argument, ...]:
    """Return the arguments of the kernel for ``chain``, by role, in the order of its signature."""
    return tuple(_arguments(chain))


def _arguments(chain: Chain) -> Iterator[Argument]:
    is_robot = chain.tile.is_robot
    for name in ("first", "dofs", *(("room",) if is_robot else ())):
        yield Argument(name, "int", Role.SIZE, name)
    for name in chain.time_steps:
        yield Argument(name, "float", Role.SIZE, name)
    if any(write.may_add for write in chain.writes):
        yield Argument("adds", "bool", Role.SIZE, "adds")
    used = {buffer for stage in chain.stages for buffer in state_buffers(stage).values()}
    if chain.held is not None:
        used |= {"floats", "ints"}
        yield Argument("control_every", "int", Role.SIZE, "control_every")
    if used:
        yield Argument("in_place", "bool", Role.SIZE, "in_place")
        yield Argument("width", "int", Role.SIZE, "width")
        if any(stage.wide_states for stage in chain.stages):
            yield Argument("row_width", "int", Role.SIZE, "row_width")
        yield Argument("tile_size", "int", Role.SIZE, "tile_size")
    for name in chain.reads:
        yield Argument(array_name(name), "Doubles" if name in chain.doubles else "Floats", Role.SIGNAL, name)
    groups = [chain.sources[name] for name in chain.reads]
    if any(write.scattered for write in chain.writes):
        groups.append("effort")
    for group in dict.fromkeys(group for group in groups if group != DIRECT):
        yield Argument(f"{group}_indices", "Indices", Role.INDICES, group)
        yield Argument(f"{group}_offset", "int", Role.OFFSET, group)
    for position, stage, label in chain.labelled():
        for name in (*stage.read_params, *stage.tables):
            kind = "Ints" if name in stage.integers else "Floats"
            yield Argument(f"{label}_{name}", kind, Role.PARAMETER, (position, name))
        if stage.ring is not None:
            yield Argument(f"{label}_rows", "int", Role.DEPTH, position)
        for name in state_buffers(stage):
            yield Argument(f"{label}_{name}_at", "int", Role.PLACE, (position, name))
    if chain.held is not None:
        for name in (CLOCK, *map(held, chain.held_signals)):
            yield Argument(f"control_{name}_at", "int", Role.PLACE, (HELD, name))
    for buffer in (name for name in BUFFERS if name in used):
        if is_robot:
            yield Argument(f"{buffer}_size", "int", Role.SIZE, f"{buffer}_size")
        yield Argument(f"{buffer}_in", BUFFERS[buffer], Role.STATE_IN, buffer)
        yield Argument(f"{buffer}_out", BUFFERS[buffer], Role.STATE_OUT, buffer)
    for place, write in enumerate(chain.writes):
        yield Argument(_written_name(write), "Doubles" if write.is_double else "Floats", Role.WRITE, place)


def _written_name(write: Write) -> str:
    """Return the kernel's name of the array that a signal is written to."""
    if write.after is not None:
        return "computed_array"
    return "output" if write.signal == "effort" else f"{write.signal}_array"


def array_name(signal: str) -> str:
    """Return the kernel's name of the array that a signal is read from."""
    return _ARRAYS.get(signal, f"given_{signal}") if signal in SIGNALS else f"given_{signal}"


def state_buffers(stage: Stage) -> dict[str, str]:
    """Return the buffer of each state of a stage, by name."""
    own = {name: "ints" if name in stage.integers else "floats" for name in (*stage.states, *stage.wide_states)}
    return own | (RING_STATES if stage.ring is not None else {})
