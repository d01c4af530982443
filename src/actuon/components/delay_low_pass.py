# SPDX-License-Identifier: Apache-2.0
r"""Low-pass of the commands: target position, target velocity and feedforward, separately.

.. math:: T\,\dot y + y = u

by its exact solution for a command :math:`u` that is constant over the step. The controller gets :math:`y` at the
beginning of the step, before the command of that step has an effect:

.. math:: y_{k+1} = u_k + (y_k - u_k)\,e^{-\Delta t/T}

The first command after a reset passes unchanged, and :math:`y` starts from it. With :math:`T = 0` all commands pass
unchanged.

The state holds the last command and the distance of :math:`y` from it instead of :math:`y`: the rounding error in 32
bits is then proportional to that distance, even at positions of 10⁴ rad.
"""

from __future__ import annotations

import warp as wp

from ..declare.config import Config
from ..declare.parameters import Number, Parameters, param
from ..declare.registry import ComponentKind
from ..kernel.chain import COMMANDS
from .component import Component
from .math import SHORTEST


class LowPassCommands(Parameters):
    time_constant: Number = param("s", "Time constant: 1/(2π · cut-off frequency). 0 switches it off.", minimum=0.0)


@wp.func
def behind(command: float, last: float, lag: float, is_running: float, time_constant: float):
    """Return the distance of the filter's output from a command."""
    return wp.where(is_running > 0.0, wp.where(time_constant > 0.0, last - command + lag, 0.0), 0.0)


@wp.func
def low_pass_commands_law(
    target_q: float,
    target_qd: float,
    feedforward: float,
    dt: float,
    last_q: float,
    last_qd: float,
    last_feedforward: float,
    lag_q: float,
    lag_qd: float,
    lag_feedforward: float,
    is_running: float,
    time_constant: float,
):
    q = behind(target_q, last_q, lag_q, is_running, time_constant)
    qd = behind(target_qd, last_qd, lag_qd, is_running, time_constant)
    effort = behind(feedforward, last_feedforward, lag_feedforward, is_running, time_constant)
    left = wp.exp(-dt / wp.max(time_constant, SHORTEST))
    return (
        target_q + q,
        target_qd + qd,
        feedforward + effort,
        target_q,
        target_qd,
        feedforward,
        q * left,
        qd * left,
        effort * left,
        1.0,
    )


class LowPassDelayConfig(LowPassCommands, Config):
    """Low-pass of the commands.

    Examples:
        >>> delay = actuon.LowPassDelayConfig(time_constant=0.02)
    """

    schema = "ActuonLowPassDelayAPI"


class DelayLowPass(LowPassCommands, Component):
    """First-order low-pass of the commands, per DOF, as in a servo that smooths its targets.

    Examples:
        >>> delay = actuon.DelayLowPass(time_constant=0.02)
    """

    kind = ComponentKind.DELAY
    config = LowPassDelayConfig
    law = low_pass_commands_law
    STATES = ("last_q", "last_qd", "last_feedforward", "lag_q", "lag_qd", "lag_feedforward", "is_running")
    _returns = COMMANDS
