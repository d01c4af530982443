# SPDX-License-Identifier: Apache-2.0
"""A low-pass of the commands: exact at any time step, from the first command on, far from zero, and in state files."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon

N = 70
COMMANDS = ("joint_target_q", "joint_target_qd", "joint_act")
TIME_CONSTANTS = np.linspace(0.0, 0.1, N).astype(np.float32)


def make(**options):
    """An actuator whose effort is the sum of its filtered commands."""
    stages = [actuon.DelayLowPass(TIME_CONSTANTS), actuon.ControllerPD(1.0, 1.0)]
    return actuon.Actuator(range(N), stages=stages, accumulate=False, **options)


def step(actuator, current, following, command, dt):
    sim = {"joint_q": np.zeros(N, np.float32), "joint_qd": np.zeros(N, np.float32)}
    sim |= {name: np.full(N, value, np.float32) for name, value in zip(COMMANDS, command, strict=True)}
    sim["joint_f"] = np.full(N, np.nan, np.float32)
    actuator.step(sim, sim, current, following, dt=dt)
    return sim["joint_f"]


@pytest.mark.parametrize("fused", [True, False])
def test_commands_are_those_of_the_equation_where_steps_differ_in_length(fused, rng):
    actuator = make(fused=fused)
    current, following = actuator.state(), actuator.state()
    commands, lengths = rng.uniform(-1, 1, (12, 3)).astype(np.float32), rng.choice([0.0, 0.001, 0.004, 0.02], 12)
    mask = rng.random(N) < 0.4
    filtered = np.zeros((3, N))
    for t, (command, dt) in enumerate(zip(commands, lengths, strict=True)):
        if t == 7:
            current.reset(wp.array(mask))
        begins = (TIME_CONSTANTS == 0.0) | (t == 0) | (mask & (t == 7))
        filtered = np.where(begins, command[:, None], filtered)
        found = step(actuator, current, following, command, float(dt))
        np.testing.assert_allclose(found, filtered.sum(axis=0), rtol=0, atol=1e-6)
        left = np.exp(-dt / np.maximum(TIME_CONSTANTS, 1e-12, dtype=np.float64))
        filtered = command[:, None] + (filtered - command[:, None]) * left
        current, following = following, current


def test_a_target_far_from_zero_is_reached():
    """Where numbers of 32 bits are 1 mrad apart, a state that held the filtered target would stay 25 mrad away."""
    actuator = actuon.Actuator([0], stages=[actuon.DelayLowPass(0.05), actuon.ControllerPD(1.0, 0.0)], accumulate=False)
    state = actuator.state()
    zero, far = np.zeros(1, np.float32), np.full(1, 1e4, np.float32)
    for target in [0.0] + [0.25] * 1000:
        sim = {"joint_q": far, "joint_qd": zero, "joint_target_q": far + np.float32(target), "joint_target_qd": zero}
        sim |= {"joint_f": np.full(1, np.nan, np.float32)}
        actuator.step(sim, sim, state, state, dt=0.001)
    assert sim["joint_f"][0] == 0.25


def test_a_saved_state_goes_on(tmp_path, rng):
    actuator = make()
    state, commands = actuator.state(), rng.uniform(-1, 1, (20, 3))
    for command in commands[:10]:
        step(actuator, state, state, command, 0.005)
    state.save(tmp_path / "state.npz")
    again = actuator.load_state(tmp_path / "state.npz")
    for command in commands[10:]:
        np.testing.assert_array_equal(
            step(actuator, again, again, command, 0.005), step(actuator, state, state, command, 0.005)
        )
    other = actuon.Actuator(range(N), stages=[actuon.DelayTime(0.01), actuon.ControllerPD(1.0, 1.0)])
    with pytest.raises(actuon.StateError, match="DelayLowPass"):
        other.load_state(tmp_path / "state.npz")


def test_bad_values_are_refused():
    with pytest.raises(actuon.ParameterError, match=r"DelayLowPass.time_constant: got -0.1"):
        actuon.DelayLowPass(-0.1)
    actuator = make()
    state = actuator.state()
    with pytest.raises(actuon.StateError, match="needs dt"):
        step(actuator, state, state, (0.0, 0.0, 0.0), None)


def test_in_files(tmp_path):
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.5), delay=actuon.LowPassDelayConfig(0.05))
    entry = actuon.ActuatorEntry("legs", (".*",), motor)
    actuon.save_actuators(tmp_path / "a.yaml", [entry])
    assert "delay: {type: low_pass_delay, time_constant: 0.05}" in (tmp_path / "a.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "a.yaml") == [entry]
