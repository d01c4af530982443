# SPDX-License-Identifier: Apache-2.0
"""Models to fit by name, composed of terms: ``m4+limit`` is the preset ``m4`` with an effort limit.

A term is one effect: its stages, and their free parameters. A preset is a tuple of terms. The ranges of parameters are
derived from the efforts, speeds and inertias at the joint, so they suit a toy servo as well as a leg.

M1 to M6 are the models of M. Duclusaud, G. Passault, V. Padois and O. Ly, "Extended Friction Models for the Physics
Simulation of Servo Actuators" (2025); ``m2q`` is M2 with the quadratic terms of M6. ``servo_m4`` has the controller of
a servo, the others that of a PD drive.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..actuator.config import ActuatorConfig, Part
from ..components.controllers.pd import PDControlConfig
from ..components.controllers.servo_pwm import ServoPWMControlConfig
from ..components.delay_time import InterpolatedDelayConfig
from ..components.effects.friction import FrictionEffectConfig
from ..components.limits.battery import BatteryClampingConfig
from ..components.limits.max_effort import MaxEffortClampingConfig
from ..components.sensors.encoder import EncoderSensorConfig
from ..components.transmissions.backlash import BacklashTransmissionConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..components.transmissions.series_elastic import SeriesElasticTransmissionConfig
from ..errors import ParameterError, listed
from ..logs import Log
from ..logs.noise import without_spikes
from .model import LOG, Model, Parameter, setting_of, value_at, with_values
from .plants.plant import Scales

_STILL = 1e-3
"""Smallest speed [rad/s or m/s] from which ranges are derived."""
_TEETH_GIVE = 5e-3
"""Deflection of the teeth [rad] under the largest effort: stiff, and stable at usual time steps."""
_SPRING_GIVES = 0.05
"""Deflection of a spring [rad] under the largest effort, around which its stiffness is searched."""
_FULL_SHARE = 0.005
"""Smallest share of samples at the largest duty for which that duty counts as 100 %."""
_UNEXPLAINED = 0.01
"""Largest share of the duty's variance that a proportional law may leave unexplained."""
_ARMATURE = "transmission.reflected_inertia"


@dataclass(frozen=True)
class JointFacts:
    """Facts on a joint from which the ranges of parameters are derived.

    Args:
        scales: Orders of magnitude at the joint.
        logs: Logs of the joint.
        joint: Name of the joint in the logs.
    """

    scales: Scales
    logs: tuple[Log, ...]
    joint: str

    @property
    def voltage(self) -> float | None:
        """Supply voltage [V], from the settings of the logs or measured; None if unknown."""
        stated = [float(log.settings["vin"]) for log in self.logs if isinstance(log.settings.get("vin"), (int, float))]
        if len(stated) == len(self.logs):
            return statistics.fmean(stated)
        measured = [log.joint(self.joint).supply for log in self.logs]
        return float(np.median(np.concatenate(measured))) if all(m is not None for m in measured) else None  # type: ignore[arg-type]

    @property
    def gain_setting(self) -> str:
        """Name of the setting with the gain of the firmware: ``kp`` if every log states it, else empty."""
        stated = [log.settings.get("kp") for log in self.logs]
        return "kp" if all(isinstance(kp, (int, float)) and kp > 0 for kp in stated) else ""

    @property
    def gain(self) -> float:
        """Median gain of the firmware; 1 if the logs do not state it."""
        gains = [float(log.settings["kp"]) for log in self.logs] if self.gain_setting else [1.0]
        return float(statistics.median_low(gains))

    @property
    def tracking_error(self) -> float:
        """Median tracking error [rad or m]; 1 if no positions are commanded."""
        joints = [log.joint(self.joint) for log in self.logs]
        errors = [np.abs(j.command - j.position) for j in joints if j.command is not None]
        return max(float(np.median(np.concatenate(errors))), 1e-4) if errors else 1.0

    @property
    def is_position_commanded(self) -> bool:
        """Whether all logs have commanded positions, and not only efforts."""
        return all(log.joint(self.joint).command is not None for log in self.logs)

    @property
    def is_servo(self) -> bool:
        """Whether the logs suit a servo model: they have commanded positions and a supply voltage."""
        return self.voltage is not None and self.is_position_commanded


def _always(model: Model, facts: JointFacts) -> bool:
    return True


@dataclass(frozen=True)
class Term:
    """One effect that a model can have.

    Args:
        name: Name of the term.
        doc: Noun phrase that describes the effect.
        add: Function that adds the stages and free parameters of the effect to a model.
        suits: Predicate of a model and its joint; False if they lack what the effect needs.
        needs: End of the error message in that case.
    """

    name: str
    doc: str
    add: Callable[[Model, JointFacts], Model]
    suits: Callable[[Model, JointFacts], bool] = _always
    needs: str = ""


def build_model(name: str, facts: JointFacts) -> Model:
    """Build a model by name, with ranges that suit a joint.

    Args:
        name: Presets and terms, separated by ``+``, in any order.
        facts: Facts on the joint.

    Raises:
        ParameterError: A preset or term does not exist, or the logs lack what it needs.
    """
    chosen: set[str] = set()
    for number, part in enumerate(name.split("+")):
        if part not in PRESETS and part not in TERMS:
            got, known, what = (f"+{part}", TERMS, "terms") if number else (part, PRESETS, "models")
            raise ParameterError(f"model: got '{got}'; {listed(part, known, what)}")
        chosen.update(PRESETS.get(part, (part,)))
    setting = facts.gain_setting
    times = {"controller.kp": setting} if setting else {}
    model = Model(name, ActuatorConfig(PDControlConfig(0.0, 0.0)), (), times, {setting: facts.gain} if setting else {})
    for term in TERMS:
        if term in chosen:
            model = add_term(term, model, facts)
    return model


def add_term(name: str, model: Model, facts: JointFacts) -> Model:
    """Add one of `TERMS` to a model.

    Raises:
        ParameterError: The model or its logs lack what the term needs.
    """
    term = TERMS[name]
    if not term.suits(model, facts):
        raise ParameterError(f"{model.name}: {term.needs}")
    return term.add(model, facts)


def _stiffness(facts: JointFacts) -> float:
    return facts.scales.effort / facts.tracking_error


def _kp(model: Model, facts: JointFacts) -> Model:
    if not facts.is_position_commanded:
        return model
    stiffness = _stiffness(facts)
    kp = Parameter("controller.kp", 0.01 * stiffness, 100.0 * stiffness, stiffness, LOG)
    return _with(model, kp, values={kp.path: stiffness})


def _kd(model: Model, facts: JointFacts) -> Model:
    if not facts.is_position_commanded:
        return model
    damping = 0.05 * _stiffness(facts)
    kd = Parameter("controller.kd", 1e-3 * damping, 10.0 * damping, 0.2 * damping, LOG)
    return _with(model, kd, values={kd.path: 0.2 * damping})


def _servo(model: Model, facts: JointFacts) -> Model:
    voltage = facts.voltage
    assert voltage is not None  # by `suits`
    speed, effort = max(facts.scales.speed, _STILL), facts.scales.effort
    most = max(2.0 * voltage / speed, 0.1)
    torque_constant = 0.25 * most
    kt = Parameter("controller.torque_constant", 0.01 * most, most, torque_constant, LOG)
    stall = torque_constant * voltage / effort
    resistance = Parameter("controller.resistance", 0.02 * stall, 20.0 * stall, 0.7 * stall, LOG)
    logged = duty_gain(facts.logs, facts.joint, facts.gain_setting)
    kp = 0.5 / facts.tracking_error if logged is None else logged * facts.gain
    actuator = model.actuator.copy()
    actuator.controller = ServoPWMControlConfig(kp, torque_constant, 0.7 * stall, voltage)
    unknown = () if logged is not None else (Parameter("controller.kp", 0.01 * kp, 100.0 * kp, kp, LOG),)
    return dataclasses.replace(
        model, actuator=actuator, parameters=(*unknown, kt, resistance)
    )  # replaces the gains of a PD drive


def _armature(model: Model, facts: JointFacts) -> Model:
    inertia = facts.scales.inertia
    actuator = model.actuator.copy()
    actuator.transmission = GearTransmissionConfig(1.0, reflected_inertia=0.2 * inertia)
    return _with(model, Parameter(_ARMATURE, 1e-3 * inertia, 10.0 * inertia, 0.2 * inertia, LOG), actuator=actuator)


def _delay(model: Model, facts: JointFacts) -> Model:
    actuator = model.actuator.copy()
    actuator.delay = InterpolatedDelayConfig(0.0)
    return _with(model, Parameter("delay.delay", 0.0, 0.03, 0.004), actuator=actuator)


def _bias(model: Model, facts: JointFacts) -> Model:
    actuator = model.actuator.copy()
    actuator.sensors.append(EncoderSensorConfig())
    return _with(model, Parameter("encoder.bias", -0.1, 0.1, 0.0), actuator=actuator)


def _coulomb(model: Model, facts: JointFacts) -> Model:
    effort = facts.scales.effort
    return _with_friction(model, _friction("dynamic", 1e-4 * effort, effort, 0.03 * effort))


def _viscous(model: Model, facts: JointFacts) -> Model:
    damping = facts.scales.effort / max(facts.scales.speed, _STILL)
    return _with_friction(model, _friction("viscous", 1e-4 * damping, 3.0 * damping, 0.1 * damping))


def _stribeck(model: Model, facts: JointFacts) -> Model:
    effort, speed = facts.scales.effort, max(facts.scales.speed, _STILL)
    return _with_friction(
        model,
        _friction("static", 1e-4 * effort, effort, 0.03 * effort, added_to="friction.dynamic"),
        _friction("stribeck_velocity", 1e-3 * speed, speed, 0.05 * speed),
        _friction("stribeck_exponent", 0.3, 6.0, 1.0),
    )


def _load(model: Model, facts: JointFacts) -> Model:
    return _with_friction(model, _friction("load_motor", 1e-3, 1.0, 0.1, also="load_external"))


def _load_stribeck(model: Model, facts: JointFacts) -> Model:
    return _with_friction(model, _friction("load_motor_stribeck", 1e-3, 1.0, 0.05, also="load_external_stribeck"))


def _asymmetry(model: Model, facts: JointFacts) -> Model:
    parameters = [
        dataclasses.replace(parameter, path=path, also=())
        for parameter in model.parameters
        for path in (parameter.path, *parameter.also)
    ]
    return dataclasses.replace(model, parameters=tuple(parameters))


def _quadratic(model: Model, facts: JointFacts) -> Model:
    effort = facts.scales.effort
    names = ("load_motor_quadratic", "load_external_quadratic")
    return _with_friction(model, *(_friction(name, 1e-2 / effort, 20.0 / effort, 0.3 / effort) for name in names))


def _dead_band(model: Model, facts: JointFacts) -> Model:
    return _with(model, Parameter("controller.dead_band", 0.0, 0.05, 0.002))


def _supply(model: Model, facts: JointFacts) -> Model:
    controller = model.actuator.controller
    assert isinstance(controller, ServoPWMControlConfig)  # by `suits`
    ohms = controller.resistance
    stages: list[Part] = [BatteryClampingConfig(controller.bus_voltage, 0.05 * ohms), *model.actuator.stages]
    sag = Parameter("battery.inner_resistance", 1e-3 * ohms, 0.2 * ohms, 0.05 * ohms, LOG)
    return _with(model, sag, actuator=model.actuator.with_stages(stages))


def _limit(model: Model, facts: JointFacts) -> Model:
    effort = facts.scales.effort
    stages = list(model.actuator.stages)
    behind = 1 + next(i for i, stage in enumerate(stages) if stage is model.actuator.controller)
    stages.insert(behind, MaxEffortClampingConfig(2.0 * effort))
    most = Parameter("max_effort.max_effort", 0.2 * effort, 20.0 * effort, 2.0 * effort, LOG)
    return _with(model, most, actuator=model.actuator.with_stages(stages))


def _backlash(model: Model, facts: JointFacts) -> Model:
    inertia, stiffness = _motor_inertia(model, facts), facts.scales.effort / _TEETH_GIVE
    teeth = BacklashTransmissionConfig(0.01, stiffness, inertia, 0.2 * (stiffness * inertia) ** 0.5)
    return _behind(model, teeth, inertia, Parameter("transmission.gap", 1e-4, 0.1, 0.01, LOG))


def _spring(model: Model, facts: JointFacts) -> Model:
    inertia, stiffness = _motor_inertia(model, facts), facts.scales.effort / _SPRING_GIVES
    damping = 0.2 * (stiffness * inertia) ** 0.5
    return _behind(
        model,
        SeriesElasticTransmissionConfig(stiffness, inertia, damping),
        inertia,
        Parameter("transmission.stiffness", 0.05 * stiffness, 20.0 * stiffness, stiffness, LOG),
        Parameter("transmission.damping", 1e-2 * damping, 10.0 * damping, damping, LOG),
    )


def _motor_inertia(model: Model, facts: JointFacts) -> float:
    return next(p for p in model.parameters if p.path == _ARMATURE).start or facts.scales.inertia


def _behind(
    model: Model,
    transmission: BacklashTransmissionConfig | SeriesElasticTransmissionConfig,
    inertia: float,
    *parameters: Parameter,
) -> Model:
    """Return a model whose armature and friction are behind a transmission, on its motor side."""
    armature = next(p for p in model.parameters if p.path == _ARMATURE)
    actuator = model.actuator.copy()
    actuator.transmission = transmission
    behind = ("friction.inertia",) if _friction_of(model) is not None else ()
    moved = Parameter("transmission.motor_inertia", armature.low, armature.high, inertia, LOG, also=behind)
    others = tuple(p for p in model.parameters if p is not armature)
    model = dataclasses.replace(model, actuator=actuator, parameters=others)
    return _with(model, moved, *parameters, values=dict.fromkeys(behind, inertia))


def _is_servo(model: Model, facts: JointFacts) -> bool:
    return isinstance(model.actuator.controller, ServoPWMControlConfig)


def _has_armature(model: Model, facts: JointFacts) -> bool:
    return _ARMATURE in model.paths


def _has_stribeck(model: Model, facts: JointFacts) -> bool:
    return "friction.stribeck_velocity" in model.paths


def _has_ties(model: Model, facts: JointFacts) -> bool:
    return any(parameter.also for parameter in model.parameters)


TERMS: Mapping[str, Term] = {
    term.name: term
    for term in (
        Term("kp", "Position gain of a PD controller; none if efforts are commanded.", _kp),
        Term("kd", "Velocity gain of a PD controller; none if efforts are commanded.", _kd),
        Term(
            "servo",
            "Controller of a servo: its gain, torque constant and winding.",
            _servo,
            lambda model, facts: facts.is_servo,
            "a servo model needs commanded positions and the supply [V], as 'vin' in the settings of each log or as a "
            "column; without them, fit a PD model such as pd_coulomb or m4",
        ),
        Term("armature", "Inertia of the rotor at the joint.", _armature),
        Term("delay", "Delay of commands.", _delay),
        Term("bias", "Bias of the encoder.", _bias),
        Term("coulomb", "Coulomb friction.", _coulomb),
        Term("viscous", "Viscous friction, proportional to the speed.", _viscous),
        Term("stribeck", "Static friction above Coulomb friction, which decays with speed.", _stribeck),
        Term("load", "Coulomb friction proportional to the efforts on both sides of the gear.", _load),
        Term(
            "load_stribeck",
            "Load-dependent static friction.",
            _load_stribeck,
            _has_stribeck,
            "load-dependent static friction also needs the term 'stribeck'",
        ),
        Term(
            "asymmetry",
            "A coefficient of load-dependent friction for each side of the gear.",
            _asymmetry,
            _has_ties,
            "asymmetry needs load-dependent friction; add it to a model with load, such as m3 or m4",
        ),
        Term(
            "quadratic",
            "Static friction that grows with the square of the efforts.",
            _quadratic,
            _has_stribeck,
            "quadratic static friction also needs the term 'stribeck'",
        ),
        Term(
            "dead_band",
            "Position errors that a servo ignores.",
            _dead_band,
            _is_servo,
            "a PD controller has no dead band; add it to a servo, such as servo_m1",
        ),
        Term(
            "supply",
            "Supply voltage of a servo that sags under load.",
            _supply,
            _is_servo,
            "a PD controller has no supply; add it to a servo, such as servo_m1",
        ),
        Term("limit", "Effort limit.", _limit),
        Term(
            "backlash",
            "Play between motor and joint. Armature and friction are then on the motor side.",
            _backlash,
            _has_armature,
            "backlash also needs the term 'armature', without 'spring'; add it, or use a preset",
        ),
        Term(
            "spring",
            "Spring and damper between motor and joint, whose position is logged and controlled. Armature and friction "
            "are then on the motor side.",
            _spring,
            _has_armature,
            "spring also needs the term 'armature', without 'backlash'; add it, or use a preset",
        ),
    )
}
"""Terms by name, in the order in which they are added."""

_PD, _SERVO, _JOINT = ("kp", "kd"), ("servo",), ("armature", "delay", "bias")
_DRY = ("coulomb", "viscous")
_FRICTIONS: dict[str, tuple[str, ...]] = {
    "m1": _DRY,
    "m2": (*_DRY, "stribeck"),
    "m3": (*_DRY, "load"),
    "m4": (*_DRY, "stribeck", "load", "load_stribeck"),
    "m5": (*_DRY, "stribeck", "load", "load_stribeck", "asymmetry"),
    "m6": (*_DRY, "stribeck", "load", "load_stribeck", "asymmetry", "quadratic"),
    "m2q": (*_DRY, "stribeck", "quadratic"),
}

PRESETS: Mapping[str, tuple[str, ...]] = {
    "pd": (*_PD, *_JOINT),
    "pd_viscous": (*_PD, *_JOINT, "viscous"),
    "pd_coulomb": (*_PD, *_JOINT, *_DRY),
    **{name: (*_PD, *_JOINT, *friction) for name, friction in _FRICTIONS.items()},
    **{f"servo_{name}": (*_SERVO, *_JOINT, *friction) for name, friction in _FRICTIONS.items()},
}
"""Terms of each model by name. A name can add terms: ``m4+limit+backlash``."""

SELECTED: Mapping[str, tuple[str, ...]] = {
    "servo": ("servo_m1", "servo_m3", "servo_m4", "servo_m2q", "servo_m6"),
    "pd": ("pd", "pd_coulomb", "m3", "m4", "m6"),
}
"""Models that a selection compares, by kind of controller, simple ones first."""


def usual_models(joints: Sequence[JointFacts]) -> tuple[str, ...]:
    """Return the names of the models that a selection compares for these joints, simple ones first."""
    return SELECTED["servo" if all(facts.is_servo for facts in joints) else "pd"]


def _with(
    model: Model,
    *parameters: Parameter,
    actuator: ActuatorConfig | None = None,
    values: dict[str, float] | None = None,
) -> Model:
    """Return a model with more free parameters, and with other stages or values."""
    chain = with_values(actuator or model.actuator, values or {})
    return dataclasses.replace(model, actuator=chain, parameters=(*model.parameters, *parameters))


def _friction(name: str, low: float, high: float, start: float, *, also: str = "", added_to: str = "") -> Parameter:
    others = (f"friction.{also}",) if also else ()
    return Parameter(f"friction.{name}", low, high, start, LOG, others, added_to)


def _friction_of(model: Model) -> FrictionEffectConfig | None:
    return next((part for part in model.actuator.stages if isinstance(part, FrictionEffectConfig)), None)


def _with_friction(model: Model, *parameters: Parameter) -> Model:
    """Return a model with more parameters in its friction stage, which is added if needed."""
    actuator = model.actuator.copy()
    if _friction_of(model) is None:
        actuator.effects.append(FrictionEffectConfig())
    values: dict[str, float] = {}
    for parameter in parameters:
        assert parameter.start is not None  # `Parameter` has put one in
        base = value_at(actuator, parameter.added_to) if parameter.added_to else 0.0
        values |= dict.fromkeys((parameter.path, *parameter.also), parameter.start + (base or 0.0))
    return _with(model, *parameters, actuator=actuator, values=values)


def duty_gain(logs: Sequence[Log], joint: str, setting: str = "") -> float | None:
    """Estimate the gain of a servo's firmware [1/rad] from its logged duty: ``duty = gain · (command − position)``.

    The duty must be proportional to the position error, and saturate in some samples; its
    largest value is then 100 %. Position and duty may be sampled at different times: a part of the duty that is
    proportional to the velocity is attributed to that.

    Args:
        logs: The logs.
        joint: Name of the joint.
        setting: Name of a setting of the logs, such as ``kp``, to which the gain is proportional; the result is then
            the gain at a setting of 1. Empty if the gain is the same in all logs.

    Returns:
        The gain; None if the logs do not determine it.
    """
    duties, errors, rates = [], [], []
    for log in logs:
        logged = log.joint(joint)
        if "duty" not in logged.extra or logged.command is None:
            return None
        on = np.ones(len(log), bool) if logged.enabled is None else logged.enabled.astype(bool)
        factor = setting_of(log.settings, setting, "controller.kp") if setting else 1.0
        position = without_spikes(logged.position)
        duties.append(logged.extra["duty"][on])
        errors.append(factor * (logged.command - position)[on])
        rates.append(factor * np.gradient(position, log.time)[on])
    duty, error, rate = (np.concatenate(parts) for parts in (duties, errors, rates))
    full = float(np.abs(duty).max(initial=0.0))
    if full == 0.0 or np.mean(np.abs(duty) >= 0.999 * full) < _FULL_SHARE:
        return None
    inside = np.abs(duty) < 0.98 * full
    if not inside.any():
        return None
    causes, effect = np.stack([error[inside], rate[inside]], axis=1), duty[inside] / full
    (gain, skew), *_ = np.linalg.lstsq(causes, effect, rcond=None)
    left = effect - causes @ (gain, skew)
    unexplained = float(np.mean(left**2) / max(np.mean(effect**2), 1e-300))
    return float(gain) if gain > 0.0 and unexplained < _UNEXPLAINED else None
