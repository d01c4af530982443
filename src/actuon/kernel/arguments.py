# SPDX-License-Identifier: Apache-2.0
"""The arguments of a kernel: what each is, and where its value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from .ring import RING_ARRAYS
from .structure import DIRECT, SIGNALS, Stage, Structure, Write


class Role(Enum):
    """What an argument is for. Its key says which of them it is."""

    SIZE = auto()
    """A number of this launch: ``"n"``, ``"first"``, time steps, ``"in_place"``, ``"cell_size"``."""
    SIGNAL = auto()
    """An array that a signal is read from; key: its name."""
    INDICES = auto()
    """Where the DOFs are in such an array, or null; key: name of the indices."""
    OFFSET = auto()
    """Where the first DOF is, where there are no indices."""
    PARAMETER = auto()
    """Values of a component; key: position of the stage, name."""
    DEPTH = auto()
    """Rows of a ring; key: position of the stage."""
    STATE_IN = auto()
    """State before the step; key: position of the stage, name."""
    STATE_OUT = auto()
    """State after the step."""
    WRITE = auto()
    """An array that a signal is written to; key: position among the writes."""


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel."""

    name: str
    """As the kernel's text has it."""
    type: str
    """As its signature has it."""
    role: Role
    key: Any


_ARRAYS = {
    "q": "positions",
    "qd": "velocities",
    "target_q": "target_positions",
    "target_qd": "target_velocities",
    "feedforward": "feedforwards",
}
"""What the arrays of signals are called in a kernel."""


def arguments(structure: Structure) -> tuple[Argument, ...]:
    """The arguments of the kernel for ``structure``, by role, in the order of its signature."""
    return tuple(_arguments(structure))


def _arguments(structure: Structure) -> Iterator[Argument]:
    yield Argument("n", "int", Role.SIZE, "n")
    yield Argument("first", "int", Role.SIZE, "first")
    for name in structure.time_steps:
        yield Argument(name, "float", Role.SIZE, name)
    if structure.has_rings:
        yield Argument("in_place", "bool", Role.SIZE, "in_place")
        yield Argument("cell_size", "int", Role.SIZE, "cell_size")
    for name in structure.reads:
        yield Argument(array_name(name), "Floats", Role.SIGNAL, name)
    groups = [structure.sources[name] for name in structure.reads]
    if any(write.scattered for write in structure.writes):
        groups.append("effort")
    for group in dict.fromkeys(group for group in groups if group != DIRECT):
        yield Argument(f"{group}_indices", "Indices", Role.INDICES, group)
        yield Argument(f"{group}_offset", "int", Role.OFFSET, group)
    for position, stage, label in structure.labelled():
        for name in (*stage.read_params, *stage.tables):
            kind = "Ints" if name in stage.integers else "Floats"
            yield Argument(f"{label}_{name}", kind, Role.PARAMETER, (position, name))
        if stage.ring is not None:
            yield Argument(f"{label}_rows", "int", Role.DEPTH, position)
    for role, side in ((Role.STATE_IN, "in"), (Role.STATE_OUT, "out")):
        for position, stage, label in structure.labelled():
            for name, kind in state_arrays(stage).items():
                yield Argument(f"{label}_{name}_{side}", kind, role, (position, name))
    for place, write in enumerate(structure.writes):
        yield Argument(_written_name(write), "Floats", Role.WRITE, place)


def _written_name(write: Write) -> str:
    """What the array that a signal is written to is called in a kernel."""
    if write.after is not None:
        return "computed_array" if write.scattered else f"kept_{write.signal}"
    return "output" if write.signal == "effort" else f"{write.signal}_array"


def array_name(signal: str) -> str:
    """What the array that a signal is read from is called in a kernel."""
    return _ARRAYS.get(signal, f"given_{signal}") if signal in SIGNALS else f"given_{signal}"


def state_arrays(stage: Stage) -> dict[str, str]:
    """Names and types of the arrays that a stage's state consists of."""
    arrays = {name: "Ints" if name in stage.integers else "Floats" for name in (*stage.states, *stage.wide_states)}
    return arrays | (RING_ARRAYS if stage.ring is not None else {})
