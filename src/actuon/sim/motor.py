# SPDX-License-Identifier: Apache-2.0
"""Protocol of actuators on robots, which an engine steps before physics, from Python or in its compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import warp as wp

from ..kernel.launch import CCall


@dataclass(frozen=True)
class RobotCall:
    """A kernel that steps the actuators of one robot."""

    call: CCall
    cells: np.ndarray
    """The kernel's argument ``first`` for each of the n robots, or -1 for a robot that it does not step."""


@dataclass(frozen=True)
class Block:
    """Addresses of the memory of a chain with implicit efforts, ``size`` bytes for each of its robots."""

    memory: int
    before: int
    """Copy of the memory before the last step."""
    at_end: int
    """Copy to evaluate the chain at the end of a step."""
    size: int
    cells: np.ndarray
    """See `RobotCall`."""


@dataclass(frozen=True)
class Draws:
    """Motors on the batteries of robots: addresses of loads, ``stride`` bytes from one robot to the next."""

    own: int
    other: int
    stride: int
    count: int
    """Number of motors of a robot."""
    cells: np.ndarray
    """See `RobotCall`."""


@dataclass(frozen=True, eq=False)
class Trips:
    """Motors that were switched off, each of shape (n, D)."""

    tripped: np.ndarray
    """Above zero if the motor is off, float32."""
    temperature: np.ndarray | None
    """Temperature of the windings [°C], float32."""
    said: np.ndarray
    """Whether it was reported before the run, int64."""
    step: np.ndarray
    """Step of the run in which the motor was switched off, int64; -1 if none."""
    step_temperature: np.ndarray
    """Temperature in that step [°C], float32."""


@dataclass(frozen=True, eq=False)
class ImplicitProgram:
    """Linearised efforts of chains, which an engine integrates implicitly."""

    columns: np.ndarray
    """Indices among the D DOFs, shape (d,)."""
    now: Sequence[np.ndarray]
    """Effort, derivatives and bounds at the start of a step, each float32 of shape (n, D). See `ImplicitEffort`."""
    at_end: Sequence[np.ndarray]
    """Effort, derivatives and bounds at the end of a step."""
    calls: Sequence[RobotCall]
    """Kernels that fill ``at_end``."""
    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class MotorProgram:
    """Actuators of n robots with D DOFs each for compiled code, which steps them in place.

    They read positions, velocities and targets from the simulation's arrays, and write efforts. Whatever computes an
    effort, compiled code hands it over.
    """

    robots: np.ndarray
    """Indices of the robots, shape (n,)."""
    dofs: np.ndarray
    """Number of each of the D DOFs among those of an environment, shape (D,)."""
    calls: Sequence[RobotCall]
    efforts: np.ndarray
    """Efforts for the engine [N·m or N], float32 of shape (n, D)."""
    checked: np.ndarray
    """Efforts that must be finite [N·m or N], float32 of shape (n, D)."""
    pushed: np.ndarray
    """Indices of DOFs whose effort is applied unchanged, shape (d,)."""
    seen: np.ndarray
    """Receives the velocities at the last step of the actuators [rad/s or m/s], float32, flat as velocities."""
    implicit: ImplicitProgram | None = None
    properties: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Properties of DOFs that change at each step, by name: float32 of shape (n, D), and the indices of the DOFs."""
    loads: np.ndarray | None = None
    """Receives external loads of the last step [N·m or N], float32, flat as velocities."""
    in_python: Callable[[], None] | None = None
    """Steps chains with their own kernels, before `calls` at each step. It does not refer to the motor."""
    draws: Sequence[Draws] = ()
    trips: Trips | None = None
    keep: Any = None
    """Objects that own the memory at the addresses."""


@dataclass(frozen=True, eq=False)
class MotorKernels:
    """A step of actuators that a graph can capture: ``compute``, then ``push``."""

    compute: Callable[[], None]
    """Computes efforts from positions, velocities and targets."""
    push: Callable[[], None]
    """Writes them to the engine."""
    checked: wp.array
    """Efforts that must be finite [N·m or N], shape (n, D)."""
    trips: Trips | None
    """Motors that were switched off, updated at each step."""


class Motor(Protocol):
    """Actuators on robots, which a simulation steps before each step of physics."""

    @property
    def is_stepped(self) -> bool:
        """Whether steps of physics step them, and not the user."""

    def program(self, dt: float) -> MotorProgram:
        """Return the program of compiled code for steps of ``dt`` [s], the same object as long as nothing changes."""

    def prepare(self) -> None:
        """Apply changes since the last step: first part of a step without a program."""

    def compute(self, dt: float) -> None:
        """Compute the efforts of a step of ``dt`` [s] by kernels: second part of a step without a program."""

    def hand_over(self, dt: float) -> None:
        """Check the efforts, and write them to the engine: last part of a step without a program."""

    def capture_key(self, dt: float) -> object:
        """Return all that `compute` depends on besides values of arrays; a graph is valid while this is equal."""

    @property
    def is_graphable(self) -> bool:
        """Whether `compute` can be captured in a graph and is not slower in it."""

    def kernels(self, dt: float) -> MotorKernels | None:
        """Return steps of ``dt`` [s] as kernels, the same object as long as a graph of them is valid.

        Applies changes since the last step. None if a step needs more than kernels, or is slower in a graph.
        """

    def check(self) -> None:
        """Raise an error if an effort is not finite."""

    def has_run(self, time: float) -> None:
        """Update telemetry after a program or kernels ran from ``time`` [s] on."""

    def not_finite(self, robot: int, column: int) -> tuple[str, str]:
        """Return a description of an effort that is not finite, and the name of its joint."""

    def ends_step_at(self, time: float) -> bool:
        """Return whether the user stepped them for the step that begins at ``time`` [s]."""

    def description(self) -> Mapping[str, str]:
        """Return texts by label that must match those of a file: robots, joints and chains."""

    def saved(self) -> Mapping[str, np.ndarray]:
        """Return all arrays that their next steps depend on, by name, for a file."""

    def checked(self, where: str, contents: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Raise an error for contents that do not fit. Returns a function that loads them.

        Args:
            where: Name of their origin in an error.
            contents: Result of `saved`.
        """
