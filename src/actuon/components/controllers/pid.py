# SPDX-License-Identifier: Apache-2.0
r"""Proportional-integral-derivative control.

.. math::
    I &\leftarrow \mathrm{clamp}(I + (q^* - q)\,\Delta t,\; \pm I_{max}) \\
    \tau &= \tau_0 + \tau_{ff} + k_p (q^* - q) + k_i I + k_d (\dot q^* - \dot q)
"""

from __future__ import annotations

import math

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Controller
from ..math import integrated


class PID(Parameters):
    kp: Number = param("N·m/rad", "Position gain.", minimum=0.0, fallback=0.0)
    ki: Number = param("N·m/(rad·s)", "Integral gain.", minimum=0.0, fallback=0.0)
    kd: Number = param("N·m·s/rad", "Velocity gain.", minimum=0.0, fallback=0.0)
    integral_max: Number = param(
        "rad·s", "Largest magnitude of the integrated error.", default=math.inf, minimum=0.0, finite=False
    )
    const_effort: Number = param("N·m", "Constant effort that is added.", default=0.0, optional=True)


@wp.func
def pid_law(
    q: float,
    qd: float,
    target_q: float,
    target_qd: float,
    feedforward: float,
    dt: float,
    integral: float,
    integral_rest: float,
    kp: float,
    ki: float,
    kd: float,
    integral_max: float,
    const_effort: float,
):
    error = target_q - q
    accumulated, rest = integrated(integral, error * dt, integral_rest, integral_max)
    effort = const_effort + feedforward + kp * error + ki * accumulated + kd * (target_qd - qd)
    return effort, accumulated, rest


class PIDControlConfig(PID, Config):
    """Gains of a PID controller.

    Examples:
        >>> controller = actuon.PIDControlConfig(kp=40.0, ki=5.0, kd=1.0, integral_max=2.0)
    """

    schema = "NewtonPIDControlAPI"


class ControllerPID(PID, Controller):
    """PID controller with feedforward and a bounded integral.

    The integral is updated before it is used, so it acts from the first step on.

    Examples:
        >>> controller = actuon.ControllerPID(kp=40.0, ki=5.0, kd=1.0, integral_max=2.0)
    """

    config = PIDControlConfig
    law = pid_law
    STATES = ("integral", "integral_rest")
