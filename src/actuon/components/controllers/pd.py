# SPDX-License-Identifier: Apache-2.0
r"""Proportional-derivative control.

.. math:: \tau = \tau_0 + \tau_{ff} + k_p (q^* - q) + k_d (\dot q^* - \dot q)
"""

from __future__ import annotations

import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, param
from ..kinds import Controller


class PD(Parameters):
    kp: Number = param("N·m/rad", "Position gain.", minimum=0.0, fallback=0.0)
    kd: Number = param("N·m·s/rad", "Velocity gain.", minimum=0.0, fallback=0.0)
    const_effort: Number = param("N·m", "Constant effort that is added.", default=0.0, optional=True)


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


class PDControlConfig(PD, Config):
    """Gains of a PD controller.

    Examples:
        >>> controller = actuon.PDControlConfig(kp=40.0, kd=1.0)
    """

    schema = "NewtonPDControlAPI"


class ControllerPD(PD, Controller):
    """PD controller with feedforward.

    Examples:
        >>> controller = actuon.ControllerPD(kp=[40.0, 60.0], kd=1.0)
    """

    config = PDControlConfig
    law = pd_law
