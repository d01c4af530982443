# SPDX-License-Identifier: Apache-2.0
"""What a fit may change: one number of a chain or a link, by its path, with its range and scale."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..actuator.config import ActuatorConfig
from ..errors import ParameterError, listed
from ..robot_files.fleet import LINEAR as LINEAR, LOG as LOG
from ..robot_files.paths import Place, place_in
from .link import LINK, LinkConfig

ON_LINK = -1
"""In the place of a stage: the link that the joint moves."""


@dataclass(frozen=True)
class Parameter:
    """A parameter that a fit determines.

    Args:
        path: Which one: ``friction.viscous``.
        low: Smallest value.
        high: Largest value.
        start: Where to begin. Default: the middle, on its scale.
        scale: ``"linear"``, or ``"log"`` for numbers > 0 of which the order of magnitude is looked for.
        also: Paths of others that get the same value.
        above: Path of one that this is added to: what is looked for is by how much it is more, and never less.
    """

    path: str
    low: float
    high: float
    start: float | None = None
    scale: str = LINEAR
    also: tuple[str, ...] = ()
    above: str = ""

    def __post_init__(self) -> None:
        if self.scale not in (LINEAR, LOG):
            raise ParameterError(f"{self.path}: scale: got {self.scale!r}; must be {LINEAR!r} or {LOG!r}")
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not finite or not self.low < self.high or (self.scale == LOG and self.low <= 0.0):
            least = "0 < low < high" if self.scale == LOG else "low < high"
            raise ParameterError(f"{self.path}: range: got {self.low} to {self.high}; must be finite, {least}")
        if self.start is None:
            middle = math.sqrt(self.low * self.high) if self.scale == LOG else 0.5 * (self.low + self.high)
            object.__setattr__(self, "start", middle)
        elif not self.low <= self.start <= self.high:
            raise ParameterError(f"{self.path}: start: got {self.start}; must be from {self.low:g} to {self.high:g}")

    def to_unit(self, value: np.ndarray) -> np.ndarray:
        """Values as shares of the range, 0 to 1."""
        if self.scale == LOG:
            return np.log(np.asarray(value) / self.low) / math.log(self.high / self.low)
        return (np.asarray(value) - self.low) / (self.high - self.low)

    @property
    def width(self) -> float:
        """Of the range on its scale: ln(high / low), or high less low."""
        return math.log(self.high / self.low) if self.scale == LOG else self.high - self.low

    def from_unit(self, share: np.ndarray) -> np.ndarray:
        """Shares of the range, 0 to 1, as values."""
        share = np.clip(share, 0.0, 1.0)
        if self.scale == LOG:
            return self.low * np.exp(share * math.log(self.high / self.low))
        return self.low + share * (self.high - self.low)


def place_of(actuator: ActuatorConfig, path: str) -> Place:
    """Find what a path means: in the chain, or of the link that the joint moves.

    Raises:
        ParameterError: There is no such stage or parameter; lists those that there are.
    """
    stage_name, _, name = path.partition(".")
    if stage_name != LINK:
        return place_in(actuator.stages, path)
    declared = LinkConfig.declared()
    if name not in declared:
        raise ParameterError(f"{path}: {listed(name, declared, 'parameters of a link')}")
    return Place(ON_LINK, name, declared[name])


def value_at(actuator: ActuatorConfig, path: str) -> float | None:
    """The number at a path; None where it is left out."""
    place = place_of(actuator, path)
    value: float | None = None if place.stage == ON_LINK else getattr(actuator.stages[place.stage], place.name)
    return value


def with_values(actuator: ActuatorConfig, values: dict[str, float]) -> ActuatorConfig:
    """The chain with other numbers at some paths, checked together. Those of links are left out."""
    by_stage: dict[int, dict[str, float]] = {}
    for path, value in values.items():
        place = place_of(actuator, path)
        if place.stage == ON_LINK:
            continue
        by_stage.setdefault(place.stage, {})[place.name] = int(value) if place.declared.integer else float(value)
    stages = list(actuator.stages)
    for position, own in by_stage.items():
        stages[position] = dataclasses.replace(stages[position], **own)  # type: ignore[type-var]
    return actuator.with_stages(stages)


def to_unit(parameters: Sequence[Parameter], values: np.ndarray) -> np.ndarray:
    """Values, shape (..., P), as shares of their ranges."""
    columns = [p.to_unit(values[..., i]) for i, p in enumerate(parameters)]
    return np.stack(columns, axis=-1) if columns else np.zeros(values.shape)


def from_unit(parameters: Sequence[Parameter], shares: np.ndarray) -> np.ndarray:
    """Shares of ranges, shape (..., P), as values."""
    columns = [p.from_unit(shares[..., i]) for i, p in enumerate(parameters)]
    return np.stack(columns, axis=-1) if columns else np.zeros(shares.shape)
