# SPDX-License-Identifier: Apache-2.0
"""Protocol of a physics engine: five parts, and the methods that step them."""

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
"""Restores what was changed in an engine."""

STATE = ("joint_q", "joint_qd")
"""Arrays of a simulation that hold the state of joints."""
TARGETS = {"joint_target_q": "position", "joint_target_qd": "velocity"}
"""Arrays that hold targets, and what they are targets of."""
CONTROL = (*TARGETS, "joint_f")
"""Arrays that hold what moves joints."""


@dataclass(frozen=True)
class Property:
    """A property of joints that engines hold."""

    unit: str
    """For a revolute joint."""
    is_limit: bool = False
    """Whether it is infinite where an engine has none; others are zero."""
    minimum: float = 0.0
    """Smallest value that is allowed."""


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
"""Properties of joints, by name. Stops come in a pair, and so do gains of the engine's own drives.

How an engine holds them is in its ``rows.py``, with a row for each.
"""

CORRECTIONS = 6
"""How often a step is taken again at most: efforts of other DOFs may end beyond their limits then."""

TOLERANCE = 0.01
"""How far beyond what limits allow an effort may end, as a share of the most that they allow."""

AGREED = 0.5
"""How far an effort that was clipped where a step begins, or corrected, may be from that of the chain where it ends, as
a share of the most that limits allow where it begins. A slope there is zero, and says nothing of the other side
of the limit."""

NEAR = 0.5
"""Share of what limits allow where a step begins from which on they are looked at where it ends."""


class SlopesRefusedError(SimulationError):
    """An engine does not take in slopes of efforts."""


class Tangent(NamedTuple):
    """Efforts at the present state, and how they change with it, each float32 of shape (n, D)."""

    effort: wp.array
    """[N·m or N]."""
    slope_q: wp.array
    """By position [N·m/rad or N/m]."""
    slope_qd: wp.array
    """By velocity [N·m·s/rad or N·s/m]."""
    lower: wp.array
    """Lowest effort that limits allow [N·m or N]."""
    upper: wp.array
    """Highest one."""


class HeldTangent(NamedTuple):
    """A tangent that an engine holds."""

    write: Callable[[], None]
    """Hands it over, as it is now."""
    applied: Callable[[], np.ndarray]
    """Efforts that the engine applied in its last step [N·m or N], shape (n, d); before it, those of the tangent."""
    release: Undo
    """Lets go of it."""


class EndOfStep(NamedTuple):
    """Efforts of a chain at the end of a step."""

    tangent: Tangent
    evaluate: Callable[[], bool]
    """Fills it, at the state of the engine as it is now; False where there is nothing to look at."""


class EngineState(Protocol):
    """Positions, velocities, targets and efforts of joints."""

    @property
    def arrays(self) -> SimpleNamespace:
        """All of them as actuators read them, flat Warp arrays by the names of `STATE` and `CONTROL`."""

    def refresh(self) -> None:
        """Bring ``arrays`` up to date with the engine."""

    def write(self, kind: str, at: DofSet, values: np.ndarray) -> None:
        """Set values of `STATE` or `CONTROL` in the engine, float32 of shape (n, d)."""

    def effort_writer(self, at: DofSet, efforts: wp.array) -> Callable[[], None]:
        """Return what hands ``efforts``, float32 of shape (n, D), to the engine at each call, for these DOFs only."""

    def load_reader(self, at: DofSet, loads: wp.array) -> Callable[[], None] | None:
        """Return what writes the external loads of these robots' joints in the last step to ``loads``, at each call.

        That is all that pushed on a joint but its motor, springs and its own dry friction [N·m or N]: gravity, motion
        of other joints, contacts. ``loads`` is float32, flat as the velocities. None where the engine does not tell.
        """

    def tendon_targets(self, at: DofSet) -> np.ndarray:
        """Return lengths that drives of tendons are to hold [m or rad], shape (n, T)."""

    def set_tendon_targets(self, at: DofSet, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Set these, for lengths of shape (n, t), of which there is at least one."""

    def loads(self) -> np.ndarray | None:
        """Return external loads that `load_reader` tells next [N·m or N], copied, shape (environments, DOFs).

        None where nobody reads them.
        """

    def set_loads(self, envs: np.ndarray, loads: np.ndarray) -> None:
        """Let `load_reader` tell such loads, of shape (n, DOFs), until the next step. The state is loaded before."""

    def reset(self, envs: np.ndarray) -> None:
        """Bring environments back to their first state and targets. There is at least one, each named once."""

    def save(self) -> np.ndarray:
        """Return state, targets and efforts of all environments, shape (environments, ...)."""

    def load(self, envs: np.ndarray, state: np.ndarray) -> None:
        """Put environments into such a state, of shape (n, ...)."""


class EngineProperties(Protocol):
    """`PROPERTIES` of joints."""

    no_limit: float
    """How the engine says that a joint has no limit of effort or speed."""

    @property
    def limits_version(self) -> int:
        """Another number whenever limits of efforts have changed."""

    def get(self, name: str, at: DofSet) -> np.ndarray | None:
        """Return a property, shape (n, d), with what the engine's own actuators add to inertia and friction.

        None where the engine makes no use of it.
        """

    def set(self, at: DofSet, **values: np.ndarray) -> None:
        """Set a property, or a pair, for values of shape (n, d). The engine's own actuators then add nothing to it."""

    def writer(self, name: str, at: DofSet, values: wp.array) -> Callable[[], None]:
        """Return what hands ``values``, float32 of shape (n, D), to the engine at each call, for these DOFs only.

        For properties that change at every step: ``"friction"`` and ``"viscous_friction"``.
        """

    def contents(self) -> dict[str, np.ndarray]:
        """Return what the engine's model holds and may be changed, by name, not copied."""

    def checked(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Refuse contents of a file that do not fit. Returns what takes them over.

        Args:
            where: What to call the file in an error.
            found: What `contents` gave.
        """

    def keep(self, at: DofSet) -> Undo:
        """Return what gives these DOFs their properties back as they are now, to the last bit."""

    def stiffen_friction(self, at: DofSet) -> Undo:
        """Let dry friction of these DOFs hold as firmly as the engine can, and stop a joint within a step."""


class EngineDrives(Protocol):
    """The engine's own drives of joints."""

    @property
    def version(self) -> int:
        """Another number whenever a DOF has got or lost a drive."""

    def follows(self, kind: str, at: DofSet) -> np.ndarray | None:
        """Return whether the engine itself follows targets of a `TARGETS` kind, shape (d,). None: of all."""

    def silence(self, at: DofSet) -> Undo:
        """Make the drives push no more on these DOFs."""

    def are_silent(self, at: DofSet) -> np.ndarray:
        """Return whether no drive pushes on a DOF, read back from the engine, shape (n, d)."""

    def describe(self, at: DofSet) -> str:
        """Return which drive still pushes on a single DOF."""

    def add(self, at: DofSet, stiffness: np.ndarray, damping: np.ndarray) -> Undo:
        """Give DOFs that are to have these gains, each of shape (n, d), a drive where the engine has none that can.

        Raises:
            SimulationError: Options of the engine switch the drives off.
        """

    def effort_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray] | None:
        """Return lowest and highest effort [N·m or N] of the drives that the robot came with, each of shape (n, d).

        None where both bounds are alike everywhere, and the property ``"effort_limit"``.
        """

    def effort_sources(self, at: DofSet) -> list[str]:
        """Return where the limit of each DOF's effort comes from, "" for no limit; none where it is not known."""

    def joint_range(self, at: DofSet) -> tuple[np.ndarray, np.ndarray] | None:
        """Return lowest and highest effort [N·m or N] that joints take from any actuator, each of shape (n, d).

        The engine clips its own drives to it, and not efforts from outside. Where it adds gravity compensation within
        the limit, it is what that leaves, in the present state. None where it holds no such limits.
        """

    def lift_limits(self, at: DofSet) -> Undo:
        """Let the engine not clip a part of the effort of joints alone, where actuators keep the sum to its limits."""


class EngineBodies(Protocol):
    """Root bodies and links. Of a `DofSet`, the robots count."""

    def poses(self, at: DofSet) -> np.ndarray:
        """Return position [m] and orientation (quaternion x, y, z, w) of roots in the world, shape (n, 7)."""

    def set_poses(self, at: DofSet, poses: np.ndarray) -> None:
        """Move robots with a free base."""

    def velocities(self, at: DofSet) -> np.ndarray:
        """Return linear [m/s] and angular velocity [rad/s] in the world, of the origin of roots, shape (n, 6)."""

    def set_velocities(self, at: DofSet, velocities: np.ndarray) -> None:
        """Give robots with a free base a velocity."""

    def push(self, at: DofSet, forces: np.ndarray) -> None:
        """Push at the centre of mass of roots with ``forces`` [N] of shape (n, 3), until the next call."""

    def masses(self, at: DofSet) -> np.ndarray:
        """Return masses of links [kg], shape (n, L)."""

    def set_masses(self, at: DofSet, links: np.ndarray, values: np.ndarray) -> None:
        """Set masses of some links, for values of shape (n, l). Inertias stay as they are."""


class EngineTangents(Protocol):
    """Efforts with slopes, which the engine takes into its own solve."""

    @property
    def integrator(self) -> str:
        """How the engine integrates, such as ``"implicitfast"``; empty where it does not say."""

    @property
    def integrator_changed(self) -> str:
        """The file's own integrator, where another one is used as long as tangents are held; else empty."""

    def hold(
        self, at: DofSet, tangent: Tangent, ending: EndOfStep | None = None, share: Callable[[], float] | None = None
    ) -> HeldTangent:
        """Take the slopes of efforts of these DOFs into the engine's solve, until the tangent is released.

        Slopes above zero, which would drive a motion on, count as zero, and so do those that are not a number.

        Args:
            at: The DOFs.
            tangent: What is handed over.
            ending: With it, limits bind: where an effort ends beyond what they allow at the state that the step
                ends in, the step is taken again with the tangent of the bound there.
            share: Returns which share of the stability limit the efforts use with slopes in the integrator that there
                is at the call: for an engine that can choose one. Default: it chooses by the time step alone.

        Raises:
            SlopesRefusedError: The engine takes in none.
        """


class Engine(Protocol):
    """A physics engine with all environments of a simulation."""

    time: float
    """Simulated time [s]."""
    steps_single_robots: bool
    """Whether it steps actuators robot by robot, in compiled code."""

    @property
    def num_envs(self) -> int:
        """Number of environments."""

    @property
    def device(self) -> wp.Device:
        """Where its arrays are."""

    @property
    def dt(self) -> float:
        """Time step [s]."""

    @property
    def robots(self) -> list[Robot]:
        """All robots, environment by environment."""

    @property
    def watch(self) -> StateWatch | None:
        """Check for states that diverged; None where it would wait for a GPU."""

    @property
    def state(self) -> EngineState:
        """Positions, velocities, targets and efforts."""

    @property
    def properties(self) -> EngineProperties:
        """Properties of joints."""

    @property
    def drives(self) -> EngineDrives:
        """Its own drives."""

    @property
    def bodies(self) -> EngineBodies:
        """Root bodies and links."""

    @property
    def tangents(self) -> EngineTangents:
        """Efforts with slopes."""

    def step(self, steps: int, motors: Sequence[Motor]) -> int:
        """Step motors and physics, at least once and at most so often, count the time, and refresh.

        Returns:
            How many steps were taken.
        """

    def drive(self, motor: Motor, motors: Sequence[Motor], dt: float) -> bool:
        """Step one of the motors at once, in compiled code. False where it has to be stepped from Python."""

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge."""

    def description(self) -> dict[str, str]:
        """Return what of the engine and its model must be the same for a file to fit: texts by label."""

    def check_options(self) -> None:
        """Refuse options with which the engine ignores what it was handed."""

    def step_maps(self, robot: Robot, dt: float, viscous: np.ndarray | None = None) -> StepMaps:
        """Return how steps of ``dt`` [s] answer to small motions of a robot, around poses and with properties as they
        are now, without slopes of efforts that the engine holds.

        Args:
            robot: The robot.
            dt: Time step [s], which need not be that of the simulation.
            viscous: Viscous friction of its DOFs [N·m·s/rad or N·s/m], shape (D,); NaN where it is as now. Default: all
                of it.
        """
