# SPDX-License-Identifier: Apache-2.0
"""Models to fit by name: from an ideal PD drive to servos with the whole friction family M1 to M6.

A name is a controller and a friction, such as ``servo_m6``; without a controller it is that of a PD drive. Ranges
follow from how large efforts, speeds and inertias are at the joint, so that they hold for a toy servo and for a leg.

M1 to M6 are the models of M. Duclusaud, G. Passault, V. Padois and O. Ly, "Extended Friction Models for the Physics
Simulation of Servo Actuators" (2025); ``m2q`` is M2 with the quadratic terms of M6.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..actuator.config import ActuatorConfig
from ..components.controllers.pd import PDControlConfig
from ..components.controllers.servo_pwm import ServoPWMControlConfig
from ..components.delay_time import InterpolatedDelayConfig
from ..components.effects.friction import FrictionEffectConfig
from ..components.sensors.encoder import EncoderSensorConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..errors import ParameterError, listed
from ..logs import Log
from .additions import add
from .duty import duty_gain
from .model import LOG, Model, Parameter
from .plants.plant import Scales

_LOAD = ("load_motor", "load_external")
_LOAD_AT_REST = ("load_motor_stribeck", "load_external_stribeck")
_QUADRATIC = ("load_motor_quadratic", "load_external_quadratic")
_AT_REST = ("static", "stribeck_velocity", "stribeck_exponent")

FRICTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "": (),
    "viscous": (("viscous",),),
    "coulomb": (("dynamic",), ("viscous",)),
    "m1": (("dynamic",), ("viscous",)),
    "m2": (("dynamic",), ("viscous",), *((name,) for name in _AT_REST)),
    "m3": (("dynamic",), ("viscous",), _LOAD),
    "m4": (("dynamic",), ("viscous",), *((name,) for name in _AT_REST), _LOAD, _LOAD_AT_REST),
    "m5": (("dynamic",), ("viscous",), *((name,) for name in (*_AT_REST, *_LOAD, *_LOAD_AT_REST))),
    "m6": (("dynamic",), ("viscous",), *((name,) for name in (*_AT_REST, *_LOAD, *_LOAD_AT_REST, *_QUADRATIC))),
    "m2q": (("dynamic",), ("viscous",), *((name,) for name in (*_AT_REST, *_QUADRATIC))),
}
"""Free parameters of friction by name of the model; those in one tuple have the same value."""

PRESETS = (
    "pd",
    "pd_viscous",
    "pd_coulomb",
    *(name for name in FRICTIONS if name.startswith("m")),
    *(f"servo_{name}" for name in FRICTIONS if name.startswith("m")),
)
"""All names of models."""

SELECTED = {
    "servo": ("servo_m1", "servo_m3", "servo_m4", "servo_m2q", "servo_m6"),
    "pd": ("pd", "pd_coulomb", "m3", "m4", "m6"),
}
"""The models that a selection compares, by the kind of controller."""


@dataclass(frozen=True)
class Bench:
    """What presets take from logs and plant."""

    scales: Scales
    logs: tuple[Log, ...]
    joint: str

    @property
    def voltage(self) -> float | None:
        """Of the supply [V]: as the logs state it, or as it was measured; None where it is not known."""
        stated = [float(log.settings["vin"]) for log in self.logs if isinstance(log.settings.get("vin"), (int, float))]
        if len(stated) == len(self.logs):
            return statistics.fmean(stated)
        measured = [log.joint(self.joint).supply for log in self.logs]
        return float(np.median(np.concatenate(measured))) if all(m is not None for m in measured) else None  # type: ignore[arg-type]

    @property
    def setting_of_gain(self) -> str:
        """Name of the setting that holds the firmware's gain: ``kp``, where every log states it, or empty."""
        stated = [log.settings.get("kp") for log in self.logs]
        return "kp" if all(isinstance(kp, (int, float)) and kp > 0 for kp in stated) else ""

    @property
    def gain(self) -> float:
        """The middle one of the firmware's gains, or 1."""
        return (
            float(statistics.median_low([float(log.settings["kp"]) for log in self.logs]))
            if self.setting_of_gain
            else 1.0
        )

    @property
    def error(self) -> float:
        """How far the joint is from its command, usually [rad]."""
        joints = [log.joint(self.joint) for log in self.logs]
        errors = [np.abs(j.command - j.position) for j in joints if j.command is not None]
        return max(float(np.median(np.concatenate(errors))), 1e-4) if errors else 1.0

    @property
    def is_commanded(self) -> bool:
        """Whether positions are commanded, and not efforts alone."""
        return all(log.joint(self.joint).command is not None for log in self.logs)


def preset(name: str, bench: Bench) -> Model:
    """A model by its name, with `ADDITIONS` after a ``+`` each.

    Raises:
        ParameterError: There is none of this name, or the logs do not say what it needs.
    """
    name, *added = name.split("+")
    model = _preset(name, bench)
    for one in added:
        model = add(one, model, bench)
    return model


def _preset(name: str, bench: Bench) -> Model:
    if name not in PRESETS:
        raise ParameterError(f"model: got {name!r}; {listed(name, PRESETS, 'models')}")
    family, _, rest = name.rpartition("_")
    is_servo = family == "servo"
    friction = rest if rest in FRICTIONS else ""
    controller, own = _servo(bench) if is_servo else _pd(bench)
    groups = FRICTIONS[friction]
    rubbing = {
        path: parameter.start for group in groups for parameter in [_friction(group, bench.scales)] for path in group
    }
    if "static" in rubbing:
        rubbing["static"] = (rubbing["static"] or 0.0) + (rubbing["dynamic"] or 0.0)
    inertia = bench.scales.inertia
    armature = Parameter("transmission.reflected_inertia", 1e-3 * inertia, 10.0 * inertia, 0.2 * inertia, LOG)
    actuator = ActuatorConfig(
        controller,
        delay=InterpolatedDelayConfig(0.0),
        transmission=GearTransmissionConfig(1.0, reflected_inertia=armature.start or 0.0),
        effects=[FrictionEffectConfig(**rubbing)] if rubbing else [],
        sensors=[EncoderSensorConfig()],
    )
    free = (
        *own,
        armature,
        Parameter("delay.delay", 0.0, 0.03, 0.004),
        Parameter("encoder.bias", -0.1, 0.1, 0.0),
        *(_friction(group, bench.scales) for group in groups),
    )
    setting = bench.setting_of_gain
    times = {"controller.kp": setting} if setting else {}
    return Model(name, actuator, free, times, {setting: bench.gain} if setting else {})


def _pd(bench: Bench) -> tuple[PDControlConfig, tuple[Parameter, ...]]:
    if not bench.is_commanded:
        return PDControlConfig(0.0, 0.0), ()
    stiffness = bench.scales.effort / bench.error
    kp = Parameter("controller.kp", 0.01 * stiffness, 100.0 * stiffness, stiffness, LOG)
    damping = stiffness * 0.05
    kd = Parameter("controller.kd", 1e-3 * damping, 10.0 * damping, 0.2 * damping, LOG)
    return PDControlConfig(stiffness, 0.2 * damping), (kp, kd)


def _servo(bench: Bench) -> tuple[ServoPWMControlConfig, tuple[Parameter, ...]]:
    voltage = bench.voltage
    if voltage is None or not bench.is_commanded:
        raise ParameterError(
            "a servo model needs the supply [V], as 'vin' among the settings of each log or as a column, and commands "
            "of the position; without them fit a PD model, such as pd_coulomb or m4"
        )
    speed, effort = max(bench.scales.speed, 1e-3), bench.scales.effort
    most = max(2.0 * voltage / speed, 0.1)
    kt = Parameter("controller.torque_constant", 0.01 * most, most, 0.25 * most, LOG)
    stall = kt.start * voltage / effort  # type: ignore[operator]
    resistance = Parameter("controller.resistance", 0.02 * stall, 20.0 * stall, 0.7 * stall, LOG)
    logged = duty_gain(bench.logs, bench.joint, bench.setting_of_gain)
    kp = 0.5 / bench.error if logged is None else logged * bench.gain
    config = ServoPWMControlConfig(kp, kt.start, resistance.start, voltage)
    unknown = () if logged is not None else (Parameter("controller.kp", 0.01 * kp, 100.0 * kp, kp, LOG),)
    return config, (*unknown, kt, resistance)


def _friction(names: Sequence[str], scales: Scales) -> Parameter:
    effort, damping, speed = scales.effort, scales.effort / max(scales.speed, 1e-3), max(scales.speed, 1e-3)
    first, *others = names
    low, high, start, above = {
        "dynamic": (1e-4 * effort, effort, 0.03 * effort, ""),
        "viscous": (1e-4 * damping, 3.0 * damping, 0.1 * damping, ""),
        "static": (1e-4 * effort, effort, 0.03 * effort, "friction.dynamic"),
        "stribeck_velocity": (1e-3 * speed, speed, 0.05 * speed, ""),
        "stribeck_exponent": (0.3, 6.0, 1.0, ""),
        **dict.fromkeys(_LOAD, (1e-3, 1.0, 0.1, "")),
        **dict.fromkeys(_LOAD_AT_REST, (1e-3, 1.0, 0.05, "")),
        **dict.fromkeys(_QUADRATIC, (1e-2 / effort, 20.0 / effort, 0.3 / effort, "")),
    }[first]
    return Parameter(f"friction.{first}", low, high, start, LOG, tuple(f"friction.{name}" for name in others), above)
