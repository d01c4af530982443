# SPDX-License-Identifier: Apache-2.0
"""A fit from models and a plant to a result: search, least squares, intervals, and what is to be said about them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

from ..logs import Finding
from .identifiability import undetermined
from .jobs import SearchJob, Workers, refined, searched
from .local import LocalResult, refine_together
from .models import Model
from .parameters import LOG, Parameter
from .plants.plant import Coupled, Plant
from .plants.robot import RobotPlant
from .result import FitResult, FittedJoint, FittedParameter, RunError
from .search import Progress, SearchOptions, SearchResult
from .verdict import judge
from .zeros import zeros_by_name

_AT_BOUND = 1e-3
"""Share of a range from which on a value counts as being at its end."""
_PATIENCE, _TOLERANCE = 10, 0.01
"""Generations without progress after which a search of all joints together stops, and what counts as progress."""
_MOST_WINDOWS = 40
"""Windows that such a search looks at, spread over all of them."""
_TOGETHER = 5
"""How many times as many steps least squares take for all joints together."""


def fit_models(
    plant: Plant,
    models: Sequence[Model],
    options: SearchOptions | None = None,
    *,
    together: bool = False,
    starts: Sequence[Sequence[np.ndarray]] = (),
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
    refine_steps: int = 6,
    workers: Workers | None = None,
) -> FitResult:
    """Fit one model for each joint to the runs of a plant.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        options: How long and how wide to search.
        together: Search all joints as one vector.
        starts: Where searches begin, instead of at the models' own start: values for each joint, shape (P,).
        progress: Called after each generation.
        resume: File to go on from, and to keep what is found in.
        refine_steps: Most steps of least squares.
        workers: What runs the searches, one from each start. Default: this process.
    """
    begin = time.monotonic()
    options = options or SearchOptions()
    begins = tuple(tuple(begin) for begin in starts)
    quick, is_one = where_to_search(plant)
    job = SearchJob(quick, tuple(models), options_for(options, is_one), together or is_one, begins, resume)
    (found,) = searched([job], [models[0].name], workers, lambda title: progress)
    local, plant = settled(plant, quick, models, found, is_one, refine_steps, workers)
    errors = plant.errors(models, [own.values[None] for own in local])[0]
    return FitResult(
        joints=tuple(
            fitted_joint(name, model, own) for name, model, own in zip(plant.joints, models, local, strict=True)
        ),
        runs=run_errors(plant, errors),
        converged=found.converged,
        interrupted=found.interrupted,
        generations=found.generations,
        evaluations=found.evaluations,
        seed=options.seed,
        seconds=time.monotonic() - begin,
        findings=tuple(findings_of(plant)),
        verdicts=judge(plant.runs, plant.joints, errors),
        zeros=zeros_by_name(plant, plant.zeros) if isinstance(plant, RobotPlant) and plant.has_own_zeros else {},
    )


def findings_of(plant: Plant) -> Iterator[Finding]:
    """Return findings in the logs of a plant, and changes of its robot, each once."""
    own = plant.findings if isinstance(plant, RobotPlant) else ()
    yield from dict.fromkeys([*own, *(finding.of_log(run.path) for run in plant.runs for finding in run.findings)])


def options_for(options: SearchOptions, is_one: bool) -> SearchOptions:
    """How long to search where all joints are one: trials take long there, and least squares follow in all numbers."""
    if not is_one:
        return options
    rough = max(options.tolerance, _TOLERANCE)
    return dataclasses.replace(options, patience=min(options.patience, _PATIENCE), tolerance=rough)


def settled(
    plant: Plant,
    quick: Plant,
    models: Sequence[Model],
    found: SearchResult,
    is_one: bool,
    steps: int = 6,
    workers: Workers | None = None,
) -> tuple[list[LocalResult], Plant]:
    """What least squares make of what a search has found, and the plant with the zeros that were found with it."""
    steps = 0 if found.interrupted else steps
    if is_one:
        return refine_together(plant, models, found.values, steps=_TOGETHER * steps)
    return refined(quick, models, found.values, steps, workers), plant


def where_to_search(plant: Plant) -> tuple[Plant, bool]:
    """The plant in which to search, and whether all its joints must be searched together.

    Then a search looks at some of the windows, and least squares at all.
    """
    quick = plant.alone() if isinstance(plant, Coupled) else plant
    if quick is not None:
        return quick, False
    last, count = len(plant.runs) - 1, min(len(plant.runs), _MOST_WINDOWS)
    return plant.subset([int(i) for i in np.linspace(0, last, count).round()]), True


def run_errors(plant: Plant, errors: np.ndarray) -> tuple[RunError, ...]:
    """Errors of shape (R, J) with the names of runs and joints."""
    return tuple(
        RunError(run.path, joint, float(errors[r, j]))
        for r, run in enumerate(plant.runs)
        for j, joint in enumerate(plant.joints)
    )


def fitted_joint(name: str, model: Model, local: LocalResult) -> FittedJoint:
    """What was found of a joint, with what is to be said of it."""
    parameters = tuple(
        FittedParameter(p.path, float(v), float(a), float(b), _at_bound(p, float(v)), p.above)
        for p, v, a, b in zip(model.parameters, local.values, local.low, local.high, strict=True)
    )
    open_questions = tuple(undetermined(model.parameters, local))
    return FittedJoint(name, model, local.values, parameters, open_questions, local.covariance)


def _at_bound(parameter: Parameter, value: float) -> str:
    """Which end of its range a value is at: ``"low"``, ``"high"``, ``"none"`` for one so low that it has no effect, or
    empty."""
    share = float(parameter.to_unit(np.array(value)))
    if share > 1.0 - _AT_BOUND:
        return "high"
    if share < _AT_BOUND:
        return "none" if parameter.scale == LOG or parameter.low == 0.0 else "low"
    return ""
