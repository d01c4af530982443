# SPDX-License-Identifier: Apache-2.0
"""Protocol of a physics engine: five parts, and methods that step it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import warp as wp

from ..errors import SimulationError
from .divergence import StateWatch
from .motor import Motor
from .robots import DofSet, Robot
from .step_map import StepMaps

Undo: TypeAlias = Callable[[], object]
"""Function that restores changes in an engine."""

STATE = ("joint_q", "joint_qd")
"""Names of the arrays of joint states."""
TARGETS = {"joint_target_q": "position", "joint_target_qd": "velocity"}
"""Names of the arrays of targets, and their quantities."""
CONTROL = (*TARGETS, "joint_f")
"""Names of the arrays of targets and efforts."""


@dataclass(frozen=True)
class Property:
    """A property of joints in an engine."""

    unit: str
    """Unit for a revolute joint."""
    is_limit: bool = False
    """Whether a missing value is infinite; other properties are zero."""
    minimum: float = 0.0
    """Smallest allowed value."""


PROPERTIES = {
    "armature": Property("kg·m²"),
    "friction": Property("N·m"),
    "viscous_friction": Property("N·m·s/rad"),
    "quadratic_friction": Property("N·m·s²/rad²"),
    "cubic_friction": Property("N·m·s³/rad³"),
    "effort_limit": Property("N·m", is_limit=True),
    "velocity_limit": Property("rad/s", is_limit=True),
    "lower_limit": Property("rad", minimum=-math.inf),
    "upper_limit": Property("rad", minimum=-math.inf),
    "stiffness": Property("N·m/rad"),
    "damping": Property("N·m·s/rad"),
}
"""Properties of joints, by name. Stops are a pair, and so are gains of the engine's own drives.

The ``rows.py`` of an engine maps each of them to its model.
"""

CORRECTIONS = 6
"""Most repetitions of a step: a repetition may move efforts of other DOFs beyond their limits."""

TOLERANCE = 0.01
"""Largest excess of an effort at the end of a step, as a share of its largest limit."""

AGREED = 0.5
"""Largest difference between an effort that was clipped at the start of a step, or corrected, and that of the chain at
its end, as a share of the largest limit at the start. The derivative of a clipped effort is zero, and does not describe
the other side of the limit."""

NEAR = 0.5
"""Share of the limits at the start of a step above which they are checked at its end."""


class ImplicitRefusedError(SimulationError):
    """An engine cannot use the derivatives of efforts."""


class ImplicitEffort(NamedTuple):
    """Efforts at the present state, and their derivatives, each float32 of shape (n, D)."""

    effort: wp.array
    """[N·m or N]."""
    derivative_q: wp.array
    """Derivative by position [N·m/rad or N/m]."""
    derivative_qd: wp.array
    """Derivative by velocity [N·m·s/rad or N·s/m]."""
    lower: wp.array
    """Lowest effort within the limits [N·m or N]."""
    upper: wp.array
    """Highest effort within the limits [N·m or N]."""


class HeldImplicitEffort(NamedTuple):
    """Implicit efforts in an engine."""

    write: Callable[[], None] | None
    """Writes the present values to the engine. None if it runs programs, which do so."""
    applied: Callable[[], np.ndarray]
    """Efforts that the engine applied in its last step [N·m or N], shape (n, d); before the first, those passed."""
    release: Undo
    """Removes it from the engine."""


class EndOfStep(NamedTuple):
    """Efforts of a chain at the end of a step."""

    implicit: ImplicitEffort
    evaluate: Callable[[], bool]
    """Computes the efforts at the engine's present state; False if there is nothing to check."""


class EngineState(Protocol):
    """Positions, velocities, targets and efforts of joints."""

    @property
    def arrays(self) -> SimpleNamespace:
        """Flat Warp arrays by the names of `STATE` and `CONTROL`, as actuators read them."""

    def refresh(self) -> None:
        """Update ``arrays`` from the engine."""

    def write(self, kind: str, at: DofSet, values: np.ndarray) -> None:
        """Set values of `STATE` or `CONTROL` in the engine, float32 of shape (n, d)."""

    def effort_writer(self, at: DofSet, efforts: wp.array) -> Callable[[], None] | None:
        """Return a function that writes ``efforts``, float32 of shape (n, D), of these DOFs to the engine.

        None if it runs programs, which do so.
        """

    def load_reader(self, at: DofSet, loads: wp.array) -> Callable[[], None] | None:
        """Return a function that writes the external loads of these robots' joints in the last step to ``loads``.

        They are all efforts at a joint but those of its motor, its springs and its own dry friction [N·m or N]:
        gravity, motion of other joints, contacts. ``loads`` is float32, flat as the velocities. None if the engine does
        not report them.
        """

    def tendon_targets(self, at: DofSet) -> np.ndarray:
        """Return target lengths of tendons [m or rad], shape (n, T)."""

    def set_tendon_targets(self, at: DofSet, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Set target lengths of at least one tendon, shape (n, t)."""

    def loads(self) -> np.ndarray | None:
        """Return a copy of the external loads that `load_reader` writes next [N·m or N], shape (environments, DOFs).

        None if nobody reads them.
        """

    def set_loads(self, envs: np.ndarray, loads: np.ndarray) -> None:
        """Set the loads that `load_reader` writes until the next step, shape (n, DOFs), after the state was loaded."""

    def reset(self, envs: np.ndarray) -> None:
        """Return at least one environment, each given once, to its first state and targets."""

    def save(self) -> np.ndarray:
        """Return state, targets and efforts of all environments, shape (environments, ...)."""

    def load(self, envs: np.ndarray, state: np.ndarray) -> None:
        """Load a state of `save` into environments, shape (n, ...)."""


class EngineProperties(Protocol):
    """`PROPERTIES` of joints."""

    no_limit: float
    """Value of the engine for no limit of effort or speed."""

    @property
    def limits_version(self) -> int | None:
        """Number that changes with the effort limits. None: they change with the pose, so at each step."""

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, shape (n, d), including the inertia and friction of the engine's own actuators.

        None if the engine does not use it.
        """

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or a pair, for values of shape (n, d). The engine's own actuators then add nothing to it."""

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return a function that writes ``values``, float32 of shape (n, D), of these DOFs to the engine.

        For properties that change at each step: ``"friction"`` and ``"viscous_friction"``.
        """

    def contents(self) -> dict[str, np.ndarray]:
        """Return the arrays of the engine's model that may change, by name, not copied."""

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Raise an error for contents of a file that do not fit. Returns a function that loads them.

        Args:
            where: Name of the file in an error.
            found: Result of `contents`.
        """

    def keep(self, at: DofSet) -> Undo:
        """Return a function that restores the present properties of these DOFs, to the last bit."""

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Make dry friction of these DOFs as stiff as the engine can, so that it stops a joint within a step."""


class EngineDrives(Protocol):
    """The engine's own drives of joints."""

    @property
    def version(self) -> int:
        """Number that changes when a DOF gets or loses a drive."""

    def follows(self, kind: str, at: DofSet) -> np.ndarray | None:
        """Return whether the engine follows targets of a `TARGETS` kind, shape (d,). None: of all DOFs."""

    def silence(self, at: DofSet) -> Undo:
        """Disable the drives of these DOFs."""

    def are_silent(self, at: DofSet) -> np.ndarray:
        """Return whether no drive acts on a DOF, read back from the engine, shape (n, d)."""

    def describe(self, at: DofSet) -> str:
        """Describe the drive that still acts on a single DOF."""

    def add(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> Undo:
        """Add drives for these gains, each of shape (n, d), to DOFs without a suitable one.

        Raises:
            SimulationError: Options of the engine switch the drives off.
        """

    def effort_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray] | None:
        """Return lowest and highest effort [N·m or N] of the robot's original drives, each of shape (n, d).

        None if both bounds are the property ``"effort_limit"`` everywhere.
        """

    def effort_sources(self, at: DofSet) -> list[str]:
        """Return the source of each DOF's effort limit, "" for no limit; an empty list if unknown."""

    def joint_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray] | None:
        """Return lowest and highest effort [N·m or N] that joints accept from all actuators, each of shape (n, d).

        The engine clips its own drives to this range, but not external efforts. Gravity compensation within the limit
        is subtracted, at the present state. None without such limits.
        """

    def lift_limits(self, at: DofSet) -> Undo:
        """Stop the engine from clipping a part of a joint's effort when actuators limit the sum."""


class EngineBodies(Protocol):
    """Root bodies and links. Of a `DofSet`, the robots count."""

    def poses(self, at: DofSet) -> np.ndarray:
        """Return position [m] and orientation (quaternion x, y, z, w) of roots in the world, shape (n, 7)."""

    def set_poses(self, at: DofSet, poses: np.ndarray) -> None:
        """Move robots with a free base."""

    def velocities(self, at: DofSet) -> np.ndarray:
        """Return linear [m/s] and angular velocity [rad/s] in the world, of the origin of roots, shape (n, 6)."""

    def set_velocities(self, at: DofSet, velocities: np.ndarray) -> None:
        """Set velocities of robots with a free base."""

    def push(self, at: DofSet, forces: np.ndarray) -> None:
        """Push at the centre of mass of roots with ``forces`` [N] of shape (n, 3), until the next call."""

    def masses(self, at: DofSet) -> np.ndarray:
        """Return masses of links [kg], shape (n, L)."""

    def set_masses(self, at: DofSet, links: np.ndarray, values: np.ndarray) -> None:
        """Set masses of some links, for values of shape (n, l). Inertias stay as they are."""


class EngineImplicitEfforts(Protocol):
    """Efforts with derivatives, which the engine integrates implicitly."""

    @property
    def integrator(self) -> str:
        """Integrator, such as ``"implicitfast"``; empty if unknown."""

    @property
    def integrator_changed(self) -> str:
        """Integrator of the file, if another one replaces it while implicit efforts are held; else empty."""

    def hold(
        self,
        at: DofSet,
        implicit: ImplicitEffort,
        ending: EndOfStep | None = None,
        usage: Callable[[], float] | None = None,
    ) -> HeldImplicitEffort:
        """Integrate efforts of these DOFs implicitly, until they are released.

        Derivatives above zero, which would amplify a motion, count as zero, and so does NaN.

        Args:
            at: The DOFs.
            implicit: Efforts and derivatives.
            ending: Enforces limits: if an effort exceeds its limits at the end of a step, the engine repeats the step
                with the derivatives at the bound.
            usage: Returns the stability usage of implicit efforts with the present integrator [1], for an engine that
                can choose one. Default: it chooses by the time step alone.

        Raises:
            ImplicitRefusedError: The engine cannot use derivatives.
        """


class Engine(Protocol):
    """A physics engine with all environments of a simulation."""

    time: float
    """Simulated time [s]."""
    steps_single_robots: bool
    """Whether the engine runs programs, which step actuators robot by robot in compiled code."""

    @property
    def num_envs(self) -> int:
        """Number of environments."""

    @property
    def device(self) -> wp.Device:
        """Device of the arrays."""

    @property
    def dt(self) -> float:
        """Time step [s]."""

    @property
    def robots(self) -> list[Robot]:
        """All robots, environment by environment."""

    @property
    def watch(self) -> StateWatch | None:
        """Detection of divergence; None if it would wait for a GPU."""

    @property
    def state(self) -> EngineState:
        """Positions, velocities, targets and efforts."""

    @property
    def properties(self) -> EngineProperties:
        """Properties of joints."""

    @property
    def drives(self) -> EngineDrives:
        """The engine's own drives."""

    @property
    def bodies(self) -> EngineBodies:
        """Root bodies and links."""

    @property
    def implicit_efforts(self) -> EngineImplicitEfforts:
        """Efforts with derivatives."""

    def step(self, steps: int, motors: Sequence[Motor]) -> int:
        """Step motors and physics, at least once and at most ``steps`` times, advance the time, and refresh.

        Returns:
            Number of steps taken.
        """

    def drive(self, motor: Motor, motors: Sequence[Motor], dt: float) -> None:
        """Step one of the motors, and write its efforts."""

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge."""

    def description(self) -> dict[str, str]:
        """Return texts by label that describe the engine and its model; they must match those of a file."""

    def check_options(self) -> None:
        """Raise an error for options that make the engine ignore written values."""

    def step_maps(self, robot: Robot, dt: float, viscous: np.ndarray | None = None) -> StepMaps:
        """Return linear maps of steps of ``dt`` [s] for small motions of a robot around poses, with the present
        properties and without derivatives of efforts.

        Args:
            robot: The robot.
            dt: Time step [s], independent of the simulation's.
            viscous: Viscous friction of its DOFs [N·m·s/rad or N·s/m], shape (D,); NaN for the present one. Default:
                NaN.
        """
