# SPDX-License-Identifier: Apache-2.0
r"""Motions to record next: those that narrow the intervals of a joint's parameters most.

A motion with the Jacobian :math:`J` of its positions by the parameters, as shares of their ranges, adds
:math:`J^\top J / \sigma^2` to the information on them. The search maximises the determinant of the sum, which minimises
the volume that is left to the parameters (D-optimal), within the limits of the joint and by the model as it is known
now. Motions are the runs of one batch, parameters changed a little its candidates.

Commands are segments with a level that is stepped or ramped to, and a sweep on top. A segment whose sweep is small has
none: it is a hold after a step, or a slow ramp. So there are holds, steps, ramps, reversals, sines and chirps, one
after the other or mixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Fix, Option, ParameterError, RobotFileError, require
from ..files import replacing
from ..logs import JointLog, Log
from ..robot_files.provenance import Provenance
from ..typing import PathLike
from .apply import models_of
from .model import Model, from_unit, place_of, to_unit, value_at
from .plants.known_load import SMOOTHED, KnownLoadPlant, Load
from .plants.plant import Scales
from .refine import CONFIDENCE, Estimate, undetermined
from .terms import JointFacts, build_model

UNNAMED = "joint"
_MARGIN = 0.97
"""Share of the limits that a predicted motion may use."""
_UNKNOWN = 1.0 / math.sqrt(12.0)
"""Standard deviation of a parameter of which only the range is known, as a share of it."""
_NOISE = 2e-3
"""Standard deviation of measured positions from a model [rad] without logs that show it."""
_STEP = 5e-3
"""Share of a range by which a parameter is changed for a difference."""
_LARGEST_SLOPE = 2.0
"""Most by which positions change over the range of a parameter, by the range of the joint."""
_DRAWN = 2
"""Further values of the parameters, drawn from their distribution: a motion that is informative only at the very values
of the model, because the joint sticks just there, is of no use."""
_POPULATION = 24
_SMALLER = np.array([1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1])
"""Factors by which a motion is tried, until it is within the limits."""
_KEPT = 8
"""Best motions so far, whose segments are recombined."""
_RANDOM = 2
"""Generations of random motions before the search proper."""
NARROWED = 0.7
"""Width of an interval compared with before, below which a motion counts as informative on a parameter."""
_SLOW = 0.1
"""Speed [rad/s] below which friction at rest shows."""
_QUICK = 0.3
"""Time [s] in which a joint of which nothing is known goes through its range."""
_LAG = 0.05
"""Tracking error of such a joint, as a share of its range."""
NUMBERS = ("level", "ramp", "length", "sweep", "first", "last")
"""Numbers of a segment, each from 0 to 1: its end level, the share of it that is a ramp, its length, and amplitude and
first and last frequency of its sweep."""
_NO_SWEEP = 0.3
"""Share below which a segment has no sweep."""
_SLOWEST, _FASTEST = 0.15, 6.0
"""Frequencies [Hz] of sweeps."""
_SHORTEST = 0.3
"""Length of the shortest segment, as a share of the longest."""
_AT_ENDS = 0.25
"""Time [s] at rest before the first and after the last segment."""


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
    """Width of the interval on its scale, compared with that before."""

    def sentence(self) -> str:
        """Return the intervals as text."""
        before, after = (f"{low:.3g} … {high:.3g}" for low, high in (self.before, self.after))
        unit = "" if self.unit in ("", "1") else f" {self.unit}"
        return f"{self.path}: {after}{unit}, instead of {before}"


@dataclass(frozen=True)
class Motion:
    """Summary of a motion."""

    low: float
    high: float
    """Positions [rad]."""
    speed: float
    """Largest [rad/s]."""
    slow: float
    """Share of the time in which it moves, but slowly."""
    reversals: int

    def sentence(self) -> str:
        """Return the summary as text."""
        return (
            f"from {self.low:.2f} to {self.high:.2f} rad, up to {self.speed:.1f} rad/s, {100.0 * self.slow:.0f} % of "
            f"the time slower than {_SLOW:g} rad/s, {self.reversals} reversals"
        )


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
    )


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion to record."""

    joint: str
    time: np.ndarray
    """Of the commands [s], shape (T,)."""
    command: np.ndarray
    """[rad], shape (T,)."""
    position: np.ndarray
    """As predicted [rad], shape (T,)."""
    effort: np.ndarray
    """Of the motor at the joint, as predicted [N·m], shape (T,)."""
    parameters: tuple[ParameterGain, ...]
    """Intervals of each before and after."""
    open: tuple[str, ...]
    """Parameters that stay undetermined, in sentences."""

    @property
    def velocity(self) -> np.ndarray:
        """As predicted [rad/s], shape (T,)."""
        return np.gradient(self.position, self.time)

    @property
    def told(self) -> tuple[str, ...]:
        """Parameters whose intervals become clearly narrower, in sentences, the best first."""
        found = sorted((one for one in self.parameters if one.narrower < NARROWED), key=lambda one: one.narrower)
        return tuple(one.sentence() for one in found)

    @property
    def motion(self) -> Motion:
        """Summary of the predicted motion."""
        return motion_of(Log("motion", self.time, (JointLog(self.joint, self.position),)), self.joint)

    @property
    def narrower(self) -> float:
        """Geometric mean of the widths of intervals after, compared with before."""
        return float(np.exp(np.mean([math.log(max(one.narrower, 1e-12)) for one in self.parameters])))

    def save(self, path: PathLike) -> None:
        """Write the commands as CSV: ``t`` [s], and ``cmd_`` with the name of the joint [rad]."""
        rows = (f"{t:.6g},{q:.6g}\n" for t, q in zip(self.time, self.command, strict=True))
        with replacing(Path(path)) as partial:
            partial.write_text(f"t,cmd_{self.joint}\n" + "".join(rows), encoding="utf-8")

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the motion itself, as JSON can hold it."""
        return {
            "joint": self.joint,
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
    """Length of a motion, and of the search for it.

    Args:
        seconds: Length of the motion.
        rate: Commands in a second [1/s].
        generations: Of the search.
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
"""Called after each generation with its number and the width of the intervals, compared with that before."""


@dataclass(frozen=True)
class Trajectories:
    """Family of commands of a joint: each is a vector of numbers.

    Args:
        low: Lowest command [rad].
        high: Highest command [rad].
        start: First and last command [rad].
        seconds: Length of each.
        rate: Commands in a second [1/s].
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
        """How many numbers describe one, D."""
        return self.segments * len(NUMBERS)

    def command(self, numbers: np.ndarray) -> np.ndarray:
        """Return the commands [rad], shape (T,), of numbers from 0 to 1, shape (D,)."""
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
        """Return the numbers of a common choice, shape (D,): slow ramps both ways, steps, a sweep."""
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
) -> Excitation:
    """Search for the motion that narrows the intervals of the parameters most.

    Args:
        joint: Name of the joint.
        model: Its model, with the parameters of interest free.
        values: Best known values of the free parameters, shape (P,).
        limits: Limits of its motion.
        settings: Settings of the recording: the load, and those that the model needs.
        options: Length of the motion, and of the search for it.
        local: Estimate from the logs so far. Default: only the ranges are known.
        progress: Called after each generation.
    """
    options = options or ExcitationOptions()
    if not model.parameters:
        raise ParameterError(f"{model.name}: has no free parameter to determine by a motion; give a model with some")
    start = float(np.clip(0.0, limits.low, limits.high))
    segments = int(np.clip(round(options.seconds / 1.5), 3, 16))
    shapes = Trajectories(limits.low, limits.high, start, options.seconds, options.rate, segments)
    experiment = Experiment(joint, model, values, limits, settings, shapes, local, options.seed)
    command = _search(experiment, options, progress)
    return _described(experiment, command)


class Experiment:
    """Motions in simulation: their information on the parameters, and whether they are within the limits."""

    def __init__(
        self, joint: str, model: Model, values: np.ndarray, limits: Limits, settings: Mapping[str, Any],
        shapes: Trajectories, local: Estimate | None, seed: int,
    ):  # fmt: skip
        self.joint, self.model, self.values, self.limits = joint, model, np.asarray(values, float), limits
        self._settings = {**settings, **model.settings}
        self.shapes = shapes
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
            Log("excitation", self.shapes.time, (JointLog(self.joint, still, command),), self._settings)
            for command in commands
        ]
        return KnownLoadPlant(logs)

    def motion(self, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predicted positions [rad] and efforts [N·m] for commands of shape (R, T), each of that shape."""
        plant = self._plant(commands)
        trials = plant.trials([self.model], [self.values[None]])
        positions = np.array([run[0, :, 0] for run in plant.residuals(trials)])
        efforts = np.array([run[0, :, 0] for run in plant.simulate(trials, "effort")])
        return positions + self.shapes.start, efforts

    def jacobians(self, commands: np.ndarray) -> np.ndarray:
        """Return derivatives of the positions by shares of the ranges at V values of the parameters, (R, V, T, P).

        Clipped to what a change over the whole range could bring: at the border between sticking and moving, a
        difference says nothing about the parameter.
        """
        plant = self._plant(commands)
        runs = plant.residuals(plant.trials([self.model], [self._candidates]))
        shape = (len(commands), len(self._widths), len(self.values), 2, commands.shape[1])
        found = np.array([run[..., 0] for run in runs]).reshape(shape)
        slopes = (found[..., 0, :] - found[..., 1, :]) / self._widths[..., None]
        largest = _LARGEST_SLOPE * (self.limits.high - self.limits.low)
        return np.clip(slopes, -largest, largest).swapaxes(-1, -2)

    def excess(self, positions: np.ndarray, efforts: np.ndarray) -> np.ndarray:
        """Return by what share motions exceed the limits, shape (R,); at most 0 if they are within."""
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
        """Return the information with a motion, as inverse covariances, shape (..., P, P)."""
        return self.before + jacobians.swapaxes(-1, -2) @ jacobians / self.noise**2

    def within(self, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return motions scaled down to the limits, shape (R, T), and by what share they still exceed them, (R,)."""
        smaller = self.shapes.start + np.multiply.outer(_SMALLER, commands - self.shapes.start)
        excess = self.excess(*self.motion(smaller.reshape(-1, commands.shape[1]))).reshape(len(_SMALLER), -1)
        first = np.where((excess <= 0.0).any(axis=0), np.argmax(excess <= 0.0, axis=0), np.argmin(excess, axis=0))
        runs = np.arange(len(commands))
        return smaller[first, runs], excess[first, runs]

    def costs(self, commands: np.ndarray) -> np.ndarray:
        """Return the mean log width of intervals, compared with before, shape (R,)."""
        jacobians = self.jacobians(commands)
        is_finite = np.isfinite(jacobians).all(axis=(1, 2, 3))
        known = self.known_after(np.where(is_finite[:, None, None, None], jacobians, 0.0))
        more = np.linalg.slogdet(known)[1].mean(axis=1) - np.linalg.slogdet(self.before)[1]
        return np.where(is_finite, -0.5 * more / len(self.values), np.inf)


def _search(experiment: Experiment, options: ExcitationOptions, progress: Progress | None) -> np.ndarray:
    """Return the commands of the best motion: of random ones, of their recombinations, then by CMA-ES."""
    shapes, rng = experiment.shapes, np.random.default_rng(options.seed)
    best, best_cost, best_command = shapes.usual(), math.inf, None
    search: Any = None
    least = math.inf
    known: list[tuple[float, np.ndarray]] = []
    for generation in range(options.generations):
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
            "no motion was found that stays within the limits; the best one is beyond them by "
            f"{100.0 * least:.0f} %: widen them"
        )
    return best_command


def _recombined(rng: np.random.Generator, parents: Sequence[np.ndarray], shapes: Trajectories) -> np.ndarray:
    """Return segments of two motions, some mutated, one of them new: information of segments nearly adds up."""
    one, other = (parents[i].reshape(shapes.segments, -1) for i in rng.integers(len(parents), size=2))
    child = np.where(rng.random((shapes.segments, 1)) < 0.25, other[rng.permutation(shapes.segments)], one)
    child = child + 0.1 * rng.standard_normal(child.shape) * (rng.random((shapes.segments, 1)) < 0.3)
    child[rng.integers(shapes.segments)] = rng.uniform(0.0, 1.0, child.shape[1])
    return np.clip(child, 0.0, 1.0).ravel()


def _described(experiment: Experiment, command: np.ndarray) -> Excitation:
    positions, efforts = experiment.motion(command[None])
    jacobian = experiment.jacobians(command[None])[0, 0]
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
            p.path, place_of(model.actuator, p.path).declared.unit, value, first, second, float(after[i] / before[i])
        )
        for i, (p, value, first, second) in enumerate(
            zip(model.parameters, experiment.values.tolist(), *intervals, strict=True)
        )
    )
    known = np.zeros((0, count)) if experiment.local is None else experiment.local.jacobian
    unclear = tuple(undetermined(model.parameters, np.concatenate([known, jacobian]), experiment.noise))
    return Excitation(experiment.joint, experiment.shapes.time, command, positions[0], efforts[0], parameters, unclear)


def limits_of(logs: Sequence[Log], joint: str) -> Limits:
    """Return the largest motion of a joint in logs: its positions, commanded or measured, and its speed."""
    lows, highs, speeds = [], [], []
    for log in logs:
        own = log.joint(joint)
        for path in (own.position, own.command):
            if path is not None:
                lows.append(path.min())
                highs.append(path.max())
        at = log.joint_names.index(joint)
        speeds.append(np.abs(log.derivatives(SMOOTHED)[1][:, at]).max())
    return Limits(float(min(lows)), float(max(highs)), float(max(speeds)) or None)


def facts_of(settings: Mapping[str, float], limits: Limits, joint: str = UNNAMED) -> JointFacts:
    """Return the facts on a joint that was never recorded, from its load and its limits.

    Args:
        settings: ``mass`` and ``length`` of a pendulum, or ``inertia``; ``vin`` [V] for a servo.
        limits: Limits of its motion.
        joint: Its name.
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
        path: An ``actuon.yaml``, of a fit or by hand.
        facts: The joint, from which the model's ranges follow.
        name: Name of the model. Default: as the section ``fit`` of the file says.

    Returns:
        The model, and the values of its free parameters, shape (P,).
    """
    (known,) = models_of(path, [facts.joint])
    name = name or Provenance.from_yaml(path).models.get(known.name)
    if name is None:
        raise ParameterError(f"'{path}': does not say which model it is; name it with ", fix=Fix("name=", "--model"))
    model = build_model(name, facts)
    values = []
    for parameter in model.parameters:
        value = value_at(known.actuator, parameter.path)
        below = value_at(known.actuator, parameter.added_to) if parameter.added_to else 0.0
        if value is None or below is None:
            raise RobotFileError(f"'{path}': has no {parameter.path}, which the model {name} has")
        at = model.settings if known.scaled_by else {}
        factor = known.factors(at).get(parameter.path, 1.0) if at else 1.0
        values.append(np.clip((value - below) * factor, parameter.low, parameter.high))
    return model, np.array(values)
