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


@pytest.mark.parametrize("kind", [actuon.DelayTime, actuon.DelayInterpolated, actuon.SensorDelay])
def test_what_there_is_no_memory_for_is_refused_when_it_is_written(kind):
    actuator = make(kind(0.002))
    part = actuator.stages[0]
    part.delay = 0.001
    for name, value in (("delay", 0.05), ("spread", 0.0015), ("jitter", 0.05), ("dropout", 0.2), ("shortest_dt", 1e-4)):
        with pytest.raises(actuon.ParameterError, match=f"{kind.__name__}: got .* its buffer holds"):
            setattr(part, name, value)
    np.testing.assert_array_equal(part.delay.numpy(), np.full(N, 0.001, np.float32))
    assert not part.dropout.numpy().any()
    t = np.arange(20) * 0.001
    is_sensor = kind is actuon.SensorDelay
    seen = run(actuator, 0.0 * t, 0.001, positions=-t) if is_sensor else run(actuator, t, 0.001)
    np.testing.assert_allclose(seen[5:, 0], t[5:] - 0.001, atol=1e-6)
    roomy = make(kind(0.05, dropout=0.1))
    room = roomy.stages[0]
    room.delay, room.dropout = 0.002, 0.0
    room.delay, room.jitter, room.dropout = 0.03, 0.02, 0.9
    room.shortest_dt = 0.002
    with pytest.raises(actuon.StateError, match="must be a finite number ≥ 0.002"):
        run(roomy, [0.0], 0.001)


def test_a_longer_delay_holds_what_has_arrived():
    """A delay that is raised never brings an older command back."""
    actuator = make(actuon.DelayTime(0.01))
    state, seen = actuator.state(), []
    for k in range(30):
        actuator.delay.delay = 0.002 if k < 15 else 0.008
        seen.append(run_once(actuator, state, target=k))
    np.testing.assert_array_equal(np.array(seen)[:, 0], [0, 0, *range(13), *[12] * 6, *range(13, 22)])


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


KINDS = [(actuon.DelayTime, False), (actuon.DelayInterpolated, False), (actuon.SensorDelay, True)]


@pytest.mark.parametrize(("kind", "is_sensor"), KINDS)
def test_with_jitter_nothing_goes_back_in_time(kind, is_sensor):
    t = np.arange(400) * 0.001

    def ages(**options):
        part = kind(stream=np.arange(N), seed=4, **options)
        seen = run(make(part), 0.0 * t, 0.001, positions=-t) if is_sensor else run(make(part), t, 0.001)
        assert (np.diff(seen, axis=0) >= (-1e-7 if kind is actuon.DelayInterpolated else 0.0)).all()
        return t[50:, None] - seen[50:]

    late = ages(delay=0.002, jitter=0.006, dropout=0.1)
    assert late.min() >= 0.002 - 1e-6
    assert late.max() > 0.004  # so there is jitter
    # Independent of each other, messages of 0 to 4 steps leave a lag above l if none of the last l + 1 was that quick.
    steps = np.ceil(ages(delay=0.0, jitter=0.004) / 0.001 - 1e-2)
    below = [np.mean(steps <= lag) for lag in (1, 2, 3)]
    np.testing.assert_allclose(below, [1.0 - np.prod(1.0 - np.arange(lag + 1) / 4) for lag in (1, 2, 3)], atol=0.02)


@pytest.mark.parametrize("staged", [False, True])
def test_lag_in_seconds_is_the_same_where_steps_differ_in_length(staged, rng):
    """Against arrivals in float64; steps of 1 to 9 ms in random order, then alike, then others again."""
    lags = np.linspace(0.0, 0.02, N).astype(np.float32)
    even = [0.003] * 40
    lengths = np.float32([*rng.uniform(0.001, 0.009, 60), *even, *rng.choice([0.002, 0.005], 40)])
    times = np.concatenate([[0.0], np.cumsum(lengths.astype(np.float64))[:-1]])
    for kind in (actuon.DelayTime, actuon.DelayInterpolated, actuon.SensorDelay):
        is_sensor = kind is actuon.SensorDelay
        actuator = make(kind(lags), staged)
        current, following = actuator.state(), actuator.state()
        seen = []
        for k, (t, dt) in enumerate(zip(times, lengths, strict=True)):
            names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
            sim = {name: wp.zeros(N, dtype=wp.float32) for name in names}
            sim["joint_q" if is_sensor else "joint_target_q"].fill_(-t if is_sensor else t)
            actuator.step(sim, sim, current, following, dt=float(dt))
            seen.append(sim["joint_f"].numpy().copy())
            current, following = (following, current) if k % 3 else (following, actuator.state())
        for i, lag in enumerate(lags):
            wanted = np.maximum(times - lag, 0.0)
            if kind is not actuon.DelayInterpolated:
                given = times - 1e-3 * np.roll(lengths, 1)  # a lag is rounded by that much of a step
                wanted = np.array([times[: k + 1][given[: k + 1] <= w][-1] for k, w in enumerate(wanted)])
            np.testing.assert_allclose([row[i] for row in seen], wanted, atol=5e-6, err_msg=f"{kind.__name__} {lag}")


def test_random_numbers_of_streams_do_not_overlap(tmp_path):
    """Stream 0 at step 7919 + k once drew the numbers of stream 1 at step k; and the counter stopped at 2²⁴."""
    part = actuon.DelayInterpolated(0.0, jitter=0.004, dropout=0.0, stream=[0, 1, 0, 1, 2], seed=[3, 3, 4, 4, 3])
    actuator = make(part, n=5)

    def drawn(count, episode=0):
        """Ages of 40 steps from some step on, one value at a time: what is there before is known to be old."""
        path, ages = tmp_path / "state.npz", []
        for k in range(40):
            state = actuator.state()
            state.save(path)
            with np.load(path) as file:
                contents = dict(file)
            contents["0.count"][:] = count + k
            contents["0.episode"][:] = episode
            contents["0.pushes"][:] = 5
            contents["0.oldest"][:] = 1.0
            contents["0.past"][0] = -0.001 * np.arange(1, 6)[:, None]
            contents["0.past"][3] = 0.001
            np.savez(path, **contents)
            ages.append(-run_once(actuator, actuator.load_state(path)))
        return np.array(ages).T

    draws = [*drawn(0), *drawn(7919), *drawn(0, episode=1), *drawn(2**24), *drawn(2**31 - 41)]
    assert all(len(set(np.round(row, 7))) > 35 for row in draws)
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert np.mean(one == other) < 0.2
    np.testing.assert_allclose(np.mean(draws), 0.002, atol=2e-4)


def run_once(actuator, state, target=0.0):
    n = actuator.num_actuators
    sim = {name: wp.zeros(n, dtype=wp.float32) for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")}
    sim["joint_f"] = wp.zeros(n, dtype=wp.float32)
    sim["joint_target_q"].fill_(target)
    actuator.step(sim, sim, state, state, dt=0.001)
    return sim["joint_f"].numpy()


@pytest.mark.parametrize("lengths", [[0.002] * 6, [0.002, 0.003, 0.001, 0.004, 0.002, 0.003]])
def test_gradient_by_the_delay(lengths):
    """Of what arrives at the last of some steps, by the delay and by an early target, through a tape."""
    targets = [0.0, 1.0, 4.0, 9.0, 16.0, 25.0]
    times = np.concatenate([[0.0], np.cumsum(lengths)[:-1]])

    def arriving(delay, values):
        return np.interp(times[-1] - delay, times, values)

    lag = 0.0057
    stages = [actuon.DelayInterpolated([lag]), ControllerFollow()]
    actuator = actuon.Actuator([0], stages=stages, requires_grad=True)
    states = [actuator.state() for _ in range(7)]
    sims = []
    for target in targets:
        names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
        sims.append({name: wp.zeros(1, dtype=wp.float32, requires_grad=True) for name in names})
        sims[-1]["joint_target_q"].fill_(target)
    tape = wp.Tape()
    with tape:
        for sim, before, after, dt in zip(sims, states, states[1:], lengths, strict=False):
            actuator.step(sim, sim, before, after, dt=dt)
    effort = sims[-1]["joint_f"]
    np.testing.assert_allclose(effort.numpy(), arriving(lag, targets), rtol=1e-5)
    tape.backward(grads={effort: wp.ones(1, dtype=wp.float32)})
    step = 1e-5
    by_delay = (arriving(lag + step, targets) - arriving(lag - step, targets)) / (2.0 * step)
    np.testing.assert_allclose(actuator.delay.delay.grad.numpy(), by_delay, rtol=1e-3)
    for k, sim in enumerate(sims):
        changed = np.array(targets) + step * np.eye(6)[k]
        by_target = (arriving(lag, changed) - arriving(lag, targets)) / step
        np.testing.assert_allclose(sim["joint_target_q"].grad.numpy(), by_target, atol=1e-3)
