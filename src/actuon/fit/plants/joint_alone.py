# SPDX-License-Identifier: Apache-2.0
"""One joint of a robot on its own, while all others move as they did in the logs.

What the others do to a joint, with gravity, is then a load and an inertia that are known at each step. So a trial is a
DOF of a fused kernel, as with a known load, and some hundred times faster than one of the whole robot; and candidates
of one joint do not disturb those of another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import warp as wp

from ...logs import Log
from .load_batch import LoadedPlant, LoadedRuns
from .load_stage import COLUMNS
from .plant import Scales
from .runs import Run

_LEAST = 1e-9
"""Inertia [kg·m²] added to that of the table, which must be above zero."""


@dataclass(frozen=True, eq=False)
class LoadsAlong:
    """Inertia and loads of one joint at each sample of a log, shape (T,)."""

    inertia: np.ndarray
    """Without that of its motor [kg·m² or kg]."""
    load: np.ndarray
    """Effort of gravity and of Coriolis forces [N·m or N]."""
    push: np.ndarray
    """Effort of the accelerations of other joints [N·m or N]."""


class JointAlone(LoadedPlant):
    """One joint of a robot.

    Args:
        joint: Its name, and which one of the runs' it is.
        runs: The runs, with all joints.
        loads: Its loads in the whole log of each run.
        scales: Scales of the joint.
        armature: That of the robot's file, where the chain brings none [kg·m² or kg].
        facts: Facts on the robot for a search file.
    """

    def __init__(
        self,
        joint: tuple[str, int],
        runs: Sequence[Run],
        loads: Sequence[LoadsAlong],
        scales: Scales,
        armature: float,
        facts: Mapping[str, Any],
    ):
        name, self._joint = joint
        self.joints, self.dt = (name,), runs[0].dt
        self._loads, self._scales, self._armature = tuple(loads), scales, armature
        self._facts = dict(facts)
        self.runs = tuple(_only_joint(run.log, self._joint) for run in runs)
        none = np.zeros(len(runs))
        loaded = LoadedRuns(
            [self._table(run, own) for run, own in zip(runs, loads, strict=True)],
            np.array([run.start[:, self._joint] for run in runs]),
            none + _LEAST,
            none,
            armature,
        )
        self._set_loads(runs, loaded, wp.get_device("cpu"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what it is made of, so that it can be sent to another machine."""
        joint = (self.joints[0], self._joint)
        return JointAlone, (joint, self._on_grid, self._loads, self._scales, self._armature, self._facts)

    def _table(self, run: Run, loads: LoadsAlong) -> np.ndarray:
        """Return `COLUMNS` at each step of a run."""
        table = run.table(self._joint)
        at = run.log.time[0] + run.dt * np.arange(run.steps)
        for name in ("load", "push", "inertia"):
            table[:, COLUMNS.index(name)] = np.interp(at, run.source.time, getattr(loads, name))
        return table

    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> Self:
        """See `Plant.replace`."""
        chosen = range(len(self.runs)) if runs is None else runs
        kept = [self._on_grid[i] for i in chosen]
        if dt is not None:
            kept = [Run.of(run.log, dt, run.source) for run in kept]
        loads = [self._loads[i] for i in chosen]
        joint = (self.joints[0], self._joint)
        return type(self)(joint, kept, loads, self._scales, self._armature, self._facts)

    def facts(self) -> Mapping[str, Any]:
        """See `Plant.facts`."""
        return {"plant": "a robot, joint by joint", "time step [s]": self.dt, **self._facts}

    def scales(self) -> list[Scales]:
        """See `Plant.scales`."""
        return [self._scales]


def _only_joint(log: Log, joint: int) -> Log:
    return dataclasses.replace(log, joints=(log.joints[joint],))
