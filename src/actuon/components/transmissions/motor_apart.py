# SPDX-License-Identifier: Apache-2.0
"""Position of a motor that moves separately from its joint, with its rounding error, and its offset from the joint.

At 10⁴ rad, as on a wheel, adjacent 32-bit positions are 1 mrad apart, which teeth or a spring would turn into a torque.
So the rounding errors of both positions are stored.
"""

from __future__ import annotations

import warp as wp

from ..math import regained

MOTOR_STATES = ("motor_position", "motor_speed", "is_running", "motor_rest", "last_q", "last_rest")


@wp.func
def motor_offset(
    q: float,
    qd: float,
    dt: float,
    motor_position: float,
    is_running: float,
    motor_rest: float,
    last_q: float,
    last_rest: float,
):
    """Return the motor's position minus the joint's, zero in the first step, and the rounding error of the joint's."""
    rest = wp.where(is_running > 0.0, regained(q, qd, dt, last_q, last_rest), 0.0)
    return wp.where(is_running > 0.0, motor_position - q + (motor_rest - rest), 0.0), rest


@wp.func
def motor_moved(q: float, motor_position: float, is_running: float, motor_rest: float, way: float):
    """Return a motor's position after it moves by ``way``, and its rounding error."""
    position = wp.where(is_running > 0.0, motor_position, q)
    added = way + motor_rest
    moved = position + added
    return moved, added - (moved - position)
