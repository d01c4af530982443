# SPDX-License-Identifier: Apache-2.0
r"""Which motion to record next: the one that tells most about the parameters that are not known well.

A motion with the Jacobian :math:`J` of its positions by the parameters, as shares of their ranges, adds
:math:`J^\top J / \sigma^2` to what is known of them. The motion that is looked for makes the determinant of the sum
largest, and with it the volume of what the parameters may still be smallest (D-optimal), within the limits of the
joint, by the model as it is known now. Motions are the runs of one batch, parameters changed a little its candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Option, ParameterError, require
from ..files import replacing
from ..logs import JointLog, Log
from ..typing import PathLike
from .excitation_words import NARROWED, Motion, Told, motion_of
from .model import Model, from_unit, place_of, to_unit
from .plants.known_load import KnownLoadPlant
from .refine import CONFIDENCE, Estimate, undetermined
from .trajectories import Trajectories

_MARGIN = 0.97
"""Share of the limits that a predicted motion may use."""
_UNKNOWN = 1.0 / math.sqrt(12.0)
"""Deviation of a parameter of which nothing is known but its range, as a share of it."""
_NOISE = 2e-3
"""Deviation of measured positions from a model [rad] where no logs say it."""
_STEP = 5e-3
"""Share of a range by which a parameter is changed for a difference."""
_LARGEST_SLOPE = 2.0
"""Most by which positions change over the range of a parameter, by the range of the joint."""
_DRAWN = 2
"""Values that the parameters may have as well, by what is known of them. A motion that tells much only at the very
values of the model, by sticking just here and not there, is of no use."""
_POPULATION = 24
_SMALLER = np.array([1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1])
"""By what a motion is multiplied until it is within the limits."""
_KEPT = 8
"""Motions of which segments are combined anew."""
_RANDOM = 2
"""Generations of random motions before the search proper."""


@dataclass(frozen=True)
class Limits:
    """What a joint may do.

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
    parameters: tuple[Told, ...]
    """What will be known of each."""
    open: tuple[str, ...]
    """What will not be told then either, in sentences."""

    @property
    def velocity(self) -> np.ndarray:
        """As predicted [rad/s], shape (T,)."""
        return np.gradient(self.position, self.time)

    @property
    def told(self) -> tuple[str, ...]:
        """What it will tell that is not known yet, in sentences, what becomes known best first."""
        found = sorted((one for one in self.parameters if one.narrower < NARROWED), key=lambda one: one.narrower)
        return tuple(one.sentence() for one in found)

    @property
    def motion(self) -> Motion:
        """What the predicted motion is like."""
        return motion_of(Log("motion", self.time, (JointLog(self.joint, self.position),)), self.joint)

    @property
    def narrower(self) -> float:
        """Width of the intervals after, compared with those before: the geometric mean."""
        return float(np.exp(np.mean([math.log(max(one.narrower, 1e-12)) for one in self.parameters])))

    def save(self, path: PathLike) -> None:
        """Write the commands as CSV: ``t`` [s], and ``cmd_`` with the name of the joint [rad]."""
        rows = (f"{t:.6g},{q:.6g}\n" for t, q in zip(self.time, self.command, strict=True))
        with replacing(Path(path)) as partial:
            partial.write_text(f"t,cmd_{self.joint}\n" + "".join(rows), encoding="utf-8")

    def as_dict(self) -> dict[str, Any]:
        """All but the motion, as JSON can hold it."""
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
    """How long a motion is, and how long to search for it.

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
    """Search for the motion that tells most about the parameters.

    Args:
        joint: Name of the joint.
        model: Its model; what is free is what is to be told.
        values: Of the free parameters, as far as they are known, shape (P,).
        limits: What the joint may do.
        settings: Of the bench: its load, and what the model needs.
        options: How long the motion is, and how long to search for it.
        local: What logs have told so far. Default: nothing but the ranges.
        progress: Called after each generation.
    """
    options = options or ExcitationOptions()
    if not model.parameters:
        raise ParameterError(f"{model.name}: has no free parameter that a motion could tell; give a model with some")
    start = float(np.clip(0.0, limits.low, limits.high))
    segments = int(np.clip(round(options.seconds / 1.5), 3, 16))
    shapes = Trajectories(limits.low, limits.high, start, options.seconds, options.rate, segments)
    bench = SimulatedMotions(joint, model, values, limits, settings, shapes, local, options.seed)
    command = _search(bench, options, progress)
    return _described(bench, command)


class SimulatedMotions:
    """Motions in simulation: what they tell, and whether they are within the limits."""

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
        """Predicted positions [rad] and efforts [N·m] for commands of shape (R, T), each of the same shape."""
        plant = self._plant(commands)
        trials = plant.trials([self.model], [self.values[None]])
        positions = np.array([run[0, :, 0] for run in plant.residuals(trials)])
        efforts = np.array([run[0, :, 0] for run in plant.simulate(trials, "effort")])
        return positions + self.shapes.start, efforts

    def jacobians(self, commands: np.ndarray) -> np.ndarray:
        """Of the positions by shares of the ranges, at each of the values that parameters may have, (R, V, T, P).

        Where a joint just sticks or just does not, a difference says nothing about the parameter: it is no larger than
        what a change over the whole range could bring.
        """
        plant = self._plant(commands)
        runs = plant.residuals(plant.trials([self.model], [self._candidates]))
        shape = (len(commands), len(self._widths), len(self.values), 2, commands.shape[1])
        found = np.array([run[..., 0] for run in runs]).reshape(shape)
        slopes = (found[..., 0, :] - found[..., 1, :]) / self._widths[..., None]
        largest = _LARGEST_SLOPE * (self.limits.high - self.limits.low)
        return np.clip(slopes, -largest, largest).swapaxes(-1, -2)

    def excess(self, positions: np.ndarray, efforts: np.ndarray) -> np.ndarray:
        """By what share motions are beyond the limits, shape (R,); at most 0 where they are within."""
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
        """What is known with a motion, as inverse covariances, shape (..., P, P)."""
        return self.before + jacobians.swapaxes(-1, -2) @ jacobians / self.noise**2

    def within(self, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Motions made smaller until they are within the limits, shape (R, T), and by what share they still are not."""
        smaller = self.shapes.start + np.multiply.outer(_SMALLER, commands - self.shapes.start)
        excess = self.excess(*self.motion(smaller.reshape(-1, commands.shape[1]))).reshape(len(_SMALLER), -1)
        first = np.where((excess <= 0.0).any(axis=0), np.argmax(excess <= 0.0, axis=0), np.argmin(excess, axis=0))
        runs = np.arange(len(commands))
        return smaller[first, runs], excess[first, runs]

    def costs(self, commands: np.ndarray) -> np.ndarray:
        """Log of how wide intervals stay on average, compared with before, shape (R,)."""
        jacobians = self.jacobians(commands)
        is_finite = np.isfinite(jacobians).all(axis=(1, 2, 3))
        known = self.known_after(np.where(is_finite[:, None, None, None], jacobians, 0.0))
        more = np.linalg.slogdet(known)[1].mean(axis=1) - np.linalg.slogdet(self.before)[1]
        return np.where(is_finite, -0.5 * more / len(self.values), np.inf)


def _search(bench: SimulatedMotions, options: ExcitationOptions, progress: Progress | None) -> np.ndarray:
    """The commands of the best motion: of random ones first, then by CMA-ES from the best of them."""
    shapes, rng = bench.shapes, np.random.default_rng(options.seed)
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
        commands, excess = bench.within(np.array([shapes.command(numbers) for numbers in asked]))
        costs = np.where(excess <= 0.0, bench.costs(commands), np.inf)
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
    """Segments of two motions, some changed a little, one of them anew: what segments tell adds up, or nearly."""
    one, other = (parents[i].reshape(shapes.segments, -1) for i in rng.integers(len(parents), size=2))
    child = np.where(rng.random((shapes.segments, 1)) < 0.25, other[rng.permutation(shapes.segments)], one)
    child = child + 0.1 * rng.standard_normal(child.shape) * (rng.random((shapes.segments, 1)) < 0.3)
    child[rng.integers(shapes.segments)] = rng.uniform(0.0, 1.0, child.shape[1])
    return np.clip(child, 0.0, 1.0).ravel()


def _described(bench: SimulatedMotions, command: np.ndarray) -> Excitation:
    positions, efforts = bench.motion(command[None])
    jacobian = bench.jacobians(command[None])[0, 0]
    model, count = bench.model, len(bench.values)
    reached = require("scipy.stats", "fit", "exciting a joint").norm.ppf(0.5 + 0.5 * CONFIDENCE)
    before, after = (np.sqrt(np.diag(np.linalg.inv(known))) for known in (bench.before, bench.known_after(jacobian)))
    shares = np.clip(to_unit(model.parameters, bench.values), 0.0, 1.0)
    intervals: list[list[tuple[float, float]]] = []
    for deviation in (before, after):
        ends = [from_unit(model.parameters, np.clip(shares + side * reached * deviation, 0, 1)) for side in (-1.0, 1.0)]
        intervals.append([(float(low), float(high)) for low, high in zip(*ends, strict=True)])
    parameters = tuple(
        Told(p.path, place_of(model.actuator, p.path).declared.unit, value, first, second, float(after[i] / before[i]))
        for i, (p, value, first, second) in enumerate(
            zip(model.parameters, bench.values.tolist(), *intervals, strict=True)
        )
    )
    known = np.zeros((0, count)) if bench.local is None else bench.local.jacobian
    unclear = tuple(undetermined(model.parameters, np.concatenate([known, jacobian]), bench.noise))
    return Excitation(bench.joint, bench.shapes.time, command, positions[0], efforts[0], parameters, unclear)
