# SPDX-License-Identifier: Apache-2.0
"""Signals on both sides of a transmission, and every oracle behind a gear and behind a linkage."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from tests.components.test_motor_stages import CHAINS, DT, Chain, moving, run
from tests.support import motor_oracle, oracle

N = 40
LINKAGE = {"joint_positions": (-3.0, -1.0, 0.5, 3.0), "motor_positions": (-9.0, -4.0, 2.0, 6.5)}
"""Has an offset: the motor is elsewhere than the joint."""


class Near(actuon.Parameters):
    most: actuon.Number = actuon.param("N·m", "Effort at an error of 1 rad.", minimum=0.0)


@wp.func
def near_law(
    effort: float, q: float, joint_q: float, joint_qd: float, position_error: float, velocity_error: float, most: float
):
    high = most * (wp.abs(position_error) + 0.1 * wp.abs(velocity_error))
    return actuon.limit(effort, -high, high), position_error, velocity_error, joint_q, joint_qd, q


class ClampingNear(Near, actuon.Clamping):
    law = near_law
    OUTPUTS = ("seen_error", "seen_velocity_error", "seen_q", "seen_qd", "own_q")


def transmissions(kind):
    gear = actuon.TransmissionGear(-6.0)
    found = {"joint": [], "gear": [gear], "linkage": [actuon.TransmissionLinkage(**LINKAGE)]}
    return (found | {"both": [*found["linkage"], gear]})[kind]


def side_of(kind, q):
    """Position of the motor, and the ratio there."""
    motor, ratio = np.float64(q), np.ones(len(q))
    if kind in ("linkage", "both"):
        motor, ratio = oracle.linkage(motor, *map(np.float64, LINKAGE.values()))
    return (-6.0 * motor, -6.0 * ratio) if kind in ("gear", "both") else (motor, ratio)


@pytest.mark.parametrize("kind", ["joint", "gear", "linkage", "both"])
def test_a_limit_by_the_error_sees_that_of_the_joint(kind, rng):
    """On every path, with a delay before and a sensor that no limit sees."""
    before = [actuon.SensorEncoder(resolution=0.0, bias=0.3), actuon.Delay(1, 1), actuon.ControllerPD(30.0, 0.5)]
    stages = [*before, *transmissions(kind), ClampingNear(0.4)]
    steps = moving(N, rng, 6)
    actuators = [
        actuon.Actuator(range(N), stages=stages, control_signal_attrs=lambda name: name, **options)
        for options in ({}, {"fused": False}, {"requires_grad": True})
    ]
    found, *others = (run(actuator, steps) for actuator in actuators)
    for t, now in enumerate(steps[1:], start=1):
        late = steps[t - 1]
        error, speed_error = late["joint_target_q"] - now["joint_q"], late["joint_target_qd"] - now["joint_qd"]
        motor, ratio = side_of(kind, now["joint_q"])
        np.testing.assert_allclose(found["seen_error"][t], error, atol=1e-6)
        np.testing.assert_allclose(found["seen_velocity_error"][t], speed_error, atol=1e-6)
        np.testing.assert_array_equal(found["seen_q"][t], now["joint_q"])
        np.testing.assert_array_equal(found["seen_qd"][t], now["joint_qd"])
        np.testing.assert_allclose(found["own_q"][t], motor, rtol=1e-5, atol=1e-5)
        asked = late["joint_act"] + 30.0 * (error - 0.3) + 0.5 * speed_error
        high = 0.4 * (np.abs(error) + 0.1 * np.abs(speed_error))
        np.testing.assert_allclose(
            found["joint_f"][t], ratio * np.clip(asked / ratio, -high, high), rtol=1e-4, atol=1e-4
        )
    for other in others:
        for name, values in found.items():
            np.testing.assert_array_equal(other[name], values, err_msg=name)


def test_a_controller_sees_the_errors_that_its_sensors_measure():
    class Gain(actuon.Parameters):
        kp: actuon.Number = actuon.param("N·m/rad", "Gain.")

    @wp.func
    def by_error_law(position_error: float, joint_q: float, q: float, kp: float):
        return kp * position_error + 100.0 * (joint_q - q)

    class ControllerByError(Gain, actuon.Controller):
        law = by_error_law

    for fused in (True, False):
        stages = [actuon.SensorEncoder(resolution=0.0, bias=0.25), ControllerByError(8.0), actuon.TransmissionGear(3.0)]
        arrays = {
            n: np.zeros(1, np.float32) for n in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
        }
        arrays["joint_target_q"][:] = 1.0
        actuon.Actuator([0], stages=stages, fused=fused).step(arrays, arrays)
        assert arrays["joint_f"][0] == 6.0


@pytest.mark.parametrize("name", ["joint_q", "position_error"])
def test_their_names_are_taken(name):
    with pytest.raises(actuon.StructureError, match=f"'{name}' is declared twice, or is the name of a built-in signal"):
        type("ClampingOwn", (Near, actuon.Clamping), {"law": offering_law, "OUTPUTS": (name,)})


@wp.func
def offering_law(effort: float, most: float):
    return effort, most


def test_derivatives_of_errors_are_those_of_the_joint(rng):
    attrs = {"effort_derivative_q": "by_q", "effort_derivative_qd": "by_qd"}
    stages = [actuon.ControllerPD(300.0, 0.5), *transmissions("both"), ClampingNear(0.4)]
    actuator = actuon.Actuator(range(N), stages=stages, control_derivative_attrs=attrs)
    (signals,) = moving(N, rng, 1)
    found = []
    for h in (0.0, 1e-3, -1e-3):
        sim = {name: array.copy() for name, array in signals.items()} | {
            name: np.zeros(N, np.float32) for name in ("joint_f", *attrs.values())
        }
        sim["joint_q"] += np.float32(h)
        actuator.step(sim, sim)
        found.append(sim)
    slope = (found[1]["joint_f"] - found[2]["joint_f"]) / 2e-3
    close = np.isclose(found[0]["by_q"], slope, rtol=2e-2, atol=5e-2)
    assert close.mean() > 0.9  # not at kinks


class TransmissionBefore(motor_oracle.Stage):
    """A gear without losses, or a linkage."""

    def __init__(self, n, kind):
        self.kind = kind
        super().__init__(n)

    def law(self, s, dt):
        s["q"], self.ratio = side_of(self.kind, s["q"])
        s["qd"], s["effort"] = s["qd"] * self.ratio, s["effort"] / self.ratio

    def closing(self, s, dt):
        s["effort"] = s["effort"] * self.ratio


def place_behind(parts):
    """Position before the first stage after the controller."""
    return 1 + max(i for i, part in enumerate(parts) if type(part).__name__.startswith("Controller"))


@pytest.mark.parametrize("kind", ["gear", "linkage"])
@pytest.mark.parametrize("name", CHAINS)
def test_every_oracle_behind_a_transmission(name, kind, rng):
    """Their laws have the motor's side, and what is the joint's stays the joint's."""
    chain, steps = Chain(name, rng, N), moving(N, rng, 12)
    parts, oracles = list(chain.actuator().stages), chain.oracle()
    at = place_behind(parts)
    parts[at:at] = transmissions(kind)
    oracles[at:at] = [TransmissionBefore(N, kind)]
    found = run(actuon.Actuator(range(N), stages=parts), steps)
    expected = [motor_oracle.step(oracles, signals, DT)["effort"] for signals in steps]
    np.testing.assert_allclose(found["joint_f"], expected, rtol=1e-3, atol=2e-2)
