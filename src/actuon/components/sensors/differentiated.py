# SPDX-License-Identifier: Apache-2.0
r"""Velocity from the difference of positions, as in firmware with an encoder only.

.. math::
    v \leftarrow v + (1 - e^{-\Delta t/T})\,((q_k - q_{k-1})/\Delta t - v)

with the positions of earlier sensors. The velocity is zero in the first step after a reset. Far from zero, where 32-bit
positions are coarse, their rounding error is recovered from the true velocity.
"""

from __future__ import annotations

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Sensor
from ..math import SHORTEST, regained


class Differentiated(Parameters):
    time_constant: Number = param(
        "s", "Time constant of the low-pass filter on the difference. 0 switches it off.", default=0.0, minimum=0.0
    )


@wp.func
def differentiated_law(
    q: float,
    qd: float,
    dt: float,
    last_q: float,
    shown: float,
    is_running: float,
    last_rest: float,
    time_constant: float,
):
    rest = wp.where(is_running > 0.0, regained(q, qd, dt, last_q, last_rest), 0.0)
    way = q - last_q + (rest - last_rest)
    difference = wp.where(is_running > 0.0, way / wp.max(dt, SHORTEST), 0.0)
    filtered = difference + (shown - difference) * wp.exp(-dt / wp.max(time_constant, SHORTEST))
    return q, filtered, q, filtered, 1.0, rest


class DifferentiatedSensorConfig(Differentiated, Config):
    """Velocity from differences of the position, and its filter.

    Examples:
        >>> sensor = actuon.DifferentiatedSensorConfig(time_constant=0.003)
    """

    schema = "ActuonDifferentiatedSensorAPI"


class SensorDifferentiated(Differentiated, Sensor):
    """Velocity from the difference of two positions, through a low-pass filter.

    Examples:
        >>> sensor = actuon.SensorDifferentiated(time_constant=0.003)
    """

    config = DifferentiatedSensorConfig
    law = differentiated_law
    STATES = ("last_q", "shown", "is_running", "last_rest")
