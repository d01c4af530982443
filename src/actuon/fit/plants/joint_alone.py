# SPDX-License-Identifier: Apache-2.0
"""One joint of a robot alone, while all other joints move as in the logs.

Gravity and the other joints are then a known load and inertia at each step. A trial is one DOF of a fused kernel, about
a hundred times faster than a trial of the whole robot, and candidates of different joints are independent.
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
"""Inertia [kg·m²] of the load besides that of the table, which must be > 0."""


@dataclass(frozen=True, eq=False)
class LoadsAlong:
    """Inertia and loads of one joint at each sample of a log, shape (T,)."""

    inertia: np.ndarray
    """Inertia without that of the motor [kg·m² or kg]."""
    load: np.ndarray
    """Effort of gravity and of Coriolis forces [N·m or N]."""
    push: np.ndarray
    """Effort of the accelerations of other joints [N·m or N]."""


class JointAlone(LoadedPlant):
    """One joint of a robot.

    Args:
        joint: Name of the joint, its index in the runs, and the unit of its position.
        runs: Runs with all joints.
        loads: Loads of the joint in the whole log of each run.
        scales: Scales of the joint.
        armature: Armature in the robot's file, used if the motor model has none [kg·m² or kg].
        facts: Facts on the robot for a checkpoint.
    """

    def __init__(
        self,
        joint: tuple[str, int, str],
        runs: Sequence[Run],
        loads: Sequence[LoadsAlong],
        scales: Scales,
        armature: float,
        facts: Mapping[str, Any],
    ):
        name, self._joint, self._unit = joint
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
        """Pickle the inputs; kernels are built anew."""
        joint = (self.joints[0], self._joint, self._unit)
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
        joint = (self.joints[0], self._joint, self._unit)
        return type(self)(joint, kept, loads, self._scales, self._armature, self._facts)

    @property
    def units(self) -> tuple[str, ...]:
        """See `Plant.units`."""
        return (self._unit,)

    def facts(self) -> Mapping[str, Any]:
        """See `Plant.facts`."""
        return {"plant": "a robot, joint by joint", "time step [s]": self.dt, **self._facts}

    def scales(self) -> list[Scales]:
        """See `Plant.scales`."""
        return [self._scales]


def _only_joint(log: Log, joint: int) -> Log:
    return dataclasses.replace(log, joints=(log.joints[joint],))
