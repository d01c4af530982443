# SPDX-License-Identifier: Apache-2.0
r"""Proportional-integral-derivative control.

.. math::
    I &\leftarrow \mathrm{clamp}(I + (q^* - q)\,\Delta t,\; \pm I_{max}) \\
    \tau &= \tau_0 + \tau_{ff} + k_p (q^* - q) + k_i I + k_d (\dot q^* - \dot q)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from ..numerics import integrated
from .controller import Controller


@dataclass(frozen=True)
class PIDControlConfig(Config):
    """Gains of a PID controller."""

    schema = "NewtonPIDControlAPI"

    kp: float = param("N·m/rad", "Position gain.", minimum=0.0, fallback=0.0)
    ki: float = param("N·m/(rad·s)", "Integral gain.", minimum=0.0, fallback=0.0)
    kd: float = param("N·m·s/rad", "Velocity gain.", minimum=0.0, fallback=0.0)
    integral_max: float = param(
        "rad·s", "Bound of the integrated position error, either way.", default=math.inf, minimum=0.0, finite=False
    )
    const_effort: float = param("N·m", "Effort that is always added.", default=0.0, optional=True)


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


class ControllerPID(Controller):
    """PID controller with feedforward and a bounded integral.

    The integral is updated before it is used, so that it acts in the first step already.

    Args:
        kp: Position gains [N·m/rad or N/m], shape (N,).
        ki: Integral gains [N·m/(rad·s) or N/(m·s)], shape (N,).
        kd: Velocity gains [N·m·s/rad or N·s/m], shape (N,).
        integral_max: Bounds of the integral [rad·s or m·s], shape (N,).
        const_effort: Efforts that are always added [N·m or N], shape (N,). None adds nothing.
    """

    config = PIDControlConfig
    law = pid_law
    STATES = ("integral", "integral_rest")
    ADDED_STATES = frozenset({"integral_rest"})

    def __init__(
        self,
        kp: ArrayLike,
        ki: ArrayLike,
        kd: ArrayLike,
        integral_max: ArrayLike = math.inf,
        const_effort: ArrayLike | None = None,
    ):
        super().__init__(kp, ki, kd, integral_max, const_effort)
