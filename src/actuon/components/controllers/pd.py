# SPDX-License-Identifier: Apache-2.0
r"""Proportional-derivative control.

.. math:: \tau = \tau_0 + \tau_{ff} + k_p (q^* - q) + k_d (\dot q^* - \dot q)
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...typing import ArrayLike
from .controller import Controller


@dataclass(frozen=True)
class PDControlConfig(Config):
    """Gains of a PD controller."""

    schema = "NewtonPDControlAPI"

    kp: float = param("N·m/rad", "Position gain.", minimum=0.0, fallback=0.0)
    kd: float = param("N·m·s/rad", "Velocity gain.", minimum=0.0, fallback=0.0)
    const_effort: float = param("N·m", "Effort that is always added.", default=0.0, optional=True)


@wp.func
def pd_law(
    q: float,
    qd: float,
    target_q: float,
    target_qd: float,
    feedforward: float,
    kp: float,
    kd: float,
    const_effort: float,
):
    return const_effort + feedforward + kp * (target_q - q) + kd * (target_qd - qd)


class ControllerPD(Controller):
    """PD controller with feedforward. Stateless.

    Args:
        kp: Position gains [N·m/rad or N/m], shape (N,).
        kd: Velocity gains [N·m·s/rad or N·s/m], shape (N,).
        const_effort: Efforts that are always added [N·m or N], shape (N,). None adds nothing.
    """

    config = PDControlConfig
    law = pd_law

    def __init__(self, kp: ArrayLike, kd: ArrayLike, const_effort: ArrayLike | None = None):
        super().__init__(kp, kd, const_effort)
