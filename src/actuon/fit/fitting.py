# SPDX-License-Identifier: Apache-2.0
"""A fit from models and a plant to a result: search, least squares, intervals, and what is to be said about them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from .identifiability import undetermined
from .jobs import SearchJob, Workers, searched
from .local import LocalResult, refine
from .models import Model
from .parameters import LOG, Parameter
from .plants.plant import Coupled, Plant
from .result import FitResult, FittedJoint, FittedParameter, RunError
from .search import Progress, SearchOptions

_AT_BOUND = 1e-3
"""Share of a range from which on a value counts as being at its end."""


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
    job = SearchJob(quick, tuple(models), options, together or is_one, begins, resume)
    (found,) = searched([job], [models[0].name], workers, lambda title: progress)
    values = list(found.values)
    local = []
    for joint in range(len(models)):
        local.append(refine(quick, models, values, joint, steps=0 if found.interrupted else refine_steps))
        values[joint] = local[joint].values
    errors = plant.errors(models, [own[None] for own in values])[0]
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
        findings=tuple(f"{run.path}: {finding}" for run in plant.runs for finding in run.findings),
    )


def where_to_search(plant: Plant) -> tuple[Plant, bool]:
    """The plant in which to search, and whether all its joints must be searched together."""
    quick = plant.alone() if isinstance(plant, Coupled) else plant
    return (plant, True) if quick is None else (quick, False)


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
