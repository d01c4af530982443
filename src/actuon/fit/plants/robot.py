# SPDX-License-Identifier: Apache-2.0
"""A whole robot, all joints coupled: MuJoCo with one environment for each trial."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ...errors import LogError, ParameterError
from ...logs import Log
from ...robot_source import find_source
from ...typing import PathLike
from ..model import LOG, ZERO, Model, Parameter, changed, is_of_link, place_of
from .joint_alone import JointAlone, LoadsAlong
from .plant import Plant, Scales, Signal, Trials
from .robot_batch import RobotBatch
from .robot_model import RobotModel
from .runs import Run, usual_step

MOST_ZERO = 0.3
"""Largest offset of an encoder [rad or m]."""
_USUAL = "m3+limit"
_DAMPING, _ARMATURE = "controller.kd", "transmission.reflected_inertia"
_AROUND = 10.0
"""Largest factor between an armature and that of the robot's file."""
_STEPS = (0.001, 0.002, 0.0025, 0.004, 0.005)
"""Time steps to choose from [s]."""
_SMOOTHED = 0.1
"""Width [s] of the filter that differentiates positions."""
_STILL = 1e-3
"""Least range of a joint that moves [rad or m]."""


class RobotPlant(Plant):
    """A robot whose joints are driven as in its logs, all of them coupled.

    Args:
        robot: An MJCF, URDF or USD file, or an actuon.yaml next to one. Its own drives, contacts, and joints that the
            logs do not have are left out.
        logs: Of joints that it has by name, the same in each.
        dt: Time step [s]. Default: that of the logs, at most 5 ms.
        window: Length of windows [s] into which logs are cut, each of which starts at the measured state. Default:
            whole logs.
        usual_model: Name of the preset that is fitted where none is named.
        free: By joint and path, ranges of parameters to look for.
        fix: By joint and path, values of parameters that are known.
        has_own_zeros: Whether encoders were set to zero anew for each log, so that where their zero is belongs to the
            log and is found with the parameters. Default: they show the positions of the robot's file.
        together: Whether to search all joints together, in the whole robot, where each could be searched on its own.
            Chains that leave armature, damping and friction to the robot's file need that.
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
        has_own_zeros: bool = False,
        together: bool = False,
    ):
        if not logs:
            raise ParameterError("got no logs; must be at least one")
        self._logs, self.joints = tuple(logs), logs[0].joint_names
        self.usual_model = usual_model or _USUAL
        self._free, self._fix = dict(free or {}), dict(fix or {})
        self._together = together
        if has_own_zeros:
            self.log_parameters = (Parameter(ZERO, -MOST_ZERO, MOST_ZERO, 0.0, per="log"),)
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
        """Return what it is made of, so that it can be sent to another machine."""
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

    def adapt(self, joint: int, model: Model) -> Model:
        """Return the model of a joint as a robot can show it.

        The bias of an encoder is in the robot's calibration. Damping is found as viscous friction, which engines take
        in implicitly: as a gain of a controller it makes light joints chatter, which shakes the others. An armature is
        looked for around that of the robot's file: a joint that carries little shows all efforts only in proportion to
        it.
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

        They must where they follow efforts and not positions, so that they are thrown about by one another, and where
        links are looked for, which several joints feel.
        """
        is_held = all(joint.command is not None for log in self._logs for joint in log.joints)
        return self._together or not is_held or any(is_of_link(path) for own in self._free.values() for path in own)

    def only(self, joint: int) -> JointAlone:
        """Return one joint on its own while the others move as they did: much faster, and nearly the same."""
        loads = []
        for run in self._on_grid:
            inertia, load, push, *_ = self._motion(run.source)
            loads.append(LoadsAlong(inertia[:, joint], load[:, joint], push[:, joint]))
        armature = float(self._robot.armature[joint])
        facts = {"robot": self._robot.digest, "joints of the plant": ", ".join(self.joints)}
        return JointAlone((self.joints[joint], joint), self._on_grid, loads, self.scales()[joint], armature, facts)

    def _motion(self, log: Log) -> tuple[np.ndarray, ...]:
        """Return inertias, loads and pushes along a log, and its positions, velocities and accelerations, (T, J)."""
        if id(log) not in self._motions:
            motion = log.derivatives(_SMOOTHED)
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
                speeds.append(np.abs(velocity[:, joint]).max())
                ranges.append(np.ptp(position[:, joint]))
                inertias.append(moved.mean())
            if max(ranges) < _STILL:
                raise LogError(
                    f"{self._logs[0].path}: joint '{name}' does not move by {_STILL:g} in any log: nothing to fit to"
                )
            found.append(Scales(*(float(max(column)) for column in (efforts, speeds, inertias, ranges))))
        return found


def _runs(logs: Sequence[Log], dt: float, window: float | None) -> list[Run]:
    """Return the runs of logs, each one run, or cut into windows of so many seconds."""
    found = []
    for log in logs:
        for joint in log.joints:
            if joint.command is None and joint.effort_command is None:
                raise LogError(f"{log.path}: joint '{joint.name}' has neither a command nor a commanded effort")
        parts = [log] if window is None else log.split_windows(window)
        found += [Run.of(part, dt, log) for part in parts]
    return found
