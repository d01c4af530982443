# SPDX-License-Identifier: Apache-2.0
"""Actuators of MuJoCo that follow a target: position servos, velocity servos, and drives that follow both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

GAIN_FIELDS = ("actuator_gaintype", "actuator_biastype", "actuator_gainprm", "actuator_biasprm")
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
    lags: str = ""
    """Why it is not a plain servo, such as ``"filter"``: what follows the target is a state of its own."""

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
    lags = _lags(mujoco, model, actuator)
    if lags is None:
        return None
    control = int(model.actuator_ctrladr[actuator])
    gain = float(model.actuator_gainprm[actuator, 0])
    constant, holds, brakes = (float(value) for value in model.actuator_biasprm[actuator, :3])
    if model.actuator_gaintype[actuator] == int(mujoco.mjtGain.mjGAIN_PID):
        if constant != 0.0:
            return None
        position, velocity = _pid_inputs(mujoco, model, actuator)
        return Servo(actuator, gear, position, velocity, gear, 0.0, lags)
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
    return Servo(actuator, gear, **inputs, scale=gear * scale, offset=offset, lags=lags)


def _pid_inputs(mujoco: Any, model: Any, actuator: int) -> tuple[int, int]:
    """Where a PID's targets are in ``ctrl``: it has those inputs that its signature names, in order."""
    control, spec = int(model.actuator_ctrladr[actuator]), int(model.actuator_ctrlspec[actuator])
    has_position = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_POS))
    has_velocity = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_VEL))
    return control if has_position else -1, control + has_position if has_velocity else -1


def _lags(mujoco: Any, model: Any, actuator: int) -> str | None:
    """What stands between a target and the effort; None where it is not a target then."""
    kinds = {
        int(mujoco.mjtDyn.mjDYN_NONE): "",
        int(mujoco.mjtDyn.mjDYN_FILTER): "filter",
        int(mujoco.mjtDyn.mjDYN_FILTEREXACT): "filter",
        int(mujoco.mjtDyn.mjDYN_PID): "integral or slew limit",
    }
    kind = kinds.get(int(model.actuator_dyntype[actuator]))
    return "delay" if kind == "" and model.actuator_delay[actuator] > 0.0 else kind


def keep(model: Any, actuators: list[int]) -> list[np.ndarray]:
    """What `put_back` needs to restore the strength of actuators."""
    return [getattr(model, field)[actuators].copy() for field in GAIN_FIELDS]


def put_back(model: Any, actuators: list[int], values: list[np.ndarray]) -> None:
    """Restore the strength of actuators."""
    for field, value in zip(GAIN_FIELDS, values, strict=True):
        getattr(model, field)[actuators] = value


def silence(mujoco: Any, model: Any, actuators: list[int]) -> None:
    """Switch actuators off."""
    plain = [int(kind) for kind in (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtGain.mjGAIN_PID)]
    for i in actuators:
        if model.actuator_gaintype[i] not in plain:
            model.actuator_gaintype[i] = plain[0]
    model.actuator_biastype[actuators] = int(mujoco.mjtBias.mjBIAS_AFFINE)
    model.actuator_gainprm[actuators] = 0.0
    model.actuator_biasprm[actuators] = 0.0


def is_active(model: Any, actuator: int) -> bool:
    """Whether an actuator can push."""
    return bool(model.actuator_gainprm[actuator].any() or model.actuator_biasprm[actuator].any())
