# SPDX-License-Identifier: Apache-2.0
"""Poses and velocities of root bodies, and the coordinates of the free joints that hold them.

A body stands at ``parent anchor · joint · inverse(child anchor)``. Newton's velocities are those of a body's centre of
mass; here, of its origin.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class FreeRoots:
    """Free joints of robots, one for each environment and robot.

    Args:
        model: A ``newton.Model``.
        joints: The joints, shape (n,).
    """

    def __init__(self, model: Any, joints: np.ndarray):
        self._to_parent = model.joint_X_p.numpy()[joints]
        self._to_child = model.joint_X_c.numpy()[joints]
        self.coordinates = model.joint_q_start.numpy()[joints][:, None] + np.arange(7)
        """Indices into ``joint_q``, shape (n, 7)."""
        self.dofs = model.joint_qd_start.numpy()[joints][:, None] + np.arange(6)
        """Indices into ``joint_qd``, shape (n, 6)."""

    def joint_positions(self, poses: np.ndarray) -> np.ndarray:
        """Coordinates of the joints at which their bodies stand at ``poses``, each of shape (n, 7)."""
        return multiply(multiply(inverse(self._to_parent), poses), self._to_child)

    def joint_velocities(self, velocities: np.ndarray) -> np.ndarray:
        """Velocities of the joints for ``velocities`` of their bodies' centres of mass, each of shape (n, 6)."""
        back = conjugate(self._to_parent[:, 3:])
        return np.concatenate([rotate(back, velocities[:, :3]), rotate(back, velocities[:, 3:])], axis=1)


def shift(velocities: np.ndarray, poses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Velocities (linear, angular) of points that lie at ``offsets`` [m] from where they are known, shape (n, 6).

    Args:
        velocities: [m/s] and [rad/s] in the world, shape (n, 6).
        poses: Of the bodies, shape (n, 7).
        offsets: In the bodies' frames, shape (n, 3).
    """
    linear, angular = velocities[:, :3], velocities[:, 3:]
    return np.concatenate([linear + np.cross(angular, rotate(poses[:, 3:], offsets)), angular], axis=1)


def multiply(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """``first · then`` of poses, shape (n, 7)."""
    turned = _quaternion_product(first[:, 3:], then[:, 3:])
    return np.concatenate([first[:, :3] + rotate(first[:, 3:], then[:, :3]), turned], axis=1)


def inverse(poses: np.ndarray) -> np.ndarray:
    """Inverses of poses, shape (n, 7)."""
    back = conjugate(poses[:, 3:])
    return np.concatenate([-rotate(back, poses[:, :3]), back], axis=1)


def conjugate(quaternions: np.ndarray) -> np.ndarray:
    """Inverses of unit quaternions x, y, z, w, shape (n, 4)."""
    return quaternions * np.array([-1.0, -1.0, -1.0, 1.0], quaternions.dtype)


def rotate(quaternions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors turned by unit quaternions x, y, z, w, shape (n, 3)."""
    axis, w = quaternions[:, :3], quaternions[:, 3:]
    twice = 2.0 * np.cross(axis, vectors)
    return vectors + w * twice + np.cross(axis, twice)


def _quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scalar = a[:, 3:] * b[:, 3:] - (a[:, :3] * b[:, :3]).sum(axis=1, keepdims=True)
    vector = a[:, 3:] * b[:, :3] + b[:, 3:] * a[:, :3] + np.cross(a[:, :3], b[:, :3])
    return np.concatenate([vector, scalar], axis=1)
