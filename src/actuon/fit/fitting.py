# SPDX-License-Identifier: Apache-2.0
"""`fit_logs`: from logs to a result in one call; `fit_models`: from models and a plant."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..logs import Finding, Log
from ..typing import PathLike
from .model import LOG, Model, Parameter, changed
from .plants.known_load import KnownLoadPlant
from .plants.plant import Plant
from .refine import Estimate, refine_all, undetermined, varying
from .result import FitResult, FittedJoint, FittedParameter, RunError
from .search import Search, SearchOptions, run_searches
from .select import compare
from .terms import JointFacts, build_model, usual_models
from .verdict import judge
from .workers import Progress, ProgressFactory, Workers

_STEP_MATTERS = 1.2
"""Factor by which the error may differ at half the time step."""
_AT_BOUND = 1e-3
"""Distance from the end of a range, as a share of it, below which a value is at that end."""


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
        logs: The runs, by `read_logs`. Not needed with a ``plant``, which has them.
        model: Name of a preset, or a model. Default: the one with load-dependent friction that suits the logs.
        select: Compare several models, the usual ones or these, by their errors on held-out runs, and take the best.
        plant: What the actuators move. Default: a joint with the load that the logs state.
        load: ``mass`` and ``length`` of a pendulum, or ``inertia``, in place of what the logs state.
        fix: Values of parameters that are fixed, by path.
        free: Ranges of parameters that are fitted, by path; None takes one from the declaration and its present value.
        options: How long and how wide to search, and the seed.
        progress: Called with the progress of each search.
        resume: File to go on from, and to keep what is found in.
        workers: What runs the searches, such as `workers.RayWorkers`. Default: this process.

    Examples:
        >>> time = np.arange(0.0, 1.0, 0.01)
        >>> joint = actuon.fit.JointLog("knee", 0.9 * np.sin(3.0 * time - 0.1), np.sin(3.0 * time))
        >>> log = actuon.fit.Log("run", time, (joint,), {"mass": 0.5, "length": 0.1})
        >>> options = actuon.fit.SearchOptions(starts=1, population=32, generations=20)
        >>> result = actuon.fit.fit_logs([log], "pd_coulomb", options=options)
        >>> result.save("knee.yaml")
    """
    plant = plant if plant is not None else KnownLoadPlant(logs, load)
    told = progress or (lambda title: None)
    candidates = candidates_of(plant, model, select=select, fix=fix, free=free)
    if select is False:
        (chosen,) = candidates
        result = fit_models(plant, chosen, options, progress=told(chosen[0].name), resume=resume, workers=workers)
        return _step_checked(plant, result)
    compared = compare(plant, candidates, options, progress=told, workers=workers)
    best = next((i for i, one in enumerate(compared) if one.chosen), 0)
    chosen = candidates[best]
    result = fit_models(plant, chosen, options, progress=told(chosen[0].name), resume=resume, workers=workers)
    result = _step_checked(plant, result)
    if not compared:
        return dataclasses.replace(result, interrupted=True)
    return result.with_held_out(compared[best].by_run, tuple(compared))


def candidates_of(
    plant: Plant,
    model: str | Model | None = None,
    *,
    select: bool | Sequence[str | Model] = False,
    fix: Mapping[str, float] | None = None,
    free: Mapping[str, tuple[float, float] | None] | None = None,
) -> list[list[Model]]:
    """Return the models to fit or to compare, as `fit_logs` takes them: one for each joint, simple ones first."""
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


def _step_checked(plant: Plant, result: FitResult) -> FitResult:
    """Return the result, with a warning if its error differs at half the time step."""
    if plant.loads is None:
        return result
    half = plant.replace(dt=0.5 * plant.dt)
    error = float(half.errors(result.trials(half)).mean())
    if max(error, result.error) <= _STEP_MATTERS * min(error, result.error) + 1e-3:
        return result
    said = (
        f"the error is {1e3 * error:.1f} mrad instead of {1e3 * result.error:.1f} at half the time step of "
        f"{plant.dt:g} s: fit with a shorter one (dt)"
    )
    return dataclasses.replace(result, cautions=(*result.cautions, said))


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
    """Fit one model for each joint to the runs of a plant.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        options: How long and how wide to search.
        progress: Called after each generation.
        resume: File to go on from, and to keep what is found in.
        refine_steps: Most steps of least squares.
        workers: What runs the searches, one from each start. Default: this process.
    """
    begin = time.monotonic()
    options = options or SearchOptions()
    search = Search(plant, tuple(models), options, models[0].name, resume)
    (found,) = run_searches([search], workers, lambda title: progress)
    refined = refine_all(plant, models, found.values, 0 if found.interrupted else refine_steps, workers)
    errors = refined.errors(plant)
    return FitResult(
        joints=tuple(map(_fitted_joint, plant.joints, models, refined.estimates)),
        runs=tuple(
            RunError(run.path, joint, float(errors[r, j]))
            for r, run in enumerate(plant.runs)
            for j, joint in enumerate(plant.joints)
        ),
        converged=found.converged,
        interrupted=found.interrupted,
        generations=found.generations,
        evaluations=found.evaluations,
        seed=options.seed,
        seconds=time.monotonic() - begin,
        dt=plant.dt,
        findings=tuple(findings_of(plant)),
        verdicts=judge(plant.runs, plant.joints, errors),
        per_log=varying(plant, refined.models, refined.values, "log"),
        per_unit=varying(plant, refined.models, refined.values, "unit"),
    )


def findings_of(plant: Plant) -> Iterator[Finding]:
    """Return findings in the logs of a plant, and changes of its robot, each once."""
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


def _at_bound(parameter: Parameter, value: float) -> str:
    """Return the end of its range that a value is at: ``"low"``, ``"high"``, ``"none"`` if too low to matter, or ""."""
    share = float(parameter.to_unit(np.array(value)))
    if share > 1.0 - _AT_BOUND:
        return "high"
    if share < _AT_BOUND:
        return "none" if parameter.scale == LOG or parameter.low == 0.0 else "low"
    return ""
