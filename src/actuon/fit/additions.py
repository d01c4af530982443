# SPDX-License-Identifier: Apache-2.0
"""What may be added to a model by name: ``servo_m4+backlash`` is `servo_m4` with play between motor and joint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..actuator.config import Part
from ..components.controllers.servo_pwm import ServoPWMControlConfig
from ..components.effects.friction import FrictionEffectConfig
from ..components.limits.battery import BatteryClampingConfig
from ..components.limits.max_effort import MaxEffortClampingConfig
from ..components.transmissions.backlash import BacklashTransmissionConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..errors import ParameterError, listed
from .model import LOG, Model, Parameter

if TYPE_CHECKING:
    from .presets import Bench

_TEETH_GIVE = 5e-3
"""Angle [rad] by which teeth give under the largest effort: stiff, and still stable at usual time steps."""


def add(name: str, model: Model, bench: Bench) -> Model:
    """A model with something added.

    Raises:
        ParameterError: There is nothing of this name, or the model has no place for it.
    """
    if name not in ADDITIONS:
        raise ParameterError(f"model: got '+{name}'; {listed(name, ADDITIONS, 'additions')}")
    return ADDITIONS[name](dataclasses.replace(model, name=f"{model.name}+{name}"), bench)


def _limit(model: Model, bench: Bench) -> Model:
    """A largest effort."""
    effort = bench.scales.effort
    stages = _after_controller(model, MaxEffortClampingConfig(2.0 * effort))
    return _with(model, stages, Parameter("max_effort.max_effort", 0.2 * effort, 20.0 * effort, 2.0 * effort, LOG))


def _dead_band(model: Model, bench: Bench) -> Model:
    """Position errors that a servo takes as none."""
    if not isinstance(model.actuator.controller, ServoPWMControlConfig):
        raise ParameterError(f"{model.name}: a PD drive has no dead band; add it to a servo, such as servo_m1")
    return _with(model, list(model.actuator.stages), Parameter("controller.dead_band", 0.0, 0.05, 0.002))


def _supply(model: Model, bench: Bench) -> Model:
    """A supply of a servo that sags under its load."""
    controller = model.actuator.controller
    if not isinstance(controller, ServoPWMControlConfig):
        raise ParameterError(f"{model.name}: a PD drive has no supply; add it to a servo, such as servo_m1")
    ohms = controller.resistance
    stages: list[Part] = [BatteryClampingConfig(controller.bus_voltage, 0.05 * ohms), *model.actuator.stages]
    return _with(model, stages, Parameter("battery.inner_resistance", 1e-3 * ohms, 0.2 * ohms, 0.05 * ohms, LOG))


def _backlash(model: Model, bench: Bench) -> Model:
    """Play between motor and joint. The armature and the friction are then those of the motor, behind the gap."""
    armature = next(p for p in model.parameters if p.path == "transmission.reflected_inertia")
    inertia = armature.start or bench.scales.inertia
    stiffness = bench.scales.effort / _TEETH_GIVE
    play = BacklashTransmissionConfig(0.01, stiffness, inertia, 0.2 * (stiffness * inertia) ** 0.5)
    stages: list[Part] = []
    behind = []
    for part in model.actuator.stages:
        if isinstance(part, GearTransmissionConfig):
            stages.append(play)
        elif isinstance(part, FrictionEffectConfig):
            stages.append(dataclasses.replace(part, inertia=inertia))
            behind.append("friction.inertia")
        else:
            stages.append(part)
    low, high = armature.low, armature.high
    moved = Parameter("transmission.motor_inertia", low, high, inertia, LOG, also=tuple(behind))
    others = tuple(p for p in model.parameters if p is not armature)
    gap = Parameter("transmission.gap", 1e-4, 0.1, 0.01, LOG)
    return dataclasses.replace(model, actuator=model.actuator.with_stages(stages), parameters=(*others, moved, gap))


ADDITIONS: dict[str, Callable[[Model, Bench], Model]] = {
    "limit": _limit,
    "dead_band": _dead_band,
    "supply": _supply,
    "backlash": _backlash,
}
"""What may be added, by name."""


def _after_controller(model: Model, part: Part) -> list[Part]:
    stages = list(model.actuator.stages)
    at = next(i for i, stage in enumerate(stages) if stage is model.actuator.controller)
    return [*stages[: at + 1], part, *stages[at + 1 :]]


def _with(model: Model, stages: list[Part], parameter: Parameter) -> Model:
    return dataclasses.replace(
        model, actuator=model.actuator.with_stages(stages), parameters=(*model.parameters, parameter)
    )
