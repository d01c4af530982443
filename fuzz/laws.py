# SPDX-License-Identifier: Apache-2.0
"""Components of a user's own, one or more of every kind. Their equations in NumPy are in `stages`."""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

import actuon


@dataclass(frozen=True)
class SoftLimitConfig(actuon.Config):
    """A limit that is approached and never passed."""

    max_effort: float = actuon.param("N·m", "Effort approached.", above=0.0)


@wp.func
def soft_limit(effort: float, max_effort: float):
    return max_effort * wp.tanh(effort / max_effort)


class ClampingSoftLimit(actuon.Clamping):
    """Effort squashed by a tanh."""

    config = SoftLimitConfig
    law = soft_limit


@dataclass(frozen=True)
class RepeatedConfig(actuon.Config):
    """A whole number of windings."""

    count: int = actuon.param("1", "How often the effort acts.", minimum=0, integer=True, fallback=1)
    gain: float = actuon.param("1", "A factor.", default=1.0)


@wp.func
def repeated(effort: float, count: int, gain: float):
    return effort * float(count) * gain


class ClampingRepeated(actuon.Clamping):
    """Not a limit: it has a whole-number parameter, and one with a default."""

    config = RepeatedConfig
    law = repeated


@dataclass(frozen=True)
class StopConfig(actuon.Config):
    """Less effort near the end of the range and at speed."""

    slope: float = actuon.param("N·m/rad", "How fast the limit falls.", minimum=0.0)
    reach: float = actuon.param("rad", "Where it is zero.", minimum=0.0)
    drag: float = actuon.param("N·m·s/rad", "What speed takes away from it.", minimum=0.0, fallback=0.0)


@wp.func
def stop(effort: float, q: float, qd: float, slope: float, reach: float, drag: float):
    largest = wp.max(slope * (reach - wp.abs(q)) - drag * wp.abs(qd), 0.0)
    return actuon.limit(effort, -largest, largest)


class ClampingStop(actuon.Clamping):
    """A limit from position and velocity."""

    config = StopConfig
    law = stop


@dataclass(frozen=True)
class FilteredConfig(actuon.Config):
    """A PD controller behind two low-passes."""

    kp: float = actuon.param("N·m/rad", "Position gain.", minimum=0.0)
    kd: float = actuon.param("N·m·s/rad", "Velocity gain.", minimum=0.0)
    time_constant: float = actuon.param("s", "Of the low-passes.", above=0.0)


@wp.func
def filtered(
    q: float,
    qd: float,
    target_q: float,
    target_qd: float,
    feedforward: float,
    dt: float,
    error: float,
    rate: float,
    kp: float,
    kd: float,
    time_constant: float,
):
    share = dt / (time_constant + dt)
    error_now = error + (target_q - q - error) * share
    rate_now = rate + (target_qd - qd - rate) * share
    return feedforward + kp * error_now + kd * rate_now, error_now, rate_now


class ControllerFiltered(actuon.Controller):
    """A controller with two states."""

    config = FilteredConfig
    law = filtered
    STATES = ("error", "rate")


@dataclass(frozen=True)
class LateSensorConfig(actuon.Config):
    """A position with a bias, a velocity that is late."""

    bias: float = actuon.param("rad", "Added to the position.")
    share: float = actuon.param("1", "Of the new velocity in what is seen.", minimum=0.0)


@wp.func
def late_sensor(q: float, qd: float, seen: float, bias: float, share: float):
    now = seen + share * (qd - seen)
    return q + bias, now, now


class SensorLate(actuon.Sensor):
    """A sensor with a state."""

    config = LateSensorConfig
    law = late_sensor
    STATES = ("seen",)


@dataclass(frozen=True)
class GearConfig(actuon.Config):
    """A gear with losses."""

    ratio: float = actuon.param("1", "Turns of the motor per turn of the joint.", above=0.0)
    efficiency: float = actuon.param("1", "What arrives of the effort.", minimum=0.0)


@wp.func
def to_motor(q: float, qd: float, effort: float, ratio: float):
    return q * ratio, qd * ratio, effort / ratio, qd * ratio


@wp.func
def to_joint(effort: float, ratio: float, efficiency: float):
    return effort * ratio * efficiency


class TransmissionGear(actuon.Transmission):
    """A transmission that offers the motor's speed."""

    config = GearConfig
    law = to_motor
    closing_law = to_joint
    OUTPUTS = ("motor_speed",)


@dataclass(frozen=True)
class LagConfig(actuon.Config):
    """Effort that builds up slowly, from a start of its own."""

    share: float = actuon.param("1", "Of the new effort in a step.", minimum=0.0)
    start: float = actuon.param("N·m", "What it is after a reset.")


@wp.func
def lag(effort: float, held: float, share: float):
    now = held + share * (effort - held)
    return now, now


class EffectLag(actuon.Effect):
    """An effect with a state that does not start at zero."""

    config = LagConfig
    law = lag
    STATES = {"held": "start"}  # noqa: RUF012


@dataclass(frozen=True)
class DragConfig(actuon.Config):
    """Friction that grows with the motor's speed."""

    drag: float = actuon.param("N·m·s/rad", "Effort per speed.", minimum=0.0)


@wp.func
def motor_drag(effort: float, motor_speed: float, drag: float):
    return effort - drag * motor_speed


class EffectMotorDrag(actuon.Effect):
    """An effect that asks for what a transmission offers."""

    config = DragConfig
    law = motor_drag


@wp.func
def joint_drag(effort: float, qd: float, drag: float):
    return effort - drag * qd


class EffectDrag(actuon.Effect):
    """An effect without a state."""

    config = DragConfig
    law = joint_drag


OWN = {
    cls.__name__: cls
    for cls in (
        ClampingSoftLimit, ClampingRepeated, ClampingStop, ControllerFiltered, SensorLate, TransmissionGear, EffectLag,
        EffectMotorDrag, EffectDrag,
    )
}  # fmt: skip
