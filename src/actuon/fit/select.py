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
from .search import Search, SearchOptions, run_searches
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


def compare(
    plant: Plant,
    candidates: Sequence[Sequence[Model]],
    options: SearchOptions | None = None,
    *,
    progress: ProgressFactory | None = None,
    workers: Workers | None = None,
) -> list[Compared]:
    """Compare models by cross-validation and mark the chosen one.

    ``candidates`` are lists with one model for each joint, simple ones first. After an interrupt, only the models that
    are complete are compared.
    """
    folds = folds_of(plant.runs)
    unit, scales = error_unit(plant), error_scales(plant)
    plants = [plant.subset([i for i in range(len(plant.runs)) if i not in fold.runs]) for fold in folds]
    searches = [
        Search(own, tuple(models), options or SearchOptions(), f"{models[0].name} without {fold.name}")
        for models in candidates
        for fold, own in zip(folds, plants, strict=True)
    ]
    results = run_searches(searches, workers, progress)
    compared: list[Compared] = []
    for models in candidates:
        errors = np.full((len(plant.runs), len(plant.joints)), np.nan)
        train: list[float] = []
        values: dict[str, list[np.ndarray]] = {}
        for fold, own in zip(folds, plants, strict=True):
            found = next(results)
            if found.interrupted:
                return mark_chosen(compared)
            values[fold.name], error = list(found.values), float((found.errors / scales).mean())
            if plant.couples_joints or plant.log_parameters:  # the search leaves out windows and offsets
                refined = refine_all(own, models, found.values)
                values[fold.name] = [each.values for each in refined.estimates]
                error = float((refined.errors(own) / scales).mean())
            train.append(error)
            errors[list(fold.runs)] = judge_runs(plant.subset(fold.runs), models, values[fold.name])[0]
        number = sum(len(model.parameters) for model in models)
        scaled = errors / scales
        by_fold = {fold.name: float(scaled[list(fold.runs)].mean()) for fold in folds}
        means = float(np.mean(train)), float(scaled.mean())
        compared.append(Compared(models[0].name, number, *means, by_fold, errors, values, unit=unit, scales=scales))
    return mark_chosen(compared)


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
