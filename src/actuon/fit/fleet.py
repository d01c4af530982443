# SPDX-License-Identifier: Apache-2.0
"""`Fleet`: the same actuators found on several robots, and how they differ.

Numbers that are looked for by their order of magnitude are compared by their logarithms, which is their *scale*: means
are geometric, a deviation of 0.1 is 10 %. What the robots seem to differ by is more than what they do, as each was
found with an uncertainty of its own; `FleetJoint.spread` is without that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ParameterError, listed
from .models import Model
from .parameters import LOG, place_of, value_at
from .result import FitResult, FittedJoint

FEWEST = 2
"""Robots that make a fleet."""


@dataclass(frozen=True)
class FleetParameter:
    """A parameter that was fitted on all robots.

    Args:
        path: Which one: ``friction.viscous``.
        unit: Of its values.
        scale: ``"linear"``, or ``"log"``.
        also: Paths of others that have the same value.
        above: Path of one that this is added to.
    """

    path: str
    unit: str
    scale: str
    also: tuple[str, ...] = ()
    above: str = ""


@dataclass(frozen=True, eq=False)
class FleetJoint:
    """One joint on R robots, with P parameters.

    Args:
        name: Of the joint.
        model: Name of the model.
        parameters: What was fitted.
        values: What was found on each robot, shape (R, P).
        covariances: Of each robot's values on their scales, shape (R, P, P): their uncertainty.
        errors: Mean absolute error of the position on each robot [rad], shape (R,).
        times: Paths of numbers that grow with a setting of the log, and the name of the setting.
        settings: The settings for which these numbers are.
    """

    name: str
    model: str
    parameters: tuple[FleetParameter, ...]
    values: np.ndarray
    covariances: np.ndarray
    errors: np.ndarray
    times: Mapping[str, str]
    settings: Mapping[str, float]

    def __post_init__(self) -> None:
        robots, count = len(self.errors), len(self.parameters)
        shapes = {"values": (robots, count), "covariances": (robots, count, count)}
        for field, shape in shapes.items():
            got = getattr(self, field)
            if got.shape != shape or not np.isfinite(got).all():
                raise ParameterError(f"{self.name}: {field}: got shape {got.shape}; must be finite, {shape}")
        for i, parameter in enumerate(self.parameters):
            if parameter.scale == LOG and not (self.values[:, i] > 0.0).all():
                raise ParameterError(f"{self.name}: {parameter.path}: got {self.values[:, i].min():g}; must be > 0")

    @property
    def is_log(self) -> np.ndarray:
        """Which parameters have a logarithmic scale, shape (P,)."""
        return np.array([parameter.scale == LOG for parameter in self.parameters], dtype=bool)

    @property
    def on_scales(self) -> np.ndarray:
        """The values on their scales: logarithms where that is it, shape (R, P)."""
        return np.where(self.is_log, np.log(np.where(self.is_log, self.values, 1.0)), self.values)

    @property
    def mean(self) -> np.ndarray:
        """Over the robots, shape (P,): geometric where the scale is logarithmic."""
        mean = self.on_scales.mean(axis=0)
        return np.where(self.is_log, np.exp(np.where(self.is_log, mean, 0.0)), mean)

    @property
    def covariance(self) -> np.ndarray:
        """Over the robots, of the values on their scales, shape (P, P)."""
        away = self.on_scales - self.on_scales.mean(axis=0)
        return away.T @ away / (len(away) - 1)

    @property
    def std(self) -> np.ndarray:
        """Over the robots, of the values on their scales, shape (P,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def correlation(self) -> np.ndarray:
        """Over the robots, shape (P, P); 0 where a parameter does not vary."""
        std = np.where(self.std > 0.0, self.std, np.inf)
        return self.covariance / np.outer(std, std) + np.diag(np.where(np.isinf(std), 1.0, 0.0))

    @property
    def noise(self) -> np.ndarray:
        """Uncertainty of the values of one robot on average, as a covariance on their scales, shape (P, P)."""
        return self.covariances.mean(axis=0)

    @property
    def spread(self) -> np.ndarray:
        """By what the robots differ themselves: `covariance` less `noise`, as far as that leaves something, (P, P)."""
        sizes, directions = np.linalg.eigh(self.covariance - self.noise)
        return (directions * np.maximum(sizes, 0.0)) @ directions.T


@dataclass(frozen=True, eq=False)
class Fleet:
    """The same joints on several robots.

    Args:
        robots: Names.
        files: The ``actuon.yaml`` of each.
        joints: What was found of each joint.
    """

    robots: tuple[str, ...]
    files: tuple[str, ...]
    joints: tuple[FleetJoint, ...]

    def joint(self, name: str) -> FleetJoint:
        """One joint by its name."""
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise ParameterError(f"the fleet: {listed(name, [joint.name for joint in self.joints], 'joints')}")


def fleet_of(results: Mapping[str, FitResult], files: Sequence[str]) -> Fleet:
    """What several fits have found, side by side.

    Args:
        results: By the name of the robot; all with the same joints, and the same model at each.
        files: The ``actuon.yaml`` of each.
    """
    if len(results) < FEWEST:
        raise ParameterError(f"a fleet: got {len(results)} robots; must be at least {FEWEST}")
    names = [tuple(joint.name for joint in result.joints) for result in results.values()]
    if len(set(names)) > 1:
        raise ParameterError(f"a fleet: got robots with the joints {names[0]} and others; must have the same")
    return Fleet(tuple(results), tuple(files), tuple(_joint(name, list(results.values())) for name in names[0]))


def _joint(name: str, results: Sequence[FitResult]) -> FleetJoint:
    own = [next(joint for joint in result.joints if joint.name == name) for result in results]
    first = own[0].model
    looked_for = {p.path: p for joint in own for p in joint.model.parameters}
    parameters = tuple(
        FleetParameter(p.path, place_of(first.actuator, p.path).declared.unit, p.scale, p.also, p.above)
        for p in looked_for.values()
    )
    errors = [np.mean([run.error for run in result.runs if run.joint == name]) for result in results]
    return FleetJoint(
        name,
        first.name,
        parameters,
        np.array([_values(joint, parameters, first) for joint in own]),
        np.array([_covariance(joint, parameters) for joint in own]),
        np.array(errors),
        dict(first.times),
        dict(first.settings),
    )


def _values(joint: FittedJoint, parameters: Sequence[FleetParameter], first: Model) -> np.ndarray:
    """What was found, or was known, of a robot, at the settings of the first by which some numbers grow."""
    found = dict(zip(joint.model.paths, joint.values, strict=True))
    factors = joint.model.factors(first.settings) if joint.model.times else {}
    values = []
    for p in parameters:
        known = found[p.path] if p.path in found else value_at(joint.model.actuator, p.path) or 0.0
        below = value_at(joint.actuator, p.above) or 0.0 if p.above and p.path not in found else 0.0
        values.append((known - below) * factors.get(p.path, 1.0))
    return np.array(values)


def _covariance(joint: FittedJoint, parameters: Sequence[FleetParameter]) -> np.ndarray:
    """Of a robot's values on their scales; 0 for those that were known."""
    widths = np.array([p.width for p in joint.model.parameters])
    found = joint.covariance * np.outer(widths, widths)
    at = [joint.model.paths.index(p.path) if p.path in joint.model.paths else -1 for p in parameters]
    padded = np.pad(found, (0, 1))
    return padded[np.ix_(at, at)]
