# SPDX-License-Identifier: Apache-2.0
"""Global search: CMA-ES from several starts, of which all populations are one batch.

Joints are searched side by side, each by its own error, or together, as one vector. A search is a function of its seed
and of the errors it was told: so what is kept to go on later is those errors, and nothing that runs code when read.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LogError
from ..files import replacing
from .extras import need
from .models import Model
from .parameters import from_unit, to_unit
from .plants.plant import Plant
from .search_inputs import differences, inputs_of_file, search_inputs

_FEWEST = 2
"""Dimensions that CMA-ES needs; a search of fewer has some that mean nothing."""
_MANY, _FEW = 8, 2
"""Candidates for each parameter; where joints are searched together, of which a trial takes long, and in full."""
_SAVE_EVERY = 25
"""Generations after which what is known is written to the file."""


@dataclass(frozen=True)
class SearchOptions:
    """How long and how wide to search.

    Args:
        seed: Seed of the random numbers.
        starts: How many searches go on side by side. Few with a large population find more than many small ones.
        population: Candidates of each. Default: 8 for each parameter, at least 32.
        generations: Most generations.
        patience: Generations without progress after which to stop.
        tolerance: Share of the error that counts as progress.
        sigma: First spread, as a share of the ranges.
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
    """What a search has found, for each joint."""

    values: list[np.ndarray]
    """Values of the free parameters, shape (P,)."""
    errors: np.ndarray
    """Mean absolute error of the position [rad] over the runs, shape (J,)."""
    generations: int
    evaluations: int
    """Candidates that were simulated, each in all runs."""
    converged: bool
    """Whether it stopped because nothing improved."""
    interrupted: bool
    """Whether it was stopped from outside."""


Progress = Callable[[int, np.ndarray], None]
"""Called after each generation with its number and the least error of each joint [rad], shape (J,)."""


class _Group:
    """The searches of some joints whose parameters are one vector."""

    def __init__(
        self,
        joints: list[int],
        models: Sequence[Model],
        options: SearchOptions,
        population: int,
        begins: Sequence[Sequence[np.ndarray]],
    ):
        self.joints = joints
        self.population = population
        self._sizes = [len(models[j].parameters) for j in joints]
        self._parameters = [p for j in joints for p in models[j].parameters]
        self._dimension = max(len(self._parameters), _FEWEST)
        self._options = options
        self._rng = np.random.default_rng([options.seed, *joints])
        self._begins = [self._shares(np.concatenate([begin[j] for j in joints])) for begin in begins]
        self._searches = [self._new(i) for i in range(max(options.starts, len(begins)))]
        self.best, self.best_error = self._begins[0], math.inf

    def _shares(self, values: np.ndarray) -> np.ndarray:
        spare = np.full(self._dimension - len(self._parameters), 0.5)
        return np.concatenate([to_unit(self._parameters, values), spare])

    def _new(self, number: int) -> Any:
        is_given = number < len(self._begins)
        mean = self._begins[number] if is_given else self._rng.uniform(0.1, 0.9, self._dimension)
        return need("cmaes").CMA(
            mean=np.clip(mean, 0.02, 0.98),
            sigma=self._options.sigma,
            bounds=np.tile([0.0, 1.0], (self._dimension, 1)),
            seed=int(self._rng.integers(2**31)),
            population_size=self.population,
        )

    def ask(self) -> list[np.ndarray]:
        """Values of the candidates of all starts for each joint of the group, shape (C, P)."""
        self._asked = np.array([search.ask() for search in self._searches for _ in range(self.population)])
        return self.values(self._asked)

    def tell(self, errors: np.ndarray) -> None:
        """Learn from the errors of the candidates, shape (C,)."""
        best = int(np.argmin(errors))
        if errors[best] < self.best_error:
            self.best, self.best_error = self._asked[best].copy(), float(errors[best])
        worst = float(np.max(errors, initial=0.0, where=np.isfinite(errors)))
        finite = np.where(np.isfinite(errors), errors, 10.0 * worst + 1.0)
        for i, search in enumerate(self._searches):
            rows = slice(i * self.population, (i + 1) * self.population)
            search.tell(list(zip(self._asked[rows], finite[rows], strict=True)))
            if search.should_stop():
                self._searches[i] = self._new(len(self._begins))

    def values(self, shares: np.ndarray) -> list[np.ndarray]:
        """Values of each joint of the group, shapes (..., P), from shares of shape (..., D)."""
        values = from_unit(self._parameters, shares[..., : len(self._parameters)])
        return np.split(values, np.cumsum(self._sizes)[:-1], axis=-1)


def search(
    plant: Plant,
    models: Sequence[Model],
    options: SearchOptions | None = None,
    *,
    together: bool = False,
    starts: Sequence[Sequence[np.ndarray]] = (),
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> SearchResult:
    """Look for the parameters with the least error.

    An interrupt, while it runs or between two generations, ends it with the best so far.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        options: How long and how wide.
        together: Search all joints as one vector by the mean of their errors. Default: each by its own.
        starts: Where searches begin, instead of at the models' own start: values for each joint, shape (P,). There are
            as many searches as these at least; further ones begin at random.
        progress: Called after each generation.
        resume: File that holds what has been found out so far, read where it is there, and written.
    """
    steps = searching(
        plant, models, options or SearchOptions(), together=together, starts=starts, progress=progress, resume=resume
    )
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def searching(
    plant: Plant,
    models: Sequence[Model],
    options: SearchOptions,
    *,
    together: bool = False,
    starts: Sequence[Sequence[np.ndarray]] = (),
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Generator[None, None, SearchResult]:
    """A `search` that goes on for one generation each time it is asked to, and returns its result at the end."""
    begins = list(starts) or [[model.start for model in models]]
    joints = range(len(models))
    together_or_not = [list(joints)] if together else [[j] for j in joints]
    sizes = [sum(len(models[j].parameters) for j in own) for own in together_or_not]
    each = _FEW if together and len(models) > 1 else _MANY
    population = options.population or max(32, *(each * size for size in sizes))
    groups = [_Group(own, models, options, population, begins) for own in together_or_not]
    told = _Told(resume, lambda: search_inputs(plant, models, options, together, begins))
    generation = since = 0
    reference = np.full(len(groups), np.inf)
    interrupted = False
    try:
        while generation < options.generations and since < options.patience:
            asked = dict(itertools.chain.from_iterable(zip(g.joints, g.ask(), strict=True) for g in groups))
            errors = told.at(generation)
            if errors is None:
                errors = plant.errors(models, [asked[j] for j in joints]).mean(axis=1)
                told.add(errors)
            for group in groups:
                group.tell(errors[:, group.joints].mean(axis=1))
            generation += 1
            now = np.array([group.best_error for group in groups])
            better = now < reference * (1.0 - options.tolerance)
            reference = np.where(better, now, reference)
            since = 0 if better.any() else since + 1
            if progress is not None:
                progress(generation, _by_joint(groups, now))
            yield
    except KeyboardInterrupt:
        interrupted = True
    told.save()
    found = dict(itertools.chain.from_iterable(zip(g.joints, g.values(g.best), strict=True) for g in groups))
    return SearchResult(
        [found[j] for j in joints],
        _by_joint(groups, np.array([group.best_error for group in groups])),
        generation,
        generation * population * max(options.starts, len(begins)),
        converged=since >= options.patience,
        interrupted=interrupted,
    )


def _by_joint(groups: Sequence[_Group], errors: np.ndarray) -> np.ndarray:
    by_joint = {joint: error for group, error in zip(groups, errors, strict=True) for joint in group.joints}
    return np.array([by_joint[joint] for joint in sorted(by_joint)])


class _Told:
    """The errors that a search was told, generation by generation, kept in a file."""

    def __init__(self, path: str | os.PathLike[str] | None, inputs: Callable[[], dict[str, str]]):
        self._path = None if path is None else Path(path)
        self._of = {} if path is None else inputs()
        self._errors: list[np.ndarray] = []
        self._saved = 0
        if self._path is not None and self._path.exists():
            self._errors = self._read(self._path)
            self._saved = len(self._errors)

    def _read(self, path: Path) -> list[np.ndarray]:
        try:
            with np.load(path, allow_pickle=False) as file:
                said, errors = str(file["of"]), file["errors"]
        except Exception as error:  # whatever zipfile, zlib and NumPy raise of a damaged file
            raise LogError(f"'{path}': is not a search to go on with: {error}") from error
        try:
            of = inputs_of_file(path, json.loads(said))
        except json.JSONDecodeError as error:
            raise LogError(
                f"'{path}': is of an earlier version, and does not say of which logs and plant; remove it, or give "
                "another file"
            ) from error
        if of != self._of:
            told = differences(of, self._of) if isinstance(of, dict) else "its inputs"
            raise LogError(f"'{path}': is another search: {told}. Remove it, or give another file")
        return list(errors)

    def at(self, generation: int) -> np.ndarray | None:
        """The errors of a generation, shape (C, J), where they are known."""
        return self._errors[generation] if generation < len(self._errors) else None

    def add(self, errors: np.ndarray) -> None:
        self._errors.append(errors)
        if self._path is not None and len(self._errors) - self._saved >= _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        if self._path is not None and len(self._errors) > self._saved:
            with replacing(self._path) as partial, partial.open("wb") as stream:
                np.savez_compressed(stream, of=json.dumps(self._of), errors=np.array(self._errors))
            self._saved = len(self._errors)
