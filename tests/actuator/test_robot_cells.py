# SPDX-License-Identifier: Apache-2.0
"""Robots as cells: one block of memory each, and one robot stepped by compiled code."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import warp as wp

import actuon
from scripts import state_files
from tests.support.chains import SIGNALS, random_signals, simulation

DT = 0.002
STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def plain(n, rng):
    gains = [rng.uniform(low, high, n).astype(np.float32) for low, high in ((10, 100), (0, 2))]
    limits = [actuon.ClampingDCMotor(40.0, 12.0, 30.0), actuon.ClampingMaxEffort(rng.uniform(10, 25, n))]
    return [actuon.Delay(rng.integers(0, 4, n), 4), actuon.ControllerPD(*gains), *limits]


def rich(n, rng):
    stages = [actuon.SensorDelay(0.003, jitter=0.004, stream=np.arange(n), shortest_dt=DT), actuon.SensorEncoder(0.01)]
    stages += [actuon.DelayTime(0.004, spread=0.004, dropout=0.1, stream=np.arange(n), shortest_dt=DT)]
    stages += [actuon.ControllerPID(30.0, 50.0, 0.8, 0.05), actuon.TransmissionGear(6.0, 0.9)]
    return [*stages, actuon.ClampingHeat(1.0, 2.0, 1.0, 10.0, 0.5, max_effort=4.0), actuon.EffectCurrentLoop(0.01)]


CHAINS = {"plain": (plain, {}), "rich": (rich, {}), "held": (rich, {"control_every": 3})}


def build(name, robots, dofs, **options):
    make, more = CHAINS[name]
    n, rng = robots * dofs, np.random.default_rng(5)
    return actuon.Actuator(range(n), stages=make(n, rng), **{"accumulate": False} | more | options)


def step_robots(call, order):
    """Step robots by themselves, in this order, as an engine does."""
    step = STEP(call.function)
    for robot in order:
        arguments = (ctypes.c_char * call.size).from_buffer_copy(
            (ctypes.c_char * call.size).from_address(call.arguments)
        )
        ctypes.c_int32.from_buffer(arguments, call.first).value = robot
        step(call.bounds, ctypes.addressof(arguments))


@pytest.mark.parametrize(("robots", "dofs"), [(1, 12), (5, 12), (3, 1), (4, 16), (2, 33), (3, 70), (2, 256)])
@pytest.mark.parametrize("name", ["plain", "rich", "held"])
def test_robots_that_are_stepped_alone_give_the_bits_of_all_together(name, robots, dofs, rng):
    together, alone = build(name, robots, dofs), build(name, robots, dofs, robot_dofs=dofs)
    in_blocks = build(name, robots, dofs, robot_dofs=dofs)
    states = [actuator.state() for actuator in (together, alone, in_blocks)]
    sims = [simulation(random_signals(robots * dofs, rng)) for _ in range(3)]
    call = alone.c_call(sims[1], sims[1], states[1], DT)
    for t in range(8):
        signals = random_signals(robots * dofs, rng)
        for sim in sims:
            for signal in SIGNALS:
                getattr(sim, signal).assign(signals[signal])
            sim.joint_f.fill_(np.nan)
        together.step(sims[0], sims[0], states[0], states[0], dt=DT)
        step_robots(call, rng.permutation(robots))
        in_blocks.step(sims[2], sims[2], states[2], states[2], dt=DT)
        expected = sims[0].joint_f.numpy()
        assert np.isfinite(expected).all()
        for sim in sims[1:]:
            np.testing.assert_array_equal(sim.joint_f.numpy(), expected)
        if t == 4:
            mask = np.repeat(rng.random(robots) < 0.5, dofs)
            for state in states:
                state.reset(mask)
    for key, values in states[0].to_arrays().items():
        for state in states[1:]:
            np.testing.assert_array_equal(state.to_arrays()[key], values, err_msg=key)


def test_what_a_robot_remembers_is_one_block(rng):
    actuator = build("rich", 3, 12, robot_dofs=12)
    state = actuator.state()
    sim = simulation(random_signals(36, rng))
    for _ in range(5):
        actuator.step(sim, sim, state, state, dt=DT)
    assert state.controller_state.integral.shape == (3, 12)
    before = state.to_arrays()
    for buffer in state.memory.buffers.values():  # the second robot gets the memory of the first, but for its tags
        rows = buffer.numpy().reshape(3, -1)
        rows[1] = rows[0]
    after = state.to_arrays()
    for key in set(after) - {"__structure__"}:
        by_robot, was = (values[key].reshape(*values[key].shape[:-1], 3, 12) for values in (after, before))
        np.testing.assert_array_equal(by_robot[..., 1, :], was[..., 0, :], err_msg=key)
        np.testing.assert_array_equal(by_robot[..., 2, :], was[..., 2, :], err_msg=key)


def test_a_recurrent_network_in_cells(rng):
    path = state_files.NETWORKS / "lstm.safetensors"
    made = [
        actuon.Actuator(range(24), actuon.ControllerNeuralLSTM(path), accumulate=False, robot_dofs=dofs)
        for dofs in (None, 12)
    ]
    states = [actuator.state() for actuator in made]
    layers, _, units = states[0].controller_state.hidden.shape
    assert states[1].controller_state.hidden.shape == (layers, 2, 12, units)
    for _ in range(4):
        signals = random_signals(24, rng)
        efforts = []
        for actuator, state in zip(made, states, strict=True):
            sim = simulation(signals)
            actuator.step(sim, sim, state, state, dt=DT)
            efforts.append(sim.joint_f.numpy())
        np.testing.assert_array_equal(*efforts)


def test_gradients_do_not_depend_on_cells(rng):
    found = []
    for dofs in (None, 3):
        actuator = build("plain", 4, 3, robot_dofs=dofs, requires_grad=True)
        states = [actuator.state() for _ in range(3)]
        local = np.random.default_rng(1)
        sims = [simulation(random_signals(12, local), requires_grad=True) for _ in range(2)]
        with wp.Tape() as tape:
            for t, sim in enumerate(sims):
                actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
        for sim in sims:
            sim.joint_f.grad.fill_(1.0)
        tape.backward()
        found.append([sim.joint_target_q.grad.numpy() for sim in sims])
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0]).max() > 0.0


@pytest.mark.parametrize("bad", [0, -1, 5, 2.0, True, "12"])
def test_robots_that_do_not_divide_the_dofs_are_refused(bad):
    with pytest.raises(actuon.ParameterError, match="robot_dofs: got .*; must be a whole number ≥ 1 that divides 12"):
        actuon.Actuator(range(12), actuon.ControllerPD(1.0, 1.0), robot_dofs=bad)


def test_a_call_needs_robots():
    actuator = actuon.Actuator(range(12), actuon.ControllerPD(1.0, 1.0))
    sim = simulation(random_signals(12, np.random.default_rng(0)))
    with pytest.raises(actuon.StructureError, match="c_call: requires robot_dofs; build the actuator with"):
        actuator.c_call(sim, sim)
    staged = actuon.Actuator(range(12), actuon.ControllerPD(1.0, 1.0), robot_dofs=12, fused=False)
    assert staged.c_call(sim, sim) is None


def pid(robot_dofs=2, **options):
    """Two robots of two DOFs."""
    controller = actuon.ControllerPID(10.0, 5.0, 1.0, 1.0)
    return actuon.Actuator(range(4), controller, accumulate=False, robot_dofs=robot_dofs, **options)


def test_a_call_needs_the_time_step_as_a_step_does():
    actuator, sim = pid(), simulation(random_signals(4, np.random.default_rng(0)))
    with pytest.raises(actuon.StateError, match="depends on the time step: step\\(\\) needs dt"):
        actuator.c_call(sim, sim, actuator.state())


def test_a_call_keeps_its_arrays(rng):
    """Steps from the same state with other arrays, and other calls, have others."""
    actuator = pid()
    state, expected = actuator.state(), actuator.state()
    sims = [simulation(random_signals(4, rng)) for _ in range(2)]
    calls = [actuator.c_call(sim, sim, state, DT) for sim in sims]
    doubles = {name: np.asarray(getattr(sims[0], name).numpy(), np.float64) for name in (*SIGNALS, "joint_f")}
    for other in (sims[1], doubles):
        actuator.step(other, other, state, state, dt=DT)
    for call, sim in zip(calls, sims, strict=True):
        expected.assign(state)
        alone = simulation({name: getattr(sim, name).numpy() for name in SIGNALS})
        actuator.step(alone, alone, expected, expected, dt=DT)
        for each in sims:
            each.joint_f.fill_(np.nan)
        step_robots(call, range(2))
        np.testing.assert_array_equal(sim.joint_f.numpy(), alone.joint_f.numpy())


def test_arrays_of_states_tell_robots_apart_where_there_is_one():
    assert pid(4).state().controller_state.integral.shape == (1, 4)
    assert pid(None).state().controller_state.integral.shape == (4,)


def test_robots_may_be_at_different_steps_of_their_controllers(rng, tmp_path):
    actuator = pid(control_every=3)
    state, sim = actuator.state(), simulation(random_signals(4, rng))
    step_robots(actuator.c_call(sim, sim, state, DT), [0, 1, 1])
    state.save(tmp_path / "state.npz")
    copied = actuator.state()
    copied.from_arrays(state.to_arrays())
    for other in (copied, actuator.load_state(tmp_path / "state.npz")):
        assert other.memory.buffers["ints"].numpy().tolist() == state.memory.buffers["ints"].numpy().tolist()
        assert other.to_arrays()["clock"].tolist() == [1, 1, 2, 2]
    with pytest.raises(actuon.StateError, match="'clock' differs between DOFs that share one here; build the actuator"):
        pid(None, control_every=3).load_state(tmp_path / "state.npz")
    with pytest.raises(actuon.StateError, match="'clock' is 3; must be from 0 to 2"):
        copied.from_arrays(state.to_arrays() | {"clock": np.array([1, 1, 3, 3])})


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("mask", [None, np.repeat([True, False, True], 12)])
def test_states_are_assigned_between_cells_of_any_size(mask, every, rng):
    made = [build("rich", 3, 12, robot_dofs=dofs, control_every=every) for dofs in (None, 12, 4)]
    states = [actuator.state() for actuator in made]
    for actuator, state in zip(made, states, strict=True):
        for _ in range(5):
            sim = simulation(random_signals(36, rng))
            actuator.step(sim, sim, state, state, dt=DT)
    for source in states:
        for actuator in made:
            target = actuator.state()
            fresh, given = target.to_arrays(), source.to_arrays()
            target.assign(source, mask)
            found = target.to_arrays()
            for key in set(found) - {"__structure__", "clock"}:
                expected = given[key] if mask is None else np.where(mask, given[key], fresh[key])
                np.testing.assert_array_equal(found[key], expected, err_msg=key)
            assert every == 1 or found["clock"] == (given if mask is None else fresh)["clock"]


def test_motors_of_robots_on_shared_batteries(rng):
    signals = [random_signals(4, rng) for _ in range(4)]
    found = []
    for dofs in (None, 2, 4):
        limits = [actuon.ClampingBattery(24.0, 0.2, 10.0, 20.0), actuon.ClampingVoltage(0.5, 0.4, 24.0, 20.0)]
        actuator = actuon.Actuator(range(4), actuon.ControllerPD(100.0, 1.0), clamping=limits, robot_dofs=dofs)
        battery, state = actuon.SharedBattery([actuator], [[0, 0, 1, 1]]), actuator.state()
        for each in signals:
            sim = simulation(each)
            actuator.step(sim, sim, state, state, dt=DT)
            battery.share(state)
        found.append(state.to_arrays())
    assert np.abs(found[0]["1.other_load"]).min() > 0.0
    for other in found[1:]:
        for key, values in found[0].items():
            np.testing.assert_array_equal(other[key], values, err_msg=key)


class Constant(actuon.Controller):
    """Counts its runs, and gives their number."""

    runs = 0

    def compute(self, *args, **kwargs):
        self.runs += 1
        args[9].fill_(self.runs)


def test_a_controller_with_kernels_of_its_own_is_held_in_cells():
    actuator = actuon.Actuator(range(4), Constant(), control_every=2, accumulate=False, robot_dofs=2)
    states = [actuator.state(), actuator.state()]
    sim = simulation(random_signals(4, np.random.default_rng(0)))
    for t in range(4):
        sim.joint_f.fill_(np.nan)
        actuator.step(sim, sim, states[t % 2], states[1 - t % 2])
        assert sim.joint_f.numpy().tolist() == [1.0 + t // 2] * 4


def test_a_delay_alone_takes_the_state_of_robots():
    actuator = actuon.Actuator(range(4), actuon.ControllerPD(1.0, 0.0), actuon.Delay(1, 2), robot_dofs=2)
    state, indices = actuator.state(), wp.array(range(4), dtype=wp.uint32)
    commands = [wp.array(np.arange(4, dtype=np.float32) + t) for t in range(2)]
    actuator.delay.update_state(commands[0], commands[0], None, indices, indices, state.delay_state, state.delay_state)
    late, _, _ = actuator.delay.get_delayed_targets(commands[1], commands[1], None, indices, indices, state.delay_state)
    assert late.numpy().tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("dofs", [None, 3])
def test_no_robots(dofs, tmp_path):
    actuator = actuon.Actuator(
        [], actuon.ControllerPID(1.0, 1.0, 1.0, 1.0), actuon.Delay(1, 2), control_every=2, robot_dofs=dofs
    )
    state = actuator.state()
    state.reset(np.zeros(0, bool))
    state.save(tmp_path / "state.npz")
    loaded = actuator.load_state(tmp_path / "state.npz")
    state.assign(loaded)
    state.assign(loaded, np.zeros(0, bool))
    assert state.clock == 0
    assert state.delay_state.past(0).shape == (2, 0)


@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_a_network_that_pytorch_runs_in_cells(kind, tmp_path, rng):
    torch = pytest.importorskip("torch")

    class Skipping(torch.nn.Module):
        """With a skip connection, which is not recognised."""

        def __init__(self):
            super().__init__()
            self.memory = torch.nn.GRU(2, 4, batch_first=True)
            self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor):
            return self.last(torch.tanh(self.first(x)) + x)

    class Recurrent(Skipping):
        def forward(self, x: torch.Tensor, hidden: torch.Tensor):
            y, hidden = self.memory(x, hidden)
            return self.last(torch.tanh(self.first(y[:, 0])) + y[:, 0]), hidden

    torch.manual_seed(0)
    module, more = (Skipping(), {"input_idx": (0, 1)}) if kind == "mlp" else (Recurrent(), {})
    actuon.save_network(module, tmp_path / "skip.pt", model_type=kind, **more)
    controller = {"mlp": actuon.ControllerNeuralMLP, "gru": actuon.ControllerNeuralGRU}[kind]
    with pytest.warns(UserWarning, match="not recognised"):
        made = [
            actuon.Actuator(range(6), controller(tmp_path / "skip.pt"), accumulate=False, robot_dofs=dofs)
            for dofs in (None, 2)
        ]
    states = [actuator.state() for actuator in made]
    for _ in range(3):
        signals = random_signals(6, rng)
        efforts = []
        for actuator, state in zip(made, states, strict=True):
            sim = simulation(signals)
            actuator.step(sim, sim, state, state, dt=DT)
            efforts.append(sim.joint_f.numpy())
        np.testing.assert_array_equal(*efforts)
