# SPDX-License-Identifier: Apache-2.0
r"""Friction of a joint or a gear: Coulomb, viscous, Stribeck and load-dependent, in one equation.

The most that dry friction can hold, its *budget*, for the effort of the motor :math:`\tau`, an external load
:math:`\tau_e` and the velocity :math:`v`, all at the place of the stage:

.. math::
    s &= \exp(-|v/v_s|^\alpha) \\
    F &= F_d + |c_e \tau_e - c_m \tau| + s\,(F_s - F_d + |k_e \tau_e - k_m \tau| + Q) \\
    Q &= \begin{cases}
        q_e \tau_e^2 & |\tau_e| < |\tau| \\
        q_m \tau^2 & |\tau_e| > |\tau|
    \end{cases} \quad \text{where the two have opposite signs, else } 0

These are the extended friction models M1 to M6 of M. Duclusaud, G. Passault, V. Padois and O. Ly, "Extended Friction
Models for the Physics Simulation of Servo Actuators" (2025), of which the simpler ones have fewer terms.

Friction never pushes: over a step :math:`h`, on an inertia :math:`J`, it takes at most what stops the joint,

.. math::
    D &= \tau + \tau_e + J v / h \\
    f_d &= \mathrm{clamp}(D, -F, F) \\
    f &= f_d + \frac{b h}{J + b h} (D - f_d)

which is the implicit solution of :math:`J (v' - v)/h = \tau + \tau_e - f_d - b v'`. Where :math:`|D| \le F`, the joint
stands still after the step. Where an engine solves dry friction itself, it gets :math:`F` and :math:`b` instead, and
the effort is handed on as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...errors import ParameterError, StructureError
from ...kernel.structure import Stage, custom_signal
from ...typing import ArrayLike, DeviceLike
from ..component import limit
from .effect import Effect
from .stribeck import gaussian, stribeck

SHORTEST = wp.constant(1e-9)
"""A time step [s] below this is taken as this."""
SLOWEST = wp.constant(1e-9)
"""A Stribeck velocity [rad/s] below this is taken as this."""

JOINT_LOAD = "joint_load"
"""Name of the array in the simulation's control with the external load of each DOF [N·m or N]."""

LOAD_PARAMETERS = (
    "load_motor",
    "load_external",
    "load_motor_stribeck",
    "load_external_stribeck",
    "load_motor_quadratic",
    "load_external_quadratic",
)
"""Those that make friction depend on the load."""

_STRIBECK = ("load_motor_stribeck", "load_external_stribeck", "load_motor_quadratic", "load_external_quadratic")


def _load(unit: str, doc: str) -> Any:
    return param(unit, doc, default=None, optional=True, minimum=0.0)


@dataclass(frozen=True)
class FrictionEffectConfig(Config):
    """Friction: Coulomb and viscous, Stribeck, load-dependent. What is left out is zero."""

    schema = "ActuonFrictionEffectAPI"

    dynamic: float = param("N·m", "Dry friction of a joint that moves.", default=0.0, minimum=0.0)
    viscous: float = param("N·m·s/rad", "Friction that grows with speed.", default=0.0, minimum=0.0)
    static: float | None = param(
        "N·m", "Dry friction of a joint at rest. Default: as dynamic.", default=None, optional=True, minimum=0.0
    )
    stribeck_velocity: float = param(
        "rad/s", "Speed at which what friction has more at rest has fallen to 1/e.",
        default=0.0, minimum=0.0,
    )  # fmt: skip
    stribeck_exponent: float | None = param(
        "1", "How sharply it falls around that speed. Default: 2.", default=None, optional=True, above=0.0
    )
    load_motor: float | None = _load("1", "Friction as a share of the motor's effort.")
    load_external: float | None = _load("1", "Friction as a share of the external load.")
    load_motor_stribeck: float | None = _load("1", "As load_motor, in addition at rest.")
    load_external_stribeck: float | None = _load("1", "As load_external, in addition at rest.")
    load_motor_quadratic: float | None = _load(
        "1/(N·m)", "Share of the squared motor effort, where the load is stronger."
    )
    load_external_quadratic: float | None = _load("1/(N·m)", "Share of the squared load, where the motor is stronger.")
    inertia: float | None = param(
        "kg·m²", "Inertia that friction stops, where no engine solves friction.", default=None, optional=True, above=0.0
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, Any]) -> None:
        static, dynamic, velocity = (values.get(name) for name in ("static", "dynamic", "stribeck_velocity"))
        if static is not None:
            _refuse(
                np.float32(static) < np.float32(dynamic),
                f"{where}: static is below dynamic",
                "a joint at rest holds at least as much as one that moves; leave static out, or raise it",
            )
        at_rest = [values[name] for name in _STRIBECK if values.get(name) is not None]
        if static is not None:
            at_rest.append(np.float32(static) - np.float32(dynamic))
        for value in at_rest:
            _refuse(
                (np.asarray(value) > 0.0) & (np.asarray(velocity) == 0.0),
                f"{where}: stribeck_velocity is 0",
                "friction that is higher at rest falls over some speed; give stribeck_velocity > 0 [rad/s]",
            )


def _refuse(bad: Any, what: str, rule: str) -> None:
    if np.any(bad):
        at = f" at index {int(np.argmax(bad))}" if np.ndim(bad) else ""
        raise ParameterError(f"{what}{at}; {rule}")


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
    """The most that dry friction can hold [N·m]."""
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
def at_stage(load: float, gear_ratio: float):
    """A load of the joint at the place of the stage [N·m]. No division where the compiler knows that there is none."""
    return wp.where(load == 0.0, 0.0, load / gear_ratio)


@wp.func
def left_of(effort: float, load: float, budget: float, qd: float, dt: float, viscous: float, inertia: float):
    """What friction leaves of an effort [N·m]."""
    step = wp.max(dt, SHORTEST)
    beside = load + inertia * qd * (1.0 / step)
    drive = effort + beside
    dry = limit(drive, -budget, budget)
    brake = viscous * step
    taken = dry + (drive - dry) * (brake / (inertia + brake))
    return wp.where(wp.abs(drive) <= budget, -beside, effort - taken)


@wp.func
def coulomb_law(
    effort: float,
    qd: float,
    dt: float,
    custom_joint_load: float,
    gear_ratio: float,
    dry_friction: float,
    viscous_friction: float,
    dynamic: float,
    viscous: float,
    inertia: float,
):
    """Where nothing is more at rest, and nothing depends on the load."""
    left = left_of(effort, at_stage(custom_joint_load, gear_ratio), dynamic, qd, dt, viscous, inertia)
    return left, dry_friction + wp.abs(gear_ratio) * dynamic, viscous_friction + gear_ratio * gear_ratio * viscous


@wp.func
def stribeck_law(
    effort: float,
    qd: float,
    dt: float,
    custom_joint_load: float,
    gear_ratio: float,
    dry_friction: float,
    viscous_friction: float,
    dynamic: float,
    viscous: float,
    static: float,
    stribeck_velocity: float,
    inertia: float,
):
    """Where nothing depends on the load, and the exponent is 2."""
    budget = dynamic + gaussian(qd / wp.max(stribeck_velocity, SLOWEST)) * wp.max(static - dynamic, 0.0)
    left = left_of(effort, at_stage(custom_joint_load, gear_ratio), budget, qd, dt, viscous, inertia)
    return left, dry_friction + wp.abs(gear_ratio) * budget, viscous_friction + gear_ratio * gear_ratio * viscous


@wp.func
def friction_law(
    effort: float,
    qd: float,
    dt: float,
    custom_joint_load: float,
    gear_ratio: float,
    dry_friction: float,
    viscous_friction: float,
    dynamic: float,
    viscous: float,
    static: float,
    stribeck_velocity: float,
    stribeck_exponent: float,
    load_motor: float,
    load_external: float,
    load_motor_stribeck: float,
    load_external_stribeck: float,
    load_motor_quadratic: float,
    load_external_quadratic: float,
    inertia: float,
):
    load = at_stage(custom_joint_load, gear_ratio)
    budget = friction_budget(
        effort, load, qd, dynamic, static, stribeck_velocity, stribeck_exponent, load_motor, load_external,
        load_motor_stribeck, load_external_stribeck, load_motor_quadratic, load_external_quadratic,
    )  # fmt: skip
    left = left_of(effort, load, budget, qd, dt, viscous, inertia)
    return left, dry_friction + wp.abs(gear_ratio) * budget, viscous_friction + gear_ratio * gear_ratio * viscous


@wp.func
def friction_in_engine_law(
    effort: float,
    qd: float,
    custom_joint_load: float,
    gear_ratio: float,
    dry_friction: float,
    viscous_friction: float,
    dynamic: float,
    viscous: float,
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
    load = at_stage(custom_joint_load, gear_ratio)
    budget = friction_budget(
        effort, load, qd, dynamic, static, stribeck_velocity, stribeck_exponent, load_motor, load_external,
        load_motor_stribeck, load_external_stribeck, load_motor_quadratic, load_external_quadratic,
    )  # fmt: skip
    dry_sum = dry_friction + wp.abs(gear_ratio) * budget
    return effort, dry_sum, viscous_friction + gear_ratio * gear_ratio * viscous


@wp.func
def friction_apart_law(
    effort: float,
    qd: float,
    dt: float,
    spring_load: float,
    gear_ratio: float,
    dynamic: float,
    viscous: float,
    static: float,
    stribeck_velocity: float,
    stribeck_exponent: float,
    load_motor: float,
    load_external: float,
    load_motor_stribeck: float,
    load_external_stribeck: float,
    load_motor_quadratic: float,
    load_external_quadratic: float,
    inertia: float,
):
    """Behind a spring, whose force is the load, and of which the joint feels nothing but that force."""
    load = at_stage(spring_load, gear_ratio)
    budget = friction_budget(
        effort, load, qd, dynamic, static, stribeck_velocity, stribeck_exponent, load_motor, load_external,
        load_motor_stribeck, load_external_stribeck, load_motor_quadratic, load_external_quadratic,
    )  # fmt: skip
    step = wp.max(dt, SHORTEST)
    beside = load + inertia * qd * (1.0 / step)
    dry = limit(effort + beside, -budget, budget)
    slowing = viscous * qd * (inertia / (inertia + viscous * step))
    return wp.where(wp.abs(effort + beside) <= budget, -beside, effort - dry - slowing)


class EffectFriction(Effect):
    """Coulomb, viscous, Stribeck and load-dependent friction that never pushes, and holds a joint at rest.

    It offers ``dry_friction`` [N·m], its budget, and ``viscous_friction`` [N·m·s/rad], both at the joint; those of
    several stages add up. An external load is read from the array ``joint_load`` [N·m] of the simulation's control,
    where there is one.

    Behind a spring, a gap or a coupling of joints, the joint does not feel it as friction of its own: it offers
    nothing, no engine solves it, and its load is the force of the spring.

    Args:
        dynamic: Dry friction of a joint that moves [N·m or N], shape (N,).
        viscous: Friction that grows with speed [N·m·s/rad or N·s/m], shape (N,).
        static: Dry friction of a joint at rest [N·m or N], shape (N,). Default: as ``dynamic``.
        stribeck_velocity: Speed at which what is more at rest has fallen to 1/e [rad/s or m/s], shape (N,).
        stribeck_exponent: How sharply it falls [1], shape (N,). Default: 2.
        load_motor: Share of the motor's effort that rubs [1], shape (N,).
        load_external: Share of the external load that rubs [1], shape (N,).
        load_motor_stribeck: As ``load_motor``, at rest and in addition [1], shape (N,).
        load_external_stribeck: As ``load_external``, at rest and in addition [1], shape (N,).
        load_motor_quadratic: Of the motor's effort squared, at rest, where an opposite load is stronger [1/(N·m)],
            shape (N,).
        load_external_quadratic: Of the load squared, at rest, where an opposite motor is stronger [1/(N·m)], shape
            (N,).
        inertia: What is to be stopped [kg·m² or kg], shape (N,): of all that moves with the joint, as felt at the place
            of the stage. Needed where no engine solves friction.
    """

    config = FrictionEffectConfig
    law = friction_law
    OUTPUTS = ("dry_friction", "viscous_friction")
    OPTIONAL_SIGNALS = MappingProxyType(
        {"gear_ratio": 1.0}
        | dict.fromkeys(("dry_friction", "viscous_friction", "spring_load", custom_signal(JOINT_LOAD)), 0.0)
    )
    OPTIONAL_INPUTS = (JOINT_LOAD,)

    def __init__(
        self,
        dynamic: ArrayLike = 0.0,
        viscous: ArrayLike = 0.0,
        static: ArrayLike | None = None,
        stribeck_velocity: ArrayLike = 0.0,
        stribeck_exponent: ArrayLike | None = None,
        load_motor: ArrayLike | None = None,
        load_external: ArrayLike | None = None,
        load_motor_stribeck: ArrayLike | None = None,
        load_external_stribeck: ArrayLike | None = None,
        load_motor_quadratic: ArrayLike | None = None,
        load_external_quadratic: ArrayLike | None = None,
        inertia: ArrayLike | None = None,
    ):
        super().__init__(
            dynamic,
            viscous,
            static,
            stribeck_velocity,
            stribeck_exponent,
            load_motor,
            load_external,
            load_motor_stribeck,
            load_external_stribeck,
            load_motor_quadratic,
            load_external_quadratic,
            inertia,
        )

    def stage(self) -> Stage:
        """The component as a kernel sees it: its law without the terms that are left out.

        An engine need not tell loads on which nothing depends.
        """
        stage = super().stage()
        if self.is_apart:
            return dataclasses.replace(stage, law=friction_apart_law, outputs=(), custom_inputs=())
        depends_on_load = any(self._values[name] is not None for name in LOAD_PARAMETERS)
        if self.in_engine:
            inputs = stage.custom_inputs if depends_on_load else ()
            return dataclasses.replace(stage, law=friction_in_engine_law, custom_inputs=inputs)
        if depends_on_load or self._values["stribeck_exponent"] is not None:
            return stage
        return dataclasses.replace(stage, law=coulomb_law if self._values["static"] is None else stribeck_law)

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        if not self.in_engine and self._values["inertia"] is None:
            which = "on the motor's side of the spring or coupling" if self.is_apart else "that moves with the joint"
            raise StructureError(
                f"EffectFriction: needs inertia [kg·m²], of all {which}, since no engine solves friction here, or its "
                "options switch that off: friction takes at most what stops it within a step"
            )
        super().finalize(device, num_actuators)
