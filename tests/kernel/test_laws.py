# SPDX-License-Identifier: Apache-2.0
"""A stage of several laws: what one returns for the next stays in the stage, on every path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.kernel.chain import Law

N = 70
DT = 0.005
KP = 30.0


@dataclass(frozen=True)
class PowerConfig(actuon.Config):
    power: float = actuon.param("W", "Power of the motor.", above=0.0)


@wp.func
def reserve_law(effort: float, qd: float, power: float):
    return power / wp.max(wp.abs(qd), 1.0) + 0.1 * wp.min(wp.abs(effort), 5.0)


@wp.func
def clip_law(effort: float, reserve: float, clipped: float):
    left = wp.min(wp.max(effort, -reserve), reserve)
    return left, clipped + wp.where(left == effort, 0.0, 1.0)


@wp.func
def spare_law(effort: float, reserve: float):
    return reserve - wp.abs(effort)


class ClampingPower(actuon.Clamping):
    """Its second law takes what the first returns, and its third what the second does."""

    config = PowerConfig
    STATES = ("clipped",)
    OUTPUTS = ("spare",)

    def laws(self):
        return Law(reserve_law, ("reserve",)), Law(clip_law, states=("clipped",)), Law(spare_law, ("spare",))


@wp.func
def earlier_law(effort: float, q: float):
    return effort, 2.0 * q


class EffectEarlier(actuon.Effect):
    """Gives the other stages a signal that is called as a local one of `ClampingPower`."""

    law = earlier_law
    OUTPUTS = ("reserve",)


@wp.func
def later_law(effort: float, reserve: float):
    return effort + reserve


class EffectLater(actuon.Effect):
    law = later_law


def stages():
    return [actuon.ControllerPD(KP, 0.0), EffectEarlier(), ClampingPower(6.0), EffectLater()]


def arrays(rng, strided=False, **more):
    names = {"joint_q": 0.3, "joint_qd": 3.0, "joint_target_q": 0.3, "joint_target_qd": 1.0, "joint_act": 1.0}
    values = {name: rng.normal(0.0, scale, N).astype(np.float32) for name, scale in names.items()}
    values |= {name: np.full(N, np.nan, np.float32) for name in ("joint_f", *more)}
    if strided:
        return {name: np.repeat(value, 2)[::2] for name, value in values.items()}
    return values


def reference(sim):
    """Efforts, what is spare and what was clipped, in float64."""
    q, qd, target = (sim[name].astype(np.float64) for name in ("joint_q", "joint_qd", "joint_target_q"))
    effort = KP * (target - q) + sim["joint_act"]
    reserve = 6.0 / np.maximum(np.abs(qd), 1.0) + 0.1 * np.minimum(np.abs(effort), 5.0)
    left = np.clip(effort, -reserve, reserve)
    return left + 2.0 * q, reserve - np.abs(left), left != effort


@pytest.mark.parametrize("path", ["blocks", "strided", "staged", "grad"])
def test_as_the_reference_on_every_path(path, rng):
    offered = {"spare": "spare", "limited_by": "by"}
    actuator = actuon.Actuator(
        range(N), stages=stages(), accumulate=False, control_signal_attrs=offered,
        fused=path != "staged", requires_grad=path == "grad",
    )  # fmt: skip
    assert actuator.signals == ("reserve", "spare")
    state, count = actuator.state(), np.zeros(N)
    for _ in range(3):
        sim = arrays(rng, path == "strided", spare=0, by=0)
        expected, spare, clipped = reference(sim)
        after = actuator.state() if path == "grad" else state
        actuator.step(sim, sim, state, after, DT)
        state, count = after, count + clipped
        np.testing.assert_allclose(sim["joint_f"], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(sim["spare"], spare, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(sim["by"], np.where(clipped, 2.0, -1.0))
        np.testing.assert_array_equal(state.stages[2].clipped.numpy(), count)


def test_derivatives_and_bounds_pass_through_local_signals(rng):
    names = ("effort_derivative_q", "effort_derivative_qd", "effort_min", "effort_max")
    actuator = actuon.Actuator(
        range(N), stages=stages()[:-1], accumulate=False, control_signal_attrs={name: name for name in names}
    )
    sim = arrays(rng, **dict.fromkeys(names))
    actuator.step(sim, sim, actuator.state(), actuator.state(), DT)
    speed = np.abs(sim["joint_qd"])
    most = 6.0 / np.maximum(speed, 1.0) + 0.5
    np.testing.assert_allclose(sim["effort_max"], most, rtol=1e-6)
    np.testing.assert_allclose(sim["effort_min"], -most, rtol=1e-6)
    wanted = KP * (sim["joint_target_q"] - sim["joint_q"]) + sim["joint_act"]
    clipped = np.abs(sim["joint_f"]) < np.abs(wanted) * (1.0 - 1e-6)
    by_q = np.where(clipped, np.where(np.abs(wanted) < 5.0, -0.1 * KP, 0.0), -KP)
    by_qd = np.where(
        clipped & (speed > 1.0), -np.sign(wanted * sim["joint_qd"]) * 6.0 / np.maximum(speed, 1.0) ** 2, 0.0
    )
    assert 0 < clipped.sum() < N
    np.testing.assert_allclose(sim["effort_derivative_q"], by_q, rtol=1e-5)
    np.testing.assert_allclose(sim["effort_derivative_qd"], by_qd, rtol=1e-5, atol=1e-6)


def test_gradients_through_two_steps(rng):
    actuator = actuon.Actuator(range(N), stages=stages()[:-1], accumulate=False, requires_grad=True)
    steps = [{k: wp.array(v, requires_grad=True) for k, v in arrays(rng).items()} for _ in range(2)]
    states = [actuator.state() for _ in range(3)]
    tape = wp.Tape()
    with tape:
        for i, sim in enumerate(steps):
            sim["joint_f"].zero_()
            actuator.step(sim, sim, states[i], states[i + 1], DT)
    tape.backward(grads={sim["joint_f"]: wp.ones(N) for sim in steps})
    for sim in steps:
        wanted = KP * (sim["joint_target_q"].numpy() - sim["joint_q"].numpy()) + sim["joint_act"].numpy()
        clipped = np.abs(sim["joint_f"].numpy()) < np.abs(wanted) * (1.0 - 1e-6)
        by_act = np.where(clipped, np.where(np.abs(wanted) < 5.0, 0.1, 0.0), 1.0)
        np.testing.assert_allclose(sim["joint_act"].grad.numpy(), by_act, rtol=1e-5, atol=1e-6)


def test_bounds_go_through_a_transmission_after_a_limit(rng):
    offered = {"effort_min": "lowest", "effort_max": "highest"}
    chain = [actuon.ControllerPD(KP, 0.0), actuon.ClampingMaxEffort(2.0), actuon.TransmissionGear(4.0)]
    actuator = actuon.Actuator(range(N), stages=chain, control_signal_attrs=offered)
    sim = arrays(rng, lowest=0, highest=0)
    actuator.step(sim, sim)
    np.testing.assert_array_equal(sim["lowest"], -2.0)
    np.testing.assert_array_equal(sim["highest"], 2.0)


@wp.func
def load_law(effort: float):
    return effort, 3.0 * effort


class EffectLoad(actuon.Effect):
    """Gives a signal that is called as a function of kernels."""

    law = load_law
    OUTPUTS = ("load",)


def test_a_signal_may_be_called_as_a_function_of_kernels(rng):
    chain = [actuon.ControllerPD(KP, 0.0), EffectLoad(), actuon.ClampingMaxEffort(2.0)]
    actuator = actuon.Actuator(range(N), stages=chain, accumulate=False, control_signal_attrs={"load": "load"})
    sim = arrays(rng, strided=True, load=0)
    actuator.step(sim, sim)
    wanted = KP * (sim["joint_target_q"] - sim["joint_q"]) + sim["joint_act"]
    np.testing.assert_allclose(sim["load"], 3.0 * wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sim["joint_f"], np.clip(wanted, -2.0, 2.0), rtol=1e-5, atol=1e-5)


@wp.func
def two_values(effort: float):
    return effort, effort


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ((Law(clip_law, states=("clipped",)), Law(reserve_law, ("reserve",))), "needs 'reserve'"),
        ((Law(reserve_law, ("power",)), Law(spare_law)), "'power' is declared twice, or is the name"),
        ((Law(reserve_law, ("q",)), Law(two_values)), "'q' is declared twice, or is the name of a built-in signal"),
        ((Law(reserve_law, ("reserve",)), Law(two_values)), "returns 2 values; must return 1: effort"),
        ((Law(reserve_law, ("reserve",)), Law(reserve_law)), "the functions must have different names"),
    ],
)
def test_laws_that_cannot_be_written_are_refused(laws, message):
    kind = type("ClampingWrong", (ClampingPower,), {"laws": lambda self: laws})
    with pytest.raises(actuon.StructureError, match=message):
        actuon.Actuator(range(3), stages=[actuon.ControllerPD(1.0, 0.0), kind(1.0)])


def test_a_law_that_is_no_function_of_warp_is_refused():
    with pytest.raises(actuon.StructureError, match="must be a function decorated with @wp.func"):
        Law(len)


@wp.func
def offset(effort: float, power: float):
    return effort + power


@wp.func
def other(effort: float, offset: float):
    return effort + offset


class Offsets(actuon.Parameters):
    power: actuon.Number = actuon.param("N·m", "Added to the effort.")
    offset: actuon.Number = actuon.param("N·m", "Added to the effort.")


class EffectOffsets(Offsets, actuon.Effect):
    """With a parameter that is called as one of its laws."""

    def laws(self):
        return Law(offset), Law(other)


@pytest.mark.parametrize("fused", [True, False])
def test_a_parameter_may_be_called_as_a_law(fused):
    effects = [EffectOffsets(1.0, 2.0)]
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), effects=effects, fused=fused)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
    sim = {name: np.zeros(1, np.float32) for name in names}
    actuator.step(sim, sim)
    assert sim["joint_f"].tolist() == [3.0]
