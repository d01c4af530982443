# SPDX-License-Identifier: Apache-2.0
"""A whole robot, all joints coupled: MuJoCo with one environment for each trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import LogError, ParameterError
from ...logs import Finding, Log
from ...typing import PathLike
from ..link import is_of_link
from ..models import Model, changed
from ..parameters import LOG, Parameter, place_of
from ..search_inputs import digest
from .along_logs import AlongLogsPlant
from .plant import Scales
from .robot_batch import RobotBatch
from .robot_model import RobotModel
from .robot_runs import motion_of, robot_runs

_USUAL = "m3+limit"
_DAMPING, _ARMATURE = "controller.kd", "transmission.reflected_inertia"
_AROUND = 10.0
"""By what factor an armature may be more or less than that of the robot's file."""
_STEPS = (0.001, 0.002, 0.0025, 0.004, 0.005)
"""Time steps to choose from [s]."""
_STILL = 1e-3
"""What a joint moves at least [rad or m]."""


class RobotPlant:
    """A robot whose joints are driven as in its logs, all of them coupled.

    Args:
        robot: An MJCF, URDF or USD file. Its own drives, contacts, and joints that the logs do not have are left out.
        logs: Of joints that it has by name, the same in each.
        dt: Time step [s]. Default: that of the logs, at most 5 ms.
        window: Length of windows [s] into which logs are cut, each of which starts at the measured state. Default:
            whole logs.
        usual_model: Name of the preset that is fitted where none is named.
        free: By joint and path, ranges of parameters to look for.
        fix: By joint and path, values of parameters that are known.
        has_own_zeros: Whether encoders were set to zero anew for each log, so that where their zero is belongs to the
            log and is found with the parameters. Default: they show the positions of the robot's file.
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
    ):
        if not logs:
            raise ParameterError("got no logs; must be at least one")
        self._logs = tuple(logs)
        self.usual_model = usual_model or _USUAL
        """Name of the preset that is fitted where none is named."""
        self._free, self._fix = dict(free or {}), dict(fix or {})
        self.has_own_zeros = has_own_zeros
        """Whether each log has zeros of its own, which are to be found."""
        self.zeros = np.zeros((len(logs), len(logs[0].joints)))
        """What encoders show more than the position in each log [rad or m], shape (L, J)."""
        self._dt = _usual_step(logs) if dt is None else float(dt)
        self._robot = RobotModel(Path(robot), logs)
        self._runs = robot_runs(logs, self._dt, window)
        self._batches: list[tuple[tuple[Model, ...], int, RobotBatch]] = []

    def __getstate__(self) -> dict[str, Any]:
        """What it is made of, so that it can be sent to another machine."""
        return {**self.__dict__, "_batches": []}

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._dt

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self._logs[0].joint_names

    @property
    def runs(self) -> tuple[Log, ...]:
        """Logs, or their windows."""
        return tuple(run.log for run in self._runs)

    def facts(self) -> dict[str, Any]:
        """See `search_inputs.Described`."""
        zeros = {"zeros": digest([self.zeros])} if self.zeros.any() else {}
        return {"plant": "a robot", "time step [s]": self._dt, "robot": self._robot.digest(), **zeros}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was changed of the robot, in sentences."""
        return tuple(self._robot.findings)

    def subset(self, runs: Sequence[int]) -> RobotPlant:
        """The same plant with some of the runs."""
        made = RobotPlant.__new__(RobotPlant)
        made.__dict__.update(self.__dict__)
        made._runs = [self._runs[i] for i in runs]
        made._batches = []
        return made

    def with_zeros(self, zeros: np.ndarray) -> RobotPlant:
        """The same plant with other `zeros`."""
        made = self.subset(range(len(self._runs)))
        made.zeros = np.array(zeros, float)
        return made

    @property
    def logs(self) -> tuple[Log, ...]:
        """The L whole logs."""
        return self._logs

    @property
    def log_of_run(self) -> np.ndarray:
        """Which log each run is, or is a window of, shape (R,)."""
        numbers = {id(log): i for i, log in enumerate(self._logs)}
        return np.array([numbers[id(run.parent)] for run in self._runs], dtype=int)

    def errors(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Mean absolute error of the position [rad or m], shape (C, R, J)."""
        return self._batch(models, len(candidates[0])).run(candidates, self.zeros[self.log_of_run])

    def residuals(
        self, models: Sequence[Model], candidates: Sequence[np.ndarray], zeros: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Simulated less measured position [rad or m] at the samples: R arrays of shape (C, T, J).

        Args:
            models: One for each joint.
            candidates: Values for each joint, shape (C, P).
            zeros: In place of `zeros`, for each candidate, shape (C, L, J).
        """
        zeros = self.zeros if zeros is None else zeros
        paths = self._batch(models, len(candidates[0])).trace(candidates, zeros[..., self.log_of_run, :])
        return [run.residuals(path, self._dt) for run, path in zip(self._runs, paths, strict=True)]

    def _batch(self, models: Sequence[Model], candidates: int) -> RobotBatch:
        for known, count, batch in self._batches:
            if count == candidates and all(a is b for a, b in zip(known, models, strict=True)):
                return batch
        batch = RobotBatch(self._robot, models, candidates, self._runs, self._dt)
        self._batches = [*self._batches[-1:], (tuple(models), candidates, batch)]
        return batch

    def suited(self, joint: int, model: Model) -> Model:
        """The model of a joint as a robot can show it.

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

    def alone(self) -> AlongLogsPlant | None:
        """Each joint on its own while the others move as they did: much faster, and nearly the same.

        None where joints follow efforts and not positions, so that they are thrown about by one another, or where links
        are looked for, which several joints feel.
        """
        is_held = all(joint.command is not None for log in self._logs for joint in log.joints)
        if not is_held or any(is_of_link(path) for own in self._free.values() for path in own):
            return None
        return AlongLogsPlant(self._robot, self._runs, self.scales(), self._dt)

    def scales(self) -> list[Scales]:
        """How large efforts, speeds and inertias are at each joint."""
        parts = [(*self._robot.loads_along(*motion_of(log)), motion_of(log)) for log in self._logs]
        armature = self._robot.armature
        found = []
        for joint, name in enumerate(self.joints):
            efforts, speeds, ranges, inertias = [], [], [], []
            for inertia, load, push, (position, velocity, acceleration) in parts:
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


def _usual_step(logs: Sequence[Log]) -> float:
    """The longest of the usual steps that is not much longer than the step of any log [s]."""
    shortest = min(float(np.median(np.diff(log.time))) for log in logs)
    return max((step for step in _STEPS if step <= 1.25 * shortest), default=_STEPS[0])
