# SPDX-License-Identifier: Apache-2.0
"""Actuators on robots as an engine steps them: before each step of physics, from Python or in its own compiled loop."""

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
    """Number of each of the n robots in the kernel, its argument ``first``, or -1 for one that it does not step."""


@dataclass(frozen=True)
class Block:
    """Memory of a chain whose efforts are implicit, as addresses: ``size`` bytes for each of its robots."""

    memory: int
    before: int
    """Copy of the memory before the last step."""
    at_end: int
    """Copy for what the chain would give where a step ends."""
    size: int
    cells: np.ndarray
    """As for `RobotCall`."""


@dataclass(frozen=True)
class Draws:
    """Motors of robots on the batteries of these: addresses of loads, ``stride`` bytes from one robot to the next."""

    own: int
    other: int
    stride: int
    count: int
    """Motors of a robot."""
    cells: np.ndarray
    """As for `RobotCall`."""


@dataclass(frozen=True, eq=False)
class Trips:
    """Motors that were switched off, each of shape (n, D)."""

    tripped: np.ndarray
    """Above zero where one is, float32."""
    temperature: np.ndarray | None
    """Of the windings [°C], float32."""
    said: np.ndarray
    """Whether it was known before the run, int64."""
    step: np.ndarray
    """Step of the run in which it was, int64; -1 without news."""
    step_temperature: np.ndarray
    """Temperature in that step [°C], float32."""


@dataclass(frozen=True, eq=False)
class ImplicitProgram:
    """Efforts that an engine's integrator solves for, as lines through what the chains give."""

    columns: np.ndarray
    """Which of the D DOFs, shape (d,)."""
    now: Sequence[np.ndarray]
    """Effort, slopes and bounds where a step begins, each float32 of shape (n, D). See `Tangent`."""
    at_end: Sequence[np.ndarray]
    """Effort, slopes and bounds where a step ends."""
    calls: Sequence[RobotCall]
    """Kernels that fill ``at_end``."""
    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class MotorProgram:
    """Actuators of n robots with D DOFs each as compiled code steps them, in place.

    They read positions, velocities and targets of the simulation's arrays, and write efforts.
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
    """Which of the D DOFs get their effort as it is, shape (d,)."""
    seen: np.ndarray
    """Gets the velocities that the actuators saw last [rad/s or m/s], float32, flat as velocities."""
    implicit: ImplicitProgram | None = None
    properties: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Properties of DOFs that change at each step, by name: float32 of shape (n, D), and for which of the D."""
    loads: np.ndarray | None = None
    """Gets external loads of the last step [N·m or N], float32, flat as velocities."""
    draws: Sequence[Draws] = ()
    trips: Trips | None = None
    keep: Any = None
    """Objects that own the memory at the addresses."""


@dataclass(frozen=True, eq=False)
class MotorKernels:
    """A step of actuators as kernels alone, which a graph can hold: ``compute``, then ``push``."""

    compute: Callable[[], None]
    """Computes efforts from positions, velocities and targets."""
    push: Callable[[], None]
    """Hands them to the engine."""
    checked: wp.array
    """Efforts that must be finite to be handed over [N·m or N], shape (n, D)."""
    trips: Trips | None
    """Motors that were switched off, to be filled in at each step."""


class Motor(Protocol):
    """Actuators on robots, which a simulation steps before each step of physics."""

    @property
    def is_stepped(self) -> bool:
        """Whether they are stepped with physics, and not by hand."""

    def program(self, dt: float) -> MotorProgram | None:
        """Return what compiled code steps at steps of ``dt`` [s]: the same object as long as nothing changes.

        None where the actuators have kernels of their own.
        """

    def step_in_python(self, dt: float) -> None:
        """Step them, and hand their efforts to the engine."""

    def prepare(self) -> None:
        """Take over what was changed since the last step: first part of `step_in_python`."""

    def compute(self, dt: float) -> None:
        """Compute the efforts of a step of ``dt`` [s], by kernels alone: its second part."""

    def hand_over(self, dt: float) -> None:
        """Check the efforts, and hand them to the engine: its last part."""

    def capture_key(self, dt: float) -> object:
        """Return what `compute` depends on besides the values of arrays: a graph serves as long as this is equal."""

    @property
    def is_graphable(self) -> bool:
        """Whether `compute` can be captured in a graph, and nothing is lost by it."""

    def kernels(self, dt: float) -> MotorKernels | None:
        """Return steps of ``dt`` [s] as kernels: the same object as long as a graph of them serves.

        Takes over what was changed since the last step. None if a step needs more than kernels, or loses by being
        captured.
        """

    def check(self) -> None:
        """Raise an error if an effort is not finite."""

    def has_run(self, time: float) -> None:
        """Show what a program, or kernels, did in a run that began at ``time`` [s]."""

    def not_finite(self, robot: int, column: int) -> str:
        """Say which effort is not finite."""

    def ends_step_at(self, time: float) -> bool:
        """Whether they were stepped by hand for the step that begins at ``time`` [s]."""

    def description(self) -> Mapping[str, str]:
        """Return what must be the same for what was saved to fit: robots, joints and chains, as texts by label."""

    def saved(self) -> Mapping[str, np.ndarray]:
        """Return everything that their next steps depend on, for a file: arrays by name."""

    def checked(self, where: str, contents: Mapping[str, np.ndarray], version: int) -> Callable[[], None]:
        """Refuse what does not fit. Returns what takes the rest over.

        Args:
            where: What to call its origin in an error.
            contents: What `saved` gave.
            version: Version of the file. See `actuator.state`.
        """
