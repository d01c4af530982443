# SPDX-License-Identifier: Apache-2.0
"""Recognition of activations in the element-wise operations of a graph, by their structure, never by their values.

Between two layers, a value of the graph is ``scale · function + shift``. Scales and shifts collapse; products,
quotients and comparisons are supported only as parts of a known activation, such as the softsign ``x / (1 + |x|)``.
Each rule is an identity for all numbers, so it is exact far from zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .activations import SELU_ALPHA, SELU_SCALE, Activation, FloatArray

Number: TypeAlias = float | FloatArray
"""A constant, or one per feature."""

_CLOSE = 1e-6
"""Allowed relative difference of a constant in a file from a formula: 32 bits hold seven digits."""
_LEAST_SOFTPLUS_THRESHOLD = 15.0
"""Value beyond which softplus is linear in 32 bits."""
_GELU_CUBIC = 0.044715
_MOST_FUNCTIONS = 100
"""Largest number of nested functions between two layers; an activation has a handful."""


@dataclass(frozen=True, eq=False)
class Function:
    """A nonlinear function of one value. ``activation`` is None for a part of one, such as ``exp``."""

    name: str
    of: Value
    activation: Activation | None = None

    @functools.cached_property
    def depth(self) -> int:
        return 1 if self.of.function is None else self.of.function.depth + 1


@dataclass(frozen=True, eq=False)
class Value:
    """``scale · function + shift``; without a function, of the output of the last layer."""

    scale: Number = 1.0
    shift: Number = 0.0
    function: Function | None = None

    def times(self, factor: Number) -> Value:
        return Value(self.scale * factor, self.shift * factor, self.function)

    def plus(self, constant: Number) -> Value:
        return Value(self.scale, self.shift + constant, self.function)

    def argument(self, name: str) -> Value | None:
        """Return ``z`` of a value ``scale · name(z)``; None for others."""
        return self._of(name) if _is_zero(self.shift) and _is_nowhere_zero(self.scale) else None

    def argument_beside_one(self, name: str) -> Value | None:
        """Return ``z`` of a value ``scale · (1 + name(z))``; None for others."""
        return self._of(name) if _are_close(self.shift, self.scale) and _is_nowhere_zero(self.scale) else None

    def _of(self, name: str) -> Value | None:
        return self.function.of if self.function is not None and self.function.name == name else None


PLAIN = Value()
"""Output of the last layer."""

Operand: TypeAlias = Value | Number
"""A value or a constant. At least one operand of an operation is a value."""


@dataclass(frozen=True, eq=False)
class Condition:
    """``value > 0`` or ``value ≥ 0``, which rules must not distinguish."""

    value: Value


def _part(name: str, of: Value) -> Value:
    return Value(function=Function(name, of))


def _activated(of: Value, name: str, parameter: float = 0.0, upper: float = 0.0) -> Value:
    return Value(function=Function(name, of, Activation(name, float(parameter), float(upper))))


def _is_zero(number: Number) -> bool:
    return bool(np.all(np.equal(number, 0.0)))


def _is_nowhere_zero(number: Number) -> bool:
    return bool(np.all(np.not_equal(number, 0.0)))


def _are_close(x: Number, y: Number) -> bool:
    return bool(np.all(np.abs(np.subtract(x, y)) <= _CLOSE * np.abs(y)))


def _are_same_functions(x: Function | None, y: Function | None) -> bool:
    while x is not None and y is not None and x is not y:
        same = np.array_equal(x.of.scale, y.of.scale) and np.array_equal(x.of.shift, y.of.shift)
        if (x.name, x.activation) != (y.name, y.activation) or not same:
            return False
        x, y = x.of.function, y.of.function
    return x is y


def _ratio(x: Operand, y: Value) -> Number | None:
    """Return the factor x / y if it is constant; otherwise None."""
    if not isinstance(x, Value):
        return 0.0 if _is_zero(x) else None
    if not _are_same_functions(x.function, y.function) or not _is_nowhere_zero(y.scale):
        return None
    factor = x.scale / y.scale
    return factor if np.all(np.isfinite(factor)) and _are_close(x.shift, factor * y.shift) else None


def _single(number: Number | None) -> float | None:
    """Return a constant that all features share; None for others."""
    if number is None or np.size(number) == 0:
        return None
    values = np.ravel(number)
    return float(values[0]) if np.isfinite(values[0]) and np.all(values == values[0]) else None


def _add(x: Operand, y: Operand, alpha: float = 1.0) -> Value | None:
    if not isinstance(y, Value):
        return x.plus(alpha * y) if isinstance(x, Value) else None
    if not isinstance(x, Value):
        return y.times(alpha).plus(x)
    y = y.times(alpha)
    if _are_same_functions(x.function, y.function):
        return Value(x.scale + y.scale, x.shift + y.shift, x.function)
    for linear, cube in ((x, y), (y, x)):
        of = cube.argument("cube")
        factor = None if of is None else _ratio(linear, of)
        if of is not None and factor is not None and _are_close(cube.scale, _GELU_CUBIC * factor):
            return _part("gelu cubic", of).times(factor)
    return None


def _subtract(x: Operand, y: Operand, alpha: float = 1.0) -> Value | None:
    return _add(x, y, -alpha)


def _multiply(x: Operand, y: Operand) -> Value | None:
    if not isinstance(y, Value):
        return x.times(y) if isinstance(x, Value) else None
    if not isinstance(x, Value):
        return y.times(x)
    return _product(x, y) or _product(y, x)


def _product(x: Value, y: Value) -> Value | None:
    if (of := y.argument("sigmoid")) is not None:
        return _if_multiple(x, of, "silu", y.scale)
    if (of := y.argument_beside_one("erf")) is not None:
        return _if_multiple(x, of.times(math.sqrt(2.0)), "gelu", 2.0 * y.scale)
    if (inner := y.argument_beside_one("tanh")) is not None:
        of = inner.argument("gelu cubic")
        if of is not None and _are_close(inner.scale, math.sqrt(2.0 / math.pi)):
            return _if_multiple(x, of, "gelu_tanh", 2.0 * y.scale)
    if (of := y.argument("square")) is not None and (factor := _ratio(x, of)) is not None:
        return _part("cube", of).times(factor * y.scale)
    if _are_close(y.scale, _GELU_CUBIC * y.shift):
        of = y.plus(-y.shift).argument("square")
        if of is not None and (factor := _ratio(x, of)) is not None:
            return _part("gelu cubic", of).times(factor * y.shift)
    factor = _ratio(x, y)
    return None if factor is None else _part("square", y).times(factor)


def _if_multiple(x: Value, of: Value, name: str, scale: Number) -> Value | None:
    """Return ``scale · activation(of)`` times the factor from ``of`` to ``x``; None if there is none."""
    factor = _ratio(x, of)
    return None if factor is None else _activated(of, name).times(factor * scale)


def _divide(x: Operand, y: Operand, rounding_mode: str | None = None) -> Value | None:
    if rounding_mode is not None:
        return None
    if not isinstance(y, Value):
        return Value(x.scale / y, x.shift / y, x.function) if isinstance(x, Value) else None
    if (of := y.argument_beside_one("exp")) is not None:
        return _multiply(x, _activated(of.times(-1.0), "sigmoid").times(1.0 / y.scale))
    if isinstance(x, Value) and (of := y.argument_beside_one("abs")) is not None:
        return _if_multiple(x, of, "softsign", 1.0 / y.scale)
    return None


def _power(x: Operand, exponent: Operand) -> Value | None:
    power = None if isinstance(exponent, Value) else _single(exponent)
    if not isinstance(x, Value):
        return None
    if power == 1.0:
        return x
    if power == -1.0:
        return _divide(1.0, x)
    return _part({2.0: "square", 3.0: "cube"}[power], x) if power in (2.0, 3.0) else None


def _leaky_relu(x: Value, slope: float = 0.01) -> Value:
    return _activated(x, "relu") if slope == 0.0 else _activated(x, "leaky_relu", slope)


def _elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value | None:
    if not input_scale > 0.0:
        return None
    return _activated(x.times(input_scale), "elu", alpha * input_scale).times(scale / input_scale)


def _softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value | None:
    return _activated(x, "softplus", beta) if beta > 0.0 and threshold >= _LEAST_SOFTPLUS_THRESHOLD else None


def _gelu(x: Value, approximate: str = "none") -> Value | None:
    names = {"none": "gelu", "tanh": "gelu_tanh"}
    return _activated(x, names[approximate]) if approximate in names else None


def _selu(x: Value, alpha: float = SELU_ALPHA, gamma: float = SELU_SCALE) -> Value | None:
    is_usual = _are_close(alpha, SELU_ALPHA) and _are_close(gamma, SELU_SCALE)
    return _activated(x, "selu") if is_usual else _elu(x, alpha, gamma)


def _clamp(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Value | None:
    lowest, highest = _bound(low, -math.inf), _bound(high, math.inf)
    if lowest is None or highest is None or lowest > highest or not isinstance(x, Value):
        return None
    first, of = (-math.inf, math.inf), x
    if x.function is not None and np.all(np.equal(x.scale, 1.0)) and _is_zero(x.shift):
        inner = x.function.activation
        if inner is not None and inner.name in ("clamp", "relu"):
            first = (inner.parameter, inner.upper if inner.name == "clamp" else math.inf)
            of = x.function.of
    lower, upper = (min(max(bound, lowest), highest) for bound in first)
    if (lower, upper) == (-math.inf, math.inf):
        return x
    return _activated(of, "relu") if (lower, upper) == (0.0, math.inf) else _activated(of, "clamp", lower, upper)


def _bound(bound: Operand | None, unbounded: float) -> float | None:
    """Return a bound that is equal for all features; None if it is not."""
    if isinstance(bound, Value):
        return None
    if bound is None or (np.size(bound) == 1 and np.ravel(bound)[0] == unbounded):
        return unbounded
    return _single(bound)


def _maximum(x: Operand, y: Operand) -> Value | None:
    if not isinstance(y, Value):
        return _clamp(x, low=y)
    if not isinstance(x, Value):
        return _clamp(y, low=x)
    slope = _single(_ratio(y, x))
    if slope is None:
        return None
    return _leaky_relu(x, slope) if slope <= 1.0 else _leaky_relu(x, 1.0 / slope).times(slope)


def _minimum(x: Operand, y: Operand) -> Value | None:
    if not isinstance(y, Value):
        return _clamp(x, high=y)
    if not isinstance(x, Value):
        return _clamp(y, high=x)
    greatest = _maximum(x.times(-1.0), y.times(-1.0))
    return None if greatest is None else greatest.times(-1.0)


def _greater(x: Operand, y: Operand) -> Condition | None:
    difference = _subtract(x, y)
    return None if difference is None else Condition(difference)


def _where(condition: Condition | Operand, above: Operand, below: Operand) -> Value | None:
    """Return the activation of two halves that meet where the condition changes; None if there is none."""
    if not isinstance(condition, Condition):
        return None
    at = condition.value
    slope_above, slope_below = _single(_ratio(above, at)), _single(_ratio(below, at))
    if slope_above is not None and slope_below is not None:
        if slope_above == 0.0:
            return _activated(at.times(-1.0), "relu").times(-slope_below)
        return _leaky_relu(at, slope_below / slope_above).times(slope_above)
    return _elu_in_halves(at, above, below) or _softplus_in_halves(at, above, below)


def _elu_in_halves(at: Value, above: Operand, below: Operand) -> Value | None:
    if not isinstance(below, Value):
        return None
    of = below.argument("expm1")
    if of is None and _are_close(np.negative(below.shift), below.scale):
        of = below.plus(below.scale).argument("exp")
    if of is None:
        return None
    slope, steepness, alpha = _single(_ratio(above, of)), _single(_ratio(of, at)), _single(below.scale)
    if not slope or steepness is None or steepness <= 0.0 or alpha is None:
        return None
    return _activated(of, "elu", alpha / slope).times(slope)


def _softplus_in_halves(at: Value, above: Operand, below: Operand) -> Value | None:
    """Return softplus that is linear beyond a threshold, if that makes no difference in 32 bits."""
    if not isinstance(below, Value) or below.function is None or below.function.activation is None:
        return None
    of = below.argument("softplus")
    slope = None if of is None else _ratio(above, of)
    if of is None or slope is None or not _are_same_functions(at.function, of.function):
        return None
    beta = below.function.activation.parameter
    factor = at.scale / of.scale
    threshold = beta * (of.shift - at.shift / factor)
    is_far = np.all(np.greater(factor, 0.0)) and np.all(np.greater_equal(threshold, _LEAST_SOFTPLUS_THRESHOLD))
    return below if is_far and _are_close(slope, below.scale) else None


OPERATIONS: dict[str, Callable[..., Value | Condition | None]] = {
    "add": _add,
    "sub": _subtract,
    "rsub": lambda x, y, alpha=1.0: _subtract(y, x, alpha),
    "mul": _multiply,
    "div": _divide,
    "neg": lambda x: x.times(-1.0),
    "reciprocal": lambda x: _divide(1.0, x),
    "pow": _power,
    "abs": lambda x: _part("abs", x),
    "exp": lambda x: _part("exp", x),
    "expm1": lambda x: _part("expm1", x),
    "erf": lambda x: _part("erf", x),
    "tanh": lambda x: _activated(x, "tanh"),
    "sigmoid": lambda x: _activated(x, "sigmoid"),
    "relu": lambda x: _activated(x, "relu"),
    "relu6": lambda x: _clamp(x, 0.0, 6.0),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "selu": _selu,
    "gelu": _gelu,
    "silu": lambda x: _activated(x, "silu"),
    "softplus": _softplus,
    "softsign": lambda x: _activated(x, "softsign"),
    "hardtanh": lambda x, low=-1.0, high=1.0: _clamp(x, low, high),
    "clamp": _clamp,
    "maximum": _maximum,
    "minimum": _minimum,
    "gt": _greater,
    "ge": _greater,
    "lt": lambda x, y: _greater(y, x),
    "le": lambda x, y: _greater(y, x),
    "where": _where,
}
"""Known operations, by the names of `recognise.Op`. They return None if the result is not part of an activation."""


def apply(name: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Value | Condition | None:
    """Apply an operation to values and constants, at least one of them a value. Return None if not supported."""
    known = (Value, float, np.ndarray, str, type(None))
    arguments = [np.float64(argument) if isinstance(argument, (int, float)) else argument for argument in arguments]
    if not all(isinstance(argument, known) for argument in arguments[1 if name == "where" else 0 :]):
        return None
    with np.errstate(all="ignore"):
        try:
            result = OPERATIONS[name](*arguments, **keywords)
        except TypeError:  # unsupported arguments
            return None
    if isinstance(result, Value):
        is_finite = np.all(np.isfinite(result.scale)) and np.all(np.isfinite(result.shift))
        is_deep = result.function is not None and result.function.depth > _MOST_FUNCTIONS
        return None if is_deep or not is_finite else result
    return result


def chain(value: Value) -> tuple[list[tuple[Activation | None, Number, Number]], str]:
    """Return the activations of a value in the order in which they apply, each with the scale and shift after it.

    The first has no activation. Also return the name of a part that is not an activation, or an empty name.
    """
    found: list[tuple[Activation | None, Number, Number]] = []
    here: Value | None = value
    while here is not None:
        function = here.function
        if function is not None and function.activation is None:
            return [], function.name
        found.append((None if function is None else function.activation, here.scale, here.shift))
        here = None if function is None else function.of
    return found[::-1], ""
