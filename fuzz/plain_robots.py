# SPDX-License-Identifier: Apache-2.0
"""Robots under plain ``mj_step``, with motors in NumPy float64: what a sequence of calls must have done."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from tests.support import oracle

WHOLE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
SHARE = 4e-6
"""Rounding of an effort in 32 bits, as a share of the sizes of its terms."""

_LINK = '<geom type="capsule" size="0.03" fromto="0 0 0 0.25 0 -0.05" mass="0.4" contype="0" conaffinity="0"/>'


_RANGE = 'actuatorfrcrange="-6 4"'


def _joint(name: str, kind: str = "hinge", axis: str = "0 1 0", more: str = "") -> str:
    return f'<joint name="{name}" type="{kind}" axis="{axis}" armature="0.05" damping="0.02" {more}/>'


_MODEL = """<mujoco><option integrator="{{integrator}}" timestep="{{dt}}"><flag contact="disable"/></option>
<worldbody>{bodies}</worldbody><actuator>{actuators}</actuator></mujoco>"""
ROBOTS = {
    "hinge": _MODEL.format(bodies=f'<body name="arm">{_joint("a")}{_LINK}</body>', actuators=""),
    "servos": _MODEL.format(
        bodies=f'<body name="arm">{_joint("a", more=_RANGE)}{_LINK}'
        f'<body pos="0.25 0 0">{_joint("b")}{_LINK}</body></body>',
        actuators='<position name="sa" joint="a" kp="9" kv="0.6"/><position name="sb" joint="b" kp="5" kv="0.4"/>',
    ),
    "gantry": _MODEL.format(
        bodies=f'<body name="cart">{_joint("x", "slide", "1 0 0")}{_LINK}<body pos="0 0 0.1">{_joint("p")}{_LINK}'
        f'<body pos="0.25 0 0">{_joint("q", axis="0 0 1")}{_LINK}</body></body></body>',
        actuators='<position name="sx" joint="x" kp="30" kv="3"/>',
    ),
    "floating": _MODEL.format(
        bodies=f'<body name="base" pos="0 0 1"><freejoint/><geom size="0.1" mass="2" contype="0"/><body>{_joint("l")}'
        f"{_LINK}</body><body>{_joint('r', axis='1 0 0')}{_LINK}</body></body>",
        actuators="",
    ),
    "pair": _MODEL.format(
        bodies=f'<body name="left">{_joint("la")}{_LINK}<body pos="0.25 0 0">{_joint("lb")}{_LINK}</body></body>'
        f'<body name="right" pos="0 1 0">{_joint("ra")}{_LINK}<body pos="0.25 0 0">{_joint("rb")}{_LINK}</body></body>',
        actuators='<position name="sr" joint="ra" kp="7" kv="0.5"/>',
    ),
}
"""Models with an integrator and a time step to be filled in."""
JOINTS = {
    "hinge": {"arm": ["a"]},
    "servos": {"arm": ["a", "b"]},
    "gantry": {"cart": ["x", "p", "q"]},
    "floating": {"base": ["l", "r"]},
    "pair": {"left": ["la", "lb"], "right": ["ra", "rb"]},
}
"""Root bodies of each model, and their joints."""


@functools.cache
def compiled(robot: str, integrator: str, dt: float) -> mujoco.MjModel:
    """A model. Copy it before it is changed."""
    return mujoco.MjModel.from_xml_string(ROBOTS[robot].format(integrator=integrator, dt=dt))


@dataclass(eq=False)
class Motor:
    """Motors on some DOFs of all environments. Arrays are of shape (environments, DOFs of the model)."""

    dofs: np.ndarray
    """Indices of the DOFs, shape (d,)."""
    values: dict[str, np.ndarray]
    """``kp`` and ``kd``; ``ki`` and ``integral_max``, ``max_effort``, ``stall`` and ``no_load``, ``lag``, or none."""
    depth: int
    is_implicit: bool
    is_engine_drive: bool
    feedforward: np.ndarray = field(init=False)
    past: np.ndarray = field(init=False)
    """Commands, the newest first, shape (depth, 3, environments, DOFs)."""
    pushes: np.ndarray = field(init=False)
    integral: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        shape = self.values["kp"].shape
        self.feedforward, self.integral = np.zeros(shape), np.zeros(shape)
        self.past, self.pushes = np.zeros((self.depth, 3, *shape)), np.zeros(shape, int)

    def forget(self, envs: Any) -> None:
        """Reset environments."""
        self.pushes[envs], self.integral[envs] = 0, 0.0

    def memory(self) -> dict[str, np.ndarray]:
        """A copy of what is remembered, and of the feedforward."""
        kept = {name: getattr(self, name).copy() for name in ("feedforward", "pushes", "integral")}
        return kept | {"past": self.past.transpose(2, 0, 1, 3).copy()}

    def take(self, memory: dict[str, np.ndarray], envs: Any) -> None:
        """Go back to what was remembered, in some environments."""
        for name in ("feedforward", "pushes", "integral"):
            getattr(self, name)[envs] = memory[name][envs]
        self.past.transpose(2, 0, 1, 3)[envs] = memory["past"][envs]

    def step(self, q: np.ndarray, qd: np.ndarray, target_q: Any, target_qd: Any, dt: float) -> tuple[Any, Any]:
        """Efforts before the engine's limits, and the sizes of their terms."""
        v = self.values
        command = now = np.stack([target_q, target_qd, self.feedforward])
        if self.depth:
            lag = np.minimum(v["lag"].astype(int), self.pushes)
            late = np.take_along_axis(self.past, np.maximum(lag - 1, 0)[None, None], axis=0)[0]
            command = np.where(lag > 0, late, now)
            self.past = np.concatenate([now[None], self.past[:-1]])
            self.pushes = np.minimum(self.pushes + 1, self.depth)
        effort = oracle.pd(q, qd, *command, v["kp"], v["kd"])
        size = v["kp"] * (np.abs(q) + np.abs(command[0])) + v["kd"] * (np.abs(qd) + np.abs(command[1]))
        size = size + np.abs(command[2])
        if "ki" in v:
            self.integral = np.clip(self.integral + (command[0] - q) * dt, -v["integral_max"], v["integral_max"])
            effort, size = effort + v["ki"] * self.integral, size + 8 * v["ki"] * v["integral_max"]
        if "stall" in v:
            flat = (effort.ravel(), q.ravel(), qd.ravel(), *(v[n].ravel() for n in ("stall", "no_load", "max_effort")))
            effort = oracle.dc_motor(*flat).reshape(effort.shape)
            size = size + v["stall"] * (1 + np.abs(qd) / v["no_load"])
        elif "max_effort" in v:
            effort = np.clip(effort, -v["max_effort"], v["max_effort"])
        return effort, size


class PlainRobots:
    """A model for each environment, stepped by ``mj_step``."""

    def __init__(self, robot: str, integrator: str, dt: float, num_envs: int):
        first = compiled(robot, integrator, dt)
        self.models = [copy.deepcopy(first) for _ in range(num_envs)]
        self.data = [mujoco.MjData(model) for model in self.models]
        self.num_envs, self.dt = num_envs, dt
        self.dof_of = {first.joint(i).name: int(first.jnt_dofadr[i]) for i in range(first.njnt) if first.joint(i).name}
        hinged = [j for j in range(first.njnt) if first.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE]
        self.dofs, self.coordinates = first.jnt_dofadr[hinged], first.jnt_qposadr[hinged]
        self.servo_of = {
            int(first.jnt_dofadr[first.actuator_trnid[i, 0]]): i
            for i in range(first.nu)
            if first.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE
        }
        limited = first.jnt_actfrclimited[first.dof_jntid] > 0
        ranges = first.jnt_actfrcrange[first.dof_jntid]
        self.lower, self.upper = np.where(limited, ranges[:, 0], -np.inf), np.where(limited, ranges[:, 1], np.inf)
        self.gains = [(m.actuator_gainprm.copy(), m.actuator_biasprm.copy()) for m in self.models]
        self.start = self.state()
        self.target_q = np.stack([self.positions()[i] for i in range(num_envs)])
        for dof, servo in self.servo_of.items():
            self.target_q[:, dof] = [data.ctrl[servo] for data in self.data]
        self.target_qd = np.zeros_like(self.target_q)
        self.first_targets = self.target_q.copy()
        self.motors: list[Motor] = []
        self.time = 0.0

    def positions(self) -> np.ndarray:
        """Positions by DOF, 0 where a DOF has none of its own, shape (environments, DOFs)."""
        found = np.zeros((self.num_envs, self.models[0].nv))
        for row, data in zip(found, self.data, strict=True):
            row[self.dofs] = data.qpos[self.coordinates]
        return found

    def velocities(self) -> np.ndarray:
        """Velocities, shape (environments, DOFs)."""
        return np.stack([data.qvel for data in self.data])

    def state(self) -> np.ndarray:
        """The integration state of each environment, shape (environments, W)."""
        states = np.zeros((self.num_envs, mujoco.mj_stateSize(self.models[0], WHOLE)))
        for model, data, row in zip(self.models, self.data, states, strict=True):
            mujoco.mj_getState(model, data, row, WHOLE)
        return states

    def moving(self) -> np.ndarray:
        """Time, positions and velocities of each environment, shape (environments, 1 + nq + nv)."""
        return np.stack([np.concatenate([[data.time], data.qpos, data.qvel]) for data in self.data])

    def put(self, states: np.ndarray, envs: Any) -> None:
        """Put environments into such states."""
        for i in np.arange(self.num_envs)[envs]:
            mujoco.mj_setState(self.models[i], self.data[i], states[i], WHOLE)

    def silence(self) -> None:
        """Let servos of the model push, but for those on DOFs that have a motor; implicit ones have its gains."""
        for model, (gain, bias) in zip(self.models, self.gains, strict=True):
            model.actuator_gainprm[:], model.actuator_biasprm[:] = gain, bias
        for motor in self.motors:
            for dof in motor.dofs:
                servo = self.servo_of.get(int(dof))
                if servo is None:
                    continue
                for env, model in enumerate(self.models):
                    kp, kd = (motor.values[name][env, dof] if motor.is_engine_drive else 0.0 for name in ("kp", "kd"))
                    model.actuator_gainprm[servo, 0] = kp
                    model.actuator_biasprm[servo, 1:3] = -kp, -kd

    def efforts(self, motor: Motor) -> tuple[np.ndarray, np.ndarray]:
        """Return the efforts of the motors in this step, within the engine's limits, and the tolerance of 32 bits."""
        effort, size = motor.step(self.positions(), self.velocities(), self.target_q, self.target_qd, self.dt)
        beside = motor.feedforward if motor.is_engine_drive else 0.0  # an engine's drive is clipped without it
        effort = np.clip(effort - beside, self.lower, self.upper) + beside
        return effort, SHARE * size + 1e-6

    def step(self, efforts: list[np.ndarray]) -> None:
        """Take a step with these efforts of the motors."""
        derivatives = np.zeros_like(self.target_q)
        for motor, effort in zip(self.motors, efforts, strict=True):
            for env, data in enumerate(self.data):
                given = motor.feedforward if motor.is_engine_drive else effort
                data.qfrc_applied[motor.dofs] = given[env, motor.dofs]
            if motor.is_implicit:
                derivatives[:, motor.dofs] += motor.values["kd"][:, motor.dofs]
        for model, data, derivative in zip(self.models, self.data, derivatives, strict=True):
            if derivative.any():  # the derivative by velocity as damping, whose own effort is taken off again
                applied, damping = data.qfrc_applied.copy(), model.dof_damping.copy()
                data.qfrc_applied += derivative * data.qvel
                model.dof_damping += derivative
                mujoco.mj_step(model, data)
                data.qfrc_applied[:], model.dof_damping[:] = applied, damping
            else:
                mujoco.mj_step(model, data)
        self.time += self.dt
