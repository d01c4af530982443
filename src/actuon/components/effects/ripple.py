# SPDX-License-Identifier: Apache-2.0
r"""Cogging, and ripple of the effort over a turn.

.. math::
    \tau \leftarrow \tau\,(1 + r\,\sin(n_r\,q + \varphi)) + \tau_c\,\sin(n_c\,q + \varphi)

Cogging pulls the rotor into the same places whether or not current flows, and does no work over a whole turn; ripple is
a share of the effort. :math:`q` is the angle on the side of the chain where the effect stands, so behind a transmission
that of the motor.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from .effect import Effect


@dataclass(frozen=True)
class RippleEffectConfig(Config):
    """Cogging and ripple of a motor."""

    schema = "ActuonRippleEffectAPI"

    cogging: float = param("N·m", "Largest effort of cogging.", default=0.0, minimum=0.0)
    cogging_periods: float = param("1", "Periods of cogging per turn.", default=12.0, above=0.0)
    ripple: float = param("1", "Ripple as a share of the effort.", default=0.0, minimum=0.0, maximum=1.0)
    ripple_periods: float = param("1", "Periods of ripple per turn.", default=6.0, above=0.0)
    phase: float = param("rad", "Phase at the angle zero.", default=0.0)


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


class EffectRipple(Effect):
    """Cogging and ripple of a motor over its angle.

    Args:
        cogging: Largest efforts of cogging [N·m], shape (N,).
        cogging_periods: Periods of cogging per turn, shape (N,).
        ripple: Ripple as a share of the effort, shape (N,).
        ripple_periods: Periods of ripple per turn, shape (N,).
        phase: Phases at the angle zero [rad], shape (N,).
    """

    config = RippleEffectConfig
    law = ripple_law

    def __init__(
        self,
        cogging: ArrayLike = 0.0,
        cogging_periods: ArrayLike = 12.0,
        ripple: ArrayLike = 0.0,
        ripple_periods: ArrayLike = 6.0,
        phase: ArrayLike = 0.0,
    ):
        super().__init__(cogging, cogging_periods, ripple, ripple_periods, phase)
