# SPDX-License-Identifier: Apache-2.0
"""Roots and links of robots in MuJoCo: poses, velocities, pushes and masses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np

from ...errors import SimulationError
from ..robots import DofSet, as_slice
from .added import MujocoModel
from .state import MujocoState

_XYZW = np.array([0, 1, 2, 4, 5, 6, 3])
"""From MuJoCo's order of a pose, w first, to ours, w last."""
_WXYZ = np.array([0, 1, 2, 6, 3, 4, 5])
"""And back."""
_INERTIALS = {"mass": "body_mass", "com": "body_ipos", "inertia": "body_inertia"}


class MujocoBodies:
    """Root bodies and links.

    The root of a free robot is its free joint: no kinematics is computed for it.

    Args:
        model: The model.
        state: The states of all environments.
    """

    def __init__(self, model: MujocoModel, state: MujocoState):
        self._fields, self._state, self._batch = model.fields, state, state.batch
        shared = self._fields.model
        free = np.flatnonzero(shared.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE))
        self._free = {int(shared.jnt_bodyid[j]): (int(shared.jnt_qposadr[j]), int(shared.jnt_dofadr[j])) for j in free}
        """Addresses of position and velocity of free joints, by body."""

    def poses(self, at: DofSet) -> np.ndarray:
        """Return position [m] and orientation (x, y, z, w) of roots in the world, float32 of shape (n, 7)."""
        return self._read(at, 7, self._poses)

    def velocities(self, at: DofSet) -> np.ndarray:
        """Return linear [m/s] and angular velocity [rad/s] in the world, of the origin of roots, shape (n, 6)."""
        return self._read(at, 6, self._velocities)

    def set_poses(self, at: DofSet, poses: np.ndarray) -> None:
        """Move robots with a free base. Quaternions are normalised."""
        self._set(at, poses, self._set_poses)

    def set_velocities(self, at: DofSet, velocities: np.ndarray) -> None:
        """Set velocities of robots with a free base."""
        self._set(at, velocities, self._set_velocities)

    def push(self, at: DofSet, forces: np.ndarray) -> None:
        """Push at the centre of mass of roots with ``forces`` [N] of shape (n, 3), until the next call."""
        for root, rows, envs in _by_root(at):
            self._batch.write("xfrc_applied", envs, slice(6 * root, 6 * root + 3), forces[rows])

    def masses(self, at: DofSet) -> np.ndarray:
        """Return masses of links [kg], float32 of shape (n, L)."""
        return self._fields.read("body_mass", at, at.kind.links).astype(np.float32)

    def set_masses(self, at: DofSet, links: np.ndarray, values: np.ndarray) -> None:
        """Set masses of some links, for values of shape (n, l). Inertias stay as they are."""
        self._fields.write("body_mass", at, at.kind.links[links], values)
        self._fields.recompute_constants(at.envs.tolist())

    def set_inertials(self, at: DofSet, link: int, values: Mapping[str, np.ndarray]) -> None:
        """Change mass, centre of mass and inertia of a link.

        Args:
            at: The robots.
            link: Index of the link.
            values: ``mass`` [kg], ``com_x`` … [m] and ``inertia_x`` … [kg·m²], in the frames of the model, each of
                shape (n,).
        """
        body = int(at.kind.links[link])
        for name, numbers in values.items():
            kind, _, axis = name.partition("_")
            self._fields.make_rows([_INERTIALS[kind]] if self._fields.num_envs > 1 else [])
            rows = self._fields.all_rows(_INERTIALS[kind])
            rows[(at.envs, body, "xyz".index(axis)) if axis else (at.envs, body)] = numbers
        self._fields.recompute_constants(at.envs.tolist())

    def _read(self, at: DofSet, width: int, read: Callable[[int, Any], np.ndarray]) -> np.ndarray:
        self._state.refresh()
        found = np.empty((len(at), width), np.float32)
        for root, rows, envs in _by_root(at):
            found[rows] = read(root, envs)
        return found

    def _set(self, at: DofSet, values: np.ndarray, put: Callable[[int, Any, np.ndarray], None]) -> None:
        for kind, rows in at.kinds:
            if kind.is_fixed_base:
                raise SimulationError(f"'{at.robots[rows[0]].path}' has no free base: its root cannot be moved")
        self._state.refresh()
        for root, rows, envs in _by_root(at):
            put(root, envs, values[rows])
        self._batch.forward(at.envs.tolist())
        self._batch.update_arrays()

    def _poses(self, root: int, envs: Any) -> np.ndarray:
        if root in self._free:
            at, _ = self._free[root]
            return self._batch.block("qpos")[envs, at : at + 7].take(_XYZW, axis=1)
        poses = np.empty((self._batch.num_envs, 7))
        for env in self._batch.numbers(envs):
            model, data = self._batch.scratch_data(env)
            mujoco.mj_kinematics(model, data)  # a step leaves poses at the state before it
            poses[env] = np.concatenate([data.xpos[root], data.xquat[root]])[_XYZW]
        return poses[envs]

    def _velocities(self, root: int, envs: Any) -> np.ndarray:
        if root in self._free:
            _, at = self._free[root]
            velocities = self._batch.block("qvel")[envs, at : at + 6].copy()
            velocities[:, 3:] = _rotated(self._poses(root, envs)[:, 3:], velocities[:, 3:])
            return velocities
        velocities = np.empty((self._batch.num_envs, 6))
        for env in self._batch.numbers(envs):
            model, data = self._batch.scratch_data(env)
            for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel):
                compute(model, data)
            found = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, int(mujoco.mjtObj.mjOBJ_XBODY), root, found, 0)
            velocities[env] = *found[3:], *found[:3]
        return velocities[envs]

    def _set_poses(self, root: int, envs: Any, poses: np.ndarray) -> None:
        at, _ = self._free[root]
        values = poses.astype(np.float64).take(_WXYZ, axis=1)
        values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=1, keepdims=True)
        self._batch.write("qpos", envs, slice(at, at + 7), values)

    def _set_velocities(self, root: int, envs: Any, velocities: np.ndarray) -> None:
        _, at = self._free[root]
        local = velocities.astype(np.float64)
        turned_back = self._poses(root, envs)[:, 3:] * (-1, -1, -1, 1)
        local[:, 3:] = _rotated(turned_back, local[:, 3:])
        self._batch.write("qvel", envs, slice(at, at + 6), local)


def _by_root(at: DofSet) -> list[tuple[int, Any, Any]]:
    """Return root bodies, with rows and environments of their robots, as slices if contiguous."""
    if len(at.kinds) == 1:
        return [(int(at.kind.links[0]), slice(None), at.env_index)]
    return [(int(kind.links[0]), as_slice(rows), as_slice(at.envs[rows])) for kind, rows in at.kinds]


def _rotated(quaternions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return vectors of shape (n, 3), rotated by quaternions (x, y, z, w) of shape (n, 4)."""
    axis, w = quaternions[:, :3], quaternions[:, 3:]
    twice = 2.0 * np.cross(axis, vectors)
    return vectors + w * twice + np.cross(axis, twice)
