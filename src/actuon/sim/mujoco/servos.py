# SPDX-License-Identifier: Apache-2.0
"""Actuators of MuJoCo that follow a target: position servos, velocity servos, and drives that follow both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

GAIN_FIELDS = (
    "actuator_gaintype",
    "actuator_biastype",
    "actuator_dyntype",
    "actuator_gainprm",
    "actuator_biasprm",
)
"""Fields of a model, by actuator, that hold how strong it is."""


@dataclass(frozen=True)
class Servo:
    """An actuator that pulls its joint or tendon with ``kp·(x* − x) + kd·(ẋ* − ẋ)``, where it has an input for each.

    An input without which there is no target counts as zero: ``<position kp kv>`` has none for the velocity.
    """

    actuator: int
    gear: float
    position: int = -1
    """Where in ``ctrl`` its target position is, or -1."""
    velocity: int = -1
    """Where in ``ctrl`` its target velocity is, or -1."""
    scale: float = 1.0
    """``ctrl`` = scale · target + offset. It holds the gear, and other units, such as 0 to 255 for a gripper."""
    offset: float = 0.0

    def gains(self, model: Any) -> tuple[float, float]:
        """Stiffness and damping at the joint or tendon."""
        _, holds, brakes = model.actuator_biasprm[self.actuator, :3]
        return -holds * self.gear**2 + 0.0, -brakes * self.gear**2 + 0.0

    def set_gains(self, mujoco: Any, model: Any, stiffness: float, damping: float) -> None:
        """Set what `gains` returns. Its ``ctrl`` keeps its meaning."""
        kp, kd = stiffness / self.gear**2, damping / self.gear**2
        model.actuator_biasprm[self.actuator, 1:3] = -kp, -kd
        if model.actuator_gaintype[self.actuator] == int(mujoco.mjtGain.mjGAIN_FIXED):
            gain = (kp if self.position >= 0 else kd) * self.gear / self.scale
            model.actuator_gainprm[self.actuator, 0] = gain
            model.actuator_biasprm[self.actuator, 0] = -self.offset * gain


def read_servo(mujoco: Any, model: Any, actuator: int) -> Servo | None:
    """What follows a target in an actuator; None for motors, muscles and the like."""
    gear = float(model.actuator_gear[actuator, 0])
    is_affine = model.actuator_biastype[actuator] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    if not is_affine or gear == 0.0 or model.actuator_plugin[actuator] >= 0:
        return None
    if model.actuator_dyntype[actuator] not in _kinds(mujoco, "NONE", "FILTER", "FILTEREXACT", "PID"):
        return None
    control = int(model.actuator_ctrladr[actuator])
    gain = float(model.actuator_gainprm[actuator, 0])
    constant, holds, brakes = (float(value) for value in model.actuator_biasprm[actuator, :3])
    if model.actuator_gaintype[actuator] == int(mujoco.mjtGain.mjGAIN_PID):
        if constant != 0.0:
            return None
        position, velocity = _pid_inputs(mujoco, model, actuator)
        return Servo(actuator, gear, position, velocity, gear, 0.0)
    if model.actuator_gaintype[actuator] != int(mujoco.mjtGain.mjGAIN_FIXED):
        return None
    if gain == 0.0:
        is_position, is_velocity, own = holds == 0.0 and constant == 0.0, False, 0.0
    else:
        is_position, is_velocity = holds < 0.0, holds == 0.0 and brakes < 0.0
        own = -holds if is_position else -brakes
    if not (is_position or is_velocity):
        return None
    scale = 1.0 if own == gain else own / gain
    offset = -constant / gain if constant else 0.0
    inputs = {"position": control} if is_position else {"velocity": control}
    return Servo(actuator, gear, **inputs, scale=gear * scale, offset=offset)


def _pid_inputs(mujoco: Any, model: Any, actuator: int) -> tuple[int, int]:
    """Where a PID's targets are in ``ctrl``: it has those inputs that its signature names, in order."""
    control, spec = int(model.actuator_ctrladr[actuator]), int(model.actuator_ctrlspec[actuator])
    has_position = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_POS))
    has_velocity = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_VEL))
    return control if has_position else -1, control + has_position if has_velocity else -1


@dataclass(frozen=True)
class Lags:
    """Lags between the control of an actuator and its effort."""

    delay: float
    """By how much the control is late, as far as its history reaches back [s]."""
    interpolation: int
    """Order of what is between two controls: 0 holds the last one, 1 is linear, 2 cubic."""
    time_constant: float
    """Of a first-order filter of the control [s]; 0 without one."""
    is_euler: bool
    """Whether the filter moves by Euler's method, and not as far as its equation does in a time step."""
    integral: float
    """Integral gain of a PID."""
    slew: float
    """Largest change of a PID's target per time [rad/s or m/s]; 0 without a limit."""


def read_lags(mujoco: Any, model: Any, actuator: int) -> Lags:
    """Read the lags between an actuator's control and its effort."""
    samples, interpolation = (int(number) for number in model.actuator_history[actuator])
    dynamics, parameters = model.actuator_dyntype[actuator], model.actuator_dynprm[actuator]
    is_pid = dynamics in _kinds(mujoco, "PID")
    has_euler_steps = model.opt.integrator != int(mujoco.mjtIntegrator.mjINT_RK4)
    return Lags(
        delay=min(float(model.actuator_delay[actuator]), samples * float(model.opt.timestep)),
        interpolation=interpolation,
        time_constant=float(parameters[0]) if dynamics in _kinds(mujoco, "FILTER", "FILTEREXACT") else 0.0,
        is_euler=dynamics in _kinds(mujoco, "FILTER") and has_euler_steps,
        integral=float(model.actuator_gainprm[actuator, 0]) if is_pid else 0.0,
        slew=float(parameters[1]) if is_pid else 0.0,
    )


def _kinds(mujoco: Any, *names: str) -> list[int]:
    """Numbers of kinds of activation dynamics."""
    return [int(getattr(mujoco.mjtDyn, f"mjDYN_{name}")) for name in names]


def keep(model: Any, actuators: list[int]) -> list[np.ndarray]:
    """What `put_back` needs to restore the strength of actuators."""
    return [getattr(model, field)[actuators].copy() for field in GAIN_FIELDS]


def put_back(model: Any, actuators: list[int], values: list[np.ndarray]) -> None:
    """Restore the strength of actuators."""
    for field, value in zip(GAIN_FIELDS, values, strict=True):
        getattr(model, field)[actuators] = value


def silence(mujoco: Any, model: Any, actuators: list[int]) -> None:
    """Switch actuators off.

    The current and heat of a DC motor stay as they are: their equations divide by its resistance, which is among the
    gains.
    """
    plain = [int(kind) for kind in (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtGain.mjGAIN_PID)]
    for i in actuators:
        if model.actuator_gaintype[i] not in plain:
            model.actuator_gaintype[i] = plain[0]
        if model.actuator_dyntype[i] == int(mujoco.mjtDyn.mjDYN_DCMOTOR):
            model.actuator_dyntype[i] = int(mujoco.mjtDyn.mjDYN_NONE)
    model.actuator_biastype[actuators] = int(mujoco.mjtBias.mjBIAS_AFFINE)
    model.actuator_gainprm[actuators] = 0.0
    model.actuator_biasprm[actuators] = 0.0


def is_active(model: Any, actuator: int) -> bool:
    """Whether an actuator can push."""
    return bool(model.actuator_gainprm[actuator].any() or model.actuator_biasprm[actuator].any())
