# SPDX-License-Identifier: Apache-2.0
"""`fit_logs`: from logs to a result in one call, as the command line does it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from ..logs import Log
from .fitting import fit_models
from .jobs import Titled, Workers
from .models import Model, changed
from .plants.known_load import KnownLoadPlant
from .plants.plant import Coupled, Plant
from .presets import SELECTED, Bench, preset
from .result import FitResult
from .search import SearchOptions
from .selection import compare

_STEP_MATTERS = 1.2
"""By which factor the error may be another at half the time step."""


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
    progress: Titled | None = None,
    resume: str | os.PathLike[str] | None = None,
    workers: Workers | None = None,
) -> FitResult:
    """Fit an actuator to logs.

    Args:
        logs: The runs, by `read_logs`. Not needed where a ``plant`` is given, which has them.
        model: Name of a preset, or a model. Default: the one with load-dependent friction that suits the logs.
        select: Compare several models, the usual ones or these, by their errors on held-out runs, and take the best.
        plant: What the actuators move. Default: a joint with the load that the logs state.
        load: ``mass`` and ``length`` of a pendulum, or ``inertia``, in place of what the logs state.
        fix: Values of parameters that are fixed, by path.
        free: Ranges of parameters that are fitted, by path; None takes one from the declaration and its present value.
        options: How long and how wide to search, and the seed.
        progress: Called with how far it is.
        resume: File to go on from, and to keep what is found in.
        workers: What runs the searches, such as `ray_jobs.RayWorkers`. Default: this process.
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
    """The models to fit or to compare, as `fit_logs` takes them: lists with one for each joint, simple ones first."""
    benches = [Bench(s, plant.runs, joint) for s, joint in zip(plant.scales(), plant.joints, strict=True)]
    selected = SELECTED[_family(benches)]
    usual = plant.usual_model if isinstance(plant, Coupled) else selected[-1]
    names = (model or usual,) if select is False else selected if select is True else tuple(select)
    found = []
    for name in names:
        own = [preset(name, bench) if isinstance(name, str) else name for bench in benches]
        if isinstance(plant, Coupled):
            own = [plant.suited(joint, one) for joint, one in enumerate(own)]
        found.append([changed(one, fix or {}, free or {}) for one in own])
    return sorted(found, key=lambda own: sum(len(one.parameters) for one in own))


def _step_checked(plant: Plant, result: FitResult) -> FitResult:
    """The result, with a warning where it is another at half the time step."""
    if not isinstance(plant, KnownLoadPlant):
        return result
    models, values = [joint.model for joint in result.joints], [joint.values[None] for joint in result.joints]
    error = float(plant.halved().errors(models, values).mean())
    if max(error, result.error) <= _STEP_MATTERS * min(error, result.error) + 1e-3:
        return result
    said = (
        f"the error is {1e3 * error:.1f} mrad instead of {1e3 * result.error:.1f} at half the time step of "
        f"{plant.dt:g} s: fit with a shorter one (--dt)"
    )
    return dataclasses.replace(result, cautions=(*result.cautions, said))


def _family(benches: Sequence[Bench]) -> str:
    is_servo = all(bench.voltage is not None and bench.is_commanded for bench in benches)
    return "servo" if is_servo else "pd"
