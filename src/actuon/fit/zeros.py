# SPDX-License-Identifier: Apache-2.0
"""Where the zeros of encoders are in logs that have their own: two logs of one robot that was switched on where it hung
each show zero there, and stiction lets it hang some hundredths of a radian beside.

What is measured after that depends on it, so that a model can be judged only with the zeros of a log. They are found
from one half of its windows for the other half: no window is judged with what was found from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .local import descend
from .log_names import numbered
from .models import Model
from .plants.plant import Plant
from .plants.robot import RobotPlant
from .problem import Problem

_STEPS = 12
"""Most steps of least squares."""


def errors_with_zeros(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Errors of a model that was not fitted to these runs.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Of each joint, shape (P,).

    Returns:
        Mean absolute error of the position [rad or m] by run and joint, shape (R, J), and zeros of the logs [rad or m],
        shape (L, J), where they have their own. A log that is one run is judged with the zeros that suit it best.
    """
    candidates = [np.asarray(own)[None] for own in values]
    if not (isinstance(plant, RobotPlant) and plant.has_own_zeros):
        return plant.errors(models, candidates)[0], None
    errors = np.empty((len(plant.runs), len(plant.joints)))
    zeros = []
    for judged, others in _halves(plant.log_of_run):
        problem = Problem(plant.subset(others), models, values, [], finds_zeros=True)
        found = problem.zeros(descend(problem, _STEPS))
        zeros.append(found)
        errors[judged] = plant.subset(judged).with_zeros(found).errors(models, candidates)[0]
    return errors, np.mean(zeros, axis=0)


def _halves(log_of_run: np.ndarray) -> list[tuple[list[int], list[int]]]:
    """Runs to judge, and those to find zeros from: every other run of each log, or the only one."""
    number = np.zeros(len(log_of_run), int)
    for log in np.unique(log_of_run):
        own = np.flatnonzero(log_of_run == log)
        number[own] = np.arange(len(own)) % 2
    is_alone = np.bincount(log_of_run)[log_of_run] == 1
    parts = []
    for half in (0, 1):
        judged = np.flatnonzero(number == half)
        others = np.flatnonzero((number != half) | is_alone)
        if judged.size:
            parts.append((judged.tolist(), others.tolist()))
    return parts


def zeros_by_name(plant: RobotPlant, zeros: np.ndarray) -> dict[str, dict[str, float]]:
    """Zeros [rad or m], shape (L, J), by path of the log, numbered where logs share it, and name of the joint."""
    return {
        path: {joint: float(zero) for joint, zero in zip(plant.joints, own, strict=True)}
        for path, own in zip(numbered([log.path for log in plant.logs]), zeros, strict=True)
    }
