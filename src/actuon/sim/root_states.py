# SPDX-License-Identifier: Apache-2.0
"""Where the roots of robots are, how fast they move, and what pushes them."""

from __future__ import annotations

import numpy as np
import warp as wp

from ..errors import SimulationError
from ..typing import ArrayLike, IdsLike
from .selection import Selection


class RootStates(Selection):
    """The part of an articulation that knows root bodies."""

    def get_root_poses(self, indices: IdsLike = None) -> wp.array:
        """Position [m] and orientation (quaternion x, y, z, w) of root bodies in the world, shape (n, 7)."""
        return self._copied(self.simulation.root_poses(self._rows(indices)))

    def set_root_poses(self, poses: ArrayLike, indices: IdsLike = None) -> None:
        """Move robots with a free base, to poses as above."""
        robots = self._rows_to_write(indices)
        numbers = self.numbers("poses", poses, (len(robots), 7))
        if not np.linalg.norm(numbers[:, 3:], axis=1).all():
            raise SimulationError("poses: got a quaternion of length 0")
        if numbers.size:
            self.simulation.set_root_poses(self.robot_ids[robots], numbers)

    def get_root_velocities(self, indices: IdsLike = None) -> wp.array:
        """Linear [m/s] and angular velocity [rad/s] of root bodies in the world, of their origin, shape (n, 6)."""
        return self._copied(self.simulation.root_velocities(self._rows(indices)))

    def set_root_velocities(self, velocities: ArrayLike, indices: IdsLike = None) -> None:
        """Give robots with a free base velocities as above."""
        robots = self._rows_to_write(indices)
        numbers = self.numbers("velocities", velocities, (len(robots), 6))
        if numbers.size:
            self.simulation.set_root_velocities(self.robot_ids[robots], numbers)

    def get_world_poses(self, indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Positions [m], shape (n, 3), and orientations (w, x, y, z), shape (n, 4), of root bodies, as in Isaac Sim."""
        poses = self.simulation.root_poses(self._rows(indices))
        return self._array(poses[:, :3].copy()), self._array(poses[:, [6, 3, 4, 5]])

    def set_world_poses(
        self,
        positions: ArrayLike | None = None,
        orientations: ArrayLike | None = None,
        indices: IdsLike = None,
    ) -> None:
        """Move robots with a free base. None keeps what it is."""
        robots = self._rows_to_write(indices)
        poses = self.simulation.root_poses(self.robot_ids[robots])
        if positions is not None:
            poses[:, :3] = self.numbers("positions", positions, (len(robots), 3))
        if orientations is not None:
            poses[:, [6, 3, 4, 5]] = self.numbers("orientations", orientations, (len(robots), 4))
        self.set_root_poses(poses, robots)

    def get_velocities(self, indices: IdsLike = None) -> tuple[wp.array, wp.array]:
        """Linear [m/s] and angular velocities [rad/s] of root bodies in the world, each of shape (n, 3)."""
        velocities = self.simulation.root_velocities(self._rows(indices))
        return self._array(velocities[:, :3].copy()), self._array(velocities[:, 3:].copy())

    def set_velocities(
        self,
        linear_velocities: ArrayLike | None = None,
        angular_velocities: ArrayLike | None = None,
        indices: IdsLike = None,
    ) -> None:
        """Give robots with a free base velocities. None keeps what it is."""
        robots = self._rows_to_write(indices)
        velocities = self.simulation.root_velocities(self.robot_ids[robots])
        if linear_velocities is not None:
            velocities[:, :3] = self.numbers("linear_velocities", linear_velocities, (len(robots), 3))
        if angular_velocities is not None:
            velocities[:, 3:] = self.numbers("angular_velocities", angular_velocities, (len(robots), 3))
        self.set_root_velocities(velocities, robots)

    def push(self, forces: ArrayLike, indices: IdsLike = None) -> None:
        """Push root bodies with ``forces`` [N], in the world's frame, shape (3,) or (n, 3), until the next call."""
        robots = self._rows_to_write(indices)
        self.simulation.push(self.robot_ids[robots], self.numbers("forces", forces, (len(robots), 3)))
