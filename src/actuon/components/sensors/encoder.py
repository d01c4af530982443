# SPDX-License-Identifier: Apache-2.0
r"""Encoder: the position in whole steps, with a bias.

.. math::
    q \leftarrow r\;\mathrm{round}((q + b)/r)

The rounding error is between :math:`\pm r/2`, with a mean of zero. Gradients ignore the rounding.
"""

from __future__ import annotations

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Sensor

FINEST = wp.constant(1e-12)
MOST_STEPS = wp.constant(8388608.0)
"""Number of steps, 2²³, from which a 32-bit number has no fraction."""


class Encoder(Parameters):
    resolution: Number = param(
        "rad",
        "One step of the encoder: 2π over its counts per turn. 0 does not round.",
        default=0.0,
        minimum=0.0,
    )
    bias: Number = param("rad", "Offset of the measured position.", default=0.0)


@wp.func
def rounded_to(x: float, resolution: float):
    """Round ``x`` to whole steps; unchanged if they are zero, or too fine for 32 bits."""
    steps = x / wp.max(resolution, FINEST)
    return wp.where(resolution > FINEST and wp.abs(steps) < MOST_STEPS, resolution * wp.round(steps), x)


@wp.func_grad(rounded_to)
def adj_rounded_to(x: float, resolution: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.func
def encoder_law(q: float, qd: float, resolution: float, bias: float):
    return rounded_to(q + bias, resolution), qd


class EncoderSensorConfig(Encoder, Config):
    """Resolution and bias of an encoder.

    Examples:
        >>> sensor = actuon.EncoderSensorConfig(resolution=2.0 * np.pi / 4096, bias=0.002)
    """

    schema = "ActuonEncoderSensorAPI"


class SensorEncoder(Encoder, Sensor):
    """Position of an encoder: rounded to its steps, with a bias. The velocity is unchanged.

    Examples:
        >>> sensor = actuon.SensorEncoder(resolution=2.0 * np.pi / 4096, bias=0.002)
    """

    config = EncoderSensorConfig
    law = encoder_law
