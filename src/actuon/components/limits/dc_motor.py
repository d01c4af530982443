# SPDX-License-Identifier: Apache-2.0
r"""The torque-speed envelope of a DC motor, in four quadrants.

.. math::
    \tau_{max}(v) &= \min(\tau_s (1 - v/v_0),\; \tau_m) \\
    \tau_{min}(v) &= \max(\tau_s (-1 - v/v_0),\; -\tau_m)

with :math:`v` first clamped to ± the corner velocity :math:`v_0 (1 + \tau_m/\tau_s)`. At the corner velocity the
falling line reaches :math:`-\tau_m`, so clamping :math:`v` is equivalent to clamping the line to :math:`\pm\tau_m`. The
law does the latter: its quotients cannot become NaN at a stall effort of zero or an infinite limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, ParameterValue, param
from ...errors import refuse_where
from ..kinds import Clamping
from ..math import limit

LARGEST = wp.constant(float(np.finfo(np.float32).max))
SLOWEST = wp.constant(1e-12)
"""Smallest divisor [rad/s]: replaces lower no-load speeds, so that the quotient and its gradient are finite."""
FASTEST = wp.constant(1e12)
"""Largest velocity in no-load speeds, for the same reason."""


class DCMotor(Parameters):
    saturation_effort: Number = param("N·m", "Stall effort, at rest.", minimum=0.0, finite=False, fallback=math.inf)
    velocity_limit: Number = param(
        "rad/s", "No-load speed, at which the effort is zero.", above=0.0, finite=False, fallback=math.inf
    )
    max_motor_effort: Number = param(
        "N·m",
        "Peak effort: the largest that motor controller and windings allow, for a short time.",
        minimum=0.0,
        finite=False,
        fallback=math.inf,
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        stall, no_load = (np.asarray(values[name], np.float32) for name in ("saturation_effort", "velocity_limit"))
        refuse_where(
            np.isinf(stall) & np.isfinite(no_load),
            f"{where}: saturation_effort is inf with a finite velocity_limit{{at}}, which defines no torque-speed "
            "line; make saturation_effort finite, or velocity_limit inf",
        )


@wp.func
def dc_motor_law(effort: float, qd: float, saturation_effort: float, velocity_limit: float, max_motor_effort: float):
    stall = wp.min(saturation_effort, LARGEST)
    no_load = wp.max(velocity_limit, SLOWEST)
    fastest = wp.min(FASTEST * no_load, LARGEST)
    speed = limit(qd, -fastest, fastest) / no_load
    highest = limit(stall * (1.0 - speed), -max_motor_effort, max_motor_effort)
    lowest = limit(stall * (-1.0 - speed), -max_motor_effort, max_motor_effort)
    return limit(effort, lowest, highest)


class DCMotorClampingConfig(DCMotor, Config):
    """Torque-speed limits of a DC motor.

    Examples:
        >>> limit = actuon.DCMotorClampingConfig(
        ...     saturation_effort=33.5, velocity_limit=21.0, max_motor_effort=28.0
        ... )
    """

    schema = "NewtonDCMotorClampingAPI"


class ClampingDCMotor(DCMotor, Clamping):
    """Four-quadrant torque-speed envelope of a DC motor.

    Examples:
        >>> limit = actuon.ClampingDCMotor(
        ...     saturation_effort=33.5, velocity_limit=21.0, max_motor_effort=28.0
        ... )
    """

    config = DCMotorClampingConfig
    law = dc_motor_law
