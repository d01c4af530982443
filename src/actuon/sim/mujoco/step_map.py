# SPDX-License-Identifier: Apache-2.0
"""Finite differences of MuJoCo's step, for all integrators."""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np

from ..step_map import StepMap, StepMaps, put_over

_CHANGES = (1e-5, 1e-5, 1e-2)
"""Changes of a position [rad or m], a velocity [rad/s or m/s] and an effort [N·m or N]."""
_OFF = ("CONTACT", "LIMIT", "FRICTIONLOSS", "SENSOR", "WARMSTART")
"""Parts of a model that have no effect on a small motion at rest."""


class MujocoStepMaps(StepMaps):
    """Step maps from steps of a copy of the model from poses at rest.

    Args:
        model: The model, which is copied.
        state: Positions and controls of the model; the robot's positions are changed.
        dofs: The robot's DOFs in the model, shape (D,).
        is_fixed_base: Whether the robot can be held in a pose.
        dt: Time step [s].
        viscous: Damping of the robot's DOFs, shape (D,); NaN for the model's.
    """

    def __init__(
        self,
        model: Any,
        state: tuple[np.ndarray, np.ndarray],
        dofs: np.ndarray,
        is_fixed_base: bool,
        dt: float,
        viscous: np.ndarray | None = None,
    ):
        self._model = copy.copy(model)
        self._qpos, self._ctrl = state
        self._dofs, self._is_fixed_base = dofs, is_fixed_base
        self._coordinates = model.jnt_qposadr[model.dof_jntid[dofs]]
        self._model.opt.timestep = dt
        if viscous is not None:
            self._model.dof_damping[dofs] = put_over(self._model.dof_damping[dofs], viscous)
        for name in _OFF:
            self._model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}"))
        self._gravity = self._model.opt.gravity.copy()
        self._data = mujoco.MjData(self._model)
        self._start(self._qpos)
        mujoco.mj_forward(self._model, self._data)
        self.free = ~self._tied()[dofs]

    def _tied(self) -> np.ndarray:
        """Return whether equality constraints depend on each DOF, shape (nv,)."""
        data, shape = self._data, (self._data.nefc, self._model.nv)
        rows = np.zeros(shape)
        if mujoco.mj_isSparse(self._model):
            mujoco.mju_sparse2dense(rows, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
        else:
            rows = data.efc_J.reshape(shape)
        equality = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        return np.asarray((np.abs(rows[equality]) > 1e-9).any(axis=0))

    def at(self, positions: np.ndarray) -> StepMap:
        model, nv = self._model, self._model.nv
        pose = self._qpos.copy()
        pose[self._coordinates] = positions
        model.opt.gravity[:] = 0.0
        moved = [self._difference(pose, kind, dof) for kind in range(2) for dof in range(nv)]
        pushed = [self._difference(pose, 2, int(dof)) for dof in self._dofs]
        mobility = self._mobility(pose)
        model.opt.gravity[:] = self._gravity
        hold = None
        if self._is_fixed_base:
            self._start(pose)
            mujoco.mj_forward(model, self._data)
            hold = (self._data.qfrc_bias - self._data.qfrc_passive)[self._dofs]
        return StepMap(np.array(moved).T, np.array(pushed).T, self._dofs, mobility, hold)

    def _start(self, pose: np.ndarray) -> None:
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[:] = pose
        self._data.ctrl[:] = self._ctrl

    def _difference(self, pose: np.ndarray, kind: int, dof: int) -> np.ndarray:
        """Return the derivative of a step by position (0), velocity (1) or effort (2) of a DOF, shape (2·nv,)."""
        model, data, nv = self._model, self._data, self._model.nv
        ends = []
        for sign in (1.0, -1.0):
            self._start(pose)
            change = np.zeros((3, nv))
            change[kind, dof] = sign * _CHANGES[kind]
            mujoco.mj_integratePos(model, data.qpos, change[0], 1.0)
            data.qvel[:], data.qfrc_applied[:] = change[1], change[2]
            mujoco.mj_step(model, data)
            moved = np.zeros(nv)
            mujoco.mj_differentiatePos(model, moved, 1.0, pose, data.qpos)
            ends.append(np.concatenate([moved, data.qvel]))
        return np.asarray((ends[0] - ends[1]) / (2.0 * _CHANGES[kind]))

    def _mobility(self, pose: np.ndarray) -> np.ndarray:
        """Return accelerations per unit of effort, shape (D, D)."""
        model, data = self._model, self._data
        integrator = model.opt.integrator
        model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)  # whose acceleration is the present one
        columns = []
        self._start(pose)
        for dof in self._dofs:
            ends = []
            for sign in (1.0, -1.0):
                data.qfrc_applied[:] = 0.0
                data.qfrc_applied[dof] = sign
                mujoco.mj_forward(model, data)
                ends.append(data.qacc[self._dofs].copy())
            columns.append((ends[0] - ends[1]) / 2.0)
        model.opt.integrator = integrator
        return np.array(columns).T
