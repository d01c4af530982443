# SPDX-License-Identifier: Apache-2.0
"""Bad input gets an Actuon error that says where, what was got and what is allowed, and changes nothing."""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import actuon
from actuon import ActuonError
from tests.support.chains import Values, random_signals, simulation

N = 3


@contextmanager
def refused(match, kind=ValueError):
    """Expect an Actuon error that is also ``kind``, with ``match`` in its message."""
    with pytest.raises(ActuonError, match=match) as caught:
        yield caught
    assert isinstance(caught.value, kind)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: actuon.ControllerPD(-1.0, 0.0), r"ControllerPD.kp: got -1.0; must be finite and ≥ 0 \[N·m/rad\]"),
        (lambda: actuon.ControllerPD([1.0, -2.0], 0.0), r"kp: got -2.0 at index 1"),
        (lambda: actuon.ControllerPD(wp.array([1.0, -2.0], dtype=wp.float32), 0.0), r"kp: got -2.0 at index 1"),
        (lambda: actuon.ControllerPD(math.nan, 0.0), "kp: got nan"),
        (lambda: actuon.ControllerPD(math.inf, 0.0), "kp: got inf"),
        (lambda: actuon.ControllerPD(1e39, 0.0), r"kp: got 1e\+39"),
        (lambda: actuon.ControllerPD(None, 0.0), "kp: got None"),
        (lambda: actuon.ControllerPD("high", 0.0), "kp: got 'high'"),
        (lambda: actuon.ControllerPD([[1.0], [2.0]], 0.0), r"kp: got shape \(2, 1\)"),
        (lambda: actuon.ControllerPD([[1.0], [2.0, 3.0]], 0.0), "flat list of numbers"),
        (lambda: actuon.ControllerPD(1.0, -1.0), "kd: got -1.0"),
        (lambda: actuon.ControllerPD(1.0, 0.0, math.nan), "const_effort: got nan"),
        (lambda: actuon.ControllerPID(1.0, -1.0, 0.0, 1.0), "ki: got -1.0"),
        (lambda: actuon.ControllerPID(1.0, 1.0, 0.0, -1.0), "integral_max: got -1.0"),
        (lambda: actuon.ClampingMaxEffort(-1.0), "max_effort: got -1.0"),
        (lambda: actuon.ClampingMaxEffort(math.nan), "max_effort: got nan"),
        (lambda: actuon.ClampingDCMotor(-1.0, 1.0, 1.0), "saturation_effort: got -1.0"),
        (lambda: actuon.ClampingDCMotor(1.0, 0.0, 1.0), r"velocity_limit: got 0.0; must be > 0 \[rad/s\]"),
        (lambda: actuon.ClampingDCMotor(1.0, 1e-60, 1.0), "velocity_limit: got 1e-60"),
        (lambda: actuon.ClampingDCMotor(1.0, 1.0, -1.0), "max_motor_effort: got -1.0"),
        (lambda: actuon.ClampingDCMotor(math.inf, 1.0, 1.0), "saturation_effort is inf with a finite velocity_limit"),
        (lambda: actuon.ClampingDCMotor([1.0, math.inf], [1.0, 2.0], 1.0), "velocity_limit at index 1"),
        (lambda: actuon.ClampingPositionBased([0.0, 1.0, 0.5], [1.0, 1.0, 1.0]), "0.5 at index 2 follows 1.0"),
        (lambda: actuon.ClampingPositionBased([], []), "at least one number"),
        (lambda: actuon.ClampingPositionBased([0.0, 1.0], [1.0]), "2 lookup_positions and 1 lookup_efforts"),
        (lambda: actuon.ClampingPositionBased([0.0, 1.0], [1.0, -1.0]), "lookup_efforts: got -1.0 at index 1"),
        (lambda: actuon.ClampingPositionBased([0.0, math.nan], [1.0, 1.0]), "lookup_positions: got nan"),
        (lambda: actuon.ClampingPositionBased([0.0, 1.0], [1.0, math.inf]), "lookup_efforts: got inf"),
        (lambda: actuon.ClampingPositionBased(3.0, 3.0), "at least one number"),
        (lambda: actuon.ClampingPositionBased(), "needs lookup_positions"),
        (lambda: actuon.ClampingPositionBased([0.0], [1.0], "table.txt"), "path and a table; pass only one"),
        (lambda: actuon.Delay([1], 0), "max_delay: got 0"),
        (lambda: actuon.Delay([1], 2.5), "max_delay: got 2.5"),
        (lambda: actuon.Delay([-1], 2), "delay_steps: got -1"),
        (lambda: actuon.Delay([1, 3], 2), "delay_steps: got 3 at index 1; must be at most max_delay, 2"),
        (lambda: actuon.Delay([1.5], 2), "whole number"),
        (lambda: actuon.DelayConfig(-1), "delay_steps: got -1"),
        (lambda: actuon.DelayConfig(10_001), r"got 10001; must be a whole number ≥ 0 and ≤ 10000 \[steps\]"),
        (lambda: actuon.DelayConfig(2**31 - 1), "got 2147483647; must be"),
        (lambda: actuon.DelayConfig(10**5000), "delay_steps: got a whole number of"),
        (lambda: actuon.Delay([1], 10_001), r"max_delay: got 10001; must be a whole number ≥ 1 and ≤ 10000 \[steps\]"),
        (lambda: actuon.Delay([10_001], 10_000), "delay_steps: got 10001 at index 0; must be"),
        (lambda: actuon.PDControlConfig(10**5000, 0.0), "kp: got a whole number of"),
        (lambda: actuon.NeuralControlConfig("a" * 5000 + ".onnx"), "must be the path of a file"),
        (
            lambda: actuon.ClampingPositionBased(range(4097), [1.0] * 4097),
            "got 4097 numbers; .* at most 4096",
        ),
        (lambda: actuon.PDControlConfig(kp=[1.0, 2.0], kd=0.0), "must be one number in a config"),
        (
            lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), control_computed_output_attr="joint_f"),
            "joint_f",
        ),
    ],
)
def test_parameters(build, match):
    with refused(match):
        build()


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: actuon.ControllerPD(1.0), "parameters: kp, kd, const_effort"),
        (lambda: actuon.ControllerPD(1.0, 2.0, stiffness=3.0), "stiffness"),
        (lambda: actuon.ControllerPD(wp.zeros(3, dtype=wp.float64), 0.0), "got dtype float64; must be float32"),
        (lambda: actuon.Actuator([0], actuon.ClampingMaxEffort(1.0)), "controller: got ClampingMaxEffort"),
        (lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), clamping=[None]), r"clamping\[0\]: got NoneType"),
        (lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), delay=3), "delay: got int"),
        (lambda: actuon.Actuator([0.5], actuon.ControllerPD(1.0, 0.0)), "indices must be whole numbers"),
    ],
)
def test_types(build, match):
    with refused(match, TypeError):
        build()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"indices": [0, -1, 2]}, "indices: got index -1"),
        ({"indices": [[0, 1, 2]]}, r"indices: got shape \(1, 3\)"),
        ({"pos_indices": [0, 1]}, "pos_indices: got 2 values; must have 3"),
        ({"target_pos_indices": [0, 1]}, "target_pos_indices: got 2"),
        ({"effort_indices": [0, 1, 2, 3]}, "effort_indices: got 4"),
        ({"controller": actuon.ControllerPD([1.0, 2.0], 0.0)}, "ControllerPD.kp: got 2 values; must have 3"),
        ({"delay": actuon.Delay([1, 1], 1)}, "Delay.delay_steps: got 2 values; must have 3"),
        ({"clamping": [actuon.ClampingMaxEffort([1.0] * 4)]}, "ClampingMaxEffort.max_effort: got 4"),
    ],
)
def test_sizes(options, match):
    arguments = {"indices": range(N), "controller": actuon.ControllerPD(1.0, 0.0)} | options
    with refused(match):
        actuon.Actuator(**arguments)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("1 2\n3\n", r"table.txt:2: got '3'; must be two numbers"),
        ("1 2\n3 4 5\n", r"table.txt:2: got '3 4 5'"),
        ("1 2\nangle torque\n", r"table.txt:2"),
        ("# nothing\n\n", "is empty; must have at least one line"),
        ("2 1\n1 1\n", "table.txt.*must not decrease"),
        ("1 nan\n", "table.txt.*got nan"),
        ("1 -2\n", "table.txt.*got -2"),
    ],
)
def test_table_files(tmp_path, text, match):
    path = tmp_path / "table.txt"
    path.write_text(text)
    with refused(match):
        actuon.ClampingPositionBased(lookup_table_path=path)


def test_missing_or_binary_table_file(tmp_path):
    with refused("nowhere.txt' cannot be read"):
        actuon.read_lookup_table(tmp_path / "nowhere.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x81")
    with refused("cannot be read"):
        actuon.read_lookup_table(tmp_path / "binary")


def working(rng, name="pid-dc_max-late", **options):
    actuator = Values.random(name, N, rng).actuator(**options)
    return actuator, simulation(random_signals(N, rng)), actuator.state()


STEP_ERRORS = [
    ("joint_q", None, r"sim_state \(SimpleNamespace\) has no array 'joint_q'"),
    ("joint_target_qd", None, "sim_control .* has no array 'joint_target_qd'"),
    ("joint_f", None, "has no array 'joint_f'"),
    ("joint_q", np.zeros(N, int), "sim_state.joint_q: got dtype int64; must be float32"),
    ("joint_q", [0.0] * N, "sim_state.joint_q: got list; must be a Warp, NumPy or PyTorch array"),
    ("joint_q", np.zeros((N, 1), np.float32), r"sim_state.joint_q: got shape \(3, 1\); must be 1-D"),
    ("joint_q", np.zeros(N - 1, np.float32), "sim_state.joint_q: has 2 entries; the pos indices reach 2"),
    ("joint_act", np.zeros(1, np.float32), "sim_control.joint_act: has 1 entries"),
    ("joint_f", np.zeros(2, np.float32), "sim_control.joint_f: has 2 entries; the effort indices reach 2"),
    ("joint_f", np.frombuffer(b"\0" * 12, np.float32), "read-only"),
    ("joint_target_q", np.zeros(N, "complex64"), "joint_target_q"),
    ("joint_target_q", wp.zeros(N, dtype=wp.vec3), "joint_target_q: got dtype"),
]


@pytest.mark.parametrize("path", ["fused", "staged", "grad"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("name", "value", "match"), STEP_ERRORS)
def test_step_arrays(name, value, match, first, path, rng):
    """Bad arrays raise an error after good steps as well, and nothing is written."""
    actuator, sim, state = working(rng, staged=path == "staged", requires_grad=path == "grad")
    if not first:
        actuator.step(sim, sim, state, state, dt=0.01)
    before = sim.joint_f.numpy().copy(), state.delay_state.num_pushes.numpy().copy()
    good_output = sim.joint_f
    setattr(sim, name, value)
    with refused(match):
        actuator.step(sim, sim, state, state, dt=0.01)
    np.testing.assert_array_equal(good_output.numpy(), before[0])
    np.testing.assert_array_equal(state.delay_state.num_pushes.numpy(), before[1])


def test_missing_array_is_an_attribute_error_too(rng):
    actuator, sim, state = working(rng)
    with pytest.raises(AttributeError, match="joint_q"):
        actuator.step(SimpleNamespace(), sim, state, state, dt=0.01)
    with pytest.raises(actuon.MissingArrayError, match=r"sim_control \(dict\)"):
        actuator.step(sim, {}, state, state, dt=0.01)


@pytest.mark.parametrize("path", ["fused", "staged", "grad"])
@pytest.mark.parametrize("dt", [None, math.nan, -0.01, math.inf])
def test_time_step(dt, path, rng):
    actuator, sim, state = working(rng, staged=path == "staged", requires_grad=path == "grad")
    with refused("dt"):
        actuator.step(sim, sim, state, state, dt=dt)
    actuator.step(sim, sim, state, state, dt=0.01)
    with refused("dt"):
        actuator.step(sim, sim, state, state, dt=dt)


def test_states(rng):
    actuator, sim, state = working(rng)
    other = working(rng)[2]
    with refused("current_act_state: got None"):
        actuator.step(sim, sim, dt=0.01)
    with refused("next_act_state: got None"):
        actuator.step(sim, sim, state, dt=0.01)
    with refused("current_act_state: got a state of another actuator"):
        actuator.step(sim, sim, other, state, dt=0.01)
    with refused("next_act_state: got a state of another actuator"):
        actuator.step(sim, sim, state, other, dt=0.01)
    with refused("current_act_state: got dict"):
        actuator.step(sim, sim, {}, state, dt=0.01)
    with refused("cannot assign a delay buffer"):
        state.assign(Values.random("pid-dc_max-late", 9, rng).actuator().state())
    with refused("got a state of 1 stages; must have 4"):
        state.assign(Values.random("pid-free-now", N, rng).actuator().state())


@pytest.mark.parametrize(
    ("mask", "match"),
    [
        (wp.array([True, False], dtype=wp.bool), "reset mask: got 2 values; must have 3"),
        (wp.array([1.0, 0.0, 1.0], dtype=wp.float32), "reset mask: got dtype float32; must be bool"),
        (np.array([1, 0, 1]), "reset mask: got dtype int64"),
        ([1, 0, 1], "reset mask: got dtype"),
        (np.ones((1, 3), bool), "reset mask: got shape"),
        (True, "reset mask: got bool"),
        ("all", "reset mask: got str"),
    ],
)
@pytest.mark.parametrize("name", ["pid-free-now", "pd-free-late"])
def test_masks(mask, match, name, rng):
    actuator = Values.random(name, N, rng).actuator()
    state = actuator.state()
    with refused(match):
        state.reset(mask)
    with refused(match.replace("reset", "assign:")):
        state.assign(actuator.state(), mask)


@pytest.mark.parametrize("mask", [[True, False, True], np.array([True, False, True]), "torch"])
def test_masks_of_any_framework(mask, rng):
    if isinstance(mask, str):
        mask = pytest.importorskip("torch").tensor([True, False, True])
    actuator, sim, state = working(rng)
    for _ in range(3):
        actuator.step(sim, sim, state, state, dt=0.01)
    state.reset(mask)
    np.testing.assert_array_equal(state.delay_state.num_pushes.numpy(), [0, 3, 0])
    np.testing.assert_array_equal(state.controller_state.integral.numpy() != 0, [False, True, False])


def test_a_law_that_asks_for_the_unknown():
    class ClampingBroken(actuon.Clamping):
        law = asks_too_much

    with refused("ClampingBroken needs 'temperature', .*signals: dt, effort, feedforward, q, qd"):
        actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0), clamping=[ClampingBroken()])
    with refused("ControllerEager needs 'effort'"):
        actuon.Actuator([0], type("ControllerEager", (actuon.Controller,), {"law": takes_effort})())
    with refused("no controller"):
        actuon.Actuator([0], stages=[actuon.Delay(1, 1)])
    with refused("got arguments by kind as well"):
        actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0), stages=[actuon.ControllerPD(1.0, 1.0)])


@wp.func
def takes_effort(effort: float):
    return effort


@wp.func
def asks_too_much(effort: float, temperature: float):
    return effort * temperature


def test_components_without_law_or_kernel():
    class Nothing(actuon.Controller):
        pass

    actuator = actuon.Actuator([0], Nothing())
    sim = simulation({name: np.zeros(1, np.float32) for name in random_signals(1, np.random.default_rng())})
    with refused(r"Nothing has neither a stage function \(`law`\) nor its own compute", TypeError):
        actuator.step(sim, sim)
    with refused("Nothing has no config: implement resolve_arguments", TypeError):
        Nothing.resolve_arguments({})


def test_empty_actuator_does_nothing(rng):
    actuator = actuon.Actuator([], actuon.ControllerPID(1.0, 1.0, 1.0, 1.0), delay=actuon.Delay([], 3))
    sim = simulation(random_signals(2, rng))
    state = actuator.state()
    actuator.step(sim, sim, state, state, dt=0.1)
    state.reset()
    assert not sim.joint_f.numpy().any()


def test_nothing_is_left_over_when_a_device_is_missing():
    with refused("on 'cpu'; the actuator runs on"):
        from actuon.arrays import flat

        flat(np.zeros(3, np.float32), "sim_state.joint_q", SimpleNamespace(alias="cuda:0"))


def test_a_ring_that_would_fill_the_memory():
    delay = actuon.Delay(10_000, 10_000)
    with refused("Delay: got 10000 steps × 100000 DOFs; must be at most .* shorten the longest delay"):
        actuon.Actuator(range(100_000), actuon.ControllerPD(1.0, 0.0), delay=delay)


def test_messages_do_not_repeat_what_is_long():
    for value in ("high" * 10_000, [["x"] * 1000] * 100, 10**5000):
        with refused("kp: got") as caught:
            actuon.PDControlConfig(value, 0.0)
        assert len(str(caught.value)) < 10_000


def test_a_declared_maximum():
    declared = actuon.Field(unit="1", doc="A share.", minimum=0.0, maximum=1.0)
    assert declared.range == "finite and ≥ 0 and ≤ 1 [1]"
    declared.check("share", [0.0, 1.0])
    with refused("share: got 1.5 at index 1; must be finite and ≥ 0 and ≤ 1"):
        declared.check("share", [0.0, 1.5])
