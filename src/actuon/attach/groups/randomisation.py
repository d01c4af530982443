# SPDX-License-Identifier: Apache-2.0
"""Distributions from which parameters are drawn, and how their numbers act on a parameter."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ParameterError, StateError, shown

_LOW = 2**64 - 1

OPERATIONS = ("scale", "add", "set")


class Distribution(abc.ABC):
    """Numbers to draw, which ``"scale"`` the parameter, ``"add"`` to it, or ``"set"`` it.

    With ``per_joint`` false, all joints of an environment get the same number.
    """

    operation: str
    per_joint: bool

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ParameterError(f"operation: got {self.operation!r}; must be one of {', '.join(OPERATIONS)}")
        problem = self._problem()
        if problem:
            raise ParameterError(f"{self}: must be {problem}")

    @abc.abstractmethod
    def _problem(self) -> str | None:
        """Return the condition that its numbers break; None if they are allowed."""

    @abc.abstractmethod
    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Numbers of ``shape``."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Numbers of ``shape``, float32."""
        drawn = self._draw(rng, shape if self.per_joint else (shape[0], 1))
        return np.broadcast_to(drawn.astype(np.float32), shape)

    def apply(self, values: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The parameter after the draw. Scaling by one and adding zero change nothing, to the last bit."""
        if self.operation == "set":
            return drawn
        return values * drawn if self.operation == "scale" else values + drawn


@dataclass(frozen=True)
class Uniform(Distribution):
    """Evenly between ``low`` and ``high``.

    Examples:
        >>> actuon.lab.Uniform(0.8, 1.2)  # factor of each joint
        Uniform(low=0.8, high=1.2, operation='scale', per_joint=True)
        >>> actuon.lab.Uniform(0, 4, operation="set", per_joint=False)  # one value for each robot
        Uniform(low=0, high=4, operation='set', per_joint=False)
    """

    low: float
    high: float
    operation: str = "scale"
    per_joint: bool = True

    def _problem(self) -> str | None:
        return None if np.isfinite([self.low, self.high]).all() and self.low <= self.high else "finite and in order"

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class LogUniform(Uniform):
    """Evenly between the logarithms of ``low`` and ``high``, so that halving is as likely as doubling.

    Examples:
        >>> actuon.lab.LogUniform(0.5, 2.0)
        LogUniform(low=0.5, high=2.0, operation='scale', per_joint=True)
    """

    def _problem(self) -> str | None:
        return super()._problem() or (None if self.low > 0.0 else "above zero")

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        if self.low == self.high:  # which the logarithm would not give back to the last bit
            return np.full(shape, self.low)
        return np.exp(rng.uniform(np.log(self.low), np.log(self.high), shape))


@dataclass(frozen=True)
class Normal(Distribution):
    """Around ``mean`` with the standard deviation ``std``.

    Examples:
        >>> actuon.lab.Normal(0.0, 0.01, operation="add")
        Normal(mean=0.0, std=0.01, operation='add', per_joint=True)
    """

    mean: float
    std: float
    operation: str = "scale"
    per_joint: bool = True

    def _problem(self) -> str | None:
        return None if np.isfinite([self.mean, self.std]).all() and self.std >= 0.0 else "finite, and std ≥ 0"

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.normal(self.mean, self.std, shape)


STREAM = "random"
"""Name in files of the position of a model's generator."""


def generator(where: str, seed: Any) -> np.random.Generator:
    """A generator that starts from a seed; without one, from another place each time.

    Raises:
        ParameterError: It cannot be a seed.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{where}: got {shown(seed)}; must be a whole number ≥ 0, or None") from error


def stream_of(rng: np.random.Generator) -> np.ndarray:
    """Where a generator of `np.random.default_rng` stands, uint64 of shape (6,)."""
    state: Any = rng.bit_generator.state
    halves = [state["state"][name] >> shift & _LOW for name in ("state", "inc") for shift in (64, 0)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def check_stream(where: str, words: np.ndarray) -> None:
    """Refuse words that `stream_of` never gives."""
    _, _, _, inc_low, has_uint32, uinteger = (int(word) for word in words)
    if inc_low % 2 == 0 or has_uint32 > 1 or uinteger >= 2**32:
        raise StateError(f"{where}: is not the state of a generator of random numbers")


def set_stream(rng: np.random.Generator, words: np.ndarray) -> None:
    """Let a generator stand where another did, of which `stream_of` gave ``words``."""
    high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in words)
    state: Any = rng.bit_generator.state
    whole = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = state | {"state": whole, "has_uint32": has_uint32, "uinteger": uinteger}
