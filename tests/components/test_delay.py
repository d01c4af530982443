# SPDX-License-Identifier: Apache-2.0
"""The delay through its own methods, as other code calls them."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon


def floats(values):
    return wp.array(np.asarray(values, np.float32))


def make(lags, depth):
    n = len(lags)
    delay = actuon.Delay(wp.array(lags, dtype=wp.int32), depth)
    delay.finalize(wp.get_device("cpu"), n)
    return delay, wp.array(np.arange(n), dtype=wp.uint32)


def test_a_new_ring_is_empty():
    delay, _ = make([2, 3], 4)
    state = delay.state(2, "cpu")
    assert delay.buf_depth == 4
    np.testing.assert_array_equal(delay.delay_steps.numpy(), [2, 3])
    for buffer in (state.buffer_pos, state.buffer_vel, state.buffer_act):
        assert buffer.shape == (4, 2)
        assert not buffer.numpy().any()
    np.testing.assert_array_equal(state.num_pushes.numpy(), [0, 0])
    assert state.write_idx.numpy()[0] == 3


@pytest.mark.parametrize("in_place", [False, True])
def test_commands_arrive_late_together(in_place):
    lags = [0, 1, 2, 4]
    delay, indices = make(lags, 4)
    state, other = delay.state(4, "cpu"), delay.state(4, "cpu")
    for t in range(10):
        command = [floats(np.full(4, t + offset)) for offset in (0.1, 0.2, 0.3)]
        late = delay.get_delayed_targets(*command, indices, indices, state)
        for array, offset in zip(late, (0.1, 0.2, 0.3), strict=True):
            expected = [max(t - lag, 0) + offset for lag in lags]
            np.testing.assert_allclose(array.numpy(), expected, rtol=1e-6)
        following = state if in_place else other
        delay.update_state(*command, indices, indices, state, following)
        state, other = following, state
    np.testing.assert_array_equal(state.num_pushes.numpy(), [4, 4, 4, 4])


def test_without_feedforward_zeros_arrive():
    delay, indices = make([1], 1)
    state = delay.state(1, "cpu")
    command = (floats([1.0]), floats([2.0]), None)
    assert delay.get_delayed_targets(*command, indices, indices, state)[2].numpy() == [0.0]
    delay.update_state(*command, indices, indices, state, state)
    assert delay.get_delayed_targets(*command, indices, indices, state)[2].numpy() == [0.0]


def test_masked_reset_empties_only_its_columns():
    delay, indices = make([3, 3, 3], 3)
    state = delay.state(3, "cpu")
    for t in range(1, 6):
        delay.update_state(*(floats([t, t, t]),) * 3, indices, indices, state, state)
    before = state.write_idx.numpy().copy()
    state.reset(wp.array([False, True, False], dtype=wp.bool))
    np.testing.assert_array_equal(state.num_pushes.numpy(), [3, 0, 3])
    assert not state.buffer_pos.numpy()[:, 1].any()
    assert state.buffer_pos.numpy()[:, [0, 2]].all()
    np.testing.assert_array_equal(state.write_idx.numpy(), before)
    now = floats([9, 9, 9])
    np.testing.assert_array_equal(
        delay.get_delayed_targets(now, now, now, indices, indices, state)[0].numpy(), [3, 9, 3]
    )
    state.reset()
    assert not state.buffer_act.numpy().any()
    assert state.write_idx.numpy()[0] == 2


def test_assign_copies_every_array():
    delay, indices = make([2, 1], 2)
    source, target = delay.state(2, "cpu"), delay.state(2, "cpu")
    for t in range(3):
        delay.update_state(*(floats([t, -t]),) * 3, indices, indices, source, source)
    target.assign(source)
    for name in ("buffer_pos", "buffer_vel", "buffer_act", "num_pushes", "write_idx"):
        np.testing.assert_array_equal(getattr(target, name).numpy(), getattr(source, name).numpy())
        before = getattr(source, name).numpy()
        getattr(target, name).zero_()
        np.testing.assert_array_equal(getattr(source, name).numpy(), before)


def step(actuator, t, current, following):
    """The effort of a step with the target ``t``, which is the target that arrives."""
    zero = np.zeros(1, np.float32)
    sim = {"joint_q": zero, "joint_qd": zero, "joint_target_q": np.full(1, t, np.float32), "joint_target_qd": zero}
    sim["joint_f"] = np.zeros(1, np.float32)
    actuator.step(sim, sim, current, following)
    return sim["joint_f"][0]


def test_steps_between_two_states_go_on_from_a_file_that_one_of_them_loads(tmp_path):
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), delay=actuon.Delay([3], 3))
    states = [actuator.state(), actuator.state()]

    def run(targets):
        efforts = []
        for t in targets:
            efforts.append(step(actuator, t, *states))
            states.reverse()
        return efforts

    run(range(10))
    states[0].save(tmp_path / "state.npz")
    run(range(100, 110))
    states[0].load(tmp_path / "state.npz")
    assert run(range(10, 16)) == [7, 8, 9, 10, 11, 12]


def test_lags_are_live_and_stay_within_the_ring():
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), delay=actuon.Delay([1], 3))
    state = actuator.state()

    def effort(t):
        return step(actuator, t, state, state)

    assert [effort(t) for t in range(4)] == [0, 0, 1, 2]
    actuator.delay.delay_steps = 3
    assert [effort(t) for t in range(4, 7)] == [1, 2, 3]
    with pytest.raises(actuon.ParameterError, match="max_delay, 3"):
        actuator.delay.delay_steps = 4
    assert effort(7) == 4


@pytest.mark.parametrize("robot_dofs", [None, 3])
def test_writes_to_a_delay_buffer_act(robot_dofs):
    """Newton's users fill buffers, to start from a command that was held."""
    n = 6

    def made():
        pd, delay = actuon.ControllerPD(kp=1.0, kd=0.0), actuon.Delay([0, 1, 2] * 2, max_delay=2)
        actuator = actuon.Actuator(range(n), pd, delay, robot_dofs=robot_dofs)
        return actuator, actuator.state(), actuator.state()

    def efforts(actuator, current, following, targets):
        found = []
        for target in targets:
            sim = {name: np.zeros(n, np.float32) for name in ("joint_q", "joint_qd", "joint_target_qd", "joint_f")}
            sim["joint_target_q"] = np.full(n, target, np.float32)
            actuator.step(sim, sim, current, following)
            current, following = following, current
            found.append(sim["joint_f"])
        return found

    actuator, current, following = made()
    efforts(actuator, current, following, [7.0, 8.0])  # the two states share rows from here on
    buffer = current.delay_state
    buffer.buffer_pos.assign(np.array([[1.0] * n, [2.0] * n], np.float32))
    np.testing.assert_array_equal(buffer.buffer_pos.numpy(), [[1.0] * n, [2.0] * n])
    np.testing.assert_allclose(efforts(actuator, current, following, [3.0])[0], [3.0, 1.0, 2.0] * 2)

    actuator, current, following = made()
    current.delay_state.buffer_pos.fill_(5.0)
    current.delay_state.num_pushes.fill_(2)
    np.testing.assert_array_equal(current.delay_state.num_pushes.numpy().ravel(), 2)
    first, second = efforts(actuator, current, following, [3.0, 4.0])
    np.testing.assert_allclose(first, [3.0, 5.0, 5.0] * 2)
    np.testing.assert_allclose(second, [4.0, 3.0, 5.0] * 2)
    buffer = current.delay_state
    buffer.num_pushes.assign(np.array([0, 0, 1] * 2).reshape(buffer.num_pushes.shape))
    np.testing.assert_allclose(efforts(actuator, current, following, [6.0])[0][:2], [6.0, 6.0])
    other = actuator.state()
    other.assign(current)
    np.testing.assert_array_equal(other.delay_state.buffer_pos.numpy(), buffer.buffer_pos.numpy())


@wp.kernel
def _set_to_one(values: wp.array2d(dtype=wp.float32)):
    i, j = wp.tid()
    values[i, j] = 1.0


def test_writes_to_a_delay_buffer_that_cannot_act_raise():
    state = actuon.Actuator(range(2), actuon.ControllerPD(1.0, 0.0), actuon.Delay(1, 2)).state().delay_state
    with pytest.raises(ValueError, match="read-only"):
        state.buffer_pos.numpy()[:] = 1.0
    with pytest.raises(actuon.StateError, match="no views"):
        state.buffer_vel[0].fill_(1.0)
    with pytest.raises(actuon.StateError, match="no views"):
        state.buffer_vel[0] = 1.0
    for write in (
        lambda: wp.copy(state.buffer_pos, wp.ones((2, 2), dtype=wp.float32)),
        lambda: wp.launch(_set_to_one, dim=(2, 2), inputs=[state.buffer_pos], device="cpu"),
        lambda: wp.to_torch(state.buffer_pos).fill_(1.0),
    ):
        with pytest.raises((RuntimeError, TypeError, AttributeError), match=r"(?i)array|BufferCopy"):
            write()
    with pytest.raises(actuon.StateError, match="num_pushes: is 3 at index 0; must be from 0 to 2"):
        state.num_pushes.fill_(3)
    with pytest.raises(actuon.StateError, match="write_idx: is 9 at index 0; must be from 0 to 2"):
        state.write_idx.fill_(9)
    with pytest.raises(actuon.StateError, match=r"delay buffer: is nan"):
        state.buffer_act.fill_(np.nan)
    with pytest.raises(actuon.StateError, match="cannot be replaced"):
        state.buffer_pos = wp.zeros((2, 2), dtype=wp.float32)
    assert not state.num_pushes.numpy().any()
