# SPDX-License-Identifier: Apache-2.0
"""What a simulation says of root bodies and links, as an engine holds them."""

from __future__ import annotations

import abc

import numpy as np


class EngineBodies(abc.ABC):
    """The part of a simulation that is about bodies. ``robots`` are indices into its robots, shape (n,)."""

    @abc.abstractmethod
    def root_poses(self, robots: np.ndarray) -> np.ndarray:
        """Position [m] and orientation (quaternion x, y, z, w) of root bodies in the world, shape (n, 7)."""

    @abc.abstractmethod
    def set_root_poses(self, robots: np.ndarray, poses: np.ndarray) -> None:
        """Move robots with a free base, to poses of shape (n, 7)."""

    @abc.abstractmethod
    def root_velocities(self, robots: np.ndarray) -> np.ndarray:
        """Linear [m/s] and angular velocity [rad/s] in the world, of the origin of root bodies, shape (n, 6)."""

    @abc.abstractmethod
    def set_root_velocities(self, robots: np.ndarray, velocities: np.ndarray) -> None:
        """Give robots with a free base a velocity, of shape (n, 6)."""

    @abc.abstractmethod
    def push(self, robots: np.ndarray, forces: np.ndarray) -> None:
        """Push at the centre of mass of root bodies with ``forces`` [N] of shape (n, 3), until told otherwise."""

    @abc.abstractmethod
    def link_names(self, robot: int) -> list[str]:
        """Names of the links of a robot, the root first, L of them."""

    @abc.abstractmethod
    def link_masses(self, robots: np.ndarray) -> np.ndarray:
        """Masses of links [kg], shape (n, L)."""

    @abc.abstractmethod
    def set_link_masses(self, robots: np.ndarray, links: np.ndarray, values: np.ndarray) -> None:
        """Set them, for values of shape (n, l). Inertias stay as they are."""
