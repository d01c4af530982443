# SPDX-License-Identifier: Apache-2.0
"""Known activations: each as C++, with its derivative, and in NumPy.

C++ is written over a type ``T``: a float, or a vector of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Activation:
    """An element-wise function by name, with its parameter if it has one.

    ``"clamp"`` has two: it clips values to ``parameter`` and ``upper``, of which one may be infinite.
    """

    name: str = "identity"
    parameter: float = 0.0
    upper: float = 0.0

    @property
    def is_bounded_below(self) -> bool:
        return math.isfinite(self.parameter)

    @property
    def is_bounded_above(self) -> bool:
        return math.isfinite(self.upper)


IDENTITY = Activation()

SCALAR_MATH = """
typedef float T;
auto t_exp = [](T x) -> T { return ::expf(x); };
auto t_tanh = [](T x) -> T { return ::tanhf(x); };
auto t_max = [](T x, T y) -> T { return x > y ? x : y; };
auto t_abs = [](T x) -> T { return x < 0.0f ? -x : x; };
auto t_pick = [](bool yes, T x, T y) -> T { return yes ? x : y; };
auto t_fma = [](T x, T y, T z) -> T { return x * y + z; };
auto t_erf = [](T x) -> T { return ::erff(x); };
auto t_log = [](T x) -> T { return ::logf(x); };
"""

# exp and tanh after the Cephes library's single-precision polynomials (S. Moshier, public domain constants).
VECTOR_MATH = """
typedef float T __attribute__((vector_size(4 * GROUP)));
typedef int TI __attribute__((vector_size(4 * GROUP)));
auto t_pick = [](TI yes, T x, T y) -> T { return yes ? x : y; };
auto t_max = [](T x, T y) -> T { return x > y ? x : y; };
auto t_fma = [](T x, T y, T z) -> T { return __builtin_elementwise_fma(x, y, z); };
auto t_abs = [](T x) -> T { return x < 0.0f ? -x : x; };
auto t_exp = [t_fma](T x) -> T {
    x = x < -87.0f ? x * 0.0f - 87.0f : (x > 88.0f ? x * 0.0f + 88.0f : x);
    T n = __builtin_elementwise_floor(t_fma(x, (1.44269504f - T{}), (0.5f - T{})));
    T r = t_fma(n, (-0.693359375f - T{}), x);
    r = t_fma(n, (2.12194440e-4f - T{}), r);
    T p = (1.9875691500e-4f - T{});
    p = t_fma(p, r, (1.3981999507e-3f - T{}));
    p = t_fma(p, r, (8.3334519073e-3f - T{}));
    p = t_fma(p, r, (4.1665795894e-2f - T{}));
    p = t_fma(p, r, (1.6666665459e-1f - T{}));
    p = t_fma(p, r, (5.0000001201e-1f - T{}));
    p = t_fma(p, r * r, r + 1.0f);
    TI bits = (__builtin_convertvector(n, TI) + 127) << 23;
    return p * (T)bits;
};
auto t_tanh = [t_fma, t_exp, t_abs](T x) -> T {
    T a = t_abs(x);
    T big = 1.0f - 2.0f / (t_exp(2.0f * a) + 1.0f);
    big = x < 0.0f ? -big : big;
    T z = x * x;
    T p = (-5.70498872745e-3f - T{});
    p = t_fma(p, z, (2.06390887954e-2f - T{}));
    p = t_fma(p, z, (-5.37397155531e-2f - T{}));
    p = t_fma(p, z, (1.33314422036e-1f - T{}));
    p = t_fma(p, z, (-3.33332819422e-1f - T{}));
    return a < 0.625f ? t_fma(p * z, x, x) : big;
};
auto t_erf = [](T x) -> T { T y; for (int l = 0; l < GROUP; ++l) y[l] = ::erff(x[l]); return y; };
auto t_log = [](T x) -> T { T y; for (int l = 0; l < GROUP; ++l) y[l] = ::logf(x[l]); return y; };
"""

GATE_MATH = """
auto t_sigmoid = [t_exp](T x) -> T { return 1.0f / (1.0f + t_exp(-x)); };
"""

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@dataclass(frozen=True)
class _Function:
    """An activation of z. In its C++, ``{a}`` is the parameter and ``y`` the value."""

    value: str
    derivative: str
    evaluate: Callable[[FloatArray, float], FloatArray]
    """The function in float64, of an array and the parameter."""


def _sigmoid(x: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _elu(x: FloatArray, alpha: float) -> FloatArray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _erf(x: FloatArray) -> FloatArray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


_GELU_TANH = "t_tanh(0.79788456f * (z + 0.044715f * z * z * z))"

_FUNCTIONS = {
    "identity": _Function("z", "1.0f", lambda x, a: x),
    "relu": _Function(
        "t_pick(z < 0.0f, T{{}}, z)", "t_pick(z > 0.0f, 1.0f - T{{}}, T{{}})", lambda x, a: np.maximum(x, 0.0)
    ),
    "leaky_relu": _Function(
        "t_pick(z > 0.0f, z, {a} * z)",
        "t_pick(z > 0.0f, 1.0f - T{{}}, {a} - T{{}})",
        lambda x, a: np.where(x > 0, x, a * x),
    ),
    "elu": _Function("t_pick(z > 0.0f, z, {a} * (t_exp(z) - 1.0f))", "t_pick(z > 0.0f, 1.0f - T{{}}, y + {a})", _elu),
    "selu": _Function(
        f"{SELU_SCALE}f * t_pick(z > 0.0f, z, {SELU_ALPHA}f * (t_exp(z) - 1.0f))",
        f"t_pick(z > 0.0f, {SELU_SCALE}f - T{{{{}}}}, y + {SELU_SCALE * SELU_ALPHA}f)",
        lambda x, a: SELU_SCALE * _elu(x, SELU_ALPHA),
    ),
    "gelu": _Function(
        "0.5f * z * (1.0f + t_erf(z * 0.70710678f))",
        "(0.5f * (1.0f + t_erf(z * 0.70710678f)) + z * 0.39894228f * t_exp(-0.5f * z * z))",
        lambda x, a: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    ),
    "gelu_tanh": _Function(
        f"0.5f * z * (1.0f + {_GELU_TANH})",
        f"(0.5f * (1.0f + {_GELU_TANH}) + 0.5f * z * (1.0f - {_GELU_TANH} * {_GELU_TANH}) * "
        "0.79788456f * (1.0f + 0.134145f * z * z))",
        lambda x, a: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": _Function(
        "z * t_sigmoid(z)", "(t_sigmoid(z) * (1.0f + z * (1.0f - t_sigmoid(z))))", lambda x, a: x * _sigmoid(x)
    ),
    "tanh": _Function("t_tanh(z)", "(1.0f - y * y)", lambda x, a: np.tanh(x)),
    "sigmoid": _Function("t_sigmoid(z)", "(y * (1.0f - y))", lambda x, a: _sigmoid(x)),
    "softplus": _Function(
        "(t_max({a} * z, T{{}}) + t_log(1.0f + t_exp(-t_abs({a} * z)))) / {a}",
        "t_sigmoid({a} * z)",
        lambda x, a: np.logaddexp(0.0, x * a) / a,
    ),
    "softsign": _Function(
        "z / (1.0f + t_abs(z))",
        "((1.0f - t_abs(y)) * (1.0f - t_abs(y)))",
        lambda x, a: x / (1.0 + np.abs(x)),
    ),
}

ACTIVATION_NAMES = (*_FUNCTIONS, "clamp")


def value_text(activation: Activation, z: str) -> str:
    """Return C++ of the activation at ``z``."""
    if activation.name == "clamp":
        text = "z"
        if activation.is_bounded_above:
            text = f"t_pick(z > {_number(activation.upper)}, {_number(activation.upper)} - T{{}}, {text})"
        if activation.is_bounded_below:
            text = f"t_pick(z < {_number(activation.parameter)}, {_number(activation.parameter)} - T{{}}, {text})"
    else:
        text = _FUNCTIONS[activation.name].value.format(a=_number(activation.parameter))
    return f"([=](T z) -> T {{ return {text}; }})({z})"


def derivative_text(activation: Activation) -> str:
    """Return C++ of the activation's derivative at ``z``, with value ``y``."""
    if activation.name == "clamp":
        inside = [f"(z > {_number(activation.parameter)})"] if activation.is_bounded_below else []
        inside += [f"(z < {_number(activation.upper)})"] if activation.is_bounded_above else []
        return f"t_pick({' & '.join(inside)}, 1.0f - T{{}}, T{{}})" if inside else "1.0f"
    return _FUNCTIONS[activation.name].derivative.format(a=_number(activation.parameter))


def _number(value: float) -> str:
    return f"{value:.9e}f"


def evaluate(activation: Activation, x: FloatArray) -> FloatArray:
    """Return the activation of an array in float64."""
    if activation.name == "clamp":
        return np.clip(x, activation.parameter, activation.upper)
    return _FUNCTIONS[activation.name].evaluate(x, activation.parameter)
