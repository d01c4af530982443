# SPDX-License-Identifier: Apache-2.0
"""Least squares from the end of a search, confidence intervals, and parameters that the logs do not determine.

Numbers are seen on their own scale, as shares of their ranges. The Jacobian is made of central differences, all of
which are one batch. Residuals of a simulation are autocorrelated, so that samples count for less than as many
independent ones: by the integrated autocorrelation time of the residuals, which is 1 for white noise. What is minimised
in the end is the absolute error, and intervals are those of such values.

A number that is one for each log, or for each unit of a fleet, is several unknowns (`Unknowns`). So the zeros of
encoders that were set anew for each log are found with the parameters; and those of logs that a model was not fitted to
from one half of their windows for the other half, so that no window is judged with what was found from it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import require
from .model import LOG, Model, Parameter, from_unit
from .plants.plant import Plant, Trials
from .workers import LocalWorkers, Progress, ProgressFactory, Workers

Varying = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Numbers that are not the same in all runs: by the name of the log or unit, joint and path."""

STEP = 2e-3
"""Share of a range by which a number is changed for a difference: joints that stick make errors uneven on a finer
scale."""
CONFIDENCE = 0.95
"""Probability of the intervals."""
MAX_SPREAD = 0.35
"""Spread along a direction, in powers of e for a logarithmic scale or as a share of the range for a linear one, from
which on it counts as not determined."""
_DIVERGED = 1e3
"""Residual [rad] of a simulation that diverged."""
_AS_GOOD = 1.01
"""Largest factor between two mean absolute errors that count as equal."""
_LEAST_ABSOLUTE = math.sqrt(0.5 * math.pi)
"""Standard error of least absolute errors compared with that of least squares, in normal noise."""
_TOGETHER = 5
"""Factor on the steps of least squares for all joints together."""
_ZERO_STEPS = 12
"""Most steps of least squares for numbers of single logs."""
_TAKES_PART = 0.3
"""Share in a direction of length 1 from which on a parameter takes part in it."""

_ADVICE = {
    frozenset({"controller.torque_constant", "controller.resistance"}): "record the current, or fix one",
    frozenset({"controller.kp", "controller.torque_constant"}): "record the duty, or fix one",
    frozenset({"controller.kp", "controller.resistance"}): "record the duty, or fix one",
    frozenset({"friction.viscous", "controller.torque_constant"}): "let the motor swing while it is switched off",
    frozenset({"friction.viscous", "controller.kd"}): "let the motor swing while it is switched off",
}


@dataclass(frozen=True, eq=False)
class _Column:
    """One unknown."""

    joint: int
    index: int
    """Which parameter of the joint's model."""
    part: int
    """Which log or unit, or -1 for all."""
    runs: np.ndarray
    """Runs in which it counts, as booleans of shape (R,)."""
    parameter: Parameter


class Unknowns:
    """The vector of unknowns, each as a share of its range.

    Args:
        plant: With the runs.
        models: One for each joint.
        values: Of each joint, shape (P,), or one set for each run, shape (R, P). Those that are not free stay.
        is_free: Return by joint and parameter whether it is unknown. Default: all.
    """

    def __init__(
        self,
        plant: Plant,
        models: Sequence[Model],
        values: Sequence[np.ndarray],
        is_free: Callable[[int, Parameter], bool] = lambda joint, parameter: True,
    ):
        self.models, self._plant = tuple(models), plant
        runs = len(plant.runs)
        self._values = [
            np.array(np.broadcast_to(np.asarray(own, float), (runs, len(model.parameters))))
            for own, model in zip(values, models, strict=True)
        ]
        found = []
        for joint, model in enumerate(models):
            for index, parameter in enumerate(model.parameters):
                if is_free(joint, parameter):
                    found += self._columns(joint, index, parameter)
        self.columns = tuple(sorted(found, key=lambda each: (each.part, each.joint, each.index)))

    def _columns(self, joint: int, index: int, parameter: Parameter) -> list[_Column]:
        if parameter.per == "joint":
            return [_Column(joint, index, -1, np.ones(len(self._plant.runs), bool), parameter)]
        of_run = self._plant.parts(parameter.per).of_run
        return [_Column(joint, index, int(part), of_run == part, parameter) for part in np.unique(of_run)]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def start(self) -> np.ndarray:
        """Shares of the given values, shape (N,)."""
        shares = [c.parameter.to_unit(self._values[c.joint][np.argmax(c.runs), c.index]) for c in self.columns]
        return np.clip(np.array(shares, float), 0.0, 1.0)

    def values(self, shares: np.ndarray) -> list[np.ndarray]:
        """Return values of each joint in each run, shapes (..., R, P), from shares of shape (..., N)."""
        found = [np.array(np.broadcast_to(own, (*shares.shape[:-1], *own.shape))) for own in self._values]
        for i, column in enumerate(self.columns):
            found[column.joint][..., column.runs, column.index] = column.parameter.from_unit(shares[..., i])[..., None]
        return found

    def trials(self, shares: np.ndarray) -> Trials:
        """Return the trials of C candidates, from shares of shape (C, N)."""
        return self._plant.trials(self.models, self.values(shares))

    def together(self) -> list[list[int]]:
        """Return columns that one difference can move at once: no run feels two of them."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i, column in enumerate(self.columns):
            groups.setdefault((column.joint, column.index), []).append(i)
        return list(groups.values())


class Problem:
    """Residuals of a plant over unknowns.

    Args:
        plant: What the actuators move.
        unknowns: The unknowns.
        joints: Joints whose residuals count. Default: all.
    """

    def __init__(self, plant: Plant, unknowns: Unknowns, joints: Sequence[int] | None = None):
        self.plant, self.unknowns = plant, unknowns
        self._joints = list(range(len(plant.joints)) if joints is None else joints)
        self.lengths: list[int] = [len(run) for run in plant.runs for _ in self._joints]
        """Numbers of residuals of each joint in each run."""
        self._last: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def residuals(self, shares: np.ndarray) -> np.ndarray:
        """Return simulated less measured positions [rad], shape (samples,)."""
        return self._at(shares)[0]

    def jacobian(self, shares: np.ndarray) -> np.ndarray:
        """Return the derivative of the residuals by the shares, shape (samples, N)."""
        return self._at(shares)[1]

    def _at(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._last is None or self._last[0] != shares.tobytes():
            self._last = shares.tobytes(), *self._differences(shares)
        return self._last[1:]

    def _differences(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ahead, behind = np.clip(shares + STEP, 0.0, 1.0), np.clip(shares - STEP, 0.0, 1.0)
        groups = self.unknowns.together()
        points = np.repeat(shares[None], 1 + 2 * len(groups), axis=0)
        for i, own in enumerate(groups):
            points[1 + 2 * i, own], points[2 + 2 * i, own] = ahead[own], behind[own]
        runs = self._simulate(points)
        residuals = np.concatenate([run[0].ravel() for run in runs])
        jacobian = np.zeros((len(residuals), len(shares)))
        at = 0
        for r, run in enumerate(runs):
            rows = slice(at, at + run[0].size)
            for i, own in enumerate(groups):
                (column,) = (each for each in own if self.unknowns.columns[each].runs[r])
                change = (run[1 + 2 * i] - run[2 + 2 * i]).ravel()
                jacobian[rows, column] = change / (ahead[column] - behind[column])
            at = rows.stop
        return residuals, jacobian

    def _simulate(self, points: np.ndarray) -> list[np.ndarray]:
        """Return residuals of the joints that count, by run, shapes (C, J, T)."""
        runs = self.plant.residuals(self.unknowns.trials(points))
        return [np.where(np.isfinite(run), run, _DIVERGED)[..., self._joints].swapaxes(1, 2) for run in runs]

    def descend(self, steps: int) -> np.ndarray:
        """Return shares with less error than those that the unknowns start with, or these.

        Least squares, robust against outliers. What they find is taken where the mean absolute error becomes less too,
        or stays as good as the same: the least absolute error of positions in counts of an encoder depends on how
        single samples were rounded.

        Args:
            steps: Most steps.
        """
        begin = self.unknowns.start
        if not begin.size or not steps:
            return begin
        scale = max(float(np.median(np.abs(self.residuals(begin)))), 1e-6)
        found = require("scipy.optimize", "fit", "fitting").least_squares(
            self.residuals,
            np.clip(begin, 1e-6, 1.0 - 1e-6),
            self.jacobian,
            bounds=(0.0, 1.0),
            loss="soft_l1",
            f_scale=scale,
            max_nfev=steps,
        )
        before, after = (float(np.abs(self.residuals(x)).mean()) for x in (begin, found.x))
        return np.asarray(found.x if after < _AS_GOOD * before else begin)


@dataclass(frozen=True)
class Estimate:
    """Values of one joint with their confidence intervals."""

    values: np.ndarray
    """Of the free parameters, shape (P,); of one that is several, for each log or unit, their mean on its scale."""
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


@dataclass(frozen=True)
class Refined:
    """Result of least squares."""

    models: tuple[Model, ...]
    """One for each joint, with the plant's own parameters of single logs."""
    estimates: tuple[Estimate, ...]
    """Of each joint."""
    values: tuple[np.ndarray, ...]
    """Of each joint in each run, shape (R, P) with the P of `models`."""

    def errors(self, plant: Plant) -> np.ndarray:
        """Return mean absolute errors of the position [rad or m], shape (R, J)."""
        return plant.errors(plant.trials(self.models, [own[None] for own in self.values]))[0]


def refine(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], joint: int = 0, *, steps: int = 6
) -> Estimate:
    """Improve the values of one joint by least squares, and find their confidence intervals.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Start values for each joint, shape (P,).
        joint: Which one to improve; the others stay.
        steps: Most steps.
    """
    unknowns = Unknowns(plant, models, values, lambda own, parameter: own == joint)
    problem = Problem(plant, unknowns, [joint])
    return _estimate(problem, problem.descend(steps), joint)


@dataclass(frozen=True)
class RefineTask:
    """Least squares of one joint on its own, with all that they need."""

    plant: Plant
    model: Model
    values: np.ndarray
    steps: int


def run_refine(task: RefineTask, progress: Progress | None = None) -> tuple[Estimate, np.ndarray]:
    """Return the estimate of a joint, and its values in each run, shape (R, P)."""
    problem = Problem(task.plant, Unknowns(task.plant, [task.model], [task.values]))
    best = problem.descend(task.steps)
    return _estimate(problem, best, 0), problem.unknowns.values(best)[0]


def refine_all(
    plant: Plant,
    models: Sequence[Model],
    values: Sequence[np.ndarray],
    steps: int = 6,
    workers: Workers | None = None,
    progress: ProgressFactory | None = None,
) -> Refined:
    """Improve the values of all joints by least squares.

    Each on its own where the plant has it so; else all at once, by the errors of all, with the plant's own parameters
    of single logs.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Start values for each joint, shape (P,).
        steps: Most steps.
        workers: What runs the least squares of single joints. Default: this process.
        progress: Called with how far they are.
    """
    if not plant.couples_joints and not plant.log_parameters:
        tasks = [RefineTask(plant.only(j), m, v, steps) for j, (m, v) in enumerate(zip(models, values, strict=True))]
        found = list((workers or LocalWorkers()).map(run_refine, tasks, list(plant.joints), progress))
        return Refined(tuple(models), tuple(one for one, _ in found), tuple(own for _, own in found))
    models, values = _with_log_parameters(plant, models, values)
    problem = Problem(plant, Unknowns(plant, models, values))
    best = problem.descend(_TOGETHER * steps)
    estimates = tuple(
        _estimate(problem, best, j, len(m.parameters) - len(plant.log_parameters)) for j, m in enumerate(models)
    )
    return Refined(tuple(models), estimates, tuple(problem.unknowns.values(best)))


def _with_log_parameters(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]
) -> tuple[list[Model], list[np.ndarray]]:
    """Return models with the plant's own parameters of single logs behind theirs, and values with their starts."""
    own, starts = plant.log_parameters, [parameter.start for parameter in plant.log_parameters]
    found = [dataclasses.replace(model, parameters=(*model.parameters, *own)) for model in models]
    return found, [np.concatenate([np.asarray(each, float), np.array(starts, float)]) for each in values]


def judge_runs(plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]) -> tuple[np.ndarray, Varying]:
    """Return errors of models that were not fitted to these runs.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Of each joint, shape (P,).

    Returns:
        Mean absolute error of the position [rad or m] by run and joint, shape (R, J), and what was found of each log
        where some numbers are one for each log, by log, joint and path. A log that is one run is judged with what suits
        it best.
    """
    models, values = _with_log_parameters(plant, models, values)
    if not any(p.per == "log" for model in models for p in model.parameters):
        return plant.errors(plant.trials(models, [own[None] for own in values]))[0], {}
    errors = np.empty((len(plant.runs), len(plant.joints)))
    of_run = plant.parts("log").of_run
    halves = _halves(of_run)
    means = [np.zeros((len(of_run), len(own))) for own in values]
    for judged, others in halves:
        part = plant.subset(others)
        problem = Problem(part, Unknowns(part, models, values, lambda joint, p: p.per == "log"))
        found = problem.unknowns.values(problem.descend(_ZERO_STEPS))
        run_of_log = [int(np.flatnonzero(of_run[others] == log)[0]) for log in of_run]
        known = [own[run_of_log] for own in found]
        trials = plant.trials(models, [own[None] for own in known]).subset(judged)
        errors[judged] = plant.subset(judged).errors(trials)[0]
        means = [mean + own / len(halves) for mean, own in zip(means, known, strict=True)]
    return errors, varying(plant, models, means, "log")


def varying(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], per: Literal["log", "unit"]
) -> Varying:
    """Return numbers that are one for each log or unit, by its name, joint and path; empty where there are none.

    Args:
        plant: With the runs.
        models: One for each joint.
        values: Of each joint in each run, shape (R, P).
        per: Which of them.
    """
    if not any(p.per == per for model in models for p in model.parameters):
        return {}
    parts = plant.parts(per)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for part, name in enumerate(parts.names):
        run = int(np.flatnonzero(parts.of_run == part)[0])
        for joint, model, own in zip(plant.joints, models, values, strict=True):
            numbers = {p.path: float(own[run, i]) for i, p in enumerate(model.parameters) if p.per == per}
            found.setdefault(name, {})[joint] = numbers
    return found


def _halves(log_of_run: np.ndarray) -> list[tuple[list[int], list[int]]]:
    """Return runs to judge, and those to find numbers of logs from: every other run of each log, or the only one."""
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


def _estimate(problem: Problem, best: np.ndarray, joint: int, count: int | None = None) -> Estimate:
    """Return the values of a joint at the end of a descent, with their confidence intervals.

    Args:
        problem: The problem.
        best: Where it ended, shape (N,).
        joint: Which joint.
        count: How many of its parameters to include, P. Default: all.
    """
    unknowns = problem.unknowns
    parameters = unknowns.models[joint].parameters[:count]
    member = np.zeros((len(unknowns), len(parameters)))
    for i, column in enumerate(unknowns.columns):
        if column.joint == joint and column.index < len(parameters):
            member[i, column.index] = 1.0
    share = best @ (member / member.sum(axis=0)) if parameters else np.zeros(0)
    values = from_unit(parameters, share)
    if not parameters:
        return Estimate(values, values, values, np.zeros((0, 0)), 0.0, np.zeros((0, 0)))
    residuals, jacobian = problem.residuals(best), problem.jacobian(best)
    degrees = max(len(residuals) - len(best), 1)
    power = residuals @ residuals / degrees * correlation_time(residuals, problem.lengths)
    noise = _LEAST_ABSOLUTE * float(np.sqrt(power))
    mean = member / member.sum(axis=0)
    spread = mean.T @ covariance(jacobian, noise) @ mean
    factor = require("scipy.stats", "fit", "fitting").t.ppf(0.5 + 0.5 * CONFIDENCE, degrees)
    width = factor * np.sqrt(np.diag(spread))
    low, high = (from_unit(parameters, np.clip(share + side * width, 0.0, 1.0)) for side in (-1.0, 1.0))
    is_own = member.any(axis=1)
    seen = _projected(jacobian @ member, jacobian[:, ~is_own])
    return Estimate(values, low, high, seen, noise, spread)


def _projected(jacobian: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the Jacobian of some parameters, projected onto the complement of that of others, shape (samples, P)."""
    if not others.size:
        return jacobian
    basis, sizes, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes.max()]
    return np.asarray(jacobian - basis @ (basis.T @ jacobian))


def covariance(jacobian: np.ndarray, noise: float) -> np.ndarray:
    """Return the covariance of shares of ranges, shape (P, P); a direction that nothing shows spreads over a range."""
    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
    variances = noise**2 / np.maximum(sizes**2, noise**2)
    return (directions.T * variances) @ directions


def correlation_time(residuals: np.ndarray, lengths: Sequence[int]) -> float:
    """Return the integrated autocorrelation time of residuals in samples: 1 + 2 Σ of the autocorrelation."""
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


def undetermined(parameters: Sequence[Parameter], jacobian: np.ndarray, noise: float) -> list[str]:
    """Return sentences on parameters, or combinations of them, that the logs do not determine.

    Args:
        parameters: The free ones, P.
        jacobian: Of the residuals by the shares of their ranges, shape (samples, P).
        noise: Standard deviation of the residuals.
    """
    if not parameters:
        return []
    widths = np.array([math.log(p.high / p.low) if p.scale == LOG else 1.0 for p in parameters])
    _, sizes, directions = np.linalg.svd(jacobian / widths, full_matrices=False)
    spreads = noise / np.maximum(sizes, 1e-300)
    found = []
    for spread, direction in sorted(zip(spreads, directions, strict=True), key=lambda pair: -pair[0]):
        if spread < MAX_SPREAD:
            break
        found.append(_sentence(parameters, direction))
    return found


def _sentence(parameters: Sequence[Parameter], direction: np.ndarray) -> str:
    part = [i for i in np.argsort(-np.abs(direction)) if abs(direction[i]) >= _TAKES_PART]
    if len(part) == 1:
        return f"{parameters[part[0]].path} is not identifiable from these logs; fix it, or record motion that shows it"
    paths = [parameters[i].path for i in part]
    advice = _ADVICE.get(frozenset(paths))
    if len(part) == 2 and all(parameters[i].scale == LOG and not parameters[i].added_to for i in part):
        share = direction[part[1]] / direction[part[0]]
        power = 1.0 / abs(share)
        shown = "" if abs(power - 1.0) < 0.2 else f"^{power:.2g}"
        sign = "/" if share > 0.0 else "·"
        return f"only {paths[0]}{sign}{paths[1]}{shown} is identifiable; {advice or f'fix {paths[0]} or {paths[1]}'}"
    return (
        f"only a combination of {', '.join(paths[:-1])} and {paths[-1]} is identifiable; {advice or 'fix one of them'}"
    )
