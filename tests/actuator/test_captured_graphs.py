# SPDX-License-Identifier: Apache-2.0
"""Captured steps replayed equal eager steps, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, Values, random_signals, rollout

CHAIN = "pid-table_dc_max-late"
N = 150
DT = 0.01


def sample_arrays(n):
    arrays = {name: wp.zeros(n, dtype=wp.float32) for name in SIGNALS}
    return arrays | {"joint_f": wp.zeros(n, dtype=wp.float32)}


def capture(actuator, sim, first, second, steps):
    """Capture ``steps`` steps, each zeroing the output; odd numbers close the loop with an assignment."""
    with wp.ScopedCapture(device="cpu") as captured:
        for i in range(steps):
            sim["joint_f"].zero_()
            actuator.step(sim, sim, first, second, dt=DT)
            if steps % 2 and i == steps - 1:
                first.assign(second)
            else:
                first, second = second, first
    return captured.graph


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_replay_equals_eager(steps, staged, rng):
    values = Values.random(CHAIN, N, rng)
    replays = [random_signals(N, rng) for _ in range(7)]
    expected = rollout(values.actuator(), [signals for signals in replays for _ in range(steps)], dt=DT)
    actuator = values.actuator(staged=staged)
    sim = sample_arrays(N)
    first, second = actuator.state(), actuator.state()
    graph = capture(actuator, sim, first, second, steps)
    first.reset()
    second.reset()
    for t, signals in enumerate(replays):
        for name, array in signals.items():
            sim[name].assign(array)
        wp.capture_launch(graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t * steps + steps - 1])


def test_replay_in_place(rng):
    values = Values.random(CHAIN, N, rng)
    replays = [random_signals(N, rng) for _ in range(7)]
    expected = rollout(values.actuator(), replays, dt=DT)
    actuator = values.actuator()
    sim = sample_arrays(N)
    state = actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, state, state, dt=DT)
    state.reset()
    for t, signals in enumerate(replays):
        for name, array in signals.items():
            sim[name].assign(array)
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t])


def test_eager_and_replayed_steps_mix(rng):
    """A graph captured after eager steps, with resets and eager steps between its replays."""
    values = Values.random("pd-free-late", N, rng)
    steps = [random_signals(N, rng) for _ in range(24)]
    masks = {9: rng.random(N) < 0.5, 14: rng.random(N) < 0.5}
    expected = rollout(values.actuator(), steps, dt=DT, masks=masks)
    actuator = values.actuator()
    sim = sample_arrays(N)
    first, second = actuator.state(), actuator.state()
    graph = None
    for t, signals in enumerate(steps):
        if t in masks:
            first.reset(masks[t])
        for name, array in signals.items():
            sim[name].assign(array)
        sim["joint_f"].zero_()
        if t == 6:
            kept = actuator.state()
            kept.assign(first)
            with wp.ScopedCapture(device="cpu") as captured:
                actuator.step(sim, sim, first, second, dt=DT)
                first.assign(second)
            graph = captured.graph
            first.assign(kept)
            sim["joint_f"].zero_()
        if graph is not None and t % 5 != 0:
            wp.capture_launch(graph)
        else:
            actuator.step(sim, sim, first, second, dt=DT)
            first, second = second, first
            if graph is not None:
                second.assign(first)
                first, second = second, first
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t])


def test_parameters_stay_live_in_a_graph(rng):
    values = Values.random("pd-max-now", N, rng)
    actuator = values.actuator()
    sim = sample_arrays(N)
    for name, array in random_signals(N, rng).items():
        sim[name].assign(array)
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim)
    actuator.clamping[0].max_effort.fill_(0.5)
    wp.capture_launch(captured.graph)
    assert np.abs(sim["joint_f"].numpy()).max() == 0.5


def test_numbers_reach_a_graph_where_the_array_is_ours(rng):
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(100.0, 0.0), clamping=[actuon.ClampingMaxEffort(0.5)])
    sim = sample_arrays(N)
    sim["joint_target_q"].fill_(1.0)
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim)
    actuator.clamping[0].max_effort = 0.25
    wp.capture_launch(captured.graph)
    assert (sim["joint_f"].numpy() == 0.25).all()
    actuator.clamping[0].max_effort = wp.full(N, 0.125, dtype=wp.float32)
    wp.capture_launch(captured.graph)
    assert (sim["joint_f"].numpy() == 0.25).all()  # an array replaces the one that the graph knows


def test_built_in_chains_are_graphable(rng):
    assert Values.random(CHAIN, 3, rng).actuator().is_graphable()


def test_what_a_replay_would_get_wrong_is_refused_while_capturing(rng):
    actuator = Values.random("pid-max-late", N, rng).actuator()
    state = actuator.state()
    refused = [
        (
            lambda: setattr(actuator.clamping[0], "max_effort", 0.5),
            actuon.StructureError,
            "max_effort: .*during graph capture",
        ),
        (lambda: setattr(actuator.controller, "kp", wp.ones(N)), actuon.StructureError, "kp: .*during graph capture"),
        (
            lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0)),
            actuon.StructureError,
            "built during graph capture",
        ),
        (lambda: state.reset([True] * N), actuon.StateError, "Warp array"),
        (lambda: state.reset(np.ones(N, bool)), actuon.StateError, "Warp array"),
    ]
    with wp.ScopedCapture(device="cpu"):
        for call, error, message in refused:
            with pytest.raises(error, match=message):
                call()


def test_a_masked_reset_in_a_graph_reads_the_mask_at_each_replay(rng):
    actuator = Values.random("pid-max-late", N, rng).actuator()
    state = actuator.state()
    mask = wp.zeros(N, dtype=wp.bool)
    with wp.ScopedCapture(device="cpu") as captured:
        state.reset(mask)
    state.controller_state.integral.fill_(1.0)
    chosen = rng.random(N) < 0.5
    mask.assign(chosen)
    wp.capture_launch(captured.graph)
    np.testing.assert_array_equal(state.controller_state.integral.numpy(), np.where(chosen, 0.0, 1.0))


def test_arrays_of_float64_in_a_graph(rng):
    """Such as MuJoCo's own: the kernel reads and writes them."""
    values = Values.random("pid-max-late", N, rng)
    actuator, plain = values.actuator(), values.actuator()
    states = [actuator.state(), plain.state()]
    sim = {name: np.zeros(N) for name in (*SIGNALS, "joint_f")}
    single = {name: np.zeros(N, np.float32) for name in sim}
    actuator.step(sim, sim, states[0], states[0], dt=DT)
    states[0].reset()
    with wp.ScopedCapture(device="cpu") as captured:
        actuator.step(sim, sim, states[0], states[0], dt=DT)
    for _ in range(6):
        for name, array in random_signals(N, rng).items():
            sim[name][:] = single[name][:] = array
        sim["joint_f"][:] = single["joint_f"][:] = 0.0
        wp.capture_launch(captured.graph)
        plain.step(single, single, states[1], states[1], dt=DT)
        np.testing.assert_array_equal(sim["joint_f"], single["joint_f"])
        assert np.abs(sim["joint_f"]).max() > 0.0


def test_the_state_of_one_stage_is_reset_in_a_graph(rng):
    actuator = Values.random("pid-max-late", N, rng).actuator()
    state = actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        state.controller_state.reset()
    state.controller_state.integral.fill_(1.0)
    wp.capture_launch(captured.graph)
    assert not state.controller_state.integral.numpy().any()
