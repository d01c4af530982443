# SPDX-License-Identifier: Apache-2.0
"""Properties that hold for any value, size, delay and order of events."""

from __future__ import annotations

import math

import numpy as np
import warp as wp
from hypothesis import given, strategies as st

import actuon
from tests.support.chains import Values, oracle_rollout, random_signals, rollout

seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([1, 5, 63, 64, 65, 130, 300])
CHAIN = "pid-dc_max-late"


@given(seeds, sizes, st.integers(1, 9), st.integers(1, 25), st.sampled_from(["one", "two", "fresh"]))
def test_any_delay_any_resets(seed, n, depth, length, stepping):
    rng = np.random.default_rng(seed)
    values = Values.random(CHAIN, n, rng, depth=depth)
    steps = [random_signals(n, rng) for _ in range(length)]
    masks = {t: rng.random(n) < rng.random() for t in range(length) if rng.random() < 0.3}
    efforts = rollout(values.actuator(), steps, stepping=stepping, masks=masks)
    np.testing.assert_allclose(efforts, oracle_rollout(values.oracle(), steps, masks=masks), rtol=5e-4, atol=5e-4)


LARGE = float(np.float32(3e38))
limits = st.one_of(st.floats(0, LARGE, width=32), st.just(math.inf), st.just(0.0))
speeds = st.one_of(st.floats(0, LARGE, width=32, exclude_min=True), st.just(math.inf))
numbers = st.floats(-LARGE, LARGE, width=32)


@given(st.lists(st.tuples(limits, speeds, limits, numbers, numbers), min_size=1, max_size=20))
def test_clamps_only_ever_shrink_within_their_envelope(rows):
    rows = [(stall if math.isinf(speed) or math.isfinite(stall) else 1.0, speed, *rest) for stall, speed, *rest in rows]
    stall, speed, most, effort, qd = np.array(rows, np.float32).T
    n = len(rows)
    actuator = actuon.Actuator(
        range(n),
        actuon.ControllerPD(0.0, 0.0),
        clamping=[actuon.ClampingDCMotor(stall, speed, most), actuon.ClampingMaxEffort(most)],
    )
    zeros = np.zeros(n, np.float32)
    sim = {"joint_q": zeros, "joint_qd": qd, "joint_target_q": zeros, "joint_target_qd": zeros, "joint_act": effort}
    sim["joint_f"] = np.zeros(n, np.float32)
    actuator.step(sim, sim)
    result = sim["joint_f"]
    assert not np.isnan(result).any()
    assert (np.abs(result) <= most).all()
    free = np.isinf(speed) & (np.abs(effort) <= np.minimum(stall, most))
    np.testing.assert_array_equal(result[free], effort[free])


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=12),
    st.data(),
)
def test_table_is_linear_between_and_held_outside(positions, data):
    positions = sorted(set(positions))
    efforts = data.draw(
        st.lists(st.floats(0, 1000, width=32), min_size=len(positions), max_size=len(positions)), label="efforts"
    )
    q = np.array(data.draw(st.lists(st.floats(-200, 200, width=32), min_size=1, max_size=9)), np.float32)
    clamp = actuon.ClampingPositionBased(positions, efforts)
    n = len(q)
    source, target = wp.full(n, 1e9, dtype=wp.float32), wp.zeros(n, dtype=wp.float32)
    indices = wp.array(np.arange(n), dtype=wp.uint32)
    clamp.modify_forces(source, target, wp.array(q), wp.array(q), indices, indices)
    np.testing.assert_allclose(target.numpy(), np.interp(q, positions, efforts), rtol=1e-4, atol=1e-2)


@given(seeds, st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_efforts_land_and_add_up_anywhere(seed, targets):
    rng = np.random.default_rng(seed)
    n = len(targets)
    values = Values.random("pd-max-now", n, rng)
    steps = [random_signals(max(n, 7), rng)]
    sim = steps[0] | {"joint_f": np.zeros(max(n, 7), np.float32)}
    values.actuator(effort_indices=targets).step(sim, sim)
    single = rollout(values.actuator(), steps)[0]
    expected = np.zeros(max(n, 7))
    np.add.at(expected, targets, single)
    np.testing.assert_allclose(sim["joint_f"], expected, rtol=1e-4, atol=1e-3)


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 50), st.one_of(st.none(), st.integers(0, 6))), max_size=12))
def test_builder_keeps_every_joint_and_value(joints):
    builder = actuon.ActuatorBuilder()
    for index, kp, lag in joints:
        builder.add_actuator(actuon.ControllerPD, index, kp=kp, delay_steps=lag)
    actuators = builder.finalize()
    assert len(actuators) == len({lag is None for *_, lag in joints})
    found = []
    for actuator in actuators:
        lags = (
            [None] * actuator.num_actuators if actuator.delay is None else actuator.delay.delay_steps.numpy().tolist()
        )
        found += zip(actuator.indices.numpy().tolist(), actuator.controller.kp.numpy().tolist(), lags, strict=True)
    key = repr
    expected = [(index, float(np.float32(kp)), lag) for index, kp, lag in joints]
    assert sorted(found, key=key) == sorted(expected, key=key)
