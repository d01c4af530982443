# SPDX-License-Identifier: Apache-2.0
"""`fit_logs` fits logs in one call; `fit_models` fits given models to a plant."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..errors import Option, ParameterError
from ..logs import Finding, Log
from ..typing import PathLike
from .interrupts import held_interrupts
from .model import LOG, Model, Parameter, changed, from_unit, to_unit
from .plants.known_load import KnownLoadPlant
from .plants.plant import Plant
from .refine import Estimate, Refined, refine_all, undetermined, varying
from .result import FitResult, FittedJoint, FittedParameter, RunError
from .search import Search, SearchOptions, SearchResult, run_searches
from .select import Comparison, compare
from .terms import JointFacts, build_model, usual_models
from .units import error_scales, error_text
from .verdict import judge
from .workers import Progress, ProgressFactory, Workers

_MODEL = Option("model", "--model")
_STEP_MATTERS = 1.2
"""Largest ratio between the errors at the time step and at half of it."""
_VALUE_MATTERS = 0.025
"""Largest change of a value at half the time step, relative, or as a share of a linear range."""
_AT_BOUND = 1e-3
"""Distance from the end of a range, as a share of the range, below which a value is at that end."""


def fit_logs(
    logs: Sequence[Log] = (),
    model: str | Model | None = None,
    *,
    select: bool | Sequence[str | Model] = False,
    plant: Plant | None = None,
    load: Mapping[str, float] | None = None,
    fix: Mapping[str, float] | None = None,
    free: Mapping[str, tuple[float, float] | None] | None = None,
    options: SearchOptions | None = None,
    progress: ProgressFactory | None = None,
    resume: PathLike | None = None,
    workers: Workers | None = None,
) -> FitResult:
    """Fit an actuator to logs.

    Args:
        logs: Runs from `read_logs`. Omit them if a ``plant`` is given, which has runs.
        model: Name of a preset such as ``"m4"``, with further terms as in ``"m4+limit"``, or a `Model`. Default: the
            preset with load-dependent friction that suits the logs.
        select: Compare models by cross-validation and fit the best one: True for the usual models, or a list.
        plant: Mechanism that the actuators drive. Default: one joint with the load that the logs state.
        load: ``mass`` [kg] and ``length`` [m] of a pendulum, or ``inertia`` [kg·m²]. Overrides the logs' settings.
        fix: Known values by path of the parameter, such as ``{"controller.kp": 2.0}``.
        free: Ranges of further free parameters by path. None derives the range from the present value.
        options: Effort and seed of the search.
        progress: Called with the title of each search; returns its callback.
        resume: Checkpoint file: if it exists, the search resumes from it; progress is saved to it.
        workers: Runner of the searches, such as `workers.RayWorkers`. Default: this process.

    Examples:
        >>> time = np.arange(0.0, 1.0, 0.01)
        >>> joint = actuon.fit.JointLog("knee", 0.9 * np.sin(3.0 * time - 0.1), np.sin(3.0 * time))
        >>> log = actuon.fit.Log("run", time, (joint,), {"mass": 0.5, "length": 0.1})
        >>> options = actuon.fit.SearchOptions(starts=1, population=32, generations=20)
        >>> result = actuon.fit.fit_logs([log], "pd_coulomb", options=options)
        >>> result.save("knee.yaml")
    """
    with held_interrupts():
        plant = plant if plant is not None else KnownLoadPlant(logs, load)
        return _fit_logs(plant, model, select, fix, free, options, progress, resume, workers)


def _fit_logs(
    plant: Plant,
    model: str | Model | None,
    select: bool | Sequence[str | Model],
    fix: Mapping[str, float] | None,
    free: Mapping[str, tuple[float, float] | None] | None,
    options: SearchOptions | None,
    progress: ProgressFactory | None,
    resume: PathLike | None,
    workers: Workers | None,
) -> FitResult:
    begin = time.monotonic()
    told = progress or (lambda title: None)
    candidates = candidates_of(plant, model, select=select, fix=fix, free=free)
    if select is False:
        (chosen,) = candidates
        return fit_models(plant, chosen, options, progress=told(chosen[0].name), resume=resume, workers=workers)
    comparison = compare(plant, candidates, options, progress=told, workers=workers)
    chosen, compared = candidates[comparison.best], comparison.compared
    if comparison.interrupted:
        result = _interrupted_selection(plant, candidates, comparison, options or SearchOptions(), begin)
    else:
        result = fit_models(plant, chosen, options, progress=told(chosen[0].name), resume=resume, workers=workers)
    return result.with_held_out(compared[comparison.best].by_run, compared) if compared else result


def _interrupted_selection(
    plant: Plant, candidates: Sequence[Sequence[Model]], comparison: Comparison, options: SearchOptions, begin: float
) -> FitResult:
    """Return the chosen model with the best of the values that were fitted without a fold, without another search."""
    models, scales = candidates[comparison.best], error_scales(plant)
    values = list(comparison.values) or [[model.start for model in models]]
    errors = [
        plant.errors(plant.trials(models, [np.asarray(own)[None] for own in each]))[0].mean(axis=0) for each in values
    ]
    best = int(np.argmin([(error / scales).mean() for error in errors]))
    found = SearchResult(values[best], errors[best], comparison.generations, 0, converged=False, interrupted=True)
    result = _result_of(plant, models, found, refine_all(plant, models, found.values, 0), options, begin)
    whole = f"{len(comparison.compared)} of {len(candidates)} models"
    caution = f"the selection was interrupted after {whole}: the best values so far, fitted to a part of the runs"
    return dataclasses.replace(result, cautions=(caution, *result.cautions))


def candidates_of(
    plant: Plant,
    model: str | Model | None = None,
    *,
    select: bool | Sequence[str | Model] = False,
    fix: Mapping[str, float] | None = None,
    free: Mapping[str, tuple[float, float] | None] | None = None,
) -> list[list[Model]]:
    """Return the models to fit or to compare, simple ones first, each as a list by joint. See `fit_logs`."""
    if model is not None and select is not False:
        given = model if isinstance(model, str) else model.name
        raise ParameterError(f"got '{given}', with 'select', which chooses a model; pass one of them", option=_MODEL)
    facts = [JointFacts(s, plant.runs, joint) for s, joint in zip(plant.scales(), plant.joints, strict=True)]
    selected = usual_models(facts)
    usual = plant.usual_model or selected[-1]
    names = (model or usual,) if select is False else selected if select is True else tuple(select)
    found = []
    for name in names:
        own = [build_model(name, each) if isinstance(name, str) else name for each in facts]
        own = [plant.adapt(joint, one) for joint, one in enumerate(own)]
        found.append([changed(one, fix or {}, free or {}) for one in own])
    return sorted(found, key=lambda own: sum(len(one.parameters) for one in own))


def fit_models(
    plant: Plant,
    models: Sequence[Model],
    options: SearchOptions | None = None,
    *,
    progress: Progress | None = None,
    resume: PathLike | None = None,
    refine_steps: int = 6,
    workers: Workers | None = None,
) -> FitResult:
    """Fit one model for each joint to the runs of a plant. See `fit_logs`."""
    begin = time.monotonic()
    options = options or SearchOptions()
    search = Search(plant, tuple(models), options, models[0].name, resume)
    with held_interrupts():
        (found,) = run_searches([search], workers, lambda title: progress)
        refined = refine_all(plant, models, found.values, 0 if found.interrupted else refine_steps, workers)
        return _result_of(plant, models, found, refined, options, begin)


def _result_of(
    plant: Plant,
    models: Sequence[Model],
    found: SearchResult,
    refined: Refined,
    options: SearchOptions,
    begin: float,
) -> FitResult:
    """Return the result of a search and of least squares."""
    errors = refined.errors(plant)
    joints = tuple(map(_fitted_joint, plant.joints, models, refined.estimates))
    doubts = {joint.name: _doubt(joint) for joint in joints}
    return FitResult(
        joints=joints,
        runs=tuple(
            RunError(run.path, joint, float(errors[r, j]))
            for r, run in enumerate(plant.runs)
            for j, joint in enumerate(plant.joints)
        ),
        converged=found.converged,
        interrupted=found.interrupted or refined.is_interrupted,
        generations=found.generations,
        evaluations=found.evaluations,
        seed=options.seed,
        seconds=time.monotonic() - begin,
        dt=plant.dt,
        findings=tuple(findings_of(plant)),
        verdicts=judge(plant.runs, plant.joints, errors, units=plant.units, doubts=doubts, rests_on=plant.rests_on),
        cautions=tuple(_cautions(plant, refined, errors)),
        per_log=varying(plant, refined.models, refined.values, "log"),
        per_robot=varying(plant, refined.models, refined.values, "robot"),
    )


def _cautions(plant: Plant, refined: Refined, errors: np.ndarray) -> Iterator[str]:
    """Yield a warning if intervals are missing, and if half the time step changes the error, or a parameter by more
    than its statistical error."""
    if not all(own.has_intervals for own in refined.estimates):
        yield "intervals were not computed, and are the ranges of the search"
    changes = []
    for joint, (model, own) in enumerate(zip(refined.models, refined.estimates, strict=True)):
        half, error, unit = own.half_error, float(errors[:, joint].mean()), plant.units[joint]
        if half is None:
            continue
        if max(half, error) > _STEP_MATTERS * min(half, error) + 1e-3:
            changes.append(f"the error is {error_text(half, unit, 1)} instead of {error_text(error, unit, 1)}")
        at_half = from_unit(model.parameters, to_unit(model.parameters, own.values) + own.step_change)
        for i, p in enumerate(model.parameters):
            change = abs(own.step_change[i]) * (p.width if p.scale == LOG else 1.0)
            if change > _VALUE_MATTERS and own.step_change[i] ** 2 > 0.5 * own.covariance[i, i]:
                changes.append(f"{p.path} is about {at_half[i]:.3g} instead of {own.values[i]:.3g}")
    if changes:
        yield f"at half the time step of {plant.dt:g} s, {', '.join(changes)}: fit with a shorter time step (dt)"


def findings_of(plant: Plant) -> Iterator[Finding]:
    """Yield the findings in the logs of a plant and the changes to its robot, each once."""
    logged = (finding.of_log(run.path) for run in plant.runs for finding in run.findings)
    yield from dict.fromkeys([*plant.findings, *logged])


def _fitted_joint(name: str, model: Model, estimate: Estimate) -> FittedJoint:
    """Return the fitted model of a joint."""
    parameters = tuple(
        FittedParameter(p.path, float(v), float(a), float(b), _at_bound(p, float(v)), p.added_to)
        for p, v, a, b in zip(model.parameters, estimate.values, estimate.low, estimate.high, strict=True)
    )
    open_questions = tuple(undetermined(model.parameters, estimate.jacobian, estimate.noise))
    return FittedJoint(name, model, estimate.values, parameters, open_questions, estimate.covariance)


def _doubt(joint: FittedJoint) -> str:
    """Return a reason to doubt the parameters of a joint; empty if there is none."""
    bounded = [p for p in joint.parameters if p.at_bound in ("low", "high")]
    if bounded:
        others = f" and {len(bounded) - 1} more" if len(bounded) > 1 else ""
        end = f"is at the {bounded[0].at_bound} end of its range"
        return f"the parameter {bounded[0].path}{others} {end}; free it in a wider range, or fix it"
    if 2 * len(joint.undetermined) > len(joint.parameters):
        return "the logs do not determine most of the parameters; record motion that shows them, or fix some"
    return ""


def _at_bound(parameter: Parameter, value: float) -> str:
    """Return ``"low"`` or ``"high"`` at that end of the range, ``"none"`` if too low to matter, else ""."""
    share = float(parameter.to_unit(np.array(value)))
    if share > 1.0 - _AT_BOUND:
        return "high"
    if share < _AT_BOUND:
        return "none" if parameter.scale == LOG or parameter.low == 0.0 else "low"
    return ""
