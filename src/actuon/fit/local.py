# SPDX-License-Identifier: Apache-2.0
"""Local least squares from where a search ended, and how sure the values are.

Parameters are seen on their own scale, as shares of their ranges. The Jacobian is made of central differences, all of
which are one batch. Residuals of a simulation hang together in time, so that samples count for less than as many
independent ones: by the integrated autocorrelation time of the residuals, which is 1 for white noise. What is minimised
in the end is the absolute error, and intervals are those of such values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .extras import need
from .models import Model
from .parameters import from_unit
from .plants.plant import Plant
from .plants.robot import RobotPlant
from .problem import Problem

_AS_GOOD = 1.01
"""By which factor a mean absolute error may be larger that counts as the same."""
_LEAST_ABSOLUTE = math.sqrt(0.5 * math.pi)
"""By how much values with the least absolute error spread more than those with the least squares, in normal noise."""
CONFIDENCE = 0.95
"""Probability of the intervals."""


@dataclass(frozen=True)
class LocalResult:
    """The end of a local search of one joint."""

    values: np.ndarray
    """Of the free parameters, shape (P,)."""
    low: np.ndarray
    """Lower ends of the confidence intervals, shape (P,)."""
    high: np.ndarray
    """Upper ends, shape (P,)."""
    jacobian: np.ndarray
    """Of the residuals [rad] by the shares of the ranges, shape (samples, P)."""
    noise: float
    """Standard deviation of the residuals [rad], as if they were independent and their squares had been minimised."""
    covariance: np.ndarray
    """Of the values, as shares of the ranges, shape (P, P)."""


def refine(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], joint: int, *, steps: int = 6
) -> LocalResult:
    """Improve the values of one joint by least squares, robust against outliers, and find their confidence intervals.

    What least squares find is taken where the mean absolute error becomes less too, or stays as good as the same: the
    least absolute error of positions in counts of an encoder depends on how single samples were rounded.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Where to begin, for each joint, shape (P,).
        joint: Which one to improve; the others stay.
        steps: Most steps.
    """
    problem = Problem(plant, models, values, [joint])
    return _intervals(problem, descend(problem, steps))[0]


def refine_together(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], *, steps: int = 30
) -> tuple[list[LocalResult], Plant]:
    """Improve the values of all joints at once, by the errors of all, and the zeros of logs where they have their own.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Where to begin, for each joint, shape (P,).
        steps: Most steps.

    Returns:
        What was found for each joint, and the plant with the zeros that were found.
    """
    finds_zeros = isinstance(plant, RobotPlant) and plant.has_own_zeros
    problem = Problem(plant, models, values, range(len(models)), finds_zeros)
    best = descend(problem, steps)
    found = plant.with_zeros(problem.zeros(best)) if finds_zeros else plant  # type: ignore[attr-defined]
    return _intervals(problem, best), found


def descend(problem: Problem, steps: int) -> np.ndarray:
    """Shares of the ranges with less error than those that a problem starts with, or these."""
    begin = problem.start
    if not begin.size or not steps:
        return begin
    scale = max(float(np.median(np.abs(problem.residuals(begin)))), 1e-6)
    found = need("scipy.optimize").least_squares(
        problem.residuals,
        np.clip(begin, 1e-6, 1.0 - 1e-6),
        problem.jacobian,
        bounds=(0.0, 1.0),
        loss="soft_l1",
        f_scale=scale,
        max_nfev=steps,
    )
    before, after = (float(np.abs(problem.residuals(x)).mean()) for x in (begin, found.x))
    return np.asarray(found.x if after < _AS_GOOD * before else begin)


def _intervals(problem: Problem, best: np.ndarray) -> list[LocalResult]:
    """What is known of each joint at the end of a search."""
    values = problem.values(best)
    if not problem.parameters:
        return [LocalResult(own, own, own, np.zeros((0, 0)), 0.0, np.zeros((0, 0))) for own in values]
    residuals, jacobian = problem.residuals(best), problem.jacobian(best)
    degrees = max(len(residuals) - len(best), 1)
    power = residuals @ residuals / degrees * correlation_time(residuals, problem.lengths)
    noise = _LEAST_ABSOLUTE * float(np.sqrt(power))
    spread = covariance(jacobian, noise)
    factor = need("scipy.stats").t.ppf(0.5 + 0.5 * CONFIDENCE, degrees)
    found = []
    for own, columns in zip(values, problem.columns, strict=False):
        width = factor * np.sqrt(np.diag(spread)[columns])
        parameters = [problem.parameters[i] for i in columns]
        low, high = (from_unit(parameters, np.clip(best[columns] + side * width, 0.0, 1.0)) for side in (-1.0, 1.0))
        seen = _seen(jacobian, columns)
        found.append(LocalResult(own, low, high, seen, noise, spread[np.ix_(columns, columns)]))
    return found


def _seen(jacobian: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """What residuals tell of some numbers where all others are free, shape (samples, P)."""
    others = np.delete(jacobian, columns, axis=1)
    if not others.size:
        return jacobian[:, columns]
    basis, sizes, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes.max()]
    return np.asarray(jacobian[:, columns] - basis @ (basis.T @ jacobian[:, columns]))


def covariance(jacobian: np.ndarray, noise: float) -> np.ndarray:
    """Of the shares of the ranges, shape (P, P); a direction that nothing shows has a spread of a whole range."""
    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
    variances = noise**2 / np.maximum(sizes**2, noise**2)
    return (directions.T * variances) @ directions


def correlation_time(residuals: np.ndarray, lengths: Sequence[int]) -> float:
    """For how many samples one of the residuals stands: 1 + 2 Σ of the autocorrelation, up to where it is used up."""
    runs = np.split(residuals, np.cumsum(lengths)[:-1])
    longest = max(lengths) // 2
    total = np.zeros(longest)
    power = 0.0
    for run in runs:
        size = 1 << (2 * len(run) - 1).bit_length()
        spectrum = np.abs(np.fft.rfft(run, size)) ** 2
        lags = np.fft.irfft(spectrum, size)[: min(longest, len(run))]
        total[: len(lags)] += lags
        power += float(lags[0])
    if power <= 0.0:
        return 1.0
    pairs = (total[: longest // 2 * 2].reshape(-1, 2) / power).sum(axis=1)
    used_up = np.flatnonzero(pairs <= 0.0)
    last = int(used_up[0]) if used_up.size else len(pairs)
    return max(1.0, 2.0 * float(pairs[:last].sum()) - 1.0)
