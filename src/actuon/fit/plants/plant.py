# SPDX-License-Identifier: Apache-2.0
"""`Plant`: what actuators move in a fit; `Trials`: candidates in its runs, as numbers by path.

A *run* is a log, or a window of one. A *trial* is one candidate in one run: it starts at the run's first measured state
and gets the run's commands; nothing measured goes in afterwards. All trials of a call are one batch.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from ...actuator.config import ActuatorConfig
from ...components.sensors.encoder import EncoderSensorConfig
from ...declare.config import Config
from ...logs import Finding, Log
from ..log_names import numbered
from ..model import ZERO, Model, Parameter, place_of, with_values

if TYPE_CHECKING:
    from .known_load import Load

Signal = Literal["position", "effort"]


@dataclass(frozen=True)
class Scales:
    """Orders of magnitude at a joint.

    Args:
        effort: Largest effort [N·m or N] that its motion and its load take.
        speed: Largest speed in the logs [rad/s or m/s].
        inertia: What the motor moves [kg·m² or kg].
        position: How far it moves in the logs [rad or m].
    """

    effort: float
    speed: float
    inertia: float
    position: float


@dataclass(frozen=True, eq=False)
class Trials:
    """C candidates in R runs. Candidate i of every joint makes one simulated robot.

    Settings of logs, sums and ties are resolved: a plant writes the numbers as they are.
    """

    models: tuple[Model, ...]
    """One for each joint."""
    values: tuple[Mapping[str, np.ndarray], ...]
    """Numbers of each joint by path, shape (C, R). Paths that are not there are as in the model's chain."""
    runs: tuple[Log, ...]
    count: int
    """Candidates, C."""

    @classmethod
    def of(cls, models: Sequence[Model], candidates: Sequence[np.ndarray], runs: Sequence[Log]) -> Trials:
        """Return the trials of candidates.

        Args:
            models: One for each joint.
            candidates: Values for each joint, shape (C, P), or one set for each run, shape (C, R, P).
            runs: The runs.
        """
        values = tuple(model.values(own, runs) for model, own in zip(models, candidates, strict=True))
        return cls(tuple(models), values, tuple(runs), len(candidates[0]))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Candidates, runs and joints."""
        return self.count, len(self.runs), len(self.models)

    @property
    def zeros(self) -> np.ndarray:
        """Offsets of encoders by `ZERO` [rad or m], shape (C, R, J)."""
        none = np.zeros(self.shape[:2])
        return np.stack([own.get(ZERO, none) for own in self.values], axis=-1)

    @property
    def biases(self) -> np.ndarray:
        """Biases of encoders in the chains [rad or m], float32 of shape (C, R, J)."""
        found = np.zeros(self.shape, np.float32)
        for joint, (model, own) in enumerate(zip(self.models, self.values, strict=True)):
            places = {(place.stage, place.name): path for path in own for place in [place_of(model.actuator, path)]}
            for i, part in enumerate(model.actuator.stages):
                if isinstance(part, EncoderSensorConfig):
                    path = places.get((i, "bias"))
                    found[..., joint] += np.float32(part.bias) if path is None else own[path].astype(np.float32)
        return found

    def config(self, joint: int, candidate: int, run: int) -> ActuatorConfig:
        """Return the actuator of a joint in one trial."""
        values = {path: float(own[candidate, run]) for path, own in self.values[joint].items()}
        return with_values(self.models[joint].actuator, values)

    def subset(self, runs: Sequence[int]) -> Trials:
        """Return the trials in some of the runs."""
        values = tuple({path: own[:, list(runs)] for path, own in each.items()} for each in self.values)
        return dataclasses.replace(self, values=values, runs=tuple(self.runs[i] for i in runs))

    def by_shared_numbers(self) -> list[tuple[list[int], Trials]]:
        """Return the trials in groups of runs whose chains are alike in all that components share among DOFs.

        Such a number, the scale of a network's input, is one for all trials of a simulation. In a group it stands in
        the chain.
        """
        shared = [_shared_paths(model) for model in self.models]
        if not any(shared):
            return [(list(range(len(self.runs))), self)]
        groups: dict[tuple[float, ...], list[int]] = {}
        for run in range(len(self.runs)):
            numbers = (own[p][0, run] for own, paths in zip(self.values, shared, strict=True) for p in paths)
            groups.setdefault(tuple(float(number) for number in numbers), []).append(run)
        return [(runs, self.subset(runs)._settled(shared)) for runs in groups.values()]

    def _settled(self, shared: Sequence[Sequence[str]]) -> Trials:
        """Return the trials with shared numbers written into the chains."""
        models, values = [], []
        for model, own, paths in zip(self.models, self.values, shared, strict=True):
            actuator = with_values(model.actuator, {path: float(own[path][0, 0]) for path in paths})
            times = {path: name for path, name in model.scaled_by.items() if path not in paths}
            models.append(dataclasses.replace(model, actuator=actuator, scaled_by=times))
            values.append({path: numbers for path, numbers in own.items() if path not in paths})
        return dataclasses.replace(self, models=tuple(models), values=tuple(values))


def _shared_paths(model: Model) -> list[str]:
    """Return paths of numbers that grow with a setting, of which a component has one for all DOFs."""
    found = []
    for path in model.scaled_by:
        place = place_of(model.actuator, path)
        stage = model.actuator.stages[place.stage]
        if isinstance(stage, Config) and place.name in stage.component.SHARED_PARAMS:
            found.append(path)
    return found


@dataclass(frozen=True)
class Parts:
    """Runs by log or by unit.

    Args:
        names: Of the logs or units, K.
        of_run: Which one each run is of, shape (R,).
    """

    names: tuple[str, ...]
    of_run: np.ndarray

    @classmethod
    def by_name(cls, names: Sequence[str]) -> Parts:
        """Return the parts by the name that each run has."""
        known = tuple(dict.fromkeys(names))
        return cls(known, np.array([known.index(name) for name in names], dtype=int))


class Plant(ABC):
    """Base of the mechanisms that actuators move in a fit. One of your own has `simulate`, `scales` and `replace`.

    Answers of the other methods are those of a single joint; plants override what is different. A plant does not know
    how candidates are found.
    """

    joints: tuple[str, ...]
    """Names of the J joints that are fitted."""
    runs: tuple[Log, ...]
    """The R runs, each with these joints."""
    dt: float
    """Time step of the simulation [s]."""
    findings: tuple[Finding, ...] = ()
    """Findings on the robot, in sentences."""
    usual_model: str | None = None
    """Name of the default model. None: one that suits the logs."""
    loads: tuple[Load, ...] | None = None
    """Load of the one joint in each run, if it is known."""
    log_parameters: tuple[Parameter, ...] = ()
    """Free numbers of each joint beside those of its model, such as where its encoder shows zero in each log."""

    @abstractmethod
    def simulate(self, trials: Trials, signal: Signal = "position") -> list[np.ndarray]:
        """Return a signal of all trials at the samples of each run: R arrays of shape (C, T, J).

        NaN in a trial that diverged. Called again and again with the same models and the same number of candidates, so
        that it pays to keep what was built for them.

        Args:
            trials: In all `runs`.
            signal: ``"position"`` [rad or m] as the encoder shows it, or ``"effort"`` [N·m or N] of the motor at the
                joint, before friction.
        """

    @abstractmethod
    def scales(self) -> list[Scales]:
        """Return the scales of each joint, which the ranges of models follow from."""

    @abstractmethod
    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> Self:
        """Return the plant with some of the runs, by their position, or at another time step [s]."""

    def subset(self, runs: Sequence[int]) -> Self:
        """Return the plant with some of the runs, by their position."""
        return self.replace(runs=runs)

    def trials(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> Trials:
        """Return the trials of candidates in all runs. See `Trials.of`."""
        return Trials.of(models, candidates, self.runs)

    def residuals(self, trials: Trials) -> list[np.ndarray]:
        """Return simulated less measured positions [rad or m] at the samples: R arrays of shape (C, T, J)."""
        found: dict[int, np.ndarray] = {}
        for runs, plant, group in self._by_shared_numbers(trials):
            found |= dict(zip(runs, plant._residuals(group), strict=True))
        return [found[run] for run in range(len(self.runs))]

    def _residuals(self, trials: Trials) -> list[np.ndarray]:
        measured = (np.stack([joint.position for joint in run.joints], axis=1) for run in self.runs)
        return [simulated - real for simulated, real in zip(self.simulate(trials), measured, strict=True)]

    def errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of the position [rad or m], shape (C, R, J); inf where a trial diverged."""
        errors = np.empty(trials.shape)
        for runs, plant, group in self._by_shared_numbers(trials):
            errors[:, runs] = plant.mean_errors(group)
        return np.where(np.isfinite(errors), errors, np.inf)

    def mean_errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of trials with the same shared numbers in all runs, shape (C, R, J).

        Not finite where a trial diverged. Override it in a plant that adds errors up while trials run.
        """
        return np.stack([np.abs(run).mean(axis=1) for run in self._residuals(trials)], axis=1)

    def _by_shared_numbers(self, trials: Trials) -> Iterator[tuple[list[int], Plant, Trials]]:
        """Yield runs, the plant with these, and trials in them. See `Trials.by_shared_numbers`."""
        for runs, group in trials.by_shared_numbers():
            yield runs, self if len(runs) == len(self.runs) else self.replace(runs=runs), group

    def adapt(self, joint: int, model: Model) -> Model:
        """Return the model of a joint as it is fitted: some numbers mean nothing to a plant, others are its own."""
        return model

    @property
    def couples_joints(self) -> bool:
        """Whether joints move one another so much that all must be searched together."""
        return len(self.joints) > 1

    def only(self, joint: int) -> Plant:
        """Return a plant of one joint and the same runs, which behaves as the joint does here, or nearly.

        Not asked for where a plant `couples_joints`.
        """
        return self

    def parts(self, per: Literal["log", "unit"]) -> Parts:
        """Return which log, or which unit of a fleet, each run is of.

        A log is a path and a recording; those that share a path are told apart by a number.
        """
        if per == "unit":
            return Parts.by_name([run.unit for run in self.runs])
        logs = [(run.path, run.recording) for run in self.runs]
        distinct = list(dict.fromkeys(logs))
        names = dict(zip(distinct, numbered([path for path, _ in distinct]), strict=True))
        return Parts.by_name([names[log] for log in logs])

    def facts(self) -> Mapping[str, Any]:
        """Return what errors depend on besides runs and models, by name: numbers and text that a search file keeps."""
        return {"plant": type(self).__qualname__, "time step [s]": self.dt}
