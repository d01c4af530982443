# SPDX-License-Identifier: Apache-2.0
"""Runs one stage as a chain of its own: how staged steps, and calls of single components, run a law."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import warp as wp

from .arguments import Argument, Role
from .program import program
from .structure import DIRECT, FEEDBACK, Stage, Structure, Write, sources
from .types import Flavour


@dataclass(frozen=True)
class Given:
    """A signal as an array, and where the DOFs are in it."""

    array: wp.array | None
    indices: wp.array
    """Shape (N,)."""
    is_direct: bool = False
    """Whether the indices just count through the DOFs."""


class Runnable(Protocol):
    """What a stage must have to be run."""

    def stage(self) -> Stage: ...

    def arguments(self) -> Mapping[str, Any]: ...


def argument_values(signature: tuple[Argument, ...], values: Mapping[Role, Mapping[Any, Any]]) -> list[Any]:
    """The values of a kernel's arguments, in order."""
    return [values[argument.role][argument.key] for argument in signature]


def state_values(states: Mapping[int, Any]) -> dict[Any, Any]:
    """Arrays of states as arguments of a kernel, by the position of their stage."""
    return {
        (position, name): array.flatten()
        for position, state in states.items()
        if state is not None
        for name, array in state.arrays().items()
    }


def parameter_values(components: Mapping[int, Runnable]) -> dict[Any, Any]:
    """Parameters as arguments of a kernel, by the position of their stage."""
    return {
        (position, name): value
        for position, component in components.items()
        for name, value in component.arguments().items()
    }


def ring_values(
    stages: Sequence[Stage], current: Mapping[int, Any], following: Mapping[int, Any]
) -> tuple[dict[str, Any], dict[int, int]]:
    """What kernels with rings are told about them: sizes, and the number of rows by position of the stage."""
    rings = {position: current[position] for position, stage in enumerate(stages) if stage.ring is not None}
    if not rings:
        return {}, {}
    in_place = all(state is following[position] for position, state in rings.items())
    sizes = {"in_place": in_place, "cell_size": next(iter(rings.values())).cell_size}
    return sizes, {position: state.depth + 1 for position, state in rings.items()}


def run_alone(
    component: Runnable,
    given: Mapping[str, Given],
    results: Mapping[str, wp.array],
    current: Any,
    following: Any,
    dt: float | None,
    stage: Stage | None = None,
) -> None:
    """Run one stage from arrays to arrays.

    Args:
        component: Whose stage.
        given: Signals by name.
        results: Arrays of shape (N,) to write, by the name of the signal.
        current: State before; None where there is none.
        following: State after, written.
        dt: Time step [s].
        stage: The stage to run. Default: that of ``component``, without the way back.
    """
    stage = dataclasses.replace(component.stage(), closing_law=None, closing_outputs=()) if stage is None else stage
    through = {name: group for name, group in sources([stage]).items() if name in given and not given[name].is_direct}
    direct = tuple((name, DIRECT) for name in given if name not in through)
    writes = tuple(Write(name, scattered=False, sensed=stage.sensed and name in FEEDBACK) for name in results)
    target = next(iter(results.values()))
    flavour = Flavour.GRAD if target.requires_grad else Flavour.SCALAR
    built = program(Structure((stage,), writes, flavour, direct))
    groups = {group: given[name].indices for name, group in through.items()}
    sizes, rows = ring_values([stage], {0: current}, {0: following})
    values: dict[Role, Mapping[Any, Any]] = {
        Role.SIZE: {"n": target.shape[0], "first": 0, "dt": dt, **sizes},
        Role.SIGNAL: {name: signal.array for name, signal in given.items()},
        Role.INDICES: groups,
        Role.OFFSET: dict.fromkeys(groups, 0),
        Role.PARAMETER: parameter_values({0: component}),
        Role.DEPTH: rows,
        Role.STATE_IN: state_values({0: current}),
        Role.STATE_OUT: state_values({0: following}),
        Role.WRITE: dict(enumerate(results.values())),
    }
    wp.launch(built.kernel, target.shape[0], argument_values(built.arguments, values), device=target.device)
