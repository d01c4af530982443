# SPDX-License-Identifier: Apache-2.0
"""Fits: residuals of candidates on plants of every kind, and a search by seed."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import actuon
from actuon.fit import (
    PRESETS,
    FitResult,
    JointLog,
    KnownLoadPlant,
    Log,
    Model,
    Parameter,
    RobotPlant,
    SearchOptions,
    fit_logs,
)
from actuon.fit.excite import ExcitationOptions, Limits, excite
from actuon.fit.terms import JointFacts, build_model

from .case import Case, Scope, leave_out_adjoints, seeded
from .rollout import Named

CANDIDATES = 4
ARM = """<mujoco><compiler angle="radian"/>
<option timestep="0.002" iterations="10" ls_iterations="20" integrator="implicitfast"/><worldbody><body name="base">
<geom size="0.05"/><body name="upper"><joint name="shoulder" axis="0 1 0" armature="0.02" range="-3 3" limited="true"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/>
<body name="lower" pos="0.3 0 0"><joint name="elbow" axis="0 1 0" armature="0.02" range="-1 1" limited="true"/>
<geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.3"/></body></body></body></worldbody></mujoco>"""


def _log(name: str, joints: dict[str, float], *, seconds: float = 1.5, kp: float = 1.0) -> Log:
    """Return a log of joints that follow a command late and less, around where they stand.

    Args:
        name: Of its file; the motion depends on it.
        joints: Position around which each of them moves [rad].
        seconds: How long.
        kp: A gain that the log states.
    """
    rng = seeded(f"log {name}")
    time = 0.01 + np.cumsum(rng.uniform(0.008, 0.012, int(seconds / 0.01)))
    made = []
    for joint, middle in joints.items():
        sizes, rates, phases = rng.uniform([[0.05], [2.0], [-3.0]], [[0.2], [9.0], [3.0]], (3, 3))[..., None]
        command = middle + (sizes * np.sin(rates * time + phases)).sum(axis=0)
        position = middle + 0.8 * (sizes * np.sin(rates * (time - 0.05) + phases)).sum(axis=0)
        enabled = time < time[0] + 0.8 * seconds
        shown = position + 1e-3 * rng.standard_normal(len(time))
        made.append(JointLog(joint, shown, command, enabled=enabled if len(joints) == 1 else None))
    return Log(name, time, tuple(made), {"mass": 0.5, "length": 0.1, "kp": kp})


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="golden-fits-")


def _arm() -> Path:
    path = Path(_folder().name) / "arm.xml"
    path.write_text(ARM, encoding="utf-8")
    return path


_ONE = {"joint": 0.3}
_TWO = {"shoulder": 0.2, "elbow": -0.1}


def _pendulum() -> Any:
    return KnownLoadPlant([_log("a", _ONE), _log("b", _ONE)], dt=0.002)


def _servo_of_three_gains() -> Any:
    return KnownLoadPlant([_log(f"gain {kp}", _ONE, kp=kp) for kp in (1.0, 2.0, 3.0)], dt=0.002)


def _robot() -> Any:
    return RobotPlant(_arm(), [_log("a", _TWO), _log("b", _TWO, seconds=1.0)], dt=0.002)


def _windows() -> Any:
    return RobotPlant(_arm(), [_log("a", _TWO), _log("b", _TWO, seconds=1.0)], dt=0.002, window=0.5)


def _zeros() -> Any:
    logs = [_log("a", _TWO), _log("b", _TWO, seconds=1.0)]
    return RobotPlant(_arm(), logs, dt=0.002, window=0.5, encoder_offset_per_log=True)


def _usd() -> Any:
    leave_out_adjoints()
    return RobotPlant(actuon.assets.arm_usd, [_log("usd", {"joint2": 0.3, "joint4": -1.5}, seconds=0.6)])


PLANTS: dict[str, Callable[[], Any]] = {
    "pendulum": _pendulum,
    "servo of three gains": _servo_of_three_gains,
    "robot": _robot,
    "windows": _windows,
    "zeros": _zeros,
    "usd": _usd,
}

_GEAR = actuon.GearTransmissionConfig(1.0, reflected_inertia=0.02)
_KP = Parameter("controller.kp", 2.0, 60.0, scale="log")
_ARMATURE = Parameter("transmission.reflected_inertia", 5e-3, 0.1, scale="log")
_RUBBING = (
    Parameter("friction.dynamic", 1e-2, 0.5, scale="log"),
    Parameter("friction.viscous", 1e-2, 1.0, scale="log"),
)
_ELECTRIC = {"torque_constant": 0.8, "resistance": 2.0, "bus_voltage": 12.0}

MODELS: dict[str, Model] = {
    "pd": Model("pd", actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.5), transmission=_GEAR), (_KP, _ARMATURE)),
    "pd with friction": Model(
        "pd with friction",
        actuon.ActuatorConfig(
            actuon.PDControlConfig(20.0, 0.0),
            delay=actuon.InterpolatedDelayConfig(0.005),
            transmission=_GEAR,
            effects=[actuon.FrictionEffectConfig(0.1, 0.1)],
            sensors=[actuon.EncoderSensorConfig()],
        ),
        (_KP, Parameter("delay.delay", 0.0, 0.02), Parameter("encoder.bias", -0.05, 0.05), *_RUBBING),
    ),
    "servo": Model(
        "servo",
        actuon.ActuatorConfig(
            actuon.ServoPWMControlConfig(2.0, **_ELECTRIC),
            transmission=_GEAR,
            effects=[actuon.FrictionEffectConfig(0.1, 0.1, 0.2, 0.2, load_motor=0.1, load_external=0.1)],
        ),
        (
            Parameter("controller.kp", 0.5, 4.0, scale="log"),
            _ARMATURE,
            *_RUBBING,
            Parameter("friction.load_motor", 0.0, 0.3, also=("friction.load_external",)),
        ),
        scaled_by={"controller.kp": "kp"},
        settings={"kp": 1.0},
    ),
}


def cases(scope: Scope) -> Iterator[Case]:
    """Return the cases of all plants and models, and of searches."""
    for plant in PLANTS:
        for model in MODELS:
            yield Case(f"residuals/{plant}/{model}", functools.partial(_residuals, plant, model))
    for plant in ("pendulum", "robot"):
        yield Case(f"search/{plant}", functools.partial(_search, plant))
    for name in MORE_SEARCHES:
        yield Case(f"search/{name}", functools.partial(_search_more, name))
    yield Case("excite", _excite)
    for facts in FACTS:
        yield Case(f"models/{facts}", functools.partial(_models, facts))


def _residuals(plant_name: str, model_name: str) -> Named:
    plant, model = PLANTS[plant_name](), MODELS[model_name]
    rng = seeded(f"candidates of {plant_name} {model_name}")
    candidates = [_drawn(model, rng) for _ in plant.joints]
    if plant.log_parameters:
        model = model.freed(plant.log_parameters[0])
        logs = plant.parts("log").of_run
        candidates = [_with_column(own, _ZEROS[logs, joint]) for joint, own in enumerate(candidates)]
    trials = plant.trials([model for _ in plant.joints], candidates)
    for i, found in enumerate(plant.residuals(trials)):
        yield f"run {i}", found
    yield "errors", plant.errors(trials)


_ZEROS = np.array([[0.02, -0.01], [-0.03, 0.04]])
"""Of encoders, by log and joint [rad]."""


def _with_column(candidates: np.ndarray, by_run: np.ndarray) -> np.ndarray:
    """Return candidates, shape (C, P), with a number of each run behind theirs, shape (C, R, P + 1)."""
    count, runs = len(candidates), len(by_run)
    column = np.broadcast_to(by_run[None, :, None], (count, runs, 1))
    return np.concatenate([np.repeat(candidates[:, None], runs, axis=1), column], axis=2)


def _drawn(model: Model, rng: np.random.Generator) -> np.ndarray:
    """Draw candidates over the ranges of a model's parameters, shape (C, P)."""
    shares = rng.uniform(0.0, 1.0, (CANDIDATES, len(model.parameters)))
    columns = []
    for share, parameter in zip(shares.T, model.parameters, strict=True):
        low, high = float(parameter.low), float(parameter.high)
        columns.append(low * (high / low) ** share if parameter.scale == "log" else low + (high - low) * share)
    return np.stack(columns, axis=1)


_SHORT = SearchOptions(seed=3, starts=1, population=12, generations=5)


def _search(plant_name: str) -> Named:
    """Yield what a short fit finds: a search by seed, and the least squares after it."""
    yield from _found(fit_logs(model=MODELS["pd with friction"], plant=PLANTS[plant_name](), options=_SHORT))


def _found(result: FitResult) -> Named:
    for joint in result.joints:
        yield f"{joint.name}/values", joint.values
    yield "error", np.array(result.error)
    yield "evaluations", np.array(result.evaluations)


def _free_link() -> Any:
    """Return a robot whose joints are searched together, since the mass of a link is looked for."""
    free = {"elbow": {"link.mass": (0.1, 0.8)}}
    return RobotPlant(_arm(), [_log("a", _TWO)], dt=0.002, window=0.5, free=free)


def _own_zeros() -> Any:
    """Return a robot whose encoders have zeros of their own in each log."""
    logs = [_log("a", _TWO), _log("b", _TWO)]
    free = {"elbow": {"link.mass": (0.1, 0.8)}}
    return RobotPlant(_arm(), logs, dt=0.002, window=0.5, free=free, encoder_offset_per_log=True)


MORE_SEARCHES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "three starts": (_robot, {"model": MODELS["pd"], "options": dataclasses.replace(_SHORT, starts=3)}),
    "gains": (_servo_of_three_gains, {"model": MODELS["servo"], "options": _SHORT}),
    "together": (_free_link, {"model": MODELS["pd"], "options": _SHORT}),
    "zeros": (_own_zeros, {"model": MODELS["pd"], "options": _SHORT}),
    "selection": (_pendulum, {"select": [MODELS["pd"], MODELS["pd with friction"]], "options": _SHORT}),
    "selection of a robot": (_robot, {"select": ["pd", "pd_coulomb"], "options": _SHORT}),
    "selection with zeros": (_own_zeros, {"select": [MODELS["pd"]], "options": _SHORT}),
}


def _search_more(name: str) -> Named:
    plant, given = MORE_SEARCHES[name]
    result = fit_logs(plant=plant(), **given)
    yield from _found(result)
    for joint in result.joints:
        yield f"{joint.name}/ends", np.array([(p.low, p.high) for p in joint.parameters])
        yield f"{joint.name}/covariance", joint.covariance
    for compared in result.compared:
        yield f"{compared.name}/held out", compared.by_run
    if result.encoder_offsets:
        yield "zeros", np.array([list(own.values()) for own in result.encoder_offsets.values()])


def _excite() -> Named:
    """Yield the motion that tells most of a model."""
    model = MODELS["pd with friction"]
    options = ExcitationOptions(seconds=3.0, generations=5, seed=3)
    settings = {"mass": 0.5, "length": 0.1}
    found = excite("joint", model, model.start, Limits(-1.0, 1.0, speed=8.0), settings, options)
    yield "command", found.command
    yield "position", found.position
    yield "effort", found.effort
    yield "after", np.array([one.after for one in found.parameters])


def _servo_log(name: str, **extra: Any) -> Log:
    log = _log(name, _ONE)
    return dataclasses.replace(log, settings={**log.settings, "vin": 12.0, **extra})


def _with_duty(log: Log) -> Log:
    (joint,) = log.joints
    duty = np.clip(4.0 * (joint.command - joint.position), -0.5, 0.5)
    return dataclasses.replace(log, joints=(dataclasses.replace(joint, extra={"duty": duty}),))


def _pushed(log: Log) -> Log:
    (joint,) = log.joints
    assert joint.command is not None
    pushed = dataclasses.replace(joint, command=None, effort_command=0.1 * joint.command)
    return dataclasses.replace(log, joints=(pushed,))


FACTS: dict[str, Callable[[], list[Log]]] = {
    "position": lambda: [_log("a", _ONE)],
    "gains": lambda: [_servo_log("a", kp=2.0), _servo_log("b", kp=5.0)],
    "duty": lambda: [_with_duty(_servo_log("a"))],
    "efforts": lambda: [_pushed(_log("a", _ONE))],
}
_ADDED = ("", "+limit", "+dead_band", "+supply", "+backlash", "+limit+backlash", "+dead_band+supply+limit")


def _models(facts: str) -> Named:
    """Yield all presets with additions, as the text of their fields; of one that is refused, why."""
    plant = KnownLoadPlant(FACTS[facts](), dt=0.002)
    for name in PRESETS:
        for added in _ADDED:
            try:
                model = _model(name + added, plant)
            except actuon.ActuonError as error:
                text = str(error)
            else:
                fields = (model.name, _chain(model.actuator), _shown(model.parameters), dict(model.scaled_by))
                text = repr((*fields, dict(model.settings), dict(model.links)))
            yield name + added, np.frombuffer(text.encode(), np.uint8)


def _model(name: str, plant: Any) -> Model:
    """Return the model of a name as it is fitted to the one joint of a plant."""
    return build_model(name, JointFacts(plant.scales()[0], plant.runs, plant.joints[0]))


def _chain(chain: actuon.ActuatorConfig) -> str:
    return repr((chain.stages, chain.control_every, chain.effort_mode))


def _shown(parameters: Sequence[Parameter]) -> list[tuple[Any, ...]]:
    return [(p.path, p.low, p.high, p.start, p.scale, p.also, p.added_to) for p in parameters]
