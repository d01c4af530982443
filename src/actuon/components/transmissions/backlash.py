# SPDX-License-Identifier: Apache-2.0
r"""Backlash: a gap that the motor crosses before its teeth touch.

.. math::
    J\,\ddot\theta = \tau - F, \qquad
    F = \begin{cases}
      \max(k\,(\delta - g/2) + d\,\dot\delta,\; 0) & \delta > g/2 \\
      \min(k\,(\delta + g/2) + d\,\dot\delta,\; 0) & \delta < -g/2 \\
      0 & \text{else}
    \end{cases}, \qquad \delta = \theta - q

by backward Euler, in closed form: stable at any step and stiffness, without creating energy, since the potential of the
teeth is convex. Later stages get the position and velocity of the motor.
"""

from __future__ import annotations

from types import MappingProxyType

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Transmission
from ..math import SHORTEST
from .motor_apart import MOTOR_STATES, motor_moved, motor_offset


class Backlash(Parameters):
    gap: Number = param("rad", "Angle between contact on one side and on the other.", minimum=0.0)
    stiffness: Number = param("N·m/rad", "Stiffness of the teeth.", above=0.0)
    motor_inertia: Number = param("kg·m²", "Inertia on the motor side of the gap.", above=0.0)
    damping: Number = param("N·m·s/rad", "Damping of the teeth while they touch.", default=0.0, minimum=0.0)


@wp.func
def pushing(depth: float, force: float):
    """Return the force of teeth at an overlap ``depth``: they do not pull. NaN stays NaN."""
    return wp.where(depth <= 0.0 or force < 0.0, 0.0, force)


@wp.func
def backlash_law(
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
    gap: float,
    stiffness: float,
    damping: float,
):
    position = wp.where(is_running > 0.0, motor_position, q)
    speed = wp.where(is_running > 0.0, motor_speed, qd)
    offset, _ = motor_offset(q, qd, dt, motor_position, is_running, motor_rest, last_q, last_rest)
    later = offset - qd * dt
    side = wp.where(later < 0.0, -1.0, 1.0)
    depth = side * later - 0.5 * gap
    force = side * pushing(depth, stiffness * depth - damping * side * qd)
    return position, speed, effort, offset, speed, -gear_ratio * force


@wp.func
def backlash_closing_law(
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
    gap: float,
    stiffness: float,
    motor_inertia: float,
    damping: float,
):
    t = wp.max(dt, SHORTEST)
    offset, joint_rest = motor_offset(q, qd, dt, motor_position, is_running, motor_rest, last_q, last_rest)
    free_speed = wp.where(is_running > 0.0, motor_speed, qd) + effort * t / motor_inertia
    free = offset + (free_speed - qd) * t
    side = wp.where(free < 0.0, -1.0, 1.0)
    depth = side * free - 0.5 * gap
    depth_before = side * offset - 0.5 * gap
    inertial = motor_inertia / t
    pressed = inertial * (stiffness * t * depth + damping * (depth - depth_before))
    force = pressed / (inertial + damping + stiffness * t) / t
    touching = side * pushing(depth, force)
    speed = free_speed - touching * t / motor_inertia
    position, rest = motor_moved(q, motor_position, is_running, motor_rest, speed * t)
    return touching, position, speed, 1.0, rest, q, joint_rest


class BacklashTransmissionConfig(Backlash, Config):
    """Backlash between motor and joint.

    Examples:
        >>> transmission = actuon.BacklashTransmissionConfig(
        ...     gap=0.01, stiffness=500.0, motor_inertia=0.005
        ... )
    """

    schema = "ActuonBacklashTransmissionAPI"


class TransmissionBacklash(Backlash, Transmission):
    """Backlash between motor and joint.

    Offers ``gap_offset`` of the motor from the middle [rad], ``motor_velocity`` [rad/s] and ``spring_load`` [N·m], the
    force of the teeth on a motor at rest, at the joint. The motor starts in the middle of the gap, at the joint's
    velocity. Do not include its inertia in the joint's armature.

    Examples:
        >>> transmission = actuon.TransmissionBacklash(
        ...     gap=0.01, stiffness=500.0, motor_inertia=0.005
        ... )
    """

    config = BacklashTransmissionConfig
    law = backlash_law
    closing_law = backlash_closing_law
    STATES = MOTOR_STATES
    CLOSING_STATES = MOTOR_STATES
    OUTPUTS = ("gap_offset", "motor_velocity", "spring_load")
    OPTIONAL_SIGNALS = MappingProxyType({"gear_ratio": 1.0})
