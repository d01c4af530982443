# SPDX-License-Identifier: Apache-2.0
r"""A gear with a constant ratio, and losses by the direction of power.

.. math::
    q_m &= n q, \qquad \dot q_m = n \dot q \\
    \tau &= n \tau_m \left(1 + s (f - 1)\right), \qquad
    f = \begin{cases} \eta & \tau_m \dot q_m > 0 \\ 1/\eta_b & \text{else} \end{cases}, \qquad
    s = \min(|\dot q_m| / v_s,\; 1)

Power flows from the motor to the joint with :math:`\eta`, and from the joint to the motor with :math:`\eta_b`: in all
four quadrants, no side receives more power than the other delivers. The drive does not know the losses: the motor
receives the requested effort divided by the ratio. With ``compensates_losses``, it receives the effort that delivers
the requested one.

A loss is friction proportional to the load, which jumps when the motion reverses. Without an engine or an inertia, it
fades to zero at rest, over :math:`v_s`. (Simscape Driveline models a gear in the same way: constant efficiencies by the
direction of power, smoothed to one without power.) An engine that solves dry friction gets it as the budget

.. math::
    F = \max\left(b\,\sigma\tau_e - c\,\sigma n\tau_m,\; (1 - \eta)\,\sigma n\tau_m,\; 0\right), \qquad
    c = \begin{cases} 1/\eta_b - 1 & \eta_b \ge 1/2 \\ 1 & \text{else} \end{cases}, \qquad
    b = \max(1 - 2\eta_b, 0)

for the external load :math:`\tau_e` and the direction :math:`\sigma` of the motion, at rest that of
:math:`n\tau_m + \tau_e`. Driving, it is :math:`(1 - \eta)` of the motor's effort; at constant speed, a load that
drives the motor leaves it :math:`\eta_b` of its power. Below 1/2, a part follows from the load instead of the motor's
effort, so that friction never changes more than the effort does, and a self-locking gear (:math:`\eta_b < 0`) holds
any load. With an ``inertia`` J, the joint receives in each step the effort between :math:`n\tau_m - F_+` and
:math:`n\tau_m + F_-` that is nearest to the one that stops it, :math:`-\tau_e - J \dot q/h`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Field, Number, OptionalNumber, Parameters, ParameterValue, param
from ...errors import ParameterError, StructureError, refuse_where
from ...kernel.chain import Law, Stage, custom_signal
from ...typing import DeviceLike
from ..kinds import SMALLEST_RATIO, Transmission
from ..math import JOINT_FRICTION, JOINT_LOAD, SHORTEST, as_numbers

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
        "Share of the joint's power that reaches the motor, if the joint drives it; below 0: self-locking. "
        "Default: efficiency.",
        default=None,
        optional=True,
        minimum=-10.0,
        maximum=1.0,
    )
    compensates_losses: Field[bool | None] = param(
        "", "Whether the drive adds the losses to its request, as one calibrated at the output does. Default: false.",
        default=None, optional=True, boolean=True,
    )  # fmt: skip
    rotor_inertia: Number = param("kg·m²", "Inertia of the rotor, at the motor.", default=0.0, minimum=0.0)
    reflected_inertia: Number = param(
        "kg·m²", "Inertia of the rotor at the joint, rotor_inertia·ratio²; set only one.", default=0.0, minimum=0.0
    )
    smoothing_velocity: OptionalNumber = param(
        "rad/s", "Motor speed at which losses reach their full value, from zero at rest. Default: 1.", default=None,
        optional=True, above=0.0,
    )  # fmt: skip
    inertia: OptionalNumber = param(
        "kg·m²", "Inertia that losses stop, at the joint, if no engine solves friction.", default=None, optional=True,
        above=0.0,
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
        if values["backdrive_efficiency"] is not None:
            refuse_where(
                np.asarray(values["backdrive_efficiency"]) == 0.0,
                f"{where}.backdrive_efficiency: got 0{{at}}; must be > 0, or < 0 for a self-locking gear, such as "
                "2 − 1/efficiency",
            )


def loses(values: Mapping[str, ParameterValue]) -> np.ndarray:
    """Return whether a gear with these parameters has losses: a bool, or an array of them."""
    lossy: np.ndarray = as_numbers(values["efficiency"], 1.0) < 1.0
    return lossy | (as_numbers(values.get("backdrive_efficiency"), 1.0) < 1.0)


@wp.func
def back_efficiency(efficiency: float, backdrive_efficiency: float):
    """Return the efficiency of driving the motor: by default, that of driving the joint."""
    return wp.where(backdrive_efficiency == 0.0, wp.max(efficiency, LEAST_EFFICIENCY), backdrive_efficiency)


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
    back = wp.max(back_efficiency(efficiency, backdrive_efficiency), LEAST_EFFICIENCY)
    threshold = wp.where(smoothing_velocity > 0.0, wp.max(smoothing_velocity, SLOWEST), 1.0)
    share = wp.min(wp.abs(motor_velocity), threshold) / threshold
    is_driving = power > 0.0
    above = wp.where(is_driving, 1.0 + share * (forward - 1.0), back + share * (1.0 - back))
    return above, wp.where(is_driving, 1.0, back)


@wp.func
def motor_effort_law(
    qd: float,
    effort: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
    compensates_losses: float,
):
    """Return the motor's effort for a requested effort [N·m]."""
    above, below = losses(ratio * qd, effort * qd, efficiency, backdrive_efficiency, smoothing_velocity)
    return wp.where(compensates_losses > 0.0, effort * below / (ratio * above), effort / ratio)


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
    compensates_losses: float,
):
    velocity = ratio * qd
    motor_effort = motor_effort_law(
        qd, effort, ratio, efficiency, backdrive_efficiency, smoothing_velocity, compensates_losses
    )
    return ratio * q, velocity, motor_effort, velocity, gear_ratio * ratio


@wp.func
def gear_closing_law(
    qd: float,
    effort: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
):
    """Return the joint's effort with losses that fade to zero at rest."""
    velocity = ratio * qd
    above, below = losses(velocity, effort * velocity, efficiency, backdrive_efficiency, smoothing_velocity)
    return ratio * effort * (above / below), effort


# Losses as friction: the closing functions also need the ratio of the joint to this gear, a result of the law.


@wp.func
def solved_gear_law(
    q: float,
    qd: float,
    effort: float,
    gear_ratio: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
    compensates_losses: float,
):
    position, velocity, motor_effort, motor_velocity, total_ratio = gear_law(
        q, qd, effort, gear_ratio, ratio, efficiency, backdrive_efficiency, smoothing_velocity, compensates_losses
    )
    return position, velocity, motor_effort, motor_velocity, total_ratio, gear_ratio


@wp.func
def loss_friction(effort: float, load: float, efficiency: float, backdrive_efficiency: float):
    """Return the friction against a motion [N·m], for the motor's effort and the external load along it."""
    back = back_efficiency(efficiency, backdrive_efficiency)
    by_effort = wp.where(back < 0.5, 1.0, 1.0 / wp.max(back, 0.5) - 1.0)
    driven = wp.max(1.0 - 2.0 * back, 0.0) * load - by_effort * effort
    return wp.max(wp.max(driven, (1.0 - efficiency) * effort), 0.0)


@wp.func
def solved_closing_law(
    qd: float,
    effort: float,
    gear_input_ratio: float,
    dry_friction: float,
    custom_joint_load: float,
    custom_joint_friction: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    smoothing_velocity: float,
):
    """Return the joint's effort without losses, and its dry friction, losses included, for an engine to solve."""
    given = ratio * effort
    load = custom_joint_load / gear_input_ratio
    threshold = wp.where(smoothing_velocity > 0.0, wp.max(smoothing_velocity, SLOWEST), 1.0)
    along = wp.where(wp.abs(ratio * qd) < threshold, given + load, qd)
    side = wp.where(along < 0.0, -1.0, 1.0)
    friction = loss_friction(side * given, side * load, efficiency, backdrive_efficiency)
    return given, effort, dry_friction + custom_joint_friction + wp.abs(gear_input_ratio) * friction


@wp.func
def braked(
    qd: float,
    effort: float,
    load: float,
    dt: float,
    efficiency: float,
    backdrive_efficiency: float,
    inertia: float,
):
    """Return the effort between those of both directions that is nearest to the one that stops ``inertia``."""
    beside = load + inertia * qd * (1.0 / wp.max(dt, SHORTEST))
    forward = loss_friction(effort, load, efficiency, backdrive_efficiency)
    back = loss_friction(-effort, -load, efficiency, backdrive_efficiency)
    drive = effort + beside
    return wp.where(drive <= forward, wp.where(drive >= -back, -beside, effort + back), effort - forward)


@wp.func
def braked_closing_law(
    qd: float,
    effort: float,
    dt: float,
    gear_input_ratio: float,
    custom_joint_load: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    inertia: float,
):
    """Return the joint's effort with losses that never accelerate it."""
    load = custom_joint_load / gear_input_ratio
    return braked(qd, ratio * effort, load, dt, efficiency, backdrive_efficiency, inertia), effort


@wp.func
def spring_braked_closing_law(
    qd: float,
    effort: float,
    dt: float,
    gear_input_ratio: float,
    spring_load: float,
    ratio: float,
    efficiency: float,
    backdrive_efficiency: float,
    inertia: float,
):
    """Like `braked_closing_law`, behind a spring."""
    load = spring_load / gear_input_ratio
    return braked(qd, ratio * effort, load, dt, efficiency, backdrive_efficiency, inertia), effort


class GearTransmissionConfig(Gear, Config):
    """Gear between motor and joint.

    Examples:
        >>> transmission = actuon.GearTransmissionConfig(ratio=9.0, rotor_inertia=6e-5)
    """

    schema = "ActuonGearTransmissionAPI"


class TransmissionGear(Gear, Transmission):
    """Gear: the motor turns ``ratio`` times as fast as the joint, with 1/``ratio`` of its effort.

    On robots, the inertia of the rotor becomes the joint's armature in the engine, and the losses of a gear that has
    some when the robot is attached are solved as dry friction. The optional array ``joint_load`` [N·m] in the
    simulation's control is then the external load, and ``joint_friction`` [N·m] the dry friction of the joint that is
    not the motor's.

    Examples:
        >>> transmission = actuon.TransmissionGear(
        ...     ratio=9.0, efficiency=0.9, rotor_inertia=6e-5
        ... )
    """

    config = GearTransmissionConfig
    law = solved_gear_law
    closing_law = gear_closing_law
    OUTPUTS = ("motor_velocity", "gear_ratio", "gear_input_ratio")
    CLOSING_OUTPUTS = ("motor_effort",)
    OPTIONAL_SIGNALS = MappingProxyType(
        {"gear_ratio": 1.0}
        | dict.fromkeys(("dry_friction", "spring_load", custom_signal(JOINT_LOAD), custom_signal(JOINT_FRICTION)), 0.0)
    )
    OPTIONAL_INPUTS = (JOINT_LOAD, JOINT_FRICTION)
    _loses: bool = False
    """Whether it had losses when it was bound. Otherwise those of later parameters fade to zero at rest."""

    @property
    def has_solved_losses(self) -> bool:
        """Whether an engine solves the losses as dry friction."""
        return self._loses and self.losses_in_engine

    @property
    def has_friction(self) -> bool:
        """Whether losses are friction, solved by an engine or for ``inertia``. Otherwise they fade to zero at rest."""
        return self._loses and (self.losses_in_engine or self._values["inertia"] is not None)

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        super().finalize(device, num_actuators)
        numbers = self.numbers()
        self._loses = bool(loses(numbers).any())
        locks = bool((numbers.get("backdrive_efficiency", np.ones(1)) < 0.0).any())
        if locks and not self.losses_in_engine:
            self.OPTIONAL_INPUTS = (JOINT_FRICTION,)  # type: ignore[misc, assignment]  # without the load, it would hold none
        if locks and not self.has_friction:
            raise StructureError(
                "TransmissionGear: got a negative backdrive_efficiency; a self-locking gear needs inertia, that of the "
                "joint and its load [kg·m²], because no engine solves friction here"
            )

    def laws(self) -> tuple[Law, ...]:
        """Return the stage function."""
        outputs = (*self._returns, "motor_velocity", "gear_ratio")
        if self.has_friction:
            return (Law(solved_gear_law, (*outputs, "gear_input_ratio")),)
        return (Law(gear_law, outputs),)

    def stage(self) -> Stage:
        """Return the description of the gear for a kernel, with the closing function for its losses."""
        stage = super().stage()
        if self.has_solved_losses:
            closing = Law(solved_closing_law, ("effort", "motor_effort", "dry_friction"))
        elif self.has_friction:
            law = spring_braked_closing_law if self.behind_spring else braked_closing_law
            closing = Law(law, ("effort", "motor_effort"))
        else:
            return stage
        inputs = tuple(name for name in type(self).OPTIONAL_INPUTS if custom_signal(name) in closing.inputs)
        return dataclasses.replace(stage, closing=closing, custom_inputs=inputs)

    def uses_dt(self) -> bool:
        """Return whether a stage function takes the time step."""
        return self.has_friction and not self.has_solved_losses

    def constant_ratio(self) -> np.ndarray:
        return self.ratio.numpy()

    def engine_armature(self) -> np.ndarray:
        return self.reflected_inertia.numpy() + self.rotor_inertia.numpy() * self.ratio.numpy() ** 2
