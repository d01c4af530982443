# SPDX-License-Identifier: Apache-2.0
"""Distributions of motor parameters."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ParameterError, StateError, shown

_LOW = 2**64 - 1

OPERATIONS = ("scale", "add", "set")


class Distribution(abc.ABC):
    """Distribution of numbers that ``"scale"`` a parameter, ``"add"`` to it, or ``"set"`` it.

    With ``per_joint=False``, all joints of an environment get the same number.
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
        """Return numbers of ``shape``."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Return numbers of ``shape``, float32."""
        drawn = self._draw(rng, shape if self.per_joint else (shape[0], 1))
        return np.broadcast_to(drawn.astype(np.float32), shape)

    def apply(self, values: np.ndarray, drawn: np.ndarray, is_whole: bool = False) -> np.ndarray:
        """Return the parameter after the draw. Scaling by 1 and adding 0 change nothing, to the last bit.

        Args:
            values: The parameter before.
            drawn: Numbers of `draw`.
            is_whole: Whether the parameter takes whole numbers only.
        """
        if self.operation == "scale":
            return np.rint(values * drawn) if is_whole else values * drawn
        drawn = self._whole(drawn) if is_whole else drawn
        return drawn if self.operation == "set" else values + drawn

    def _whole(self, drawn: np.ndarray) -> np.ndarray:
        """Return drawn numbers as whole ones."""
        return np.rint(drawn)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform distribution from ``low`` to ``high``.

    Whole numbers, such as a delay in steps, are equally likely, both ends included.

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

    def _whole(self, drawn: np.ndarray) -> np.ndarray:
        return whole_numbers(drawn, self.low, self.high)


@dataclass(frozen=True)
class LogUniform(Uniform):
    """Uniform distribution of the logarithm, so that halving is as likely as doubling.

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
    """Normal distribution.

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


def whole_numbers(drawn: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return numbers from ``low`` to ``high`` as whole ones in this range, equally likely if the numbers are uniform.

    Raises:
        ParameterError: There are none in it.
    """
    first, last = np.ceil(low), np.floor(high)
    if first > last:
        raise ParameterError(f"got a range from {low:g} to {high:g}; must hold a whole number")
    share = (drawn - low) / ((high - low) or 1.0)
    return np.clip(np.floor(first + share * (last - first + 1.0)), first, last)


STREAM = "random"
"""Name in files of the state of a model's generator."""


def checked(where: str, distribution: Any) -> Distribution:
    """Return a distribution.

    Raises:
        ParameterError: It is something else.
    """
    if not isinstance(distribution, Distribution):
        raise ParameterError(f"{where}: got {shown(distribution)}; must be a distribution, such as Uniform(0.8, 1.2)")
    return distribution


def generator(where: str, seed: Any) -> np.random.Generator:
    """Return a generator with a seed, a random one if it is None.

    Raises:
        ParameterError: It cannot be a seed.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{where}: got {shown(seed)}; must be a whole number ≥ 0, or None") from error


def stream_of(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a generator of `np.random.default_rng`, uint64 of shape (6,)."""
    state: Any = rng.bit_generator.state
    halves = [state["state"][name] >> shift & _LOW for name in ("state", "inc") for shift in (64, 0)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def check_stream(where: str, words: np.ndarray) -> None:
    """Raise an error for words that `stream_of` never returns."""
    _, _, _, inc_low, has_uint32, uinteger = (int(word) for word in words)
    if inc_low % 2 == 0 or has_uint32 > 1 or uinteger >= 2**32:
        raise StateError(f"{where}: is not the state of a generator of random numbers")


def set_stream(rng: np.random.Generator, words: np.ndarray) -> None:
    """Give a generator the state that `stream_of` returned as ``words``."""
    high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in words)
    state: Any = rng.bit_generator.state
    whole = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = state | {"state": whole, "has_uint32": has_uint32, "uinteger": uinteger}
