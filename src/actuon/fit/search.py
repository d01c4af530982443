# SPDX-License-Identifier: Apache-2.0
"""Global search by CMA-ES, as a flat list of tasks, one for each joint and start.

If the plant can simulate each joint alone (`Plant.only`), a search for each joint minimises its error. Otherwise the
parameters of all joints are one vector, and one search minimises the mean error. A generation is one batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from ..typing import PathLike
from .interrupts import check
from .model import Model, from_unit, to_unit
from .plants.plant import Plant
from .resume import SearchLog, search_inputs
from .units import error_scales
from .workers import Progress, ProgressFactory, Workers

_FEWEST = 2
"""Minimum dimension of CMA-ES; a search of fewer parameters is padded with unused ones."""
_MANY, _FEW = 8, 2
"""Candidates per parameter for one joint, and for all joints together, whose trials take longer."""
_PATIENCE, _TOLERANCE = 10, 0.01
"""Patience in generations and tolerance of a search of all joints together."""
_MOST_WINDOWS = 40
"""Maximum number of windows in such a search, spread over all of them."""


@dataclass(frozen=True)
class SearchOptions:
    """Effort and seed of a search.

    Args:
        seed: Seed of the random numbers.
        starts: Number of independent searches; the best result is kept. Few searches with a large population find more
            than many with a small one.
        population: Candidates per generation. Default: 8 per parameter, at least 32.
        generations: Maximum number of generations.
        patience: Number of generations without progress after which the search stops.
        tolerance: Relative decrease of the error that counts as progress.
        sigma: Initial standard deviation, as a share of the ranges.

    Examples:
        >>> quick = actuon.fit.SearchOptions(starts=1, generations=50)  # for a first look
        >>> thorough = actuon.fit.SearchOptions(starts=4, seed=1)
    """

    seed: int = 0
    starts: int = 2
    population: int | None = None
    generations: int = 250
    patience: int = 50
    tolerance: float = 2e-3
    sigma: float = 0.2


@dataclass(frozen=True)
class SearchResult:
    """Result of a search."""

    values: list[np.ndarray]
    """Values of the free parameters of each joint, shape (P,)."""
    errors: np.ndarray
    """Mean absolute error of the position [rad or m] over the runs by joint, shape (J,). If joints are searched
    together, that of all, as a share of the motion if some turn and some slide."""
    generations: int
    evaluations: int
    """Number of candidates simulated, each in all runs."""
    converged: bool
    """Whether it stopped because nothing improved."""
    interrupted: bool
    """Whether the user interrupted it."""


@dataclass(frozen=True)
class SearchTask:
    """Inputs of one CMA-ES from one start. The parameters of all joints are one vector."""

    plant: Plant
    models: tuple[Model, ...]
    options: SearchOptions
    begin: tuple[np.ndarray, ...]
    """Start values for each joint, shape (P,)."""
    resume: PathLike | None = None

    @property
    def population(self) -> int:
        """Number of candidates in a generation."""
        each = _FEW if len(self.models) > 1 else _MANY
        return self.options.population or max(32, each * sum(len(model.parameters) for model in self.models))


class CmaSearch:
    """A search that `step` advances by one generation."""

    def __init__(self, task: SearchTask):
        self._task = task
        self._parameters = [p for model in task.models for p in model.parameters]
        self._dimension = max(len(self._parameters), _FEWEST)
        self._rng = np.random.default_rng([task.options.seed, *range(len(task.models))])
        spare = np.full(self._dimension - len(self._parameters), 0.5)
        begin = np.concatenate([to_unit(self._parameters, np.concatenate(task.begin)), spare])
        self._cma = self._started(begin)
        self._scales = error_scales(task.plant)
        self._log = SearchLog(task.resume, lambda: search_inputs(task.plant, task.models, task.options, task.begin))
        self._best, self._reference, self._since = begin, math.inf, 0
        self.error = math.inf
        """Smallest mean absolute error so far [rad or m; a share of the motion if joints have both]."""
        self.generation = 0
        """Number of generations so far."""

    def _started(self, mean: np.ndarray) -> Any:
        options = self._task.options
        return require("cmaes", "fit", "fitting").CMA(
            mean=np.clip(mean, 0.02, 0.98),
            sigma=options.sigma,
            bounds=np.tile([0.0, 1.0], (self._dimension, 1)),
            seed=int(self._rng.integers(2**31)),
            population_size=self._task.population,
        )

    @property
    def errors(self) -> np.ndarray:
        """`error` for each of the joints, shape (J,)."""
        return np.full(len(self._task.models), self.error)

    @property
    def is_done(self) -> bool:
        """Whether the search has converged or reached its maximum of generations."""
        return self.generation >= self._task.options.generations or self._is_converged

    @property
    def _is_converged(self) -> bool:
        return self._since >= self._task.options.patience

    def step(self) -> None:
        """Simulate one generation, or read its errors from the checkpoint, and update the distribution."""
        task = self._task
        asked = np.array([self._cma.ask() for _ in range(task.population)])
        errors = self._log.at(self.generation)
        if errors is None:
            errors = task.plant.errors(task.plant.trials(task.models, self._values(asked))).mean(axis=1)
            self._log.add(errors)
        self._learn(asked, (errors / self._scales).mean(axis=1))
        self.generation += 1
        is_better = self.error < self._reference * (1.0 - task.options.tolerance)
        self._reference = self.error if is_better else self._reference
        self._since = 0 if is_better else self._since + 1

    def _learn(self, asked: np.ndarray, errors: np.ndarray) -> None:
        best = int(np.argmin(errors))
        if errors[best] < self.error:
            self._best, self.error = asked[best].copy(), float(errors[best])
        worst = float(np.max(errors, initial=0.0, where=np.isfinite(errors)))
        finite = np.where(np.isfinite(errors), errors, 10.0 * worst + 1.0)
        self._cma.tell(list(zip(asked, finite, strict=True)))
        if self._cma.should_stop():
            self._cma = self._started(self._rng.uniform(0.1, 0.9, self._dimension))

    def _values(self, shares: np.ndarray) -> list[np.ndarray]:
        """Convert shares, shape (..., D), to values of each joint, shapes (..., P)."""
        values = from_unit(self._parameters, shares[..., : len(self._parameters)])
        sizes = [len(model.parameters) for model in self._task.models]
        return np.split(values, np.cumsum(sizes)[:-1], axis=-1)

    def result(self, *, interrupted: bool = False) -> SearchResult:
        """Return the best result so far, and write the checkpoint."""
        self._log.save()
        return SearchResult(
            self._values(self._best),
            self.errors,
            self.generation,
            self.generation * self._task.population,
            converged=self._is_converged,
            interrupted=interrupted,
        )


def run_task(task: SearchTask, progress: Progress | None = None) -> SearchResult:
    """Search from one start. An interrupt returns the best result so far."""
    search = CmaSearch(task)
    try:
        while not search.is_done:
            check()
            search.step()
            if progress is not None:
                progress(search.generation, search.errors)
    except KeyboardInterrupt:
        return search.result(interrupted=True)
    return search.result()


@dataclass(frozen=True)
class Search:
    """Searches of all joints of a plant from all starts, with a title for their progress.

    Joints and further starts add suffixes to the checkpoint file ``resume``.
    """

    plant: Plant
    models: tuple[Model, ...]
    options: SearchOptions
    title: str = ""
    resume: PathLike | None = None

    def tasks(self) -> list[list[SearchTask]]:
        """Return the tasks of each joint, or of all joints together, one for each start."""
        if self.plant.couples_joints:
            plant, options = _few_windows(self.plant), _rough(self.options)
            return [_from_each_start(SearchTask(plant, self.models, options, _begin(self.models), self.resume))]
        found = []
        for joint, model in enumerate(self.models):
            own, options, resume = self.plant.only(joint), self.options, self.resume
            if len(self.models) > 1:
                seed = int(np.random.default_rng([options.seed, joint]).integers(2**31))
                options = dataclasses.replace(options, seed=seed)
                resume = None if resume is None else f"{resume}.{own.joints[0]}"
            found.append(_from_each_start(SearchTask(own, (model,), options, _begin([model]), resume)))
        return found


def _begin(models: Sequence[Model]) -> tuple[np.ndarray, ...]:
    return tuple(model.start for model in models)


def _rough(options: SearchOptions) -> SearchOptions:
    """Return options for a short search of all joints together; least squares improve the result."""
    tolerance = max(options.tolerance, _TOLERANCE)
    return dataclasses.replace(options, patience=min(options.patience, _PATIENCE), tolerance=tolerance)


def _few_windows(plant: Plant) -> Plant:
    """Return the plant with some of its windows, spread over all; least squares use all of them."""
    last, count = len(plant.runs) - 1, min(len(plant.runs), _MOST_WINDOWS)
    return plant.subset([int(i) for i in np.linspace(0, last, count).round()])


def _from_each_start(task: SearchTask) -> list[SearchTask]:
    """Return a task for each start: the given one, and random ones."""
    one = dataclasses.replace(task.options, starts=1)
    tasks = [dataclasses.replace(task, options=one)]
    for number in range(1, task.options.starts):
        rng = np.random.default_rng([task.options.seed, number])
        begin = tuple(from_unit(m.parameters, rng.uniform(0.1, 0.9, len(m.parameters))) for m in task.models)
        options = dataclasses.replace(one, seed=int(rng.integers(2**31)))
        resume = None if task.resume is None else f"{task.resume}.{number}"
        tasks.append(dataclasses.replace(task, options=options, begin=begin, resume=resume))
    return tasks


def run_searches(
    searches: Sequence[Search], workers: Workers | None = None, progress: ProgressFactory | None = None
) -> Iterator[SearchResult]:
    """Yield the results of searches in order; an interrupted one is the last.

    In this process, the tasks of a search alternate generation by generation, so an interrupt finds all equally far.
    """
    parts = [one.tasks() for one in searches] if workers is not None else []
    results = iter(()) if workers is None else _on_workers(searches, parts, workers, progress)
    for number, one in enumerate(searches):
        if workers is None:
            found = _side_by_side(one.tasks(), progress(one.title) if progress is not None else None)
        else:
            found = [[next(results) for _ in starts] for starts in parts[number]]
        merged = merge_joints([best_start(starts) for starts in found])
        yield merged
        if merged.interrupted:
            return


def _on_workers(
    searches: Sequence[Search],
    parts: Sequence[Sequence[Sequence[SearchTask]]],
    workers: Workers,
    progress: ProgressFactory | None,
) -> Iterator[SearchResult]:
    """Yield the results of all tasks in order."""
    tasks: list[SearchTask] = []
    titles: list[str] = []
    for one, joints in zip(searches, parts, strict=True):
        for starts in joints:
            joint = f", {starts[0].plant.joints[0]}" if len(joints) > 1 else ""
            titles += [one.title + joint + (f", start {i + 1}" if i else "") for i in range(len(starts))]
            tasks += starts
    return workers.map(run_task, tasks, titles, progress)


def _side_by_side(joints: Sequence[Sequence[SearchTask]], told: Progress | None) -> list[list[SearchResult]]:
    """Return the results of tasks that alternate generation by generation."""
    parts = [[CmaSearch(task) for task in starts] for starts in joints]
    every = [search for starts in parts for search in starts]
    is_interrupted = False
    try:
        while running := [search for search in every if not search.is_done]:
            for search in running:
                check()
                search.step()
            if told is not None and not all(search.is_done for search in running):
                best = [np.min([search.errors for search in starts], axis=0) for starts in parts]
                told(max(search.generation for search in every), np.concatenate(best))
    except KeyboardInterrupt:
        is_interrupted = True
    return [[search.result(interrupted=is_interrupted) for search in starts] for starts in parts]


def best_start(found: Sequence[SearchResult]) -> SearchResult:
    """Return the result with the smallest error of all starts, with the number of evaluations of all."""
    best = min(found, key=lambda one: float(one.errors.mean()))
    return dataclasses.replace(
        best,
        evaluations=sum(one.evaluations for one in found),
        interrupted=any(one.interrupted for one in found),
    )


def merge_joints(found: Sequence[SearchResult]) -> SearchResult:
    """Merge the results of single joints into one."""
    if len(found) == 1:
        return found[0]
    return SearchResult(
        [value for one in found for value in one.values],
        np.concatenate([one.errors for one in found]),
        max(one.generations for one in found),
        sum(one.evaluations for one in found),
        converged=all(one.converged for one in found),
        interrupted=any(one.interrupted for one in found),
    )
