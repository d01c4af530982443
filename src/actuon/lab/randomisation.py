# SPDX-License-Identifier: Apache-2.0
"""How a parameter is drawn anew: a distribution, and what its numbers do to the parameter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ParameterError

OPERATIONS = ("scale", "add", "set")


@dataclass(frozen=True)
class Distribution:
    """Numbers to draw, and what they do: ``"scale"`` the parameter, ``"add"`` to it, or ``"set"`` it.

    With ``per_joint`` false, all joints of an environment get the same number.
    """

    operation: str = "scale"
    per_joint: bool = True

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ParameterError(f"operation: got {self.operation!r}; must be one of {', '.join(OPERATIONS)}")

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Numbers of ``shape``, float32."""
        drawn = self._draw(rng, shape if self.per_joint else (shape[0], 1))
        return np.broadcast_to(drawn.astype(np.float32), shape)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        raise NotImplementedError

    def apply(self, values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The parameter after the draw. Scaling by one and adding zero change no bit."""
        if self.operation == "set":
            return drawn
        return values * drawn if self.operation == "scale" else values + drawn


def _check_range(low: float, high: float, above: float = -np.inf) -> None:
    if not (np.isfinite(low) and np.isfinite(high) and above < low <= high):
        what = "finite, positive and in order" if above == 0.0 else "finite and in order"
        raise ParameterError(f"got the range from {low} to {high}; must be {what}")


@dataclass(frozen=True)
class _Range(Distribution):
    low: float = 1.0
    high: float = 1.0

    def __init__(self, low: float, high: float, operation: str = "scale", per_joint: bool = True):
        object.__setattr__(self, "low", float(low))
        object.__setattr__(self, "high", float(high))
        object.__setattr__(self, "operation", operation)
        object.__setattr__(self, "per_joint", per_joint)
        self.__post_init__()


class Uniform(_Range):
    """Evenly between ``low`` and ``high``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self.low, self.high)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.uniform(self.low, self.high, shape)


class LogUniform(_Range):
    """Evenly between the logarithms of ``low`` and ``high``, so that halving is as likely as doubling."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self.low, self.high, above=0.0)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        if self.low == self.high:
            return np.full(shape, self.low)
        return np.exp(rng.uniform(np.log(self.low), np.log(self.high), shape))


@dataclass(frozen=True)
class Normal(Distribution):
    """Around ``mean`` with the standard deviation ``std``."""

    mean: float = 1.0
    std: float = 0.0

    def __init__(self, mean: float, std: float, operation: str = "scale", per_joint: bool = True):
        for name, value in (("mean", mean), ("std", std), ("operation", operation), ("per_joint", per_joint)):
            object.__setattr__(self, name, value)
        super().__post_init__()
        if not (np.isfinite(mean) and np.isfinite(std) and std >= 0.0):
            raise ParameterError(f"got mean {mean} and std {std}; must be finite, and std ≥ 0")

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.normal(self.mean, self.std, shape)
