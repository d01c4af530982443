# SPDX-License-Identifier: Apache-2.0
"""Components of a user's own, in both ways in."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, Values, random_signals, rollout, simulation
from tests.support.launches import record_launches

N = 70


@dataclass(frozen=True)
class CubicConfig(actuon.Config):
    stiffness: float = actuon.param("N·m/rad³", "Of the cubic spring.", minimum=0.0)
    blend: float = actuon.param("1", "Share of the new value.", default=0.5, minimum=0.0)


@wp.func
def cubic(q: float, target_q: float, dt: float, slow: float, fast: float, stiffness: float, blend: float):
    error = target_q - q
    new_slow = slow + blend * (error - slow)
    new_fast = fast + dt * error
    if error > 1.0:
        new_fast = fast
    return stiffness * new_slow * new_slow * new_slow + new_fast, new_slow, new_fast


class ControllerCubic(actuon.Controller):
    config = CubicConfig
    law = cubic
    STATES = ("slow", "fast")


def cubic_oracle(steps, stiffness, blend, dt):
    slow = fast = np.zeros(N)
    for signals in steps:
        error = signals["joint_target_q"].astype(float) - signals["joint_q"]
        slow = slow + blend * (error - slow)
        fast = np.where(error > 1.0, fast, fast + dt * error)
        yield stiffness * slow**3 + fast


@pytest.mark.parametrize("staged", [False, True])
def test_a_stateful_law_with_a_branch(staged, rng):
    steps = [random_signals(N, rng) for _ in range(6)]
    actuator = actuon.Actuator(range(N), ControllerCubic(3.0), fused=not staged)
    assert actuator.is_fused() is not staged
    assert actuator.is_stateful()
    expected = list(cubic_oracle(steps, 3.0, 0.5, 0.01))
    np.testing.assert_allclose(rollout(actuator, steps), expected, rtol=1e-4, atol=1e-4)


@wp.kernel
def _own_pd(
    q: wp.array(dtype=float),
    target: wp.array(dtype=float),
    indices: wp.array(dtype=wp.uint32),
    target_indices: wp.array(dtype=wp.uint32),
    gain: float,
    calls: wp.array(dtype=float),
    forces: wp.array(dtype=float),
):
    i = wp.tid()
    forces[i] = gain * (target[int(target_indices[i])] - q[int(indices[i])]) + calls[i]


@wp.kernel
def _count(source: wp.array(dtype=float), target: wp.array(dtype=float)):
    i = wp.tid()
    target[i] = source[i] + 1.0


class ControllerOwnKernel(actuon.Controller):
    """Counts its steps per DOF and adds the count to the effort."""

    @dataclass
    class State(actuon.Controller.State):
        calls: wp.array

    def __init__(self, gain):
        self.gain = gain

    @classmethod
    def resolve_arguments(cls, args):
        return {"gain": float(args["gain"])}

    def is_stateful(self):
        return True

    def is_graphable(self):
        return False

    def state(self, num_actuators, device):
        return self.State(wp.zeros(num_actuators, dtype=wp.float32, device=device))

    def compute(self, positions, velocities, target_pos, target_vel, feedforward, pos_indices, vel_indices,
                target_pos_indices, target_vel_indices, forces, state, dt, device=None):  # fmt: skip
        inputs = [positions, target_pos, pos_indices, target_pos_indices, self.gain, state.calls]
        wp.launch(_own_pd, len(forces), inputs, [forces], device=device)

    def update_state(self, current_state, next_state):
        wp.launch(_count, len(current_state.calls), [current_state.calls], [next_state.calls])


def test_a_controller_with_its_own_kernels(rng):
    steps = [random_signals(N, rng) for _ in range(8)]
    masks = {5: rng.random(N) < 0.5}
    lags = rng.integers(0, 4, N).astype(np.int32)
    actuator = actuon.Actuator(
        range(N), ControllerOwnKernel(10.0), delay=actuon.Delay(lags, 3), clamping=[actuon.ClampingMaxEffort(12.0)]
    )
    assert not actuator.is_fused()
    assert not actuator.is_graphable()
    assert actuator.is_stateful()
    ideal = Values("", N, "ControllerPD", {"kp": 10.0, "kd": 0.0}, [], lags, 3).oracle()
    efforts = rollout(actuator, steps, masks=masks)
    calls = np.zeros(N)
    for t, signals in enumerate(steps):
        if t in masks:
            ideal.reset(masks[t])
            calls[masks[t]] = 0.0
        q, qd, target_q, target_qd, _ = (signals[name] for name in SIGNALS)
        raw = ideal.step(q, qd, target_q, target_qd, np.zeros(N), 0.01)[1] + calls
        np.testing.assert_allclose(efforts[t], np.clip(raw, -12, 12), rtol=1e-4, atol=1e-4)
        calls += 1


def test_a_component_with_its_own_kernels_serves_actuators_of_any_size(rng):
    own = ControllerOwnKernel(10.0)
    for n in (3, 4):
        signals = random_signals(n, rng)
        efforts = rollout(actuon.Actuator(range(n), own), [signals])
        expected = 10.0 * (signals["joint_target_q"] - signals["joint_q"])
        np.testing.assert_allclose(efforts[0], expected, rtol=1e-5, atol=1e-5)


def test_states_of_a_user_class_can_be_assigned(rng):
    actuator = actuon.Actuator(range(N), ControllerOwnKernel(1.0))
    first, second = actuator.state(), actuator.state()
    first.controller_state.calls.fill_(4.0)
    second.assign(first)
    assert (second.controller_state.calls.numpy() == 4.0).all()


class StagedByOverride(actuon.ControllerPD):
    """A built-in law with a compute() on top: the method wins, and may still call what it extends."""

    def compute(self, *arguments):
        super().compute(*arguments)
        forces = arguments[9]
        forces.assign(forces.numpy() * 2.0)


def test_overriding_the_method_of_a_fused_class(rng):
    steps = [random_signals(N, rng)]
    doubled = actuon.Actuator(range(N), StagedByOverride(10.0, 1.0))
    assert not doubled.is_fused()
    plain = rollout(actuon.Actuator(range(N), actuon.ControllerPD(10.0, 1.0)), steps)
    np.testing.assert_allclose(rollout(doubled, steps), 2 * plain, rtol=1e-6)


@wp.func
def no_parameters(effort: float, qd: float):
    return effort - 0.1 * qd


class ClampingViscous(actuon.Clamping):
    law = no_parameters


def test_a_law_without_parameters(rng):
    signals = random_signals(N, rng)
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(0.0, 0.0), clamping=[ClampingViscous()])
    sim = simulation(signals)
    actuator.step(sim, sim)
    np.testing.assert_allclose(
        sim.joint_f.numpy(), signals["joint_act"] - 0.1 * signals["joint_qd"], rtol=1e-5, atol=1e-5
    )
    assert actuator.is_fused()
    assert frozenset() == ClampingViscous.SHARED_PARAMS


def test_one_kernel_per_structure_not_per_value(rng, monkeypatch):
    from actuon.kernel.build import kernel_for

    before = kernel_for.cache_info().misses
    launches = record_launches(monkeypatch)
    for n, kp in ((3, 1.0), (200, 2.0), (64, 3.0)):
        actuator = actuon.Actuator(range(n), actuon.ControllerPD(kp, 0.1), clamping=[actuon.ClampingMaxEffort(kp)])
        sim = simulation(random_signals(n, rng))
        actuator.step(sim, sim)
    assert len(launches) == 3
    assert len({kernel for kernel, _ in launches}) == 1
    assert kernel_for.cache_info().misses - before <= 1


@wp.func
def first_only(q: float, x: float, y: float):
    return x


@wp.func
def nothing(q: float, x: float, y: float):
    pass


@wp.func
def sometimes_both(q: float, x: float, y: float):
    if q > 0.0:
        return x, y, q
    return x


@pytest.mark.parametrize(
    ("names", "states", "law", "message"),
    [
        (("x_in",), ("x",), first_only, "'x_in' and 'x' would both be 'x_in'"),
        (("x_new",), ("x",), first_only, "'x_new' and 'x' would both be 'x_new'"),
        (("x", "x_"), (), first_only, "'x' and 'x_' would both be 'x_'"),
        (("y",), ("x",), first_only, "returns 1 values; must return 2: effort, new x"),
        (("x", "y"), (), sometimes_both, "returns 3 values; must return 1: effort"),
        (("x", "y"), (), nothing, "returns 0 values; must return 1"),
    ],
)
def test_laws_that_cannot_be_written_are_refused_when_the_class_is_made(names, states, law, message):
    fields = [(name, float, actuon.param("1", "Any number.")) for name in names]
    config = make_dataclass("AnyConfig", fields, bases=(actuon.Config,), frozen=True)
    with pytest.raises(actuon.StructureError, match=message):
        type("ControllerAny", (actuon.Controller,), {"config": config, "law": law, "STATES": states})


class SoftLimit(actuon.Parameters):
    max_effort: actuon.Number = actuon.param("N·m", "Effort approached, never passed.", above=0.0)


@wp.func
def soft_limit(effort: float, max_effort: float):
    return max_effort * wp.tanh(effort / max_effort)


class ClampingSoftLimit(SoftLimit, actuon.Clamping):
    """A limit without a corner."""

    law = soft_limit


class SoftLimitConfig(SoftLimit, actuon.Config):
    """A limit without a corner, for all DOFs."""


def test_ten_lines_make_a_stage(rng):
    """Without a config: parameters are live, checked, in the signature and in help."""
    steps = [random_signals(N, rng)]
    limits = rng.uniform(1.0, 9.0, N).astype(np.float32)
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(10.0, 1.0), clamping=[ClampingSoftLimit(limits)])
    assert actuator.is_fused()
    plain = rollout(actuon.Actuator(range(N), actuon.ControllerPD(10.0, 1.0)), steps)
    np.testing.assert_allclose(rollout(actuator, steps), limits * np.tanh(plain / limits), rtol=1e-4, atol=1e-5)
    actuator.clamping[0].max_effort = 2.0
    np.testing.assert_allclose(rollout(actuator, steps), 2.0 * np.tanh(plain / 2.0), rtol=1e-4, atol=1e-5)
    with pytest.raises(actuon.ParameterError, match=r"ClampingSoftLimit\.max_effort: got -1\.0; must be"):
        ClampingSoftLimit(-1.0)
    with pytest.raises(actuon.StructureError, match="ClampingSoftLimit: .*'most'; parameters: max_effort"):
        ClampingSoftLimit(1.0, most=2.0)
    assert str(inspect.signature(ClampingSoftLimit)) == "(max_effort: 'ArrayLike')"
    assert "max_effort: Effort approached, never passed [N·m], shape (N,)." in inspect.getdoc(ClampingSoftLimit)
    assert "approached, never passed. [N·m]" in inspect.getdoc(ClampingSoftLimit.max_effort)
    assert ClampingSoftLimit.config is None
    assert ClampingSoftLimit.resolve_arguments({"max_effort": 3}) == {"max_effort": 3.0}


def test_a_config_is_a_frozen_dataclass_without_being_decorated():
    config = SoftLimitConfig(3)
    assert config == SoftLimitConfig(max_effort=3.0) == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(SoftLimitConfig(3.0))
    assert repr(config) == "SoftLimitConfig(max_effort=3.0)"
    assert dataclasses.asdict(config) == {"max_effort": 3.0}
    assert dataclasses.replace(config, max_effort=4.0).max_effort == 4.0
    assert [(field.name, field.type) for field in dataclasses.fields(config)] == [("max_effort", float)]
    assert str(inspect.signature(SoftLimitConfig)) == "(max_effort: float) -> None"
    for change in (lambda: setattr(config, "max_effort", 1.0), lambda: delattr(config, "max_effort")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'max_effort'"):
            change()
    assert dataclasses.dataclass(frozen=True)(SoftLimitConfig) is SoftLimitConfig
    with pytest.raises(TypeError, match="max_effort"):
        SoftLimitConfig()


class Offset(actuon.Parameters):
    offset: actuon.Number = actuon.param("N·m", "Added to the limit.", default=0.0)


@wp.func
def offset_limit(effort: float, max_effort: float, offset: float):
    return (max_effort + offset) * wp.tanh(effort / (max_effort + offset))


def test_a_class_may_add_parameters_to_one_that_has_a_config():
    """It has then no config, which would not know them."""

    class ClampingOffset(Offset, actuon.ClampingMaxEffort):
        law = offset_limit

    assert list(ClampingOffset.declared()) == ["max_effort", "offset"]
    assert ClampingOffset.config is None
    assert actuon.ClampingMaxEffort.config is actuon.MaxEffortClampingConfig
    clamp = ClampingOffset(4.0, offset=[1.0, 2.0])
    np.testing.assert_array_equal(
        actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 0.0), clamping=[clamp]).clamping[0].offset.numpy(), [1.0, 2.0]
    )
