# SPDX-License-Identifier: Apache-2.0
"""Delays in seconds: right at any time step, repeatable where random, one bus for all."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon

N = 70


@wp.func
def follow(target_q: float, q: float):
    return target_q - q


class ControllerFollow(actuon.Controller):
    """Gives what it sees, so that the effort is the delayed signal."""

    law = follow


def make(part, staged=False, n=N):
    return actuon.Actuator(range(n), stages=[part, ControllerFollow()], fused=not staged)


def run(actuator, targets, dt, positions=None, resets=()):
    """Efforts of each step, shape (steps, N), between two states."""
    n = actuator.num_actuators
    current, following = actuator.state(), actuator.state()
    efforts = []
    for t, target in enumerate(targets):
        if t in resets:
            current.reset(resets[t])
        sim = {"joint_q": np.zeros(n), "joint_qd": np.zeros(n), "joint_target_q": np.full(n, target)}
        if positions is not None:
            sim["joint_q"][:] = positions[t]
        sim = {name: wp.array(values, dtype=wp.float32) for name, values in sim.items()}
        sim |= {"joint_f": wp.zeros(n, dtype=wp.float32), "joint_target_qd": wp.zeros(n, dtype=wp.float32)}
        actuator.step(sim, sim, current, following, dt=dt)
        efforts.append(sim["joint_f"].numpy())
        current, following = following, current
    return np.array(efforts)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("dt", [0.001, 0.002, 0.005, 0.0125])
def test_lag_in_seconds_is_the_same_at_any_step(dt, staged):
    """A ramp arrives late by the delay: rounded up to steps where it is held, exactly where it is interpolated."""
    lags = np.linspace(0.0, 0.02, N).astype(np.float32)
    t = np.arange(40) * dt
    held = run(make(actuon.DelayTime(lags), staged), t, dt)
    steps = np.ceil(lags / np.float32(dt) - 1e-3)
    np.testing.assert_allclose(held[25:], t[25:, None] - steps * dt, atol=2e-6)
    between = run(make(actuon.DelayInterpolated(lags), staged), t, dt)
    np.testing.assert_allclose(between[25:], t[25:, None] - lags, atol=2e-6)
    np.testing.assert_array_equal(held[0], np.zeros(N))  # after a reset the command passes as it is


def test_feedback_has_a_lag_of_its_own():
    """The controller sees old positions and new targets; a delay of commands beside it changes nothing of that."""
    stages = [actuon.SensorDelay(0.006), actuon.DelayTime(0.002), ControllerFollow()]
    actuator = actuon.Actuator(range(N), stages=stages)
    t = np.arange(30) * 0.002
    efforts = run(actuator, t, 0.002, positions=10.0 * t)
    np.testing.assert_allclose(
        efforts[10:], ((t[10:] - 0.002) - 10.0 * (t[10:] - 0.006))[:, None].repeat(N, 1), atol=1e-5
    )


def test_random_lags_repeat_and_differ():
    part = {"delay": 0.002, "spread": 0.01, "jitter": 0.003, "seed": 5}
    streams = np.arange(N) % 7
    t = np.arange(60) * 0.001
    first, again = (run(make(actuon.DelayInterpolated(**part, stream=streams)), t, 0.001) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    late = t[20:, None] - first[20:]
    assert (late >= 0.002 - 1e-6).all()
    assert (late <= 0.015 + 1e-6).all()
    for stream in range(7):  # on one bus all are late together
        assert (np.ptp(late[:, streams == stream], axis=1) == 0.0).all()
    drawn = late.mean(axis=0)[:7]
    assert len(set(np.round(drawn, 5))) == 7
    other = run(make(actuon.DelayInterpolated(**part | {"seed": 6}, stream=streams)), t, 0.001)
    assert (other != first).any()


def test_a_reset_draws_anew_for_those_that_are_reset():
    mask = np.arange(N) < 10
    t = np.arange(80) * 0.001
    actuator = make(actuon.DelayInterpolated(0.0, spread=0.02, stream=np.arange(N)))
    efforts = run(actuator, t, 0.001, resets={40: wp.array(mask)})
    late = t[:, None] - efforts
    np.testing.assert_allclose(late[30, ~mask], late[75, ~mask], atol=2e-6)
    assert (np.abs(late[30, mask] - late[75, mask]) > 1e-5).all()
    np.testing.assert_allclose(late[40, mask], 0.0, atol=1e-6)


def test_lost_messages_leave_the_last_one():
    t = np.arange(400) * 0.001
    held = run(make(actuon.DelayTime(0.0, dropout=0.3, stream=np.arange(N))), t, 0.001)
    repeated = (np.diff(held, axis=0) == 0.0)[10:]
    assert 0.25 < repeated.mean() < 0.35
    assert (np.diff(held, axis=0) >= -1e-7).all()  # never an older one again


def test_saved_and_partly_assigned_states_go_on(tmp_path):
    part = actuon.DelayTime(0.003, spread=0.01, jitter=0.002, dropout=0.1, stream=np.arange(N))
    actuator = make(part)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
    sim = {name: wp.zeros(N, dtype=wp.float32) for name in names}

    def go(state, start, steps):
        seen = []
        for k in range(start, start + steps):
            sim["joint_target_q"].fill_(0.01 * k)
            sim["joint_f"].zero_()
            actuator.step(sim, sim, state, state, dt=0.001)
            seen.append(sim["joint_f"].numpy().copy())
        return np.array(seen)

    state, other = actuator.state(), actuator.state()
    go(state, 0, 30)
    state.save(tmp_path / "state.npz")
    after = go(state, 30, 10)
    np.testing.assert_array_equal(go(actuator.load_state(tmp_path / "state.npz"), 30, 10), after)
    go(other, 0, 7)
    other.reset()
    go(other, 0, 12)
    mask = np.arange(N) % 3 == 0
    other.assign(actuator.load_state(tmp_path / "state.npz"), mask)
    np.testing.assert_array_equal(go(other, 30, 10)[:, mask], after[:, mask])


def test_bad_values_are_refused():
    with pytest.raises(actuon.ParameterError, match="dropout"):
        actuon.DelayTime(0.01, dropout=1.5)
    with pytest.raises(actuon.ParameterError, match="10000 steps"):
        make(actuon.DelayTime(100.0))
    actuator = make(actuon.DelayTime(0.01))
    with pytest.raises(actuon.StateError, match="shortest_dt"):
        run(actuator, [0.0], 0.0005)
    with pytest.raises(actuon.StateError, match="needs dt"):
        run(actuator, [0.0], None)


def test_in_files(tmp_path):
    motor = actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=20.0, kd=0.5),
        delay=actuon.TimeDelayConfig(0.01, jitter=0.002, seed=3),
        sensors=[actuon.DelaySensorConfig(0.004)],
    )
    entry = actuon.ActuatorEntry("legs", (".*",), motor)
    actuon.save_actuators(tmp_path / "a.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "a.yaml") == [entry]
    assert "type: time" in (tmp_path / "a.yaml").read_text()


def test_on_robots_every_robot_has_a_bus_of_its_own():
    motor = actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=1.0, kd=0.0), delay=actuon.InterpolatedDelayConfig(0.0, spread=0.02)
    )
    with actuon.MujocoSimulation(actuon.assets.quadruped_mjcf, num_envs=5):
        names = ["FL_hip_joint", "FR_calf_joint"]
        actuators = actuon.ArticulationActuators.from_actuators("base", [(motor, name) for name in names])
        (actuator,) = actuators.actuators
        streams = actuator.delay.stream.numpy()
        assert sorted(streams.tolist()) == sorted([*range(5), *range(5)])
