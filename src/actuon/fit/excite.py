# SPDX-License-Identifier: Apache-2.0
r"""Optimal excitation: the motion that narrows the confidence intervals of a joint's parameters most.

Let :math:`J` be the Jacobian of the positions with respect to the parameters, as shares of their ranges. A motion adds
:math:`J^\top J / \sigma^2` to the Fisher information. The search maximises the determinant of the sum (D-optimality)
within the limits of the joint, for the present values of the model. One batch simulates all motions (its runs) with all
perturbed parameters (its candidates).

A command is a sequence of segments. Each segment steps or ramps to a level and may add a sweep, which gives holds,
steps, ramps, reversals, sines and chirps.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Fix, Option, ParameterError, RobotFileError, require
from ..files import replacing
from ..logs import JointLog, Log
from ..logs.noise import without_spikes
from ..robot_files.provenance import Provenance
from ..typing import PathLike
from .interrupts import check, held_interrupts
from .model import Model, from_unit, place_of, to_unit, value_at
from .plants.known_load import SMOOTHED, KnownLoadPlant, Load
from .plants.plant import Scales
from .plants.runs import smooth_motion
from .refine import CONFIDENCE, Estimate, along_singular_vectors, undetermined
from .replay import models_of
from .terms import JointFacts, build_model
from .units import at_joint

UNNAMED = "joint"
_MARGIN = 0.97
"""Share of the limits that a predicted motion may use."""
_UNKNOWN = 1.0 / math.sqrt(12.0)
"""Standard deviation of a parameter whose range alone is known, as a share of the range."""
_NOISE = 2e-3
"""Assumed standard deviation of the residuals [rad] if there are no logs to estimate it from."""
_STEP = 5e-3
"""Step of the finite differences, as a share of a parameter's range."""
_LARGEST_DERIVATIVE = 2.0
"""Largest derivative of a position by the share of a parameter's range, in ranges of the joint."""
_DRAWN = 2
"""Number of further parameter sets, drawn from their distribution. A motion must be informative at all of them, and not
only at the values of the model, where the joint may happen to stick."""
_POPULATION = 24
_SMALLER = np.array([1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1])
"""Factors on a motion; the first that keeps it within the limits is used."""
_KEPT = 8
"""Number of best motions so far whose segments are recombined."""
_RANDOM = 2
"""Number of initial generations of random motions."""
NARROWED = 0.7
"""Ratio of interval widths, after to before, below which a motion counts as informative on a parameter."""
_SLOW = 0.1
"""Speed [rad/s] below which static friction is visible."""
_QUICK = 0.3
"""Time [s] in which an unknown joint is assumed to cross its range."""
_LAG = 0.05
"""Assumed tracking error of an unknown joint, as a share of its range."""
NUMBERS = ("level", "ramp", "length", "sweep", "first", "last")
"""Numbers of a segment, each from 0 to 1: end level, share of the segment that is a ramp, length, and the amplitude and
first and last frequency of its sweep."""
_NO_SWEEP = 0.3
"""Value of ``sweep`` below which a segment has none."""
_SLOWEST, _FASTEST = 0.15, 6.0
"""Frequencies [Hz] of sweeps."""
_SHORTEST = 0.3
"""Length of the shortest segment, as a share of the longest."""
_AT_ENDS = 0.25
"""Rest [s] before the first and after the last segment."""


@dataclass(frozen=True)
class Limits:
    """Limits of a joint's motion.

    Args:
        low: Lowest position [rad].
        high: Highest position [rad].
        speed: Largest speed [rad/s]. None: any.
        effort: Largest effort of the motor at the joint [N·m]. None: any.
    """

    low: float
    high: float
    speed: float | None = None
    effort: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            option = Option("low, high", "--limit position")
            raise ParameterError(f"got {self.low:g}:{self.high:g}; must be LOW:HIGH, with LOW < HIGH", option=option)
        for name in ("speed", "effort"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise ParameterError(f"got {value:g}; must be finite and > 0", option=Option(name, f"--limit {name}"))


@dataclass(frozen=True)
class ParameterGain:
    """Confidence intervals of one parameter before and after a motion is recorded."""

    path: str
    unit: str
    value: float
    before: tuple[float, float]
    after: tuple[float, float]
    narrower: float
    """Ratio of the widths on the parameter's scale, after to before."""

    def sentence(self) -> str:
        """Return the intervals as text."""
        before, after = (f"{low:.3g} … {high:.3g}" for low, high in (self.before, self.after))
        unit = "" if self.unit in ("", "1") else f" {self.unit}"
        return f"{self.path}: {after}{unit}, instead of {before}"


@dataclass(frozen=True)
class Motion:
    """Summary of a motion."""

    low: float
    """Lowest position [rad]."""
    high: float
    """Highest position [rad]."""
    speed: float
    """Largest speed [rad/s]."""
    slow: float
    """Share of the time at speeds below 0.1 rad/s."""
    reversals: int
    """Number of changes of direction."""
    unit: str = "rad"
    """Unit of positions, ``"rad"`` or ``"m"``."""

    def sentence(self) -> str:
        """Return the summary as text."""
        return (
            f"from {self.low:.2f} to {self.high:.2f} {self.unit}, up to {self.speed:.1f} {self.unit}/s, "
            f"{100.0 * self.slow:.0f} % of the time slower than {_SLOW:g} {self.unit}/s, {self.reversals} reversals"
        )


def _logged(joint: str, position: np.ndarray, command: np.ndarray | None, unit: str) -> JointLog:
    return JointLog(joint, position, command, units={"position": unit, "command": unit})


def motion_of(log: Log, joint: str) -> Motion:
    """Describe the motion of a joint in a log."""
    at = log.joint_names.index(joint)
    position, velocity, _ = (values[:, at] for values in log.derivatives(SMOOTHED))
    directions = np.sign(velocity[np.abs(velocity) > _SLOW])
    return Motion(
        float(position.min()),
        float(position.max()),
        float(np.abs(velocity).max()),
        float(np.mean(np.abs(velocity) < _SLOW)),
        int(np.sum(np.diff(directions) != 0.0)),
        log.joint(joint).unit,
    )


def motions_of(logs: Sequence[Log], joint: str) -> Motion:
    """Describe the motion of a joint in several logs."""
    found = [motion_of(log, joint) for log in logs]
    return Motion(
        min(one.low for one in found),
        max(one.high for one in found),
        max(one.speed for one in found),
        float(np.average([one.slow for one in found], weights=[log.duration for log in logs])),
        sum(one.reversals for one in found),
        found[0].unit,
    )


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion to record."""

    joint: str
    time: np.ndarray
    """Times of the commands [s], shape (T,)."""
    command: np.ndarray
    """Commanded positions [rad], shape (T,)."""
    position: np.ndarray
    """Predicted positions [rad], shape (T,)."""
    effort: np.ndarray
    """Predicted efforts of the motor at the joint [N·m], shape (T,)."""
    parameters: tuple[ParameterGain, ...]
    """Confidence intervals of each parameter before and after."""
    open: tuple[str, ...]
    """Sentences on parameters that stay undetermined."""
    interrupted: bool = False
    """Whether the search was interrupted."""
    unit: str = "rad"
    """Unit of positions: rad, or m for a joint that slides, whose efforts are in N."""

    @property
    def velocity(self) -> np.ndarray:
        """Predicted velocities [rad/s], shape (T,)."""
        return np.gradient(self.position, self.time)

    @property
    def told(self) -> tuple[str, ...]:
        """Sentences on parameters whose intervals become clearly narrower, the best first."""
        found = sorted((one for one in self.parameters if one.narrower < NARROWED), key=lambda one: one.narrower)
        return tuple(one.sentence() for one in found)

    @property
    def motion(self) -> Motion:
        """Summary of the predicted motion."""
        return motion_of(Log("motion", self.time, (_logged(self.joint, self.position, None, self.unit),)), self.joint)

    @property
    def narrower(self) -> float:
        """Geometric mean of the ratios of interval widths, after to before."""
        return float(np.exp(np.mean([math.log(max(one.narrower, 1e-12)) for one in self.parameters])))

    def save(self, path: PathLike) -> None:
        """Write the commands as CSV: ``t`` [s], and ``cmd_JOINT`` [rad], or ``cmd_JOINT [m]``."""
        rows = (f"{t:.6g},{q:.6g}\n" for t, q in zip(self.time, self.command, strict=True))
        with replacing(Path(path)) as partial:
            unit = " [m]" if self.unit == "m" else ""
            partial.write_text(f"t,cmd_{self.joint}{unit}\n" + "".join(rows), encoding="utf-8")

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the time series as plain data for JSON."""
        return {
            "joint": self.joint,
            "unit": self.unit,
            "seconds": float(self.time[-1]),
            "narrower": self.narrower,
            "position": [float(self.position.min()), float(self.position.max())],
            "speed": float(np.abs(self.velocity).max()),
            "effort": float(np.abs(self.effort).max()),
            "confidence": CONFIDENCE,
            "parameters": {
                one.path: {
                    "value": one.value,
                    "unit": one.unit,
                    "before": list(one.before),
                    "after": list(one.after),
                    "narrower": one.narrower,
                }
                for one in self.parameters
            },
            "told": list(self.told),
            "open": list(self.open),
        }


@dataclass(frozen=True)
class ExcitationOptions:
    """Length of a motion and of the search for it.

    Args:
        seconds: Length of the motion [s].
        rate: Commands per second [1/s].
        generations: Generations of the search.
        seed: Seed of the random numbers.
    """

    seconds: float = 15.0
    rate: float = 200.0
    generations: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2.0 <= self.seconds <= 600.0:
            option = Option("seconds", "--seconds")
            raise ParameterError(f"got {self.seconds:g}; must be from 2 to 600", option=option)
        if not 10.0 <= self.rate <= 2000.0:
            raise ParameterError(f"rate: got {self.rate:g}; must be from 10 to 2000 [1/s]")


Progress = Callable[[int, float], None]
"""Callback after each generation, with its number and the ratio of interval widths, after to before."""


@dataclass(frozen=True)
class Trajectories:
    """Commands of a joint, parametrised by vectors of numbers.

    Args:
        low: Lowest command [rad].
        high: Highest command [rad].
        start: First and last command [rad].
        seconds: Length of a command [s].
        rate: Commands per second [1/s].
        segments: Number of segments.
    """

    low: float
    high: float
    start: float
    seconds: float
    rate: float
    segments: int

    @property
    def time(self) -> np.ndarray:
        """Times of the commands [s], shape (T,)."""
        return np.arange(round(self.seconds * self.rate) + 1) / self.rate

    @property
    def dimension(self) -> int:
        """Length of a vector, D."""
        return self.segments * len(NUMBERS)

    def command(self, numbers: np.ndarray) -> np.ndarray:
        """Return the commands [rad], shape (T,), for a vector of numbers from 0 to 1, shape (D,)."""
        level, ramp, length, sweep, first, last = np.clip(numbers, 0.0, 1.0).reshape(self.segments, len(NUMBERS)).T
        levels = np.append(self.low + level * (self.high - self.low), self.start)
        weights = np.append(_SHORTEST + (1.0 - _SHORTEST) * length, _SHORTEST)
        lengths = weights / weights.sum() * (self.seconds - 2.0 * _AT_ENDS)
        begins = _AT_ENDS + np.concatenate([[0.0], np.cumsum(lengths)])
        time = self.time
        command = np.full(len(time), self.start)
        before = self.start
        for i in range(self.segments + 1):
            inside = (time >= begins[i]) & (time < begins[i + 1])
            since = time[inside] - begins[i]
            share = ramp[i] if i < self.segments else 1.0
            way = np.clip(since / max(share * lengths[i], 1e-9), 0.0, 1.0)
            command[inside] = before + way * (levels[i] - before)
            if i < self.segments and sweep[i] > _NO_SWEEP:
                command[inside] += self._sweep(since, lengths[i], sweep[i], first[i], last[i])
            before = levels[i]
        return np.clip(command, self.low, self.high)

    def _sweep(self, since: np.ndarray, length: float, size: float, first: float, last: float) -> np.ndarray:
        """Return a sine of changing frequency that begins and ends at 0."""
        amplitude = 0.5 * (self.high - self.low) * (size - _NO_SWEEP) / (1.0 - _NO_SWEEP)
        begin, end = (_SLOWEST * (_FASTEST / _SLOWEST) ** share for share in (first, last))
        turns = begin * since + 0.5 * (end - begin) / length * since**2
        whole = max(1, round(0.5 * (begin + end) * length * 2.0)) / (0.5 * (begin + end) * length * 2.0)
        return amplitude * np.sin(2.0 * math.pi * turns * whole)

    def usual(self) -> np.ndarray:
        """Return a conventional motion as a vector of shape (D,): slow ramps both ways, steps, a sweep."""
        kinds = (
            (0.9, 1.0, 1.0, 0.0, 0.0, 0.0),
            (0.1, 1.0, 1.0, 0.0, 0.0, 0.0),
            (0.8, 0.0, 0.2, 0.0, 0.0, 0.0),
            (0.3, 0.0, 0.2, 0.0, 0.0, 0.0),
            (0.5, 0.2, 1.0, 0.7, 0.2, 0.8),
            (0.7, 0.0, 0.2, 0.0, 0.0, 0.0),
        )
        return np.array([kinds[i % len(kinds)] for i in range(self.segments)]).ravel()


def excite(
    joint: str,
    model: Model,
    values: np.ndarray,
    limits: Limits,
    settings: Mapping[str, Any],
    options: ExcitationOptions | None = None,
    *,
    local: Estimate | None = None,
    progress: Progress | None = None,
    unit: str = "rad",
) -> Excitation:
    """Search for the motion that narrows the intervals of the parameters most.

    Args:
        joint: Name of the joint.
        model: Model with the parameters of interest free.
        values: Best known values of the free parameters, shape (P,).
        limits: Limits of the motion.
        settings: Settings of the recording: the load, and what the model needs.
        options: Length of the motion and of the search for it.
        local: Estimate from the logs so far. Default: only the ranges are known.
        progress: Callback after each generation.
        unit: Unit of the joint's position, ``"rad"`` or ``"m"``.
    """
    options = options or ExcitationOptions()
    if not model.parameters:
        raise ParameterError(f"{model.name}: has no free parameters; free at least one")
    start = float(np.clip(0.0, limits.low, limits.high))
    segments = int(np.clip(round(options.seconds / 1.5), 3, 16))
    shapes = Trajectories(limits.low, limits.high, start, options.seconds, options.rate, segments)
    experiment = Experiment(joint, model, values, limits, settings, shapes, local, options.seed, unit)
    with held_interrupts():
        command, is_interrupted = _search(experiment, options, progress)
    return dataclasses.replace(_described(experiment, command), interrupted=is_interrupted)


class Experiment:
    """Simulated motions: their information on the parameters, and their distance from the limits."""

    def __init__(
        self, joint: str, model: Model, values: np.ndarray, limits: Limits, settings: Mapping[str, Any],
        shapes: Trajectories, local: Estimate | None, seed: int, unit: str = "rad",
    ):  # fmt: skip
        self.joint, self.model, self.values, self.limits = joint, model, np.asarray(values, float), limits
        self._settings = {**settings, **model.settings}
        self.shapes, self.unit = shapes, unit
        self.local = local
        self.noise = _NOISE if local is None else max(local.noise, 1e-5)
        count = len(model.parameters)
        known = np.zeros((count, count)) if local is None else local.jacobian.T @ local.jacobian / self.noise**2
        self.before = known + np.eye(count) / _UNKNOWN**2
        shares = np.clip(to_unit(model.parameters, self.values), 0.0, 1.0)
        drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (_DRAWN, count)) * np.sqrt(
            np.diag(np.linalg.inv(self.before))
        )
        around = np.clip(np.concatenate([shares[None], shares + drawn]), 0.0, 1.0)
        ahead, behind = np.clip(around + _STEP, 0.0, 1.0), np.clip(around - _STEP, 0.0, 1.0)
        points = np.repeat(around[:, None], 2 * count, axis=1)
        at = np.arange(count)
        points[:, 2 * at, at], points[:, 2 * at + 1, at] = ahead, behind
        self._candidates = from_unit(model.parameters, points.reshape(-1, count))
        self._widths = ahead - behind

    def _plant(self, commands: np.ndarray) -> KnownLoadPlant:
        still = np.full(commands.shape[1], self.shapes.start)
        logs = [
            Log("excitation", self.shapes.time, (_logged(self.joint, still, command, self.unit),), self._settings)
            for command in commands
        ]
        return KnownLoadPlant(logs)

    def motion(self, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predicted positions [rad] and efforts [N·m] for commands, all of shape (R, T)."""
        plant = self._plant(commands)
        trials = plant.trials([self.model], [self.values[None]])
        positions = np.array([run[0, :, 0] for run in plant.residuals(trials)])
        efforts = np.array([run[0, :, 0] for run in plant.simulate(trials, "effort")])
        return positions + self.shapes.start, efforts

    def jacobians(self, commands: np.ndarray) -> np.ndarray:
        """Return the derivatives of the positions by the shares, at V parameter sets, shape (R, V, T, P).

        Large derivatives are clipped: if one of two trials sticks and the other moves, their difference is not a
        derivative.
        """
        plant = self._plant(commands)
        runs = plant.residuals(plant.trials([self.model], [self._candidates]))
        shape = (len(commands), len(self._widths), len(self.values), 2, commands.shape[1])
        found = np.array([run[..., 0] for run in runs]).reshape(shape)
        derivatives = (found[..., 0, :] - found[..., 1, :]) / self._widths[..., None]
        largest = _LARGEST_DERIVATIVE * (self.limits.high - self.limits.low)
        return np.clip(derivatives, -largest, largest).swapaxes(-1, -2)

    def jacobian(self, command: np.ndarray) -> np.ndarray:
        """Return the derivatives of the positions at the values of the model as intervals need them, shape (T, P)."""
        plant, parameters = self._plant(command[None]), self.model.parameters

        def positions(points: np.ndarray) -> np.ndarray:
            (run,) = plant.residuals(plant.trials([self.model], [from_unit(parameters, points)]))
            return run[..., 0]

        rough = self.jacobians(command[None])[0, 0]
        return along_singular_vectors(rough, np.clip(to_unit(parameters, self.values), 0.0, 1.0), positions)

    def excess(self, positions: np.ndarray, efforts: np.ndarray) -> np.ndarray:
        """Return the relative excess of motions over the limits, shape (R,); at most 0 within the limits."""
        limits, span = self.limits, self.limits.high - self.limits.low
        beyond = [
            (positions.max(axis=1) - limits.high) / span + (1.0 - _MARGIN),
            (limits.low - positions.min(axis=1)) / span + (1.0 - _MARGIN),
        ]
        speeds = np.abs(np.gradient(positions, 1.0 / self.shapes.rate, axis=1)).max(axis=1)
        for largest, found in ((limits.speed, speeds), (limits.effort, np.abs(efforts).max(axis=1))):
            if largest is not None:
                beyond.append(found / (_MARGIN * largest) - 1.0)
        excess = np.max(beyond, axis=0)
        return np.where(np.isfinite(excess), excess, np.inf)

    def known_after(self, jacobians: np.ndarray) -> np.ndarray:
        """Return the information after a motion as an inverse covariance, shape (..., P, P)."""
        return self.before + jacobians.swapaxes(-1, -2) @ jacobians / self.noise**2

    def within(self, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return commands scaled down to the limits, shape (R, T), and their remaining `excess`, shape (R,)."""
        smaller = self.shapes.start + np.multiply.outer(_SMALLER, commands - self.shapes.start)
        excess = self.excess(*self.motion(smaller.reshape(-1, commands.shape[1]))).reshape(len(_SMALLER), -1)
        first = np.where((excess <= 0.0).any(axis=0), np.argmax(excess <= 0.0, axis=0), np.argmin(excess, axis=0))
        runs = np.arange(len(commands))
        return smaller[first, runs], excess[first, runs]

    def costs(self, commands: np.ndarray) -> np.ndarray:
        """Return the mean logarithm of the ratios of interval widths, after to before, shape (R,)."""
        jacobians = self.jacobians(commands)
        is_finite = np.isfinite(jacobians).all(axis=(1, 2, 3))
        known = self.known_after(np.where(is_finite[:, None, None, None], jacobians, 0.0))
        more = np.linalg.slogdet(known)[1].mean(axis=1) - np.linalg.slogdet(self.before)[1]
        return np.where(is_finite, -0.5 * more / len(self.values), np.inf)


def _search(experiment: Experiment, options: ExcitationOptions, progress: Progress | None) -> tuple[np.ndarray, bool]:
    """Return the commands of the best motion: random motions first, then recombinations, then CMA-ES.

    The second value is whether the search was interrupted after it had found a motion.
    """
    shapes, rng = experiment.shapes, np.random.default_rng(options.seed)
    best, best_cost, best_command = shapes.usual(), math.inf, None
    search: Any = None
    least = math.inf
    known: list[tuple[float, np.ndarray]] = []
    for generation in range(options.generations):
        try:
            check()
        except KeyboardInterrupt:
            if best_command is None:
                raise
            return best_command, True
        if generation < _RANDOM:
            asked = rng.uniform(0.0, 1.0, (_POPULATION, shapes.dimension))
            asked[0] = best
        elif generation < options.generations // 2:
            asked = np.array([_recombined(rng, [numbers for _, numbers in known], shapes) for _ in range(_POPULATION)])
        else:
            search = search or require("cmaes", "fit", "exciting a joint").CMA(
                mean=np.clip(best, 0.02, 0.98),
                sigma=0.08,
                bounds=np.tile([0.0, 1.0], (shapes.dimension, 1)),
                seed=int(rng.integers(2**31)),
                population_size=_POPULATION,
            )
            asked = np.array([search.ask() for _ in range(_POPULATION)])
        commands, excess = experiment.within(np.array([shapes.command(numbers) for numbers in asked]))
        costs = np.where(excess <= 0.0, experiment.costs(commands), np.inf)
        known = sorted([*known, *zip(costs.tolist(), asked, strict=True)], key=lambda pair: pair[0])[:_KEPT]
        least = min(least, float(excess.min()))
        i = int(np.argmin(costs))
        if costs[i] < best_cost:
            best, best_cost, best_command = asked[i].copy(), float(costs[i]), commands[i]
        if search is not None:
            told = np.where(np.isfinite(costs), costs, 10.0 + np.minimum(excess, 1e3))
            search.tell(list(zip(asked, told, strict=True)))
        if progress is not None:
            progress(generation + 1, math.exp(min(best_cost, 0.0)))
    if best_command is None:
        raise ParameterError(
            f"found no motion within the limits; the best one exceeds them by {100.0 * least:.0f} %: widen the limits"
        )
    return best_command, False


def _recombined(rng: np.random.Generator, parents: Sequence[np.ndarray], shapes: Trajectories) -> np.ndarray:
    """Recombine the segments of two motions, mutate some and replace one; their information is nearly additive."""
    one, other = (parents[i].reshape(shapes.segments, -1) for i in rng.integers(len(parents), size=2))
    child = np.where(rng.random((shapes.segments, 1)) < 0.25, other[rng.permutation(shapes.segments)], one)
    child = child + 0.1 * rng.standard_normal(child.shape) * (rng.random((shapes.segments, 1)) < 0.3)
    child[rng.integers(shapes.segments)] = rng.uniform(0.0, 1.0, child.shape[1])
    return np.clip(child, 0.0, 1.0).ravel()


def _described(experiment: Experiment, command: np.ndarray) -> Excitation:
    positions, efforts = experiment.motion(command[None])
    jacobian = experiment.jacobian(command)
    model, count = experiment.model, len(experiment.values)
    reached = require("scipy.stats", "fit", "exciting a joint").norm.ppf(0.5 + 0.5 * CONFIDENCE)
    before, after = (
        np.sqrt(np.diag(np.linalg.inv(known))) for known in (experiment.before, experiment.known_after(jacobian))
    )
    shares = np.clip(to_unit(model.parameters, experiment.values), 0.0, 1.0)
    intervals: list[list[tuple[float, float]]] = []
    for deviation in (before, after):
        ends = [from_unit(model.parameters, np.clip(shares + side * reached * deviation, 0, 1)) for side in (-1.0, 1.0)]
        intervals.append([(float(low), float(high)) for low, high in zip(*ends, strict=True)])
    parameters = tuple(
        ParameterGain(
            p.path,
            at_joint(place_of(model.actuator, p.path).declared.unit, p.path, experiment.unit),
            value,
            first,
            second,
            float(after[i] / before[i]),
        )
        for i, (p, value, first, second) in enumerate(
            zip(model.parameters, experiment.values.tolist(), *intervals, strict=True)
        )
    )
    known = np.zeros((0, count)) if experiment.local is None else experiment.local.jacobian
    unclear = tuple(undetermined(model.parameters, np.concatenate([known, jacobian]), experiment.noise))
    return Excitation(
        experiment.joint,
        experiment.shapes.time,
        command,
        positions[0],
        efforts[0],
        parameters,
        unclear,
        unit=experiment.unit,
    )


def limits_of(logs: Sequence[Log], joint: str) -> Limits:
    """Return the range of a joint's positions in logs, commanded or measured, and its largest speed."""
    lows, highs, speeds = [], [], []
    for log in logs:
        own = log.joint(joint)
        for path in (without_spikes(own.position), own.command):
            if path is not None:
                lows.append(path.min())
                highs.append(path.max())
        at = log.joint_names.index(joint)
        speeds.append(np.abs(smooth_motion(log, SMOOTHED)[1][:, at]).max())
    return Limits(float(min(lows)), float(max(highs)), float(max(speeds)) or None)


def facts_of(settings: Mapping[str, float], limits: Limits, joint: str = UNNAMED) -> JointFacts:
    """Return the facts on a joint without logs, from its load and its limits.

    Args:
        settings: ``mass`` and ``length`` of a pendulum, or ``inertia``; ``vin`` [V] for a servo.
        limits: Limits of the joint's motion.
        joint: Name of the joint.
    """
    load = Load.of_settings(settings)
    span = limits.high - limits.low
    speed = limits.speed or span / _QUICK
    effort = limits.effort or load.gravity + load.inertia * speed / _QUICK
    time = np.linspace(0.0, 1.0, 201)
    command = limits.low + span * (0.5 + 0.5 * np.sin(2.0 * np.pi * time))
    log = Log("unrecorded", time, (JointLog(joint, command - _LAG * span, command),), dict(settings))
    return JointFacts(Scales(effort, speed, load.inertia, span), (log,), joint)


def from_file(path: PathLike, facts: JointFacts, name: str | None = None) -> tuple[Model, np.ndarray]:
    """Return a model with the values of an actuator file.

    Args:
        path: An ``actuon.yaml``, from a fit or written by hand.
        facts: Facts on the joint, which determine the ranges of the parameters.
        name: Name of the model. Default: the one in the section ``fit`` of the file.

    Returns:
        The model, and the values of its free parameters, shape (P,).
    """
    (known,) = models_of(path, [facts.joint])
    name = name or Provenance.from_yaml(path).models.get(known.name)
    if name is None:
        raise ParameterError(f"'{path}': does not name its model; pass it with ", fix=Fix("name=", "--model"))
    model = build_model(name, facts)
    values = []
    for parameter in model.parameters:
        value = value_at(known.actuator, parameter.path)
        below = value_at(known.actuator, parameter.added_to) if parameter.added_to else 0.0
        if value is None or below is None:
            raise RobotFileError(f"'{path}': has no {parameter.path}, which the model {name} needs")
        at = model.settings if known.scaled_by else {}
        factor = known.factors(at).get(parameter.path, 1.0) if at else 1.0
        values.append(np.clip((value - below) * factor, parameter.low, parameter.high))
    return model, np.array(values)
