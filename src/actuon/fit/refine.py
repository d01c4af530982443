# SPDX-License-Identifier: Apache-2.0
"""Least squares after a search, confidence intervals, and parameters that the logs do not determine.

Unknowns are shares of the parameters' ranges. The Jacobian is computed by central differences in one batch. Residuals
are autocorrelated, so their number is divided by the integrated autocorrelation time, which is 1 for white noise. The
final estimate minimises the absolute error, and the intervals are those of least absolute errors. If the load is known,
intervals include the bias by the time step, estimated as twice the change of a value at half the step.

A parameter with one value for each log, or for each robot of a fleet, is several unknowns (`Unknowns`). Encoder offsets
of the logs are therefore estimated together with the other parameters. For logs that a model was not fitted to, the
offset in one half of the windows is estimated from the other half, so no window is judged by its own offset.

``models`` has one model for each joint, ``values`` one array for each joint: shape (P,), or (R, P) with one set of
values for each run. ``shares`` are unknowns, shape (N,).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import require
from .interrupts import check
from .model import LOG, Model, Parameter, from_unit
from .plants.plant import Plant, Trials
from .units import error_scales
from .workers import LocalWorkers, Progress, ProgressFactory, Workers

Varying = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Values of parameters that differ between runs, by name of the log or robot, joint and path."""

STEP = 2e-3
"""Step of the finite differences, as a share of a range. Joints that stick make the error uneven on a finer scale."""
CONFIDENCE = 0.95
"""Confidence level of the intervals."""
MAX_SPREAD = 0.35
"""Largest spread along a direction that counts as determined, in powers of e on a logarithmic scale, as a share of the
range on a linear one."""
_DIVERGED = 1e3
"""Residual [rad] in place of those of a diverged simulation."""
_AS_GOOD = 1.01
"""Largest ratio of two mean absolute errors that count as equal."""
_LEAST_ABSOLUTE = math.sqrt(0.5 * math.pi)
"""Ratio of standard errors under normal noise, least absolute errors to least squares."""
_BIAS = 4.0 / 3.0
"""Variance due to the time step, by the square of the change at half of it: the bias, twice that change, as the half
width of a uniform distribution."""
_TOGETHER = 5
"""Factor on the number of least-squares steps if all joints are estimated together."""
_OFFSET_STEPS = 12
"""Maximum number of least-squares steps for parameters with one value for each log."""
_TAKES_PART = 0.3
"""Smallest component of a unit direction that counts as part of it."""

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
    """Index among the parameters of the joint's model."""
    part: int
    """Index of the log or robot; -1 for all."""
    runs: np.ndarray
    """Runs to which it applies, bool of shape (R,)."""
    parameter: Parameter


class Unknowns:
    """Vector of the unknowns, as shares of their ranges: parameters for which ``is_free`` is true."""

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
        """Start values as shares, shape (N,)."""
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

    def members(self, joint: int, count: int) -> np.ndarray:
        """Return 1 where an unknown is one of the first ``count`` parameters of a joint, else 0, shape (N, count)."""
        member = np.zeros((len(self), count))
        for i, column in enumerate(self.columns):
            if column.joint == joint and column.index < count:
                member[i, column.index] = 1.0
        return member

    def mean_shares(self, shares: np.ndarray, joint: int, count: int | None) -> tuple[Sequence[Parameter], np.ndarray]:
        """Return the first ``count`` parameters of a joint, and their mean shares over logs and robots, shape (P,)."""
        parameters = self.models[joint].parameters[:count]
        if not parameters:
            return parameters, np.zeros(0)
        member = self.members(joint, len(parameters))
        return parameters, shares @ (member / member.sum(axis=0))

    def together(self) -> list[list[int]]:
        """Return groups of unknowns that one finite difference can change at once, as no run depends on two of them."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i, column in enumerate(self.columns):
            groups.setdefault((column.joint, column.index), []).append(i)
        return list(groups.values())


class Problem:
    """Residuals of some joints of a plant, by default of all, as a function of the unknowns."""

    def __init__(self, plant: Plant, unknowns: Unknowns, joints: Sequence[int] | None = None):
        self.plant, self.unknowns = plant, unknowns
        self._joints = list(range(len(plant.joints)) if joints is None else joints)
        self._scales = error_scales(plant)[self._joints] if len(self._joints) > 1 else np.ones(1)
        self.lengths: list[int] = [len(run) for run in plant.runs for _ in self._joints]
        """Numbers of residuals of each joint in each run."""
        self.is_interrupted = False
        """Whether `descend` was interrupted."""
        self._last: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def residuals(self, shares: np.ndarray) -> np.ndarray:
        """Return simulated − measured positions [rad or m; shares of the motion if some slide], shape (samples,)."""
        return self._at(shares)[0]

    def jacobian(self, shares: np.ndarray) -> np.ndarray:
        """Return the derivatives of the residuals by the shares, shape (samples, N)."""
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

    def principal_jacobian(self, shares: np.ndarray) -> np.ndarray:
        """Return `jacobian`, with shared parameters differentiated by `along_singular_vectors`."""
        jacobian = self.jacobian(shares).copy()
        shared = [i for i, column in enumerate(self.unknowns.columns) if column.part < 0]

        def residuals(points: np.ndarray) -> np.ndarray:
            every = np.repeat(shares[None], len(points), axis=0)
            every[:, shared] = points
            return np.concatenate([run.reshape(len(points), -1) for run in self._simulate(every)], axis=1)

        jacobian[:, shared] = along_singular_vectors(jacobian[:, shared], shares[shared], residuals)
        return jacobian

    def at_half_step(self, shares: np.ndarray) -> list[np.ndarray] | None:
        """Return the residuals by run at half the time step, shapes (J, T). None if the load is not known."""
        if self.plant.loads is None:
            return None
        return [run[0] for run in self._simulate(shares[None], self.plant.replace(dt=0.5 * self.plant.dt))]

    def step_change(
        self, shares: np.ndarray, jacobian: np.ndarray, noise: float, half: Sequence[np.ndarray] | None
    ) -> np.ndarray:
        """Return the linearised change of the solution at half the time step, shape (N,), from `at_half_step`.

        It estimates the bias by the time step, as the error of the integration is of first order. 0 if the residuals
        are larger than their noise explains at half the step even with this change, so that the logs favour the present
        step, if the load is not known, and if no parameter changes the residuals.
        """
        if half is None or not jacobian.any():
            return np.zeros(len(shares))
        before, after = self.residuals(shares), np.concatenate([run.ravel() for run in half])
        cutoff = noise / float(np.linalg.norm(jacobian, 2))
        change = np.linalg.lstsq(jacobian, before - after, cutoff)[0]
        is_as_good = np.linalg.norm(after + jacobian @ change) <= np.linalg.norm(before) + noise
        return np.asarray(change if is_as_good else np.zeros(len(shares)))

    def _simulate(self, points: np.ndarray, plant: Plant | None = None) -> list[np.ndarray]:
        """Return residuals of the joints that count, by run, shapes (C, J, T)."""
        check()
        runs = (plant or self.plant).residuals(self.unknowns.trials(points))
        own = (np.where(np.isfinite(run), run, _DIVERGED)[..., self._joints] / self._scales for run in runs)
        return [run.swapaxes(1, 2) for run in own]

    def descend(self, steps: int) -> np.ndarray:
        """Return shares with a smaller error than the start values, or the start values.

        Runs least squares with a loss that is robust against outliers. Keeps the result unless it increases the mean
        absolute error by more than 1 %: that error depends on how the encoder rounds single samples. An interrupt
        returns the best shares so far.
        """
        begin = self.unknowns.start
        if not begin.size or not steps:
            return begin
        errors: dict[bytes, float] = {}

        def residuals(shares: np.ndarray) -> np.ndarray:
            found = self.residuals(shares)
            errors[shares.tobytes()] = float(np.abs(found).mean())
            return found

        try:
            scale = max(float(np.median(np.abs(residuals(begin)))), 1e-6)
            found = require("scipy.optimize", "fit", "fitting").least_squares(
                residuals,
                np.clip(begin, 1e-6, 1.0 - 1e-6),
                self.jacobian,
                bounds=(0.0, 1.0),
                loss="soft_l1",
                f_scale=scale,
                max_nfev=steps,
            )
        except KeyboardInterrupt:
            self.is_interrupted = True
            return np.frombuffer(min(errors, key=errors.__getitem__)) if errors else begin
        before, after = (float(np.abs(self.residuals(x)).mean()) for x in (begin, found.x))
        return np.asarray(found.x if after < _AS_GOOD * before else begin)


@dataclass(frozen=True)
class Estimate:
    """Values of one joint with their confidence intervals."""

    values: np.ndarray
    """Values of the free parameters, shape (P,). Mean on the parameter's scale if it has one value per log or robot."""
    low: np.ndarray
    """Lower ends of the confidence intervals, shape (P,)."""
    high: np.ndarray
    """Upper ends of the confidence intervals, shape (P,)."""
    jacobian: np.ndarray
    """Derivatives of the residuals [rad] by the shares, shape (samples, P)."""
    noise: float
    """Effective standard deviation of the residuals [rad], corrected for autocorrelation and least absolute errors."""
    covariance: np.ndarray
    """Covariance of the values as shares of their ranges, shape (P, P), with the bias by the time step."""
    step_change: np.ndarray
    """Linearised change of the values at half the time step, as shares of their ranges, shape (P,)."""
    half_error: float | None
    """Mean absolute error of the position at half the time step [rad]. None if the load is not known."""
    is_interrupted: bool = False
    """Whether least squares were interrupted."""
    has_intervals: bool = True
    """Whether intervals were computed; otherwise they are the ranges of the parameters."""

    @classmethod
    def without_intervals(cls, parameters: Sequence[Parameter], values: np.ndarray) -> Estimate:
        """Return an estimate that was interrupted before its intervals were computed."""
        count, mean = len(parameters), np.asarray(values, float)
        low, high = (np.array([getattr(p, end) for p in parameters], float) for end in ("low", "high"))
        spread = np.eye(count)
        return cls(mean, low, high, np.zeros((0, count)), 0.0, spread, np.zeros(count), None, True, False)


@dataclass(frozen=True)
class Refined:
    """Result of least squares."""

    models: tuple[Model, ...]
    """Model of each joint, with the parameters that the plant adds for each log."""
    estimates: tuple[Estimate, ...]
    """Estimate of each joint."""
    values: tuple[np.ndarray, ...]
    """Values for each joint in each run, shape (R, P) with the P of `models`."""

    @property
    def is_interrupted(self) -> bool:
        """Whether least squares of any joint were interrupted."""
        return any(estimate.is_interrupted for estimate in self.estimates)

    def errors(self, plant: Plant) -> np.ndarray:
        """Return mean absolute errors of the position [rad or m], shape (R, J)."""
        return plant.errors(plant.trials(self.models, [own[None] for own in self.values]))[0]


def refine(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], joint: int = 0, *, steps: int = 6
) -> Estimate:
    """Improve the values of one joint by least squares, and compute their confidence intervals."""
    unknowns = Unknowns(plant, models, values, lambda own, parameter: own == joint)
    problem = Problem(plant, unknowns, [joint])
    best = problem.descend(steps)
    return _estimates(problem, best, {joint: len(models[joint].parameters)})[0]


@dataclass(frozen=True)
class RefineTask:
    """Inputs of the least squares of one joint."""

    plant: Plant
    model: Model
    values: np.ndarray
    steps: int


def run_refine(task: RefineTask, progress: Progress | None = None) -> tuple[Estimate, np.ndarray]:
    """Return the estimate of a joint, and the values in each run, shape (R, P)."""
    problem = Problem(task.plant, Unknowns(task.plant, [task.model], [task.values]))
    best = problem.descend(task.steps)
    (estimate,) = _estimates(problem, best, {0: len(task.model.parameters)})
    return estimate, problem.unknowns.values(best)[0]


def refine_all(
    plant: Plant,
    models: Sequence[Model],
    values: Sequence[np.ndarray],
    steps: int = 6,
    workers: Workers | None = None,
    progress: ProgressFactory | None = None,
) -> Refined:
    """Improve the values of all joints by least squares.

    If the plant neither couples its joints nor adds parameters for each log, joints are independent tasks of the
    workers. Otherwise all unknowns are estimated together.
    """
    if not plant.couples_joints and not plant.log_parameters:
        tasks = [RefineTask(plant.only(j), m, v, steps) for j, (m, v) in enumerate(zip(models, values, strict=True))]
        found = _until_interrupted((workers or LocalWorkers()).map(run_refine, tasks, list(plant.joints), progress))
        for task in tasks[len(found) :]:
            every = np.tile(np.asarray(task.values, float), (len(plant.runs), 1))
            found.append((Estimate.without_intervals(task.model.parameters, task.values), every))
        return Refined(tuple(models), tuple(one for one, _ in found), tuple(own for _, own in found))
    models, values = _with_log_parameters(plant, models, values)
    problem = Problem(plant, Unknowns(plant, models, values))
    best = problem.descend(_TOGETHER * steps)
    counts = {j: len(m.parameters) - len(plant.log_parameters) for j, m in enumerate(models)}
    return Refined(tuple(models), _estimates(problem, best, counts), tuple(problem.unknowns.values(best)))


def _until_interrupted(results: Iterator[tuple[Estimate, np.ndarray]]) -> list[tuple[Estimate, np.ndarray]]:
    """Return the results up to the first that was interrupted."""
    found: list[tuple[Estimate, np.ndarray]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for result in results:
            found.append(result)
            if result[0].is_interrupted:
                break
    return found


def _estimates(problem: Problem, best: np.ndarray, counts: Mapping[int, int]) -> tuple[Estimate, ...]:
    """Return the estimates of some joints, by the number of the first parameters of each that count.

    An interrupt leaves out their intervals.
    """
    try:
        jacobian = problem.principal_jacobian(best)
        found = [_estimate(problem, best, jacobian, joint, count) for joint, count in counts.items()]
    except KeyboardInterrupt:
        found = []
        for joint, count in counts.items():
            parameters, share = problem.unknowns.mean_shares(best, joint, count)
            found.append(Estimate.without_intervals(parameters, from_unit(parameters, share)))
    return tuple(dataclasses.replace(one, is_interrupted=one.is_interrupted or problem.is_interrupted) for one in found)


def _with_log_parameters(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]
) -> tuple[list[Model], list[np.ndarray]]:
    """Append the parameters that the plant adds for each log to the models, and their start values to the values."""
    own, starts = plant.log_parameters, [parameter.start for parameter in plant.log_parameters]
    found = [dataclasses.replace(model, parameters=(*model.parameters, *own)) for model in models]
    return found, [np.concatenate([np.asarray(each, float), np.array(starts, float)]) for each in values]


def judge_runs(plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]) -> tuple[np.ndarray, Varying]:
    """Return the errors of models in runs that they were not fitted to.

    Parameters with one value for each log are estimated: for every other window from the remaining ones, and for a log
    of one run from that run.

    Returns:
        Mean absolute error of the position [rad or m] by run and joint, shape (R, J), and the estimated values by log,
        joint and path.
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
        found = problem.unknowns.values(problem.descend(_OFFSET_STEPS))
        if problem.is_interrupted:  # the errors would be those of other offsets
            raise KeyboardInterrupt
        run_of_log = [int(np.flatnonzero(of_run[others] == log)[0]) for log in of_run]
        known = [own[run_of_log] for own in found]
        trials = plant.trials(models, [own[None] for own in known]).subset(judged)
        errors[judged] = plant.subset(judged).errors(trials)[0]
        means = [mean + own / len(halves) for mean, own in zip(means, known, strict=True)]
    return errors, varying(plant, models, means, "log")


def varying(
    plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray], per: Literal["log", "robot"]
) -> Varying:
    """Return the values of parameters with one value for each log or robot, by its name, joint and path."""
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
    """Return two splits of the runs: every other run of each log to judge, and the others, or the only one, to fit."""
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


def _estimate(
    problem: Problem, best: np.ndarray, jacobian: np.ndarray, joint: int, count: int | None = None
) -> Estimate:
    """Return the values of a joint with their confidence intervals, for its first ``count`` parameters."""
    unknowns = problem.unknowns
    parameters, share = unknowns.mean_shares(best, joint, count)
    member = unknowns.members(joint, len(parameters))
    values = from_unit(parameters, share)
    half = problem.at_half_step(best)
    half_error = None if half is None else float(np.mean([np.abs(run).mean() for run in half]))
    if not parameters:
        return Estimate(values, values, values, np.zeros((0, 0)), 0.0, np.zeros((0, 0)), values, half_error)
    residuals = problem.residuals(best)
    degrees = max(len(residuals) - len(best), 1)
    power = residuals @ residuals / degrees * correlation_time(residuals, problem.lengths)
    noise = _LEAST_ABSOLUTE * float(np.sqrt(power))
    mean = member / member.sum(axis=0)
    change = problem.step_change(best, jacobian, noise, half)
    spread = mean.T @ (covariance(jacobian, noise) + _BIAS * np.outer(change, change)) @ mean
    factor = require("scipy.stats", "fit", "fitting").t.ppf(0.5 + 0.5 * CONFIDENCE, degrees)
    width = factor * np.sqrt(np.diag(spread))
    low, high = (from_unit(parameters, np.clip(share + side * width, 0.0, 1.0)) for side in (-1.0, 1.0))
    is_own = member.any(axis=1)
    seen = _projected(jacobian @ member, jacobian[:, ~is_own])
    return Estimate(values, low, high, seen, noise, spread, change @ mean, half_error)


def along_singular_vectors(
    jacobian: np.ndarray, shares: np.ndarray, residuals: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return a Jacobian, differentiated along its singular vectors instead of along the parameters.

    Joints that stick make differences rough. If parameters compensate each other, their columns nearly cancel, and the
    remaining roughness looks like information. Along a singular vector, both trials stick alike. Rough columns also
    tilt the vectors, hence two passes.

    Args:
        jacobian: Derivatives of the residuals by the shares, shape (samples, N).
        shares: Where they were taken, shape (N,).
        residuals: Function of points of shape (C, N) that returns residuals, shape (C, samples).
    """
    for _ in range(2 if shares.size else 0):
        steps = STEP * np.linalg.eigh(jacobian.T @ jacobian)[1].T
        ahead, behind = np.clip(shares + steps, 0.0, 1.0), np.clip(shares - steps, 0.0, 1.0)
        found = residuals(np.concatenate([ahead, behind]))
        jacobian = np.linalg.solve(ahead - behind, found[: len(steps)] - found[len(steps) :]).T
    return jacobian


def _projected(jacobian: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Project the Jacobian of some parameters onto the orthogonal complement of that of others, shape (samples, P)."""
    if not others.size:
        return jacobian
    basis, sizes, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes.max()]
    return np.asarray(jacobian - basis @ (basis.T @ jacobian))


def covariance(jacobian: np.ndarray, noise: float) -> np.ndarray:
    """Return the covariance of the shares, shape (P, P). An unobservable direction has a standard deviation of 1."""
    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
    variances = noise**2 / np.maximum(sizes**2, noise**2)
    return (directions.T * variances) @ directions


def correlation_time(residuals: np.ndarray, lengths: Sequence[int]) -> float:
    """Return the integrated autocorrelation time of residuals, 1 + 2 Σ ρ [samples]."""
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
        parameters: Free parameters, P.
        jacobian: Derivatives of the residuals by the shares, shape (samples, P).
        noise: Effective standard deviation of the residuals [rad].
    """
    if not parameters:
        return []
    widths = np.array([math.log(p.high / p.low) if p.scale == LOG else 1.0 for p in parameters])
    _, sizes, directions = np.linalg.svd(jacobian / widths, full_matrices=False)
    spreads = noise / np.maximum(sizes, 1e-300)
    found: dict[frozenset[int], str] = {}
    for spread, direction in sorted(zip(spreads, directions, strict=True), key=lambda pair: -pair[0]):
        if spread < MAX_SPREAD:
            break
        part = [int(i) for i in np.argsort(-np.abs(direction)) if abs(direction[i]) >= _TAKES_PART]
        found.setdefault(frozenset(part), _sentence(parameters, direction, part))
    return list(found.values())


def _sentence(parameters: Sequence[Parameter], direction: np.ndarray, part: Sequence[int]) -> str:
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
