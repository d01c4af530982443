# SPDX-License-Identifier: Apache-2.0
"""Each component by itself: its equation at the edges, its parameters, its state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import oracle
from tests.support.chains import random_signals, simulation


def clamp_alone(clamp, effort, q, qd):
    n = len(effort)
    target = wp.full(n, np.nan, dtype=wp.float32)
    indices = wp.array(np.arange(n), dtype=wp.uint32)
    arrays = [wp.array(np.asarray(x, np.float32)) for x in (effort, q, qd)]
    clamp.modify_forces(arrays[0], target, arrays[1], arrays[2], indices, indices)
    return target.numpy()


LEGAL = {
    "saturation_effort": (0.0, 1e-30, 20.0, 3e38, math.inf),
    "velocity_limit": (1e-30, 10.0, 3e38, math.inf),
    "max_motor_effort": (0.0, 1e-30, 15.0, 3e38, math.inf),
}


def test_dc_motor_gives_no_nan_for_any_legal_value():
    cases = [
        (stall, speed, most)
        for stall, speed, most in itertools.product(*LEGAL.values())
        if not (math.isinf(stall) and math.isfinite(speed))
    ]
    motions = list(
        itertools.product((0.0, 7.0, -7.0, 3e38, -math.inf), (0.0, 5.0, -25.0, 3e38, -3e38, math.inf, -math.inf))
    )
    rows = np.array([(*case, *motion) for case in cases for motion in motions])
    stall, speed, most, effort, qd = rows.T
    clamp = actuon.ClampingDCMotor(stall, speed, most)
    result = clamp_alone(clamp, effort, np.zeros(len(rows)), qd)
    assert not np.isnan(result).any()
    assert (np.abs(result) <= np.float32(most)).all()
    assert (np.abs(result)[np.isinf(speed)] <= np.float32(stall)[np.isinf(speed)]).all()


@pytest.mark.parametrize("name", ["pid", "servo"])
def test_a_large_integral_grows_by_small_errors(name):
    """5 rad·s and an error of 0.2 mrad for 1 ms at a time: each part is below the last digit of the sum."""
    pid = actuon.ControllerPID(kp=0.0, ki=1.0, kd=0.0, integral_max=[8.0, 5.0005])
    servo = actuon.ControllerServoPWM(0.0, 1.0, 1.0, 10.0, ki=0.1, max_duty=[0.8, 0.50005])
    actuator = actuon.Actuator([0, 1], {"pid": pid, "servo": servo}[name], accumulate=False)
    state, zeros = actuator.state(), np.zeros(2, np.float32)
    sim = {"joint_q": zeros, "joint_qd": zeros, "joint_target_qd": zeros, "joint_f": np.zeros(2, np.float32)}
    actuator.step(sim, sim | {"joint_target_q": zeros + 5.0}, state, state, dt=1.0)
    error = np.float32(2e-4)
    for steps in (2500, 2500):
        for _ in range(steps):
            actuator.step(sim, sim | {"joint_target_q": zeros + error}, state, state, dt=1e-3)
    grown = 5.0 + 5000 * 1e-3 * float(error)
    np.testing.assert_allclose(sim["joint_f"], [grown, 5.0005], rtol=1e-6)
    np.testing.assert_allclose(state.controller_state.integral.numpy(), [grown, 5.0005], rtol=1e-6)


def test_an_infinite_integral_stays_infinite():
    """After one target at infinity, limits bind for ever; the effort is never NaN."""
    pid = actuon.ControllerPID(kp=0.0, ki=1.0, kd=0.0)
    actuator = actuon.Actuator([0, 1], pid, accumulate=False)
    state, zeros = actuator.state(), np.zeros(2, np.float32)
    sim = {"joint_q": zeros, "joint_qd": zeros, "joint_target_qd": zeros, "joint_f": np.zeros(2, np.float32)}
    for target in ([np.inf, 1.0], [0.0, 1.0], [-1.0, 1.0]):
        actuator.step(sim, sim | {"joint_target_q": np.float32(target)}, state, state, dt=1.0)
    np.testing.assert_array_equal(sim["joint_f"], [np.inf, 3.0])


def test_dc_motor_four_quadrants():
    """Driving the motion, effort falls with speed; braking it, effort may go up to the peak."""
    stall, speed, most = 20.0, 10.0, 15.0
    v = np.array([0.0, 2.5, 5.0, 10.0, 17.5, 30.0, -5.0, -10.0, -17.5, -30.0])
    n = len(v)
    clamp = actuon.ClampingDCMotor(np.full(n, stall), np.full(n, speed), np.full(n, most))
    highest = clamp_alone(clamp, np.full(n, 1e6), v, v)
    np.testing.assert_allclose(highest, [15, 15, 10, 0, -15, -15, 15, 15, 15, 15], atol=1e-5)
    lowest = clamp_alone(clamp, np.full(n, -1e6), v, v)
    np.testing.assert_allclose(lowest, [-15, -15, -15, -15, -15, -15, -10, 0, 15, 15], atol=1e-5)


def test_dc_motor_corner_follows_live_parameters(rng):
    n = 50
    clamp = actuon.ClampingDCMotor(np.full(n, 20.0), np.full(n, 10.0), np.full(n, 15.0))
    actuator = actuon.Actuator(range(n), actuon.ControllerPD(1e4, 0.0), clamping=[clamp])
    signals = random_signals(n, rng)
    for most in (15.0, 40.0, 2.0):
        actuator.clamping[0].max_motor_effort = most
        sim = simulation(signals)
        actuator.step(sim, sim)
        raw = 1e4 * (signals["joint_target_q"] - signals["joint_q"]).astype(float) + signals["joint_act"]
        limits = np.full((3, n), [[20.0], [10.0], [most]])
        expected = oracle.dc_motor(raw, None, signals["joint_qd"].astype(float), *limits)
        np.testing.assert_allclose(sim.joint_f.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("positions", "efforts"),
    [
        ([0.5], [3.0]),
        ([-1.0, 1.0], [2.0, 10.0]),
        ([-1.0, 0.0, 0.0, 1.0], [2.0, 10.0, 4.0, 6.0]),
        ([0.0, 0.0], [5.0, 3.0]),
        ([-1.0, -0.5, 0.25, 2.0], [0.0, 7.0, 7.0, 1.0]),
    ],
)
def test_table_interpolates_and_holds_its_ends(positions, efforts):
    q = np.concatenate([np.linspace(-3, 3, 121), [1e30, -1e30, np.inf, -np.inf]])
    jump = np.isin(q, [p for p in positions if positions.count(p) > 1])
    clamp = actuon.ClampingPositionBased(positions, efforts)
    result = clamp_alone(clamp, np.full(len(q), 1e6), q, q)
    np.testing.assert_allclose(result[~jump], np.interp(q, positions, efforts)[~jump], rtol=1e-5, atol=1e-6)
    assert set(np.round(result[jump], 5)) <= set(efforts)
    np.testing.assert_array_equal(clamp_alone(clamp, np.full(len(q), -1e6), q, q), -result)


def test_table_from_a_file(tmp_path):
    path = tmp_path / "knee.txt"
    path.write_text("﻿# angle, torque\n-1.0, 10\n 0.5\t20.5 # middle\r\n\n1.5,30,\n", encoding="utf-8")
    assert actuon.read_lookup_table(path) == ((-1.0, 0.5, 1.5), (10.0, 20.5, 30.0))
    clamp = actuon.ClampingPositionBased(lookup_table_path=path)
    np.testing.assert_allclose(clamp_alone(clamp, [99.0, 99.0], [0.5, 1.0], [0, 0]), [20.5, 25.25])
    resolved = actuon.ClampingPositionBased.resolve_arguments({"lookup_table_path": path})
    assert resolved == {"lookup_positions": (-1.0, 0.5, 1.5), "lookup_efforts": (10.0, 20.5, 30.0)}


def test_nan_is_passed_on_not_clamped():
    chain = [
        actuon.ClampingDCMotor(20.0, 10.0, 15.0),
        actuon.ClampingPositionBased([0.0, 1.0], [5.0, 6.0]),
        actuon.ClampingMaxEffort(5.0),
    ]
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(10.0, 1.0), clamping=chain)
    sim = simulation({name: np.zeros(3, np.float32) for name in random_signals(3, np.random.default_rng())})
    sim.joint_q.assign([0.0, np.nan, 0.0])
    sim.joint_qd.assign([0.0, 0.0, np.nan])
    actuator.step(sim, sim)
    np.testing.assert_array_equal(np.isnan(sim.joint_f.numpy()), [False, True, True])


@pytest.mark.parametrize("replacement", [7.5, [1.0, 2.0, 3.0], np.array([3, 2, 1]), "warp", "torch"])
def test_parameters_are_live(replacement):
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(2.0, 0.0))
    sim = simulation(
        {name: np.zeros(3, np.float32) for name in ("joint_q", "joint_qd", "joint_target_qd", "joint_act")}
    )
    sim.joint_target_q = wp.ones(3, dtype=wp.float32)
    actuator.step(sim, sim)
    np.testing.assert_array_equal(sim.joint_f.numpy(), [2, 2, 2])
    if isinstance(replacement, str):
        torch = pytest.importorskip("torch")
        values = torch.tensor([4.0, 5.0, 6.0])
        replacement = wp.from_torch(values) if replacement == "warp" else values
    actuator.controller.kp = replacement
    sim.joint_f.zero_()
    actuator.step(sim, sim)
    expected = replacement.numpy() if hasattr(replacement, "numpy") else replacement
    np.testing.assert_array_equal(sim.joint_f.numpy(), np.broadcast_to(expected, 3))
    if hasattr(replacement, "numpy"):
        replacement.fill_(9.0)
        sim.joint_f.zero_()
        actuator.step(sim, sim)
        np.testing.assert_array_equal(sim.joint_f.numpy(), [9, 9, 9])


def test_a_refused_parameter_changes_nothing():
    given = actuon.ClampingDCMotor(20.0, 10.0, 15.0)
    (clamp,) = actuon.Actuator(range(3), actuon.ControllerPD(1.0, 0.0), clamping=[given]).clamping
    for name, value in (("velocity_limit", 0.0), ("saturation_effort", math.inf), ("max_motor_effort", [1.0, 2.0])):
        with pytest.raises(actuon.ActuonError):
            setattr(clamp, name, value)
    assert [clamp.saturation_effort.numpy()[0], clamp.velocity_limit.numpy()[0]] == [20.0, 10.0]
    np.testing.assert_array_equal(clamp.max_motor_effort.numpy(), [15, 15, 15])


def test_pid_integral_is_updated_before_use_and_bounded():
    actuator = actuon.Actuator([0], actuon.ControllerPID(0.0, 10.0, 0.0, 0.05))
    sim = simulation(
        {name: np.zeros(1, np.float32) for name in ("joint_q", "joint_qd", "joint_target_qd", "joint_act")}
    )
    sim.joint_target_q = wp.ones(1, dtype=wp.float32)
    state = actuator.state()
    efforts = []
    for _ in range(4):
        sim.joint_f.zero_()
        actuator.step(sim, sim, state, state, dt=0.02)
        efforts.append(sim.joint_f.numpy()[0])
    np.testing.assert_allclose(efforts, [0.2, 0.4, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(state.controller_state.integral.numpy(), [0.05])


def test_resolve_arguments_fills_in_what_a_file_leaves_out():
    assert actuon.ControllerPD.resolve_arguments({"kp": 5}) == {"kp": 5.0, "kd": 0.0, "const_effort": 0.0}
    assert actuon.ControllerPID.resolve_arguments({})["integral_max"] == math.inf
    assert actuon.ClampingMaxEffort.resolve_arguments({}) == {"max_effort": math.inf}
    assert actuon.Delay.resolve_arguments({"delay_steps": 3}) == {"delay_steps": 3}


def test_configs_build_their_components():
    actuator = actuon.Actuator(
        range(5),
        actuon.PDControlConfig(kp=10.0, kd=1.0).build(),
        delay=actuon.DelayConfig(2).build(),
        clamping=[
            actuon.DCMotorClampingConfig(20.0, 10.0, 15.0).build(),
            actuon.MaxEffortClampingConfig(5.0).build(),
            actuon.PositionBasedClampingConfig((0.0, 1.0), (1.0, 2.0)).build(),
        ],
    )
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), np.full(5, 10.0))
    assert actuator.delay.buf_depth == 2
    assert "5 DOFs" in repr(actuator)
    assert "fused: Delay" in repr(actuator)


def test_shared_params_are_named():
    assert {"lookup_positions", "lookup_efforts"} == actuon.ClampingPositionBased.SHARED_PARAMS
    assert frozenset() == actuon.ControllerPD.SHARED_PARAMS


def test_stateless_chain_allocates_nothing_per_dof(rng):
    n = 1000
    parameters = [wp.array(rng.random(n), dtype=wp.float32) for _ in range(3)]
    indices = wp.array(np.arange(n), dtype=wp.uint32)
    clamp = actuon.ClampingMaxEffort(parameters[2])
    actuator = actuon.Actuator(indices, actuon.ControllerPD(*parameters[:2]), clamping=[clamp])
    sim = simulation(random_signals(n, rng))
    actuator.step(sim, sim)
    assert actuator.state() is None
    given = {array.ptr for array in (*parameters, *vars(sim).values())}
    (own,) = {array.ptr: array for array in all_arrays(actuator) if array.ptr not in given}.values()
    assert own.dtype is wp.uint32  # its copy of the indices


def all_arrays(value, seen=None):
    """Every Warp array reachable from ``value``."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, wp.array):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from all_arrays(part, seen)
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            yield from all_arrays(part, seen)
    elif type(value).__module__.startswith("actuon"):
        yield from all_arrays(getattr(value, "__dict__", {}), seen)


def test_configs_stand_for_components():
    parts = {
        "controller": actuon.PDControlConfig(kp=3.0, kd=0.5),
        "delay": actuon.DelayConfig(delay_steps=2),
        "clamping": [actuon.MaxEffortClampingConfig(max_effort=2.0)],
    }
    actuator = actuon.Actuator(range(3), **parts)
    assert isinstance(actuator.controller, actuon.ControllerPD)
    assert actuator.delay.delay_steps.numpy().tolist() == [2, 2, 2]
    assert actuator.clamping[0].max_effort.numpy().tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(actuon.StructureError, match="delay: got PDControlConfig; must be a Delay"):
        actuon.Actuator(range(3), parts["controller"], delay=parts["controller"])


def test_components_show_their_values():
    assert repr(actuon.ControllerPD(40.0, [1.0, 2.0])) == "ControllerPD(kp=40.0, kd=[1.0, 2.0], const_effort=None)"
    actuator = actuon.Actuator(range(9), actuon.ControllerPD(40.0, np.arange(9)), delay=actuon.Delay(1, 4))
    assert repr(actuator.controller) == "ControllerPD(kp=40.0, kd=[0.0, 1.0, 2.0, … 9 values], const_effort=None)"
    assert repr(actuator.delay) == "Delay(delay_steps=1, max_delay=4)"
    assert repr(actuon.ClampingMaxEffort(wp.zeros(0))) == "ClampingMaxEffort(max_effort=[])"


def test_a_jump_in_a_table_is_passed_at_its_far_end():
    """However narrow it is, down to the least numbers that there are."""
    for width in (1.4e-45, 1e-30, 1e-13):
        clamp = actuon.ClampingPositionBased([-width, 0.0], [1.0, 3.0])
        q = np.array([-1.0, -width, 0.0, 1.0], np.float32)
        source, target = wp.full(4, 1e9, dtype=wp.float32), wp.zeros(4, dtype=wp.float32)
        indices = wp.array(np.arange(4), dtype=wp.uint32)
        clamp.modify_forces(source, target, wp.array(q), wp.array(q), indices, indices)
        np.testing.assert_array_equal(target.numpy(), [1.0, 1.0, 3.0, 3.0])
