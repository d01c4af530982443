# SPDX-License-Identifier: Apache-2.0
"""A network controller from logs, and how it compares with physical models on runs that neither has seen."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..actuator.config import ActuatorConfig
from ..components.controllers.neural import NeuralControlConfig
from ..components.effects.friction import FrictionEffectConfig
from ..components.sensors.encoder import EncoderSensorConfig
from ..components.transmissions.gear import GearTransmissionConfig
from ..errors import Option, ParameterError, listed, require
from ..logs import Log
from ..networks.files import save_network
from ..robot_files.provenance import Provenance, Scaled
from ..robot_files.yaml import ActuatorEntry, save_actuators
from ..typing import PathLike
from .apply import Applied, apply_models
from .log_names import log_names
from .model import Model, setting_of
from .network_replay import SMOOTHED
from .plants.known_load import Load
from .plants.plant import Plant, Scales
from .search import SearchOptions
from .select import Compared, compare, groups_of
from .terms import JointFacts
from .workers import LocalWorkers, ProgressFactory, Workers

KINDS = ("mlp", "lstm", "gru")
NETWORK = Option("kind", "KIND")
_SLOW = 0.05
"""Share of the largest speed below which what friction holds is not known."""
_FEWEST = 20
"""Samples that a run needs."""


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """One run at even steps, arrays of shape (T,).

    Args:
        command: [rad].
        position: As measured [rad].
        velocity: [rad/s], of smoothed positions.
        enabled: 1 where the motor is switched on, else 0.
        effort: Of the motor, as logged, or as the load needs it [N·m].
        is_known: 1 where ``effort`` means something, else 0.
        inertia: Of the load [kg·m²].
        gravity: Of the load [N·m].
        factor: By what the position error is multiplied: the gain of the log, compared with the one trained for.
    """

    command: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    enabled: np.ndarray
    effort: np.ndarray
    is_known: np.ndarray
    inertia: float
    gravity: float
    factor: float


@dataclass(frozen=True)
class TrainingJob:
    """A training, with all that it needs.

    Args:
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        runs: What to train on.
        dt: Step of the runs, and of the network [s].
        seed: Seed of the random numbers.
        effort: Largest effort that the load needs [N·m].
        share: Of the usual number of steps.
    """

    kind: str
    runs: tuple[TrainingRun, ...]
    dt: float
    seed: int
    effort: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, and the parameters of the joint that were found with it."""

    kind: str
    weights: dict[str, np.ndarray]
    """By the names of PyTorch."""
    steps: tuple[int, ...]
    """History steps that an MLP sees."""
    pos_scale: float
    vel_scale: float
    effort_scale: float
    dt: float
    dynamic: float
    """Dry friction [N·m]."""
    load: float
    """Share of the efforts that rubs."""
    viscous: float
    """[N·m·s/rad]."""
    armature: float
    """[kg·m²]."""
    bias: float
    """Of the encoder [rad]."""
    ranges: dict[str, tuple[float, float]]
    """Of the inputs in the runs it was trained on: ``position_error`` [rad] and ``velocity`` [rad/s]."""
    error: float
    """Mean absolute error [rad] over windows, at the end."""
    interrupted: bool = False

    @property
    def parameters(self) -> int:
        """Number of trained values."""
        return sum(array.size for array in self.weights.values()) + 5


@dataclass(frozen=True, eq=False)
class NetworkResult:
    """A trained network, and its errors."""

    joint: str
    trained: Trained
    setting: str
    """Setting of the logs with which its gain grows, or empty."""
    gain: float
    """The one for which it is."""
    applied: Applied
    """In the runs that it was trained on."""
    compared: tuple[Compared, ...]
    """Physical models and the network, on runs that they were not fitted to; empty where none could be held out."""
    outside: dict[str, float]
    """Share of samples outside of the range of the training, by group that was held out."""
    seed: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the network, in sentences."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[str]:
        if self.trained.interrupted:
            yield "the training was interrupted: this is the network as it was by then"
        if not self.compared:
            yield "there was nothing to hold out, so that how it does on other motion is not known: record more runs"
        for group, share in self.outside.items():
            if share > 0.0:
                yield (
                    f"{group}, held out: {100.0 * share:.1f} % of the samples are outside of the range that the "
                    "network was trained on, where it is not to be relied on"
                )
        physical = [one for one in self.compared if one.name != self.trained.kind]
        network = next((one for one in self.compared if one.name == self.trained.kind), None)
        if physical and network is not None:
            best = min(physical, key=lambda one: one.held_out)
            if best.held_out < network.held_out:
                yield (
                    f"{best.name} is better on held-out runs, {1e3 * best.held_out:.1f} mrad instead of "
                    f"{1e3 * network.held_out:.1f}: fit the model {best.name}"
                )

    def save(self, path: PathLike) -> Path:
        """Write the network, and beside it the actuator that has it; returns the file of the latter.

        Args:
            path: Of the network, ``.safetensors``. The actuator gets the same name with ``.yaml``.
        """
        path = Path(path)
        save_trained(self.trained, path)
        model = network_model(self.trained, path, self.setting, self.gain)
        yaml = path.with_suffix(".yaml")
        origin = Provenance(
            models={self.joint: model.name},
            error=self.applied.mean,
            logs=tuple(sorted(log_names(self.applied.logs).values())),
            seed=self.seed,
            dt=self.trained.dt,
            scaled={self.joint: Scaled(model.scaled_by, model.settings)} if model.scaled_by else {},
            warnings=self.warnings,
        )
        save_actuators(yaml, [ActuatorEntry(self.joint, (self.joint,), model.actuator)], fit=origin.to_yaml())
        return yaml

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers, as JSON can hold them; errors in mrad."""
        return {
            "network": self.trained.kind,
            "joint": self.joint,
            "parameters": self.trained.parameters,
            "sample_dt": self.trained.dt,
            "input_range": {name: list(ends) for name, ends in self.trained.ranges.items()},
            "seed": self.seed,
            **self.applied.as_dict(),
            "models": [one.as_dict() for one in self.compared],
            "outside_held_out": self.outside,
            "warnings": list(self.warnings),
        }


def fit_network(
    plant: Plant,
    kind: str,
    candidates: Sequence[Sequence[Model]] = (),
    *,
    options: SearchOptions | None = None,
    share: float = 1.0,
    progress: ProgressFactory | None = None,
    workers: Workers | None = None,
) -> NetworkResult:
    """Train a network on all runs, and compare others of its kind with physical models on held-out runs.

    Args:
        plant: A joint with a known load, and its runs.
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        candidates: Physical models to compare it with, each a list of one.
        options: The seed, and how long and how wide to search for the physical ones.
        share: Of the usual number of steps of the training.
        progress: Called with how far it is.
        workers: What runs trainings and searches. Default: this process.
    """
    training = import_training()
    check_kind(kind)
    if plant.loads is None:
        raise ParameterError("needs a joint with a known load; that of a robot's joints is not known", option=NETWORK)
    options = options or SearchOptions()
    (joint,), (scales,) = plant.joints, plant.scales()
    facts = JointFacts(scales, plant.runs, joint)
    if not facts.is_position_commanded:
        raise ParameterError(
            "needs logs with commands of the position, which the network's error is made of", option=NETWORK
        )
    setting, gain = facts.gain_setting, facts.gain
    runs = [
        training_run(log, load, plant.dt, scales, setting, gain)
        for log, load in zip(plant.runs, plant.loads, strict=True)
    ]
    groups = groups_of(plant.runs) if len(plant.runs) > 1 else []
    rest = [[i for i in range(len(runs)) if i not in group.runs] for group in groups]
    jobs = [
        TrainingJob(kind, tuple(runs[i] for i in own), plant.dt, options.seed, scales.effort, share)
        for own in [*rest, range(len(runs))]
    ]
    titles = [*(f"{kind} without {group.name}" for group in groups), kind]
    physical = compare(plant, candidates, options, progress=progress, workers=workers) if groups and candidates else []
    errors = np.full((len(runs), 1), np.nan)
    outside, train = {}, []
    for number, trained in enumerate((workers or LocalWorkers()).map(training.run_training, jobs, titles, progress)):
        if number == len(groups) or trained.interrupted:
            break
        group = groups[number]
        held_out = _applied(plant.subset(group.runs), trained, setting, gain)
        errors[list(group.runs)] = held_out.errors
        outside[group.name] = held_out.outside[joint]
        train.append(_applied(plant.subset(rest[number]), trained, setting, gain).mean)
    applied = _applied(plant, trained, setting, gain)
    compared = list(physical)
    if train and np.isfinite(errors).all():
        by_group = {group.name: float(errors[list(group.runs)].mean()) for group in groups}
        compared.append(
            Compared(kind, trained.parameters, float(np.mean(train)), float(errors.mean()), by_group, errors)
        )
    return NetworkResult(joint, trained, setting, gain, applied, tuple(compared), outside, options.seed)


def training_run(log: Log, load: Load, dt: float, scales: Scales, setting: str, gain: float) -> TrainingRun:
    """Return a run at even steps, with velocities and the effort that its load needs.

    Args:
        log: The run, of one joint.
        load: What hangs at it.
        dt: The step [s].
        scales: How large things are at the joint.
        setting: Of the log with which its gain grows, or empty.
        gain: The one that is trained for.
    """
    even = log.resampled(dt)
    (joint,) = even.joints
    if len(even) < _FEWEST:
        raise ParameterError(f"{log.path}: has {len(even)} steps of {dt:g} s; a network needs {_FEWEST}")
    position = joint.position
    _, velocity, acceleration = (values[:, 0] for values in even.derivatives(SMOOTHED))
    enabled = np.ones(len(even)) if joint.enabled is None else joint.enabled.astype(float)
    if "effort" in joint.extra:
        effort, is_known = joint.extra["effort"], enabled
    else:
        effort = load.inertia * acceleration + load.gravity * np.sin(position)
        is_known = enabled * (np.abs(velocity) > _SLOW * scales.speed)
    factor = setting_of(log.settings, setting, "controller.pos_scale") / gain if setting else 1.0
    assert joint.command is not None
    return TrainingRun(joint.command, position, velocity, enabled, effort, is_known, load.inertia, load.gravity, factor)


def check_kind(kind: str) -> None:
    """Raise an error if there is no such kind of network."""
    if kind not in KINDS:
        raise ParameterError(f"got '{kind}'; {listed(kind, KINDS, 'networks')}", option=NETWORK)


def import_training() -> Any:
    """Return the module that trains networks, which imports PyTorch.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    require("torch", "torch", "training networks")
    from . import network_training

    return network_training


def save_trained(trained: Trained, path: Path) -> None:
    """Write a network with its rate, its inputs, their scales and the range of its training inside."""
    save_network(
        import_training().module_of(trained),
        path,
        input_order="pos_vel",
        **({"input_idx": list(trained.steps)} if trained.kind == "mlp" else {}),
        pos_scale=trained.pos_scale,
        vel_scale=trained.vel_scale,
        effort_scale=trained.effort_scale,
        sample_dt=trained.dt,
        input_range={name: list(ends) for name, ends in trained.ranges.items()},
    )


def network_model(trained: Trained, path: Path, setting: str, gain: float) -> Model:
    """Return the chain with a network from its file, and with the parameters that were found with it."""
    rubbing = {"load_motor": trained.load, "load_external": trained.load}
    actuator = ActuatorConfig(
        NeuralControlConfig(str(path), pos_scale=trained.pos_scale if setting else None),
        transmission=GearTransmissionConfig(1.0, reflected_inertia=trained.armature),
        effects=[FrictionEffectConfig(trained.dynamic, trained.viscous, **rubbing)],
        sensors=[EncoderSensorConfig(bias=trained.bias)],
    )
    times = {"controller.pos_scale": setting} if setting else {}
    return Model(trained.kind, actuator, (), times, {setting: gain} if setting else {})


def _applied(plant: Plant, trained: Trained, setting: str, gain: float) -> Applied:
    """Replay the network, as its file has it, in the runs of a plant."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        save_trained(trained, path)
        return apply_models(plant, [network_model(trained, path, setting, gain)], [np.zeros(0)])
