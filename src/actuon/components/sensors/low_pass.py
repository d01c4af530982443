# SPDX-License-Identifier: Apache-2.0
r"""Low-pass filter of the measured velocity.

.. math::
    T\,\dot v + v = \dot q

by its exact solution for a velocity that is constant over the step. It is unfiltered in the first step after a reset.
"""

from __future__ import annotations

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Sensor
from ..math import SHORTEST


class LowPass(Parameters):
    time_constant: Number = param("s", "Time constant: 1/(2π · cut-off frequency).", minimum=0.0)


@wp.func
def low_pass_law(q: float, qd: float, dt: float, shown: float, is_running: float, time_constant: float):
    before = wp.where(is_running > 0.0, shown, qd)
    filtered = qd + (before - qd) * wp.exp(-dt / wp.max(time_constant, SHORTEST))
    return q, filtered, filtered, 1.0


class LowPassSensorConfig(LowPass, Config):
    """Low-pass filter of the measured velocity.

    Examples:
        >>> sensor = actuon.LowPassSensorConfig(time_constant=0.005)
    """

    schema = "ActuonLowPassSensorAPI"


class SensorLowPass(LowPass, Sensor):
    """First-order low-pass filter of the measured velocity.

    Examples:
        >>> sensor = actuon.SensorLowPass(time_constant=0.005)
    """

    config = LowPassSensorConfig
    law = low_pass_law
    STATES = ("shown", "is_running")
