# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework are used as they are."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import warp as wp
from chains import Values, random_signals, rollout

N = 70


class OnlyDLPack:
    """An array that other code can only see through DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    """An array that other code can only see through NumPy's array interface."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


@pytest.mark.parametrize("wrap", [wp.array, np.asarray, torch_tensor, OnlyDLPack, OnlyInterface])
@pytest.mark.parametrize("container", [dict, MappingProxyType, lambda d: SimpleNamespace(**d)])
def test_used_without_a_copy(wrap, container, rng):
    values = Values.random("pid-dc_max-late", N, rng)
    steps = [random_signals(N, rng) for _ in range(5)]
    expected = rollout(values.actuator(), steps)
    memory = {name: np.zeros(N, np.float32) for name in (*steps[0], "joint_f")}
    arrays = {name: wrap(array) for name, array in memory.items()}
    if wrap is wp.array:
        memory = {name: array.numpy() for name, array in arrays.items()}
    sim = container(arrays)
    actuator = values.actuator()
    state = actuator.state()
    for t, signals in enumerate(steps):
        for name, array in signals.items():
            memory[name][:] = array
        memory["joint_f"][:] = 0.0
        actuator.step(sim, sim, state, state, dt=0.01)
        np.testing.assert_array_equal(memory["joint_f"], expected[t])


def test_tensor_that_requires_grad_and_one_that_moves(rng):
    torch = pytest.importorskip("torch")
    values = Values.random("pd-max-now", N, rng)
    steps = [random_signals(N, rng) for _ in range(3)]
    expected = rollout(values.actuator(), steps)
    actuator = values.actuator()
    sim = {name: torch.zeros(N, requires_grad=True) for name in steps[0]} | {"joint_f": torch.zeros(N)}
    for t, signals in enumerate(steps):
        for name, array in signals.items():
            sim[name].data = torch.from_numpy(array)
        sim["joint_f"].zero_()
        actuator.step(sim, sim)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t])


def test_new_arrays_every_step_and_freed_states(rng):
    """Neither arrays nor states are remembered by an address that something else has taken over."""
    values = Values.random("pid-free-late", N, rng)
    steps = [random_signals(N, rng) for _ in range(40)]
    expected = rollout(values.actuator(), steps)
    actuator = values.actuator()
    state = actuator.state()
    for t, signals in enumerate(steps):
        sim = {name: array.copy() for name, array in signals.items()} | {"joint_f": np.zeros(N, np.float32)}
        following = actuator.state()
        actuator.step(sim, sim, state, following, dt=0.01)
        state = following
        np.testing.assert_array_equal(sim["joint_f"], expected[t])


def test_one_array_in_several_roles(rng):
    values = Values.random("pd-free-now", N, rng)
    shared = rng.standard_normal(N).astype(np.float32)
    sim = dict.fromkeys(("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act"), shared)
    sim["joint_f"] = np.zeros(N, np.float32)
    values.actuator().step(sim, sim)
    np.testing.assert_allclose(sim["joint_f"], shared, rtol=1e-6)
