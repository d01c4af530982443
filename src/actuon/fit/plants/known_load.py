# SPDX-License-Identifier: Apache-2.0
"""One joint with a known load: a pendulum, or an inertia. All trials are DOFs of one fused kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ...errors import LogError, ParameterError
from ...logs import Log
from ...typing import DeviceLike
from ..models import Model, setting_of
from ..search_inputs import digest
from .load_batch import LoadBatch, Runs
from .plant import Scales
from .run_table import run_table, start_of

GRAVITY = 9.81
_SMOOTHED = 0.02
"""Steps [s] over which positions are differentiated to see how fast and how hard a joint moves."""
_STILL = 1e-3
"""A joint that moves less than this [rad] does not move."""


STEPS = (0.004, 0.002, 0.001, 0.0005)
"""Time steps [s] of simulations."""


def usual_step(logs: Sequence[Log]) -> float:
    """The longest of `STEPS` that is not much longer than the step of any log [s]."""
    shortest = min(float(np.median(np.diff(log.time))) for log in logs)
    return next((step for step in STEPS if step <= 1.25 * shortest), STEPS[-1])


@dataclass(frozen=True)
class Load:
    """What hangs at the joint, and stands still where the joint is at 0.

    Args:
        inertia: About the joint [kg·m²].
        gravity: Mass times gravity times length [N·m]: what holds it level.
    """

    inertia: float
    gravity: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.inertia < math.inf:
            raise ParameterError(f"load: inertia: got {self.inertia}; must be finite and > 0 [kg·m²]")

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any], where: str = "load") -> Load:
        """The load by ``mass`` [kg] and ``length`` [m] of a pendulum, or by ``inertia`` [kg·m²].

        A pendulum may have a rod of ``arm_mass`` [kg] too, and another ``gravity`` [m/s²] than 9.81.
        """
        if "inertia" in settings:
            return cls(setting_of(settings, "inertia", where))
        if "mass" not in settings or "length" not in settings:
            raise ParameterError(
                f"{where}: the load is not given; it needs mass [kg] and length [m] of a pendulum, or inertia [kg·m²], "
                "in the file or by --load"
            )
        mass, length = (setting_of(settings, name, where) for name in ("mass", "length"))
        rod = setting_of(settings, "arm_mass", where) if "arm_mass" in settings else 0.0
        g = setting_of(settings, "gravity", where) if "gravity" in settings else GRAVITY
        return cls((mass + rod / 3.0) * length**2, (mass + 0.5 * rod) * g * length)


class KnownLoadPlant:
    """One joint with a known load, in all runs at once.

    Args:
        logs: The runs, each with one joint.
        load: ``mass`` and ``length``, or ``inertia``, in place of what the logs say.
        dt: Time step [s]. Default: one of `STEPS`, about that of the logs.
        device: Where to run.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        load: Mapping[str, float] | None = None,
        dt: float | None = None,
        device: DeviceLike = None,
    ):
        if not logs:
            raise ParameterError("got no logs; must be at least one")
        for log in logs:
            if len(log.joints) != 1:
                raise ParameterError(
                    f"{log.path}: has {len(log.joints)} joints ({', '.join(log.joint_names)}); a known load is that of "
                    "one: give the robot with --robot, or name the columns of one joint"
                )
        self._logs, self._device = tuple(logs), wp.get_device(device)
        self._dt = usual_step(logs) if dt is None else float(dt)
        self._given = None if load is None else dict(load)
        self._loads = [Load.of_settings({**log.settings, **(self._given or {})}, log.path) for log in logs]
        self._runs = Runs(
            [run_table(log, self._dt) for log in logs],
            np.array([start_of(log) for log in logs]),
            np.array([load.inertia for load in self._loads]),
            np.array([load.gravity for load in self._loads]),
            [log.settings for log in logs],
        )
        self._batches: list[tuple[Model, int, LoadBatch]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is made of: it can be sent to another machine, where its kernels are built anew."""
        return KnownLoadPlant, (self._logs, self._given, self._dt, str(self._device))

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._dt

    @property
    def loads(self) -> tuple[Load, ...]:
        """Of each run."""
        return tuple(self._loads)

    @property
    def joints(self) -> tuple[str, ...]:
        """The name of the joint."""
        return self._logs[0].joint_names

    @property
    def runs(self) -> tuple[Log, ...]:
        """The runs."""
        return self._logs

    def subset(self, runs: Sequence[int]) -> KnownLoadPlant:
        """The same plant with some of the runs."""
        return KnownLoadPlant([self._logs[i] for i in runs], self._given, self._dt, self._device)

    def facts(self) -> dict[str, Any]:
        """See `search_inputs.Described`."""
        loads = [value for load in self._loads for value in (load.inertia, load.gravity)]
        return {"plant": "a known load", "time step [s]": self._dt, "load": digest(loads)}

    def halved(self) -> KnownLoadPlant:
        """The same plant at half the time step."""
        return KnownLoadPlant(self._logs, self._given, 0.5 * self._dt, self._device)

    def errors(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Mean absolute error of the position [rad], shape (C, R, 1)."""
        errors = self._batch(models, len(candidates[0])).run(candidates[0])
        return np.where(np.isfinite(errors), errors, np.inf)[..., None]

    def residuals(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Simulated less measured position [rad] at the samples: R arrays of shape (C, T, 1)."""
        paths = self._batch(models, len(candidates[0])).trace(candidates[0])
        return [
            self._at_samples(log, paths[:, run]) - log.joints[0].position[:, None] for run, log in enumerate(self._logs)
        ]

    def efforts(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Efforts of the motor at the joint [N·m] at the samples, before friction: R arrays of shape (C, T, 1)."""
        paths = self._batch(models, len(candidates[0])).efforts(candidates[0])
        return [self._at_samples(log, paths[:, run]) for run, log in enumerate(self._logs)]

    def _at_samples(self, log: Log, paths: np.ndarray) -> np.ndarray:
        """Positions at each step, shape (C, steps + 1), at the samples of a log: shape (C, T, 1)."""
        at = (log.time - log.time[0]) / self._dt
        before = np.clip(at.astype(int), 0, paths.shape[1] - 2)
        share = at - before
        return (paths[:, before] * (1.0 - share) + paths[:, before + 1] * share)[..., None]

    def _batch(self, models: Sequence[Model], candidates: int) -> LoadBatch:
        (model,) = models
        for known, count, batch in self._batches:
            if known is model and count == candidates:
                return batch
        batch = LoadBatch(model, candidates, self._runs, self._dt, self._device)
        self._batches = [*self._batches[-3:], (model, candidates, batch)]
        return batch

    def scales(self) -> list[Scales]:
        """How large efforts, speeds and inertias are."""
        found = [_scales(log, load) for log, load in zip(self._logs, self._loads, strict=True)]
        efforts, speeds, inertias, ranges = (np.array(column) for column in zip(*found, strict=True))
        if ranges.max() < _STILL:
            raise LogError(
                f"{self._logs[0].path}: the joint does not move by {_STILL:g} rad in any log: nothing to fit to"
            )
        return [Scales(*(float(column.max()) for column in (efforts, speeds, inertias, ranges)))]


def _scales(log: Log, load: Load) -> tuple[float, float, float, float]:
    """Effort, speed, inertia and range of the position in one log."""
    grid = np.linspace(log.time[0], log.time[-1], max(4, round(log.duration / _SMOOTHED)))
    smooth = np.interp(grid, log.time, log.joints[0].position)
    speed = np.gradient(smooth, grid)
    effort = load.inertia * np.gradient(speed, grid) + load.gravity * np.sin(smooth)
    return float(np.quantile(np.abs(effort), 0.98)), float(np.abs(speed).max()), load.inertia, float(np.ptp(smooth))
