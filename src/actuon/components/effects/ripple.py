# SPDX-License-Identifier: Apache-2.0
r"""Cogging and torque ripple over a turn.

.. math::
    \tau \leftarrow \tau\,(1 + r\,\sin(n_r\,q + \varphi)) + \tau_c\,\sin(n_c\,q + \varphi)

Cogging pulls the rotor to fixed angles even without current, and does no work over a whole turn; ripple is proportional
to the effort. :math:`q` is the angle at the stage: after a transmission, that of the motor.
"""

from __future__ import annotations

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Effect


class Ripple(Parameters):
    cogging: Number = param("N·m", "Largest effort of cogging.", default=0.0, minimum=0.0)
    cogging_periods: Number = param("1", "Periods of cogging per turn.", default=12.0, above=0.0)
    ripple: Number = param("1", "Ripple as a share of the effort.", default=0.0, minimum=0.0, maximum=1.0)
    ripple_periods: Number = param("1", "Periods of ripple per turn.", default=6.0, above=0.0)
    phase: Number = param("rad", "Phase at the angle zero.", default=0.0)


@wp.func
def ripple_law(
    effort: float,
    q: float,
    cogging: float,
    cogging_periods: float,
    ripple: float,
    ripple_periods: float,
    phase: float,
):
    return effort * (1.0 + ripple * wp.sin(ripple_periods * q + phase)) + cogging * wp.sin(cogging_periods * q + phase)


class RippleEffectConfig(Ripple, Config):
    """Cogging and ripple of a motor.

    Examples:
        >>> effect = actuon.RippleEffectConfig(cogging=0.05, cogging_periods=84.0)
    """

    schema = "ActuonRippleEffectAPI"


class EffectRipple(Ripple, Effect):
    """Cogging and ripple of a motor over its angle.

    Examples:
        >>> effect = actuon.EffectRipple(cogging=0.05, cogging_periods=84.0)
    """

    config = RippleEffectConfig
    law = ripple_law
