# SPDX-License-Identifier: Apache-2.0
"""What reaches the engine: finite efforts, within the limits that the robot's model puts on its joints."""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from ..errors import SimulationError
from ..sim import Articulation


class Bounded:
    """The part of an attachment that keeps efforts to what the engine may get."""

    articulation: Articulation
    """The robots."""
    _effort: wp.array
    """What the engine gets from here [N·m or N], shape (N, D)."""
    _applied: wp.array
    """What the joints got [N·m or N], shape (N, D): from here, or from the engine's own drive."""
    _to_check: np.ndarray | None
    """What must be finite, shape (N·D,); None for an engine on a GPU, which is not waited for."""
    _to_bound: list[np.ndarray]
    """Efforts of shape (N, D) on the CPU, that are kept to the bounds in place."""
    _bounds: tuple[np.ndarray, np.ndarray] | None
    """What `_effort_bounds` gave."""
    _bounds_version: int
    """The version of the engine's limits at that time."""

    def _begin_bounds(self) -> None:
        """To be called when the arrays are there."""
        self._to_check = self._applied.numpy().ravel() if self._applied.device.is_cpu else None
        self._to_bound = [self._effort.numpy()]
        if self._applied is not self._effort:
            self._to_bound.append(self._applied.numpy())
        self._bounds = self._effort_bounds()
        self._bounds_version = self.articulation.simulation.limits_version

    def _effort_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that the engine gets from here, each of shape (N, D). None: any.

        What the engine clips of its own drives at a joint, it does not clip of efforts from outside.
        """
        found = self.articulation.simulation.joint_effort_range(self.articulation.robot_ids)
        if found is None or not np.isfinite(found).any():
            return None
        lower, upper = (np.ascontiguousarray(values, np.float32) for values in found)
        return lower, upper

    def _renew_bounds(self) -> None:
        """Read the engine's limits again where they were changed."""
        version = self.articulation.simulation.limits_version
        if version != self._bounds_version:
            self._bounds, self._bounds_version = self._effort_bounds(), version

    def _keep_to_bounds(self) -> None:
        self._renew_bounds()
        if self._bounds is not None:
            for numbers in self._to_bound:
                np.clip(numbers, *self._bounds, out=numbers)

    def _check_finite(self, efforts: np.ndarray) -> None:
        """Hand no effort to the engine that is NaN or infinite, as a target or parameter of NaN makes it.

        Args:
            efforts: [N·m or N], shape (N·D,).
        """
        # A sum of squares is one call in place of two.
        if efforts.dot(efforts) < math.inf or np.isfinite(efforts).all():
            return
        robots = self.articulation
        robot, dof = divmod(int(np.flatnonzero(~np.isfinite(efforts))[0]), robots.num_dofs)
        raise SimulationError(
            f"t = {robots.simulation.time:.6g} s: the effort of joint '{robots.dof_names[dof]}' of "
            f"'{robots.paths[robot]}' is {efforts[robot * robots.num_dofs + dof]}; check its target and parameters"
        )
