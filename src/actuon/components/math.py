# SPDX-License-Identifier: Apache-2.0
"""Numbers and functions that laws share."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp


def as_numbers(value: Any, default: float) -> np.ndarray:
    """Return a parameter of a config or a component as NumPy numbers, with a default for one that is unset."""
    return np.asarray(default if value is None else value.numpy() if isinstance(value, wp.array) else value, np.float32)


HALF_STEP = wp.constant(2.0**-24)
"""Largest relative error of rounding to 32 bits."""
SHORTEST = wp.constant(1e-9)
"""Smallest divisor [s]: replaces shorter times in quotients."""
JOINT_LOAD = "joint_load"
"""Name of the array in the simulation's control with the external load of each DOF [N·m or N]."""
JOINT_FRICTION = "joint_friction"
"""Name of the array in the simulation's control with the dry friction of each DOF besides its motor's [N·m or N]."""


@wp.func
def limit(x: float, low: float, high: float):
    """Clamp ``x`` to ``low`` and ``high``. NaN stays NaN, so that limits do not hide a diverged state.

    Examples:
        >>> import warp as wp
        >>> @wp.func
        ... def deadband_law(effort: float, width: float):
        ...     return effort - actuon.limit(effort, -width, width)
    """
    return wp.where(x < low, low, wp.where(x > high, high, x))


@wp.func
def exponential_less_one(x: float):
    """Return ``exp(x) - 1`` without cancellation near zero."""
    return wp.tanh(0.5 * x) * (wp.exp(x) + 1.0)


@wp.func
def integrated(total: float, added: float, rest: float, most: float):
    """Return a sum, clamped to ± ``most``, and its rounding error, so that small terms are not lost in a large sum."""
    part = added + rest
    grown = total + part
    held = wp.where(grown < -most, -most, wp.where(grown > most, most, grown))
    lost = part - (grown - total)
    lost = wp.where(wp.abs(lost) <= wp.abs(part), lost, 0.0)  # NaN of an infinite sum
    return held, wp.where(held == grown, lost, 0.0)


@wp.func
def regained(q: float, qd: float, dt: float, last_q: float, last_rest: float):
    """Return the rounding error of a 32-bit position ``q``, to add to it.

    At 10⁴ rad, adjacent 32-bit numbers are 1 mrad apart. Engines move a joint by the velocity after the step, so its
    exact position is ``last_q + last_rest + qd·dt``, within the largest rounding error of ``q``. Gradients ignore the
    rounding.
    """
    most = HALF_STEP * wp.abs(q)
    return wp.min(wp.max(last_rest + qd * dt - (q - last_q), -most), most)


@wp.func_grad(regained)
def adj_regained(q: float, qd: float, dt: float, last_q: float, last_rest: float, adj_ret: float):
    pass


FARTHEST = wp.constant(20.0)
"""Exponent beyond which `gaussian` is constant, below 3e-9."""

_VALUE = """
    const float least = 7.8886091e-31f, most = 1048576.0f;
    float x = speed > least ? (speed < most ? speed : most) : least;
    union { float f; int i; } bits;
    bits.f = x;
    int exponent_of_two = ((bits.i - 0x3f3504f3) >> 23);
    bits.i -= exponent_of_two << 23;
    float m = bits.f - 1.0f;
    float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float logarithm = m + (p * m * z - 0.5f * z) + 0.69314718f * (float)exponent_of_two;

    float power = exponent * logarithm;
    power = power > -30.0f ? (power < 4.45f ? power : 4.45f) : -30.0f;
    auto exponential = [](float y) {
        int n = (int)(y * 1.44269504f + 256.5f) - 256;
        float r = y - 0.693359375f * (float)n;
        r = r + 2.12194440e-4f * (float)n;
        float e = 1.9875691500e-4f;
        e = e * r + 1.3981999507e-3f;
        e = e * r + 8.3334519073e-3f;
        e = e * r + 4.1665795894e-2f;
        e = e * r + 1.6666665459e-1f;
        e = e * r + 5.0000001201e-1f;
        union { int i; float f; } scale;
        scale.i = (n + 127) << 23;
        return (e * r * r + r + 1.0f) * scale.f;
    };
    return exponential(-exponential(power));
"""

_ADJOINT = """
    if (speed > 9.5367432e-7f && speed < 1048576.0f) {
        float power = exponent * ::logf(speed);
        if (power > -30.0f && power < 4.45f) {
            float raised = ::expf(power);
            float fall = -adj_ret * raised * ::expf(-raised);
            adj_speed += fall * exponent / speed;
            adj_exponent += fall * ::logf(speed);
        }
    }
"""


@wp.func_native(_VALUE, _ADJOINT)
def stribeck(speed: float, exponent: float) -> float:  # type: ignore[empty-body]
    r"""Return ``exp(-speed**exponent)`` for a speed ≥ 0 as a multiple of the Stribeck velocity."""
    ...


@wp.func
def gaussian(x: float):
    """Return ``exp(-x²)`` within 3e-6: a series for a small part of the exponent, squared five times."""
    r = wp.min(x * x, FARTHEST) * (1.0 / 32.0)
    p = r * (1.0 / 40320.0) - 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r - 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r - 1.0 / 6.0
    p = p * r + 0.5
    p = p * r - 1.0
    p = p * r + 1.0
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p
