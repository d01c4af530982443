# SPDX-License-Identifier: Apache-2.0
"""Selection of a model by cross-validation: the simplest whose error is within the noise of the smallest.

A fold is held out at a time: all runs with one value of a setting that varies, such as the gain, or those of one log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Fix, ParameterError
from ..logs import Log
from .log_names import log_names
from .model import Model
from .plants.plant import Plant
from .refine import judge_runs, refine_all
from .search import Search, SearchOptions, SearchResult, run_searches
from .units import error_scales, error_unit, in_shown, key_of
from .workers import ProgressFactory, Workers

_MOST_FOLDS = 6
_FOLDED_BY = ("kp", "kd", "ki", "vin", "mass", "length")
"""Settings whose values are folds; the first one that varies is used."""


@dataclass(frozen=True)
class Fold:
    """Runs that are held out together."""

    name: str
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """One model in a selection."""

    name: str
    parameters: int
    """Number of free parameters of all joints."""
    train: float
    """Mean absolute error in the fitted runs [unit]."""
    held_out: float
    """Mean absolute error in held-out runs [unit]."""
    by_fold: dict[str, float]
    """Mean absolute error of each held-out fold [unit], by name."""
    by_run: np.ndarray
    """Held-out errors [rad or m], shape (R, J)."""
    values: dict[str, list[np.ndarray]] = dataclasses.field(default_factory=dict)
    """Values fitted without each fold: a list with one array of shape (P,) for each joint, by name of the fold."""
    chosen: bool = False
    unit: str = "rad"
    """Unit of mean errors: rad, m, or empty for shares of the motion, if some joints turn and some slide."""
    scales: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1))
    """Divisors that bring the errors of the joints to this unit, shape (J,) or (1,)."""

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data for JSON, with errors in mrad, in mm, or in percent of the motion."""
        by_fold = {name: in_shown(error, self.unit) for name, error in self.by_fold.items()}
        return {
            "model": self.name,
            "parameters": self.parameters,
            key_of("train", self.unit): in_shown(self.train, self.unit),
            key_of("held_out", self.unit): in_shown(self.held_out, self.unit),
            key_of("held_out_folds", self.unit): by_fold,
            "chosen": self.chosen,
        }


def folds_of(runs: Sequence[Log]) -> list[Fold]:
    """Return the sets of runs that are held out together.

    Raises:
        ParameterError: There is only one run, so none can be held out.
    """
    if len(runs) < 2:
        raise ParameterError(
            f"a selection needs runs to hold out; got {len(runs)}: give more logs, or cut one into windows",
            fix=Fix("", " (--window)"),
        )
    for setting in _FOLDED_BY:
        values = [run.settings.get(setting) for run in runs]
        known = sorted({value for value in values if isinstance(value, (int, float))})
        if None not in values and 2 <= len(known) <= _MOST_FOLDS:
            return [Fold(f"{setting} {v:g}", tuple(i for i, own in enumerate(values) if own == v)) for v in known]
    paths = list(dict.fromkeys(run.path for run in runs))
    if len(paths) == 1:
        parts = [chunk.tolist() for chunk in np.array_split(np.arange(len(runs)), min(len(runs), 3))]
        return [Fold(f"part {i + 1}", tuple(part)) for i, part in enumerate(parts)]
    folds = [paths[i::_MOST_FOLDS] for i in range(min(_MOST_FOLDS, len(paths)))]
    names = log_names(paths)
    return [
        Fold(", ".join(names[path] for path in fold), tuple(i for i, run in enumerate(runs) if run.path in fold))
        for fold in folds
    ]


@dataclass(frozen=True)
class Comparison:
    """Models that were compared, all or those up to an interrupt."""

    compared: tuple[Compared, ...]
    """Models of which all folds were held out, with the chosen one marked."""
    interrupted: bool = False
    best: int = 0
    """Index of the chosen model among the candidates; of the one at hand, if none is complete."""
    values: tuple[list[np.ndarray], ...] = ()
    """Values of that model fitted without each fold: lists with one array of shape (P,) for each joint."""
    generations: int = 0
    """Number of generations of the last search."""


def compare(
    plant: Plant,
    candidates: Sequence[Sequence[Model]],
    options: SearchOptions | None = None,
    *,
    progress: ProgressFactory | None = None,
    workers: Workers | None = None,
) -> Comparison:
    """Compare models by cross-validation and mark the chosen one.

    ``candidates`` are lists with one model for each joint, simple ones first. After an interrupt, only the models that
    are complete are compared.
    """
    folds = folds_of(plant.runs)
    plants = [plant.subset([i for i in range(len(plant.runs)) if i not in fold.runs]) for fold in folds]
    searches = [
        Search(own, tuple(models), options or SearchOptions(), f"{models[0].name} without {fold.name}")
        for models in candidates
        for fold, own in zip(folds, plants, strict=True)
    ]
    progressed = _Progressed(plant, folds, plants)
    results = run_searches(searches, workers, progress)
    try:
        for models in candidates:
            progressed.begin()
            for number in range(len(folds)):
                progressed.add(number, models, next(results))
            progressed.end(models)
    except KeyboardInterrupt:
        return progressed.comparison(interrupted=True)
    return progressed.comparison()


class _Progressed:
    """State of a comparison."""

    def __init__(self, plant: Plant, folds: Sequence[Fold], plants: Sequence[Plant]):
        self._plant, self._folds, self._plants = plant, folds, plants
        self._unit, self._scales = error_unit(plant), error_scales(plant)
        self._compared: list[Compared] = []
        self._values: dict[str, list[np.ndarray]] = {}
        self._train: list[float] = []
        self._errors = np.zeros(0)
        self._generations = 0

    def begin(self) -> None:
        """Begin a model."""
        self._values, self._train = {}, []
        self._errors = np.full((len(self._plant.runs), len(self._plant.joints)), np.nan)

    def add(self, number: int, models: Sequence[Model], found: SearchResult) -> None:
        """Add the search without a fold, and judge it on the fold.

        Raises:
            KeyboardInterrupt: The search was interrupted, or this step is.
        """
        plant, own, fold = self._plant, self._plants[number], self._folds[number]
        self._generations = found.generations
        self._values[fold.name], error = list(found.values), float((found.errors / self._scales).mean())
        if found.interrupted:
            raise KeyboardInterrupt
        if plant.couples_joints or plant.log_parameters:  # the search leaves out windows and offsets
            refined = refine_all(own, models, found.values)
            self._values[fold.name] = [each.values for each in refined.estimates]
            if refined.is_interrupted:
                raise KeyboardInterrupt
            error = float((refined.errors(own) / self._scales).mean())
        self._errors[list(fold.runs)] = judge_runs(plant.subset(fold.runs), models, self._values[fold.name])[0]
        self._train.append(error)

    def end(self, models: Sequence[Model]) -> None:
        """End a model."""
        number = sum(len(model.parameters) for model in models)
        scaled = self._errors / self._scales
        by_fold = {fold.name: float(scaled[list(fold.runs)].mean()) for fold in self._folds}
        means = float(np.mean(self._train)), float(scaled.mean())
        about = {"unit": self._unit, "scales": self._scales}
        self._compared.append(
            Compared(models[0].name, number, *means, by_fold, self._errors, self._values, **about)  # type: ignore[arg-type]
        )

    def comparison(self, *, interrupted: bool = False) -> Comparison:
        """Return the comparison so far."""
        compared = tuple(mark_chosen(self._compared))
        best = next((i for i, one in enumerate(compared) if one.chosen), 0)
        values = compared[best].values if compared else self._values
        return Comparison(compared, interrupted, best, tuple(values.values()), self._generations)


def mark_chosen(compared: Sequence[Compared]) -> list[Compared]:
    """Mark the simplest model whose error exceeds the smallest by at most its standard error over the runs."""
    if not compared:
        return []
    best = min(compared, key=lambda one: one.held_out)
    for one in sorted(compared, key=lambda one: (one.parameters, one.held_out)):
        more = ((one.by_run - best.by_run) / best.scales).mean(axis=1)
        noise = float(more.std(ddof=1) / np.sqrt(len(more))) if len(more) > 1 else 0.0
        if one is best or float(more.mean()) <= noise:
            return [dataclasses.replace(each, chosen=each is one) for each in compared]
    return list(compared)
