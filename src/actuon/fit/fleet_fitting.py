# SPDX-License-Identifier: Apache-2.0
"""Fits of one model to every robot of a fleet."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LogError, ParameterError
from ..robot_files.fleet import FEWEST, Fleet, save_fleet
from ..typing import PathLike
from .fitting import fit_logs
from .fleet import fleet_of
from .interrupts import held_interrupts
from .plants.plant import Plant
from .result import FitResult
from .select import Compared, mark_chosen
from .workers import LocalWorkers, Progress, ProgressFactory, Workers


@dataclass(frozen=True)
class RobotJob:
    """Plant of one robot, and further arguments of `fit_logs`."""

    plant: Plant
    options: Mapping[str, Any] = field(default_factory=dict)


def run_robot(job: RobotJob, progress: Progress | None = None) -> FitResult:
    """Fit one robot."""
    return fit_logs(plant=job.plant, progress=lambda title: progress, **job.options)


@dataclass(frozen=True)
class FleetResult:
    """Results of the fits of all robots."""

    robots: dict[str, FitResult]
    """Results by the name of the robot."""
    compared: tuple[Compared, ...] = ()
    """Models compared on the runs of all robots, if one was selected."""
    missing: tuple[str, ...] = ()
    """Robots that were not fitted, as the fits were interrupted."""
    interrupted: bool = False
    """Whether the fits were interrupted."""

    @property
    def is_comparable(self) -> bool:
        """Whether there are several robots, all with the same models: an interrupted selection may differ."""
        models = {tuple(joint.model.name for joint in result.joints) for result in self.robots.values()}
        return len(self.robots) >= FEWEST and len(models) == 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the results."""
        own = (f"{name}: {warning}" for name, result in self.robots.items() for warning in result.warnings)
        missing = (f"{name}: was not fitted, as the fits were interrupted" for name in self.missing)
        return (*missing, *own)

    def save(self, path: PathLike) -> Fleet:
        """Write the ``fleet.yaml``, and an ``actuon.yaml`` for each robot into a folder next to it.

        For ``fleet.yaml`` the folder is ``fleet_robots``.
        """
        path = Path(path)
        files = [f"{robots_folder(path).name}/{name}.yaml" for name in self.robots]
        fleet = fleet_of(self.robots, files)
        self.save_robots(path)
        save_fleet(path, fleet)
        return fleet

    def save_robots(self, path: PathLike) -> list[Path]:
        """Write the ``actuon.yaml`` of each robot into the folder of a ``fleet.yaml``; returns the files."""
        folder = robots_folder(path)
        folder.mkdir(exist_ok=True)
        files = [folder / f"{name}.yaml" for name in self.robots]
        for file, result in zip(files, self.robots.values(), strict=True):
            result.save(file)
        return files


def robots_folder(path: PathLike) -> Path:
    """Return the folder with the actuators of the robots of a ``fleet.yaml``."""
    path = Path(path)
    return path.with_name(f"{path.stem}_robots")


def fit_fleet(
    plants: Mapping[str, Plant],
    model: str | None = None,
    *,
    select: bool | Sequence[str] = False,
    progress: ProgressFactory | None = None,
    workers: Workers | None = None,
    **options: Any,
) -> FleetResult:
    """Fit one model to each robot.

    Args:
        plants: Plant of each robot, with its runs, by name of the robot.
        model: Name of a preset. Default: the one with load-dependent friction that suits the logs.
        select: Compare models on held-out runs of all robots and fit the best one: True for the usual models, or a
            list.
        progress: Called with the title of each fit; returns its callback.
        workers: Runner of the fits, one task for each robot. Default: this process.
        options: Further arguments of `fit_logs`: ``fix``, ``free``, ``options``.

    Examples:
        >>> plants = {}
        >>> for robot, gain in (("alpha", 0.9), ("beta", 0.8)):
        ...     time = np.arange(0.0, 1.0, 0.01)
        ...     joint = actuon.fit.JointLog("knee", gain * np.sin(3.0 * time), np.sin(3.0 * time))
        ...     log = actuon.fit.Log("run", time, (joint,), {"mass": 0.5, "length": 0.1})
        ...     plants[robot] = actuon.fit.KnownLoadPlant([log])
        >>> options = actuon.fit.SearchOptions(starts=1, population=32, generations=10)
        >>> fleet = actuon.fit.fit_fleet(plants, "pd", options=options).save("fleet.yaml")
        >>> fleet.robots
        ('alpha', 'beta')
    """
    if len(plants) < FEWEST:
        raise ParameterError(f"a fleet: got {len(plants)} robots; must be at least {FEWEST}")
    (first_name, first), *others = plants.items()
    for name, plant in others:
        if plant.joints != first.joints:
            raise LogError(
                f"{name}: has the joints {', '.join(plant.joints)}, but {first_name} has {', '.join(first.joints)}; "
                "all robots of a fleet must have the same joints"
            )
    given = {"model": model, "select": select, **options}
    with held_interrupts():
        found = _run({name: RobotJob(plant, given) for name, plant in plants.items()}, progress, workers)
        missing = tuple(name for name in plants if name not in found)
        if select is False or missing or any(result.interrupted for result in found.values()):
            return FleetResult(found, (), missing, bool(missing) or any(own.interrupted for own in found.values()))
        return _with_one_model(plants, found, options, progress, workers)


def _with_one_model(
    plants: Mapping[str, Plant],
    found: dict[str, FitResult],
    options: Mapping[str, Any],
    progress: ProgressFactory | None,
    workers: Workers | None,
) -> FleetResult:
    """Return the fits of the model that is the best on all robots, from selections for each."""
    compared = _pooled([result.compared for result in found.values()])
    chosen = next(one.name for one in compared if one.chosen)
    given = {"model": chosen, **options}
    again = {n: RobotJob(plants[n], given) for n, result in found.items() if result.joints[0].model.name != chosen}
    fitted = _run(again, progress, workers)
    for name, result in fitted.items():
        by_run = next(one.by_run for one in found[name].compared if one.name == chosen)
        found[name] = result.with_held_out(by_run, found[name].compared)
    is_interrupted = len(fitted) < len(again) or any(result.interrupted for result in fitted.values())
    return FleetResult(found, tuple(compared), interrupted=is_interrupted)


def _run(
    jobs: Mapping[str, RobotJob], progress: ProgressFactory | None, workers: Workers | None
) -> dict[str, FitResult]:
    results = (workers or LocalWorkers()).map(run_robot, list(jobs.values()), list(jobs), progress)
    found: dict[str, FitResult] = {}
    with contextlib.suppress(KeyboardInterrupt):
        for name, result in zip(jobs, results, strict=False):
            found[name] = result
            if result.interrupted:
                break
    return found


def _pooled(robots: Sequence[Sequence[Compared]]) -> list[Compared]:
    """Pool models that were compared robot by robot over the runs of all robots."""
    pooled = []
    for own in zip(*robots, strict=False):
        by_run = np.concatenate([one.by_run / one.scales for one in own])
        train = float(np.mean([one.train for one in own]))
        mean = float(by_run.mean())
        pooled.append(Compared(own[0].name, own[0].parameters, train, mean, {}, by_run, unit=own[0].unit))
    return mark_chosen(pooled)
