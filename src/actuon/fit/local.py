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
from .parameters import Parameter, from_unit, to_unit
from .plants.plant import Plant

STEP = 2e-3
"""Share of a range by which a parameter is changed for a difference: joints that stick make errors uneven on a finer
scale."""
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
    problem = _Problem(plant, models, values, joint)
    parameters = models[joint].parameters
    begin = np.clip(to_unit(parameters, values[joint]), 0.0, 1.0)
    best = begin
    if parameters and steps:
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
        best = found.x if after < _AS_GOOD * before else begin
    return _intervals(problem, parameters, best)


class _Problem:
    """Residuals of one joint over shares of the ranges of its parameters."""

    def __init__(self, plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], joint: int):
        self._plant, self._models, self._values, self._joint = plant, models, values, joint
        self._parameters = models[joint].parameters
        self.lengths: list[int] = [len(run) for run in plant.runs]

    def _simulate(self, shares: np.ndarray) -> np.ndarray:
        """Residuals of many, shape (C, samples)."""
        candidates = [np.repeat(own[None], len(shares), axis=0) for own in self._values]
        candidates[self._joint] = from_unit(self._parameters, shares)
        runs = self._plant.residuals(self._models, candidates)
        return np.concatenate([run[..., self._joint] for run in runs], axis=1)

    def residuals(self, shares: np.ndarray) -> np.ndarray:
        """Shape (samples,)."""
        return self._at(np.repeat(shares[None], 2 * len(shares), axis=0))[0]

    def _at(self, shares: np.ndarray) -> np.ndarray:
        found = self._simulate(shares)
        return np.where(np.isfinite(found), found, 1e3)

    def jacobian(self, shares: np.ndarray) -> np.ndarray:
        """Shape (samples, P)."""
        ahead, behind = np.clip(shares + STEP, 0.0, 1.0), np.clip(shares - STEP, 0.0, 1.0)
        points = np.repeat(shares[None], 2 * len(shares), axis=0)
        at = np.arange(len(shares))
        points[2 * at, at], points[2 * at + 1, at] = ahead, behind
        found = self._at(points)
        return ((found[0::2] - found[1::2]) / (ahead - behind)[:, None]).T


def _intervals(problem: _Problem, parameters: Sequence[Parameter], best: np.ndarray) -> LocalResult:
    values = from_unit(parameters, best)
    if not parameters:
        return LocalResult(values, values, values, np.zeros((0, 0)), 0.0, np.zeros((0, 0)))
    residuals, jacobian = problem.residuals(best), problem.jacobian(best)
    degrees = max(len(residuals) - len(best), 1)
    power = residuals @ residuals / degrees * correlation_time(residuals, problem.lengths)
    noise = _LEAST_ABSOLUTE * float(np.sqrt(power))
    variances = covariance(jacobian, noise)
    width = need("scipy.stats").t.ppf(0.5 + 0.5 * CONFIDENCE, degrees) * np.sqrt(np.diag(variances))
    low, high = (from_unit(parameters, np.clip(best + side * width, 0.0, 1.0)) for side in (-1.0, 1.0))
    return LocalResult(values, low, high, jacobian, noise, variances)


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
