# SPDX-License-Identifier: Apache-2.0
r"""Current loop of a motor controller: a first-order lag with a limited rate.

.. math::
    \dot\tau = \mathrm{clamp}((\tau^* - \tau)/T,\; \pm s)

The law is the exact solution for a requested effort :math:`\tau^*` that is constant over the step, at any step: while
the error is larger than :math:`s\,T`, it shrinks at the rate :math:`s`; then it decays exponentially.
"""

from __future__ import annotations

import math

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Effect
from ..math import SHORTEST

STEEPEST = wp.constant(1e30)
"""Largest rate [N·m/s]: replaces higher ones."""


class CurrentLoop(Parameters):
    time_constant: Number = param("s", "Time constant of the closed current loop: 1/(2π · bandwidth).", minimum=0.0)
    max_slope: Number = param(
        "N·m/s", "Largest rate of change of the effort.", default=math.inf, above=0.0, finite=False
    )


@wp.func
def current_loop_law(effort: float, dt: float, reached: float, time_constant: float, max_slope: float):
    slope = wp.min(max_slope, STEEPEST)
    lag = wp.max(time_constant, SHORTEST)
    error = effort - reached
    sign = wp.where(error < 0.0, -1.0, 1.0)
    size = sign * error
    sloping = wp.min(wp.max(size - slope * lag, 0.0) / slope, dt)
    left = (size - slope * sloping) * wp.exp((sloping - dt) / lag)
    following = effort - sign * left
    return following, following


class CurrentLoopEffectConfig(CurrentLoop, Config):
    """Lag of a motor's effort behind the requested one.

    Examples:
        >>> effect = actuon.CurrentLoopEffectConfig(time_constant=0.001)
    """

    schema = "ActuonCurrentLoopEffectAPI"


class EffectCurrentLoop(CurrentLoop, Effect):
    """First-order lag of the effort with a limited rate. The effort is zero after a reset.

    Examples:
        >>> effect = actuon.EffectCurrentLoop(time_constant=0.001, max_slope=5000.0)
    """

    config = CurrentLoopEffectConfig
    law = current_loop_law
    STATES = ("reached",)
