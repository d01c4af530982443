# SPDX-License-Identifier: Apache-2.0
"""Roots and links of robots in Newton, and the coordinates of their free joints.

The pose of a body is ``parent anchor · joint · inverse(child anchor)``. Newton's velocities are those of a body's
centre of mass; here, of its origin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import SimulationError
from ..robots import DofSet
from .properties import write_model
from .reading import RobotFile
from .solvers import Physics
from .state import NewtonState


class NewtonBodies:
    """Root bodies and links.

    Args:
        physics: The solver.
        state: The state of all environments.
        file: The robots of an environment.
        num_envs: Number of environments.
    """

    def __init__(self, physics: Physics, state: NewtonState, file: RobotFile, num_envs: int):
        self._physics, self._model, self._state = physics, physics.model, state
        count = file.builder.joint_count
        self._bases = np.array([env * count + robot.base for env in range(num_envs) for robot in file.robots])
        """Joint of the root of each robot."""

    def poses(self, at: DofSet) -> np.ndarray:
        """Return position [m] and orientation (x, y, z, w) of roots in the world, shape (n, 7)."""
        return self._state.numbers("body_q")[_roots(at)]

    def velocities(self, at: DofSet) -> np.ndarray:
        """Return linear [m/s] and angular velocity [rad/s] in the world, of the origin of roots, shape (n, 6)."""
        bodies = _roots(at)
        centres = self._model.body_com.numpy()[bodies]
        return shift(self._state.numbers("body_qd")[bodies], self._state.numbers("body_q")[bodies], -centres)

    def set_poses(self, at: DofSet, poses: np.ndarray) -> None:
        """Move roots. Their velocities stay.

        Raises:
            SimulationError: A base is fixed, or an orientation has length zero.
        """
        lengths = np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
        if not (lengths > 0.0).all():
            raise SimulationError("poses: got an orientation of length zero; must be a quaternion x, y, z, w")
        velocities = self.velocities(at)
        roots = self._free_roots(at)
        unit = np.concatenate([poses[:, :3], poses[:, 3:] / lengths], axis=1)
        self._state.write_flat("joint_q", roots.coordinates, roots.joint_positions(unit))
        self.set_velocities(at, velocities)

    def set_velocities(self, at: DofSet, velocities: np.ndarray) -> None:
        """Set velocities of roots.

        Raises:
            SimulationError: A base is fixed.
        """
        roots = self._free_roots(at)
        at_centre = shift(velocities, self.poses(at), self._model.body_com.numpy()[_roots(at)])
        self._state.write_flat("joint_qd", roots.dofs, roots.joint_velocities(at_centre))

    def _free_roots(self, at: DofSet) -> FreeRoots:
        for robot in at.robots:
            if robot.is_fixed_base:
                raise SimulationError(f"'{robot.path}' has a fixed base: its root cannot be moved")
        return FreeRoots(self._model, self._bases[at.ids])

    def push(self, at: DofSet, forces: np.ndarray) -> None:
        """Push at the centre of mass of roots with ``forces`` [N] of shape (n, 3), until the next call."""
        self._state.push(_roots(at), forces)

    def masses(self, at: DofSet) -> np.ndarray:
        """Return masses of links [kg], shape (n, L)."""
        return np.asarray(self._model.body_mass.numpy()[_links(at)])

    def set_masses(self, at: DofSet, links: np.ndarray, values: np.ndarray) -> None:
        """Set masses [kg] of some links, for values > 0 of shape (n, l). Inertias stay as they are."""
        if not (np.asarray(values) > 0.0).all():
            raise SimulationError(f"masses: got {np.min(values):.6g}; must be > 0 [kg]")
        bodies = _links(at)[:, links]
        write_model(self._model, "body_mass", bodies, values)
        write_model(self._model, "body_inv_mass", bodies, 1.0 / np.asarray(values))
        self._physics.solver.notify_model_changed(self._physics.newton.ModelFlags.BODY_INERTIAL_PROPERTIES)


def _roots(at: DofSet) -> np.ndarray:
    """Return the root body of each robot, shape (n,)."""
    return np.array([robot.root_body for robot in at.robots], dtype=np.int64)


def _links(at: DofSet) -> np.ndarray:
    """Return the bodies of each robot, shape (n, L)."""
    return np.stack([robot.env * robot.kind.num_bodies + robot.kind.links for robot in at.robots])


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
        """Return coordinates of the joints for ``poses`` of their bodies, each of shape (n, 7)."""
        return multiply(multiply(inverse(self._to_parent), poses), self._to_child)

    def joint_velocities(self, velocities: np.ndarray) -> np.ndarray:
        """Return velocities of the joints for ``velocities`` of their bodies' centres of mass, each of shape (n, 6)."""
        back = conjugate(self._to_parent[:, 3:])
        return np.concatenate([rotate(back, velocities[:, :3]), rotate(back, velocities[:, 3:])], axis=1)


def shift(velocities: np.ndarray, poses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return velocities (linear, angular) of points at ``offsets`` from points with known ones, shape (n, 6).

    Args:
        velocities: Known velocities [m/s, rad/s] in the world, shape (n, 6).
        poses: Poses of the bodies, shape (n, 7).
        offsets: Offsets in the bodies' frames [m], shape (n, 3).
    """
    linear, angular = velocities[:, :3], velocities[:, 3:]
    return np.concatenate([linear + np.cross(angular, rotate(poses[:, 3:], offsets)), angular], axis=1)


def multiply(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """Return ``first · then`` of poses, shape (n, 7)."""
    turned = _quaternion_product(first[:, 3:], then[:, 3:])
    return np.concatenate([first[:, :3] + rotate(first[:, 3:], then[:, :3]), turned], axis=1)


def inverse(poses: np.ndarray) -> np.ndarray:
    """Return inverses of poses, shape (n, 7)."""
    back = conjugate(poses[:, 3:])
    return np.concatenate([-rotate(back, poses[:, :3]), back], axis=1)


def conjugate(quaternions: np.ndarray) -> np.ndarray:
    """Return inverses of unit quaternions x, y, z, w, shape (n, 4)."""
    return quaternions * np.array([-1.0, -1.0, -1.0, 1.0], quaternions.dtype)


def rotate(quaternions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return vectors rotated by unit quaternions x, y, z, w, shape (n, 3)."""
    axis, w = quaternions[:, :3], quaternions[:, 3:]
    twice = 2.0 * np.cross(axis, vectors)
    return vectors + w * twice + np.cross(axis, twice)


def _quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scalar = a[:, 3:] * b[:, 3:] - (a[:, :3] * b[:, :3]).sum(axis=1, keepdims=True)
    vector = a[:, 3:] * b[:, :3] + b[:, 3:] * a[:, :3] + np.cross(a[:, :3], b[:, :3])
    return np.concatenate([vector, scalar], axis=1)
