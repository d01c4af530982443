# SPDX-License-Identifier: Apache-2.0
"""Runs a single stage, for staged steps and calls of single components."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import warp as wp

from .arguments import Argument, Role
from .build import kernel_for
from .chain import CONTROL_DT, DIRECT, FEEDBACK, HELD, JOINT_SIGNALS, SIGNALS, Chain, Stage, Write, sources
from .state import Cells, Memory, State
from .types import Flavour


@dataclass(frozen=True)
class SignalArray:
    """A signal as an array, with the indices of the DOFs in it."""

    array: wp.array | None
    indices: wp.array
    """Shape (N,)."""
    is_direct: bool = False
    """Whether the array holds the DOFs in order, so that indices are not needed."""


class Runnable(Protocol):
    """A component that can be run."""

    def stage(self) -> Stage: ...

    def arguments(self) -> Mapping[str, Any]: ...


class HasMemory(Protocol):
    """A state of a whole chain."""

    memory: Memory


def values_by_name(signature: tuple[Argument, ...], values: Mapping[Role, Mapping[Any, object]]) -> dict[str, object]:
    """Return the values of a kernel's arguments, by name, in order."""
    return {argument.name: values[argument.role][argument.key] for argument in signature}


def parameter_values(components: Mapping[int, Runnable]) -> dict[Any, Any]:
    """Return parameters as arguments of a kernel, by the position of their stage."""
    return {
        (position, name): value
        for position, component in components.items()
        for name, value in component.arguments().items()
    }


def memory_values(cells: Cells, current: Memory | None, following: Memory | None) -> dict[Role, dict[Any, Any]]:
    """Return the arguments of a kernel that describe cells and their memory, by role and key."""
    sizes: dict[Any, Any] = {"first": 0, "dofs": cells.dofs, "room": cells.num_dofs}
    sizes |= {
        "width": cells.width,
        "row_width": cells.row_width,
        "tile_size": cells.tile_size,
        "in_place": current is following,
    }
    if current is None or following is None:
        return {Role.SIZE: sizes, Role.DEPTH: {}, Role.PLACE: {}, Role.STATE_IN: {}, Role.STATE_OUT: {}}
    return {
        Role.SIZE: sizes | {f"{buffer}_size": size for buffer, size in current.sizes.items()},
        Role.DEPTH: {position: current.ring_rows(position) for position, name in current.words if name == "ring"},
        Role.PLACE: dict(current.places),
        Role.STATE_IN: dict(current.buffers),
        Role.STATE_OUT: dict(following.buffers),
    }


def _groups(stage: Stage, given: Mapping[str, SignalArray]) -> dict[str, str]:
    """Return the signals that a kernel reads through indices, and the names of these indices.

    Signals of earlier stages need no indices. If all signals of a group are such, it is read through a null array, so
    that the same kernel serves chains with and without these stages.
    """
    known = sources([stage]) | {name: SIGNALS[own] for name, own in JOINT_SIGNALS.items()}
    found = {name: group for name, group in known.items() if name in given}
    indexed = {group for name, group in found.items() if not given[name].is_direct}
    return {name: group for name, group in found.items() if not given[name].is_direct or group not in indexed}


def run_stage(
    component: Runnable,
    given: Mapping[str, SignalArray],
    results: Mapping[str, wp.array],
    current: State | None,
    following: State | None,
    dt: float | None,
    stage: Stage | None = None,
    control: tuple[HasMemory, HasMemory, int] | None = None,
) -> None:
    """Run one stage from arrays to arrays.

    Args:
        component: Component of the stage.
        given: Signals by name.
        results: Arrays of shape (N,) to write, by the name of the signal.
        current: State before; None without memory.
        following: State after, written.
        dt: Time step [s].
        stage: Stage to run. Default: that of ``component``, without its closing law.
        control: States of the chain before and after, and k, if the stage runs only at every k-th step.
    """
    if current is not None and following is not None and not following.fits(current):
        between = current.empty_like()
        run_stage(component, given, results, current, between, dt, stage)
        following.assign(between)
        return
    stage = dataclasses.replace(component.stage(), closing=None) if stage is None else stage
    through = _groups(stage, given)
    direct = tuple((name, DIRECT) for name in given if name not in through)
    direct += tuple((name, through[name]) for name in JOINT_SIGNALS if name in through)
    writes = tuple(Write(name, scattered=False, sensed=stage.sensed and name in FEEDBACK) for name in results)
    target = next(iter(results.values()))
    flavour = Flavour.GRAD if target.requires_grad else Flavour.SCALAR
    before, after = (None if state is None else state.memory for state in (current, following))
    if control is not None:
        before, after = control[0].memory, control[1].memory
        stage = dataclasses.replace(stage, time_step=CONTROL_DT)
    cells = Cells.of(target.shape[0], target.device) if before is None else before.cells
    position = 0 if current is None else current.position
    held = None if control is None else 0
    built = kernel_for(Chain((stage,), writes, flavour, direct, held=held, tile=cells.tile))
    groups = {group: None if given[name].is_direct else given[name].indices for name, group in through.items()}
    values: dict[Role, Mapping[Any, Any]] = dict(memory_values(cells, before, after))
    at = {position: 0, HELD: HELD}
    values[Role.PLACE] = {(at[p], name): place for (p, name), place in values[Role.PLACE].items() if p in at}
    values[Role.DEPTH] = {at[p]: rows for p, rows in values[Role.DEPTH].items() if p in at}
    values |= {
        Role.SIZE: {**values[Role.SIZE], "dt": dt, CONTROL_DT: dt, "control_every": control[2] if control else 1},
        Role.SIGNAL: {name: signal.array for name, signal in given.items()},
        Role.INDICES: groups,
        Role.OFFSET: dict.fromkeys(groups, 0),
        Role.PARAMETER: parameter_values({0: component}),
        Role.WRITE: dict(enumerate(results.values())),
    }
    inputs = values_by_name(built.arguments, values)
    wp.launch(built.function, target.shape[0], list(inputs.values()), device=target.device)
