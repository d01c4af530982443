# SPDX-License-Identifier: Apache-2.0
r"""Low-pass of the measured velocity.

.. math::
    T\,\dot v + v = \dot q

by its exact solution for a velocity that is constant over the step. The first step after a reset shows it unfiltered.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from ..numerics import SHORTEST
from .sensor import Sensor


@dataclass(frozen=True)
class LowPassSensorConfig(Config):
    """A low-pass of the velocity."""

    schema = "ActuonLowPassSensorAPI"

    time_constant: float = param("s", "Time constant: 1/(2π · cut-off frequency).", minimum=0.0)


@wp.func
def low_pass_law(q: float, qd: float, dt: float, shown: float, is_running: float, time_constant: float):
    before = wp.where(is_running > 0.0, shown, qd)
    filtered = qd + (before - qd) * wp.exp(-dt / wp.max(time_constant, SHORTEST))
    return q, filtered, filtered, 1.0


class SensorLowPass(Sensor):
    """First-order low-pass of the velocity that the controller sees.

    Args:
        time_constant: Time constants [s], shape (N,).
    """

    config = LowPassSensorConfig
    law = low_pass_law
    STATES = ("shown", "is_running")

    def __init__(self, time_constant: ArrayLike):
        super().__init__(time_constant)
