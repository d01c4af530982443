# SPDX-License-Identifier: Apache-2.0
"""Training of a network controller from logs, and comparison with physical models on held-out runs."""

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
from .interrupts import held_interrupts
from .log_names import log_names
from .model import Model, setting_of
from .network_replay import SMOOTHED
from .plants.known_load import Load
from .plants.plant import Plant, Scales
from .replay import Applied, apply_models
from .search import SearchOptions
from .select import Compared, Comparison, compare, folds_of
from .terms import JointFacts
from .units import error_text
from .workers import LocalWorkers, ProgressFactory, Workers

KINDS = ("mlp", "lstm", "gru")
NETWORK = Option("kind", "KIND")
_SLOW = 0.05
"""Share of the largest speed below which the effort is unknown, as friction may hold the joint."""
_FEWEST = 20
"""Minimum number of samples of a run."""


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """One run at even steps, arrays of shape (T,).

    Args:
        command: Commanded position [rad].
        position: Measured position [rad].
        velocity: Velocity [rad/s] from smoothed positions.
        enabled: 1 while the motor is switched on, else 0.
        effort: Effort of the motor [N·m], logged or computed from the load.
        is_known: 1 where ``effort`` is valid, else 0.
        inertia: Inertia of the load [kg·m²].
        gravity: Mass times gravity times length of the load [N·m].
        factor: Factor on the position error: gain of the log divided by the gain of the training.
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
    """Inputs of a training.

    Args:
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        runs: Runs to train on.
        dt: Time step of the runs and the network [s].
        seed: Seed of the random numbers.
        effort: Largest effort that the load requires [N·m].
        share: Share of the usual number of training steps.
    """

    kind: str
    runs: tuple[TrainingRun, ...]
    dt: float
    seed: int
    effort: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, and the physical parameters estimated with it."""

    kind: str
    weights: dict[str, np.ndarray]
    """Weights by their names in PyTorch."""
    steps: tuple[int, ...]
    """Input history of an MLP [steps]."""
    pos_scale: float
    vel_scale: float
    effort_scale: float
    dt: float
    dynamic: float
    """Coulomb friction [N·m]."""
    load: float
    """Coefficient of load-dependent friction [1]."""
    viscous: float
    """Viscous friction [N·m·s/rad]."""
    armature: float
    """Armature [kg·m²]."""
    bias: float
    """Bias of the encoder [rad]."""
    ranges: dict[str, tuple[float, float]]
    """Range of each input in the training: ``position_error`` [rad] and ``velocity`` [rad/s]."""
    error: float
    """Mean absolute error [rad] over windows at the end of the training."""
    interrupted: bool = False

    @property
    def parameters(self) -> int:
        """Number of trained values."""
        return sum(array.size for array in self.weights.values()) + 5


@dataclass(frozen=True, eq=False)
class NetworkResult:
    """A trained network and its errors."""

    joint: str
    trained: Trained
    setting: str
    """Setting of the logs to which its gain is proportional, or empty."""
    gain: float
    """Value of the setting for which the network was trained."""
    applied: Applied
    """Errors in the training runs."""
    compared: tuple[Compared, ...]
    """Errors of physical models and the network on held-out runs; empty if none could be held out."""
    outside: dict[str, float]
    """Share of samples outside the training range, by held-out fold."""
    seed: int
    interrupted: bool = False
    """Whether training or comparison were interrupted."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the network."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[str]:
        if self.trained.interrupted:
            yield "the training was interrupted: this is the network at that moment"
        elif self.interrupted:
            yield "the comparison was interrupted: the network is trained on all runs, and models are missing"
        if not self.compared and not self.interrupted:
            yield "no runs could be held out, so its error on other motion is unknown: record more runs"
        for fold, share in self.outside.items():
            if share > 0.0:
                yield (
                    f"{fold}, held out: {100.0 * share:.1f} % of the samples are outside the training range, where "
                    "the network is unreliable"
                )
        physical = [one for one in self.compared if one.name != self.trained.kind]
        network = next((one for one in self.compared if one.name == self.trained.kind), None)
        if physical and network is not None:
            best = min(physical, key=lambda one: one.held_out)
            if best.held_out < network.held_out:
                yield (
                    f"{best.name} is better on held-out runs, {error_text(best.held_out, best.unit, 1)} instead of "
                    f"{error_text(network.held_out, best.unit, 1)}: fit the model {best.name}"
                )

    def save(self, path: PathLike) -> Path:
        """Write the network, and an ``actuon.yaml`` with it next to it; returns the path of the latter.

        Args:
            path: File of the network, ``.safetensors``. The motor file has the same name with ``.yaml``.
        """
        path = Path(path)
        save_trained(self.trained, path)
        model = network_model(self.trained, path, self.setting, self.gain)
        yaml = path.with_suffix(".yaml")
        origin = Provenance(
            models={self.joint: model.name},
            error=self.applied.means,
            logs=tuple(sorted(log_names(self.applied.logs).values())),
            seed=self.seed,
            dt=self.trained.dt,
            scaled={self.joint: Scaled(model.scaled_by, model.settings)} if model.scaled_by else {},
            warnings=self.warnings,
        )
        save_actuators(yaml, [ActuatorEntry(self.joint, (self.joint,), model.actuator)], fit=origin.to_yaml())
        return yaml

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data for JSON, with errors in mrad, or in mm if the joint slides."""
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
            "interrupted": self.interrupted,
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
    """Train a network on all runs, and compare its kind with physical models by cross-validation.

    Args:
        plant: Joint with a known load, and its runs.
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        candidates: Physical models to compare with, each a list of one.
        options: Seed, and effort of the searches for the physical models.
        share: Share of the usual number of training steps.
        progress: Called with the title of each task; returns its callback.
        workers: Runner of trainings and searches. Default: this process.
    """
    training = import_training()
    check_kind(kind)
    if plant.loads is None:
        raise ParameterError("needs a joint with a known load; those of a robot are unknown", option=NETWORK)
    options = options or SearchOptions()
    (joint,), (scales,) = plant.joints, plant.scales()
    facts = JointFacts(scales, plant.runs, joint)
    if not facts.is_position_commanded:
        raise ParameterError(
            "needs logs with commanded positions, from which the network's input is computed", option=NETWORK
        )
    setting, gain = facts.gain_setting, facts.gain
    runs = [
        training_run(log, load, plant.dt, scales, setting, gain)
        for log, load in zip(plant.runs, plant.loads, strict=True)
    ]
    folds = folds_of(plant.runs) if len(plant.runs) > 1 else []
    rest = [[i for i in range(len(runs)) if i not in fold.runs] for fold in folds]
    jobs = [
        TrainingJob(kind, tuple(runs[i] for i in own), plant.dt, options.seed, scales.effort, share)
        for own in [range(len(runs)), *rest]  # that of all runs first, so that an interrupt leaves a network
    ]
    titles = [kind, *(f"{kind} without {fold.name}" for fold in folds)]
    errors = np.full((len(runs), 1), np.nan)
    outside, train = {}, []
    with held_interrupts():
        networks = (workers or LocalWorkers()).map(training.run_training, jobs, titles, progress)
        trained = next(networks)
        comparison, is_interrupted = Comparison(()), trained.interrupted
        try:
            for number, fold in enumerate(folds if not is_interrupted else ()):
                without = next(networks)
                if without.interrupted:
                    raise KeyboardInterrupt
                held_out = _applied(plant.subset(fold.runs), without, setting, gain)
                errors[list(fold.runs)] = held_out.errors
                outside[fold.name] = held_out.outside[joint]
                train.append(_applied(plant.subset(rest[number]), without, setting, gain).mean)
            if folds and candidates and not is_interrupted:
                comparison = compare(plant, candidates, options, progress=progress, workers=workers)
        except KeyboardInterrupt:
            is_interrupted = True
        applied = _applied(plant, trained, setting, gain)
    compared = list(comparison.compared)
    if np.isfinite(errors).all() and train:
        by_fold = {fold.name: float(errors[list(fold.runs)].mean()) for fold in folds}
        means = float(np.mean(train)), float(errors.mean())
        compared.append(Compared(kind, trained.parameters, *means, by_fold, errors, unit=plant.units[0]))
    is_interrupted = is_interrupted or comparison.interrupted
    return NetworkResult(joint, trained, setting, gain, applied, tuple(compared), outside, options.seed, is_interrupted)


def training_run(log: Log, load: Load, dt: float, scales: Scales, setting: str, gain: float) -> TrainingRun:
    """Resample a run to even steps, with velocities and the effort that its load requires.

    Args:
        log: Run of one joint.
        load: Load of the joint.
        dt: Time step [s].
        scales: Orders of magnitude at the joint.
        setting: Setting of the log to which its gain is proportional, or empty.
        gain: Value of the setting for which the network is trained.
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
    """Check that a kind of network exists."""
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
    """Write a network with metadata: rate, inputs, scales and training range."""
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
    """Return the model with a network from its file, and the physical parameters estimated with it."""
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
    """Replay the network, written to a file, in the runs of a plant."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        save_trained(trained, path)
        return apply_models(plant, [network_model(trained, path, setting, gain)], [np.zeros(0)])
