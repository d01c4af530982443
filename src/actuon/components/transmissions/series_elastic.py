# SPDX-License-Identifier: Apache-2.0
r"""Spring and damper between motor and joint, with the inertia of the motor.

.. math::
    J\,\ddot\theta = \tau - F, \qquad F = k\,(\theta - q) + d\,(\dot\theta - \dot q)

The joint receives the mean of :math:`F` over the step, from the exact solution for a constant effort :math:`\tau` and
joint velocity. So it is stable at any step, and the spring conserves energy. Later stages get the position and velocity
of the motor. Source: Pratt and Williamson, "Series Elastic Actuators" (1995).
"""

from __future__ import annotations

from types import MappingProxyType

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Transmission
from ..math import SHORTEST, exponential_less_one, limit
from .motor_apart import MOTOR_STATES, motor_moved, motor_offset

NEARLY_CRITICAL = wp.constant(1e-2)
"""Largest square of an angle that is expanded into a series instead of taking its root."""


class SeriesElastic(Parameters):
    stiffness: Number = param("N·m/rad", "Stiffness of the spring.", above=0.0)
    motor_inertia: Number = param("kg·m²", "Inertia on the motor side of the spring.", above=0.0)
    damping: Number = param("N·m·s/rad", "Damping in parallel with the spring.", default=0.0, minimum=0.0)


@wp.func
def elastic_law(
    q: float,
    qd: float,
    effort: float,
    dt: float,
    gear_ratio: float,
    motor_position: float,
    motor_speed: float,
    is_running: float,
    motor_rest: float,
    last_q: float,
    last_rest: float,
    stiffness: float,
    damping: float,
):
    position = wp.where(is_running > 0.0, motor_position, q)
    speed = wp.where(is_running > 0.0, motor_speed, qd)
    offset, _ = motor_offset(q, qd, dt, motor_position, is_running, motor_rest, last_q, last_rest)
    force = stiffness * (offset - 0.5 * qd * dt) - damping * qd
    return position, speed, effort, offset, speed, -gear_ratio * force


@wp.func
def oscillation(decay: float, undamped: float):
    """Return ``exp(-decay)·cos(angle) - 1`` and ``exp(-decay)·sin(angle)/angle``.

    ``undamped`` is the square of the undamped angle, and ``angle² = undamped - decay²``. If that is negative, cos and
    sin are cosh and sinh.
    """
    square = undamped - decay * decay
    angle = wp.sqrt(wp.max(square, NEARLY_CRITICAL))
    half = wp.sin(0.5 * angle)
    fading = wp.exp(-decay)
    less_one = exponential_less_one(-decay)
    cos_swinging = less_one - 2.0 * fading * half * half
    sin_swinging = fading * wp.sin(angle) / angle
    root = wp.sqrt(wp.max(-square, NEARLY_CRITICAL))
    slow = exponential_less_one(-undamped / (root + decay))
    fast = exponential_less_one(-root - decay)
    cos_creeping = 0.5 * (slow + fast)
    sin_creeping = 0.5 * (slow - fast) / root
    near = limit(square, -NEARLY_CRITICAL, NEARLY_CRITICAL)
    cos_critical = less_one - fading * near * (0.5 - near / 24.0)
    sin_critical = fading * (1.0 - near * (1.0 / 6.0 - near / 120.0))
    is_critical = wp.abs(square) < NEARLY_CRITICAL
    cos = wp.where(is_critical, cos_critical, wp.where(square > 0.0, cos_swinging, cos_creeping))
    sin = wp.where(is_critical, sin_critical, wp.where(square > 0.0, sin_swinging, sin_creeping))
    return cos, sin


@wp.func
def elastic_closing_law(
    q: float,
    qd: float,
    effort: float,
    dt: float,
    motor_position: float,
    motor_speed: float,
    is_running: float,
    motor_rest: float,
    last_q: float,
    last_rest: float,
    stiffness: float,
    motor_inertia: float,
    damping: float,
):
    t = wp.max(dt, SHORTEST)
    rate = 0.5 * damping / motor_inertia
    square = stiffness / motor_inertia
    speed = wp.where(is_running > 0.0, motor_speed, qd)
    offset, joint_rest = motor_offset(q, qd, dt, motor_position, is_running, motor_rest, last_q, last_rest)
    from_rest = offset - effort / stiffness
    relative = speed - qd
    cos, sin = oscillation(rate * t, square * t * t)
    moved = from_rest * (cos + rate * t * sin) + relative * t * sin
    sped = relative * (cos - rate * t * sin) - from_rest * square * t * sin
    force = effort - motor_inertia * sped / t
    position, rest = motor_moved(q, motor_position, is_running, motor_rest, qd * t + moved)
    return force, position, speed + sped, 1.0, rest, q, joint_rest


class SeriesElasticTransmissionConfig(SeriesElastic, Config):
    """Spring of a series-elastic actuator.

    Examples:
        >>> transmission = actuon.SeriesElasticTransmissionConfig(
        ...     stiffness=300.0, motor_inertia=0.02, damping=0.5
        ... )
    """

    schema = "ActuonSeriesElasticTransmissionAPI"


class TransmissionSeriesElastic(SeriesElastic, Transmission):
    """Spring and damper between motor and joint.

    Offers ``spring_deflection`` [rad], ``motor_velocity`` [rad/s] and ``spring_load`` [N·m], the force of the spring on
    a motor at rest, at the joint. The motor starts at the joint's position and velocity. Do not include its inertia in
    the joint's armature.

    Examples:
        >>> transmission = actuon.TransmissionSeriesElastic(
        ...     stiffness=300.0, motor_inertia=0.02, damping=0.5
        ... )
    """

    config = SeriesElasticTransmissionConfig
    law = elastic_law
    closing_law = elastic_closing_law
    STATES = MOTOR_STATES
    CLOSING_STATES = MOTOR_STATES
    OUTPUTS = ("spring_deflection", "motor_velocity", "spring_load")
    OPTIONAL_SIGNALS = MappingProxyType({"gear_ratio": 1.0})
