# SPDX-License-Identifier: Apache-2.0
"""Each joint of a robot on its own, while all others move as they did in the logs.

What the others do to a joint, with gravity, is then a load and an inertia that are known at each step. So a trial is a
DOF of a fused kernel, as with a known load, and some hundred times faster than one of the whole robot; and candidates
of one joint do not disturb those of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from ...logs import Log
from ..models import Model
from .load_batch import LoadBatch, Runs
from .load_stage import COLUMNS
from .plant import Scales
from .robot_model import RobotModel
from .robot_runs import RobotRun, motion_of


class AlongLogsPlant:
    """The joints of a robot, one by one.

    Args:
        robot: What moves.
        runs: The runs.
        scales: How large things are at each joint.
        dt: Time step [s].
    """

    def __init__(self, robot: RobotModel, runs: Sequence[RobotRun], scales: Sequence[Scales], dt: float):
        self._robot, self._all, self._scales, self._dt = robot, tuple(runs), list(scales), dt
        self._device = wp.get_device("cpu")
        loads: dict[int, tuple[np.ndarray, ...]] = {}
        self._runs = []
        tables = [self._tables(run, loads) for run in runs]
        for joint in range(len(robot.joints)):
            starts = np.array([run.start[:, joint] for run in runs])
            none = np.zeros(len(runs))
            settings = [run.log.settings for run in runs]
            own_tables, armature = [own[joint] for own in tables], float(robot.armature[joint])
            self._runs.append(Runs(own_tables, starts, none + _LEAST, none, settings, armature))
        self._batches: list[tuple[int, Model, int, LoadBatch]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is made of, so that it can be sent to another machine."""
        return AlongLogsPlant, (self._robot, self._all, self._scales, self._dt)

    def _tables(self, run: RobotRun, known: dict[int, tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        """`COLUMNS` of each joint at each step. Loads of a whole log are found once."""
        log = run.parent
        if id(log) not in known:
            known[id(log)] = self._robot.loads_along(*motion_of(log))
        inertias, loads, pushes = known[id(log)]
        at = run.log.time[0] + self._dt * np.arange(run.steps)
        found = []
        for joint in range(len(run.log.joints)):
            table = np.zeros((run.steps, len(COLUMNS)), np.float32)
            columns = dict(zip(COLUMNS, table.T, strict=True))
            columns["command"][:] = run.command[run.past :, joint]
            columns["effort_command"][:] = run.effort_command[run.past :, joint]
            columns["enabled"][:] = run.enabled[run.past :, joint]
            columns["position"][:] = run.position[:, joint]
            columns["weight"][:] = run.weight
            columns["load"][:] = np.interp(at, log.time, loads[:, joint])
            columns["push"][:] = np.interp(at, log.time, pushes[:, joint])
            columns["inertia"][:] = np.interp(at, log.time, inertias[:, joint])
            found.append(table)
        return found

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self._robot.joints

    @property
    def runs(self) -> tuple[Log, ...]:
        """The runs."""
        return tuple(run.log for run in self._all)

    def subset(self, runs: Sequence[int]) -> AlongLogsPlant:
        """The same plant with some of the runs."""
        return AlongLogsPlant(self._robot, [self._all[i] for i in runs], self._scales, self._dt)

    def facts(self) -> dict[str, Any]:
        """See `search_inputs.Described`."""
        return {"plant": "a robot, joint by joint", "time step [s]": self._dt, "robot": self._robot.digest()}

    def errors(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Mean absolute error of the position [rad or m], shape (C, R, J)."""
        found = [self.errors_of(j, *own) for j, own in enumerate(zip(models, candidates, strict=True))]
        return np.stack(found, axis=-1)

    def errors_of(self, joint: int, model: Model, candidates: np.ndarray) -> np.ndarray:
        """The same of one joint, shape (C, R)."""
        errors = self._batch(joint, model, len(candidates)).run(candidates)
        return np.where(np.isfinite(errors), errors, np.inf)

    def residuals(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Simulated less measured position [rad or m] at the samples: R arrays of shape (C, T, J)."""
        found = [self.residuals_of(j, *own) for j, own in enumerate(zip(models, candidates, strict=True))]
        return [np.stack(joints, axis=-1) for joints in zip(*found, strict=True)]

    def residuals_of(self, joint: int, model: Model, candidates: np.ndarray) -> list[np.ndarray]:
        """The same of one joint: R arrays of shape (C, T)."""
        paths = self._batch(joint, model, len(candidates)).trace(candidates)[..., None]
        return [run.residuals(paths[:, r, : run.steps + 1], self._dt)[..., joint] for r, run in enumerate(self._all)]

    def _batch(self, joint: int, model: Model, candidates: int) -> LoadBatch:
        for at, known, count, batch in self._batches:
            if at == joint and known is model and count == candidates:
                return batch
        batch = LoadBatch(model, candidates, self._runs[joint], self._dt, self._device)
        kept = self._batches[-3 * len(self._runs) :]
        self._batches = [*kept, (joint, model, candidates, batch)]
        return batch

    def scales(self) -> list[Scales]:
        """How large efforts, speeds and inertias are at each joint."""
        return self._scales


_LEAST = 1e-9
"""Inertia [kg·m²] beside that of the table, which must be above zero."""
