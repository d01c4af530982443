# SPDX-License-Identifier: Apache-2.0
r"""Friction of a joint or a gear: Coulomb, viscous, Stribeck and load-dependent, in one equation.

The largest effort of dry friction, its *budget*, for the motor's effort :math:`\tau`, an external load :math:`\tau_e`
and the velocity :math:`v`, all at the stage:

.. math::
    s &= \exp(-|v/v_s|^\alpha) \\
    F &= F_d + |c_e \tau_e - c_m \tau| + s\,(F_s - F_d + |k_e \tau_e - k_m \tau| + Q) \\
    Q &= \begin{cases}
        q_e \tau_e^2 & |\tau_e| < |\tau| \\
        q_m \tau^2 & |\tau_e| > |\tau|
    \end{cases} \quad \text{if the two have opposite signs, else } 0

These are the extended friction models M1 to M6 of M. Duclusaud, G. Passault, V. Padois and O. Ly, "Extended Friction
Models for the Physics Simulation of Servo Actuators" (2025); the simpler models have fewer terms.

Friction never accelerates: over a step :math:`h`, on an inertia :math:`J`, it is at most what stops the joint,

.. math::
    D &= \tau + \tau_e + J v / h \\
    f_d &= \mathrm{clamp}(D, -F, F) \\
    f &= f_d + \frac{b h}{J + b h} (D - f_d)

which is the implicit solution of :math:`J (v' - v)/h = \tau + \tau_e - f_d - b v'`. If :math:`|D| \le F`, the joint is
at rest after the step. An engine that solves dry friction itself gets :math:`F` and :math:`b` instead, and the effort
is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, OptionalNumber, Parameters, ParameterValue, param
from ...errors import StructureError, refuse_where
from ...kernel.chain import Law, custom_signal
from ...typing import DeviceLike
from ..kinds import Effect
from ..math import JOINT_LOAD, SHORTEST, as_numbers, gaussian, limit, stribeck

SLOWEST = wp.constant(1e-9)
"""Smallest divisor [rad/s]: replaces lower Stribeck velocities."""

LOAD_PARAMETERS = (
    "load_motor",
    "load_external",
    "load_motor_stribeck",
    "load_external_stribeck",
    "load_motor_quadratic",
    "load_external_quadratic",
)
"""Parameters that make friction depend on the load."""


def depends_on_load(values: Mapping[str, ParameterValue]) -> np.ndarray:
    """Return whether friction with these parameters depends on the load: a bool, or an array of them."""
    found = np.zeros((), bool)
    for name in LOAD_PARAMETERS:
        found = found | (as_numbers(values.get(name), 0.0) > 0.0)
    return found


_STRIBECK = ("load_motor_stribeck", "load_external_stribeck", "load_motor_quadratic", "load_external_quadratic")


def _load(unit: str, doc: str) -> Any:
    return param(unit, doc, default=None, optional=True, minimum=0.0)


class Friction(Parameters):
    dynamic: Number = param("N·m", "Dry friction of a moving joint.", default=0.0, minimum=0.0)
    viscous: Number = param("N·m·s/rad", "Friction proportional to speed.", default=0.0, minimum=0.0)
    static: OptionalNumber = param(
        "N·m", "Dry friction of a joint at rest. Default: dynamic.", default=None, optional=True, minimum=0.0
    )
    stribeck_velocity: Number = param(
        "rad/s", "Speed at which the extra static friction has decayed to 1/e.",
        default=0.0, minimum=0.0,
    )  # fmt: skip
    stribeck_exponent: OptionalNumber = param(
        "1", "Exponent of that decay over speed. Default: 2.", default=None, optional=True, above=0.0
    )
    load_motor: OptionalNumber = _load("1", "Friction as a share of the motor's effort.")
    load_external: OptionalNumber = _load("1", "Friction as a share of the external load.")
    load_motor_stribeck: OptionalNumber = _load("1", "Like load_motor, additional at rest.")
    load_external_stribeck: OptionalNumber = _load("1", "Like load_external, additional at rest.")
    load_motor_quadratic: OptionalNumber = _load(
        "1/(N·m)", "Share of the squared motor effort, if the load is stronger."
    )
    load_external_quadratic: OptionalNumber = _load("1/(N·m)", "Share of the squared load, if the motor is stronger.")
    inertia: OptionalNumber = param(
        "kg·m²", "Inertia that friction stops, if no engine solves friction.", default=None, optional=True, above=0.0
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        static, dynamic, velocity = (values.get(name) for name in ("static", "dynamic", "stribeck_velocity"))
        if static is not None:
            refuse_where(
                np.asarray(static, np.float32) < np.asarray(dynamic, np.float32),
                f"{where}: static is below dynamic{{at}}; must be at least dynamic, or unset",
            )
        at_rest = [values[name] for name in _STRIBECK if values.get(name) is not None]
        if static is not None:
            at_rest.append(np.asarray(static, np.float32) - np.asarray(dynamic, np.float32))
        for value in at_rest:
            refuse_where(
                (np.asarray(value) > 0.0) & (np.asarray(velocity) == 0.0),
                f"{where}: stribeck_velocity is 0{{at}}; must be > 0 [rad/s] if friction is higher at rest",
            )


@wp.func
def joint_load_law(custom_joint_load: float, gear_ratio: float):
    """Return the joint's external load at the stage [N·m]. The compiler removes the division if it is always zero."""
    return wp.where(custom_joint_load == 0.0, 0.0, custom_joint_load / gear_ratio)


@wp.func
def spring_load_law(spring_load: float, gear_ratio: float):
    """Return the load of an earlier spring at the stage [N·m]."""
    return wp.where(spring_load == 0.0, 0.0, spring_load / gear_ratio)


@wp.func
def no_load_law():
    """Return zero load [N·m], for parameters that do not depend on it."""
    return 0.0


# The budget of dry friction [N·m]: three laws, since compilers keep terms with zero coefficients.


@wp.func
def coulomb_law(dynamic: float):
    """Return the budget without Stribeck and load terms [N·m]."""
    return dynamic


@wp.func
def stribeck_law(qd: float, dynamic: float, static: float, stribeck_velocity: float):
    """Return the budget without load terms, with the exponent 2 [N·m]."""
    return dynamic + gaussian(qd / wp.max(stribeck_velocity, SLOWEST)) * wp.max(static - dynamic, 0.0)


@wp.func
def friction_budget(
    effort: float,
    load: float,
    qd: float,
    dynamic: float,
    static: float,
    stribeck_velocity: float,
    stribeck_exponent: float,
    load_motor: float,
    load_external: float,
    load_motor_stribeck: float,
    load_external_stribeck: float,
    load_motor_quadratic: float,
    load_external_quadratic: float,
):
    """Return the budget of all terms [N·m]."""
    exponent = wp.where(stribeck_exponent > 0.0, stribeck_exponent, 2.0)
    at_rest = stribeck(wp.abs(qd) / wp.max(stribeck_velocity, SLOWEST), exponent)
    squared = wp.where(
        wp.abs(load) < wp.abs(effort),
        load_external_quadratic * load * load,
        wp.where(wp.abs(load) > wp.abs(effort), load_motor_quadratic * effort * effort, 0.0),
    )
    quadratic = wp.where((load < 0.0) != (effort < 0.0), squared, 0.0)
    more = wp.max(static - dynamic, 0.0) + wp.abs(load_external_stribeck * load - load_motor_stribeck * effort)
    return dynamic + wp.abs(load_external * load - load_motor * effort) + at_rest * (more + quadratic)


@wp.func
def loaded_law(
    effort: float,
    load: float,
    qd: float,
    dynamic: float,
    static: float,
    stribeck_velocity: float,
    stribeck_exponent: float,
    load_motor: float,
    load_external: float,
    load_motor_stribeck: float,
    load_external_stribeck: float,
    load_motor_quadratic: float,
    load_external_quadratic: float,
):
    """Return the budget of all terms. A wrapper, so that `wp.grad` differentiates `friction_budget` as a whole."""
    return friction_budget(
        effort, load, qd, dynamic, static, stribeck_velocity, stribeck_exponent, load_motor, load_external,
        load_motor_stribeck, load_external_stribeck, load_motor_quadratic, load_external_quadratic,
    )  # fmt: skip


@wp.func
def brake_law(effort: float, load: float, budget: float, qd: float, dt: float, viscous: float, inertia: float):
    """Return the effort after friction [N·m]."""
    step = wp.max(dt, SHORTEST)
    beside = load + inertia * qd * (1.0 / step)
    drive = effort + beside
    dry = limit(drive, -budget, budget)
    brake = viscous * step
    taken = dry + (drive - dry) * (brake / (inertia + brake))
    return wp.where(wp.abs(drive) <= budget, -beside, effort - taken)


@wp.func
def spring_brake_law(effort: float, load: float, budget: float, qd: float, dt: float, viscous: float, inertia: float):
    """Return the effort after friction [N·m] behind a spring, which alone acts on the joint."""
    step = wp.max(dt, SHORTEST)
    beside = load + inertia * qd * (1.0 / step)
    dry = limit(effort + beside, -budget, budget)
    slowing = viscous * qd * (inertia / (inertia + viscous * step))
    return wp.where(wp.abs(effort + beside) <= budget, -beside, effort - dry - slowing)


@wp.func
def offer_law(budget: float, gear_ratio: float, dry_friction: float, viscous_friction: float, viscous: float):
    """Return the joint friction for an engine to solve instead, including that of earlier stages."""
    return dry_friction + wp.abs(gear_ratio) * budget, viscous_friction + gear_ratio * gear_ratio * viscous


class FrictionEffectConfig(Friction, Config):
    """Friction: Coulomb, viscous, Stribeck and load-dependent. Unset terms are zero.

    Examples:
        >>> effect = actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.01)
    """

    schema = "ActuonFrictionEffectAPI"


class EffectFriction(Friction, Effect):
    """Coulomb, viscous, Stribeck and load-dependent friction that never accelerates, and holds a joint at rest.

    Offers ``dry_friction`` [N·m], its budget, and ``viscous_friction`` [N·m·s/rad], both at the joint, summed over
    stages. The optional array ``joint_load`` [N·m] in the simulation's control is the external load.

    Behind a spring, a gap or a coupling of joints, friction does not act on the joint directly: it offers nothing, no
    engine solves it, and its load is the force of the spring.

    Examples:
        >>> effect = actuon.EffectFriction(dynamic=0.2, viscous=0.01, inertia=0.02)
    """

    config = FrictionEffectConfig
    OUTPUTS = ("dry_friction", "viscous_friction")
    OPTIONAL_SIGNALS = MappingProxyType(
        {"gear_ratio": 1.0}
        | dict.fromkeys(("dry_friction", "viscous_friction", "spring_load", custom_signal(JOINT_LOAD)), 0.0)
    )
    OPTIONAL_INPUTS = (JOINT_LOAD,)

    def laws(self) -> tuple[Law, ...]:
        """Return the stage functions: load, budget, effort after friction, and friction that an engine may solve."""
        depends_on_load = any(self._values[name] is not None for name in LOAD_PARAMETERS)
        if self.behind_spring:
            return Law(spring_load_law, ("load",)), Law(loaded_law, ("budget",)), Law(spring_brake_law)
        if self.in_engine:
            load = joint_load_law if depends_on_load else no_load_law
            return Law(load, ("load",)), Law(loaded_law, ("budget",)), Law(offer_law, self.OUTPUTS)
        budget = loaded_law
        if not depends_on_load and self._values["stribeck_exponent"] is None:
            budget = coulomb_law if self._values["static"] is None else stribeck_law
        return (
            Law(joint_load_law, ("load",)),
            Law(budget, ("budget",)),
            Law(brake_law),
            Law(offer_law, self.OUTPUTS),
        )

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        if not self.in_engine and self._values["inertia"] is None:
            which = "the motor side of the spring or coupling" if self.behind_spring else "the joint and its load"
            raise StructureError(
                f"EffectFriction: needs inertia, that of {which} [kg·m²], because no engine solves friction here, or "
                "the engine's options disable it: friction is limited to the effort that stops this inertia in a step"
            )
        super().finalize(device, num_actuators)
