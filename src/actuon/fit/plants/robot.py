# SPDX-License-Identifier: Apache-2.0
"""A whole robot with coupled joints, simulated in MuJoCo with one environment for each trial."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ...errors import LogError, ParameterError
from ...logs import Log
from ...robot_source import find_source
from ...typing import PathLike
from ..model import ENCODER_OFFSET, LOG, Model, Parameter, changed, is_of_link, place_of
from .joint_alone import JointAlone, LoadsAlong
from .plant import Plant, Scales, Signal, Trials
from .robot_batch import RobotBatch
from .robot_model import RobotModel
from .runs import Run, largest, smooth_motion, usual_step

LARGEST_OFFSET = 0.3
"""Largest offset of an encoder [rad or m]."""
_USUAL = "m3+limit"
_DAMPING, _ARMATURE = "controller.kd", "transmission.reflected_inertia"
_AROUND = 10.0
"""Largest ratio between a fitted armature and that of the robot's file."""
_STEPS = (0.001, 0.002, 0.0025, 0.004, 0.005)
"""Time steps to choose from [s]."""
_SMOOTHED = 0.1
"""Width [s] of the filter that differentiates positions."""
_STILL = 1e-3
"""Smallest range of a joint that moves [rad or m]."""


class RobotPlant(Plant):
    """A robot with coupled joints.

    Args:
        robot: MJCF, URDF or USD file, or an actuon.yaml next to one. Its drives and contacts are removed; joints that
            are not in the logs are locked.
        logs: Logs of joints that the robot has by name, the same joints in each.
        dt: Time step [s]. Default: close to that of the logs, 1 to 5 ms.
        window: Length [s] of windows into which logs are split. Each starts at its measured state. Default: whole logs.
        usual_model: Name of the default preset. Default: ``m3+limit``.
        free: Ranges of further free parameters by joint and path.
        fix: Known values by joint and path.
        encoder_offset_per_log: Estimate encoder offsets for each log. Default: encoders agree with the robot's file.
        together: Search all joints together in the whole robot, even if each could be searched alone. Needed by models
            that leave armature, damping and friction to the robot's file.

    Examples:
        >>> time = np.arange(0.0, 0.5, 0.01)
        >>> joint = actuon.fit.JointLog("joint1", 0.1 * np.sin(time - 0.1), 0.1 * np.sin(time))
        >>> log = actuon.fit.Log("run", time, (joint,))
        >>> plant = actuon.fit.RobotPlant(actuon.assets.arm_mjcf, [log])
        >>> plant.joints, plant.dt
        (('joint1',), 0.005)
    """

    def __init__(
        self,
        robot: PathLike,
        logs: Sequence[Log],
        dt: float | None = None,
        window: float | None = None,
        usual_model: str | None = None,
        free: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
        fix: Mapping[str, Mapping[str, float]] | None = None,
        encoder_offset_per_log: bool = False,
        together: bool = False,
    ):
        if not logs:
            raise ParameterError("got no logs; must be at least one")
        self._logs, self.joints = tuple(logs), logs[0].joint_names
        self.usual_model = usual_model or _USUAL
        self._free, self._fix = dict(free or {}), dict(fix or {})
        self._together = together
        if encoder_offset_per_log:
            self.log_parameters = (Parameter(ENCODER_OFFSET, -LARGEST_OFFSET, LARGEST_OFFSET, 0.0, per="log"),)
        self._robot = RobotModel(find_source(robot).with_robot().file, logs)
        self.findings = tuple(self._robot.findings)
        dt = usual_step(logs, _STEPS) if dt is None else float(dt)
        self._set_runs(_runs(logs, dt, window))
        self._motions: dict[int, tuple[np.ndarray, ...]] = {}
        self._scales: list[Scales] = []

    def _set_runs(self, runs: Sequence[Run]) -> None:
        self._on_grid, self.runs, self.dt = tuple(runs), tuple(run.log for run in runs), runs[0].dt
        self._batches: list[RobotBatch] = []

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the inputs; simulations are built anew."""
        return {**self.__dict__, "_batches": [], "_motions": {}}

    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> Self:
        """See `Plant.replace`."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        kept = self._on_grid if runs is None else [self._on_grid[i] for i in runs]
        if dt is not None:
            kept = [Run.of(run.log, dt, run.source) for run in kept]
        made._set_runs(kept)
        return made

    def facts(self) -> Mapping[str, Any]:
        """See `Plant.facts`."""
        return {"plant": "a robot", "time step [s]": self.dt, "robot": self._robot.digest}

    def mean_errors(self, trials: Trials) -> np.ndarray:
        """See `Plant.mean_errors`."""
        return self._batch(trials).errors(trials)

    def simulate(self, trials: Trials, signal: Signal = "position") -> list[np.ndarray]:
        """See `Plant.simulate`."""
        paths = self._batch(trials).trace(trials, signal)
        return [run.at_samples(path) for run, path in zip(self._on_grid, paths, strict=True)]

    def _batch(self, trials: Trials) -> RobotBatch:
        for batch in self._batches:
            if batch.candidates == trials.count and all(map(operator.is_, batch.models, trials.models)):
                return batch
        batch = RobotBatch(self._robot, trials.models, trials.count, self._on_grid)
        self._batches = [*self._batches[-1:], batch]
        return batch

    @property
    def units(self) -> tuple[str, ...]:
        """See `Plant.units`: those of the joints in the robot's file."""
        return self._robot.units

    def adapt(self, joint: int, model: Model) -> Model:
        """Return the model of a joint as the robot can fit it.

        The bias of the encoder is fixed at 0, as it belongs to the robot's calibration. The gain kd is fixed at 0:
        damping is estimated as viscous friction, which engines integrate implicitly, while an explicit gain makes light
        joints chatter. The armature is searched around that of the robot's file, as a joint that carries little shows
        all efforts only in proportion to it.
        """
        for path in [path for path in model.paths if path.endswith(".bias")]:
            model = model.fixed(path, 0.0)
        if {_DAMPING, "friction.viscous"} <= set(model.paths):
            model = model.fixed(_DAMPING, 0.0)
        armature = float(self._robot.armature[joint])
        if armature > 0.0 and _ARMATURE in model.paths:
            model = model.freed(Parameter(_ARMATURE, armature / _AROUND, armature * _AROUND, armature, LOG))
        name = self.joints[joint]
        for path, (low, high) in self._free.get(name, {}).items():
            if is_of_link(path):
                place_of(model.actuator, path)
                held = self._robot.link_value(joint, path.partition(".")[2])
                model = model.freed(Parameter(path, low, high, min(max(held, low), high)))
        others = {path: ends for path, ends in self._free.get(name, {}).items() if not is_of_link(path)}
        return changed(model, self._fix.get(name, {}), others)

    @property
    def couples_joints(self) -> bool:
        """Whether joints must be searched together.

        They must if efforts are commanded, as free joints affect one another strongly, and if parameters of links are
        free, as several joints depend on them.
        """
        is_held = all(joint.command is not None for log in self._logs for joint in log.joints)
        return self._together or not is_held or any(is_of_link(path) for own in self._free.values() for path in own)

    def only(self, joint: int) -> JointAlone:
        """Return one joint alone, while the others move as in the logs. Much faster, and nearly the same."""
        loads = []
        for run in self._on_grid:
            inertia, load, push, *_ = self._motion(run.source)
            loads.append(LoadsAlong(inertia[:, joint], load[:, joint], push[:, joint]))
        armature = float(self._robot.armature[joint])
        facts = {"robot": self._robot.digest, "joints of the plant": ", ".join(self.joints)}
        return JointAlone(
            (self.joints[joint], joint, self.units[joint]), self._on_grid, loads, self.scales()[joint], armature, facts
        )

    def _motion(self, log: Log) -> tuple[np.ndarray, ...]:
        """Return inertias, loads, pushes, positions, velocities and accelerations along a log, shapes (T, J)."""
        if id(log) not in self._motions:
            motion = smooth_motion(log, _SMOOTHED)
            self._motions[id(log)] = (*self._robot.loads_along(*motion), *motion)
        return self._motions[id(log)]

    def scales(self) -> list[Scales]:
        """See `Plant.scales`."""
        if not self._scales:
            self._scales[:] = self._find_scales()
        return list(self._scales)

    def _find_scales(self) -> list[Scales]:
        parts = [self._motion(log) for log in self._logs]
        armature = self._robot.armature
        found = []
        for joint, name in enumerate(self.joints):
            efforts, speeds, ranges, inertias = [], [], [], []
            for inertia, load, push, position, velocity, acceleration in parts:
                moved = inertia[:, joint] + armature[joint]
                effort = moved * acceleration[:, joint] - load[:, joint] - push[:, joint]
                efforts.append(np.quantile(np.abs(effort), 0.98))
                speeds.append(largest(velocity[:, joint]))
                ranges.append(np.ptp(position[:, joint]))
                inertias.append(moved.mean())
            if max(ranges) < _STILL:
                raise LogError(
                    f"{self._logs[0].path}: joint '{name}' moves less than {_STILL:g} in every log; a fit needs motion"
                )
            found.append(Scales(*(float(max(column)) for column in (efforts, speeds, inertias, ranges))))
        return found


def _runs(logs: Sequence[Log], dt: float, window: float | None) -> list[Run]:
    """Return the logs as runs, whole or split into windows of this length [s]."""
    found = []
    for log in logs:
        for joint in log.joints:
            if joint.command is None and joint.effort_command is None:
                raise LogError(f"{log.path}: joint '{joint.name}' has neither commanded positions nor efforts")
        parts = [log] if window is None else log.split_windows(window)
        found += [Run.of(part, dt, log) for part in parts]
    return found
