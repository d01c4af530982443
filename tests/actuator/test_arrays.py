# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework are used as they are."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, Values, random_signals, rollout

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


def torch_simulation(n=N):
    torch = pytest.importorskip("torch")
    return {name: torch.full((n,), 0.5) for name in SIGNALS} | {"joint_f": torch.zeros(n)}


def test_a_tensor_that_moves(rng):
    torch = pytest.importorskip("torch")
    values = Values.random("pd-max-now", N, rng)
    steps = [random_signals(N, rng) for _ in range(3)]
    expected = rollout(values.actuator(), steps)
    actuator = values.actuator()
    sim = torch_simulation()
    for t, signals in enumerate(steps):
        for name, array in signals.items():
            sim[name].data = torch.from_numpy(array)
        sim["joint_f"].zero_()
        actuator.step(sim, sim)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t])


@pytest.mark.parametrize("name", ["joint_q", "joint_f"])
@pytest.mark.parametrize("same_memory", [False, True])
def test_a_tensor_that_shrinks_is_refused_and_may_grow_back(name, same_memory, rng):
    torch = pytest.importorskip("torch")
    actuator = Values.random("pd-max-now", N, rng).actuator()
    sim = torch_simulation()
    actuator.step(sim, sim)
    whole = sim[name].data
    sim[name].data = whole[: N - 1] if same_memory else torch.zeros(N - 1)
    with pytest.raises(actuon.ArrayError, match=f"{name}: has {N - 1} entries"):
        actuator.step(sim, sim)
    sim[name].data = whole
    actuator.step(sim, sim)


def test_a_tensor_that_changes_its_dtype_or_strides(rng):
    torch = pytest.importorskip("torch")
    actuator = Values.random("pd-max-now", N, rng).actuator()
    sim = torch_simulation()
    sim["joint_q"] += torch.arange(N) / N
    actuator.step(sim, sim)
    expected = sim["joint_f"].clone()
    for data in (torch.zeros(N, dtype=torch.float64), torch.zeros(2 * N)[::2]):
        sim["joint_f"].data = data
        actuator.step(sim, sim)
        assert torch.equal(sim["joint_f"].float(), expected)
    sim["joint_f"].data = torch.zeros(N, dtype=torch.int32)
    with pytest.raises(actuon.ArrayError, match="got dtype int32"):
        actuator.step(sim, sim)


def test_a_numpy_array_that_is_resized_is_refused(rng):
    actuator = Values.random("pd-max-now", N, rng).actuator()
    sim = {name: np.zeros(N, np.float32) for name in (*SIGNALS, "joint_f")}
    actuator.step(sim, sim)
    sim["joint_f"].resize(N // 2, refcheck=False)
    with pytest.raises(actuon.ArrayError, match=f"joint_f: has {N // 2} entries"):
        actuator.step(sim, sim)


@pytest.mark.parametrize("name", ["joint_q", "joint_target_q", "joint_act", "joint_f"])
def test_a_tensor_that_autograd_records_is_refused(name, rng):
    torch = pytest.importorskip("torch")
    actuator = Values.random("pd-max-now", N, rng).actuator()
    sim = torch_simulation()
    actuator.step(sim, sim)
    sim[name].requires_grad_()
    for _ in range(2):
        with pytest.raises(actuon.ArrayError, match=rf"{name}: .*tensor\.detach\(\)"):
            actuator.step(sim, sim)
        with torch.no_grad():
            actuator.step(sim, sim)
    with pytest.raises(actuon.ArrayError, match=r"ControllerPD\.kp: .*tensor\.detach\(\)"):
        actuator.controller.kp = torch.ones(N, requires_grad=True)
    actuator.controller.kp = torch.ones(N, requires_grad=True).detach()


@pytest.mark.parametrize("kind", ["numpy", "strided", "torch", "warp"])
@pytest.mark.parametrize("staged", [False, True])
def test_float64_arrays_are_taken_as_they_are(kind, staged, rng):
    torch = pytest.importorskip("torch")
    values = Values.random("pid-table_dc_max-late", N, rng)
    steps = [random_signals(N, rng) for _ in range(4)]
    expected = rollout(values.actuator(), steps)
    make = {
        "numpy": np.copy,
        "strided": lambda array: np.repeat(array, 2)[::2],
        "torch": lambda array: torch.from_numpy(array.copy()),
        "warp": lambda array: wp.array(array, dtype=wp.float64, device="cpu"),
    }[kind]
    actuator = values.actuator(staged=staged)
    state = actuator.state()
    sim = {name: make(np.zeros(N)) for name in steps[0]} | {"joint_f": make(np.zeros(N))}
    host = {name: array.numpy() if kind in ("torch", "warp") else array for name, array in sim.items()}
    for t, signals in enumerate(steps):
        for name, array in signals.items():
            host[name][:] = array
        host["joint_f"][:] = 0.25
        actuator.step(sim, sim, state, state, dt=0.01)
        np.testing.assert_array_equal(host["joint_f"], expected[t].astype(np.float64) + 0.25)


def test_float64_outputs_keep_their_other_entries(rng):
    for accumulate, expected in ((True, [7.0, 10.0, 7.0, 10.0]), (False, [7.0, 3.0, 7.0, 3.0])):
        actuator = actuon.Actuator([1, 3], actuon.ControllerPD(3.0, 0.0), accumulate=accumulate)
        sim = {name: np.zeros(4) for name in SIGNALS} | {"joint_target_q": np.ones(4), "joint_f": np.full(4, 7.0)}
        actuator.step(sim, sim)
        np.testing.assert_array_equal(sim["joint_f"], expected)
    both = actuon.Actuator([1, 3], actuon.ControllerPD(3.0, 0.0), effort_indices=[2, 2])
    both.step(sim, sim)
    np.testing.assert_array_equal(sim["joint_f"], [7.0, 3.0, 13.0, 3.0])


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


def test_a_tensor_may_be_the_first_thing_that_warp_sees():
    pytest.importorskip("torch")
    code = "import torch, actuon; print(actuon.ControllerPD(kp=torch.tensor([7.0]), kd=0.0).kp.numpy())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[7.]" in done.stdout


@pytest.mark.parametrize("fused", [True, False])
def test_efforts_that_share_a_float64_entry_add_up_in_double(fused):
    """The second is below the precision of the first in float32."""
    actuator = actuon.Actuator(
        [0, 1], actuon.ControllerPD(0.0, 0.0, const_effort=[1e8, 1.0]), effort_indices=[0, 0], fused=fused
    )
    sim = {name: np.zeros(2) for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")}
    actuator.step(sim, sim)
    assert sim["joint_f"].tolist() == [100_000_001.0, 0.0]
