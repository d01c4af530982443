# SPDX-License-Identifier: Apache-2.0
r"""A gear with a constant ratio, and losses by the direction of power.

.. math::
    q_m &= n q, \qquad \dot q_m = n \dot q \\
    \tau &= n \tau_m \left(1 + s (f - 1)\right), \qquad
    f = \begin{cases} \eta & \tau_m \dot q_m > 0 \\ 1/\eta_b & \text{else} \end{cases}, \qquad
    s = \min(|\dot q_m| / v_s,\; 1)

Power flows from the motor to the joint with :math:`\eta`, and from the joint to the motor with :math:`\eta_b`: in all
four quadrants, no side receives more power than the other delivers. The loss is friction proportional to the load,
which would jump when the motion reverses; it fades to zero at rest, over :math:`v_s`, so the effort is continuous.
(Simscape Driveline models a gear in the same way: constant efficiencies by the direction of power, smoothed to one
without power.)

The law divides the requested effort by the same factor, at the direction of the requested power: without limits, the
joint receives exactly the requested effort.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, OptionalNumber, Parameters, ParameterValue, param
from ...errors import ParameterError, refuse_where
from ..kinds import SMALLEST_RATIO, Transmission

LEAST_EFFICIENCY = wp.constant(1e-6)
"""Smallest efficiency: replaces lower ones, so that quotients are finite."""
SLOWEST = wp.constant(1e-6)
"""Smallest smoothing velocity [rad/s]: replaces lower ones."""


class Gear(Parameters):
    ratio: Number = param("1", "Turns of the motor per turn of the joint; negative for opposite directions.")
    efficiency: Number = param(
        "1", "Share of the motor's power that reaches the joint.", default=1.0, above=0.0, maximum=1.0
    )
    backdrive_efficiency: OptionalNumber = param(
        "1",
        "Share of the joint's power that reaches the motor, if the joint drives it. Default: efficiency.",
        default=None,
        optional=True,
        above=0.0,
        maximum=1.0,
    )
    rotor_inertia: Number = param("kg·m²", "Inertia of the rotor, at the motor.", default=0.0, minimum=0.0)
    reflected_inertia: Number = param(
        "kg·m²", "Inertia of the rotor at the joint, rotor_inertia·ratio²; set only one.", default=0.0, minimum=0.0
    )
    smoothing_velocity: OptionalNumber = param(
        "rad/s", "Motor speed at which losses reach their full value, from zero at rest. Default: 1.", default=None,
        optional=True, above=0.0,
    )  # fmt: skip

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        refuse_where(
            np.abs(np.asarray(values["ratio"], np.float32)) < SMALLEST_RATIO,
            f"{where}.ratio: got {{got:g}}{{at}}; must have a magnitude of at least {SMALLEST_RATIO:g} [1]",
            got=np.asarray(values["ratio"]),
        )
        both = np.asarray(values["rotor_inertia"] != 0.0) & np.asarray(values["reflected_inertia"] != 0.0)
        if np.any(both):
            raise ParameterError(
                f"{where}: got rotor_inertia and reflected_inertia, which is rotor_inertia·ratio²; set only one of them"
            )


@wp.func
def losses(
    motor_velocity: float,
    power: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
):
    """Return the ratio of the joint's effort to that without loss, as a numerator and a denominator.

    Driving, it is 1 + s·(η − 1); driven, 1 + s·(1/η_b − 1), which is (η_b + s·(1 − η_b))/η_b.
    """
    forward = wp.max(efficiency, LEAST_EFFICIENCY)
    back = wp.where(backdrive_efficiency > 0.0, wp.max(backdrive_efficiency, LEAST_EFFICIENCY), forward)
    threshold = wp.where(smoothing_velocity > 0.0, wp.max(smoothing_velocity, SLOWEST), 1.0)
    share = wp.min(wp.abs(motor_velocity), threshold) / threshold
    is_driving = power > 0.0
    above = wp.where(is_driving, 1.0 + share * (forward - 1.0), back + share * (1.0 - back))
    return above, wp.where(is_driving, 1.0, back)


@wp.func
def gear_law(
    q: float,
    qd: float,
    effort: float,
    gear_ratio: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
):
    velocity = ratio * qd
    above, below = losses(velocity, effort * qd, efficiency, backdrive_efficiency, smoothing_velocity)
    return ratio * q, velocity, effort * below / (ratio * above), velocity, gear_ratio * ratio


@wp.func
def gear_closing_law(
    qd: float,
    effort: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
):
    velocity = ratio * qd
    above, below = losses(velocity, effort * velocity, efficiency, backdrive_efficiency, smoothing_velocity)
    return ratio * effort * (above / below), effort


class GearTransmissionConfig(Gear, Config):
    """Gear between motor and joint.

    Examples:
        >>> transmission = actuon.GearTransmissionConfig(ratio=9.0, rotor_inertia=6e-5)
    """

    schema = "ActuonGearTransmissionAPI"


class TransmissionGear(Gear, Transmission):
    """Gear: the motor turns ``ratio`` times as fast as the joint, with 1/``ratio`` of its effort.

    On robots, the inertia of the rotor becomes the joint's armature in the engine.

    Examples:
        >>> transmission = actuon.TransmissionGear(
        ...     ratio=9.0, efficiency=0.9, rotor_inertia=6e-5
        ... )
    """

    config = GearTransmissionConfig
    law = gear_law
    closing_law = gear_closing_law
    OUTPUTS = ("motor_velocity", "gear_ratio")
    CLOSING_OUTPUTS = ("motor_effort",)
    OPTIONAL_SIGNALS = MappingProxyType({"gear_ratio": 1.0})

    def constant_ratio(self) -> np.ndarray:
        return self.ratio.numpy()

    def engine_armature(self) -> np.ndarray:
        return self.reflected_inertia.numpy() + self.rotor_inertia.numpy() * self.ratio.numpy() ** 2
