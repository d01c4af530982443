# SPDX-License-Identifier: Apache-2.0
"""Linear maps of steps of Newton's solvers for small motions of robots."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import warp as wp

from ...errors import SimulationError
from ..mujoco.step_map import MujocoStepMaps
from ..robots import Robot
from ..step_map import StepMap, StepMaps, euler_map, put_over

_CHANGED = ("dof_armature", "actuator_gainprm", "actuator_biasprm")
"""Fields of MuJoCo Warp with values for each environment."""


def mujoco_step_maps(
    solver: Any, robot: Robot, joint_q: np.ndarray, dt: float, viscous: np.ndarray | None = None
) -> StepMaps:
    """Return step maps of the model of a ``SolverMuJoCo``.

    Args:
        solver: The solver.
        robot: A robot of the first environment.
        joint_q: Positions of all joints in Newton.
        dt: Time step [s].
        viscous: Damping of the robot's DOFs, shape (D,); NaN for the model's.
    """
    model = copy.copy(solver.mj_model)
    of_newton = solver.mjc_dof_to_newton_dof.numpy()[0]
    places = {int(dof): place for place, dof in enumerate(of_newton) if dof >= 0}
    try:
        dofs = np.array([places[int(dof)] for dof in robot.dofs])
    except KeyError as error:
        raise SimulationError(f"MuJoCo's model has no DOF {error} of '{robot.path}'") from error
    if not solver.use_mujoco_cpu:
        for name in _CHANGED:
            getattr(model, name)[:] = getattr(solver.mjw_model, name).numpy()[0]
        model.actuator_armature[:] = 0.0  # which MuJoCo Warp ignores
    has = of_newton >= 0
    model.dof_damping[has] = solver.model.joint_damping.numpy()[of_newton[has]]  # without implicit efforts
    qpos = model.qpos0.copy()
    at = model.jnt_qposadr[model.dof_jntid[dofs]]
    qpos[at] += joint_q[robot.coordinates]
    maps = MujocoStepMaps(model, (qpos, np.zeros(model.nu)), dofs, robot.is_fixed_base, dt, viscous)
    return ShiftedStepMaps(maps, model.qpos0[at])


class ShiftedStepMaps(StepMaps):
    """Step maps of MuJoCo's joints at Newton's positions, which are relative to MuJoCo's reference.

    Args:
        maps: The step maps.
        reference: Positions of MuJoCo's joints at zero of Newton's [rad or m], shape (D,).
    """

    def __init__(self, maps: StepMaps, reference: np.ndarray):
        self._maps, self._reference = maps, reference
        self.free = maps.free

    def at(self, positions: np.ndarray) -> StepMap:
        return self._maps.at(positions + self._reference)


class ArticulationStepMaps(StepMaps):
    """Step maps of a solver with semi-implicit Euler steps, from Newton's mass matrix.

    Args:
        newton: The module.
        model: A ``newton.Model``.
        robot: A robot of the first environment.
        joint_q: Positions of all joints.
        used_properties: Properties of joints that the solver uses.
        dt: Time step [s].
        viscous: Damping of the robot's DOFs, shape (D,); NaN for the model's.
    """

    def __init__(
        self,
        newton: Any,
        model: Any,
        robot: Robot,
        joint_q: np.ndarray,
        used_properties: frozenset[str],
        dt: float,
        viscous: np.ndarray | None = None,
    ):
        self._newton, self._model, self._robot, self._dt = newton, model, robot, dt
        self._joint_q = joint_q.copy()
        joints = model.joint_qd_start.numpy()
        starts = joints[model.articulation_start.numpy()]
        self._articulation = int(np.searchsorted(starts, robot.dofs[0], side="right")) - 1
        self._first, end = (int(starts[self._articulation + i]) for i in range(2))
        width = slice(self._first, end)
        none = np.zeros(end - self._first)
        self._armature = model.joint_armature.numpy()[width] if "armature" in used_properties else none
        self._damping = model.joint_damping.numpy()[width].copy() if "viscous_friction" in used_properties else none
        if viscous is not None and "viscous_friction" in used_properties:
            own = robot.dofs - self._first
            self._damping[own] = put_over(self._damping[own], viscous)
        self.free = np.ones(len(robot.dofs), dtype=bool)

    def at(self, positions: np.ndarray) -> StepMap:
        model, state = self._model, self._model.state()
        joint_q = self._joint_q.copy()
        joint_q[self._robot.coordinates] = positions
        at = wp.array(joint_q, dtype=wp.float32, device=model.device)
        self._newton.eval_fk(model, at, wp.zeros_like(model.joint_qd), state)
        n = len(self._armature)
        mass = self._newton.eval_mass_matrix(model, state).numpy()[self._articulation, :n, :n].astype(np.float64)
        mobility = np.linalg.inv(mass + np.diag(self._armature))
        return euler_map(mobility, self._damping, self._robot.dofs - self._first, self._dt)
