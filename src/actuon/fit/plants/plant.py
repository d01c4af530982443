# SPDX-License-Identifier: Apache-2.0
"""`Plant`: mechanism that actuators drive in a fit; `Trials`: candidates in its runs, as values by path.

A *run* is a log, or a window of one. A *trial* is one candidate in one run: it starts at the run's first measured state
and receives the run's commands, but no further measurements. All trials of a call are one batch.
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
from ..model import ENCODER_OFFSET, Model, Parameter, place_of, with_values

if TYPE_CHECKING:
    from .known_load import Load

Signal = Literal["position", "effort"]


@dataclass(frozen=True)
class Scales:
    """Orders of magnitude at a joint.

    Args:
        effort: Largest effort [N·m or N] that motion and load require.
        speed: Largest speed in the logs [rad/s or m/s].
        inertia: Inertia that the motor moves [kg·m² or kg].
        position: Range of the position in the logs [rad or m].

    Examples:
        >>> actuon.fit.Scales(effort=0.6, speed=8.0, inertia=0.005, position=1.5).effort
        0.6
    """

    effort: float
    speed: float
    inertia: float
    position: float


@dataclass(frozen=True, eq=False)
class Trials:
    """C candidates in R runs. The i-th candidates of all joints form one simulated robot.

    Settings of logs, sums and ties are resolved, so a plant writes the values as they are.
    """

    models: tuple[Model, ...]
    """Model of each joint."""
    values: tuple[Mapping[str, np.ndarray], ...]
    """Values for each joint by path, shape (C, R). Other parameters keep the values of the model."""
    runs: tuple[Log, ...]
    """The R runs."""
    count: int
    """Number of candidates, C."""

    @classmethod
    def of(cls, models: Sequence[Model], candidates: Sequence[np.ndarray], runs: Sequence[Log]) -> Trials:
        """Return the trials of candidates.

        Args:
            models: One for each joint.
            candidates: Values for each joint, shape (C, P), or one set for each run, shape (C, R, P).
            runs: The R runs.
        """
        values = tuple(model.values(own, runs) for model, own in zip(models, candidates, strict=True))
        return cls(tuple(models), values, tuple(runs), len(candidates[0]))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of candidates, runs and joints, (C, R, J)."""
        return self.count, len(self.runs), len(self.models)

    @property
    def encoder_offsets(self) -> np.ndarray:
        """Encoder offsets of the logs, ``log.encoder_offset`` [rad or m], shape (C, R, J)."""
        none = np.zeros(self.shape[:2])
        return np.stack([own.get(ENCODER_OFFSET, none) for own in self.values], axis=-1)

    @property
    def biases(self) -> np.ndarray:
        """Biases of the encoder stages [rad or m], float32 of shape (C, R, J)."""
        found = np.zeros(self.shape, np.float32)
        for joint, (model, own) in enumerate(zip(self.models, self.values, strict=True)):
            places = {(place.stage, place.name): path for path in own for place in [place_of(model.actuator, path)]}
            for i, part in enumerate(model.actuator.stages):
                if isinstance(part, EncoderSensorConfig):
                    path = places.get((i, "bias"))
                    found[..., joint] += np.float32(part.bias) if path is None else own[path].astype(np.float32)
        return found

    def config(self, joint: int, candidate: int, run: int) -> ActuatorConfig:
        """Return the motor model of a joint in one trial.

        Examples:
            >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=2.0, kd=0.05))
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> model, time = actuon.fit.Model("pd", motor, (kp,)), np.arange(3) * 0.01
            >>> run = actuon.fit.Log("run", time, (actuon.fit.JointLog("knee", np.zeros(3)),))
            >>> trials = actuon.fit.Trials.of([model], [np.array([[1.0], [3.0]])], [run])
            >>> trials.shape, trials.config(joint=0, candidate=1, run=0).controller.kp
            ((2, 1, 1), 3.0)
        """
        values = {path: float(own[candidate, run]) for path, own in self.values[joint].items()}
        return with_values(self.models[joint].actuator, values)

    def subset(self, runs: Sequence[int]) -> Trials:
        """Return the trials in a selection of the runs, by index."""
        values = tuple({path: own[:, list(runs)] for path, own in each.items()} for each in self.values)
        return dataclasses.replace(self, values=values, runs=tuple(self.runs[i] for i in runs))

    def by_shared_numbers(self) -> list[tuple[list[int], Trials]]:
        """Return sets of runs with equal shared parameters, each with its trials.

        Some parameters, such as the input scale of a network, have one value for all DOFs of a simulation. In a set,
        they are fixed in the model.
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
        """Return the trials with shared parameters fixed in the models."""
        models, values = [], []
        for model, own, paths in zip(self.models, self.values, shared, strict=True):
            actuator = with_values(model.actuator, {path: float(own[path][0, 0]) for path in paths})
            times = {path: name for path, name in model.scaled_by.items() if path not in paths}
            models.append(dataclasses.replace(model, actuator=actuator, scaled_by=times))
            values.append({path: numbers for path, numbers in own.items() if path not in paths})
        return dataclasses.replace(self, models=tuple(models), values=tuple(values))


def _shared_paths(model: Model) -> list[str]:
    """Return the paths in ``scaled_by`` of parameters with one value for all DOFs."""
    found = []
    for path in model.scaled_by:
        place = place_of(model.actuator, path)
        stage = model.actuator.stages[place.stage]
        if isinstance(stage, Config) and place.name in stage.component.SHARED_PARAMS:
            found.append(path)
    return found


@dataclass(frozen=True)
class Parts:
    """Assignment of runs to logs or robots.

    Args:
        names: Names of the K logs or robots.
        of_run: Index of the log or robot of each run, shape (R,).
    """

    names: tuple[str, ...]
    of_run: np.ndarray

    @classmethod
    def by_name(cls, names: Sequence[str]) -> Parts:
        """Return the assignment for the name of each run's log or robot."""
        known = tuple(dict.fromkeys(names))
        return cls(known, np.array([known.index(name) for name in names], dtype=int))


class Plant(ABC):
    """Base of the mechanisms that actuators drive in a fit. Subclasses implement `simulate`, `scales` and `replace`.

    The defaults of the other methods suit a single joint.
    """

    joints: tuple[str, ...]
    """Names of the J joints that are fitted."""
    runs: tuple[Log, ...]
    """The R runs, each with these joints."""
    dt: float
    """Time step of the simulation [s]."""
    findings: tuple[Finding, ...] = ()
    """Findings on the robot."""
    usual_model: str | None = None
    """Name of the default model. None: the one that suits the logs."""
    loads: tuple[Load, ...] | None = None
    """Load of the joint in each run, if known."""
    rests_on: str = ""
    """Assumption that all parameters rest on, such as a stated mass, as a clause."""
    log_parameters: tuple[Parameter, ...] = ()
    """Free parameters that each joint has in addition to those of its model, such as encoder offsets of the logs."""

    @abstractmethod
    def simulate(self, trials: Trials, signal: Signal = "position") -> list[np.ndarray]:
        """Return a signal of all trials at the samples of each run: R arrays of shape (C, T, J).

        NaN if a trial diverged. Called repeatedly with the same models and number of candidates, so cache what depends
        on them.

        Args:
            trials: Trials in all `runs`.
            signal: ``"position"`` [rad or m] as the encoder shows it, or ``"effort"`` [N·m or N] of the motor at the
                joint, before friction.
        """

    @abstractmethod
    def scales(self) -> list[Scales]:
        """Return the scales of each joint, from which the ranges of parameters are derived."""

    @abstractmethod
    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> Self:
        """Return the plant with a selection of the runs, by index, or at another time step [s]."""

    def subset(self, runs: Sequence[int]) -> Self:
        """Return the plant with a selection of the runs, by index."""
        return self.replace(runs=runs)

    def trials(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> Trials:
        """Return the trials of candidates in all runs. See `Trials.of`."""
        return Trials.of(models, candidates, self.runs)

    def residuals(self, trials: Trials) -> list[np.ndarray]:
        """Return simulated − measured positions [rad or m] at the samples: R arrays of shape (C, T, J)."""
        found: dict[int, np.ndarray] = {}
        for runs, plant, group in self._by_shared_numbers(trials):
            found |= dict(zip(runs, plant._residuals(group), strict=True))
        return [found[run] for run in range(len(self.runs))]

    def _residuals(self, trials: Trials) -> list[np.ndarray]:
        measured = (np.stack([joint.position for joint in run.joints], axis=1) for run in self.runs)
        return [simulated - real for simulated, real in zip(self.simulate(trials), measured, strict=True)]

    def errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of the position [rad or m], shape (C, R, J); inf if a trial diverged."""
        errors = np.empty(trials.shape)
        for runs, plant, group in self._by_shared_numbers(trials):
            errors[:, runs] = plant.mean_errors(group)
        return np.where(np.isfinite(errors), errors, np.inf)

    def mean_errors(self, trials: Trials) -> np.ndarray:
        """Return mean absolute errors of trials with equal shared parameters in all runs, shape (C, R, J).

        Not finite if a trial diverged. Override it in a plant that accumulates errors during the simulation.
        """
        return np.stack([np.abs(run).mean(axis=1) for run in self._residuals(trials)], axis=1)

    def _by_shared_numbers(self, trials: Trials) -> Iterator[tuple[list[int], Plant, Trials]]:
        """Yield sets of runs, with the plant and the trials of each. See `Trials.by_shared_numbers`."""
        for runs, group in trials.by_shared_numbers():
            yield runs, self if len(runs) == len(self.runs) else self.replace(runs=runs), group

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of the position of each joint, ``"rad"`` or ``"m"``."""
        return tuple(self.runs[0].joint(name).unit for name in self.joints)

    def adapt(self, joint: int, model: Model) -> Model:
        """Return the model of a joint as the plant can fit it, with parameters added, fixed or with other ranges."""
        return model

    @property
    def couples_joints(self) -> bool:
        """Whether joints affect one another so strongly that they must be searched together."""
        return len(self.joints) > 1

    def only(self, joint: int) -> Plant:
        """Return a plant of one joint and the same runs that approximates its motion here.

        Not called if the plant `couples_joints`.
        """
        return self

    def parts(self, per: Literal["log", "robot"]) -> Parts:
        """Return the assignment of runs to logs, or to robots of a fleet.

        A log is a path and a recording; names of logs with the same path are numbered.
        """
        if per == "robot":
            return Parts.by_name([run.robot for run in self.runs])
        logs = [(run.path, run.recording) for run in self.runs]
        distinct = list(dict.fromkeys(logs))
        names = dict(zip(distinct, numbered([path for path, _ in distinct]), strict=True))
        return Parts.by_name([names[log] for log in logs])

    def facts(self) -> Mapping[str, Any]:
        """Return the inputs of the errors besides runs and models, by name, as numbers and text for a checkpoint."""
        return {"plant": type(self).__qualname__, "time step [s]": self.dt}
