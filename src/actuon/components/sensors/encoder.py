# SPDX-License-Identifier: Apache-2.0
r"""An encoder: the position in whole steps, and off by a bias.

.. math::
    q \leftarrow r\;\mathrm{round}((q + b)/r)

The error of rounding is between :math:`\pm r/2`, with a mean of zero. A gradient passes as if it were not rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from .sensor import Sensor

FINEST = wp.constant(1e-12)
MOST_STEPS = wp.constant(8388608.0)
"""From 2²³ steps on, a number of 32 bits has no fractions to round off."""


@dataclass(frozen=True)
class EncoderSensorConfig(Config):
    """What an encoder shows of the position."""

    schema = "ActuonEncoderSensorAPI"

    resolution: float = param(
        "rad",
        "One step of the encoder: 2π over its counts per turn. 0 does not round.",
        default=0.0,
        minimum=0.0,
    )
    bias: float = param("rad", "Offset that is added to the position.", default=0.0)


@wp.func
def rounded_to(x: float, resolution: float):
    """``x`` as a whole number of steps; as it is where they are zero, or too fine for 32 bits."""
    steps = x / wp.max(resolution, FINEST)
    return wp.where(resolution > FINEST and wp.abs(steps) < MOST_STEPS, resolution * wp.round(steps), x)


@wp.func_grad(rounded_to)
def adj_rounded_to(x: float, resolution: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.func
def encoder_law(q: float, qd: float, resolution: float, bias: float):
    return rounded_to(q + bias, resolution), qd


class SensorEncoder(Sensor):
    """Position as an encoder shows it: rounded to its steps, with a bias. The velocity passes.

    Args:
        resolution: Steps of the encoders [rad], shape (N,). 0 does not round.
        bias: What is added to the positions [rad], shape (N,).
    """

    config = EncoderSensorConfig
    law = encoder_law

    def __init__(self, resolution: ArrayLike = 0.0, bias: ArrayLike = 0.0):
        super().__init__(resolution, bias)
