# SPDX-License-Identifier: Apache-2.0
r"""How friction falls from rest to motion: :math:`\exp(-x^\alpha)`, in arithmetic that a compiler turns into lanes.

A call of ``expf`` or ``powf`` would keep the whole loop over lanes scalar. Logarithm and exponential are the
single-precision polynomials of the Cephes library (S. Moshier, public domain constants).
"""

from __future__ import annotations

import warp as wp

FARTHEST = wp.constant(20.0)
"""Exponent beyond which an exponential, below 3e-9, no longer falls."""

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

_SLOPE = """
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


@wp.func_native(_VALUE, _SLOPE)
def stribeck(speed: float, exponent: float) -> float:  # type: ignore[empty-body]
    r"""``exp(-speed**exponent)`` for a speed ≥ 0 as a multiple of the Stribeck velocity."""
    ...


@wp.func
def gaussian(x: float):
    """``exp(-x²)`` within 3e-6 of itself: a series for a small part of the exponent, squared five times."""
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
