# SPDX-License-Identifier: Apache-2.0
"""What only some engines have of drives and friction: bounds that differ by direction, tendons, drives that can be
added, slopes of efforts, loads that are told; and how their steps answer to motions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import warp as wp

from ..errors import SimulationError
from .step_map import StepMaps


class SlopesRefusedError(SimulationError):
    """An engine does not take in slopes of efforts."""


CORRECTIONS = 6
"""How often a step is taken again at most: efforts of other DOFs may end beyond their limits then."""

TOLERANCE = 0.01
"""How far beyond what limits let through an effort may end, as a share of the most that they let through."""

AGREED = 0.5
"""How far an effort that was clipped where a step begins, or corrected, may be from that of the chain where it ends, as
a share of the most that limits let through where it begins. A slope there is zero, and says nothing of the other side
of the limit."""

NEAR = 0.5
"""Share of what limits let through where a step begins from which on they are looked at where it ends."""


class Tangent(NamedTuple):
    """Efforts at the present state, and how they change with it, each float32 of shape (n, D)."""

    effort: wp.array
    """[N·m or N]."""
    slope_q: wp.array
    """By position [N·m/rad or N/m]."""
    slope_qd: wp.array
    """By velocity [N·m·s/rad or N·s/m]."""
    lower: wp.array
    """Lowest effort that limits let through [N·m or N]."""
    upper: wp.array
    """Highest one."""


class HeldTangent(NamedTuple):
    """A tangent that an engine holds."""

    write: Callable[[], None]
    """Hands it over, as it is now."""
    applied: Callable[[], np.ndarray]
    """Efforts that the engine applied in its last step [N·m or N], shape (n, d); before it, those of the tangent."""
    release: Callable[[], None]
    """Ends that."""


class Ending(NamedTuple):
    """What a chain gives where a step ends."""

    tangent: Tangent
    evaluate: Callable[[], bool]
    """Fills it, at the state of the engine as it is now; False where there is nothing to look at."""


class EngineDrives:
    """The part of a simulation that an engine overrides where it has more than one drive and one limit per joint."""

    limits_version: int = 0
    """Another number whenever limits of efforts have changed."""

    def tendon_targets(self, robots: np.ndarray) -> np.ndarray:
        """Lengths that drives of tendons are to hold [m or rad], shape (n, T)."""
        return np.zeros((len(robots), 0), np.float32)

    def set_tendon_targets(self, robots: np.ndarray, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Set them, for lengths of shape (n, t), of which there is at least one."""
        raise SimulationError(f"{type(self).__name__} has no tendon drives")

    def joint_effort_range(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that joints take from any actuator, each of shape (n, D). The engine
        clips its own drives to it, and not efforts from outside. None where it holds no such limits.

        Where the engine adds gravity compensation within the limit, it is what that leaves, in the present state.
        """
        return None

    def lift_limits(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Let the engine not clip a part of the effort of joints alone, where actuators keep the sum to its limits.

        Returns:
            What makes it clip again.
        """
        return lambda: None

    def drive_effort_range(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] of the drives that the robot came with, each of shape (n, D). None where
        both bounds are alike everywhere, and ``dof_property("effort_limit")``."""
        return None

    def add_drives(
        self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
    ) -> Callable[[], None]:
        """Give DOFs that are to have these gains, each of shape (n, d), a drive where the engine has none that can.

        Returns:
            What takes them away.

        Raises:
            SimulationError: Options of the engine switch the drives off.
        """
        return lambda: None

    @property
    def integrator(self) -> str:
        """How the engine integrates, such as ``"implicitfast"``; empty where it does not say."""
        return ""

    @property
    def integrator_changed(self) -> str:
        """The file's own integrator, where another one is used as long as slopes are held; else empty."""
        return ""

    def hold_slopes(
        self, robots: np.ndarray, dofs: np.ndarray, share: Callable[[], float] | None = None
    ) -> Callable[[], None]:
        """Get ready to take the slopes of efforts of these DOFs into the engine's own solve.

        Args:
            robots: Which robots, indices into ``robots``, shape (n,).
            dofs: Which DOFs of each, shape (d,).
            share: Returns which share of the stability limit the efforts use with slopes in the integrator that there
                is at the call: for an engine that can choose one. Default: it chooses by the time step alone.

        Returns:
            What ends that, and gives back what was changed for it.

        Raises:
            SlopesRefusedError: The engine takes in none.
        """
        raise SlopesRefusedError(f"effort_mode: {type(self).__name__} takes in no slopes of efforts; use 'explicit'")

    def hold_tangent(
        self, robots: np.ndarray, dofs: np.ndarray, tangent: Tangent, ending: Ending | None = None
    ) -> HeldTangent:
        """Return what hands a tangent to the engine, for these DOFs only, whose slopes it holds.

        Slopes above zero, which would drive a motion on, count as zero, and so do those that are not a number.

        Args:
            robots: Which robots, indices into ``robots``, shape (n,).
            dofs: Which DOFs of each, shape (d,).
            tangent: What is handed over.
            ending: With it, limits bind: where an effort ends beyond what they let through at the state that the step
                ends in, the step is taken again with the tangent of the bound there.
        """
        raise NotImplementedError

    def sharpen_friction(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Let dry friction of these DOFs hold as firmly as the engine can, and stop a joint within a step.

        Returns:
            What makes it as soft again as it was.
        """
        return lambda: None

    def load_reader(self, robots: np.ndarray, loads: wp.array) -> Callable[[], None] | None:
        """Return what writes the external loads of these robots' joints in the last step to ``loads``, at each call.

        That is what pushed on a joint beside its motor, springs and its own dry friction [N·m or N]: gravity, motion of
        other joints, contacts. None where the engine does not tell.

        Args:
            robots: Which robots, indices into ``robots``, shape (n,).
            loads: float32, flat as the velocities.
        """
        return None

    def step_maps(self, robot: int, dt: float, viscous: np.ndarray | None = None) -> StepMaps:
        """How steps of ``dt`` [s] answer to small motions of a robot, around poses and with properties as they are now,
        without slopes of efforts that the engine holds.

        Args:
            robot: Index into ``robots``.
            dt: Time step [s], which need not be that of the simulation.
            viscous: Viscous friction of its DOFs [N·m·s/rad or N·s/m], shape (D,); NaN where it is as now. Default: all
                of it.
        """
        raise SimulationError(f"{type(self).__name__} does not say how its steps answer to motions")

    def what_drives(self, robot: int, dof: int) -> str:
        """What of the engine still drives a DOF of a robot that should be silent."""
        return "two drives would act on one joint"

    def effort_sources(self, robot: int) -> list[str]:
        """Where the limit of each DOF's effort comes from, "" where the engine does not say, D of them."""
        return []
