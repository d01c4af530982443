# SPDX-License-Identifier: Apache-2.0
"""A log in the studio: recorded against simulated with the present values, and fits of values."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..actuator.config import ActuatorConfig
from ..errors import LogError, ParameterError
from ..fit.fitting import fit_models
from ..fit.model import LINEAR, LOG, Model, Parameter, place_of
from ..fit.plants.known_load import KnownLoadPlant
from ..fit.plants.plant import Plant
from ..fit.plants.robot import RobotPlant
from ..fit.result import FitResult
from ..fit.search import SearchOptions
from ..fit.units import error_scales, error_text, error_unit
from ..fit.verdict import Verdict, judge
from ..logs import Log, read_log
from ..robot_files.paths import stage_names
from ..robot_source import RobotSource
from .background import Background, Tell
from .motion import Command
from .numbers import numbers_of
from .session import Session

GENERATIONS = 60
"""Largest number of generations of a fit."""
_OPTIONS = SearchOptions(starts=1, generations=GENERATIONS, patience=15)
_REFINE = 2
"""Steps of least squares after that."""
_LOAD = ("mass", "inertia")
_WIDE = 1e2
"""Ratio of the ends of the range in which a value > 0 is fitted, on a logarithmic scale."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """Positions of a joint in a log, each of shape (T,)."""

    joint: str
    time: np.ndarray
    """Time since the start [s]."""
    command: np.ndarray | None
    """[rad]; None if efforts were commanded."""
    recorded: np.ndarray
    """[rad]."""
    simulated: np.ndarray
    """[rad]."""
    verdict: Verdict | None = None
    """Verdict on the present values."""

    @property
    def error(self) -> float:
        """Mean absolute error [rad]."""
        return float(np.abs(self.simulated - self.recorded).mean())


class LogReplay:
    """A log of joints that the robot has.

    Args:
        source: The robot.
        joints: Names of its joints with an actuator.
        log: Log of one or several of these joints. If log and robot have one joint each, their names may differ.

    Raises:
        LogError: The log has other joints, or their load is unknown.
    """

    def __init__(self, source: RobotSource, joints: Iterable[str], log: Log):
        joints = list(joints)
        if len(log.joints) == 1 and len(joints) == 1:
            log = dataclasses.replace(log, joints=(dataclasses.replace(log.joints[0], name=joints[0]),))
        others = [name for name in log.joint_names if name not in joints]
        if others:
            raise LogError(f"'{log.path}': the robot has no joint '{others[0]}'; joints: {', '.join(joints)}")
        self.log = log
        self._plant = _plant_of(source, log)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints in the log."""
        return self.log.joint_names

    def run(self, configs: Mapping[str, ActuatorConfig]) -> list[Replayed]:
        """Simulate the commands of the log with these actuators, from its first position."""
        models = [Model(name, configs[name], ()) for name in self.joints]
        trials = self._plant.trials(models, [model.start[None] for model in models])
        (residual,) = (run[0] for run in self._plant.residuals(trials))
        time, plant = self.log.time - self.log.time[0], self._plant
        errors = np.abs(residual).mean(axis=0)[None]
        verdicts = judge(plant.runs, plant.joints, errors, units=plant.units, rests_on=plant.rests_on)
        return [
            Replayed(joint.name, time, joint.command, joint.position, joint.position + residual[:, i], verdicts[i])
            for i, joint in enumerate(self.log.joints)
        ]

    @property
    def unit(self) -> str:
        """Unit of errors that are averaged over the joints: rad, m, or empty for shares of the motion."""
        return error_unit(self._plant)

    def mean(self, errors: Sequence[float]) -> float:
        """Return the mean of the errors of all joints [rad or m], in `unit`."""
        return float(np.mean(np.array(errors) / error_scales(self._plant)))

    def fit(
        self,
        configs: Mapping[str, ActuatorConfig],
        paths: Iterable[str],
        progress: Callable[[int, float], None] | None = None,
    ) -> FitResult:
        """Fit values, starting from the present ones.

        Args:
            configs: The actuators.
            paths: Paths of values such as ``controller.kp``, see `fittable`. Joints without such a value are skipped.
            progress: Called with the generation and the smallest mean error so far, in `unit`. It raises
                KeyboardInterrupt to stop with the best result so far.
        """
        paths = list(paths)
        models = [_freed(name, configs[name], paths) for name in self.joints]
        if not any(model.parameters for model in models):
            raise ParameterError("nothing to fit: choose at least one value that the joints of the log have")

        def report(generation: int, errors: np.ndarray) -> None:
            if progress is not None:
                progress(generation, float(np.mean(errors)))

        return fit_models(self._plant, models, _OPTIONS, progress=report, refine_steps=_REFINE)


def command_of(log: Log) -> Command:
    """Return the target positions of a log.

    Raises:
        LogError: The log has no target positions.
    """
    found = {joint.name: joint.command for joint in log.joints if joint.command is not None}
    if not found:
        raise LogError(f"'{log.path}' has no target positions to play")
    return Command(log.path, log.time - log.time[0], found)


@dataclass(frozen=True)
class Fitted:
    """Result of a fit."""

    configs: dict[str, ActuatorConfig]
    """Actuators by joint."""
    before: float
    """Mean absolute error with the previous values [unit]."""
    after: float
    """Mean absolute error with the fitted values [unit]."""
    unit: str
    """Unit of both: rad, m, or empty for shares of the motion, if some joints of the log turn and some slide."""
    interrupted: bool
    remarks: tuple[str, ...]
    """Verdict on each joint, and warnings."""


@functools.lru_cache(maxsize=1)
def _opened(source: RobotSource, joints: tuple[str, ...], path: Path, changed: int) -> LogReplay:
    return LogReplay(source, joints, read_log(path))


def _replay_of(source: RobotSource, joints: tuple[str, ...], path: Path) -> LogReplay:
    return _opened(source, joints, path, path.stat().st_mtime_ns)


def load_log(source: RobotSource, joints: tuple[str, ...], path: Path, tell: Tell) -> Log:
    """Return a log of joints of the robot. For a `Background`."""
    return _replay_of(source, joints, path).log


def replay_log(
    source: RobotSource, joints: tuple[str, ...], path: Path, configs: dict[str, ActuatorConfig], tell: Tell
) -> list[Replayed]:
    """Replay a log with these actuators. For a `Background`."""
    return _replay_of(source, joints, path).run(configs)


def fit_log(
    source: RobotSource,
    joints: tuple[str, ...],
    path: Path,
    configs: dict[str, ActuatorConfig],
    paths: list[str],
    tell: Tell,
) -> Fitted:
    """Fit actuators to a log. Reports the generation, the smallest error so far, and the error before."""
    replay = _replay_of(source, joints, path)
    replayed = replay.run(configs)
    before, unit = replay.mean([joint.error for joint in replayed]), replay.unit
    result = replay.fit(configs, paths, lambda generation, error: tell((generation, error, before, unit)))
    found = {joint.name: joint.actuator for joint in result.joints}
    verdicts = (verdict.sentence() for verdict in result.verdicts)
    remarks = tuple(dict.fromkeys([*verdicts, *result.warnings]))
    after = replay.mean([run.error for run in result.runs])
    return Fitted(found, before, after, unit, result.interrupted, remarks)


class LogWork:
    """A log that is replayed and fitted in the background. Methods may be called from any thread.

    Args:
        session: Session of the robot.
        background: Process that replays and fits.
    """

    def __init__(self, session: Session, background: Background):
        self._session, self._background = session, background
        self._path = Path()
        self._requested_version = -1
        self._stops = False
        self.log: Log | None = None
        self.replayed: list[Replayed] = []
        """Joints of the log, simulated with the values of ``version``."""
        self.version = -1
        self.progress: float | None = None
        """Completed fraction of a fit; None if none is running."""
        self.status = ""
        """Outcome or progress of the last load or fit."""
        self.error = ""
        """Message of the last failure of a load, replay or fit; empty if there was none."""

    def load(self, path: Path) -> None:
        """Read a log, and replay it."""
        self._submit("load", load_log, path, done=lambda log: self._set_log(path, log))

    def refresh(self) -> None:
        """Replay the log with values that have changed."""
        version, path = self._session.values_version, self._path
        if self.log is None or self.progress is not None or self._requested_version == version:
            return
        self._requested_version = version

        def done(replayed: list[Replayed]) -> None:
            if path == self._path:
                self.replayed, self.version = replayed, version

        self._submit("replay", replay_log, path, dict(self._session.real.configs), done=done)

    def fit(self, paths: list[str]) -> None:
        """Fit values, and set them on the robot."""
        self.progress, self._stops, self.status = 0.0, False, "starting"
        configs = dict(self._session.real.configs)
        self._submit("fit", fit_log, self._path, configs, paths, done=self._set_fitted, progress=self._set_progress)

    def stop_fit(self) -> None:
        """Stop a fit with the best values so far."""
        self._stops = True

    def unit_of(self, joint: str) -> str:
        """Return the unit of the position of a joint, ``"rad"`` or ``"m"``."""
        robot = self._session.real
        return "m" if robot.slides[robot.dof_names.index(joint)] else "rad"

    def _submit(self, key: str, function: Callable[..., Any], path: Path, *args: Any, **callbacks: Any) -> None:
        self.error = ""
        about = self._session.source, tuple(self._session.joints), path
        self._background.submit(key, function, *about, *args, failed=lambda error: self._fail(key, error), **callbacks)

    def _fail(self, key: str, error: str) -> None:
        self.error = error
        if key == "fit":
            self.progress = None

    def _set_log(self, path: Path, log: Log) -> None:
        self.log, self._path, self.replayed, self._requested_version = log, path, [], -1
        self.status = f"{path.name}: {log.duration:.1f} s of {', '.join(log.joint_names)}"

    def _set_progress(self, progress: tuple[int, float, float, str]) -> bool:
        generation, *errors, unit = progress
        error, before = (error_text(each, unit) for each in errors)
        self.progress = min(0.99, generation / GENERATIONS)
        self.status = f"fit: {error} after {generation} generations, {before} before"
        return not self._stops

    def _set_fitted(self, fitted: Fitted) -> None:
        before, after = error_text(fitted.before, fitted.unit), error_text(fitted.after, fitted.unit)
        if fitted.after > fitted.before:
            self.status = f"fit: no improvement on {before}; values unchanged"
        else:
            self._session.do(self._session.set_configs, fitted.configs)
            ended = " (stopped early)" if fitted.interrupted else ""
            self.status = "; ".join([f"fit: {after}, {before} before{ended}", *fitted.remarks])
        self.progress = None


def fittable(config: ActuatorConfig) -> dict[str, bool]:
    """Return the paths of values that a fit can estimate, and whether it does so by default."""
    names = stage_names(config.stages)
    found = {}
    for number in numbers_of(config):
        if number.is_slider and not number.is_off and not number.declared.integer and names[number.stage]:
            usual = number.stage_name in ("pd", "pid", "friction") and number.value != 0.0
            found[f"{names[number.stage][0]}.{number.name}"] = usual
    return found


def _freed(name: str, config: ActuatorConfig, paths: list[str]) -> Model:
    parameters = []
    numbers = {(number.stage, number.name): number for number in numbers_of(config)}
    for path in paths:
        if path not in fittable(config):
            continue
        place = place_of(config, path)
        number = numbers[place.stage, place.name]
        value = float(number.value)
        low, high, _ = number.slider_range()
        if value > 0.0 and (number.declared.maximum is None or number.declared.maximum > 1.0):
            parameters.append(Parameter(path, value / _WIDE**0.5, value * _WIDE**0.5, value, LOG))
        else:
            parameters.append(Parameter(path, low, high, value, LINEAR))
    return Model(name, config, tuple(parameters))


def _plant_of(source: RobotSource, log: Log) -> Plant:
    if len(log.joints) == 1 and any(name in log.settings for name in _LOAD):
        return KnownLoadPlant([log])
    if source.path is None:
        return KnownLoadPlant([log], source.pendulum())
    # Joints alone would lack armature, damping and friction of the robot's file, which the motors leave to the engine.
    return RobotPlant(source.path, [log], together=True)
