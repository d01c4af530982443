# SPDX-License-Identifier: Apache-2.0
"""`Fleet`: the same actuators found on several robots, and how they differ.

Numbers that are looked for by their order of magnitude are compared by their logarithms, which is their *scale*: means
are geometric, a deviation of 0.1 is 10 %. What the robots seem to differ by is more than what they do, as each was
found with an uncertainty of its own; `FleetJoint.spread` is without that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import ParameterError, listed

LINEAR, LOG = "linear", "log"
"""Scales of parameters."""
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
        low: Smallest value that was searched.
        high: Largest value that was searched.
    """

    path: str
    unit: str
    scale: str
    also: tuple[str, ...] = ()
    above: str = ""
    low: float = -math.inf
    high: float = math.inf


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
