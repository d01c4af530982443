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
        assert getattr(target, name).ptr != getattr(source, name).ptr


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
