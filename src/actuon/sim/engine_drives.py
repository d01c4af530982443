# SPDX-License-Identifier: Apache-2.0
"""What only some engines have of drives and friction: bounds that differ by direction, tendons, drives that can be
added, loads that are told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import warp as wp

from ..errors import SimulationError


class EngineDrives:
    """The part of a simulation that an engine overrides where it has more than one drive and one limit per joint."""

    limits_version: int = 0
    """Another number whenever limits of efforts have changed."""

    def tendon_targets(self, robots: np.ndarray) -> np.ndarray:
        """Lengths that drives of tendons are to hold [m or rad], shape (n, T)."""
        return np.zeros((len(robots), 0), np.float32)

    def set_tendon_targets(self, robots: np.ndarray, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Set them, for lengths of shape (n, t), of which there is at least one."""
        raise SimulationError(f"{type(self).__name__} has no drives of tendons")

    def joint_effort_range(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that joints take from any actuator, each of shape (n, D). The engine
        clips its own drives to it, and not efforts from outside. None where it holds no such limits."""
        return None

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
        """
        return lambda: None

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

    def what_drives(self, robot: int, dof: int) -> str:
        """What of the engine still drives a DOF of a robot that should be silent."""
        return "two would pull at one joint"

    def effort_sources(self, robot: int) -> list[str]:
        """Where the limit of each DOF's effort comes from, "" where the engine does not say, D of them."""
        return []
