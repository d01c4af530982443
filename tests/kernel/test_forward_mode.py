# SPDX-License-Identifier: Apache-2.0
"""Derivatives of laws in all the ways in which people write them, against central differences in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.kernel.forward_mode import UnsupportedLaw, derivative_of

N = 65


@wp.func
def helper(x: float, y: float):
    z = x * y
    return z, wp.sin(x) - y


@wp.func_native("return x * x * x;", "adj_x += 3.0f * x * x * adj_ret;")
def native_cube(x: float) -> float: ...


@wp.func
def residue(x: float, y: float):
    return wp.min(x - y, 0.1)


@wp.func_grad(residue)
def adj_residue(x: float, y: float, adj_ret: float):
    pass


@wp.func
def with_constant(q: float, qd: float, gain: float):
    left = residue(q, qd)
    return gain * q + left, qd * left


@wp.func
def with_branches(q: float, qd: float, gain: float):
    effort = -gain * q
    if qd > 0.5:
        effort = effort - qd * qd
    elif qd < -0.5:
        drag = qd * 0.1
        effort = effort - drag
    else:
        effort -= gain * qd
    return effort


@wp.func
def with_early_returns(q: float, qd: float, gain: float):
    if q > 0.2:
        return gain * qd
    return gain * q * q


@wp.func
def with_loops(q: float, qd: float, gain: float):
    total = float(0.0)
    power = float(q)
    for i in range(3):
        total = total + power * float(i + 1)
        power = power * q
    left = float(2.0)
    while left > 0.0:
        before = total
        total = total - gain * qd
        left = left - 1.0
        total = total + 0.5 * (before - total)
    return total


@wp.func
def with_calls(q: float, qd: float, gain: float):
    """Of others, and of functions that only Warp knows the derivatives of."""
    product, other = helper(q, qd)
    angle = wp.atan2(qd, 2.0 + wp.abs(q))
    return gain * product + other / (1.5 + q * q) + angle + native_cube(qd) + wp.pow(1.0 + wp.exp(q), 1.5)


@wp.func
def with_choices(q: float, qd: float, gain: float):
    a = wp.min(q, 0.3 * qd) + wp.max(q * q, qd)
    b = wp.clamp(gain * qd, -1.0, q + 1.0)
    c = q if qd > 0.0 else -qd
    d, e = wp.sqrt(1.0 + q * q), +wp.tanh(qd)
    return a + b + c * d - e + wp.sign(q) * wp.log(2.0 + wp.abs(qd)) + wp.float32(int(3.7)) * wp.cos(q)


@wp.func
def with_vectors(q: float, qd: float, gain: float):
    v = wp.vec2(q, qd)
    return -gain * wp.length(v)


LAWS = (with_branches, with_early_returns, with_loops, with_calls, with_choices, with_vectors)


@dataclass(frozen=True)
class GainConfig(actuon.Config):
    gain: float = actuon.param("N·m/rad", "A gain.", minimum=0.0)


def controller_of(a_law):
    class ControllerOwn(actuon.Controller):
        config = GainConfig
        law = a_law

    return ControllerOwn


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.key)
def test_laws_as_people_write_them(law, rng):
    attrs = {"effort_derivative_q": "by_q", "effort_derivative_qd": "by_qd"}
    actuator = actuon.Actuator(range(N), controller_of(law)(1.3), accumulate=False, control_derivative_attrs=attrs)
    q, qd = (rng.normal(0.0, 1.0, N).astype(np.float32) for _ in range(2))
    sim = {"joint_q": wp.array(q), "joint_qd": wp.array(qd), "joint_target_q": wp.zeros(N)}
    sim |= {"joint_target_qd": wp.zeros(N)} | {name: wp.full(N, np.nan) for name in ("joint_f", "by_q", "by_qd")}
    actuator.step(sim, sim, dt=0.01)
    plain = actuon.Actuator(range(N), controller_of(law)(1.3), accumulate=False)

    def effort(q, qd):
        given = sim | {"joint_q": wp.array(q), "joint_qd": wp.array(qd), "joint_f": wp.zeros(N)}
        plain.step(given, given, dt=0.01)
        return given["joint_f"].numpy().astype(np.float64)

    now, h = effort(q, qd), np.float32(4e-3)
    np.testing.assert_array_equal(sim["joint_f"].numpy(), now)
    for attr, up, down in (
        ("by_q", effort(q + h, qd), effort(q - h, qd)),
        ("by_qd", effort(q, qd + h), effort(q, qd - h)),
    ):
        smooth = np.abs(up + down - 2 * now) < 1e-3  # no large kink in between
        assert smooth.mean() > 0.7
        expected = (up - down) / (2 * np.float64(h))
        np.testing.assert_allclose(sim[attr].numpy()[smooth], expected[smooth], rtol=2e-2, atol=5e-2)


def test_derivatives_that_are_zero_for_certain_are_known():
    found = derivative_of(helper, (("x", 0),))
    assert found.returned == ((True, False), (True, False))
    assert derivative_of(with_early_returns, (("gain", 1),)).returned == ((False, True),)


def test_what_is_not_plain_statements_is_left_to_warp():
    with pytest.raises(UnsupportedLaw, match="native_cube is not written in plain statements"):
        derivative_of(native_cube, (("x", 0),))
    with pytest.raises(UnsupportedLaw):
        derivative_of(with_vectors, (("q", 0), ("qd", 1)))


def test_functions_with_an_empty_adjoint_are_constants():
    """Plainly, without `wp.grad`, which takes longer and is refused in functions of several values."""
    found = derivative_of(with_constant, (("q", 0), ("qd", 1)))
    assert found.returned == ((True, False), (False, True))
    assert not found.asks_warp
