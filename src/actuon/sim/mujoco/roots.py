# SPDX-License-Identifier: Apache-2.0
"""Where the roots of robots are and how fast they move, out of the state of all environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .batch import Batch
from .fields import ModelFields

_XYZW = np.array([0, 1, 2, 4, 5, 6, 3])
"""From MuJoCo's order of a pose, w first, to ours, w last."""
_WXYZ = np.array([0, 1, 2, 6, 3, 4, 5])
"""And back."""


class Roots:
    """Poses and velocities of root bodies.

    The root of a free robot is its free joint: no kinematics is computed for it.
    """

    def __init__(self, mujoco: Any, fields: ModelFields, batch: Batch):
        self._mujoco, self._fields, self._batch = mujoco, fields, batch
        model = fields.model
        free = np.flatnonzero(model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE))
        self._free = {int(model.jnt_bodyid[j]): (int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])) for j in free}
        """Where position and velocity of free joints begin, by their body."""

    def poses(self, root: int, envs: Any) -> np.ndarray:
        """Position [m] and orientation (x, y, z, w) in the world of environments, a slice or indices, shape (n, 7)."""
        if root in self._free:
            at, _ = self._free[root]
            return self._batch.block("qpos")[envs, at : at + 7].take(_XYZW, axis=1)
        poses = np.empty((self._batch.num_envs, 7))
        for env in self._batch.numbers(envs):
            model, data = self._batch.borrow(env)
            self._mujoco.mj_kinematics(model, data)  # which a step leaves at the state before it
            poses[env] = np.concatenate([data.xpos[root], data.xquat[root]])[_XYZW]
        return poses[envs]

    def velocities(self, root: int, envs: Any) -> np.ndarray:
        """Linear [m/s] and angular velocity [rad/s] in the world, of the origin of the root body, shape (n, 6)."""
        if root in self._free:
            _, at = self._free[root]
            velocities = self._batch.block("qvel")[envs, at : at + 6].copy()
            velocities[:, 3:] = _rotated(self.poses(root, envs)[:, 3:], velocities[:, 3:])
            return velocities
        mujoco, velocities = self._mujoco, np.empty((self._batch.num_envs, 6))
        for env in self._batch.numbers(envs):
            model, data = self._batch.borrow(env)
            for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel):
                compute(model, data)
            found = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, int(mujoco.mjtObj.mjOBJ_XBODY), root, found, 0)
            velocities[env] = *found[3:], *found[:3]
        return velocities[envs]

    def set_poses(self, root: int, envs: Any, poses: np.ndarray) -> None:
        """Move free roots. Quaternions are made of length one."""
        at, _ = self._free[root]
        values = poses.astype(np.float64).take(_WXYZ, axis=1)
        values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=1, keepdims=True)
        self._batch.put("qpos", envs, slice(at, at + 7), values)

    def set_velocities(self, root: int, envs: Any, velocities: np.ndarray) -> None:
        """Give free roots a velocity."""
        _, at = self._free[root]
        local = velocities.astype(np.float64)
        turned_back = self.poses(root, envs)[:, 3:] * (-1, -1, -1, 1)
        local[:, 3:] = _rotated(turned_back, local[:, 3:])
        self._batch.put("qvel", envs, slice(at, at + 6), local)


def _rotated(quaternions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors of shape (n, 3), turned by quaternions (x, y, z, w) of shape (n, 4)."""
    axis, w = quaternions[:, :3], quaternions[:, 3:]
    twice = 2.0 * np.cross(axis, vectors)
    return vectors + w * twice + np.cross(axis, twice)
